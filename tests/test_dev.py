"""dev.py: the README's two commands say how long each of their steps took."""

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DEMO = """
from carrel.cli.demo import _say, _say_call
from carrel.demo.showing import Shown
_say("Carrel: a sample workspace is in a folder")
_say_call(Shown("What is open on the list", "list_tasks", {"user_id": "demo"}, ["[ ] Order wheat"]))
"""
"""What the demo prints, as it prints it, without the seconds that it takes; CI runs it whole before the tests."""


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The script's own names, keeping what it notes down in a folder of the test."""
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = runpy.run_path(str(ROOT / "dev.py"), run_name="dev")
    names["main"].__globals__["STATE"] = tmp_path / ".dev"
    return names["main"].__globals__


def test_the_first_command_is_timed_up_to_its_first_result(
    dev: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dev["install"] = lambda *_groups: None  # what the tests run in has it all
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{DEMO}", encoding="utf-8")
    python.chmod(0o700)
    dev["python"] = lambda: str(python)
    with pytest.raises(SystemExit) as end:
        dev["main"]("run", "demo", "--print-only")
    assert end.value.code == 0
    out, err = capfd.readouterr()
    assert "list_tasks" in out
    noted = json.loads((tmp_path / ".dev" / "timings.json").read_text(encoding="utf-8"))
    assert list(noted) == ["first result shown", "demo ended"]
    for step, seconds in noted.items():
        assert f"dev: {step} in {seconds:.1f} s\n" in err


def test_running_installs_what_running_needs_and_testing_all(dev: dict[str, Any], tmp_path: Path) -> None:
    asked: list[str] = []
    dev["run"] = lambda *words, **_environment: asked.append(" ".join(words))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dev["install"]()
    assert asked[0].endswith("--editable .")
    dev["install"]()
    assert len(asked) == 1, "once is enough"
    dev["install"]("test")
    assert ",".join(project["project"]["optional-dependencies"]) in asked[1]
    for requirement in project["dependency-groups"]["test"]:
        assert requirement in asked[1]
    for stamp in (tmp_path / ".dev").glob("python--*"):
        stamp.unlink()
    dev["install"]()
    assert len(asked) == 2, "what tests need is more than what running needs"
    noted = json.loads((tmp_path / ".dev" / "timings.json").read_text(encoding="utf-8"))
    assert list(noted) == ["packages for running installed", "packages for tests installed"]


@pytest.mark.parametrize("wish", ["1", ""])
def test_what_is_compiled_for_the_tests_is_kept_but_not_beside_the_sources_where_that_is_unwanted(
    dev: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", wish)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    (tmp_path / "module.py").touch()
    words = [sys.executable, "-c", "import module"]
    subprocess.run(words, cwd=tmp_path, env=os.environ | dev["compiled"](), check=True)
    (found,) = tmp_path.rglob("module.*.pyc")
    assert found.is_relative_to(tmp_path / (".dev/bytecode" if wish else "__pycache__"))


def test_ci_runs_both_commands_of_the_readme() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(python3 dev.py .+)\n```", readme)
    assert commands == ["python3 dev.py run demo --print-only", "python3 dev.py test"]
    assert [line for line in lines if line and not line.startswith("#")] == [
        "set -eu",
        'cd "$(dirname "$0")/.."',
        *commands,
    ]
