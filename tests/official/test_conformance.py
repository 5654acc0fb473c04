"""The official conformance suite, against Carrel's own HTTP app."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from .run_conformance import REVISIONS, run

# What the suite can ask of a server that has none of its test tools.
WITHOUT_FIXTURES = {
    "2026-07-28": {"tools-list", "dns-rebinding-protection", "http-header-validation"},
    "2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("conformance")
    words = [sys.executable, "-m", "tests.official.conformance_app", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_required_scenario_passes(app: str, revision: str) -> None:
    required = {name: outcome for name, outcome in run(f"{app}/conformance/mcp", revision).items() if outcome.required}
    assert len(required) >= 30
    assert {name: outcome for name, outcome in required.items() if not outcome.passed} == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_carrels_own_endpoint_passes_what_needs_no_test_tools(app: str, revision: str) -> None:
    outcomes = run(f"{app}/mcp", revision)
    assert {name: outcomes[name] for name in WITHOUT_FIXTURES[revision] if not outcomes[name].passed} == {}
