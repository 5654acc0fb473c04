"""Content for the command line: records by the names people give them, their details, and edits by hand."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from carrel.content.bundle.exporter import records
from carrel.content.bundle.fields import BLOCKS, ENTITIES, KINDS, PERFORMANCE, PROJECTS, RELATIONS, Kind
from carrel.content.bundle.importer import Report, import_records, refresh_row_counts
from carrel.content.bundle.record_checks import parsed_key
from carrel.content.bundle.staging_tables import ITEM_KEYS, Stage
from carrel.content.bundle.values import InvalidValue, identifier
from carrel.content.field_types import ENTITY_TYPES, fold
from carrel.errors import UsageError
from carrel.storage.bulk import Bulk, Row

MAX_SHOWN_RELATIONS = 20

_NAMES = {
    "entity": "t.entity_type || ':' || t.slug",
    "item": "t.kind || ':' || coalesce(t.url, t.title)",
    "relation": "t.relation_type",
    "search_performance": "coalesce(nullif(t.query, ''), t.page_url)",
    "quotable_block": "substr(t.text, 1, 60)",
}
_END = """
    LEFT JOIN entity {0}e ON {0}e.pk = r.{0}_pk LEFT JOIN item {0}i ON {0}i.pk = r.{0}_item
"""
_END_NAME = "coalesce({0}e.entity_type || ':' || {0}e.slug, {0}i.kind || ':' || coalesce({0}i.url, {0}i.title))"
_RELATIONS = f"""
    SELECT r.id, {_END_NAME.format("from")}, r.relation_type, {_END_NAME.format("to")}, r.notes
    FROM relation r {_END.format("from")} {_END.format("to")}
    WHERE r.project_pk = :project AND r.{{}} = :pk
"""


class StoredRecord(NamedTuple):
    """A stored record that a reference names."""

    kind: Kind
    pk: int
    id: str
    project_pk: int
    project: str
    name: str
    """The record's name in messages."""

    @property
    def is_item(self) -> bool:
        return self.kind.is_open


def projects(bulk: Bulk) -> list[dict[str, Any]]:
    """Return every project with the number of its entities, in order of slug."""
    total = "(SELECT coalesce(sum(total), 0) FROM entity_tally c WHERE c.project_pk = p.pk)"
    rows = bulk.rows(f"SELECT id, slug, name, description, {total} FROM project p ORDER BY slug")
    names = ("id", "slug", "name", "description", "entities")
    return [{**dict(zip(names, row, strict=True)), "entities": int(row[4])} for row in rows]


def resolve_project(bulk: Bulk, slug: str | None) -> tuple[int, str]:
    """Return the key and slug of a project; without a slug, of the only project."""
    found = list(bulk.rows("SELECT pk, slug FROM project ORDER BY slug"))
    if slug is not None:
        chosen = [row for row in found if row[1] == slug]
        if not chosen:
            raise UsageError(f"there is no project {slug}{_listed_projects(found)}")
        return chosen[0][0], chosen[0][1]
    if len(found) != 1:
        raise UsageError(f"name a project with --project{_listed_projects(found)}")
    return found[0][0], found[0][1]


def _listed_projects(found: Sequence[Row]) -> str:
    if not found:
        return ": there is none yet; make one with carrel content add-project"
    return f"; there are {', '.join(row[1] for row in found[:20])}{', ...' if len(found) > 20 else ''}"


def find_record(bulk: Bulk, ref: str, project: str | None) -> StoredRecord:
    """Return the record with an id, a project's slug or a key such as "guide:intro"; raise `UsageError` if none
    exists."""
    found = find_record_or_none(bulk, ref, project)
    if found is None:
        where = "" if ":" not in ref else f" in the project {resolve_project(bulk, project)[1]}"
        raise UsageError(f"there is no {ref}{where}")
    return found


