"""Keeping the sets of rows: those of a block are made anew when one of its rows has changed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from carrel.content.grams import LONGEST_TALLIED
from carrel.content.row_sets import ARE_WHOLE, BLOCK, TEXTS, packed, packed_dates
from carrel.storage.bulk import Bulk, Row

ROWS, BLOCKS, GRAMS = "search_performance", "search_performance_block", "search_performance_gram"
TABLES = (BLOCKS, GRAMS)
AT_ONCE = 2**19
"""Characters that are taken apart together."""

Block = tuple[int, int]
"""Its project and its number."""
Progress = Callable[[int], None]
Numbers = npt.NDArray[np.int64]


def blocks_of(bulk: Bulk, where: str) -> list[Block]:
    """Those of the rows that fulfil the condition, as they are now."""
    rows = bulk.rows(f"SELECT DISTINCT project_pk, pk / {BLOCK} FROM {ROWS} WHERE {where}")
    return [(project, number) for project, number in rows]


def make_anew(bulk: Bulk, blocks: Iterable[Block]) -> None:
    """After rows of these have changed; for a project of which sets are missing, all of them."""
    made = set(blocks)
    for block in sorted(made):
        _make(bulk, block)
    for project in sorted({project for project, _ in made}):
        if not bulk.count(ARE_WHOLE, {"project": project}):
            _make_all(bulk, project)


def make_missing(bulk: Bulk, progress: Progress) -> None:
    """Of all projects: after an upgrade, or from a backup, rows are there without their sets."""
    if _unfinished(bulk):
        bulk.roll_back()
        bulk.begin_writing()
        for project in _unfinished(bulk):
            _make_all(bulk, project, progress)
        bulk.commit()


def _unfinished(bulk: Bulk) -> list[int]:
    """The projects of which sets are missing."""
    projects = [project for (project,) in bulk.rows("SELECT DISTINCT project_pk FROM search_performance_tally")]
    return [project for project in projects if not bulk.count(ARE_WHOLE, {"project": project})]


def _make_all(bulk: Bulk, project: int, progress: Progress = lambda _: None) -> None:
    for table in TABLES:
        bulk.execute(f"DELETE FROM {table} WHERE project_pk = {project}")
    for block in sorted(blocks_of(bulk, f"project_pk = {project}")):
        progress(_make(bulk, block))


def _make(bulk: Bulk, block: Block) -> int:
    """The number of its rows."""
    project, number = block
    bulk.execute(f"DELETE FROM {GRAMS} WHERE project_pk = {project} AND block = {number}")
    bulk.execute(f"DELETE FROM {BLOCKS} WHERE project_pk = {project} AND number = {number}")
    first = number * BLOCK
    rows = bulk.rows(
        f"SELECT pk - {first}, date_start, date_end, {', '.join(TEXTS)} FROM {ROWS} "
        f"WHERE +project_pk = {project} AND pk >= {first} AND pk < {first + BLOCK}"
    )
    dates: dict[int, tuple[int, int]] = {}
    held: dict[str, defaultdict[str, list[Numbers]]] = {texts: defaultdict(list) for texts in TEXTS.values()}
    for batch in _batches(rows):
        offsets, starts, ends, *columns = zip(*batch, strict=True)
        dates.update(zip(offsets, zip(starts, ends, strict=True), strict=True))
        for found, column in zip(held.values(), columns, strict=True):
            for gram, holders in grams(offsets, column):
                found[gram].append(holders)
    if dates:
        starts, ends = zip(*dates.values(), strict=True)
        bounds = {"first_start": min(starts), "last_start": max(starts), "first_end": min(ends), "last_end": max(ends)}
        columns = ("project_pk", "number", "total", *bounds, "dates")
        bulk.insert(BLOCKS, columns, [(project, number, len(dates), *bounds.values(), packed_dates(dates))])
        sets = (
            (project, number, texts, gram, packed(np.concatenate(holders)))
            for texts, found in held.items()
            for gram, holders in sorted(found.items())
        )
        bulk.insert(GRAMS, ("project_pk", "block", "texts", "gram", "bits"), sets)
    return len(dates)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    room = AT_ONCE
    for row in rows:
        batch.append(row)
        room -= sum(map(len, row[-len(TEXTS) :]))
        if room < 0:
            yield batch
            batch, room = [], AT_ONCE
    if batch:
        yield batch


def grams(offsets: Sequence[int], texts: Sequence[str]) -> Iterator[tuple[str, Numbers]]:
    """Every character and every two and three in a row, each with the offsets of the texts that hold it."""
    joined = "".join(texts)
    owners = np.repeat(np.asarray(offsets, np.int64), [len(text) for text in texts])
    letters = _numbered(np.frombuffer(joined.encode("utf-32-le"), "<u4").astype(np.int64))
    numbers = letters
    """Of what begins at each place: the same for the same."""
    for length in range(1, min(LONGEST_TALLIED, len(joined)) + 1):
        if length > 1:
            numbers = _numbered(numbers[:-1] * len(letters) + letters[length - 1 :])
        places = np.flatnonzero(owners[: len(numbers)] == owners[length - 1 :])  # where it ends in the same text
        example = np.empty(len(numbers), np.int64)
        example[numbers[places]] = places
        found, holders = np.divmod(_distinct(numbers[places] * BLOCK + owners[places]), BLOCK)
        starts = np.flatnonzero(np.diff(found, prepend=-1))
        parts = pairwise([*starts.tolist(), len(found)])
        for place, (start, end) in zip(example[found[starts]].tolist(), parts, strict=True):
            yield joined[place : place + length], holders[start:end]


def _numbered(codes: Numbers) -> Numbers:
    """The codes as numbers from 0 on, so that they stay small when they are put together."""
    return np.searchsorted(_distinct(codes), codes)


def _distinct(codes: Numbers) -> Numbers:
    """In order. `numpy.unique` looks each one up, which takes longer than to sort them."""
    ordered = np.sort(codes)
    return ordered[np.diff(ordered, prepend=-1) != 0]
