"""Importing a bundle into the database: everything that its files hold, or nothing."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from carrel.common import Progress, StepProgress
from carrel.common import now as time_now
from carrel.content.bundle.consistency import Consistency
from carrel.content.bundle.faults import ContentRefused, Fault, FaultList
from carrel.content.bundle.fields import ENTITIES, KINDS, PROJECTS, TABLES, Kind, snake
from carrel.content.bundle.record_checks import RecordChecker
from carrel.content.bundle.reference_resolver import finish, make_ready, match_by_key
from carrel.content.bundle.staging_tables import NEW, Stage, create_staging_tables, is_ordered, kind_of, ref_columns
from carrel.content.field_types import DAY_MS, MIN_TIME_MS, SEPARATOR
from carrel.errors import UsageError
from carrel.storage.bulk import Bulk, open_bulk
from carrel.storage.database import Location, SqliteLocation


@dataclass(frozen=True, slots=True)
class RowCounter:
    table: str
    of: str
    columns: Mapping[str, str]
    """The columns of the counter's table, each with its expression over a counted row."""


ROW_COUNTERS = (
    RowCounter(
        "entity_tally",
        "entity",
        {"entity_type": "entity_type", "status": "status", "concept_kind": "coalesce(concept_kind, '')"},
    ),
    RowCounter("search_performance_tally", "search_performance", {"date_start": "date_start", "date_end": "date_end"}),
    RowCounter(
        "quotable_block_expiry_tally",
        "quotable_block",
        {"verified_day": f"coalesce((verified_until - ({MIN_TIME_MS})) / {DAY_MS}, -1)", "claim_type": "claim_type"},
    ),
)


def refresh_row_counts(bulk: Bulk, table: str, projects: str) -> None:
    """Recount a table's rows by sort for some projects; `projects` is a query for their keys.

    Lists read their totals from these counters. Every writer of content refreshes them in its own transaction.
    """
    for counter in ROW_COUNTERS:
        if counter.of == table:
            values = ", ".join(counter.columns.values())
            bulk.execute(f"DELETE FROM {counter.table} WHERE project_pk IN ({projects})")
            bulk.execute(f"""
                INSERT INTO {counter.table} (project_pk, {", ".join(counter.columns)}, total)
                SELECT project_pk, {values}, count(*) FROM {table}
                WHERE project_pk IN ({projects}) GROUP BY project_pk, {values}
            """)


INSERT_BATCH_ROWS = 20_000


def write_ready_rows(bulk: Bulk, now: int, progress: Progress) -> int:
    """Write the ready rows of every table and return their number."""
    total = 0
    for kind in TABLES:
        written = _update(bulk, kind, now)
        progress(written)
        written += _insert(bulk, kind, progress)
        if written:
            refresh_row_counts(
                bulk, kind.table, f"SELECT project_pk FROM {kind.ready} WHERE found = {NEW} OR change = 1"
            )
        total += written
    return total


def _columns(kind: Kind) -> dict[str, str]:
    """Return the table's columns, each with its expression over the ready row `s`."""
    plain = [column.name for column in kind.columns if column.name not in kind.hidden]
    refs = [*(["project_pk"] if kind.in_project else []), *ref_columns(kind)]
    return {name: f"s.{name}" for name in (*refs, *plain)} | dict(kind.written)


def _parameters(kind: Kind) -> dict[str, object]:
    return {"separator": SEPARATOR} if kind.written else {}


def _update(bulk: Bulk, kind: Kind, now: int) -> int:
    if bulk.count(f"SELECT count(*) FROM {kind.ready} WHERE change = 1") == 0:
        return 0
    moved = f"SELECT pk FROM moved_{kind.table}"
    if bulk.first(f"{moved} LIMIT 1") is not None:  # keys may be swapped among rows: park them all first
        park = f"UPDATE {kind.table} SET {kind.parked} = :separator || id WHERE pk IN ({moved})"
        bulk.execute(park, {"separator": SEPARATOR})
    columns = _columns(kind)
    parameters = _parameters(kind)
    if kind.stamp is not None:
        column, bit = snake(kind.stamp), kind.bits[kind.stamp]
        columns[column] = f"CASE WHEN (s.given & {bit}) <> 0 THEN s.{column} ELSE :now END"
        parameters["now"] = now
    for ref in kind.refs:
        if ref.to_items:  # the title that is there already may have changed with its entity, just now
            r = ref.name
            columns[f"{r}_title_key"] = f"CASE WHEN s.{r}_pk = t.{r}_pk THEN t.{r}_title_key ELSE s.{r}_title_key END"
    values = ", ".join(f"{name} = {value}" for name, value in columns.items())
    return bulk.execute(
        f"UPDATE {kind.table} AS t SET {values} FROM {kind.ready} AS s WHERE s.pk = t.pk AND s.change = 1", parameters
    )


