"""The six tools: each is one GET of the backend API, and nothing else."""

import logging
from typing import Any
from urllib.parse import quote

from carrel.common import RFC_4122_UUID
from carrel.mcp.resources import Completions
from carrel.mcp.toolset import Arguments, Caller, Failure, Handler, Scopes, Suggest, Toolset, load_tools
from carrel.toolsets.bridge.backend import PROJECTS_HEADER, Backend, BackendUnavailable, Reply
from carrel.toolsets.bridge.dialect import BridgeDialect, admit, error
from carrel.toolsets.views import GRAPH

log = logging.getLogger("carrel.bridge")

ROUTES = {
    "list_projects": "/api/projects",
    "search_entities": "/api/entities",
    "get_entity": "/api/entities/{entityId}",
    "get_entity_graph": "/api/entities/{entityId}/graph",
    "list_search_performance": "/api/seo/search-performance",
    "list_quotable_blocks": "/api/quotable-blocks",
}
ID_ARGUMENTS = ("projectId", "entityId")
UUID_SCHEMA = {"pattern": f"^{RFC_4122_UUID}$"}
"""The pattern behind `format: uuid`; it is validated but not published, to keep the schema short for models."""
MAX_SUGGESTIONS = 100
MAX_ARGUMENT_LENGTH = 4096
"""Characters of an argument that are sent. No stored text is longer, so the rest cannot change the result."""


def bridge_toolset(backend: Backend) -> Toolset:
    handlers = {name: _handler(backend, path) for name, path in ROUTES.items()}
    tools = load_tools("carrel.toolsets.bridge", handlers, dict.fromkeys(ID_ARGUMENTS, UUID_SCHEMA))
    return Toolset(
        name="bridge",
        about="projects, their entities and relations, how they do in search, and what can be quoted from them; "
        "list_projects gives the ids that other calls take.",
        tools=tools,
        dialect=BridgeDialect(tools),
        scopes=Scopes("content:read", "content:write"),
        targets=("entityId", "projectId"),
        admit=admit,
        views={"get_entity_graph": GRAPH},
        suggestions={"project": _slugs(backend)},
    )


def _slugs(backend: Backend) -> Suggest:
    """Return a completer of project slugs, from the first `MAX_SUGGESTIONS` projects."""
    projects = _handler(backend, ROUTES["list_projects"])

    async def suggest(start: str, caller: Caller, limit: int) -> Completions:
        answer = await projects({"limit": MAX_SUGGESTIONS}, caller)
        if isinstance(answer, Failure):
            return Completions([], 0)
        slugs = [each["slug"] for each in answer["data"] if each["slug"].startswith(start.lower())]
        return Completions(slugs[:limit], len(slugs))

    return suggest


def _handler(backend: Backend, route: str) -> Handler:
    in_path = "{entityId}" in route

    async def handle(arguments: Arguments, caller: Caller) -> Any:
        parameters = {name: _text(name, value) for name, value in arguments.items()}
        headers = {"x-project-id": parameters.pop("projectId")} if "projectId" in parameters else {}
        path = route.format(entityId=parameters.pop("entityId")) if in_path else route
        try:
            return _value(await backend.get(path, parameters, headers | _projects_header(caller.projects)))
        except BackendUnavailable as unavailable:
            log.error("%s: %s: %s", route, unavailable, unavailable.__cause__)
            return _failure(str(unavailable))

    return handle


def _projects_header(projects: frozenset[str] | None) -> dict[str, str]:
    """Return the header that limits a request to the caller's projects; a lone comma, which no slug is, means none."""
    return (
        {}
        if projects is None
        else {PROJECTS_HEADER: ",".join(quote(each, safe="") for each in sorted(projects)) or ","}
    )


def _failure(message: str) -> Failure:
    return Failure(error("SERVER_ERROR", message), is_ours=True)


def _text(name: str, value: object) -> str:
    text = f"{value:.0f}" if isinstance(value, float) else str(value)[: MAX_ARGUMENT_LENGTH + 1]
    return text.lower() if name in ID_ARGUMENTS else text


def _value(reply: Reply) -> Any:
    """Return the backend's response unchanged; one that the contract does not define is a server error."""
    from pydantic_core import from_json

    try:
        value = from_json(reply.body)
    except ValueError:
        return _failure(f"the backend's answer is not JSON (status {reply.status})")
    match value:
        case {"data": _} if reply.status == 200:
            return value
        case {"error": {"code": str(code), "message": str(message)}} if reply.status != 200:
            return Failure(error(code, message), is_ours=reply.status >= 500)
        case _:
            return _failure(f"the backend's answer is none of its API (status {reply.status})")
