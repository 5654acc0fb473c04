"""What a server does when another process over the same database has changed something."""

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from carrel.storage.database import Database, Location, PostgresLocation
from carrel.storage.notifications import ANY_CHANGE, CONTENT_CHANGE, SEARCH_CHANGE, Notifications

if TYPE_CHECKING:
    from carrel.search.engine import SearchEngine

log = logging.getLogger("carrel.workspace")


def open_notices(location: Location, database: Database, stack: AsyncExitStack) -> Notifications:
    notices = Notifications(database, location.direct if isinstance(location, PostgresLocation) else "")
    stack.push_async_callback(notices.close)
    return notices


def await_content(notices: Notifications) -> None:
    """Say once that content has come which this server, having started without any, does not serve."""
    warned: list[str] = []

    def on_notification(kind: str, _key: str) -> None:
        if kind == CONTENT_CHANGE and not warned:
            warned.append(kind)
            log.warning("there is content now, which this server does not serve: restart it")

    notices.listen(on_notification)


def follow_search(notices: Notifications, engine: "SearchEngine") -> None:
    """Embed at once what another process has put into the index; else it is looked for every two seconds."""

    def on_notification(kind: str, key: str) -> None:
        if kind in (SEARCH_CHANGE, ANY_CHANGE):
            engine.on_remote_change(key or None)

    notices.listen(on_notification)
