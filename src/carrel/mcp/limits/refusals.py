"""The one place that every refused request and every connection that was cut goes by."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

log = logging.getLogger("carrel.limits")

Listener = Callable[[str, str], None]
"""Is told the setting that something was refused by, and the client."""

_listeners: list[Listener] = []
"""Of this process: uvicorn makes the protocols that tell them, and gives them nothing of ours."""


def refused(limit: str, client: str, status: int = 0) -> None:
    """`limit` is the setting that it was refused by, `status` what the client was answered; 0 for nothing.

    Calls that are refused by their rate or number are not told here: they are answers, which the pipeline's observers
    see as `limited`.
    """
    log.info("refused", extra={"fields": {"limit": limit, "client": client, "status": status}})
    for listener in _listeners:
        listener(limit, client)


@contextmanager
def heard_by(listener: Listener) -> Generator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
