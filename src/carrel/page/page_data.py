"""What the page asks for that no tool tells: as JSON, in the words of the backend API."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from pydantic import BeforeValidator, Field
from pydantic_core import to_json

from carrel.api.requests import (
    NoQuery,
    RequestedProject,
    Uuid,
    VisibleProjects,
    integer,
    strict_query,
    visible_projects,
)
from carrel.api.responses import JSON, ApiError, add_error_handlers
from carrel.api.routes import STATEMENT_TIMEOUT_SECONDS
from carrel.auth.access import access_of
from carrel.common import iso, now
from carrel.content.blocks import ExpiringBlock, expiring_blocks
from carrel.content.entity_graph import linked_entities
from carrel.content.field_types import DAY_MS, ENTITY_TYPES
from carrel.content.performance import periods
from carrel.content.projects import Project
from carrel.mcp.gateway import PAGE_DATA, Gateway
from carrel.notes.note_store import NotesError, flags
from carrel.notes.note_store import Overview as NotesOverview
from carrel.page.assets import etag_of, with_etag
from carrel.page.desk_overview import Overview, PageContext
from carrel.storage.database import Session

MAX_NODES = 20_000
MAX_BLOCKS = 200
NOTES_SCOPES = frozenset({"notes:read"})
CONTENT_SCOPES = frozenset({"content:read", "catalog:read"})

InProject = Callable[[Session, Project], Awaitable[dict[str, Any]]]
Visible = Annotated[VisibleProjects, Depends(visible_projects)]

router = APIRouter(prefix=PAGE_DATA.rstrip("/"), dependencies=[Depends(strict_query)])


class ProjectQuery(NoQuery):
    project: Uuid | None = None


class GraphQuery(ProjectQuery):
    source: Literal["notes", "content"] = "notes"


class PerformanceQuery(ProjectQuery):
    entity: Uuid | None = None


class BlocksQuery(ProjectQuery):
    days: Annotated[int, Field(ge=0, le=3650), BeforeValidator(integer)] = 30


def build_data(context: PageContext, gateway: Gateway) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.context = context
    app.state.gateway = gateway
    app.state.overview = Overview(context)
    app.include_router(router)
    add_error_handlers(app)
    return app


def _route(path: str) -> Callable[[Callable[..., Awaitable[Response]]], Callable[..., Awaitable[Response]]]:
    return router.api_route(path, methods=["GET", "HEAD"], response_class=Response)


@_route("/desk")
async def desk(request: Request, _query: Annotated[NoQuery, Query()]) -> Response:
    overview: Overview = request.app.state.overview
    return _json(await overview.value(access_of(request.scope)))


@_route("/graph")
async def graph(request: Request, only: Visible, query: Annotated[GraphQuery, Query()]) -> Response:
    response = await (_notes_graph(request) if query.source == "notes" else _content_graph(request, only, query))
    if response.status_code != 200:
        return response
    return with_etag(request, response, etag_of(bytes(response.body)), "no-store")


async def _notes_graph(request: Request) -> Response:
    if (refusal := _refusal(request, NOTES_SCOPES)) is not None:
        return refusal
    notes = _context(request).notes
    if notes is None:
        raise ApiError("NOT_FOUND", "Notes are not served here")
    try:
        found = await notes.overview(MAX_NODES)
    except NotesError as error:
        raise ApiError("SERVER_ERROR", str(error)) from error
    return await asyncio.to_thread(_notes_value, found)


def _notes_value(found: NotesOverview) -> Response:
    return _json(
        {
            "nodes": [(note.id, note.title, 0, note.flags) for note in found.notes],
            "links": found.links,
            "kinds": ("note",),
            "project": None,
            "total": found.total,
            "truncated": found.total > len(found.notes),
        }
    )


async def _content_graph(request: Request, only: VisibleProjects, query: GraphQuery) -> Response:
    async def work(session: Session, project: Project) -> dict[str, Any]:
        found = await linked_entities(session, project, MAX_NODES)
        kinds = {name: place for place, name in enumerate(ENTITY_TYPES)}
        return {
            "nodes": [
                (node.id, node.title, kinds[node.entity_type], flags(is_broken=False, is_linked=node.is_linked))
                for node in found.nodes
            ],
            "links": found.links,
            "kinds": ENTITY_TYPES,
            "project": {"id": project.id, "slug": project.slug, "name": project.name},
            "total": found.total,
            "truncated": found.is_truncated,
        }

    return await _in_project(request, only, query, work)


@_route("/performance")
async def performance(request: Request, only: Visible, query: Annotated[PerformanceQuery, Query()]) -> Response:
    async def work(session: Session, project: Project) -> dict[str, Any]:
        found = await periods(session, project, query.entity)
        points = [
            {
                "from": iso(each.date_start)[:10],
                "to": iso(each.date_end)[:10],
                "clicks": each.clicks,
                "impressions": each.impressions,
                "ctr": each.ctr,
                "position": each.position,
            }
            for each in found.rows
        ]
        return {"points": points, "truncated": found.is_truncated}

    return await _in_project(request, only, query, work)


@_route("/blocks")
async def blocks(request: Request, only: Visible, query: Annotated[BlocksQuery, Query()]) -> Response:
    today = now()

    async def work(session: Session, project: Project) -> dict[str, Any]:
        found = await expiring_blocks(session, project, today + query.days * DAY_MS, MAX_BLOCKS)
        return {"blocks": [_block(each, today) for each in found.rows], "total": found.total}

    return await _in_project(request, only, query, work)


def _block(block: ExpiringBlock, today: int) -> dict[str, Any]:
    return {
        "id": block.id,
        "text": block.text,
        "claimType": block.claim_type,
        "topic": block.topic_tag,
        "verifiedUntil": iso(block.verified_until),
        "days": (block.verified_until - today) // DAY_MS,
        "entity": {"id": block.entity_id, "title": block.entity_title},
    }


async def _in_project(request: Request, only: VisibleProjects, query: ProjectQuery, work: InProject) -> Response:
    """What there is in the project that is asked for, to who may read content and see the project."""
    if (refusal := _refusal(request, CONTENT_SCOPES)) is not None:
        return refusal
    context = _context(request)
    if context.content is None:
        raise ApiError("NOT_FOUND", "Content is not served here")
    asked = RequestedProject(id=query.project or context.default_project or None, only=only)

    async def in_project(session: Session) -> dict[str, Any]:
        return await work(session, await asked.find(session))

    return await asyncio.to_thread(_json, await context.content.snapshot(in_project, seconds=STATEMENT_TIMEOUT_SECONDS))


def _context(request: Request) -> PageContext:
    return request.app.state.context


def _refusal(request: Request, scopes: frozenset[str]) -> Response | None:
    """To who is in, but has none of the scopes."""
    access, path = access_of(request.scope), request.url.path
    if access is None or access.has_any(scopes):
        return None
    gateway: Gateway = request.app.state.gateway
    return gateway.refuse_scope(request.scope, path, " ".join(sorted(scopes)), path)


def _json(value: dict[str, Any]) -> Response:
    return Response(to_json(value), headers={"cache-control": "no-store"}, media_type=JSON)
