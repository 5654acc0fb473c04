"""Export of content as a bundle: the same records in the same order from either engine."""

import gzip
import json
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Literal, cast

from carrel.common import Progress, iso
from carrel.content.bundle import values
from carrel.content.bundle.fields import (
    BLOCKS,
    DISTRIBUTIONS,
    ENTITIES,
    KINDS,
    PERFORMANCE,
    RELATIONS,
    SOURCES,
    VIDEOS,
    Field,
    Kind,
    compact,
)
from carrel.errors import StoreError, UsageError
from carrel.storage.bulk import Bulk, open_bulk
from carrel.storage.database import Location

Format = Literal["json", "jsonl"]
RecordCounts = dict[str, int]

PROGRESS_ROWS = 1000

_ENDS = """
    LEFT JOIN entity fe ON fe.pk = t.from_pk LEFT JOIN item fi ON fi.pk = t.from_item
    LEFT JOIN entity te ON te.pk = t.to_pk LEFT JOIN item ti ON ti.pk = t.to_item
"""
_REFS = {
    RELATIONS.key: {
        "fromEntityType": "coalesce(fe.entity_type, fi.kind)",
        "fromEntityId": "coalesce(fe.id, fi.id)",
        "toEntityType": "coalesce(te.entity_type, ti.kind)",
        "toEntityId": "coalesce(te.id, ti.id)",
    },
    PERFORMANCE.key: {"entityId": "e.id"},
    BLOCKS.key: {"entityId": "e.id"},
}
_JOINS = {
    RELATIONS.key: _ENDS,
    PERFORMANCE.key: "LEFT JOIN entity e ON e.pk = t.entity_pk",
    BLOCKS.key: "JOIN entity e ON e.pk = t.entity_pk",
}
_ITEM_ORDER = "t.url IS NULL, t.url, t.title, t.id"
_ORDER = {  # never by pk, which is not in the bundle; each is that of an index, as far as one is long
    ENTITIES.key: "t.entity_type, t.slug",
    SOURCES.key: _ITEM_ORDER,
    VIDEOS.key: _ITEM_ORDER,
    DISTRIBUTIONS.key: _ITEM_ORDER,
    RELATIONS.key: "t.created_at, t.id",
    PERFORMANCE.key: "t.date_start DESC, t.date_end DESC, t.query, t.page_url",
    BLOCKS.key: "t.created_at, t.id",
}


def export_content(
    location: Location,
    target: Path | None,
    *,
    project: str | None = None,
    form: Format = "json",
    replace: bool = False,
    output: IO[bytes] | None = None,
    progress: Progress = lambda _: None,
) -> RecordCounts:
    """Write everything, or one project, to `target`, packed if its name ends in .gz; to `output` without a target.

    Nothing is left of the target when this fails.
    """
    with open_bulk(location, create=False) as bulk:
        bulk.begin_reading()
        projects = _projects(bulk, project)
        with _opened(target, output, replace=replace) as file:
            counts = dict.fromkeys((kind.key for kind in KINDS), 0)
            lines = _document(bulk, projects, counts) if form == "json" else _lines(bulk, projects, counts)
            for number, line in enumerate(lines, start=1):
                file.write(line.encode())
                if number % PROGRESS_ROWS == 0:
                    progress(PROGRESS_ROWS)
        bulk.roll_back()
    return counts


def _projects(bulk: Bulk, slug: str | None) -> list[tuple[int, str]]:
    """Return the keys and slugs of the projects to export."""
    if slug is None:
        return [(pk, each) for pk, each in bulk.rows("SELECT pk, slug FROM project ORDER BY slug")]
    found = list(bulk.rows("SELECT pk, slug FROM project WHERE slug = :slug", {"slug": slug}))
    if not found:
        raise UsageError(f"there is no project {slug}")
    return [(found[0][0], slug)]


def _document(bulk: Bulk, projects: Sequence[tuple[int, str]], counts: RecordCounts) -> Iterator[str]:
    opening = "{"
    for kind in KINDS:
        yield f'{opening}"{kind.key}": ['
        before = "\n"
        for record in records(bulk, kind, projects):
            counts[kind.key] += 1
            yield before + json.dumps(record, ensure_ascii=False)
            before = ",\n"
        yield "]"
        opening = ",\n"
    yield "}\n"


def _lines(bulk: Bulk, projects: Sequence[tuple[int, str]], counts: RecordCounts) -> Iterator[str]:
    for kind in KINDS:
        for record in records(bulk, kind, projects):
            counts[kind.key] += 1
            yield compact({"kind": kind.one, **record}) + "\n"


def records(
    bulk: Bulk, kind: Kind, projects: Sequence[tuple[int, str]], *, only: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the records of some projects; with `only`, the one record with that key."""
    fields = list(kind.given_fields.values())
    refs = _REFS.get(kind.key, {})
    names = ["id", *refs, *(each.name for each in fields[1:])]
    columns = ["t.id", *refs.values(), *(f"t.{each.columns[0].name}" for each in fields[1:])]
    where = "t.pk = :project"
    if kind.in_project:
        where = "t.project_pk = :project"
    if kind.is_open:
        columns.append("t.details")
        where += f" AND t.kind = '{kind.item_kind}'"
    if only is not None:
        where += f" AND t.pk = {only}"
    order = _ORDER.get(kind.key, "t.slug")
    sql = f"SELECT {', '.join(columns)} FROM {kind.table} t {_JOINS.get(kind.key, '')} WHERE {where} ORDER BY {order}"
    for pk, slug in projects:
        for row in bulk.rows(sql, {"project": pk}):
            record = dict(zip(names, row, strict=False))
            for each in fields:
                record[each.name] = to_record_value(each, record[each.name])
            if kind.in_project:
                record = {"id": record["id"], "project": slug, **record}
            if kind.is_open:
                record |= json.loads(row[-1])
            yield record


def to_record_value(field: Field, value: Any) -> Any:
    """Convert a stored value to its form in a record."""
    if value is None:
        return None
    if field.parse is values.time:
        return iso(value)
    return json.loads(value) if field.parse is values.identifiers else value


@contextmanager
def _opened(target: Path | None, output: IO[bytes] | None, *, replace: bool) -> Generator[IO[bytes]]:
    if target is None:
        assert output is not None  # noqa: S101 - one of the two is given
        yield output
        return
    if target.exists() and not replace:
        raise UsageError(f"{target} exists already; name another file, or say --replace")
    part: Path | None = None
    try:
        with NamedTemporaryFile(dir=target.parent, prefix=f"{target.name}.", delete=False) as file:
            part = Path(file.name)
            if target.name.endswith(".gz"):  # without name and time: the same content is the same file
                with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield cast("IO[bytes]", file)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        os.replace(part, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
