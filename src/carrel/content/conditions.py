"""What the rows of a list must fulfil, put together piece by piece; the project is always the first piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from carrel.content.projects import Project
from carrel.storage.database import Session


@dataclass(frozen=True, slots=True)
class Conditions:
    others: tuple[str, ...]
    parameters: Mapping[str, object]

    @classmethod
    def within(cls, project: Project) -> Self:
        return cls((), {"project": project.pk})

    def plus(self, condition: str, **parameters: object) -> Self:
        return type(self)((*self.others, condition), {**self.parameters, **parameters})

    def equal(self, column: str, value: object) -> Self:
        return self.plus(f"{column} = :{column}", **{column: value})

    def containing(self, session: Session, columns: Sequence[str], needle: str) -> Self:
        """That one of the columns contains the needle: each row is looked at."""
        name = f"{columns[0]}_needle"
        contains = " OR ".join(f"{session.syntax.position(column, name)} > 0" for column in columns)
        return self.plus(f"({contains})", **{name: needle})

    @property
    def where(self) -> str:
        return " AND ".join(["WHERE project_pk = :project", *self.others])

    @property
    def where_by_text(self) -> str:
        """The same for rows to be found by a text in them: the + keeps the indexes that begin with the project out."""
        return " AND ".join(["WHERE +project_pk = :project", *self.others])

    async def total(self, session: Session, select: str) -> int:
        """The number that `select`, which has no WHERE yet, comes to."""
        row = await session.first(f"{select} {self.where}", self.parameters)
        return int(row[0] or 0) if row else 0
