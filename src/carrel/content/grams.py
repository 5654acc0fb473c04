"""How many entities of each sort contain each short piece of text: what is too short for the trigram index."""

from collections import Counter
from itertools import islice
from operator import add

from carrel.storage.bulk import BATCH, Bulk

IN_HEAD, IN_ALL = "head", "all"
MOST_COUNTED = 200_000  # in memory, before they are put away

_COLUMNS = ("project_pk", "scope", "gram", "entity_type", "status", "concept_kind", "total")
_TYPES = dict.fromkeys(_COLUMNS, "text") | {"project_pk": "bigint", "total": "bigint"}
_ENTITIES = """
    SELECT project_pk, entity_type, status, coalesce(concept_kind, ''), head_fold, summary_fold
    FROM entity WHERE pk IN ({pks})
"""
_ADD_UP = f"""
    INSERT INTO entity_gram_tally ({", ".join(_COLUMNS)})
    SELECT {", ".join(_COLUMNS[:-1])}, sum(total) FROM gram_change
    GROUP BY {", ".join(_COLUMNS[:-1])} HAVING sum(total) <> 0
    ON CONFLICT ({", ".join(_COLUMNS[:-1])}) DO UPDATE SET total = entity_gram_tally.total + excluded.total
"""
_TIDY = "DELETE FROM entity_gram_tally WHERE total = 0 AND project_pk IN (SELECT project_pk FROM gram_change)"

_Sort = tuple[int, str, str, str, str]
"""Project, scope, type, status, concept kind."""


class GramTally:
    """The change to the tally that a transaction makes."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk
        self._counts: dict[_Sort, Counter[str]] = {}
        self._rows = 0

    def take(self, pks: str) -> None:
        """Leave out the entities that the query gives, as they are now."""
        self._count(pks, -1)

    def add(self, pks: str) -> None:
        """Count the entities that the query gives, as they are now."""
        self._count(pks, 1)

    def write(self) -> None:
        self._put_away()
        if self._rows:
            self._bulk.execute(_ADD_UP)
            self._bulk.execute(_TIDY)
            self._bulk.execute("DROP TABLE gram_change")

    def _count(self, pks: str, sign: int) -> None:
        entities = self._bulk.rows(_ENTITIES.format(pks=pks))
        while batch := list(islice(entities, BATCH)):
            for project, entity_type, status, concept_kind, head, summary in batch:
                in_head = grams(head)
                for scope, found in ((IN_HEAD, in_head), (IN_ALL, in_head | grams(summary or ""))):
                    counter = self._counts.setdefault((project, scope, entity_type, status, concept_kind), Counter())
                    counter.update(found) if sign > 0 else counter.subtract(found)
            if sum(map(len, self._counts.values())) > MOST_COUNTED:
                self._put_away()

    def _put_away(self) -> None:
        if not self._counts:
            return
        if not self._rows:
            self._bulk.make_temporary("gram_change", _TYPES)
        rows = [
            (project, scope, gram, entity_type, status, concept_kind, total)
            for (project, scope, entity_type, status, concept_kind), counter in self._counts.items()
            for gram, total in counter.items()
        ]
        numbered = ((number, *row) for number, row in enumerate(rows, self._rows + 1))
        self._bulk.insert("gram_change", ("n", *_COLUMNS), numbered)
        self._rows += len(rows)
        self._counts.clear()


def grams(text: str) -> set[str]:
    """Every character, and every two in a row."""
    return {*text, *map(add, text, text[1:])}
