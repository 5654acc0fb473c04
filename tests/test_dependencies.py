"""What is imported is declared, and constraints.txt has a tested version of all that is declared."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def normalized(requirement: str) -> str:
    """The name of a requirement, as PyPI compares names."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """What comes with the package or one of its extras."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    return {normalized(each) for group in (PROJECT["project"]["dependencies"], *extras) for each in group}


def imported_packages() -> Iterator[tuple[str, str]]:
    """Each package of others that a module of ours imports, wherever in the module it does."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    modules = [alias.name for alias in node.names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(module))]):
                    modules = [module]
                case _:
                    continue
            for package in {module.partition(".")[0] for module in modules} - {"carrel", *sys.stdlib_module_names}:
                yield package, str(path.relative_to(ROOT))


def test_every_package_that_is_imported_is_declared() -> None:
    distributions = packages_distributions()
    imported = set(imported_packages())
    assert {"jwt", "onnxruntime", "psycopg", "yaml"} <= {package for package, _ in imported}
    undeclared = [
        (package, path)
        for package, path in sorted(imported)
        if declared().isdisjoint(map(normalized, distributions.get(package, [])))
    ]
    assert undeclared == []


def test_constraints_are_plain_versions() -> None:
    """No address, no path, no option: the file says what was tested, not where it came from."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*|[A-Za-z0-9][\w.-]*==[\w.!+]+", line), line


def test_constraints_have_everything_that_is_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constrained = {normalized(line) for line in lines if not line.startswith("#")}
    groups = {normalized(each) for group in PROJECT["dependency-groups"].values() for each in group}
    assert (declared() | groups) - constrained == set()
