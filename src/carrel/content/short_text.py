"""Rows that contain a text which is short enough to be tallied."""

from collections.abc import Sequence
from dataclasses import dataclass

from carrel.content.conditions import Conditions
from carrel.content.grams import scope
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.storage.database import Row, Session
from carrel.storage.syntax import SHORTEST_INDEXED

MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ShortText:
    """One to three characters in some columns of a table, whose grams are tallied as `texts`."""

    needle: str
    columns: Sequence[str]
    texts: str

    async def page(
        self, session: Session, listing: Listing, facets: Conditions, rows: int, window: Window
    ) -> Page[Row]:
        """A page of the rows with the text and these facets, out of so many with or without.

        How many there are is tallied, so that where there are many, looking through the first rows is enough. Where
        there are few, each is looked for by the trigrams it can be in.
        """
        tallied = facets.equal("scope", scope(self.texts, self.needle)).equal("gram", self.needle)
        total = await tallied.total(session, "SELECT sum(total) FROM gram_tally")
        conditions = facets.containing(session, self.columns, self.needle)
        if 0 < total * total < (window.offset + window.limit) * rows:
            trigrams = await self._trigrams(session, facets)
            if trigrams:
                found, parameters = session.syntax.may_contain_any(listing.table, self.columns, trigrams)
                page = await listing.page_by_text(session, conditions.plus(found, **parameters), window)
                if page.total == total:  # a text of two characters alone is in no trigram
                    return page
        return await listing.page(session, conditions, window, total)

    async def _trigrams(self, session: Session, facets: Conditions) -> list[str]:
        """The text itself, or a pair with each character there is before or after it; none where it is one alone."""
        if len(self.needle) == 1:
            return []
        if len(self.needle) == SHORTEST_INDEXED:
            return [self.needle]
        rows = await session.all(
            "SELECT DISTINCT gram FROM gram_tally WHERE project_pk = :project AND scope = :scope",
            {"project": facets.parameters["project"], "scope": scope(self.texts, "x")},
        )
        if len(rows) > MOST_CHARACTERS:
            return []
        characters = [character for (character,) in rows]
        return [self.needle + each for each in characters] + [each + self.needle for each in characters]
