"""Keeping the sets of rows true to the rows, within the transaction that changes them.

A block in which much has changed is taken apart anew. A few rows are noted instead: whoever asks looks at these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from carrel.content.bit_sets import offsets_of, packed, packed_dates, packed_places, unpacked
from carrel.content.pieces import Numbers, pieces
from carrel.content.row_sets import BY_TABLE, DATES, PRESENT, Sets
from carrel.content.times import BEGINNING, END
from carrel.storage.bulk import Bulk

TABLES = tuple(table for sets in BY_TABLE.values() for table in (sets.blocks, sets.grams))
MOST_NOTED = 128
"""Rows of a block."""
MOST_CHARACTERS = 2**25
"""In a column of a block: they are in memory together. A project with more has no sets, and its rows are looked at."""

Block = tuple[int, int]
"""Its project and its number."""
Changed = Mapping[Block, Sequence[int] | None]
"""The offsets of a block's rows; None for more than are noted."""
Period = tuple[int, int]
Progress = Callable[[int], None]


def changed_rows(bulk: Bulk, table: str, where: str) -> Changed:
    """The rows that fulfil the condition, as they are now; of a table without sets, none."""
    found: dict[Block, list[int] | None] = {}
    sets = BY_TABLE.get(table)
    if sets is None:
        return found
    for project, key in bulk.rows(f"SELECT project_pk, pk FROM {sets.table} WHERE {where}"):
        number, offset = divmod(key, sets.keys)
        rows = found.setdefault((project, number), [])
        if rows is not None:
            rows.append(offset)
            if len(rows) > MOST_NOTED:
                found[project, number] = None
    return found


def follow(bulk: Bulk, table: str, changed: Changed) -> None:
    """After these rows were added, changed or removed. For a project of which sets are missing, all are made."""
    if not changed:
        return
    sets = BY_TABLE[table]
    for block, rows in sorted(changed.items(), key=lambda each: each[0]):
        if rows is None or not _note(bulk, sets, block, rows):
            _make(bulk, sets, block)
    for project in sorted({project for project, _ in changed}):
        if not bulk.count(sets.are_whole, {"project": project}):
            _make_all(bulk, sets, project)


def make_missing(bulk: Bulk, progress: Progress) -> None:
    """Of all projects: after an upgrade, or from a backup, rows are there without their sets."""
    if _unfinished(bulk):
        bulk.roll_back()
        bulk.begin_writing()
        for sets, project in _unfinished(bulk):
            _make_all(bulk, sets, project, progress)
        bulk.commit()


def _unfinished(bulk: Bulk) -> list[tuple[Sets, int]]:
    """The projects of which sets are missing."""
    return [
        (sets, project)
        for sets in BY_TABLE.values()
        for (project,) in list(bulk.rows(f"SELECT DISTINCT project_pk FROM {sets.tally}"))
        if not bulk.count(sets.are_whole, {"project": project})
    ]


def _note(bulk: Bulk, sets: Sets, block: Block, rows: Sequence[int]) -> bool:
    """Whether that is enough: not for a block that is new, or of which many rows are noted."""
    where = "project_pk = :project AND number = :number"
    given = {"project": block[0], "number": block[1]}
    found = bulk.first(f"SELECT changed FROM {sets.blocks} WHERE {where}", given)
    if found is None:
        return False
    noted = np.union1d(np.array(rows, np.int64), offsets_of(unpacked(found[0] or b"", sets.keys)))
    if len(noted) > MOST_NOTED:
        return False
    held = f"(SELECT count(*) {_rows_of(sets, block)})"
    bulk.execute(
        f"UPDATE {sets.blocks} SET changed = :changed, held = {held} WHERE {where}",
        {**given, "changed": packed(noted, sets.keys)},
    )
    return True


def _make_all(bulk: Bulk, sets: Sets, project: int, progress: Progress = lambda _: None) -> None:
    for table in (sets.grams, sets.blocks):
        bulk.execute(f"DELETE FROM {table} WHERE project_pk = {project}")
    numbers = f"SELECT DISTINCT pk / {sets.keys} FROM {sets.table} WHERE project_pk = {project} ORDER BY 1"
    blocks = [(project, number) for (number,) in bulk.rows(numbers)]
    if not any(_is_too_long(bulk, sets, block) for block in blocks):
        for block in blocks:
            progress(_make(bulk, sets, block))


