"""Which rows of search performance hold a short text, and which are of some dates, as sets of bits.

Sets are met with each other and counted without a look at a row, so the total of a list is known whatever is asked
for at once. `row_set_making` keeps them, for blocks of rows whose keys follow each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carrel.content.grams import PAGE_URL, QUERY
from carrel.content.projects import Project
from carrel.storage.database import Session

BLOCK = 2**14
"""Keys. With more a change takes longer, with fewer a question does."""
TEXTS = {"query_fold": QUERY, "page_url_fold": PAGE_URL}

ARE_WHOLE = """
    SELECT CASE WHEN (SELECT sum(total) FROM search_performance_block WHERE project_pk = :project)
                   = (SELECT sum(total) FROM search_performance_tally WHERE project_pk = :project) THEN 1 ELSE 0 END
"""
"""Whether every row of a project is in its sets: those who do not know of them count no less."""

Bits = npt.NDArray[np.uint8]
"""One for each key of a block, from the lowest."""
_BYTES = BLOCK // 8
_OFFSET, _TIME = np.dtype("<u2"), np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class Dates:
    earliest_start: int | None = None
    latest_end: int | None = None


class RowSet:
    def __init__(self, blocks: Sequence[tuple[int, Bits]]) -> None:
        """The number of each block, and what is in it."""
        self._blocks = blocks
        self.total = sum(int.from_bytes(bits.tobytes()).bit_count() for _, bits in blocks)

    def keys(self) -> list[int]:
        return [
            key
            for number, bits in self._blocks
            for key in (np.flatnonzero(np.unpackbits(bits, bitorder="little")) + number * BLOCK).tolist()
        ]


async def rows_with(session: Session, project: Project, needles: Mapping[str, str], dates: Dates) -> RowSet | None:
    """The rows that hold each needle in the column it is for, and are within the dates; None where sets are missing."""
    whole = await session.first(ARE_WHOLE, {"project": project.pk})
    if whole is None or not whole[0]:
        return None
    joined = "".join(
        f" CROSS JOIN search_performance_gram AS {column}"  # in this order: SQLite changes that of other joins
        for column in needles
    )
    chosen = "".join(
        f" AND {column}.project_pk = block.project_pk AND {column}.block = block.number"
        f" AND {column}.texts = '{TEXTS[column]}' AND {column}.gram = :{column}"
        for column in needles
    )
    times = {"start": dates.earliest_start, "end": dates.latest_end}
    times = {name: time for name, time in times.items() if time is not None}
    if "start" in times:
        chosen += " AND block.last_start >= :start"
    if "end" in times:
        chosen += " AND block.first_end <= :end"
    all_within = {"start": "block.first_start >= :start", "end": "block.last_end <= :end"}
    is_within = " AND ".join(all_within[name] for name in times) or "TRUE"
    bits = ", ".join(f"{column}.bits" for column in needles)
    rows = await session.all(
        f"SELECT block.number, CASE WHEN {is_within} THEN NULL ELSE block.dates END, {bits} "
        f"FROM search_performance_block AS block{joined} WHERE block.project_pk = :project{chosen}",
        {"project": project.pk, **needles, **times},
    )
    return RowSet([(number, _met(sets, of_rows, dates)) for number, of_rows, *sets in rows])


def _met(sets: Sequence[bytes], of_rows: bytes | None, dates: Dates) -> Bits:
    """What is in all sets, and where the dates of rows are given, within the dates."""
    met = unpacked(sets[0])
    for each in sets[1:]:
        met = met & unpacked(each)
    return met if of_rows is None else met & within(of_rows, dates)


def packed(offsets: npt.NDArray[np.int64]) -> bytes:
    """A set as it is kept: its bits, or where that is shorter, the offsets of its keys."""
    numbers = offsets.astype(_OFFSET)
    return numbers.tobytes() if numbers.nbytes < _BYTES else _bits(numbers).tobytes()


def unpacked(data: bytes) -> Bits:
    return np.frombuffer(data, np.uint8) if len(data) == _BYTES else _bits(np.frombuffer(data, _OFFSET))


def _bits(offsets: npt.NDArray[np.uint16]) -> Bits:
    room = np.zeros(BLOCK, np.bool_)
    room[offsets] = True
    return np.packbits(room, bitorder="little")


def packed_dates(dates: Mapping[int, tuple[int, int]]) -> bytes:
    """The starts and ends there are, and for each key which of them it has, or one beyond; `dates` are by offset."""
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(dates.values()))}
    of_keys = np.full(BLOCK, len(numbers), _OFFSET)
    of_keys[list(dates)] = [numbers[pair] for pair in dates.values()]
    return of_keys.tobytes() + np.array(list(numbers), _TIME).tobytes()


def within(data: bytes, dates: Dates) -> Bits:
    """The set of those within the dates."""
    of_keys = np.frombuffer(data, _OFFSET, BLOCK)
    starts, ends = np.frombuffer(data, _TIME, offset=of_keys.nbytes).reshape(-1, 2).T
    chosen = np.ones(len(starts) + 1, np.bool_)
    chosen[-1] = False
    if dates.earliest_start is not None:
        chosen[:-1] &= starts >= dates.earliest_start
    if dates.latest_end is not None:
        chosen[:-1] &= ends <= dates.latest_end
    return np.packbits(chosen[of_keys], bitorder="little")
