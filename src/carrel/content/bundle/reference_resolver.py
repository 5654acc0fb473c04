"""Resolution of staged rows into ready rows: the stored row each one means, and the rows it refers to.

Only temporary tables are written.
"""

import json

from carrel.content.bundle.fields import ENTITIES, PROJECTS, RELATIONS, SOURCES, Key, Kind, Ref, compact
from carrel.content.bundle.staging_tables import (
    BY_ID,
    BY_OWN_KEY,
    NEW,
    PROJECT_REFS,
    is_ordered,
    ready_columns,
    ref_columns,
)
from carrel.content.field_types import SEPARATOR
from carrel.storage.bulk import Bulk

MERGED_TABLE = "merged_item"

_REFERRED_TO = {
    PROJECTS.table: ("slug",),
    ENTITIES.table: ("project_pk, entity_type, slug",),
    SOURCES.table: ("project_pk, kind, url", "project_pk, kind, title"),
}
_PROJECT = "CASE WHEN s.project IS NULL THEN t.project_pk ELSE p.pk END"
_RESOLVE_PROJECTS = f"""
    UPDATE {PROJECT_REFS} AS r SET pk = coalesce(
        (SELECT a.pk FROM ready_project a WHERE a.id = r.id),
        (SELECT b.pk FROM project b WHERE b.id = r.id),
        (SELECT c.pk FROM ready_project c WHERE c.slug = r.slug),
        (SELECT d.pk FROM project d WHERE d.slug = r.slug AND d.pk NOT IN (SELECT m.pk FROM moved_project m)))
"""


def make_ready(bulk: Bulk, kind: Kind) -> None:
    """Create the ready rows of a kind; those that match a stored row by id inherit what the record leaves out."""
    if kind is ENTITIES:
        bulk.execute(_RESOLVE_PROJECTS)
    bulk.execute(_insert_ready(bulk, kind), {"separator": SEPARATOR} if kind is RELATIONS else {})
    bulk.execute(_fill(kind, BY_ID))
    bulk.execute(_note_moved(bulk, kind))
    if is_ordered(bulk, kind):
        bulk.execute(f"CREATE INDEX {kind.ready}_ordinal ON {kind.ready} (ordinal)")
    bulk.analyze_temporary(kind.ready, f"moved_{kind.table}")
    if kind is RELATIONS:
        for ref in kind.refs:
            bulk.execute(_find_by_title(ref))


def match_by_key(bulk: Bulk, kind: Kind) -> None:
    """Match the rows without a stored id to the stored rows with the same key."""
    home = "t.project_pk" if kind.in_project else "NULL"
    for key in kind.keys:
        bulk.execute(f"""
            UPDATE {kind.ready} AS s SET pk = t.pk, home = {home}, found = {BY_OWN_KEY} FROM {kind.table} AS t
            WHERE s.found = {NEW} AND {same_key(key)} AND {keeps_key(kind)}
        """)
    bulk.execute(_fill(kind, BY_OWN_KEY))
    if kind is SOURCES:
        _merge_details(bulk)


def finish(bulk: Bulk, kind: Kind) -> None:
    """Assign keys to new rows that others refer to, and mark the stored rows that will change."""
    for place, columns in enumerate(_REFERRED_TO.get(kind.table, ())):
        bulk.execute(f"CREATE INDEX {kind.ready}_{place} ON {kind.ready} ({columns})")
    if kind.table in _REFERRED_TO:
        bulk.assign_keys(kind.table, kind.ready, f"found = {NEW}")
        bulk.execute(f"CREATE INDEX {kind.ready}_id ON {kind.ready} (id)")
    bulk.execute(f"""
        UPDATE {kind.ready} AS s SET change = 1 FROM {kind.table} AS t
        WHERE t.pk = s.pk AND s.found <> {NEW} AND ({" OR ".join(_differences(bulk, kind))})
    """)


def same_key(key: Key, left: str = "s", right: str = "t") -> str:
    parts = [f"{left}.{column} = {right}.{column}" for column in key.columns]
    if key.where:
        parts += [key.where.format(left), key.where.format(right)]
    return " AND ".join(parts)


def keeps_key(kind: Kind, alias: str = "t") -> str:
    """Return the SQL condition that a stored row keeps its key."""
    return f"NOT EXISTS (SELECT 1 FROM moved_{kind.table} m WHERE m.pk = {alias}.pk)"


