"""Notifications between the processes over one PostgreSQL database (LISTEN/NOTIFY): that something changed, never what.

A notification is sent with the commit that it is about. Each process listens on a connection of its own. Behind a
pooler without `database.direct_url`, LISTEN does not work: listeners then get `ANY_CHANGE` every two seconds and check
for themselves, as they do after a lost connection.
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
"""Called with the kind of change and its key."""

ANY_CHANGE = "anything"
"""The kind for listeners that may have missed notifications."""
CONTENT_CHANGE = "content"
SEARCH_CHANGE = "search"
"""The search index changed; the key is a collection."""

CHANNEL = "carrel"
NOTIFY = "SELECT pg_notify(:channel, :notice)"

NOTIFICATION_POLL_SECONDS = 2.0
RECONNECT_SECONDS = (0.1, 5.0)
"""The first and the longest delay between attempts to connect."""
KEEPALIVE_OPTIONS: dict[str, Any] = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}

log = logging.getLogger("carrel.storage")


def payload(kind: str, key: str) -> str:
    """Return the payload of a notification."""
    return f"{kind} {key}"


class Notifications:
    """Notifications between processes over PostgreSQL; without a URL, as with SQLite, nothing is sent or received."""

    def __init__(self, database: Database, url: str) -> None:
        self._database = database
        self._url = url
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        """Call `listener` in the event loop for each notification, including those of this process."""
        self._listeners.append(listener)
        if self._url and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def tell(self, kind: str, key: str = "") -> None:
        """Send a notification about a change already committed; within a transaction, execute `NOTIFY` instead."""
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
        self._dispatch(ANY_CHANGE)  # notifications sent before LISTEN are lost
        async for notice in connection.notifies():
            kind, _, key = notice.payload.partition(" ")
            self._dispatch(kind, key)
