"""Ready rows into the tables, and the tallies after them; all within the caller's transaction."""

from carrel.common import Progress
from carrel.content.bundle.fields import ENTITIES, PROJECTS, TABLES, Kind, snake
from carrel.content.bundle.staging import NEW, is_ordered, ref_columns
from carrel.content.tallies import count_anew
from carrel.content.text import SEPARATOR
from carrel.storage.bulk import Bulk

BATCH = 20_000


def apply(bulk: Bulk, now: int, progress: Progress) -> int:
    """The number of rows that were written."""
    total = 0
    for kind in TABLES:
        written = _update(bulk, kind, now)
        progress(written)
        written += _insert(bulk, kind, progress)
        if written:
            count_anew(bulk, kind.table, f"SELECT project_pk FROM {kind.ready} WHERE found = {NEW} OR change = 1")
        total += written
    return total


def _columns(kind: Kind) -> dict[str, str]:
    """The table's columns, each with what it gets from the ready row `s`."""
    plain = [column.name for column in kind.columns if column.name not in kind.hidden]
    refs = [*(["project_pk"] if kind.in_project else []), *ref_columns(kind)]
    return {name: f"s.{name}" for name in (*refs, *plain)} | dict(kind.written)


def _parameters(kind: Kind) -> dict[str, object]:
    return {"separator": SEPARATOR} if kind.written else {}


def _update(bulk: Bulk, kind: Kind, now: int) -> int:
    if bulk.count(f"SELECT count(*) FROM {kind.ready} WHERE change = 1") == 0:
        return 0
    moved = f"SELECT pk FROM moved_{kind.table}"
    if bulk.first(f"{moved} LIMIT 1") is not None:  # rows may change places: out of the way with all of them first
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
    with bulk.adding(kind.table, bulk.count(f"SELECT count(*) FROM {kind.ready} WHERE found = {NEW}")):
        for after in range(0, last, BATCH):
            added = bulk.execute(sql, {"after": after, "up_to": after + BATCH, **_parameters(kind)})
            total += added
            progress(added)
    return total
