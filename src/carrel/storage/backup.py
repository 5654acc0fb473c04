"""A whole database as one file, the same for both engines: gzip, a line of JSON for each row.

The first line names the schema's revision; each table follows with its columns, the last id it gave out and
its rows; the last line has the counts, so that a file cut short is noticed before anything is changed.
"""

import gzip
import json
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

import sqlalchemy as sa

from carrel.common import Progress
from carrel.errors import StoreError, UsageError
from carrel.storage.admin import (
    advance_last_ids,
    copy_beside,
    create_missing_indexes,
    existing_tables,
    last_ids,
    lasting_tables,
    migrate,
    schema_transaction,
    snapshot,
    supported_revision,
)
from carrel.storage.database import Location, SqliteLocation
from carrel.storage.schema_version import HEAD, REVISIONS
from carrel.untrusted import Limits, load_json
from carrel.version import __version__

BACKUP_FORMAT = 1
BACKUP_BATCH_ROWS = 1000

RowCounts = dict[str, int]


def write_backup(location: Location, target: Path, progress: Progress) -> RowCounts:
    """Write a backup to `target`, which must not exist; a failure leaves nothing behind."""
    if target.exists():
        raise UsageError(f"{target} exists already; name another file")
    counts: RowCounts = {}
    part: Path | None = None
    try:
        with (
            snapshot(location) as connection,
            closing(_lines(connection, counts, progress)) as lines,
            NamedTemporaryFile(dir=target.parent, prefix=f"{target.name}.", delete=False) as file,
        ):
            part = Path(file.name)
            with gzip.open(file, "wt", encoding="utf-8", compresslevel=6) as packed:
                for line in lines:
                    packed.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return counts


def _lines(connection: sa.Connection, counts: RowCounts, progress: Progress) -> Generator[Any]:
    revision = supported_revision(connection)
    if revision is None:
        raise StoreError("there is nothing to back up: the database has no tables yet")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    yield {"carrel-backup": BACKUP_FORMAT, "version": __version__, "revision": revision, "created": created}
    ids = last_ids(connection)
    for table in lasting_tables(existing_tables(connection)):
        yield {"table": table.name, "columns": table.columns.keys(), "last_id": ids.get(table.name, 0)}
        counts[table.name] = 0
        query = sa.select(table).order_by(*table.primary_key)
        with connection.execute(query, execution_options={"yield_per": BACKUP_BATCH_ROWS}) as result:
            for batch in result.partitions():
                yield from (list(row) for row in batch)
                counts[table.name] += len(batch)
                progress(len(batch))
    yield {"rows": counts}


def restore(location: Location, source: Path, *, replace: bool, progress: Progress) -> RowCounts:
    """Restore a backup in one transaction. A database that has rows is replaced only with `replace`.

    Ids that the database has assigned are never assigned again, even those that the backup does not know.
    """
    contents = inspect_backup(source)
    with schema_transaction(location) as connection:
        ids = _drop_existing(connection, location, replace=replace)
        migrate(connection, contents.revision)
        wanted = {table.name: table for table in lasting_tables(existing_tables(connection))}
        if contents.rows.keys() != wanted.keys():
            raise UsageError(f"{source} does not hold the tables of its revision, {contents.revision}")
        if _load(connection, wanted, source, progress) != contents.rows:
            raise StoreError(f"{source} changed while it was read")
        advance_last_ids(connection, ids)
        advance_last_ids(connection, contents.last_ids)
        if contents.revision != HEAD:
            migrate(connection, HEAD)
    create_missing_indexes(location)
    return contents.rows


def _drop_existing(connection: sa.Connection, location: Location, *, replace: bool) -> dict[str, int]:
    """Drop the existing tables if that is allowed; return the last ids that they assigned."""
    if supported_revision(connection) is None:
        return {}
    found = existing_tables(connection)
    if not isinstance(location, SqliteLocation):  # no server may add a row between the look and the drop
        for table in found:
            connection.execute(sa.text(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE"))
    if any(connection.execute(sa.select(table).limit(1)).first() is not None for table in lasting_tables(found)):
        if not replace:
            raise UsageError("the database is not empty; --replace puts the backup in its place")
        if isinstance(location, SqliteLocation):
            copy_beside(location.path, "before-restore")
    ids = last_ids(connection)
    for table in reversed(found):
        table.drop(connection)
    connection.execute(sa.text("DROP TABLE alembic_version"))
    return ids


@dataclass(frozen=True, slots=True)
class BackupContents:
    """The contents of a backup: schema revision, and each table's row count and last id."""

    revision: str
    rows: RowCounts = field(default_factory=dict[str, int])
    last_ids: dict[str, int] = field(default_factory=dict[str, int])


def inspect_backup(source: Path) -> BackupContents:
    """Read a backup to its end, verify it, and return its contents."""
    lines = _parsed_lines(source)
    contents = BackupContents(_revision(source, next(lines, None)))
    table, width, is_complete = "", 0, False
    for number, line in enumerate(lines, start=2):
        match line:
            case {"table": str(table), "columns": [*columns], "last_id": int(last_id)} if not is_complete:
                width = len(columns)
                contents.rows[table] = 0
                contents.last_ids[table] = last_id
            case [*values] if table and len(values) == width and not is_complete:
                contents.rows[table] += 1
            case {"rows": counts} if counts == contents.rows and not is_complete:
                is_complete = True
            case _:
                raise UsageError(f"{source} is damaged: line {number} does not belong there")
    if not is_complete:
        raise UsageError(f"{source} is not complete: its last line is missing")
    return contents


def _revision(source: Path, header: Any) -> str:
    match header:
        case {"carrel-backup": int(form), "version": str(version), "revision": str(revision)}:
            if form == BACKUP_FORMAT and revision in REVISIONS:
                return revision
            raise UsageError(f"{source} was written by a newer Carrel ({version}): upgrade this one first")
        case _:
            raise UsageError(f"{source} is not a Carrel backup")


_LINE_LIMITS = Limits(characters=1024 * 1024 * 1024)
"""Neither SQLite nor PostgreSQL stores a longer value."""


def _parsed_lines(source: Path) -> Iterator[Any]:
    try:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            for line in file:
                yield load_json(line, _LINE_LIMITS)
    except FileNotFoundError as error:
        raise UsageError(f"{source} does not exist") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{source} cannot be read as a Carrel backup: {error}") from error


def _load(connection: sa.Connection, known: Mapping[str, sa.Table], source: Path, progress: Progress) -> RowCounts:
    counts = dict.fromkeys(known, 0)
    for name, rows in groupby(_rows(source), key=itemgetter(0)):
        while batch := [row for _, row in islice(rows, BACKUP_BATCH_ROWS)]:
            connection.execute(known[name].insert(), batch)
            counts[name] += len(batch)
            progress(len(batch))
    return counts


def _rows(source: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each row with the name of its table."""
    name, columns = "", list[str]()
    for line in _parsed_lines(source):
        if isinstance(line, list):
            yield name, dict(zip(columns, cast("list[object]", line), strict=True))
        elif "table" in line:
            name, columns = line["table"], line["columns"]
