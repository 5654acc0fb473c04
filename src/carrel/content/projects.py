"""Projects. All other content belongs to one, and its repositories are built with a `Project`: the isolation of
projects is in the constructors, not in checks that a query could forget."""

from collections.abc import Collection
from typing import NamedTuple

from carrel.content.page import Page, Window
from carrel.storage.database import Parameters, Session


class Project(NamedTuple):
    pk: int
    id: str
    slug: str
    name: str
    description: str | None
    created_at: int
    updated_at: int


_PROJECT_COLUMNS = ", ".join(Project._fields)


class ProjectRepository:
    """The projects; with `only`, those with one of these slugs or ids, as if no others existed."""

    def __init__(self, session: Session, only: Collection[str] | None = None) -> None:
        self._session = session
        self._from = "project"
        self._parameters: dict[str, object] = {}
        if only is not None:
            syntax = session.syntax
            allowed = f"{syntax.among('slug', 'only')} OR {syntax.among('id', 'only')}"
            self._from = f"(SELECT * FROM project WHERE {allowed}) AS project"
            self._parameters = {"only": syntax.values(sorted(only))}

    async def with_id(self, project_id: str) -> Project | None:
        return await self._one("id = :id", {"id": project_id})

    async def with_slug(self, slug: str) -> Project | None:
        return await self._one("slug = :slug", {"slug": slug})

    async def by_name(self, limit: int) -> list[Project]:
        """Return the first projects in order of folded name, then id."""
        return await self._all("ORDER BY name_fold, id LIMIT :limit", {"limit": limit})

    async def by_slug(self, window: Window) -> Page[Project]:
        """Return a page of the projects in order of slug, then id."""
        ((total,),) = await self._session.all(f"SELECT count(*) FROM {self._from}", self._parameters)
        if window.offset >= total:
            return Page([], total)
        place = {"limit": window.limit, "offset": window.offset}
        return Page(await self._all("ORDER BY slug, id LIMIT :limit OFFSET :offset", place), total)

    async def any(self) -> bool:
        return await self._session.first(f"SELECT 1 FROM {self._from} LIMIT 1", self._parameters) is not None

    async def _one(self, condition: str, parameters: Parameters) -> Project | None:
        return next(iter(await self._all(f"WHERE {condition}", parameters)), None)

    async def _all(self, rest: str, parameters: Parameters) -> list[Project]:
        statement = f"SELECT {_PROJECT_COLUMNS} FROM {self._from} {rest}"
        return [Project(*row) for row in await self._session.all(statement, {**self._parameters, **parameters})]