def _insert(bulk: Bulk, kind: Kind, progress: Progress) -> int:
    columns = _columns(kind)
    if kind.table in (PROJECTS.table, ENTITIES.table, "item"):
        columns["pk"] = "s.pk"
    number = "ordinal" if is_ordered(bulk, kind) else "n"
    sql = f"""
        INSERT INTO {kind.table} ({", ".join(columns)}) SELECT {", ".join(columns.values())} FROM {kind.ready} s
        WHERE s.found = {NEW} AND s.{number} > :after AND s.{number} <= :up_to ORDER BY s.{number}
    """
    last = bulk.count(f"SELECT max({number}) FROM {kind.ready}")
    total = 0
    with bulk.bulk_insert(kind.table, bulk.count(f"SELECT count(*) FROM {kind.ready} WHERE found = {NEW}")):
        for after in range(0, last, INSERT_BATCH_ROWS):
            added = bulk.execute(sql, {"after": after, "up_to": after + INSERT_BATCH_ROWS, **_parameters(kind)})
            total += added
            progress(added)
    return total


VACUUM_ROWS = 1000  # rows
READING, CHECKING, WRITING = "reading", "checking", "writing"


def ignore_progress(_step: str, _more: int, _total: int) -> None:
    pass


@dataclass(slots=True)
class Counts:
    added: int = 0
    updated: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an import or a dry run."""

    counts: dict[str, Counts] = field(default_factory=lambda: {kind.key: Counts() for kind in KINDS})
    warnings: list[Fault] = field(default_factory=list[Fault])
    warnings_in_all: int = 0


def import_content(
    location: Location, files: Sequence[Path], *, dry_run: bool = False, progress: StepProgress = ignore_progress
) -> Report:
    """Read the files as one bundle and write what is new or different in it, in one transaction.

    Raises `ContentRefused` with every fault, and nothing is written then. A dry run writes nothing either, and makes
    nobody wait.
    """
    sizes = [_size(path) for path in files]

    def fill(stage: Stage) -> None:
        for path in files:
            stage.read(path, lambda more: progress(READING, more, sum(sizes)))

    with _target(location, dry_run=dry_run) as place, open_bulk(place) as bulk:
        return import_records(bulk, fill, dry_run=dry_run, progress=progress)


@contextmanager
def _target(location: Location, *, dry_run: bool) -> Generator[Location]:
    """Yield the database to import into: for a dry run without a file, an empty one in a temporary folder."""
    if dry_run and isinstance(location, SqliteLocation) and not location.path.exists():
        with TemporaryDirectory() as folder:
            yield SqliteLocation(Path(folder) / location.path.name)
    else:
        yield location


def import_records(
    bulk: Bulk, fill: Callable[[Stage], None], *, dry_run: bool = False, progress: StepProgress = ignore_progress
) -> Report:
    """Import whatever records `fill` stages: check all of them, then write them in one transaction or raise."""
    now = time_now()
    faults, warnings = FaultList(), FaultList()
    stage = Stage(bulk, RecordChecker(now), faults, warnings)
    bulk.begin_staging()
    create_staging_tables(bulk)
    fill(stage)
    stage.finish()
    bulk.begin_writing(really=not dry_run)
    consistency = Consistency(bulk, stage)
    for kind in TABLES:
        progress(CHECKING, 1, len(TABLES))
        make_ready(bulk, kind)
        consistency.before_matching(kind)
        match_by_key(bulk, kind)
        consistency.after_matching(kind)
        finish(bulk, kind)
    if faults:
        raise ContentRefused(faults.kept, faults.total)
    report = Report(_counts(bulk), warnings.kept, warnings.total)
    if dry_run:
        bulk.roll_back()
        return report
    rows = sum(counts.added + counts.updated for counts in report.counts.values())
    written = write_ready_rows(bulk, now, lambda more: progress(WRITING, more, rows))
    bulk.commit()
    if written >= VACUUM_ROWS:
        bulk.vacuum(*(kind.table for kind in TABLES))
    return report


def _counts(bulk: Bulk) -> dict[str, Counts]:
    found = Report().counts
    for table in TABLES:
        item_kind = "kind" if table.is_open else "NULL"
        query = f"""
            SELECT {item_kind}, sum(CASE WHEN found = {NEW} THEN 1 ELSE 0 END), sum(change), count(*) FROM {table.ready}
        """
        if table.is_open:
            query += " GROUP BY kind"
        for kind, added, updated, total in bulk.rows(query):
            counts = found[kind_of(table, kind).key]
            counts.added, counts.updated = int(added or 0), int(updated or 0)
            counts.unchanged = total - counts.added - counts.updated
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
