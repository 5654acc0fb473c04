"""The processes of grep_codebase: none outlives its search or its server."""

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

from carrel.code.file_access import DenyList
from carrel.code.grep.searcher import CodeSearcher, GrepResult, TimedOut
from tests.code_searches import ENDLESS, answer, files, write, write_paths

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree in which `ENDLESS` takes many times the time limit."""
    chance = random.Random(1)
    return write_paths(
        tmp_path_factory.mktemp("endless"), {"big.txt": "".join(chance.choices("abcdefgh" * 200 + "\n", k=4_000_000))}
    )


def descendants(pid: int = os.getpid(), name: str = "rg") -> list[psutil.Process]:
    """Those of a search, not what else a test run has started."""
    return [each for each in psutil.Process(pid).children(recursive=True) if each.name() == name]


def searching(pid: int, number: int = 1) -> list[psutil.Process]:
    """Its `rg` processes once there are as many."""
    while len(found := descendants(pid)) < number:
        os.sched_yield()
    return found


def guards(pid: int = os.getpid()) -> list[psutil.Process]:
    """What ends a server's searches when it is gone."""
    children = psutil.Process(pid).children()  # and not of the servers that other tests have running
    return [each for each in descendants(pid, "sh") if each in children and os.getpgid(each.pid) == each.pid]


@pytest.mark.rule("code.grep.time_limit")
async def test_past_the_time_limit_the_search_stops_and_its_processes_too(endless: Path) -> None:
    error = await answer(endless, ENDLESS, seconds=0.3)
    assert list(error) == ["error", "pattern", "details"]
    assert (error["error"], error["pattern"]) == ("Search timed out", ENDLESS)
    assert "filePattern" in error["details"]
    assert descendants() == []


@pytest.mark.rule("code.grep.cancelled")
async def test_a_cancelled_search_has_no_process_left_when_it_ends(endless: Path) -> None:
    task = asyncio.create_task(answer(endless, ENDLESS))
    await asyncio.to_thread(searching, os.getpid())
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert descendants() == []


@pytest.mark.rule("code.grep.cancelled")
async def test_a_search_in_a_scope_that_ends_has_no_process_left(endless: Path) -> None:
    with anyio.move_on_after(0.3) as scope:
        await answer(endless, ENDLESS)
    assert scope.cancelled_caught
    assert descendants() == []


SERVER = """
import asyncio, sys
from pathlib import Path
from carrel.code.file_access import DenyList
from carrel.code.grep.searcher import CodeSearcher

async def main(root, pattern, searches):
    search = CodeSearcher(Path(root), DenyList(), seconds=600).search
    options = {"file_pattern": None, "case_sensitive": False, "limit": 1}
    await asyncio.gather(*(search(pattern, **options) for _ in range(int(searches))))

asyncio.run(main(*sys.argv[1:]))
"""


def ended_within_a_second(endings: list[int]) -> bool:
    """Of descriptors of processes; each is readable once it has ended, reaped or not."""
    deadline = time.monotonic() + 1
    has_ended = True
    for ending in endings:
        readable, _, _ = select.select([ending], [], [], max(0, deadline - time.monotonic()))
        has_ended = has_ended and readable == [ending]
        os.close(ending)
    return has_ended


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks at processes as Linux does")
@pytest.mark.rule("code.grep.killed")
def test_no_process_outlives_a_server_that_is_killed(endless: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(endless), ENDLESS, "3"])
    try:
        left = [*searching(server.pid, 3), *guards(server.pid)]
        endings = [os.pidfd_open(each.pid) for each in left]
        assert [each.name() for each in left] == ["rg", "rg", "rg", "sh"]
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    assert ended_within_a_second(endings)


@pytest.mark.rule("code.grep.killed")
def test_a_server_that_ends_leaves_no_guard(tmp_path: Path) -> None:
    marker = "import os; from carrel.code.grep.ripgrep import guard\nprint(guard.group())"
    root = write(tmp_path, a="needle")
    command = [sys.executable, "-W", "error", "-c", f"{SERVER}\n{marker}", str(root), "needle", "2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert not psutil.pid_exists(int(done.stdout))
    assert done.stderr == ""


@pytest.mark.rule("code.grep.killed")
async def test_all_searches_have_one_guard_and_one_that_was_ended_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, a="needle")
    await asyncio.gather(*(files(tmp_path) for _ in range(3)))
    [first] = guards()
    first.kill()
    await asyncio.to_thread(os.waitid, os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    assert await files(tmp_path) == ["a"]
    [second] = guards()
    assert second.pid != first.pid


async def test_many_searches_at_once_all_answer_and_leave_nothing_open(tmp_path: Path) -> None:
    write_paths(tmp_path, {f"f{number}": "needle\n" * 3 for number in range(30)})
    searcher = CodeSearcher(tmp_path, DenyList(), seconds=60)
    await answer(tmp_path, "needle")  # for what is started once
    before = len(os.listdir("/dev/fd"))
    searches = (searcher.search("needle", file_pattern=None, case_sensitive=True, limit=100) for _ in range(30))
    for result in await asyncio.gather(*searches):
        assert isinstance(result, GrepResult)
        assert (result.total, len(result.matches)) == (90, 90)
    assert len(os.listdir("/dev/fd")) == before
    assert descendants() == []


async def test_a_search_that_waits_for_its_turn_past_its_time_is_told_so(endless: Path) -> None:
    searcher = CodeSearcher(endless, DenyList(), seconds=0.5)
    searches = (searcher.search(ENDLESS, file_pattern=None, case_sensitive=True, limit=1) for _ in range(12))
    for result in await asyncio.gather(*searches):
        assert result == TimedOut(0.5)
    assert descendants() == []
