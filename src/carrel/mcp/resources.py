"""What a toolset has to read besides its tools: MCP resources, with completion and notifications of changes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

MAX_COMPLETIONS = 100

Listener = Callable[[Sequence[str], bool], None]
"""Is told the URIs of resources that have changed, and whether there are others now."""


class ResourceEntry(NamedTuple):
    uri: str
    name: str
    title: str


class Completions(NamedTuple):
    values: list[str]
    total: int


class Resources(Protocol):
    """Resources of one kind."""

    template: str
    """Their URIs, with one variable in braces."""
    name: str
    description: str
    mime_type: str

    async def list_after(self, after: str, limit: int) -> list[ResourceEntry]:
        """In order, those behind the URI `after`, or from the first one on."""
        ...

    async def read(self, uri: str) -> str | None: ...

    async def completions(self, start: str, limit: int) -> Completions:
        """Values that the variable may have."""
        ...

    def listen(self, listener: Listener) -> None: ...

    def watch(self) -> Callable[[], None]:
        """Somebody is to be told from now on, until what this returns is called: others' changes are worth a look."""
        ...
