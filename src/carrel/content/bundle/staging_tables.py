"""Records on their way into the database, in temporary tables: first as they were read, then ready to be written.

A ready row is what the stored row will be: it knows its `pk`, its project's and those of the rows it refers to, and
has the stored value wherever the record had none. `found` is how the stored row was found, `change` whether it differs,
`ordinal` when it is to be added.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from carrel.common import Progress, is_storable
from carrel.content.bundle.bundle_reader import BadRecord, BundleFile, Record, UnreadableBundle, is_object
from carrel.content.bundle.faults import FaultList, SourceLocation
from carrel.content.bundle.fields import BY_KEY, BY_NAME, KINDS, TABLES, Kind
from carrel.content.bundle.record_checks import ProjectRef, RecordChecker, StagedRow, possible_names
from carrel.content.bundle.values import quoted
from carrel.content.field_types import ITEM_KINDS
from carrel.storage.bulk import Bulk

STAGING_BATCH_ROWS = 5000
NEW, BY_ID, BY_OWN_KEY = 0, 1, 2

PROJECT_REFS, BROKEN, COMPARED = "project_ref", "broken", "compared"
_SOURCE_COLUMNS = {"file": "bigint", "place": "bigint"}


def staged_columns(kind: Kind) -> dict[str, str]:
    refs: dict[str, str] = {}
    for ref in kind.refs:
        parts = ["kind", "id", "key", *(["item_id", "item_key"] if ref.to_items else [])]
        refs |= {f"{ref.name}_{part}": "text" for part in parts}
    values = {column.name: column.type for column in kind.columns}
    return {**_SOURCE_COLUMNS, "given": "bigint", "project": "bigint", **refs, **values}


def ready_columns(kind: Kind) -> dict[str, str]:
    numbers = ("pk", "home", "project_pk", "found", "change", "ordinal")
    return {
        **_SOURCE_COLUMNS,
        "given": "bigint",
        **dict.fromkeys(numbers, "bigint"),
        **ref_columns(kind),
        **{f"{ref.name}_problem": "text" for ref in kind.refs},
        **{column.name: column.type for column in kind.columns},
    }


def ref_columns(kind: Kind) -> dict[str, str]:
    """Return the table's columns for its references, except its project."""
    found: dict[str, str] = {}
    for ref in kind.refs:
        found[f"{ref.name}_pk"] = "bigint"
        if ref.to_items:
            found |= {f"{ref.name}_title_key": "text", f"{ref.name}_item": "bigint"}
    return found


def is_ordered(bulk: Bulk, kind: Kind) -> bool:
    """Whether the kind's rows are inserted in a specific order."""
    return bool(kind.insert_order) and bulk.inserts_sorted


def create_staging_tables(bulk: Bulk) -> None:
    for kind in TABLES:
        bulk.create_temporary(kind.staged, staged_columns(kind))
        bulk.create_temporary(kind.ready, ready_columns(kind))
        bulk.create_temporary(f"moved_{kind.table}", {"pk": "bigint"})
    bulk.create_temporary(PROJECT_REFS, {"id": "text", "slug": "text", "pk": "bigint"})
    bulk.create_temporary(BROKEN, {"name": "text"})
    bulk.create_temporary(COMPARED, {"entity": "bigint", "target": "text"})


class Origin(Protocol):
    """A source of records."""

    is_lines: bool
    """Whether records are numbered across all kinds, not within each kind."""

    def place(self, key: str, number: int) -> str: ...


