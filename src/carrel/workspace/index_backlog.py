"""How full the search index is, looked at from outside: without opening it, or making one where there is none."""

from typing import TYPE_CHECKING, Literal

from carrel.storage.database import PostgresLocation
from carrel.storage.sqlite import open_unchanged, statement_deadline

if TYPE_CHECKING:
    from carrel.workspace.folder import Workspace

QUERY_TIMEOUT_SECONDS = 3.0

Table = Literal["document", "passage", "pending"]


def counts(workspace: "Workspace", *tables: Table) -> list[int] | None:
    """The rows of each; None where nothing was indexed yet. Raises `CarrelError`."""
    location = workspace.location
    if isinstance(location, PostgresLocation):
        return _in_postgres(location.url, tables)
    path = workspace.own_folder / "search" / "index.db"
    if not path.exists():
        return None
    with open_unchanged(path) as connection, statement_deadline(connection, QUERY_TIMEOUT_SECONDS):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pending'").fetchone() is None:
            return None
        return [connection.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in tables]  # noqa: S608 - constants


def _in_postgres(url: str, tables: tuple[Table, ...]) -> list[int] | None:
    from psycopg import sql

    from carrel.search.postgres.index_schema import SCHEMA
    from carrel.storage.postgres import connect

    with connect(url) as connection:
        connection.read_only = True
        connection.execute("SET LOCAL statement_timeout = 3000")  # nothing is left on what a pooler lends
        there = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'pending'"
        if connection.execute(there, (SCHEMA,)).fetchone() is None:
            return None
        each = [sql.SQL("(SELECT count(*) FROM {})").format(sql.Identifier(SCHEMA, name)) for name in tables]
        row = connection.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(each))).fetchone()
    return list(row) if row else None
