"""JSON, TOML and YAML that attack whoever parses them: each is refused or read, in a moment."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from carrel.untrusted import Limits, Unreadable, load_json, load_toml, load_yaml

DEEP = 25_000
MAX_SECONDS = 10
"""What an attack would take without limits is minutes, or the process; what it takes is under a second."""

YAML = {
    "brackets": "x: " + DEEP * "[" + DEEP * "]",
    "braces": DEEP * "{" + DEEP * "}",
    "dashes": DEEP * "- " + "a",
    "question marks": DEEP * "? " + "a",
    "indentation": "\n".join(" " * depth + "k:" for depth in range(500)),
    "directives": "%TAG !a! b\n" * 20_000 + "--- a",
    "alias flood": "a: &a [x]\nb: [" + "*a," * 5000 + "]",
    "laughs": "a0: &a0 [x, x]\n" + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 4)}]" for n in range(1, 40)),
    "laughs, nested": "a0: &a0 x\n" + "\n".join(f"a{n}: &a{n} {'[' * 60}*a{n - 1}{']' * 60}" for n in range(1, 33)),
    "self": "a: &a [*a]",
    "whole number": "x: " + "9" * 200_000,
    "base 60": "x: 1" + ":1" * 100_000,
    "length": "x: '" + "a" * 300_000 + "'",
    "no UTF-8": b"x: \xff",
}
TOML = {
    "arrays": "x = " + "[" * DEEP,
    "inline tables": "x = " + "{a=" * DEEP,
    "dotted key": "a" + ".a" * 100_000 + " = 1",
    "dotted header": "[a" + ". a" * 50_000 + "]",
    "dotted key within a table": "x = {a" + ".a" * 100_000 + " = 1}",
    "whole number": "x = " + "9" * 200_000,
    "string without end": 'x = """' + '\\"' * 100_000,
    "length": "#" * 300_000,
}
JSON = {
    "arrays": "[" * 4_000_000,
    "objects": '{"a":' * 500_000,
    "deep, and complete": "[" * 900 + "]" * 900,
    "whole number": "9" * 1_000_000,
    "string without end": '"' + '\\"' * 1_500_000,
    "length": '"' + "a" * 5_000_000 + '"',
    "no UTF-8": b'"\xff"',
}
ATTACKS = [
    pytest.param(load, text, id=f"{kind}, {name}")
    for kind, load, texts in (("YAML", load_yaml, YAML), ("TOML", load_toml, TOML), ("JSON", load_json, JSON))
    for name, text in texts.items()
]


@pytest.mark.rule("common.input.untrusted")
@pytest.mark.parametrize(("load", "text"), ATTACKS)
def test_text_that_attacks_its_parser_is_refused_in_a_moment(load: Callable[[Any], Any], text: str | bytes) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable) as caught:
        load(text)
    assert time.process_time() - started < MAX_SECONDS
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.rule("common.input.untrusted")
def test_the_yaml_that_once_ended_the_process_does_not() -> None:
    program = (
        "import sys; from carrel.untrusted import *\ntry: load_yaml(sys.stdin.read())\nexcept Unreadable: print('ok')"
    )
    for text in (YAML["brackets"], YAML["dashes"], YAML["question marks"]):
        done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "ok"


@pytest.mark.rule("common.input.untrusted")
def test_text_within_the_limits_is_read_as_ever() -> None:
    assert load_json(b'\xef\xbb\xbf{"a": ["[", 1, {"b": "\\"{"}]}') == {"a": ["[", 1, {"b": '"{'}]}
    assert load_json("[" * 64 + "]" * 64) == json.loads("[" * 64 + "]" * 64)
    assert load_json(json.dumps(["[{" * 1000, '\\"[' * 1000])) == ["[{" * 1000, '\\"[' * 1000]
    text = 'a.b."c.d" = """[[[ " ... """\n[x]\n# [[[ . . .\ny = [1.5, 2.5, {z = \'...[\'}]\nv = "1.2.3.4"\n'
    assert load_toml(text) == {"a": {"b": {"c.d": '[[[ " ... '}}, "x": {"y": [1.5, 2.5, {"z": "...["}], "v": "1.2.3.4"}}
    assert load_toml("x = [" + "1.5, " * 500 + "]") == {"x": [1.5] * 500}
    text = "packages:\n  - 'a/*'\n  - !!str 1\nn: 3\nf: 1.5\nt: yes\nz:\nd: 2024-01-01\n? [a]\n: b\n"
    assert load_yaml(text) == {"packages": ["a/*", "1"], "n": 3, "f": 1.5, "t": True, "z": None, "d": "2024-01-01"}
    assert load_yaml("a: &a {k: v}\nb: *a\nc:\n  <<: *a\n") == {
        "a": {"k": "v"},
        "b": {"k": "v"},
        "c": {"<<": {"k": "v"}},
    }
    assert load_yaml("") is None


@pytest.mark.rule("common.input.untrusted")
def test_a_caller_may_set_other_limits() -> None:
    assert load_json("[[[1]]]", Limits(depth=3)) == [[[1]]]
    for load, text in ((load_json, "[[[[1]]]]"), (load_toml, "a = [[[[1]]]]"), (load_yaml, "[[[[1]]]]")):
        with pytest.raises(Unreadable, match="deeper than 3"):
            load(text, Limits(depth=3))
        with pytest.raises(Unreadable, match="over 5 characters"):
            load(text, Limits(characters=5))
    with pytest.raises(Unreadable, match="over 1 aliases"):
        load_yaml("a: &a 1\nb: *a\nc: *a", Limits(aliases=1))