def _differences(bulk: Bulk, kind: Kind) -> list[str]:
    refs = [name for name in ref_columns(kind) if not name.endswith("title_key")]
    return [
        *(f"s.{column.name} {bulk.distinct_operator} {column.in_stored}" for column in kind.columns),
        *(f"s.{name} {bulk.distinct_operator} t.{name}" for name in refs),
    ]


def _insert_ready(bulk: Bulk, kind: Kind) -> str:
    chosen = {
        "file": "s.file",
        "place": "s.place",
        "given": "s.given",
        "pk": "t.pk",
        "home": "t.project_pk" if kind.in_project else "NULL",
        "project_pk": _PROJECT if kind.in_project else "NULL",
        "found": f"CASE WHEN t.pk IS NULL THEN {NEW} ELSE {BY_ID} END",
        "change": "0",
        **{column.name: f"s.{column.name}" for column in kind.columns},
    }
    joins = [f"LEFT JOIN {kind.table} t ON t.id = s.id"]
    if kind.in_project:
        joins.append(f"LEFT JOIN {PROJECT_REFS} p ON p.n = s.project")
    for ref in kind.refs:
        chosen |= _ref_values(ref)
        joins += _ref_joins(ref)
    order = "s.n"
    if is_ordered(bulk, kind):
        order = ", ".join(chosen[column] for column in kind.insert_order)
    chosen["ordinal"] = f"row_number() OVER (ORDER BY {order})" if order != "s.n" else order
    columns = list(ready_columns(kind))
    values = ", ".join(chosen[column] for column in columns)
    return (
        f"INSERT INTO {kind.ready} (n, {', '.join(columns)}) SELECT s.n, {values} "
        f"FROM {kind.staged} s {' '.join(joins)} ORDER BY {order}"
    )


def _ref_joins(ref: Ref) -> list[str]:
    """Return the joins that resolve a reference: ready rows (1, 3) or stored rows (2, 4), by id or by key."""
    r = ref.name
    ways = [("entity", f"s.{r}_id", f"entity_type = s.{r}_kind", f"slug = s.{r}_key", f"{r}_e")]
    if ref.to_items:
        ways.append(("item", f"s.{r}_item_id", f"kind = s.{r}_kind", f"url = s.{r}_item_key", f"{r}_i"))
    joins: list[str] = []
    for table, identifier, kind, key, name in ways:
        for place, found in (1, f"ready_{table}"), (2, table):
            joins.append(f"LEFT JOIN {found} {name}{place} ON {name}{place}.id = {identifier}")
        for place, found in (3, f"ready_{table}"), (4, table):
            at = f"{name}{place}"
            joins.append(f"LEFT JOIN {found} {at} ON {at}.project_pk = {_PROJECT} AND {at}.{kind} AND {at}.{key}")
        joins.append(f"LEFT JOIN moved_{table} {name}5 ON {name}5.pk = {name}4.pk")
    return joins


def _ref_values(ref: Ref) -> dict[str, str]:
    r = ref.name
    entity = _first_match(f"{r}_e", "pk")
    chosen = {f"{r}_pk": entity}
    problems = [
        f"WHEN s.{r}_id IS NULL AND s.{r}_key IS NULL THEN NULL",
        f"WHEN {entity} IS NULL THEN 'missing'",
        f"WHEN {_first_match(f'{r}_e', 'project_pk')} <> {_PROJECT} THEN 'elsewhere'",
        f"WHEN {_first_match(f'{r}_e', 'entity_type')} <> s.{r}_kind THEN {_first_match(f'{r}_e', 'entity_type')}",
    ]
    if ref.to_items:
        item = _first_match(f"{r}_i", "pk")
        keys = [f"{r}_e{place}.title_fold || :separator || {r}_e{place}.id" for place in (1, 3)]
        stored = [f"{r}_e2.title_key", f"CASE WHEN {r}_e5.pk IS NULL THEN {r}_e4.title_key END"]
        chosen |= {
            f"{r}_title_key": f"coalesce({keys[0]}, {stored[0]}, {keys[1]}, {stored[1]})",
            f"{r}_item": item,
        }
        problems[:1] = [
            f"WHEN coalesce(s.{r}_item_id, s.{r}_item_key, s.{r}_id, s.{r}_key) IS NULL THEN NULL",
            f"WHEN {_first_match(f'{r}_i', 'project_pk')} <> {_PROJECT} THEN 'elsewhere'",
            f"WHEN {_first_match(f'{r}_i', 'kind')} <> s.{r}_kind THEN {_first_match(f'{r}_i', 'kind')}",
            f"WHEN {item} IS NOT NULL THEN NULL",
        ]
    return chosen | {f"{r}_problem": f"CASE {' '.join(problems)} END"}


