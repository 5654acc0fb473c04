"""A recipe in baker's percentages: everything is counted against the flour."""

from dataclasses import dataclass

STARTER_FLOUR = 0.5
"""The part of a starter that is flour; the rest is water."""


@dataclass(frozen=True)
class Dough:
    """Weights in grams, rounded to what the scale shows."""

    flour: int
    water: int
    starter: int
    salt: int

    @property
    def weight(self) -> int:
        return self.flour + self.water + self.starter + self.salt


@dataclass(frozen=True)
class Recipe:
    name: str
    grams: int
    """Weight of the dough for one piece."""
    per_batch: int
    hydration: float
    starter: float
    salt: float
    oven_degrees: int

    def batches(self, count: int) -> int:
        """Whole batches, rounded up: what is left over goes on the shelf by the door."""
        return -(-count // self.per_batch)

    def dough(self, count: int) -> Dough:
        """Returns the dough for a number of pieces. Flour and water in the starter count toward the totals."""
        flour = count * self.grams / (1 + self.hydration + self.salt)
        starter = flour * self.starter
        return Dough(
            flour=round(flour - starter * STARTER_FLOUR),
            water=round(flour * self.hydration - starter * (1 - STARTER_FLOUR)),
            starter=round(starter),
            salt=round(flour * self.salt),
        )
