"""How checks run: within a time, each by itself."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.doctor.checks import Check, CheckContext, Finding, ok, run
from carrel.settings import Settings
from carrel.workspace import Workspace


@pytest.fixture
def context(tmp_path: Path) -> CheckContext:
    return CheckContext(Workspace(tmp_path, Settings()), {})


@pytest.mark.rule("operations.doctor.never_hangs")
def test_a_check_that_never_ends_is_a_finding_and_holds_no_other_up(context: CheckContext) -> None:
    never = threading.Event()

    def stuck(_context: CheckContext) -> Iterator[Finding]:
        never.wait()
        yield ok("stuck", "")

    waited: list[list[str]] = []
    checks = [Check("stuck", stuck, "pull it out"), Check("quick", lambda _: [ok("quick", "done")])]
    found = run(checks, context, lambda names: waited.append(list(names)), seconds=1.2)
    never.set()
    assert found == [Finding("stuck", "problem", "no answer within 1.2 seconds", "pull it out"), ok("quick", "done")]
    assert waited == [["stuck"]]


@pytest.mark.rule("operations.doctor.unexpected")
def test_a_check_that_fails_unforeseen_is_a_finding_and_the_others_go_on(context: CheckContext) -> None:
    def broken(_context: CheckContext) -> Iterator[Finding]:
        raise ZeroDivisionError("division\nby zero")

    found = run([Check("broken", broken), Check("quick", lambda _: [ok("quick", "")])], context, lambda _: None)
    assert (found[0].state, found[0].seen) == ("problem", "could not be checked: ZeroDivisionError: division by zero")
    assert found[1] == ok("quick", "")
