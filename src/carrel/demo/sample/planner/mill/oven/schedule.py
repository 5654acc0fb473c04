"""Which batch goes into the oven when."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..recipes import recipe_for
from .heat import degrees_after

FIRST_HOUR = 9.0
HOURS_PER_BATCH = 0.75
COLDEST_BELOW_RECIPE = 15
"""How many degrees below its recipe a batch tolerates."""


@dataclass(frozen=True)
class Slot:
    product: str
    count: int
    starts: float
    degrees: float
    is_too_cool: bool

    @property
    def clock(self) -> str:
        return f"{int(self.starts):02}:{round(self.starts % 1 * 60):02}"


def schedule(totals: Mapping[str, int]) -> list[Slot]:
    """Plans the hottest recipe first, in falling heat. A slot that comes too late for its recipe is marked."""
    slots: list[Slot] = []
    starts = FIRST_HOUR
    for product in sorted(totals, key=lambda each: -recipe_for(each).oven_degrees):
        recipe, left = recipe_for(product), totals[product]
        for _ in range(recipe.batches(left)):
            degrees = degrees_after(starts - FIRST_HOUR)
            count = min(left, recipe.per_batch)
            slots.append(Slot(product, count, starts, degrees, degrees < recipe.oven_degrees - COLDEST_BELOW_RECIPE))
            starts += HOURS_PER_BATCH
            left -= count
    return slots
