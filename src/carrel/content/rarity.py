"""How rare a text can be, by the tally of what it is made of."""

from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.grams import scope, trigrams
from carrel.storage.database import Session

MOST_TALLIED = 50
ENOUGH = 3
"""Trigrams, the rarest: what has these has, but for a few, the text; each more only takes time."""
FEW = 250
"""Rows that are looked at each; more are counted by their sets."""


class Rarity(NamedTuple):
    rows: int
    """At most so many hold the text."""
    trigrams: list[str]
    """Some that are in it, the rarest first."""

    @property
    def is_in_few(self) -> bool:
        return self.rows <= FEW


async def rarity(session: Session, project: Conditions, texts: str, needle: str) -> Rarity:
    """That of a text of three characters or more in these texts of a project."""
    grams = trigrams(needle)[:MOST_TALLIED]
    tallied = project.equal("scope", scope(texts, grams[0])).plus(
        session.syntax.among("gram", "grams"), grams=session.syntax.values(grams)
    )
    sql = f"SELECT gram, sum(total) FROM gram_tally {tallied.where} GROUP BY gram"
    totals = {gram: int(total) for gram, total in await session.all(sql, tallied.parameters)}
    rarest = sorted(grams, key=lambda gram: totals.get(gram, 0))
    return Rarity(totals.get(rarest[0], 0), rarest[:ENOUGH])
