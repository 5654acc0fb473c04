"""What a check found."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    seen: str
    cure: str = ""
    """The command or the setting that helps, on one line; empty where all is well."""


def ok(check: str, seen: str) -> Finding:
    return Finding(check, "ok", seen)


def warning(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "warning", seen, cure)


def problem(check: str, seen: str, cure: str) -> Finding:
    return Finding(check, "problem", seen, cure)
