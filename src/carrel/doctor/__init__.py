"""Looking a workspace over: what is there, what is wrong with it, and the cure. Nothing is made or changed."""

from carrel.doctor.checks import examine
from carrel.doctor.finding import Finding, State

__all__ = ["Finding", "State", "examine"]
