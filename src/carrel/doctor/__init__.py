"""Looking a workspace over: what is there, what is wrong with it, and the cure. Nothing is made or changed."""

from carrel.doctor.checks import Finding, State
from carrel.doctor.examination import examine

__all__ = ["Finding", "State", "examine"]
