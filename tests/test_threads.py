"""Threads that the event loop waits on: results, errors, jobs that are given up, and the end."""

import asyncio
from threading import Event, current_thread
from threading import enumerate as living

import pytest

from carrel.concurrency import Threads

pytestmark = pytest.mark.anyio


class Mishap(Exception):
    pass


def fail() -> None:
    raise Mishap


def names() -> set[str]:
    return {thread.name for thread in living() if thread.name.startswith("test-")}


async def test_results_and_errors_come_back_from_threads_that_start_with_the_first_job() -> None:
    threads = Threads("test-a", 2)
    assert names() == set()
    assert (await threads.begin(current_thread)).name in {"test-a-0", "test-a-1"}
    with pytest.raises(Mishap):
        await threads.begin(fail)
    assert await threads.begin(lambda: 3) == 3
    threads.close()
    assert names() == set()


async def test_a_job_that_is_given_up_before_its_turn_is_not_run() -> None:
    threads, go, run = Threads("test-b", 1), Event(), list[str]()
    first, second, third = (
        threads.begin(go.wait),
        threads.begin(lambda: run.append("second")),
        threads.begin(lambda: run.append("third")),
    )
    second.cancel()
    await asyncio.sleep(0)
    go.set()
    assert await first
    await third
    assert run == ["third"]
    threads.close()


async def test_what_is_done_too_late_does_no_harm() -> None:
    threads, go = Threads("test-c", 1), Event()
    answer = threads.begin(go.wait)
    answer.set_result(False)
    go.set()
    assert await threads.begin(lambda: 1) == 1
    assert await answer is False
    threads.close()


def test_a_loop_that_was_closed_meanwhile_is_no_error_and_closing_waits() -> None:
    threads, go, ended = Threads("test-d", 1), Event(), list[bool]()

    async def leave() -> None:
        threads.begin(lambda: ended.append(go.wait()))

    asyncio.run(leave())
    go.set()
    threads.close()
    assert ended == [True]
    assert names() == set()


def test_threads_that_had_nothing_to_do_are_closed_too() -> None:
    Threads("test-e", 2).close()
