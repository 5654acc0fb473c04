"""What is opened late is opened once, when it is needed or soon after the start, and is tried again when it fails."""

import asyncio

import pytest

from carrel import concurrency
from carrel.concurrency import Deferred


def test_it_is_opened_once_however_many_ask_at_once() -> None:
    async def main() -> None:
        times: list[str] = []

        async def opener() -> str:
            times.append("opened")
            await asyncio.sleep(0)
            return "value"

        late = Deferred(opener)
        heard: list[str] = []
        late.when_open(heard.append)
        assert (times, heard) == ([], [])
        assert await asyncio.gather(late.get(), late.get()) == ["value", "value"]
        late.when_open(heard.append)
        assert (times, heard) == (["opened"], ["value", "value"])

    asyncio.run(main())


def test_it_is_opened_soon_if_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "BACKGROUND_DELAY_SECONDS", 0.01)

    async def main() -> None:
        is_open = asyncio.Event()

        async def opener() -> None:
            is_open.set()

        late = Deferred(opener)
        late.start_in_background()
        async with asyncio.timeout(5):
            await is_open.wait()
        await late.close()

    asyncio.run(main())


def test_a_caller_that_gives_up_does_not_stop_it_from_being_opened() -> None:
    async def main() -> None:
        may_open = asyncio.Event()

        async def opener() -> str:
            await may_open.wait()
            return "value"

        late = Deferred(opener)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await late.get()
        may_open.set()
        assert await late.get() == "value"

    asyncio.run(main())


def test_what_could_not_be_opened_is_tried_again_by_the_next_who_asks() -> None:
    async def main() -> None:
        outcomes = iter([OSError("no"), None])

        async def opener() -> str:
            if (error := next(outcomes)) is not None:
                raise error
            return "value"

        late = Deferred(opener)
        with pytest.raises(OSError, match="no"):
            await late.get()
        assert await late.get() == "value"

    asyncio.run(main())


def test_a_failure_in_the_background_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(concurrency, "BACKGROUND_DELAY_SECONDS", 0.0)

    async def main() -> None:
        async def opener() -> None:
            raise OSError("no")

        late = Deferred(opener)
        late.start_in_background()
        await asyncio.sleep(0.05)

    asyncio.run(main())
    assert ["could not be opened" in record.message for record in caplog.records] == [True]


def test_nothing_is_opened_any_more_once_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "BACKGROUND_DELAY_SECONDS", 0.0)

    async def main() -> None:
        times: list[str] = []

        async def opener() -> None:
            times.append("begun")
            await asyncio.sleep(3600)

        first, second = Deferred(opener), Deferred(opener)
        first.start_in_background()
        await first.close()
        second.start_in_background()
        await asyncio.sleep(0.05)
        assert times == ["begun"]
        await second.close()

    asyncio.run(main())


def test_what_is_being_opened_when_it_closes_is_given_up_and_can_clean_up() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def opener() -> None:
            steps.append("opening")
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("cleaned up")

        late = Deferred(opener)
        late.start_in_background()
        asking = asyncio.create_task(late.get())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await late.close()
        assert steps == ["opening", "cleaned up"]
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(main())
