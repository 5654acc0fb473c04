"""The manifest of contract rules and the tests that show them, held together in both directions."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def _rules() -> Iterator[str]:
    for path in sorted((HERE / "requirements").glob("*.toml")):
        for section, rules in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name, text in rules.items():
                assert isinstance(text, str)
                yield f"{path.stem}.{section}.{name}"


def _named_by_tests() -> Iterator[tuple[str, str]]:
    for path in sorted(HERE.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rule":
                for argument in node.args:
                    yield ast.literal_eval(argument), path.name


def test_every_rule_has_a_test() -> None:
    shown = {rule for rule, _ in _named_by_tests()}
    assert [rule for rule in _rules() if rule not in shown] == []


def test_every_rule_that_a_test_names_is_in_the_manifest() -> None:
    known = set(_rules())
    assert [(rule, place) for rule, place in _named_by_tests() if rule not in known] == []