class Stage:
    """The staging area: checks records one by one and writes the valid ones to staging tables."""

    def __init__(self, bulk: Bulk, checker: RecordChecker, faults: FaultList, warnings: FaultList) -> None:
        self.faults = faults
        self.warnings = warnings
        self._origins: list[Origin] = []
        self._bulk = bulk
        self._checker = checker
        self._projects: dict[ProjectRef, int] = {}
        self._buffers: dict[str, list[Sequence[object]]] = {}
        self._numbers: dict[str, int] = {}

    def begin(self, origin: Origin) -> None:
        """Attribute the records added from now on to this origin."""
        self._origins.append(origin)

    def place(self, kind: Kind | None, number: int, file: int = -1) -> SourceLocation:
        """Return the location of a record, by default in the origin that is being read."""
        file %= len(self._origins)
        origin = self._origins[file]
        order = 0 if origin.is_lines or kind is None else KINDS.index(kind)
        return SourceLocation((file, order, number), origin.place(kind.key if kind else "", number))

    def read(self, path: Path, progress: Progress) -> None:
        """Add the records of a file."""
        file = BundleFile(path)
        self.begin(file)
        try:
            for record in file.records(progress):
                if isinstance(record, BadRecord):
                    self.faults.add(self.place(None, record.number), record.problem)
                else:
                    self._add(file, record)
        except UnreadableBundle as error:
            order = (len(self._origins) - 1, len(KINDS), 0)
            self.faults.add(SourceLocation(order, error.place), error.problem)

    def add(self, kind: Kind, number: int, value: Mapping[str, object]) -> None:
        row = self._checker.row(
            kind,
            value,
            lambda message: self.faults.add(self.place(kind, number), message),
            lambda message: self.warnings.add(self.place(kind, number), message),
        )
        if row is not None:
            self._put_row(kind, number, row)
        else:
            for name in possible_names(kind, value):
                if is_storable(name):
                    self._put(BROKEN, (name,))

    def finish(self) -> None:
        """Flush the buffers and index the staging tables."""
        for identifier, slug in self._projects:  # in the order of their numbers
            self._put(PROJECT_REFS, (identifier, slug))
        for table in list(self._buffers):
            self._flush(table)
        self._bulk.execute(f"CREATE INDEX {BROKEN}_name ON {BROKEN} (name)")
        self._bulk.analyze_temporary(*(kind.staged for kind in TABLES), PROJECT_REFS, BROKEN, COMPARED)

    def _add(self, file: BundleFile, record: Record) -> None:
        kind = (BY_NAME if file.is_lines else BY_KEY).get(record.kind)
        if kind is None:
            place = SourceLocation(self.place(None, record.number).order, file.place(record.kind, record.number))
            self.faults.add(place, f"unknown kind {quoted(record.kind)}; known are {', '.join(BY_KEY)}")
        elif is_object(record.value):
            self.add(kind, record.number, record.value)
        else:
            self.faults.add(self.place(kind, record.number), "must be a JSON object")

    def _put_row(self, kind: Kind, number: int, row: StagedRow) -> None:
        targets: list[object] = []
        for ref, target in zip(kind.refs, row.targets, strict=True):
            if not ref.to_items:
                targets += target
            elif target.kind in ITEM_KINDS:
                targets += (target.kind, None, None, target.id, target.key)
            else:
                targets += (*target, None, None)
        project = None
        if row.project is not None:
            project = self._projects.setdefault(row.project, len(self._projects) + 1)
        n = self._put(kind.staged, (len(self._origins) - 1, number, row.given, project, *targets, *row.columns))
        for target in row.compared_with:
            self._put(COMPARED, (n, target))

    def _put(self, table: str, values: Sequence[object]) -> int:
        n = self._numbers[table] = self._numbers.get(table, 0) + 1
        buffer = self._buffers.setdefault(table, [])
        buffer.append((n, *values))
        if len(buffer) >= STAGING_BATCH_ROWS:
            self._flush(table)
        return n

    def _flush(self, table: str) -> None:
        rows = self._buffers.pop(table, [])
        if rows:
            self._bulk.insert(table, ("n", *_STAGING_COLUMNS[table]), rows)


_STAGING_COLUMNS: Mapping[str, Sequence[str]] = {
    **{kind.staged: tuple(staged_columns(kind)) for kind in TABLES},
    PROJECT_REFS: ("id", "slug"),
    BROKEN: ("name",),
    COMPARED: ("entity", "target"),
}

ITEM_KEYS = {kind.item_kind: kind for kind in KINDS if kind.item_kind}


def kind_of(table: Kind, item_kind: str | None) -> Kind:
    """Return the kind of a staged row: three kinds of item share a table."""
    return ITEM_KEYS[item_kind] if table.is_open and item_kind else table
