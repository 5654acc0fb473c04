"""The six routes. Each is one read-only transaction in which the project is resolved first."""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic_core import to_json

from carrel.api.headers import header
from carrel.api.requests import (
    PROJECTS_HEADER,
    BlockQuery,
    EntityQuery,
    GraphQuery,
    NoQuery,
    PageQuery,
    PerformanceQuery,
    RequestedProject,
    Uuid,
    VisibleProjects,
    requested_project,
    strict_query,
    visible_projects,
)
from carrel.api.responses import (
    JSON,
    ApiError,
    BlockAnswer,
    EntityAnswer,
    ErrorAnswer,
    GraphAnswer,
    Many,
    One,
    PerformanceAnswer,
    ProjectAnswer,
    bad_request,
    block_value,
    entity_value,
    many,
    performance_value,
    project_value,
    relationship_value,
)
from carrel.content.blocks import BlockFilter, BlockRepository
from carrel.content.entities import NEWEST_FIRST, Entity, EntityFilter, EntityRepository
from carrel.content.performance import PerformanceFilter, PerformanceRepository
from carrel.content.projects import Project, ProjectRepository
from carrel.content.relationships import RelationshipRepository
from carrel.storage.database import Database, Session

STATEMENT_TIMEOUT_SECONDS = 30

Visible = Annotated[VisibleProjects, Depends(visible_projects)]
Requested = Annotated[RequestedProject, Depends(requested_project)]
InProject = Callable[[Session, Project], Awaitable[Any]]

router = APIRouter(prefix="/api", dependencies=[Depends(strict_query)])


def _documented(model: Any) -> dict[int | str, dict[str, Any]]:
    errors = {400: "BAD_REQUEST", 404: "NOT_FOUND", 500: "SERVER_ERROR", "default": "Any other error"}
    return {
        200: {"model": model},
        **{status: {"model": ErrorAnswer, "description": text} for status, text in errors.items()},
    }


async def _read(request: Request, requested: RequestedProject, work: InProject) -> Response:
    return _json(request, await _in_project(request, requested, work))


async def _in_project(request: Request, requested: RequestedProject, work: InProject) -> Any:
    async def in_project(session: Session) -> Any:
        return await work(session, await requested.find(session))

    return await _database(request).snapshot(in_project, seconds=STATEMENT_TIMEOUT_SECONDS)


def _database(request: Request) -> Database:
    return request.app.state.database


def _json(request: Request, value: Any) -> Response:
    return Response(to_json(value), headers=_projects_header(request), media_type=JSON)


def _projects_header(request: Request) -> dict[str, str]:
    """Echo the projects header: a bridge must not trust a backend that does not apply it."""
    requested = header(request, PROJECTS_HEADER)
    return {PROJECTS_HEADER: requested} if requested else {}


@router.get("/projects", summary="List projects", responses=_documented(Many[ProjectAnswer]))
async def list_projects(request: Request, only: Visible, query: Annotated[PageQuery, Query()]) -> Response:
    async def work(session: Session) -> Any:
        found = await ProjectRepository(session, only).by_slug(query.window)
        return many([project_value(each) for each in found.rows], query.page, query.limit, found)

    return _json(request, await _database(request).snapshot(work, seconds=STATEMENT_TIMEOUT_SECONDS))


@router.get("/entities", summary="Search entities", responses=_documented(Many[EntityAnswer]))
async def search_entities(request: Request, requested: Requested, query: Annotated[EntityQuery, Query()]) -> Response:
    wanted = EntityFilter(
        text=query.search,
        types=(query.entityType,) if query.entityType else (),
        status=query.status,
        concept_kind=query.conceptKind,
    )

    async def work(session: Session, project: Project) -> Any:
        found = await EntityRepository(session, project).page(wanted, NEWEST_FIRST, query.window)
        return many([entity_value(each, project) for each in found.rows], query.page, query.limit, found)

    return await _read(request, requested, work)


@router.get(
    "/entities/{entityId}",
    summary="Get an entity",
    responses={**_documented(One[EntityAnswer]), 304: {"description": "It is what If-None-Match names"}},
)
async def get_entity(
    request: Request, requested: Requested, entityId: Uuid, _query: Annotated[NoQuery, Query()]
) -> Response:
    async def work(session: Session, project: Project) -> Any:
        return {"data": entity_value(await _entity(session, project, entityId), project)}

    body = to_json(await _in_project(request, requested, work))
    tag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    headers = {
        "etag": tag,
        "cache-control": "no-cache",
        "vary": "x-project-id, x-project-slug, x-carrel-projects, cookie, authorization",
    }
    if tag in (each.strip().removeprefix("W/") for each in header(request, "if-none-match").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers | _projects_header(request), media_type=JSON)


@router.get("/entities/{entityId}/graph", summary="Get an entity's relations", responses=_documented(One[GraphAnswer]))
async def get_entity_graph(
    request: Request, requested: Requested, entityId: Uuid, query: Annotated[GraphQuery, Query()]
) -> Response:
    async def work(session: Session, project: Project) -> Any:
        root = await _entity(session, project, entityId)
        found = await RelationshipRepository(session, project, query.types).around(root, query.depth)
        data = {
            "rootEntity": entity_value(root, project),
            "relationships": [relationship_value(each) for each in found.rows],
            "depth": query.depth,
        }
        return {"data": {**data, "truncated": True} if found.is_truncated else data}

    return await _read(request, requested, work)


@router.get(
    "/seo/search-performance", summary="List search performance", responses=_documented(Many[PerformanceAnswer])
)
async def list_search_performance(
    request: Request, requested: Requested, query: Annotated[PerformanceQuery, Query()]
) -> Response:
    if query.dateStart is not None and query.dateEnd is not None and query.dateStart > query.dateEnd:
        raise bad_request("dateStart must not be after dateEnd")
    wanted = PerformanceFilter(query.query, query.pageUrl, query.entityId, query.dateStart, query.dateEnd)

    async def work(session: Session, project: Project) -> Any:
        found = await PerformanceRepository(session, project).page(wanted, query.window)
        return many([performance_value(each, project) for each in found.rows], query.page, query.limit, found)

    return await _read(request, requested, work)


@router.get("/quotable-blocks", summary="List quotable blocks", responses=_documented(Many[BlockAnswer]))
async def list_quotable_blocks(
    request: Request, requested: Requested, query: Annotated[BlockQuery, Query()]
) -> Response:
    wanted = BlockFilter(
        query.entityId, query.claimType, query.topicTag, query.verifiedUntilBefore, query.verifiedUntilAfter
    )

    async def work(session: Session, project: Project) -> Any:
        found = await BlockRepository(session, project).page(wanted, query.window)
        return many([block_value(each, project) for each in found.rows], query.page, query.limit, found)

    return await _read(request, requested, work)


async def _entity(session: Session, project: Project, entity_id: str) -> Entity:
    entity = await EntityRepository(session, project).get(entity_id)
    if entity is None:
        raise ApiError("NOT_FOUND", "Entity not found")
    return entity
