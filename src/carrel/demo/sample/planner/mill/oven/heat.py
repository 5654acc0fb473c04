"""Heat in the bricks, and in the dough."""

FULL_DEGREES = 275
LOSS_AN_HOUR = 30
"""With the old door. Measured on 17 October."""
WANTED_DOUGH = 25.0
HOTTEST_FOR_STARTER = 40.0


def degrees_after(hours: float, loss: float = LOSS_AN_HOUR) -> float:
    """What the bricks have so long after the fire was raked out."""
    return FULL_DEGREES - loss * hours


def water_temperature(room: float, flour: float, starter: float, friction: float = 1.0) -> float:
    """What the water must have for the dough to come out at 25 degrees."""
    return WANTED_DOUGH * 4 - room - flour - starter - friction


def is_too_hot_for_starter(water: float) -> bool:
    """Then flour and water are mixed first, and the starter waits."""
    return water > HOTTEST_FOR_STARTER
