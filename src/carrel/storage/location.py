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

    def __str__(self) -> str:
        """Never the password."""
        parts = urlsplit(self.url)
        name = parts.path.lstrip("/") or "default database"
        return f"PostgreSQL, {name} at {parts.hostname or 'local socket'}"


Location = SqliteLocation | PostgresLocation


def locate(url: str, folder: Path) -> Location:
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and separator:
        return PostgresLocation(f"postgresql://{rest}")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteLocation(folder / unquote(rest[1:]))
    raise SettingsError(
        f"database.url must start with sqlite:/// or postgresql://, not {scheme + separator!r}"
        if separator
        else "database.url must be sqlite:///FILE or postgresql://USER@HOST/NAME"
    )
