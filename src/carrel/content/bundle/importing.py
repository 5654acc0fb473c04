"""A bundle into the database: everything that its files hold, or nothing."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from carrel.common import StepProgress
from carrel.common import now as time_now
from carrel.content.bundle.applying import apply
from carrel.content.bundle.checking import Checker
from carrel.content.bundle.consistency import Consistency
from carrel.content.bundle.faults import ContentRefused, Fault, FaultList
from carrel.content.bundle.fields import KINDS, TABLES
from carrel.content.bundle.resolving import finish, make_ready, match_by_key
from carrel.content.bundle.staging import NEW, Stage, kind_of, make_tables
from carrel.errors import UsageError
from carrel.storage.bulk import Bulk, open_bulk
from carrel.storage.location import Location, SqliteLocation

WORTH_SETTLING = 1000  # rows
READING, CHECKING, WRITING = "reading", "checking", "writing"


def nothing(_step: str, _more: int, _total: int) -> None:
    pass


@dataclass(slots=True)
class Counts:
    added: int = 0
    updated: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What an import did, or would do."""

    counts: dict[str, Counts] = field(default_factory=lambda: {kind.key: Counts() for kind in KINDS})
    warnings: list[Fault] = field(default_factory=list[Fault])
    warnings_in_all: int = 0


def import_content(
    location: Location, files: Sequence[Path], *, dry_run: bool = False, progress: StepProgress = nothing
) -> Report:
    """Read the files as one bundle and write what is new or different in it, in one transaction.

    Raises `ContentRefused` with every fault, and nothing is written then. A dry run writes nothing either, and makes
    nobody wait.
    """
    sizes = [_size(path) for path in files]

    def fill(stage: Stage) -> None:
        for path in files:
            stage.read(path, lambda more: progress(READING, more, sum(sizes)))

    with _place(location, dry_run=dry_run) as place, open_bulk(place) as bulk:
        return bring_in(bulk, fill, dry_run=dry_run, progress=progress)


@contextmanager
def _place(location: Location, *, dry_run: bool) -> Generator[Location]:
    """The database; for a dry run where there is no file yet, an empty one elsewhere."""
    if dry_run and isinstance(location, SqliteLocation) and not location.path.exists():
        with TemporaryDirectory() as folder:
            yield SqliteLocation(Path(folder) / location.path.name)
    else:
        yield location


def bring_in(
    bulk: Bulk, fill: Callable[[Stage], None], *, dry_run: bool = False, progress: StepProgress = nothing
) -> Report:
    """The same for whatever `fill` puts on the stage."""
    now = time_now()
    faults, warnings = FaultList(), FaultList()
    stage = Stage(bulk, Checker(now), faults, warnings)
    bulk.begin_staging()
    make_tables(bulk)
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
    written = apply(bulk, now, lambda more: progress(WRITING, more, rows))
    bulk.commit()
    if written >= WORTH_SETTLING:
        bulk.settle(*(kind.table for kind in TABLES))
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