def find_record_or_none(bulk: Bulk, ref: str, project: str | None) -> StoredRecord | None:
    try:
        return _with_id(bulk, identifier(ref))
    except InvalidValue:
        pass
    if ":" not in ref:
        return _project(bulk, "slug", ref)
    try:
        target = parsed_key(ref, RELATIONS.refs[0])
    except InvalidValue as wrong:
        raise UsageError(f"{ref} {wrong}; or an id, or a project's slug") from wrong
    pk, slug = resolve_project(bulk, project)
    if target.kind in ENTITY_TYPES:
        return _entity_or_item(bulk, ENTITIES, "t.entity_type = :kind AND t.slug = :key", target, pk, slug)
    kind = ITEM_KEYS[target.kind or ""]
    by_url = _entity_or_item(bulk, kind, "t.kind = :kind AND t.url = :key", target, pk, slug)
    return by_url or _entity_or_item(bulk, kind, "t.kind = :kind AND t.title = :key", target, pk, slug)


def _entity_or_item(bulk: Bulk, kind: Kind, where: str, target: Any, pk: int, slug: str) -> StoredRecord | None:
    sql = f"SELECT t.pk, t.id, {_NAMES[kind.table]} FROM {kind.table} t WHERE t.project_pk = :project AND {where}"
    rows = list(bulk.rows(f"{sql} LIMIT 2", {"project": pk, "kind": target.kind, "key": target.key}))
    if len(rows) > 1:
        raise UsageError(f"several have the title {target.key}: name the one by its url or id")
    return StoredRecord(kind, rows[0][0], rows[0][1], pk, slug, rows[0][2]) if rows else None


def _with_id(bulk: Bulk, uuid: str) -> StoredRecord | None:
    found = _project(bulk, "id", uuid)
    for kind in (ENTITIES, ITEM_KEYS["sourceItem"], RELATIONS, PERFORMANCE, BLOCKS):
        if found is not None:
            break
        item_kind = "t.kind" if kind.is_open else "NULL"
        row = bulk.first(
            f"SELECT t.pk, t.id, t.project_pk, p.slug, {_NAMES[kind.table]}, {item_kind} FROM {kind.table} t "
            "JOIN project p ON p.pk = t.project_pk WHERE t.id = :id",
            {"id": uuid},
        )
        if row is not None:
            found = StoredRecord(ITEM_KEYS[row[5]] if kind.is_open else kind, *row[:5])
    return found


def _project(bulk: Bulk, column: str, value: str) -> StoredRecord | None:
    row = bulk.first(f"SELECT pk, id, slug FROM project WHERE {column} = :value", {"value": value})
    return None if row is None else StoredRecord(PROJECTS, row[0], row[1], row[0], row[2], row[2])


def describe(bulk: Bulk, found: StoredRecord) -> dict[str, Any]:
    """Return the record as a bundle has it; for an entity or item, also its newest relations and dependents."""
    record = next(iter(records(bulk, found.kind, [(found.project_pk, found.project)], only=found.pk)))
    if found.kind is ENTITIES or found.is_item:
        record["relations"] = [
            {"id": row[0], "from": row[1], "relationType": row[2], "to": row[3], "notes": row[4]}
            for row in relations(bulk, found, MAX_SHOWN_RELATIONS)
        ]
        record |= count_dependents(bulk, found)
    return record


def relations(bulk: Bulk, found: StoredRecord, limit: int) -> list[Row]:
    """Return the relations from and to a record, newest first."""
    suffix = "item" if found.is_item else "pk"
    both = " UNION ".join(f"{_RELATIONS.format(f'{end}_{suffix}')}" for end in ("from", "to"))
    newest = f"SELECT b.* FROM ({both}) b JOIN relation o ON o.id = b.id ORDER BY o.created_at DESC, o.id DESC"
    return list(bulk.rows(f"{newest} LIMIT {limit}", {"project": found.project_pk, "pk": found.pk}))


