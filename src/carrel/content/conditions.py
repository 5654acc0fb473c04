"""What the rows of a list must fulfil, put together piece by piece; the project is always the first piece."""

from carrel.content.projects import Project
from carrel.storage.database import Session


class Conditions:
    def __init__(self, session: Session, project: Project) -> None:
        self._session = session
        self._others: list[str] = []
        self._parameters: dict[str, object] = {"project": project.pk}

    @property
    def parameters(self) -> dict[str, object]:
        return self._parameters

    @property
    def where(self) -> str:
        return " AND ".join(["WHERE project_pk = :project", *self._others])

    @property
    def where_found_by_text(self) -> str:
        """The same, told to be found by a text in it: the + keeps the indexes that begin with the project out."""
        return " AND ".join(["WHERE +project_pk = :project", *self._others])

    def add(self, condition: str, **parameters: object) -> None:
        self._others.append(condition)
        self._parameters.update(parameters)

    def equal(self, column: str, value: object) -> None:
        self.add(f"{column} = :{column}", **{column: value})

    async def total(self, select: str) -> int:
        """The number that `select`, which has no WHERE yet, comes to."""
        row = await self._session.first(f"{select} {self.where}", self._parameters)
        return int(row[0] or 0) if row else 0
