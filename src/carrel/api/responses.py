"""Responses of the API: the values of each route, the error envelope, and the models for OpenAPI."""

import logging
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.common import iso
from carrel.content.blocks import QuotableBlock
from carrel.content.entities import Entity
from carrel.content.field_types import (
    ClaimType,
    ConceptKind,
    Difficulty,
    EntityStatus,
    EntityType,
    RelationType,
    iso_or_none,
)
from carrel.content.page import Page
from carrel.content.performance import SearchPerformance
from carrel.content.projects import Project
from carrel.content.relationships import Relationship
from carrel.errors import StoreTimeout

T = TypeVar("T")


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_mode_override="serialization")


class ProjectAnswer(_Answer):
    id: str
    slug: str
    name: str
    description: str | None
    createdAt: str
    updatedAt: str


class EntityAnswer(_Answer):
    id: str
    projectId: str
    entityType: EntityType
    title: str
    slug: str
    summary: str | None
    difficulty: Difficulty | None
    conceptKind: ConceptKind | None
    repoUrl: str | None
    status: EntityStatus
    canonicalUrl: str | None
    lastVerifiedAt: str | None
    createdAt: str
    updatedAt: str


class RelatedEntityAnswer(_Answer):
    id: str
    entityType: EntityType
    title: str
    slug: str
    status: EntityStatus


class RelationshipAnswer(_Answer):
    id: str
    relationType: RelationType
    fromEntityId: str
    toEntityId: str
    notes: str | None
    createdAt: str
    relatedEntity: RelatedEntityAnswer | None


class GraphAnswer(_Answer):
    rootEntity: EntityAnswer
    relationships: list[RelationshipAnswer]
    depth: int
    truncated: bool = True
    """Present only if relationships were left out."""


class PerformanceAnswer(_Answer):
    id: str
    projectId: str
    entityId: str | None
    pageUrl: str
    query: str
    impressions: int
    clicks: int
    ctr: float
    avgPosition: float
    dateStart: str
    dateEnd: str
    capturedAt: str


class BlockAnswer(_Answer):
    id: str
    projectId: str
    entityId: str
    text: str
    claimType: ClaimType
    sourceCitation: str | None
    verifiedUntil: str | None
    topicTag: str | None
    createdAt: str
    updatedAt: str


class Pagination(_Answer):
    page: int
    limit: int
    total: int
    hasMore: bool


class One(_Answer, Generic[T]):
    data: T


class Many(_Answer, Generic[T]):
    data: list[T]
    pagination: Pagination


class ErrorBody(_Answer):
    code: str
    message: str


class ErrorAnswer(_Answer):
    error: ErrorBody


def many(data: list[dict[str, Any]], page: int, limit: int, found: Page[Any]) -> dict[str, Any]:
    pagination = {"page": page, "limit": limit, "total": found.total, "hasMore": page * limit < found.total}
    return {"data": data, "pagination": pagination}


def project_value(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "slug": project.slug,
        "name": project.name,
        "description": project.description,
        "createdAt": iso(project.created_at),
        "updatedAt": iso(project.updated_at),
    }


def entity_value(entity: Entity, project: Project) -> dict[str, Any]:
    return {
        "id": entity.id,
        "projectId": project.id,
        "entityType": entity.entity_type,
        "title": entity.title,
        "slug": entity.slug,
        "summary": entity.summary,
        "difficulty": entity.difficulty,
        "conceptKind": entity.concept_kind,
        "repoUrl": entity.repo_url,
        "status": entity.status,
        "canonicalUrl": entity.canonical_url,
        "lastVerifiedAt": iso_or_none(entity.last_verified_at),
        "createdAt": iso(entity.created_at),
        "updatedAt": iso(entity.updated_at),
    }


def relationship_value(relationship: Relationship) -> dict[str, Any]:
    related = relationship.related
    return {
        "id": relationship.id,
        "relationType": relationship.relation_type,
        "fromEntityId": relationship.from_id,
        "toEntityId": relationship.to_id,
        "notes": relationship.notes,
        "createdAt": iso(relationship.created_at),
        "relatedEntity": None
        if related is None
        else {
            "id": related.id,
            "entityType": related.entity_type,
            "title": related.title,
            "slug": related.slug,
            "status": related.status,
        },
    }


def performance_value(row: SearchPerformance, project: Project) -> dict[str, Any]:
    return {
        "id": row.id,
        "projectId": project.id,
        "entityId": row.entity_id,
        "pageUrl": row.page_url,
        "query": row.query,
        "impressions": row.impressions,
        "clicks": row.clicks,
        "ctr": row.ctr,
        "avgPosition": row.avg_position,
        "dateStart": iso(row.date_start),
        "dateEnd": iso(row.date_end),
        "capturedAt": iso(row.captured_at),
    }


def block_value(block: QuotableBlock, project: Project) -> dict[str, Any]:
    return {
        "id": block.id,
        "projectId": project.id,
        "entityId": block.entity_id,
        "text": block.text,
        "claimType": block.claim_type,
        "sourceCitation": block.source_citation,
        "verifiedUntil": iso_or_none(block.verified_until),
        "topicTag": block.topic_tag,
        "createdAt": iso(block.created_at),
        "updatedAt": iso(block.updated_at),
    }


log = logging.getLogger("carrel.api")

JSON = "application/json"
STATUS = {
    "BAD_REQUEST": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "SERVER_ERROR": 500,
}


class ApiError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def bad_request(message: str) -> ApiError:
    return ApiError("BAD_REQUEST", message)


def error_response(
    code: str, message: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    body = to_json({"error": {"code": code, "message": message}})
    return Response(body, status or STATUS[code], headers, media_type=JSON)


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(StoreTimeout, _timed_out)
    app.add_middleware(_UnexpectedErrors)


async def error_to_response(request: Request, error: Exception) -> Response:
    """Return the response that the application's error handlers give for a route's exception."""
    match error:
        case ApiError():
            return await _api_error(request, error)
        case RequestValidationError():
            return await _invalid(request, error)
        case StoreTimeout():
            return await _timed_out(request, error)
        case _:
            log.exception("%s failed", request.scope.get("path"), exc_info=error)
            return error_response("SERVER_ERROR", "Internal server error")


async def _api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - this is what it is registered for
    return error_response(error.code, error.message)


async def _not_routed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - this is what it is registered for
    if error.status_code == 404:
        return error_response("NOT_FOUND", "There is no such route")
    return error_response("BAD_REQUEST", error.detail, error.status_code, error.headers)


async def _timed_out(_request: Request, error: Exception) -> Response:
    log.error("the database gave up: %s", error)
    return error_response("SERVER_ERROR", "The database took too long and the request was cancelled")


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - this is what it is registered for
    first: Mapping[str, Any] = error.errors()[0]
    field = str(first["loc"][-1])
    return error_response("BAD_REQUEST", f"{field} {_violation_message(first)}")


def _violation_message(error: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "is not a parameter of this route"
        case "literal_error":
            return f"must be one of {context['expected'].replace(' or ', ', ')}".replace("'", "")
        case "string_pattern_mismatch":
            return "must be a UUID"
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "value_error":
            return str(context["error"])
        case _:
            return "is not valid"


class _UnexpectedErrors:
    """The innermost middleware: logs an unexpected exception and responds without its cause."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            log.exception("%s failed", scope.get("path"))
            if has_begun:
                raise
            await error_response("SERVER_ERROR", "Internal server error")(scope, receive, send)
