"""What the routes answer: as values, and as the classes that OpenAPI describes them with."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from carrel.common import iso
from carrel.content.blocks import QuotableBlock
from carrel.content.entities import Entity
from carrel.content.page import Page
from carrel.content.performance import SearchPerformance
from carrel.content.projects import Project
from carrel.content.relationships import Relationship
from carrel.content.times import iso_or_none
from carrel.content.vocabulary import ClaimType, ConceptKind, Difficulty, EntityStatus, EntityType, RelationType

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
    """Only there when relationships were left out."""


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
