"""Requests to the API: the parameters of each route, read strictly, and the project that a request is about."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote

from fastapi import Cookie, Depends, Header, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from carrel.api.responses import ApiError, bad_request
from carrel.auth.access import access_of, intersect_projects
from carrel.common import RFC_4122_UUID
from carrel.content.field_types import (
    DATE_FORMATS,
    RELATION_TYPES,
    ClaimType,
    ConceptKind,
    EntityStatus,
    EntityType,
    first_instant,
    last_instant,
)
from carrel.content.page import Window
from carrel.content.projects import Project, ProjectRepository
from carrel.storage.database import Session

UUID_PATTERN = f"^{RFC_4122_UUID}$"
UUID_SCHEMA = {"type": "string", "format": "uuid", "pattern": UUID_PATTERN}
_DATE_SCHEMA = {
    "anyOf": [
        {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        {
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,3})?Z$",
        },
    ]
}
_TYPES_SCHEMA = {
    "type": "string",
    "pattern": rf"^( *({'|'.join(RELATION_TYPES)}) *(, *({'|'.join(RELATION_TYPES)}) *)*)?$",
}
_INTEGER = re.compile("-?[0-9]{1,4000}")  # as many digits as Python reads


async def strict_query(request: Request) -> dict[str, str]:
    """Parse the query string; refuse what a lenient parser accepts: repeated names, bytes that are not UTF-8."""
    text: bytes = request.scope["query_string"]
    if not text:
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError as error:
        raise bad_request("The query string must be UTF-8") from error
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise bad_request(f"{name} is given more than once")
    return dict(pairs)


def integer(value: Any) -> Any:
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None:
            raise ValueError("must be an integer")
        return int(value)
    return value


def _instant(read: Callable[[str], int | None]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        instant = read(value)
        if instant is None:
            raise ValueError(f"must be an ISO 8601 date: {DATE_FORMATS}")
        return instant

    return checked


def _listed(text: str) -> list[str]:
    return [each.strip(" ") for each in text.split(",")] if text else []


def _relation_types(text: str) -> str:
    if any(each not in RELATION_TYPES for each in _listed(text)):
        raise ValueError(f"must be a comma-separated list of {', '.join(RELATION_TYPES)}")
    return text


Uuid = Annotated[str, Field(pattern=UUID_PATTERN), AfterValidator(str.lower), WithJsonSchema(UUID_SCHEMA)]
Depth = Annotated[int, Field(ge=1, le=2), BeforeValidator(integer)]
LowerBound = Annotated[int, BeforeValidator(_instant(first_instant)), WithJsonSchema(_DATE_SCHEMA)]
UpperBound = Annotated[int, BeforeValidator(_instant(last_instant)), WithJsonSchema(_DATE_SCHEMA)]
RelationTypes = Annotated[str, AfterValidator(_relation_types), WithJsonSchema(_TYPES_SCHEMA)]


class NoQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PageQuery(NoQuery):
    page: Annotated[int, Field(ge=1), BeforeValidator(integer)] = 1
    limit: Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)] = 20

    @property
    def window(self) -> Window:
        return Window(self.limit, (self.page - 1) * self.limit)


class EntityQuery(PageQuery):
    entityType: EntityType | None = None
    status: EntityStatus | None = None
    conceptKind: ConceptKind | None = None
    search: str = Field("", description="Contained in title or slug, whatever its case")


class GraphQuery(NoQuery):
    depth: Depth = 1
    relationshipTypes: RelationTypes = Field("", description="Separated by commas; empty for all")

    @property
    def types(self) -> list[str]:
        return _listed(self.relationshipTypes)


class PerformanceQuery(PageQuery):
    query: str = Field("", description="Contained in the query, whatever its case")
    pageUrl: str = Field("", description="Contained in the page's URL, whatever its case")
    entityId: Uuid | None = None
    dateStart: LowerBound | None = Field(None, description="Rows that start then or later")
    dateEnd: UpperBound | None = Field(None, description="Rows that end then or earlier; not before dateStart")


class BlockQuery(PageQuery):
    entityId: Uuid | None = None
    claimType: ClaimType | None = None
    topicTag: str = Field("", description="Contained in the topic tag, whatever its case")
    verifiedUntilBefore: UpperBound | None = None
    verifiedUntilAfter: LowerBound | None = None


VisibleProjects = frozenset[str] | None
"""Slugs or ids of the projects that a request may see; None for all."""
PROJECTS_HEADER = "x-carrel-projects"
_ID_OR_EMPTY = WithJsonSchema({"type": "string", "pattern": f"^$|{UUID_PATTERN}"})


@dataclass(frozen=True, slots=True)
class RequestedProject:
    """The project that a request names: by id, else by slug; neither if it names none and no default is set."""

    id: str | None = None
    slug: str | None = None
    only: VisibleProjects = None

    async def find(self, session: Session) -> Project:
        projects = ProjectRepository(session, self.only)
        if self.id is not None:
            project = await projects.with_id(self.id)
        elif self.slug is not None:
            project = None if "\0" in self.slug else await projects.with_slug(self.slug)
        else:
            raise bad_request("Name a project: x-project-id or x-project-slug")
        if project is None:
            raise ApiError("NOT_FOUND", "Project not found")
        return project


async def visible_projects(
    request: Request,
    x_carrel_projects: Annotated[
        str, Header(description="Slugs or ids with commas between them: as if there were no other projects")
    ] = "",
) -> VisibleProjects:
    """Return the projects that both the caller's token and the bridge's header for its own caller allow."""
    access = access_of(request.scope)
    named = frozenset(map(unquote, x_carrel_projects.split(","))) if x_carrel_projects else None
    return intersect_projects(access.projects if access else None, named)


async def requested_project(
    request: Request,
    only: Annotated[VisibleProjects, Depends(visible_projects)],
    x_project_id: Annotated[str, Header(description="A project's id"), _ID_OR_EMPTY] = "",
    x_project_slug: Annotated[str, Header(description="A project's slug")] = "",
    project_cookie: Annotated[str, Cookie(alias="projectId", description="A project's id"), _ID_OR_EMPTY] = "",
) -> RequestedProject:
    if x_project_id:
        return RequestedProject(id=_checked(x_project_id, "x-project-id"), only=only)
    if x_project_slug:
        return RequestedProject(slug=x_project_slug, only=only)
    if project_cookie:
        return RequestedProject(id=_checked(project_cookie, "projectId"), only=only)
    return RequestedProject(id=request.app.state.default_project or None, only=only)


def _checked(text: str, name: str) -> str:
    if not re.fullmatch(RFC_4122_UUID, text):
        raise bad_request(f"{name} must be a UUID")
    return text.lower()
