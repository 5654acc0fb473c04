"""A whole database as one file, the same for both engines: gzip, a line of JSON for each row.

The first line names the schema's revision; each table follows with its columns, the last id it gave out and its rows; the last
line has the counts, so that a file cut short is noticed before anything is changed.
"""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

import carrel
from carrel.errors import StoreError, UsageError
from carrel.storage.admin import changing, copy_aside, current_revision, migrate, snapshot
from carrel.storage.location import Location, SqliteLocation
from carrel.storage.revisions import HEAD, REVISIONS

FORMAT = 1
BATCH = 1000
VERSION_TABLE = "alembic_version"

Progress = Callable[[int], None]
Counts = dict[str, int]


def write_backup(location: Location, target: Path, progress: Progress) -> Counts:
    """Write `target`, which must not exist; nothing is left of it when this fails."""
    if target.exists():
        raise UsageError(f"{target} exists already; name another file")
    part = target.with_name(f"{target.name}.part")
    try:
        with snapshot(location) as connection, gzip.open(part, "xt", encoding="utf-8", compresslevel=6) as file:
            counts: Counts = {}
            for line in _lines(connection, counts, progress):
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        os.replace(part, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return counts


def _lines(connection: sa.Connection, counts: Counts, progress: Progress) -> Iterator[Any]:
    revision = current_revision(connection)
    if revision is None:
        raise StoreError("there is nothing to back up: the database has no tables yet")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    yield {"carrel-backup": FORMAT, "version": carrel.__version__, "revision": revision, "created": created}
    for table in _tables(connection):
        yield {"table": table.name, "columns": table.columns.keys(), "last_id": _last_id(connection, table)}
        rows = connection.execution_options(yield_per=BATCH).execute(
            sa.select(table).order_by(*table.primary_key)
        )
        counts[table.name] = 0
        for batch in rows.partitions():
            yield from (list(row) for row in batch)
            counts[table.name] += len(batch)
            progress(len(batch))
    yield {"rows": counts}


def restore(location: Location, source: Path, *, replace: bool, progress: Progress) -> Counts:
    """Put back what a backup holds, all of it or nothing. A database with rows in it is replaced only when told so."""
    revision, expected = inspect(source)
    with changing(location) as connection:
        tables = _tables(connection)
        if any(connection.execute(sa.select(table).limit(1)).first() is not None for table in tables):
            if not replace:
                raise UsageError("the database is not empty; --replace puts the backup in its place")
            if isinstance(location, SqliteLocation):
                copy_aside(location.path, "before-restore")
        for table in reversed(tables):
            table.drop(connection)
        connection.execute(sa.text(f"DROP TABLE IF EXISTS {VERSION_TABLE}"))
        migrate(connection, revision)
        counts = _load(connection, source, progress)
        if counts != expected:
            raise StoreError(f"{source} changed while it was read")
        if revision != HEAD:
            migrate(connection, HEAD)
    return counts


def inspect(source: Path) -> tuple[str, Counts]:
    """A backup's revision and counts, after reading it to its end."""
    header: Any = None
    last: Any = None
    for last in _read(source):
        header = header or last
    if not isinstance(header, dict) or "carrel-backup" not in header:
        raise UsageError(f"{source} is not a Carrel backup")
    if not isinstance(last, dict) or "rows" not in last:
        raise UsageError(f"{source} is not complete: its last line is missing")
    revision = str(cast("dict[str, object]", header)["revision"])
    if revision not in REVISIONS or header["carrel-backup"] != FORMAT:
        raise UsageError(f"{source} was written by a newer Carrel ({header['version']}): upgrade this one first")
    return revision, cast("Counts", last["rows"])


def _read(source: Path) -> Iterator[Any]:
    try:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except FileNotFoundError as error:
        raise UsageError(f"{source} does not exist") from error
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"{source} cannot be read as a Carrel backup: {error}") from error


def _load(connection: sa.Connection, source: Path, progress: Progress) -> Counts:
    known = {table.name: table for table in _tables(connection)}
    counts: Counts = {}
    table: sa.Table | None = None
    columns: list[str] = []
    batch: list[dict[str, object]] = []

    def flush() -> None:
        if table is not None and batch:
            connection.execute(table.insert(), batch)
            counts[table.name] += len(batch)
            progress(len(batch))
            batch.clear()

    for line in _read(source):
        if isinstance(line, list):
            batch.append(dict(zip(columns, cast("list[object]", line), strict=True)))
            if len(batch) == BATCH:
                flush()
        elif "table" in line:
            flush()
            table, columns = known[line["table"]], line["columns"]
            counts[table.name] = 0
            _set_last_id(connection, table, line["last_id"])
    flush()
    return counts


def _tables(connection: sa.Connection) -> list[sa.Table]:
    """The tables as they are, in an order in which they can be filled; those of the schema only, in any revision."""
    reflected = sa.MetaData()
    reflected.reflect(connection)
    return [table for table in reflected.sorted_tables if table.name != VERSION_TABLE]


def _last_id(connection: sa.Connection, table: sa.Table) -> int:
    """The last id that the table gave out, so that a restored database does not give it out again."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(
            sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name"), {"name": table.name}
        )
        return int(found.scalar() or 0)
    sequence = _sequence(connection, table)
    if sequence is None:
        return 0
    last, called = connection.execute(sa.text(f"SELECT last_value, is_called FROM {sequence}")).one()
    return int(last) if called else 0


def _set_last_id(connection: sa.Connection, table: sa.Table, last_id: int) -> None:
    if last_id == 0:
        return
    if connection.dialect.name == "sqlite":
        parameters = {"name": table.name, "seq": last_id}
        connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), parameters)
    else:
        connection.execute(sa.select(sa.func.setval(_sequence(connection, table), last_id)))


def _sequence(connection: sa.Connection, table: sa.Table) -> str | None:
    if "id" not in table.columns:
        return None
    return connection.execute(sa.select(sa.func.pg_get_serial_sequence(table.name, "id"))).scalar()
