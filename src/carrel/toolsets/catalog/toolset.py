"""The four tools, thin on top of the content domain: each is one read-only transaction."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from carrel.common import UUID, iso
from carrel.content.entities import (
    NEWEST_UPDATE_FIRST,
    TITLE_SLUG_AND_SUMMARY,
    Entity,
    EntityFilter,
    EntityRepository,
)
from carrel.content.entity_graph import NeighborhoodRepository
from carrel.content.field_types import iso_or_none
from carrel.content.page import Window
from carrel.content.projects import Project, ProjectRepository
from carrel.errors import StoreTimeout
from carrel.mcp.toolset import Arguments, Caller, Failure, Scopes, Toolset, load_tools
from carrel.storage.database import Database, Session
from carrel.toolsets.catalog.dialect import ENTITY_NOT_FOUND, PROJECT_NOT_FOUND, CatalogDialect, admit, timed_out
from carrel.toolsets.views import GRAPH

CATALOG_TIMEOUT_SECONDS = 30
MAX_PROJECTS = 100
ID_SCHEMA = {"pattern": f"^{UUID}$"}


def catalog_toolset(database: Database, *, seconds: float = CATALOG_TIMEOUT_SECONDS) -> Toolset:
    """Build the toolset; `seconds` limits each statement and each call."""
    catalog = _Handlers(database, seconds)
    handlers = {
        "list_projects": catalog.list_projects,
        "search_entities": catalog.search_entities,
        "get_entity": catalog.get_entity,
        "get_entity_graph": catalog.get_entity_graph,
    }
    tools = load_tools("carrel.toolsets.catalog", handlers, {"projectId": ID_SCHEMA, "entityId": ID_SCHEMA})
    return Toolset(
        name="catalog",
        about="projects, their entities and what relates them; list_projects gives the ids that other calls take.",
        tools=tools,
        dialect=CatalogDialect(tools),
        scopes=Scopes("catalog:read", "content:write"),
        targets=("entityId", "projectId"),
        admit=admit,
        views={"get_entity_graph": GRAPH},
    )


class _Handlers:
    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds

    async def list_projects(self, _arguments: Arguments, caller: Caller) -> Any:
        async def work(session: Session) -> Any:
            found = await ProjectRepository(session, caller.projects).by_name(MAX_PROJECTS)
            return {"projects": [_project(each) for each in found]}

        return await self._read("list_projects", work)

    async def search_entities(self, arguments: Arguments, caller: Caller) -> Any:
        wanted = EntityFilter(
            text=arguments["query"], text_in=TITLE_SLUG_AND_SUMMARY, types=arguments.get("entityTypes", ())
        )

        async def work(session: Session, project: Project) -> Any:
            window = Window(int(arguments.get("limit", 20)))
            found = await EntityRepository(session, project).page(wanted, NEWEST_UPDATE_FIRST, window)
            return {"entities": [_summary(entity) for entity in found.rows], "totalCount": found.total}

        return await self._in_project("search_entities", arguments, caller, work)

    async def get_entity(self, arguments: Arguments, caller: Caller) -> Any:
        async def work(session: Session, project: Project) -> Any:
            entities = EntityRepository(session, project)
            entity = await entities.get(arguments["entityId"].lower())
            if entity is None:
                return Failure(ENTITY_NOT_FOUND)
            return {"entity": _details(entity, *await entities.count_relations(entity))}

        return await self._in_project("get_entity", arguments, caller, work)

    async def get_entity_graph(self, arguments: Arguments, caller: Caller) -> Any:
        async def work(session: Session, project: Project) -> Any:
            root = await EntityRepository(session, project).get(arguments["entityId"].lower())
            if root is None:
                return Failure(ENTITY_NOT_FOUND)
            walks = NeighborhoodRepository(session, project, arguments.get("relationshipTypes", ()))
            found = await walks.around(root, int(arguments.get("depth", 1)))
            graph: dict[str, Any] = {
                "nodes": [
                    {
                        "id": node.id,
                        "entityType": node.entity_type,
                        "title": node.title,
                        "slug": node.slug,
                        "summary": node.summary,
                        "status": node.status,
                        "depth": node.depth,
                    }
                    for node in found.nodes
                ],
                "edges": [
                    {
                        "fromEntityId": edge.from_id,
                        "toEntityId": edge.to_id,
                        "relationType": edge.relation_type,
                        "notes": edge.notes,
                    }
                    for edge in found.edges
                ],
            }
            return {**graph, "truncated": True} if found.is_truncated else graph

        return await self._in_project("get_entity_graph", arguments, caller, work)

    async def _in_project(
        self, tool: str, arguments: Arguments, caller: Caller, work: Callable[[Session, Project], Awaitable[Any]]
    ) -> Any:
        async def in_project(session: Session) -> Any:
            project = await ProjectRepository(session, caller.projects).with_id(arguments["projectId"].lower())
            return Failure(PROJECT_NOT_FOUND) if project is None else await work(session, project)

        return await self._read(tool, in_project)

    async def _read(self, tool: str, work: Callable[[Session], Awaitable[Any]]) -> Any:
        """Run `work` in a snapshot; the database limits each statement, and the timeout here limits all of them
        together."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._database.snapshot(work, seconds=self._seconds)
        except (StoreTimeout, TimeoutError):
            return Failure(timed_out(tool, self._seconds), is_ours=True)


def _project(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "slug": project.slug,
        "description": project.description,
        "createdAt": iso(project.created_at),
        "updatedAt": iso(project.updated_at),
    }


def _summary(entity: Entity) -> dict[str, Any]:
    return {
        "id": entity.id,
        "entityType": entity.entity_type,
        "title": entity.title,
        "slug": entity.slug,
        "summary": entity.summary,
        "status": entity.status,
        "createdAt": iso(entity.created_at),
        "updatedAt": iso(entity.updated_at),
    }


def _details(entity: Entity, outgoing: int, incoming: int) -> dict[str, Any]:
    return {
        "id": entity.id,
        "entityType": entity.entity_type,
        "title": entity.title,
        "slug": entity.slug,
        "summary": entity.summary,
        "difficulty": entity.difficulty,
        "conceptKind": entity.concept_kind,
        "comparisonTargets": json.loads(entity.comparison_targets or "[]"),
        "repoUrl": entity.repo_url,
        "repoDefaultBranch": entity.repo_default_branch,
        "license": entity.license,
        "status": entity.status,
        "canonicalUrl": entity.canonical_url,
        "contentRef": entity.content_ref,
        "publishedAt": iso_or_none(entity.published_at),
        "archivedAt": iso_or_none(entity.archived_at),
        "createdAt": iso(entity.created_at),
        "updatedAt": iso(entity.updated_at),
        "relationshipCounts": {"outgoing": outgoing, "incoming": incoming},
    }
