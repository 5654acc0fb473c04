"""Every benchmark runs at smoke size and prints its table, and the published tables say where they come from."""

import ast
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import required

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
NOT_FINITE = re.compile(r"(?<!\w)(?:nan|inf)(?!\w)", re.IGNORECASE)
PROVENANCE = re.compile(r"\d{4}-\d{2}-\d{2}, commit `[0-9a-f]{7,}`.*`python3 dev\.py bench \w+")


def calls_options(path: Path) -> bool:
    """Whether a file is a program that somebody starts: it takes the options that all of them take."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "options.parse" for node in ast.walk(parsed(path))
    )


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if calls_options(path))


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every Markdown table."""
    found: list[list[list[str]]] = []
    is_inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            is_inside = False
            continue
        if not is_inside:
            found.append([])
            is_inside = True
        found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def environment() -> dict[str, str]:
    """With bytecode kept, as `dev.py` does: many programs are started."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
    if own.get("PYTHONDONTWRITEBYTECODE"):
        own |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / ".dev" / "bytecode")}
    return own


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_benchmark_prints_its_table(name: str, tmp_path: Path) -> None:
    if name == "page":
        required("chromium")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--smoke", "--json", tmp_path / "measured.json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = tables(done.stdout)
    assert found, done.stdout
    for head, rule, *rows in found:
        assert len(head) > 1
        assert all(set(cell) <= {"-", ":"} for cell in rule), rule
        assert rows, f"a table without rows: {head}"
        for row in rows:
            assert len(row) == len(head), row
            assert any(NUMBER.search(cell) for cell in row[1:]), row
            assert not any(NOT_FINITE.search(cell) for cell in row), row
            assert all(math.isfinite(float(each.replace(",", ""))) for cell in row for each in NUMBER.findall(cell))
    assert (tmp_path / "measured.json").read_text(encoding="utf-8").strip()


def test_every_file_is_reached_by_a_benchmark() -> None:
    """By an import, or by its name in what starts it."""
    files = {path.name: path for path in FOLDER.iterdir() if path.suffix in (".py", ".mjs")}
    reached: set[str] = set()
    waiting = [f"{name}.py" for name in PROGRAMS]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += mentioned(files[name]) & files.keys() if name.endswith(".py") else []
    assert reached == files.keys()


def mentioned(path: Path) -> set[str]:
    """Names of files that a module imports, or names in a string."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import():
                found |= {f"{each.name}.py" for each in node.names}
            case ast.ImportFrom(module=str(module)):
                found.add(f"{module}.py")
            case ast.Constant(value=str(text)):
                found.add(text)
            case _:
                pass
    return found


def test_a_report_has_every_benchmark() -> None:
    """`bench all` names all programs but itself, and RESULTS.md has a place for each."""
    names = re.findall(r'^    "(\w+)": Report\(', (FOLDER / "all.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == [name for name in PROGRAMS if name != "all"]
    text = (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- bench:(\w+) -->", text)) == sorted(names)
    assert sorted(re.findall(r"<!-- /bench:(\w+) -->", text)) == sorted(names)


@pytest.mark.parametrize("page", ["benchmarks/RESULTS.md", "docs/compare.md"])
def test_measured_tables_name_their_date_and_commit(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- bench:\w+ -->\n(.*?)<!-- /bench:\w+ -->", text, re.DOTALL)
    assert blocks
    for block in blocks:
        assert PROVENANCE.search(block.partition("\n")[0]), block[:200]
    rest = re.sub(r"<!-- bench:\w+ -->\n.*?<!-- /bench:\w+ -->", "", text, flags=re.DOTALL)
    if page.startswith("benchmarks"):
        assert not tables(rest), "a table outside of the markers cannot be written anew"


@pytest.mark.parametrize("page", ["benchmarks/RESULTS.md", "docs/compare.md"])
def test_pages_name_no_registry_and_no_path_of_the_machine(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"file://|https?://[^/\s)]*(?:registry|pypi|/simple\b)", text)
    assert not re.search(r"(?<![\w.)])/(?:home|opt|private|root|srv|tmp|Users|var|work)/", text)
