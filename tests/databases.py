"""Databases as tests look at them: past the program, with plain SQL; and a release of Carrel that is one ahead."""

import json
import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

import carrel
from carrel.storage.admin import schema_transaction, upgrade
from carrel.storage.database import Location, PostgresLocation, SqliteLocation
from carrel.storage.schema import task
from carrel.storage.schema_version import HEAD, REVISIONS
from carrel.storage.sqlite import create_folder
from tests.postgres import recreate_database


@cache
def _empty_sqlite() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "carrel.db"
        upgrade(SqliteLocation(path))
        return path.read_bytes()


def prepare_sqlite(path: Path) -> SqliteLocation:
    """A new file with the schema in place: what `upgrade` leaves, copied, for a hundredth of its time."""
    create_folder(path)
    path.write_bytes(_empty_sqlite())
    return SqliteLocation(path)


def prepare_desk(folder: Path) -> Path:
    """A workspace with its database in place; making one is most of the time that a server takes to start in it."""
    prepare_sqlite(folder / ".carrel" / "carrel.db")
    return folder


@cache
def _template(server_url: str) -> str:
    name = f"carrel_template_{os.getpid()}"
    upgrade(PostgresLocation(recreate_database(server_url, name)))
    return name


def prepare_postgres(server_url: str, name: str) -> PostgresLocation:
    """A database of that name on the server, empty, with the schema in place."""
    return PostgresLocation(recreate_database(server_url, name, template=_template(server_url)))


def query(location: Location, sql: str) -> list[Any]:
    (rows,) = queries(location, sql)
    return rows


def queries(location: Location, *statements: str) -> list[list[Any]]:
    """What each gives, one after the other in one transaction: connections cost more than what is asked."""
    found: list[list[Any]] = []
    with schema_transaction(location) as connection:
        for sql in statements:
            result = connection.exec_driver_sql(sql)
            found.append([tuple(row) for row in result] if result.returns_rows else [])
    return found


def described(location: Location) -> dict[str, Any]:
    """Everything that the engine itself knows about the tables, Alembic's own left out."""
    if isinstance(location, SqliteLocation):
        found = query(location, "SELECT type, name, sql FROM sqlite_master WHERE tbl_name <> 'alembic_version'")
        return {f"{kind} {name}": " ".join((sql or "").split()) for kind, name, sql in found}
    parts = {
        "columns": """
            SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                   pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation::text, col_description(c.oid, a.attnum)
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
            WHERE c.relkind = 'r' AND a.attnum > 0 AND c.relnamespace = 'public'::regnamespace
        """,
        "constraints": """
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        """,
        "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    }
    answers = zip(parts, queries(location, *parts.values()), strict=True)
    return {name: sorted(row for row in found if row[0] != "alembic_version") for name, found in answers}


def url_of(location: Location) -> str:
    return f"sqlite:///{location.path}" if isinstance(location, SqliteLocation) else location.url


def add(location: Location, *rows: Mapping[str, object]) -> None:
    """Add tasks of Ana's, with the values given."""
    with schema_transaction(location) as connection:
        connection.execute(sa.insert(task), [{"user_id": "ana", "created_at": 0, **row} for row in rows])


def add_tasks(location: Location) -> list[Any]:
    """Three tasks of which the last is deleted again: its id must not come back."""
    add(location, *({"title": title} for title in ("one", "two", "three")))
    query(location, "DELETE FROM task WHERE title = 'three'")
    return query(location, "SELECT id, title, description, completed, created_at FROM task ORDER BY id")


def new_id(location: Location) -> int:
    add(location, {"title": "new"})
    return query(location, "SELECT max(id) FROM task")[0][0]


# What the next release might bring, and the worst of it for SQLite: changes for which it has to rebuild the table.
NEXT = f"{int(HEAD) + 1:04}"
NEXT_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.create_index("task_by_title", "task", ["title"])
    with op.batch_alter_table("task", table_kwargs={{"sqlite_autoincrement": True}}) as batch:
        batch.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="3"))
        batch.create_check_constraint("task_title_is_no_poison", "title <> 'poison'")
    op.execute("UPDATE task SET priority = 5 WHERE completed")
    op.create_table(
        "label",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("task_id", sa.BigInteger(), sa.ForeignKey("task.id", ondelete="CASCADE"), nullable=False),
    )
"""
NEXT_SCHEMA = """
    Column("priority", Integer, nullable=False, server_default="3"),
    CheckConstraint("title <> 'poison'", name="task_title_is_no_poison"),
    Index("task_by_title", "title"),
"""
NEXT_TABLE = """
from sqlalchemy import ForeignKey

label = Table(
    "label",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task_id", BigInteger, ForeignKey("task.id", ondelete="CASCADE"), nullable=False),
)
"""


def build_next_release(folder: Path) -> Path:
    """A copy of Carrel that is one migration ahead, to run with PYTHONPATH."""
    copy = folder / "carrel"
    shutil.copytree(Path(carrel.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "storage" / "migrations" / "versions" / f"{NEXT}_priorities.py").write_text(NEXT_MIGRATION)
    _edit(
        copy / "storage" / "schema_version.py",
        f"REVISIONS = {_listed(*REVISIONS)}",
        f"REVISIONS = {_listed(*REVISIONS, NEXT)}",
    )
    last = 'CheckConstraint("length(description) <= 1000", name="task_description_length"),'
    _edit(copy / "storage" / "schema" / "core_tables.py", last, f"{last}{NEXT_SCHEMA}")
    with (copy / "storage" / "schema" / "core_tables.py").open("a") as file:
        file.write(NEXT_TABLE)
    return folder


def _listed(*revisions: str) -> str:
    return f"({', '.join(json.dumps(each) for each in revisions)})"


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
