"""How many rows contain each short piece of text: too short for the trigram index, or in too many rows to count."""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from operator import add

from carrel.storage.bulk import BATCH, Bulk

HEAD, HEAD_AND_SUMMARY, QUERY, PAGE_URL = "head", "all", "query", "page"
"""The texts that are looked at together."""
LONGEST_TALLIED = 3  # characters
MOST_COUNTED = 200_000  # in memory, before they are put away

_COLUMNS = ("project_pk", "scope", "gram", "entity_type", "status", "concept_kind", "total")
_TYPES = dict.fromkeys(_COLUMNS, "text") | {"project_pk": "bigint", "total": "bigint"}
_ROWS = {
    "entity": "project_pk, entity_type, status, coalesce(concept_kind, ''), head_fold, summary_fold",
    "search_performance": "project_pk, '', '', '', query_fold, page_url_fold",
}
_ADD_UP = f"""
    INSERT INTO gram_tally ({", ".join(_COLUMNS)})
    SELECT {", ".join(_COLUMNS[:-1])}, sum(total) FROM gram_change
    GROUP BY {", ".join(_COLUMNS[:-1])} HAVING sum(total) <> 0
    ON CONFLICT ({", ".join(_COLUMNS[:-1])}) DO UPDATE SET total = gram_tally.total + excluded.total
"""
_TIDY = "DELETE FROM gram_tally WHERE total = 0 AND project_pk IN (SELECT project_pk FROM gram_change)"

_Sort = tuple[int, str, str, str, str]
"""Project, texts, type, status, concept kind."""


def scope(texts: str, gram: str) -> str:
    """Each length is kept apart, so that all the characters there are can be told at a glance."""
    return f"{texts}{len(gram)}"


class GramTally:
    """The change to the tally of a table's texts that a transaction makes; of a table without, nothing."""

    def __init__(self, bulk: Bulk, table: str) -> None:
        self._bulk = bulk
        self._table = table
        self._counts: dict[_Sort, Counter[str]] = {}
        self._rows = 0

    def take(self, where: str) -> None:
        """Leave out the rows that fulfil the condition, as they are now."""
        self._count(where, -1)

    def add(self, where: str) -> None:
        """Count the rows that fulfil the condition, as they are now."""
        self._count(where, 1)

    def write(self) -> None:
        self._put_away()
        if self._rows:
            self._bulk.execute(_ADD_UP)
            self._bulk.execute(_TIDY)
            self._bulk.execute("DROP TABLE gram_change")

    def _count(self, where: str, sign: int) -> None:
        if self._table not in _ROWS:
            return
        rows = self._bulk.rows(f"SELECT {_ROWS[self._table]} FROM {self._table} WHERE {where}")
        while batch := list(islice(rows, BATCH)):
            for project, entity_type, status, concept_kind, first, second in batch:
                for texts, found in self._texts(first, second or ""):
                    counter = self._counts.setdefault((project, texts, entity_type, status, concept_kind), Counter())
                    counter.update(found) if sign > 0 else counter.subtract(found)
            if sum(map(len, self._counts.values())) > MOST_COUNTED:
                self._put_away()

    def _texts(self, first: str, second: str) -> Iterator[tuple[str, frozenset[str]]]:
        if self._table == "entity":
            yield HEAD, grams(first)
            yield HEAD_AND_SUMMARY, grams(first) | grams(second)
        else:
            yield QUERY, grams(first)
            yield PAGE_URL, grams(second)

    def _put_away(self) -> None:
        if not self._counts:
            return
        if not self._rows:
            self._bulk.make_temporary("gram_change", _TYPES)
        rows = [
            (project, scope(texts, gram), gram, entity_type, status, concept_kind, total)
            for (project, texts, entity_type, status, concept_kind), counter in self._counts.items()
            for gram, total in counter.items()
        ]
        numbered = ((number, *row) for number, row in enumerate(rows, self._rows + 1))
        self._bulk.insert("gram_change", ("n", *_COLUMNS), numbered)
        self._rows += len(rows)
        self._counts.clear()


@lru_cache(maxsize=500)  # many rows in a row are about the same page
def grams(text: str) -> frozenset[str]:
    """Every character, and every two and three in a row."""
    pairs = list(map(add, text, text[1:]))
    return frozenset((*text, *pairs, *map(add, pairs, text[2:])))


def trigrams(text: str) -> list[str]:
    starts = range(len(text) - LONGEST_TALLIED + 1)
    return list(dict.fromkeys(text[start : start + LONGEST_TALLIED] for start in starts))
