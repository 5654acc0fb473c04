"""Heat in the bricks, and in the dough."""

FULL_DEGREES = 275
LOSS_PER_HOUR = 30
"""With the old door. Measured on 17 October."""
WANTED_DOUGH = 25.0
HOTTEST_FOR_STARTER = 40.0


def degrees_after(hours: float, loss: float = LOSS_PER_HOUR) -> float:
    """Returns the temperature of the bricks some hours after the fire was raked out."""
    return FULL_DEGREES - loss * hours


def water_temperature(room: float, flour: float, starter: float, friction: float = 1.0) -> float:
    """Returns the water temperature for a dough of 25 degrees."""
    return WANTED_DOUGH * 4 - room - flour - starter - friction


def is_too_hot_for_starter(water: float) -> bool:
    """Returns whether to mix flour and water first, and add the starter later."""
    return water > HOTTEST_FOR_STARTER
