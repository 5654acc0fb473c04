"""Where a database is: what `database.url` says, understood."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from carrel.errors import SettingsError


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    path: Path

    def __str__(self) -> str:
        return f"SQLite, {self.path.name}"


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    url: str
    direct_url: str = ""
    """The same database past any pooler."""
    replica_url: str = ""
    """A streaming replica of it."""

    @property
    def direct(self) -> str:
        """For what takes a connection of its own: long transactions, locks, and being told of changes."""
        return self.direct_url or self.url

    def __str__(self) -> str:
        """Never the password."""
        parts = urlsplit(self.url)
        name = parts.path.lstrip("/") or "default database"
        return f"PostgreSQL, {name} at {parts.hostname or 'local socket'}"


Location = SqliteLocation | PostgresLocation
POSTGRES = ("postgresql", "postgres")


def locate(url: str, folder: Path, *, direct_url: str = "", replica_url: str = "") -> Location:
    scheme, separator, rest = url.partition("://")
    if scheme in POSTGRES and separator:
        return PostgresLocation(
            f"postgresql://{rest}",
            _postgres("direct_url", direct_url),
            _postgres("replica_url", replica_url),
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


def _postgres(name: str, url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not url:
        return ""
    if scheme in POSTGRES and separator:
        return f"postgresql://{rest}"
    raise SettingsError(f"database.{name} must start with postgresql://")
