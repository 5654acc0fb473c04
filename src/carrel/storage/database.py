"""What a store is to the domains above it, whichever engine stands behind it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from carrel.storage.syntax import Syntax

Row = tuple[Any, ...]
Parameters = Mapping[str, object]
T = TypeVar("T")


class Session(Protocol):
    """A connection for the length of one piece of work. SQL is written with `:name` parameters."""

    @property
    def syntax(self) -> Syntax: ...

    async def all(self, sql: str, parameters: Parameters) -> list[Row]: ...

    async def first(self, sql: str, parameters: Parameters) -> Row | None: ...

    def expect_slow(self) -> None:
        """Say that the statements from here on may take long, by their parameters: no event loop waits for them, and
        each is planned for its own."""
        ...


Work = Callable[[Session], Awaitable[T]]


class Database(Protocol):
    """Both engines raise nothing but `StoreError` for what goes wrong inside them."""

    async def read(self, work: Work[T]) -> T:
        """Run `work`, which must not write. It may run a second time: when it takes long, or loses its connection."""
        ...

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        """Run `work` as `read` does, over one unchanging view of the data in a transaction that cannot write.

        A statement that takes longer than `seconds` is ended by the engine: `StoreTimeout`.
        """
        ...

    async def write(self, work: Work[T]) -> T:
        """Run `work` in one transaction. When this returns, all of it is kept; when it raises, none is,
        unless the connection was lost or the caller cancelled during the commit itself: then all or none.

        A statement that fails ends the transaction, also when `work` goes on from there.
        """
        ...

    async def ping(self) -> None:
        """Raise `StoreUnavailable` unless the engine answers."""
        ...

    async def can_write(self) -> bool:
        """Whether a write would not have to wait for somebody who holds all others up."""
        ...

    async def close(self) -> None:
        """Give back everything; a call after this is `StoreUnavailable`."""
        ...
