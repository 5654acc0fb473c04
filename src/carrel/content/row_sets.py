"""Which rows of a table hold a text, have a facet or are of some dates, as sets that are met and counted.

So the total of a list is known without a look at its rows, whatever is asked for at once. `row_set_making` keeps the
sets, for blocks of rows whose keys follow each other. All short texts have theirs, and those longer ones that many
rows of a block hold; where one has none, a few rows of the block are looked at.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from carrel.content.bit_sets import Bits, Dates, unpacked, within
from carrel.content.conditions import Conditions
from carrel.content.grams import LONGEST_TALLIED, PAGE_URL, QUERY
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.storage.database import Row, Session

EVER = Dates()
ENOUGH = 6
"""Trigrams of a text: what has these has, but for a few, the text."""
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Sets:
    """Those of one table."""

    table: str
    tally: str
    keys: int
    """Of a block. With more a change takes longer, with fewer a question does."""
    many: int
    """Rows of a block: a longer text that as many hold has a set."""
    texts: Mapping[str, str]
    """The columns that are looked for texts in, each with its name here."""
    facets: tuple[str, ...] = ()
    """The columns of which each value has a set."""
    dates: tuple[str, str] | None = None
    """The columns of a row's start and end, for which it may have none."""

    @property
    def blocks(self) -> str:
        return f"{self.table}_block"

    @property
    def grams(self) -> str:
        return f"{self.table}_gram"

    @property
    def are_whole(self) -> str:
        """Whether every row of a project is in its sets: those who do not know of them count no less."""
        return f"""
            SELECT CASE WHEN (SELECT sum(total + coalesce(noted, 0)) FROM {self.blocks} WHERE project_pk = :project)
                           = (SELECT sum(total) FROM {self.tally} WHERE project_pk = :project) THEN 1 ELSE 0 END
        """


PERFORMANCE = Sets(
    "search_performance",
    "search_performance_tally",
    keys=2**14,
    many=64,
    texts={"query_fold": QUERY, "page_url_fold": PAGE_URL},
    dates=("date_start", "date_end"),
)
ENTITIES = Sets(
    "entity",
    "entity_tally",
    keys=2**12,
    many=32,
    texts={"head_fold": "head", "summary_fold": "summary"},
    facets=("entity_type", "status", "concept_kind"),
)
BLOCKS = Sets(
    "quotable_block",
    "quotable_block_tally",
    keys=2**14,
    many=64,
    texts={"topic_fold": "topic"},
    facets=("claim_type",),
    dates=("verified_until", "verified_until"),
)
BY_TABLE = {sets.table: sets for sets in (PERFORMANCE, ENTITIES, BLOCKS)}


@dataclass(frozen=True, slots=True)
class Term:
    """What a row has to have one of: a text in a column, or the value of a facet."""

    alternatives: Sequence[tuple[str, str]]
    """Each a column's name among the sets, and what it has to hold."""
    trigrams: Sequence[str] = ()
    """Of a text that has no set where few rows hold it: some of those in it."""


def containing(sets: Sets, columns: Sequence[str], needle: str, trigrams: Sequence[str]) -> Term:
    """The needle, which has these trigrams, in one of the columns."""
    is_long = len(needle) > LONGEST_TALLIED
    return Term([(sets.texts[column], needle) for column in columns], trigrams[:ENOUGH] if is_long else ())


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
    asking = _Asking(session, sets, conditions)
    if not await asking.can_be_answered():
        return None
    found = await asking.rows(terms, dates)
    most = found.sure.total + found.unsure.total
    if most * most < (window.offset + window.limit) * found.rows:
        few = asking.among([*found.sure.keys(), *found.unsure.keys()])
        return await listing.page_by_text(session, few, window)
    unsure = found.unsure.keys()
    total = found.sure.total + (await asking.count(unsure) if unsure else 0)
    return await listing.page(session, conditions, window, total, index)  # among many, the first are soon found


@dataclass(frozen=True, slots=True)
class _RowSet:
    block_keys: int
    numbers: npt.NDArray[np.int64]
    """Of its blocks."""
    lines: Bits
    """What is in each of them, one below the other."""

    @property
    def total(self) -> int:
        return int(np.bitwise_count(self.lines).sum(dtype=np.int64))

    def keys(self) -> list[int]:
        blocks, offsets = np.nonzero(np.unpackbits(self.lines, axis=1, bitorder="little"))
        return (self.numbers[blocks] * self.block_keys + offsets).tolist()


@dataclass(frozen=True, slots=True)
class _Found:
    sure: _RowSet
    unsure: _RowSet
    """Those that have to be looked at."""
    rows: int
    """All there are in the blocks."""


