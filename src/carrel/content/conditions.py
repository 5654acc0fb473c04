"""What the rows of a list must fulfil, put together piece by piece; the project is always the first piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from carrel.content.projects import Project
from carrel.storage.database import Session
from carrel.storage.syntax import Text


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

    def containing(self, session: Session, texts: Sequence[Text]) -> Self:
        """That each of the texts is in one of its columns."""
        found = self
        for columns, needle in texts:
            name = f"{columns[0]}_needle"
            contains = " OR ".join(f"{session.syntax.position(column, name)} > 0" for column in columns)
            found = found.plus(f"({contains})", **{name: needle})
        return found

    @property
    def where(self) -> str:
        return " AND ".join(["WHERE project_pk = :project", *self.others])

    async def total(self, session: Session, select: str) -> int:
        """The number that `select`, which has no WHERE yet, comes to."""
        row = await session.first(f"{select} {self.where}", self.parameters)
        return int(row[0] or 0) if row else 0
