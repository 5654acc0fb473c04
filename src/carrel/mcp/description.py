"""What an MCP server says about itself, whether the fast path or the SDK answers."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import USER_ARGUMENT

NAME = "carrel"
TITLE = "Carrel"
LIST_LIFETIME_MS = 300_000
"""How long a client may cache a list of tools or prompts."""

_subject: ContextVar[str | None] = ContextVar("subject", default=None)


@contextmanager
def on_behalf_of(subject: str) -> Generator[None]:
    """Serve the requests within the context on behalf of the subject of an access token."""
    before = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(before)


@dataclass(frozen=True)
class ServerDescription:
    """The tools of one endpoint, and what clients are told about the server behind it."""

    pipeline: Pipeline
    version: str
    instructions: str
    has_channel: bool = False
    """Whether clients of before 2026-07-28 can be sent what they did not ask for, and are remembered, as over stdio."""
    is_shared: bool = True
    """Whether every caller sees the same tools."""

    @property
    def server_info(self) -> dict[str, str]:
        return {"name": NAME, "title": TITLE, "version": self.version}

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        return "public" if self.is_shared else "private"

    def current_instructions(self) -> str:
        """The instructions; they name the user that the request's token speaks for, if a tool takes a user."""
        subject = _subject.get()
        if subject is None or not self._names_user:
            return self.instructions
        return f"{self.instructions}\nThe user is {json.dumps(subject, ensure_ascii=False)}: that is their user_id."

    def capabilities(self, *, is_modern: bool) -> dict[str, Any]:
        """The `ServerCapabilities` of the handlers that `carrel.mcp.sdk.server` registers, keys in the SDK's order."""
        has_resources = self.pipeline.resources is not None
        has_prompts = bool(self.pipeline.prompts)
        can_listen = is_modern and has_resources
        found: dict[str, Any] = {}
        if has_prompts or has_resources:
            found["completions"] = {}
        if has_prompts:
            found["prompts"] = {"listChanged": can_listen}
        if has_resources:
            found["resources"] = {"listChanged": can_listen, "subscribe": can_listen or self.has_channel}
        found["tools"] = {"listChanged": can_listen}
        return found

    @cached_property
    def _names_user(self) -> bool:
        return any(USER_ARGUMENT in each["inputSchema"]["properties"] for each in self.pipeline.definitions)