class _Asking:
    def __init__(self, session: Session, sets: Sets, conditions: Conditions) -> None:
        self._session = session
        self._sets = sets
        self._conditions = conditions
        self._project = {"project": conditions.parameters["project"]}

    async def can_be_answered(self) -> bool:
        row = await self._session.first(self._sets.are_whole, self._project)
        return row is not None and bool(row[0])

    async def rows(self, terms: Sequence[Term], dates: Dates) -> _Found:
        blocks = await self._blocks(terms, dates)
        numbers = [block[0] for block in blocks]
        sure, likely = ~self._lines([None] * len(blocks)), ~self._lines([None] * len(blocks))
        place = 4
        for term in terms:
            known, guessed = self._lines([None] * len(blocks)), self._lines([None] * len(blocks))
            for name, _ in term.alternatives:
                held = [block[place] for block in blocks]
                place += 1
                known |= self._lines(held)
                if term.trigrams:
                    unknown = [number for number, each in zip(numbers, held, strict=True) if each is None]
                    candidates = await self._candidates(name, term.trigrams, unknown)
                    guessed |= self._lines([candidates.get(number) for number in numbers])
            sure &= known
            likely &= known | guessed
        for line, (_, _, changed, of_rows, *_) in enumerate(blocks):
            if of_rows is not None:
                fitting = within(of_rows, dates, self._sets.keys)
                sure[line] &= fitting
                likely[line] &= fitting
            if changed is not None:
                again = unpacked(changed, self._sets.keys)
                sure[line] &= ~again
                likely[line] |= again
        found = _RowSet(self._sets.keys, np.array(numbers, np.int64), sure)
        return _Found(found, replace(found, lines=likely & ~sure), sum(block[1] for block in blocks))

    def among(self, keys: Sequence[int]) -> Conditions:
        """That a row has one of these keys, and fulfils the conditions."""
        syntax = self._session.syntax
        return self._conditions.plus(syntax.among("pk", "keys"), keys=syntax.values(keys))

    async def count(self, keys: Sequence[int]) -> int:
        """Of the rows with these keys, those that fulfil the conditions."""
        few = self.among(keys)
        row = await self._session.first(f"SELECT count(*) FROM {self._sets.table} {few.where_by_text}", few.parameters)
        return 0 if row is None else int(row[0])

    async def _blocks(self, terms: Sequence[Term], dates: Dates) -> list[Row]:
        """Number, how many rows, which have changed, the dates of each where they matter, each alternative's set."""
        parameters, held = dict(self._project), list[str]()
        for term in terms:
            for name, text in term.alternatives:
                parameter = f"held{len(held)}"
                parameters[parameter] = text
                chosen = f"gram = :{parameter}"
                if term.trigrams:  # any text that begins with it is as good: see `pieces`
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
        of_rows = f"CASE WHEN {' AND '.join(all_within[name] for name in times)} THEN NULL ELSE block.dates END"
        return await self._session.all(
            f"""
                SELECT block.number, block.total + coalesce(block.noted, 0), block.changed,
                       {of_rows if times else "NULL"}, {", ".join(held)}
                FROM {self._sets.blocks} AS block
                WHERE block.project_pk = :project AND ({may_have} OR block.changed IS NOT NULL) ORDER BY block.number
            """,
            {**parameters, **times},
        )

    async def _candidates(self, name: str, trigrams: Sequence[str], blocks: Sequence[int]) -> dict[int, Bits]:
        """For each of the blocks the rows with all of the trigrams."""
        if not blocks:
            return {}
        syntax = self._session.syntax
        rows = await self._session.all(
            f"""
                SELECT block, bits FROM {self._sets.grams} WHERE project_pk = :project AND texts = '{name}'
                  AND {syntax.among("block", "blocks")} AND {syntax.among("gram", "grams")}
            """,
            {**self._project, "blocks": syntax.values(blocks), "grams": syntax.values(trigrams)},
        )
        held: defaultdict[int, list[Bits]] = defaultdict(list)
        for block, data in rows:
            held[block].append(unpacked(data, self._sets.keys))
        return {block: np.bitwise_and.reduce(found) for block, found in held.items() if len(found) == len(trigrams)}

    def _lines(self, held: Sequence[bytes | Bits | None]) -> Bits:
        """Sets of the blocks, one below the other; None is nothing."""
        lines = np.zeros((len(held), self._sets.keys // 8), np.uint8)
        for line, each in enumerate(held):
            if each is not None:
                lines[line] = unpacked(each, self._sets.keys) if isinstance(each, bytes) else each
        return lines
