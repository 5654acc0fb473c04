"""Asking the sets of rows: a page of what fulfils all that is asked for, and how many there are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carrel.content.bit_sets import Bits, Places, lines_of, places_of, ranks, unpacked, within
from carrel.content.conditions import Conditions
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.content.row_sets import DATES, PRESENT, Dates, Sets, Term
from carrel.content.times import END
from carrel.storage.database import Row, Session

EVER = Dates()
FEW_LOOKED_AT = 100
LOOKED_THROUGH = 1000
"""Rows of an index, for the first that are wanted among them."""
LAST_CHARACTER = "\U0010ffff"


async def page_by_sets(
    session: Session,
    sets: Sets,
    listing: Listing,
    terms: Sequence[Term],
    conditions: Conditions,
    window: Window,
    dates: Dates = EVER,
    index: str = "",
) -> Page[Row] | None:
    """A page of the rows that fulfil every term within the dates, which is what the conditions say; by the index, in
    whose order they are. None where sets are missing."""
    asking = _Asking(session, sets, conditions, listing.order.split()[0])
    found = await asking.rows(terms, dates)
    if found is None:
        return None
    sure = found.sure.total
    if sure <= FEW_LOOKED_AT:
        keys = [*found.sure.keys().tolist(), *found.unsure.keys().tolist()]
        return await listing.page_by_text(session, asking.among(keys), window) if keys else Page([], 0)
    unsure = await asking.fulfilling(found.unsure.keys())
    total, end = sure + len(unsure), window.offset + window.limit
    if window.offset >= total:
        return Page([], total)
    if end * found.rows <= total * LOOKED_THROUGH:
        return await listing.page(session, conditions, window, total, index)
    keys, before = await asking.about(found, unsure, window)
    sql = f"""
        SELECT {listing.key} FROM {sets.table} WHERE +project_pk = :project AND {session.syntax.among("pk", "keys")}
    """
    given = {"project": conditions.parameters["project"], "keys": session.syntax.values(keys)}
    return Page(await listing.rows(session, sql, given, replace(window, offset=window.offset - before)), total)


def _counts(lines: Bits) -> npt.NDArray[np.int64]:
    return np.bitwise_count(lines.view(np.uint64)).sum(axis=1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _RowSet:
    block_keys: int
    numbers: npt.NDArray[np.int64]
    """Of its blocks."""
    lines: Bits
    """What is in each of them, one below the other."""

    @property
    def totals(self) -> npt.NDArray[np.int64]:
        """Of each block."""
        return _counts(self.lines)

    @property
    def total(self) -> int:
        return int(self.totals.sum())

    def places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Line and offset of each key."""
        words = self.lines.ravel().view(np.uint64)  # most are nothing
        some = np.flatnonzero(words)
        bits = np.flatnonzero(np.unpackbits(words[some].view(np.uint8), bitorder="little").view(np.bool_))
        return np.divmod(some[bits // 64] * 64 + bits % 64, self.block_keys)

    def keys(self) -> npt.NDArray[np.int64]:
        lines, offsets = self.places()
        return self.numbers[lines] * self.block_keys + offsets


@dataclass(frozen=True, slots=True)
class _Found:
    sure: _RowSet
    unsure: _RowSet
    """Those that have to be looked at."""
    rows: int
    """All there are in the blocks."""
    starts: Sequence[tuple[int, int]]
    """The first and the last of each block, where lists are in that order."""


class _Block(NamedTuple):
    number: int
    rows: int
    first_start: int
    last_start: int
    is_within: int
    """Whether all of its rows are within the dates asked for."""
    changed: bytes | None
    held: Sequence[bytes | None]
    """The set of each alternative."""


class _Asking:
    def __init__(self, session: Session, sets: Sets, conditions: Conditions, order: str) -> None:
        self._session = session
        self._sets = sets
        self._conditions = conditions
        self._order = order
        self._project = {"project": conditions.parameters["project"]}

    async def rows(self, terms: Sequence[Term], dates: Dates) -> _Found | None:
        """None where sets are missing."""
        blocks = await self._blocks(terms, dates)
        if blocks is None:
            return None
        numbers = [block.number for block in blocks]
        nothing = lines_of([None] * len(blocks), self._sets.keys)
        sure, likely = ~nothing, ~nothing
        held = list(zip(*(block.held for block in blocks), strict=True))
        for term in terms:
            known, guessed = nothing.copy(), nothing.copy()
            for name, _ in term.alternatives if blocks else ():
                found = held.pop(0)
                known |= lines_of(found, self._sets.keys)
                unknown = [line for line, each in enumerate(found) if each is None and likely[line].any()]
                if term.grams and unknown:
                    guessed[unknown] |= await self._candidates(name, term.grams, [numbers[line] for line in unknown])
            sure &= known
            likely &= known | guessed
        await self._leave_within(dates, blocks, sure, likely)
        for line, block in enumerate(blocks):
            if block.changed is not None:
                again = unpacked(block.changed, self._sets.keys)
                sure[line] &= ~again
                likely[line] |= again
        found = _RowSet(self._sets.keys, np.array(numbers, np.int64), sure)
        return _Found(
            found,
            replace(found, lines=likely & ~sure),
            sum(block.rows for block in blocks),
            [(block.first_start, block.last_start) for block in blocks],
        )

    async def _leave_within(self, dates: Dates, blocks: Sequence[_Block], sure: Bits, likely: Bits) -> None:
        """Leave out what is not within the dates; where there are few, that is for a look at the rows to tell."""
        partly = [line for line, block in enumerate(blocks) if not block.is_within and likely[line].any()]
        if _counts(likely[partly]).sum() <= FEW_LOOKED_AT:
            sure[partly] = 0
            return
        kept = await self._of_rows(DATES, [blocks[line].number for line in partly])
        for line in partly:
            surely, may_be = within(*kept[blocks[line].number], dates, self._sets.keys)
            sure[line] &= surely
            likely[line] &= may_be

    def among(self, keys: Sequence[int]) -> Conditions:
        """The conditions, for rows with these keys."""
        syntax = self._session.syntax
        return self._conditions.plus(syntax.among("pk", "keys"), keys=syntax.values(keys))

    async def fulfilling(self, keys: npt.NDArray[np.int64]) -> list[Row]:
        """Of the rows with these keys, key and place in the order of those that fulfil the conditions."""
        if not len(keys):
            return []
        some = self.among(keys.tolist())
        sql = f"SELECT pk, {self._order} FROM {self._sets.table} {some.where_by_text}"
        return await self._session.all(sql, some.parameters)

    async def about(self, found: _Found, unsure: Sequence[Row], window: Window) -> tuple[list[int], int]:
        """The keys of the rows of a page and of a few around it, and how many rows are before all of these."""
        more = [pk for pk, _ in unsure]
        if self._sets.latest_first:
            latest = self._of_latest(found, window.offset + window.limit)
            return [*latest.keys().tolist(), *more], 0
        keys = np.concatenate([found.sure.keys(), np.array(more, np.int64)])
        places = -await self._places(found.sure, [place for _, place in unsure])  # the highest is the first
        last = min(window.offset + window.limit, len(keys)) - 1
        ordered = np.partition(places, [window.offset, last])
        chosen = (places >= ordered[window.offset]) & (places <= ordered[last])
        return keys[chosen].tolist(), int((places < ordered[window.offset]).sum())

    async def _places(self, found: _RowSet, more: Sequence[int]) -> npt.NDArray[np.int64]:
        """Those of the rows in the order of the list, and these, as exactly as all are known."""
        some = np.flatnonzero(found.totals).tolist()
        kept = await self._of_rows(self._order, found.numbers[some].tolist())
        lines, offsets = found.places()
        known = [Places(0, np.array(more, np.int64))]
        for line, part in zip(some, np.split(offsets, np.searchsorted(lines, some))[1:], strict=True):
            data, present = kept[found.numbers[line]]
            known.append(places_of(data, ranks(part, present, self._sets.keys)))
        shift = max(places.shift for places in known)
        return np.concatenate([places.at(shift) for places in (*known[1:], known[0])])

    async def _of_rows(self, name: str, blocks: Sequence[int]) -> dict[int, tuple[bytes, bytes | None]]:
        """What is kept by this name of all rows of each block, and which rows those are."""
        syntax = self._session.syntax
        rows = await self._session.all(
            f"""
                SELECT block, texts, bits FROM {self._sets.grams} WHERE project_pk = :project
                  AND {syntax.among("block", "blocks")} AND texts IN ('{name}', '{PRESENT}') AND gram = ''
            """,
            {**self._project, "blocks": syntax.values(blocks)},
        )
        kept = {(block, texts): data for block, texts, data in rows}
        return {block: (kept[block, name], kept.get((block, PRESENT))) for block in blocks}

    def _of_latest(self, found: _Found, count: int) -> _RowSet:
        """The blocks with the latest starts, so many that no row of another is among the first."""
        totals, lines = found.sure.totals.tolist(), found.sure.lines.copy()
        chosen, earliest = 0, END
        for line in sorted(range(len(totals)), key=lambda line: found.starts[line][1], reverse=True):
            first, last = found.starts[line]
            if chosen < count:
                chosen += totals[line]
                earliest = min(first, earliest)
            elif last < earliest:
                lines[line] = 0
        return replace(found.sure, lines=lines)

    async def _blocks(self, terms: Sequence[Term], dates: Dates) -> list[_Block] | None:
        """Those that may have rows within the dates; None where some are missing."""
        parameters, held = dict(self._project), list[str]()
        for term in terms:
            for name, text in term.alternatives:
                parameter = f"held{len(held)}"
                parameters[parameter] = text
                chosen = f"gram = :{parameter}"
                if term.grams:  # any text that begins with it is as good: see `pieces`
                    parameters[f"{parameter}_end"] = text + LAST_CHARACTER
                    chosen = f"gram >= :{parameter} AND gram < :{parameter}_end ORDER BY gram LIMIT 1"
                held.append(f"""(
                    SELECT bits FROM {self._sets.grams} AS held
                    WHERE held.project_pk = block.project_pk AND held.block = block.number
                      AND texts = '{name}' AND {chosen}
                )""")
        times = {"start": dates.earliest_start, "end": dates.latest_end}
        times = {name: time for name, time in times.items() if time is not None}
        some_within = {"start": "block.last_start >= :start", "end": "block.first_end <= :end"}
        all_within = {"start": "block.first_start >= :start", "end": "block.last_end <= :end"}
        may_have = " AND ".join(some_within[name] for name in times) or "TRUE"
        has_all = " AND ".join(all_within[name] for name in times) or "TRUE"
        starts = "block.first_start, block.last_start" if self._sets.latest_first else "0, 0"
        rows = await self._session.all(
            f"""
                SELECT are_whole.yes, block.number, block.held, {starts},
                       CASE WHEN {has_all} THEN 1 ELSE 0 END, block.changed, {", ".join(held)}
                FROM ({self._sets.are_whole}) AS are_whole LEFT JOIN {self._sets.blocks} AS block
                  ON block.project_pk = :project AND ({may_have} OR block.changed IS NOT NULL) ORDER BY block.number
            """,
            {**parameters, **times},
        )
        if not rows[0][0]:
            return None
        return [_Block(*row[1:7], held=row[7:]) for row in rows if row[1] is not None]

    async def _candidates(self, name: str, grams: Sequence[str], blocks: Sequence[int]) -> Bits:
        """The rows of the blocks with the first of the grams, and if these are many, with the others too."""
        found = await self._held(name, grams[0], blocks)
        for gram in grams[1:]:
            if _counts(found).sum() <= FEW_LOOKED_AT:
                break
            found &= await self._held(name, gram, blocks)
        return found

    async def _held(self, name: str, gram: str, blocks: Sequence[int]) -> Bits:
        """The rows of these blocks that hold it."""
        syntax = self._session.syntax
        rows = await self._session.all(
            f"""
                SELECT block, bits FROM {self._sets.grams} WHERE project_pk = :project
                  AND {syntax.among("block", "blocks")} AND texts = '{name}' AND gram = :gram
            """,
            {**self._project, "blocks": syntax.values(blocks), "gram": gram},
        )
        kept = dict(rows)
        return lines_of([kept.get(block) for block in blocks], self._sets.keys)