def count_dependents(bulk: Bulk, found: StoredRecord) -> dict[str, int]:
    """Count the other records that depend on this one."""
    if found.kind is PROJECTS:
        kinds = {kind.key: kind for kind in KINDS if kind.in_project}
        where = "t.project_pk = :pk"
        return {
            f"{key}InAll": bulk.count(
                f"SELECT count(*) FROM {kind.table} t WHERE {where}"
                + (f" AND t.kind = '{kind.item_kind}'" if kind.is_open else ""),
                {"pk": found.pk},
            )
            for key, kind in kinds.items()
        }
    values = {"project": found.project_pk, "pk": found.pk}
    suffix = "item" if found.is_item else "pk"
    ends = f"(t.from_{suffix} = :pk OR t.to_{suffix} = :pk)"
    counted = {"relationsInAll": f"relation t WHERE t.project_pk = :project AND {ends}"}
    if found.kind is ENTITIES:
        mine = "t WHERE t.project_pk = :project AND t.entity_pk = :pk"
        counted |= {
            "quotableBlocksInAll": f"quotable_block {mine}",
            "searchPerformanceInAll": f"search_performance {mine}",
        }
    elif not found.is_item:
        return {}
    return {name: bulk.count(f"SELECT count(*) FROM {rest}", values) for name, rest in counted.items()}


def entities(
    bulk: Bulk,
    *,
    project: str | None,
    entity_type: str | None,
    status: str | None,
    search: str | None,
    limit: int,
) -> tuple[list[dict[str, Any]], int]:
    """Return the entities that pass the filters, latest update first, and their total."""
    where, values = ["TRUE"], dict[str, object]()
    for column, value in ("t.entity_type", entity_type), ("t.status", status):
        if value is not None:
            name = column.removeprefix("t.")
            where.append(f"{column} = :{name}")
            values[name] = value
    if project is not None:
        where.append("t.project_pk = :project")
        values["project"] = resolve_project(bulk, project)[0]
    if search:
        where.append("t.head_fold LIKE :search ESCAPE :escape")
        needle = re.sub("[%_!]", lambda match: f"!{match[0]}", fold(search))
        values |= {"search": f"%{needle}%", "escape": "!"}
    rest = f"entity t JOIN project p ON p.pk = t.project_pk WHERE {' AND '.join(where)}"
    columns = "t.id, p.slug, t.entity_type, t.slug, t.status, t.title"
    rows = bulk.rows(f"SELECT {columns} FROM {rest} ORDER BY t.updated_at DESC, t.id LIMIT {limit}", values)
    names = ("id", "project", "entityType", "slug", "status", "title")
    found: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
    return found, bulk.count(f"SELECT count(*) FROM {rest}", values)


class _ManualEntry:
    is_lines = True

    def place(self, key: str, number: int) -> str:
        return ""


def write(bulk: Bulk, kind: Kind, record: Mapping[str, Any]) -> Report:
    """Add or update a record; raise `ContentRefused` if it is invalid."""

    def fill(stage: Stage) -> None:
        stage.begin(_ManualEntry())
        stage.add(kind, 1, record)

    bulk.roll_back()
    return import_records(bulk, fill)


def remove(bulk: Bulk, found: StoredRecord) -> None:
    """Remove a record and everything that depends on it. An entity's search performance stays, without the entity."""
    bulk.roll_back()
    bulk.begin_writing()
    values = {"pk": found.pk}
    if found.kind is PROJECTS:
        bulk.execute("DELETE FROM search_performance WHERE project_pk = :pk", values)
    elif found.kind is ENTITIES:
        bulk.execute(
            "UPDATE search_performance SET entity_pk = NULL WHERE project_pk = :project AND entity_pk = :pk",
            {**values, "project": found.project_pk},
        )
    bulk.execute(f"DELETE FROM {found.kind.table} WHERE pk = :pk", values)
    touched = {ENTITIES.key: (ENTITIES, BLOCKS), PERFORMANCE.key: (PERFORMANCE,), BLOCKS.key: (BLOCKS,)}
    for kind in touched.get(found.kind.key, ()):
        refresh_row_counts(bulk, kind.table, str(found.project_pk))
    bulk.commit()
