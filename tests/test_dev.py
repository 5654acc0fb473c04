"""dev.py: what each of its verbs does, and nothing else."""

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import PROGRAMS

ROOT = Path(__file__).parents[1]
DEMO = """
from carrel.cli.demo import _print, _print_call
from carrel.demo.sample_calls import SampleCall
_print("Carrel: a sample workspace is in a folder")
_print_call(SampleCall("Open tasks", "list_tasks", {"user_id": "demo"}, ["[ ] Order wheat"]))
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


STEPS = ("install", "install_programs", "install_node_packages", "lint", "pytest")


@pytest.fixture
def steps(dev: dict[str, Any]) -> list[str]:
    """The steps that are taken, in their order, without taking them."""
    taken: list[str] = []

    def step(name: str) -> Callable[..., None]:
        return lambda *words: taken.append(" ".join([name, *words]))

    for name in STEPS:
        dev[name] = step(name)
    dev["missing_programs"] = list
    return taken


def test_plain_test_does_everything(dev: dict[str, Any], steps: list[str]) -> None:
    dev["main"]("test")
    assert {step.partition(" ")[0] for step in steps} == set(STEPS)
    assert steps[-1] == "pytest -n 3 --dist worksteal --durations=15 --cov --cov-report="


def test_the_floor_of_coverage_is_that_of_all_tests(dev: dict[str, Any], steps: list[str]) -> None:
    dev["missing_programs"] = lambda: PROGRAMS[:1]
    dev["main"]("test")
    assert steps[-1].endswith("--cov-fail-under=0")


def test_fast_installs_no_programs_and_measures_nothing(dev: dict[str, Any], steps: list[str]) -> None:
    dev["main"]("test", "--fast")
    assert steps == ["lint", "pytest -n 3 --dist worksteal -m not slow --ignore=tests/official"]


@pytest.mark.parametrize(
    ("words", "needs_node"),
    [
        (["tests/test_stdio.py", "-k", "signal"], False),
        (["tests/test_stdio.py::test_x", "tests/browser/test_shell.py"], False),
        (["tests/official"], True),
        (["tests/official/test_clients.py::test_x"], True),
        (["tests/browser"], True),
        (["tests/test_packages.py"], True),
        (["tests"], True),
        (["-k", "signal"], True),
    ],
)
def test_chosen_tests_are_run_and_nothing_else(
    dev: dict[str, Any], steps: list[str], words: list[str], needs_node: bool
) -> None:
    dev["main"]("test", *words)
    node = ["install_node_packages"] if needs_node else []
    assert steps == ["install test", *node, f"pytest {' '.join(words)}"]


def test_every_file_that_uses_node_packages_is_known(dev: dict[str, Any]) -> None:
    found = (
        path for path in (ROOT / "tests").rglob("test_*.py") if "official.nodejs import" in path.read_text("utf-8")
    )
    users = {path.relative_to(ROOT).as_posix() for path in found if path.name != "test_dev.py"}
    assert users == set(dev["NODE_PACKAGE_USERS"]) - {"tests/official"}


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)


@pytest.mark.parametrize(("user", "has_sudo"), [(0, False), (1000, True)])
def test_programs_are_installed_by_apt_get_and_one_that_there_is_not_is_a_warning(
    dev: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    user: int,
    has_sudo: bool,
) -> None:
    """With programs in the place of apt-get and sudo that note down how they are called."""
    note = f'echo "$DEBIAN_FRONTEND $RUNLEVEL: $*" >> {tmp_path}/asked; case "$*" in *chromium*) exit 100;; esac'
    executable(tmp_path / "bin" / "apt-get", note)
    if has_sudo:
        executable(tmp_path / "bin" / "sudo", f'echo "sudo $*" >> {tmp_path}/sudo; shift; exec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: user)
    dev["missing_programs"] = lambda: [each for each in PROGRAMS if each.name in ("chromium", "nginx")]
    dev["install_programs"]()
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    start = "noninteractive 1: -o DPkg::Lock::Timeout=120"
    installing = f"{start} install -qq --no-install-recommends"
    assert asked == [
        f"{start} update -qq",
        f"{installing} chromium nginx-light",
        f"{installing} chromium",
        f"{installing} nginx-light",
    ]
    assert capfd.readouterr().err.count("warning: ") == 2
    assert (tmp_path / "sudo").exists() == has_sudo


def test_where_nothing_can_be_installed_that_is_said(
    dev: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    executable(tmp_path / "bin" / "apt-get", f"touch {tmp_path}/asked")
    executable(tmp_path / "bin" / "sudo", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    dev["missing_programs"] = lambda: [each for each in PROGRAMS if each.name == "nginx"]
    dev["install_programs"]()
    assert "nginx; tests that need them are skipped" in capfd.readouterr().err
    assert not (tmp_path / "asked").exists()


def test_without_a_program_the_tests_that_need_it_are_skipped_and_the_last_line_says_how_to_get_it(
    tmp_path: Path,
) -> None:
    words = ["tests/test_startup.py", "-k", "projects_git", "-q", "-p", "no:xdist"]
    env = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    *_, counts, last = done.stdout.splitlines()
    assert counts.startswith("1 skipped")
    assert last.startswith("git is not installed (1 test skipped;")
    assert "apt-get install git" in last


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


def test_the_workflows_run_tests_that_there_are() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert {"run": ".ci/run"} in jobs["linux"]["steps"]
    files = jobs["portable"]["env"]["PORTABLE"].split()
    assert [name for name in files if not (ROOT / name).is_file()] == []
    supported = [
        each.rpartition(" ")[2]
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]
    for job in jobs.values():
        assert job["strategy"]["matrix"]["python"] == supported


def test_no_test_file_is_longer_than_500_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert [path.name for path, length in lengths.items() if length > 500] == []
