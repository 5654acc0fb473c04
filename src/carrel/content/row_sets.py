"""What sets of rows there are: which rows of a table hold a text, have a facet, or are of some days.

Sets are met and counted (`row_set_asking`), so the total of a list is known without a look at its rows, whatever is
asked for at once. They are kept (`row_set_making`) for blocks of rows whose keys follow each other. All short texts
have theirs, and those longer ones that many rows of a block hold; where one has none, a few rows are looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carrel.content.grams import PAGE_URL, QUERY
from carrel.storage.syntax import SHORTEST_INDEXED

PRESENT, DATES = "present", "dates"
"""The names of what is kept of all rows of a block: which there are, where some are not, and of what days they are."""
SHORT = 4
"""Characters: each text of as many has a set."""


@dataclass(frozen=True, slots=True)
class Sets:
    """Those of one table."""

    table: str
    tally: str
    texts: Mapping[str, str]
    """The columns that are looked for texts in, each with its name here."""
    facets: tuple[str, ...] = ()
    """The columns of which each value has a set."""
    dates: tuple[str, str] | None = None
    """The columns of a row's start and end, for which it may have none."""
    latest_first: bool = False
    """Whether lists are in the order of the starts."""
    orders: tuple[str, ...] = ()
    """The columns that lists are in the order of otherwise."""
    keys: int = 2**16
    """Of a block, at most as many as now. With more a change takes longer, with fewer a question does."""
    many: int = 8
    """Rows of a block: a longer text that as many hold has a set."""

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
            SELECT CASE WHEN (SELECT sum(held) FROM {self.blocks} WHERE project_pk = :project)
                           = (SELECT sum(total) FROM {self.tally} WHERE project_pk = :project) THEN 1 ELSE 0 END AS yes
        """


PERFORMANCE = Sets(
    "search_performance",
    "search_performance_tally",
    texts={"query_fold": QUERY, "page_url_fold": PAGE_URL},
    dates=("date_start", "date_end"),
    latest_first=True,
)
ENTITIES = Sets(
    "entity",
    "entity_tally",
    texts={"head_fold": "head", "summary_fold": "summary"},
    facets=("entity_type", "status", "concept_kind"),
    orders=("created_at", "updated_at"),
)
BLOCKS = Sets(
    "quotable_block",
    "quotable_block_tally",
    texts={"topic_fold": "topic"},
    facets=("claim_type",),
    dates=("verified_until", "verified_until"),
    orders=("created_at",),
)
BY_TABLE = {sets.table: sets for sets in (PERFORMANCE, ENTITIES, BLOCKS)}


@dataclass(frozen=True, slots=True)
class Dates:
    earliest_start: int | None = None
    latest_end: int | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """What a row has to have one of: a text in a column, or the value of a facet."""

    alternatives: Sequence[tuple[str, str]]
    """Each a column's name among the sets, and what it has to hold."""
    grams: Sequence[str] = ()
    """Of a text that has no set where few rows hold it: some short ones in it."""


def containing(sets: Sets, columns: Sequence[str], needle: str, trigrams: Sequence[str]) -> Term:
    """The needle in one of the columns; some trigrams that are in it, the rarest first."""
    grams = _telling(needle, trigrams) if len(needle) > SHORT else ()
    return Term([(sets.texts[column], needle) for column in columns], grams)


def _telling(needle: str, trigrams: Sequence[str]) -> list[str]:
    """The rarest short text in the needle, the last and the first: what has them has, but for a few, the needle."""
    ranks = {trigram: rank for rank, trigram in enumerate(trigrams)}

    def rarity(gram: str) -> list[int]:
        return sorted(ranks.get(trigram, len(ranks)) for trigram in (gram[:SHORTEST_INDEXED], gram[-SHORTEST_INDEXED:]))

    rarest = min((needle[start : start + SHORT] for start in range(len(needle) - SHORT + 1)), key=rarity)
    return list(dict.fromkeys((rarest, needle[-SHORT:], needle[:SHORT])))
