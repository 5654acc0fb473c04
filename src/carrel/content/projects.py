"""Projects. Everything else in content belongs to one, and can be reached only by way of it."""

from typing import NamedTuple

from carrel.content.page import Page, Window
from carrel.storage.database import Session

_COLUMNS = "pk, id, slug, name, description, created_at, updated_at"
_BY_ID = f"SELECT {_COLUMNS} FROM project WHERE id = :id"
_BY_SLUG = f"SELECT {_COLUMNS} FROM project WHERE slug = :slug"
_IN_ORDER_OF_NAME = f"SELECT {_COLUMNS} FROM project ORDER BY name_fold, id LIMIT :limit"
_IN_ORDER_OF_SLUG = f"SELECT {_COLUMNS} FROM project ORDER BY slug, id LIMIT :limit OFFSET :offset"
_COUNT = "SELECT count(*) FROM project"


class Project(NamedTuple):
    pk: int
    id: str
    slug: str
    name: str
    description: str | None
    created_at: int
    updated_at: int


class ProjectRepository:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def with_id(self, project_id: str) -> Project | None:
        row = await self._session.first(_BY_ID, {"id": project_id})
        return None if row is None else Project(*row)

    async def with_slug(self, slug: str) -> Project | None:
        row = await self._session.first(_BY_SLUG, {"slug": slug})
        return None if row is None else Project(*row)

    async def by_name(self, limit: int) -> list[Project]:
        """In order of the folded name, then id."""
        return [Project(*row) for row in await self._session.all(_IN_ORDER_OF_NAME, {"limit": limit})]

    async def by_slug(self, window: Window) -> Page[Project]:
        """In order of slug, then id."""
        ((total,),) = await self._session.all(_COUNT, {})
        if window.offset >= total:
            return Page([], total)
        rows = await self._session.all(_IN_ORDER_OF_SLUG, {"limit": window.limit, "offset": window.offset})
        return Page([Project(*row) for row in rows], total)

    async def any(self) -> bool:
        return await self._session.first("SELECT 1 FROM project LIMIT 1", {}) is not None
