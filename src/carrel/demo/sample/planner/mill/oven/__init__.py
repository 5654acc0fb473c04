"""The village oven, and the water that goes with it."""

from .heat import degrees_after, water_temperature
from .schedule import Slot, schedule

__all__ = ["Slot", "degrees_after", "schedule", "water_temperature"]
