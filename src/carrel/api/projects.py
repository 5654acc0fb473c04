"""Which projects there are for a request, and which one it is about: header, slug, cookie, default, in this order."""

import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import Cookie, Depends, Header, Request
from pydantic import WithJsonSchema

from carrel.api.errors import ApiError, bad_request
from carrel.api.queries import UUID_PATTERN
from carrel.common import RFC_4122_UUID
from carrel.content.projects import Project, ProjectRepository
from carrel.doors.access import access_of, narrowed
from carrel.storage.database import Session

Only = frozenset[str] | None
"""Slugs or ids of the only projects that there are for a request; None where there are all."""
NARROWED = "x-carrel-projects"
_ID_OR_EMPTY = WithJsonSchema({"type": "string", "pattern": f"^$|{UUID_PATTERN}"})


@dataclass(frozen=True, slots=True)
class AskedProject:
    """By id, or else by slug; neither is a request that names none where there is no default."""

    id: str | None = None
    slug: str | None = None
    only: Only = None

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
) -> Only:
    """What the caller's token leaves, and a bridge leaves of that for its own caller."""
    access = access_of(request.scope)
    named = frozenset(map(unquote, x_carrel_projects.split(","))) if x_carrel_projects else None
    return narrowed(access.projects if access else None, named)


async def asked_project(
    request: Request,
    only: Annotated[Only, Depends(visible_projects)],
    x_project_id: Annotated[str, Header(description="A project's id"), _ID_OR_EMPTY] = "",
    x_project_slug: Annotated[str, Header(description="A project's slug")] = "",
    project_cookie: Annotated[str, Cookie(alias="projectId", description="A project's id"), _ID_OR_EMPTY] = "",
) -> AskedProject:
    if x_project_id:
        return AskedProject(id=_checked(x_project_id, "x-project-id"), only=only)
    if x_project_slug:
        return AskedProject(slug=x_project_slug, only=only)
    if project_cookie:
        return AskedProject(id=_checked(project_cookie, "projectId"), only=only)
    return AskedProject(id=request.app.state.default_project or None, only=only)


def _checked(text: str, name: str) -> str:
    if not re.fullmatch(RFC_4122_UUID, text):
        raise bad_request(f"{name} must be a UUID")
    return text.lower()