def _first_match(name: str, column: str) -> str:
    ways = ", ".join(f"{name}{place}.{column}" for place in (1, 2, 3))
    return f"coalesce({ways}, CASE WHEN {name}5.pk IS NULL THEN {name}4.{column} END)"


def _find_by_title(ref: Ref) -> str:
    """Return the statement that resolves items without a matching URL by their title, if it is unique."""
    r = ref.name
    same = f"project_pk = {RELATIONS.ready}.project_pk AND kind = s.{r}_kind AND title = s.{r}_item_key"
    known = f"""
        SELECT pk FROM ready_item WHERE {same}
        UNION SELECT i.pk FROM item i
        WHERE i.{same.replace(" AND ", " AND i.")} AND NOT EXISTS (SELECT 1 FROM ready_item o WHERE o.pk = i.pk)
    """
    return f"""
        UPDATE {RELATIONS.ready}
        SET {r}_item = (SELECT min(pk) FROM ({known}) AS known),
            {r}_problem = CASE (SELECT count(*) FROM ({known}) AS known)
                WHEN 0 THEN 'missing' WHEN 1 THEN NULL ELSE 'ambiguous' END
        FROM {RELATIONS.staged} AS s
        WHERE s.n = {RELATIONS.ready}.n AND s.{r}_item_key IS NOT NULL AND {r}_problem = 'missing'
    """


def _fill(kind: Kind, found: int) -> str:
    """Return the statement that fills fields a record does not give from the stored row."""
    bits = kind.bits
    given = {
        column.name: (bits[each.name], column.in_stored) for each in kind.fields.values() for column in each.columns
    }
    for ref in kind.refs:
        given |= {name: (bits[ref.name], f"t.{name}") for name in ref_columns(kind) if name.startswith(f"{ref.name}_")}
    filled = ", ".join(
        f"{name} = CASE WHEN (s.given & {bit}) = 0 THEN {stored} ELSE s.{name} END"
        for name, (bit, stored) in given.items()
    )
    every = sum(bits.values())
    return f"""
        UPDATE {kind.ready} AS s SET {filled} FROM {kind.table} AS t
        WHERE t.pk = s.pk AND s.found = {found} AND (s.given & {every}) <> {every}
    """


def _note_moved(bulk: Bulk, kind: Kind) -> str:
    columns = {column for key in kind.keys for column in key.columns} - {"project_pk"}
    differs = " OR ".join(f"s.{column} {bulk.distinct_operator} t.{column}" for column in sorted(columns))
    return f"""
        INSERT INTO moved_{kind.table} (n, pk) SELECT min(s.n), s.pk FROM {kind.ready} s
        JOIN {kind.table} t ON t.pk = s.pk WHERE s.found = {BY_ID} AND ({differs}) GROUP BY s.pk
    """


def _merge_details(bulk: Bulk) -> None:
    """Merge the open fields of items: given values replace stored ones, null removes them, the others stay."""
    bit = SOURCES.bits["details"]
    bulk.create_temporary(MERGED_TABLE, {"details": "text"})
    given = bulk.rows(f"""
        SELECT s.n, s.details, t.details FROM ready_item s LEFT JOIN item t ON t.pk = s.pk AND s.found <> {NEW}
        WHERE (s.given & {bit}) <> 0
    """)

    merged: list[tuple[int, str]] = []
    for n, details, stored in given:
        fields = json.loads(stored or "{}") | json.loads(details)
        text = compact({name: value for name, value in fields.items() if value is not None})
        if text != details:
            merged.append((n, text))
    bulk.insert(MERGED_TABLE, ("n", "details"), merged)
    bulk.execute(f"UPDATE ready_item AS s SET details = m.details FROM {MERGED_TABLE} AS m WHERE m.n = s.n")