def _is_too_long(bulk: Bulk, sets: Sets, block: Block) -> bool:
    lengths = ", ".join(f"sum(length({column}))" for column in sets.texts)
    found = bulk.first(f"SELECT {lengths} {_rows_of(sets, block)}")
    return found is not None and any((length or 0) > MOST_CHARACTERS for length in found)


def _rows_of(sets: Sets, block: Block) -> str:
    project, number = block
    first = number * sets.keys
    return f"FROM {sets.table} WHERE +project_pk = {project} AND pk >= {first} AND pk < {first + sets.keys}"


def _make(bulk: Bulk, sets: Sets, block: Block) -> int:
    """The number of its rows."""
    project, number = block
    bulk.execute(f"DELETE FROM {sets.grams} WHERE project_pk = {project} AND block = {number}")
    bulk.execute(f"DELETE FROM {sets.blocks} WHERE project_pk = {project} AND number = {number}")
    if _is_too_long(bulk, sets, block):
        return 0
    in_order = f"{_rows_of(sets, block)} ORDER BY pk"
    columns = ("pk", *(sets.dates or ()), *sets.facets, *sets.orders)
    of_columns = list(zip(*bulk.rows(f"SELECT {', '.join(columns)} {in_order}"), strict=True))
    if not of_columns:
        return 0
    values = dict(zip(columns, of_columns, strict=True))
    offsets = np.array(values["pk"], np.int64) - number * sets.keys
    # What the release before kept with the block is empty: it takes no set of these for one of its own.
    told: dict[str, Any] = {"held": len(offsets), "total": 0} | dict.fromkeys(sets.orders, b"")
    of_rows = {column: packed_places(np.array(values[column], np.int64)) for column in sets.orders}
    if sets.dates is not None:
        dates = [_period(*each) for each in zip(*(values[column] for column in sets.dates), strict=True)]
        told |= _ends(dates) | {DATES: b""}
        of_rows[DATES] = packed_dates(dates)
    if len(offsets) < sets.keys:
        of_rows[PRESENT] = packed(offsets, sets.keys)
    bulk.insert(sets.blocks, ("project_pk", "number", *told), [(project, number, *told.values())])

    def keep(name: str, found: Iterable[tuple[str, bytes]]) -> None:
        columns = ("project_pk", "block", "texts", "gram", "bits")
        bulk.insert(sets.grams, columns, ((project, number, name, *each) for each in found))

    for name, data in of_rows.items():
        keep(name, [("", data)])
    for facet in sets.facets:
        keep(facet, ((value, packed(offsets[rows], sets.keys)) for value, rows in _by_value(values[facet])))
    for column, name in sets.texts.items():
        texts = (text for (text,) in bulk.rows(f"SELECT {column} {in_order}"))
        keep(name, ((piece, packed(offsets[rows], sets.keys)) for piece, rows in _by_piece(texts, sets.many)))
    return len(offsets)


def _period(start: int | None, end: int | None) -> Period | None:
    return None if start is None or end is None else (start, end)


def _ends(dates: Sequence[Period | None]) -> dict[str, int]:
    """The first and last dates of a block's rows. One that has none is before the first and after the last."""
    periods = [each for each in dates if each is not None]
    have_all = len(periods) == len(dates)
    return {
        "first_start": min(start for start, _ in periods) if have_all else BEGINNING - 1,
        "last_start": max((start for start, _ in periods), default=BEGINNING - 1),
        "first_end": min((end for _, end in periods), default=END + 1),
        "last_end": max(end for _, end in periods) if have_all else END + 1,
    }


def _by_value(values: Sequence[str | None]) -> Iterator[tuple[str, Numbers]]:
    """Each value with the places of those that have it."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        if value is not None:
            places[value].append(place)
    return ((value, np.array(found, np.int64)) for value, found in places.items())


def _by_piece(texts: Iterable[str | None], many: int) -> Iterator[tuple[str, Numbers]]:
    """Each piece of the texts with the places of those that hold it. What stands there often is taken apart once."""
    distinct: dict[str, int] = {}
    numbers = np.array([distinct.setdefault(text or "", len(distinct)) for text in texts], np.int64)
    firsts, totals = np.unique(numbers, return_index=True, return_counts=True)[1:]
    is_holder = np.zeros(len(distinct), np.bool_)

    def places(holders: Numbers) -> Numbers:
        if totals[holders].max() == 1:
            return firsts[holders]
        is_holder[:] = False
        is_holder[holders] = True
        return np.flatnonzero(is_holder[numbers])

    return ((piece, places(holders)) for piece, holders in pieces(list(distinct), totals, many))
