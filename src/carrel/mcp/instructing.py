"""What a server tells a client's model about itself, and whom it acts for."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcp.server.lowlevel import Server

_subject: ContextVar[str | None] = ContextVar("subject", default=None)


@contextmanager
def acting_for(subject: str) -> Generator[None]:
    before = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(before)


class InstructingServer(Server[Any]):
    """Its instructions name the user that the request's token speaks for: calls that take a user take that one."""

    names_user = False
    _instructions: str | None = None

    @property
    def instructions(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride] - read at each request
        subject = _subject.get()
        if subject is None or not self.names_user:
            return self._instructions
        return f"{self._instructions}\nThe user is {json.dumps(subject, ensure_ascii=False)}: that is their user_id."

    @instructions.setter
    def instructions(self, text: str | None) -> None:
        self._instructions = text
