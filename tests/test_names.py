"""Module names: nouns, and each of them once, so that a listing of folders explains the architecture."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

NOUNS_IN_ING = {
    "tracing": "OpenTelemetry's word for the subject",
    "ranking": "information retrieval's word for the order of results",
    "substring": "not a gerund",
}
"""The last words that a module's name may have although they end in -ing, each with its reason."""

SIBLING_MODULES = {
    "toolset": "one for each package of carrel.toolsets, and their base class in carrel.mcp",
    "dialect": "a toolset's tools under other names, for each toolset that has a contract",
    "handlers": "the calls of a toolset that is too big for one module",
}
"""The names that several modules of src/carrel share, because they are the same part of sibling packages."""


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.stem != "__init__":
                yield path.relative_to(ROOT)


def test_modules_are_named_by_nouns() -> None:
    gerunds = [
        str(path)
        for path in modules("src/carrel", "tests", "benchmarks")
        if path.stem.endswith("ing") and path.stem.rpartition("_")[2] not in NOUNS_IN_ING
    ]
    assert gerunds == [], "name a module after what it holds"


def test_no_two_modules_share_a_name() -> None:
    paths = defaultdict[str, list[str]](list)
    for path in modules("src/carrel"):
        paths[path.stem].append(str(path))
    shared = {name: found for name, found in paths.items() if len(found) > 1 and name not in SIBLING_MODULES}
    assert shared == {}, "modules with one name are either one module or have two names"
