"""A fast dispatcher for the routes of the API.

FastAPI makes the OpenAPI document from the signatures of the routes. Calling a route through it takes twice as long as
the database read, so the arguments are built here, in FastAPI's order: `tests/test_api_dispatcher.py` sends generated
requests both ways and compares the responses.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, get_type_hints

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.types import Receive, Scope, Send

from carrel.api.headers import header
from carrel.api.requests import PROJECTS_HEADER, Uuid, requested_project, strict_query, visible_projects
from carrel.api.responses import error_to_response

_UUID: TypeAdapter[str] = TypeAdapter(Uuid)


class Dispatcher:
    """Serves GET requests that match a route; FastAPI serves the rest: the OpenAPI document and all other errors."""

    def __init__(self, app: FastAPI, routes: Iterable[APIRoute]) -> None:
        self.app = app
        self._routes = [_Route(each.path_regex, each.endpoint) for each in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            for route in self._routes:
                if (match := route.path.match(scope["path"])) is not None:
                    scope["app"] = self.app
                    response = await route.answer(Request(scope, receive), match.groupdict())
                    await response(scope, receive, send)
                    return
        await self.app(scope, receive, send)


class _Route:
    def __init__(self, path: re.Pattern[str], endpoint: Callable[..., Awaitable[Response]]) -> None:
        self.path = path
        self._endpoint = endpoint
        types = get_type_hints(endpoint)
        self._parameters = types.keys()
        ((self._query_name, self._query_type),) = (
            (name, kind) for name, kind in types.items() if isinstance(kind, type) and issubclass(kind, BaseModel)
        )

    async def answer(self, request: Request, path: dict[str, str]) -> Response:
        try:
            return await self._endpoint(**await self._arguments(request, path))
        except Exception as error:
            return await error_to_response(request, error)

    async def _arguments(self, request: Request, path: dict[str, str]) -> dict[str, Any]:
        given: dict[str, Any] = {"request": request}
        query = await strict_query(request)
        only = await visible_projects(request, header(request, PROJECTS_HEADER))
        if "only" in self._parameters:
            given["only"] = only
        if "requested" in self._parameters:
            project_id, slug = header(request, "x-project-id"), header(request, "x-project-slug")
            cookie = "" if project_id or slug else request.cookies.get("projectId", "")
            given["requested"] = await requested_project(request, only, project_id, slug, cookie)
        errors: list[Any] = []
        for name, value in path.items():
            try:
                given[name] = _UUID.validate_python(value)
            except ValidationError as error:
                errors += ({**each, "loc": ("path", name)} for each in error.errors())
        try:
            given[self._query_name] = self._query_type.model_validate(query)
        except ValidationError as error:
            errors += error.errors()
        if errors:
            raise RequestValidationError(errors)
        return given
