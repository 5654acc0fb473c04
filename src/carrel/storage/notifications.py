"""What the processes over one database tell each other: that something has changed, never what.

A notice is sent with the commit of what it is about. Each process listens on a connection of its own. Where that
cannot be, behind a pooler without `database.direct_url`, its listeners are told every two seconds that anything may
have changed, and look for themselves; as they are after a connection was lost.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from carrel.storage.database import Database

if TYPE_CHECKING:
    from psycopg import AsyncConnection

Listener = Callable[[str, str], None]
"""Is told the kind of what has changed, and its key."""

ANY_CHANGE = "anything"
"""The kind of a notice for those who may have missed some."""
CONTENT_CHANGE = "content"
SEARCH_CHANGE = "search"
"""Its key is a collection."""

CHANNEL = "carrel"
NOTIFY = "SELECT pg_notify(:channel, :notice)"

NOTIFICATION_POLL_SECONDS = 2.0
RECONNECT_SECONDS = (0.1, 5.0)
"""After a first failure, and at most."""
KEEPALIVE_OPTIONS: dict[str, Any] = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}

log = logging.getLogger("carrel.storage")


def payload(kind: str, key: str) -> str:
    """A notice as it is sent."""
    return f"{kind} {key}"


class Notifications:
    """Between the processes of one PostgreSQL database; without a URL, as with SQLite, nobody is told anything."""

    def __init__(self, database: Database, url: str) -> None:
        self._database = database
        self._url = url
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        """From now on; `listener` is called in the event loop, and also for what this process itself tells."""
        self._listeners.append(listener)
        if self._url and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def tell(self, kind: str, key: str = "") -> None:
        """For what was committed already; within a transaction execute `NOTIFY`."""
        if self._url:
            given = {"channel": CHANNEL, "notice": payload(kind, key)}
            await self._database.write(lambda session: session.first(NOTIFY, given))

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _dispatch(self, kind: str, key: str = "") -> None:
        for listener in self._listeners:
            listener(kind, key)

    async def _run(self) -> None:
        import psycopg

        from carrel.storage.postgres import CONNECT_OPTIONS
        from carrel.storage.postgres_pool import is_pooled

        seconds = RECONNECT_SECONDS[0]
        while True:
            try:
                options = {**CONNECT_OPTIONS, **KEEPALIVE_OPTIONS, "prepare_threshold": None}
                connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True, **options)
                async with connection:
                    if await is_pooled(connection):
                        log.info("notices of other processes are looked for: database.direct_url is not set")
                        break
                    await connection.execute(f"LISTEN {CHANNEL}".encode())
                    seconds = RECONNECT_SECONDS[0]
                    await self._listen(connection)
            except psycopg.Error as error:
                log.debug("notices cannot be heard", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, RECONNECT_SECONDS[1])
        while True:
            self._dispatch(ANY_CHANGE)
            await asyncio.sleep(NOTIFICATION_POLL_SECONDS)

    async def _listen(self, connection: "AsyncConnection[Any]") -> None:
        self._dispatch(ANY_CHANGE)  # what was told before is not heard any more
        async for notice in connection.notifies():
            kind, _, key = notice.payload.partition(" ")
            self._dispatch(kind, key)
