"""A project's entities: one by its id, or a list of those that fit a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.content.text import SEPARATOR, fold
from carrel.storage.database import Session
from carrel.storage.syntax import SHORTEST_INDEXED

_FIELDS = (
    "pk, id, entity_type, title, slug, summary, difficulty, concept_kind, comparison_targets, repo_url, "
    "repo_default_branch, license, status, canonical_url, content_ref, published_at, archived_at, last_verified_at, "
    "created_at, updated_at"
)
_COLUMNS = ", ".join(f"entity.{column}" for column in _FIELDS.split(", "))
_GET = f"SELECT {_COLUMNS} FROM entity WHERE id = :id AND project_pk = :project"
_COUNT_RELATIONS = """
    SELECT (SELECT count(*) FROM relation WHERE project_pk = :project AND from_pk = :pk AND to_pk IS NOT NULL),
           (SELECT count(*) FROM relation WHERE project_pk = :project AND to_pk = :pk AND from_pk IS NOT NULL)
"""

NEWEST_UPDATE_FIRST = "updated_at DESC, id"
NEWEST_FIRST = "created_at DESC, id DESC"
TITLE_AND_SLUG = ("head_fold",)
TITLE_SLUG_AND_SUMMARY = ("head_fold", "summary_fold")


class Entity(NamedTuple):
    pk: int
    id: str
    entity_type: str
    title: str
    slug: str
    summary: str | None
    difficulty: str | None
    concept_kind: str | None
    comparison_targets: str | None
    """A JSON array of ids."""
    repo_url: str | None
    repo_default_branch: str | None
    license: str | None
    status: str
    canonical_url: str | None
    content_ref: str | None
    published_at: int | None
    archived_at: int | None
    last_verified_at: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """What the entities of a list have in common; empty fields ask for nothing."""

    text: str = ""
    """Contained in one of the columns of `text_in`, whatever its case."""
    text_in: tuple[str, ...] = TITLE_AND_SLUG
    types: Sequence[str] = ()
    status: str | None = None
    concept_kind: str | None = None


class EntityRepository:
    """The entities of one project."""

    def __init__(self, session: Session, project: Project) -> None:
        self._session = session
        self._project = project

    async def get(self, entity_id: str) -> Entity | None:
        row = await self._session.first(_GET, {"id": entity_id, "project": self._project.pk})
        return None if row is None else Entity(*row)

    async def count_relations(self, entity: Entity) -> tuple[int, int]:
        """How many relations between entities go out from this one, and how many come in."""
        row = await self._session.first(_COUNT_RELATIONS, {"pk": entity.pk, "project": self._project.pk})
        assert row is not None  # noqa: S101 - a SELECT without FROM always gives its row
        return row[0], row[1]

    async def page(self, wanted: EntityFilter, order: str, window: Window) -> Page[Entity]:
        needle = fold(wanted.text)
        if "\0" in needle or SEPARATOR in needle:
            return Page([], 0)
        conditions = self._facets(wanted)
        if not needle:
            total = await conditions.total("SELECT sum(total) FROM entity_tally")
            return await self._read(conditions, conditions.where, order, window, total)
        if len(needle) < SHORTEST_INDEXED:
            return await self._by_scan(conditions, wanted.text_in, needle, order, window)
        return await self._by_index(conditions, wanted.text_in, needle, order, window)

    def _facets(self, wanted: EntityFilter) -> Conditions:
        """Conditions that can be put to the tally too."""
        conditions = Conditions(self._session, self._project)
        if wanted.types:
            syntax = self._session.syntax
            conditions.add(syntax.among("entity_type", "types"), types=syntax.values(wanted.types))
        if wanted.status:
            conditions.equal("status", wanted.status)
        if wanted.concept_kind:
            conditions.equal("concept_kind", wanted.concept_kind)
        return conditions

    async def _by_scan(
        self, conditions: Conditions, columns: Sequence[str], needle: str, order: str, window: Window
    ) -> Page[Entity]:
        """For a needle too short for the index."""
        contains = " OR ".join(f"{self._session.syntax.position(column, 'needle')} > 0" for column in columns)
        conditions.add(f"({contains})", needle=needle)
        total = await conditions.total("SELECT count(*) FROM entity")
        return await self._read(conditions, conditions.where, order, window, total)

    async def _by_index(
        self, conditions: Conditions, columns: Sequence[str], needle: str, order: str, window: Window
    ) -> Page[Entity]:
        syntax = self._session.syntax
        conditions.add(syntax.containing("entity", columns, "match"), match=syntax.needle(columns, needle))
        where = conditions.where_found_by_text
        row = await self._session.first(f"SELECT count(*) FROM entity {where}", conditions.parameters)
        return await self._read(conditions, where, order, window, row[0] if row else 0)

    async def _read(self, conditions: Conditions, where: str, order: str, window: Window, total: int) -> Page[Entity]:
        """The ids are read first, from the index alone, so that rows that are skipped are never looked at."""
        if window.offset >= total:
            return Page([], total)
        sql = f"""
            SELECT {_COLUMNS} FROM (
                SELECT id FROM entity {where} ORDER BY {order} LIMIT :limit OFFSET :offset
            ) AS page JOIN entity ON entity.id = page.id
            ORDER BY {", ".join(f"entity.{column}" for column in order.split(", "))}
        """
        parameters = {**conditions.parameters, "limit": window.limit, "offset": window.offset}
        return Page([Entity(*row) for row in await self._session.all(sql, parameters)], total)
