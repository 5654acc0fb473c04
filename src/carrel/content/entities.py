"""A project's entities: one by its id, or a list of those that fit a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.field_types import SEPARATOR, fold
from carrel.content.page import Page, Window
from carrel.content.pagination import Conditions, Listing, columns
from carrel.content.projects import Project
from carrel.storage.database import Row, Session

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


_ENTITY_COLUMNS = columns(Entity)
_GET = f"SELECT {_ENTITY_COLUMNS} FROM entity AS kept WHERE id = :id AND project_pk = :project"


def _in_order(order: str, index: str) -> Listing:
    return Listing(
        "entity",
        key="id",
        order=order,
        columns=_ENTITY_COLUMNS,
        filtered="entity_type, status, concept_kind, head_fold, summary_fold",
        order_index=index,
        scan_index="entity_scan",
    )


NEWEST_UPDATE_FIRST = _in_order("updated_at DESC, id", "entity_by_update")
NEWEST_FIRST = _in_order("created_at DESC, id DESC", "entity_by_creation")


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """A filter on entities; an empty field does not restrict the list."""

    text: str = ""
    """A text that one of the columns `text_in` contains, ignoring case."""
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
        """Count the relations to and from other entities: outgoing, incoming."""
        using = self._session.syntax.using

        def count(index: str, near: str, far: str) -> str:
            return f"""(
                SELECT count(*) FROM relation {using(index)}
                WHERE project_pk = :project AND {near} = :pk AND {far} IS NOT NULL
            )"""

        outgoing = count("relation_neighbours_out", "from_pk", "to_pk")
        incoming = count("relation_neighbours_in", "to_pk", "from_pk")
        both = f"SELECT {outgoing}, {incoming}"
        ((outgoing, incoming),) = await self._session.all(both, {"pk": entity.pk, "project": self._project.pk})
        return outgoing, incoming

    async def page(self, wanted: EntityFilter, order: Listing, window: Window) -> Page[Entity]:
        found = await self._rows(wanted, order, window)
        return Page([Entity(*row) for row in found.rows], found.total)

    async def _rows(self, wanted: EntityFilter, listing: Listing, window: Window) -> Page[Row]:
        needle, session = fold(wanted.text), self._session
        if "\0" in needle or SEPARATOR in needle:
            return Page([], 0)
        facets = self._facets(wanted)
        if not needle:
            total = await facets.total(session, "SELECT sum(total) FROM entity_tally")
            return await listing.page(session, facets, window, total)
        return await listing.page_containing(session, facets, [(wanted.text_in, needle)], window)

    def _facets(self, wanted: EntityFilter) -> Conditions:
        """Build the conditions that hold for `entity_tally` too, so that a list without a text does not count its
        rows."""
        conditions = Conditions.within(self._project)
        if wanted.types:
            syntax = self._session.syntax
            conditions = conditions.plus(syntax.among("entity_type", "types"), types=syntax.values(wanted.types))
        if wanted.status:
            conditions = conditions.equal("status", wanted.status)
        if wanted.concept_kind:
            conditions = conditions.equal("concept_kind", wanted.concept_kind)
        return conditions
