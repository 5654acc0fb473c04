"""A task and its validation."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from carrel.common import is_storable

Status = Literal["all", "pending", "completed"]

USER_ID_LIMIT = 500  # PostgreSQL's index takes no longer key; the same limit holds on every engine
TITLE_LIMIT = 200
DESCRIPTION_LIMIT = 1000

TITLE_REQUIRED = "Title is required"
TITLE_TOO_LONG = f"Title must be {TITLE_LIMIT} characters or less"
DESCRIPTION_TOO_LONG = f"Description must be {DESCRIPTION_LIMIT} characters or less"
NOTHING_TO_UPDATE = "At least title or description required"


class Task(NamedTuple):
    id: int
    title: str
    description: str | None
    completed: bool


@dataclass(frozen=True, slots=True)
class InvalidTask:
    """The reason why a task is invalid."""

    reason: str


def checked_title(title: str) -> str | InvalidTask:
    """Return the title as it is stored, stripped of surrounding white space, or why it is invalid."""
    title = title.strip()
    if not title:
        return InvalidTask(TITLE_REQUIRED)
    if len(title) > TITLE_LIMIT:
        return InvalidTask(TITLE_TOO_LONG)
    return title if is_storable(title) else InvalidTask(_not_storable("Title"))


def checked_description(description: str | None) -> str | InvalidTask | None:
    """Return the description as it is stored (None for an empty one), or why it is invalid."""
    if not description:
        return None
    if len(description) > DESCRIPTION_LIMIT:
        return InvalidTask(DESCRIPTION_TOO_LONG)
    return description if is_storable(description) else InvalidTask(_not_storable("Description"))


def _not_storable(field: str) -> str:
    return f"{field} must not contain NUL or unpaired surrogates"
