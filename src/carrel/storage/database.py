"""The interface of a database to the domains, and its location as `database.url` gives it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from carrel.errors import SettingsError
from carrel.storage.sql_syntax import Syntax


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    path: Path

    def __str__(self) -> str:
        return f"SQLite, {self.path.name}"


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    url: str
    direct_url: str = ""
    """The same database without a pooler in between."""
    replica_url: str = ""
    """A streaming replica of it."""

    @property
    def direct(self) -> str:
        """The URL for long transactions, advisory locks and LISTEN, which a pooler would break."""
        return self.direct_url or self.url

    def __str__(self) -> str:
        """Return the database's name and host, never the password."""
        parts = urlsplit(self.url)
        name = parts.path.lstrip("/") or "default database"
        return f"PostgreSQL, {name} at {parts.hostname or 'local socket'}"


Location = SqliteLocation | PostgresLocation
POSTGRES_SCHEMES = ("postgresql", "postgres")


def locate(url: str, folder: Path, *, direct_url: str = "", replica_url: str = "") -> Location:
    scheme, separator, rest = url.partition("://")
    if scheme in POSTGRES_SCHEMES and separator:
        return PostgresLocation(
            f"postgresql://{rest}",
            _postgres_url("direct_url", direct_url),
            _postgres_url("replica_url", replica_url),
        )
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        if direct_url or replica_url:
            name = "direct_url" if direct_url else "replica_url"
            raise SettingsError(f"database.{name} is of use with PostgreSQL only, and database.url is SQLite")
        return SqliteLocation(folder / unquote(rest[1:]))
    raise SettingsError(
        f"database.url must start with sqlite:/// or postgresql://, not {scheme + separator!r}"
        if separator
        else "database.url must be sqlite:///FILE or postgresql://USER@HOST/NAME"
    )


def _postgres_url(name: str, url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not url:
        return ""
    if scheme in POSTGRES_SCHEMES and separator:
        return f"postgresql://{rest}"
    raise SettingsError(f"database.{name} must start with postgresql://")


Row = tuple[Any, ...]
Parameters = Mapping[str, object]
T = TypeVar("T")


class Session(Protocol):
    """A connection for one unit of work. SQL has `:name` parameters."""

    @property
    def syntax(self) -> Syntax: ...

    async def all(self, sql: str, parameters: Parameters) -> list[Row]: ...

    async def first(self, sql: str, parameters: Parameters) -> Row | None: ...

    def expect_slow(self) -> None:
        """Announce that the next statements may be slow, depending on their parameters: they run off the event loop,
        and each is planned for its own parameters."""
        ...


Work = Callable[[Session], Awaitable[T]]


class Database(Protocol):
    """A database. Both engines raise only `StoreError` for their failures."""

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
        """Whether a write could start now without waiting for a lock."""
        ...

    async def close(self) -> None:
        """Close all connections; later calls raise `StoreUnavailable`."""
        ...
