"""bridge.md and its rulings, read aloud: the six routes of the backend, and the six tools that ask them."""

import re
from collections.abc import Callable
from typing import Any

from tests.reference.model import (
    CLAIM_TYPES,
    CONCEPT_KINDS,
    ENTITY_TYPES,
    RELATION_TYPES,
    STATUSES,
    Row,
    Value,
    World,
    contains,
    instant,
    is_integer,
    is_one_of,
    is_text,
    is_uuid,
    ordered,
    pick,
)

DEFAULT_PROJECT = "00000000-0000-4000-a000-000000000001"
RELATIONS_LIMIT = 1000
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
ENTITY = (
    "id",
    "projectId",
    "entityType",
    "title",
    "slug",
    "summary",
    "difficulty",
    "conceptKind",
    "repoUrl",
    "status",
    "canonicalUrl",
    "lastVerifiedAt",
    "createdAt",
    "updatedAt",
)
PERFORMANCE = (
    "id",
    "projectId",
    "entityId",
    "pageUrl",
    "query",
    "impressions",
    "clicks",
    "ctr",
    "avgPosition",
    "dateStart",
    "dateEnd",
    "capturedAt",
)
BLOCK = (
    "id",
    "projectId",
    "entityId",
    "text",
    "claimType",
    "sourceCitation",
    "verifiedUntil",
    "topicTag",
    "createdAt",
    "updatedAt",
)

Checks = dict[str, Callable[[Any], bool]]


def is_id(value: Any) -> bool:
    return is_uuid(value, UUID)


def is_date(value: Any) -> bool:
    return instant(value) is not None


def are_types(value: Any) -> bool:
    """Empty is no filter; blanks around commas are allowed, empty items are not."""
    return is_text(value) and (value == "" or all(item.strip(" ") in RELATION_TYPES for item in value.split(",")))


PAGING: Checks = {
    "page": lambda value: is_integer(value, 1),
    "limit": lambda value: is_integer(value, 1, 100),
}
FILTERS: dict[str, Checks] = {
    "list_projects": PAGING,
    "search_entities": {
        "entityType": lambda value: is_one_of(value, ENTITY_TYPES),
        "status": lambda value: is_one_of(value, STATUSES),
        "conceptKind": lambda value: is_one_of(value, CONCEPT_KINDS),
        "search": is_text,
        **PAGING,
    },
    "get_entity": {},
    "get_entity_graph": {"depth": lambda value: is_integer(value, 1, 2), "relationshipTypes": are_types},
    "list_search_performance": {
        "query": is_text,
        "pageUrl": is_text,
        "entityId": is_id,
        "dateStart": is_date,
        "dateEnd": is_date,
        **PAGING,
    },
    "list_quotable_blocks": {
        "entityId": is_id,
        "claimType": lambda value: is_one_of(value, CLAIM_TYPES),
        "topicTag": is_text,
        "verifiedUntilBefore": is_date,
        "verifiedUntilAfter": is_date,
        **PAGING,
    },
}
"""What each tool takes beside the project, and for the two tools of one entity beside that."""
OF_ONE_ENTITY = ("get_entity", "get_entity_graph")
ROUTES = {
    r"/api/projects": "list_projects",
    r"/api/entities": "search_entities",
    r"/api/entities/([^/]+)": "get_entity",
    r"/api/entities/([^/]+)/graph": "get_entity_graph",
    r"/api/seo/search-performance": "list_search_performance",
    r"/api/quotable-blocks": "list_quotable_blocks",
}


def error(code: str, message: str) -> Value:
    return {"error": {"code": code, "message": message}}


INVALID = error("BAD_REQUEST", "the model does not word these")
NO_PROJECT = error("NOT_FOUND", "Project not found")
NO_ENTITY = error("NOT_FOUND", "Entity not found")
STATUS = {"BAD_REQUEST": 400, "NOT_FOUND": 404}


class BridgeModel:
    def __init__(self, world: World, default_project: str | None = DEFAULT_PROJECT) -> None:
        self._world = world
        self._default = default_project

    # --- the tools

    def call(self, tool: str, arguments: dict[str, Any]) -> Value:
        given = dict(arguments)
        project_id = entity_id = None
        if tool != "list_projects":
            project_id = given.pop("projectId", None)
            if not is_id(project_id):
                return INVALID
        if tool in OF_ONE_ENTITY:
            entity_id = given.pop("entityId", None)
            if not is_id(entity_id):
                return INVALID
        return self._answer(tool, project_id, entity_id, given)

    # --- the routes

    def get(
        self,
        path: str,
        query: list[tuple[str, str]],
        headers: dict[str, str] | None = None,
        cookies: dict[str, str] | None = None,
    ) -> tuple[int, Value]:
        """Status and body of a GET. The path is one of the six routes; names of headers are in lower case."""
        tool, entity_id = next(
            (tool, found[1] if found.groups() else None)
            for pattern, tool in ROUTES.items()
            if (found := re.fullmatch(pattern, path)) is not None
        )
        given: dict[str, Any] = dict(query)
        if len(given) < len(query):  # one is repeated
            return 400, INVALID
        for name in ("page", "limit", "depth"):
            if name in given and re.fullmatch("[0-9]+", given[name]) is not None:
                given[name] = int(given[name])
        if entity_id is not None and not is_id(entity_id):
            return 400, INVALID
        project_id = self._resolve(headers or {}, cookies or {})
        if tool != "list_projects" and project_id is not None and not is_id(project_id):
            return 400, INVALID
        value = self._answer(tool, project_id, entity_id, given)
        return STATUS[value["error"]["code"]] if "error" in value else 200, value

    def _resolve(self, headers: dict[str, str], cookies: dict[str, str]) -> str | None:
        """The id as it was given, which need not be that of a project: empty for none, None for an unknown slug."""
        if given := headers.get("x-project-id"):
            return given
        if slug := headers.get("x-project-slug"):
            return next((row["id"] for row in self._world.projects if row["slug"] == slug), None)
        return cookies.get("projectId") or self._default or ""

    # --- what both come to

    def _answer(self, tool: str, project_id: str | None, entity_id: str | None, given: dict[str, Any]) -> Value:
        checks = FILTERS[tool]
        if any(name not in checks or not checks[name](value) for name, value in given.items()):
            return INVALID
        first, last = instant(given.get("dateStart")), instant(given.get("dateEnd"), upper=True)
        if first is not None and last is not None and first > last:
            return INVALID
        if tool == "list_projects":
            fields = ("id", "slug", "name", "description", "createdAt", "updatedAt")
            return _page(ordered(self._world.projects, "slug", "id"), fields, given)
        if project_id is None or self._world.project(project_id) is None:
            return NO_PROJECT
        if tool == "search_entities":
            return _page(self._search(project_id, given), ENTITY, given)
        if tool == "list_search_performance":
            return _page(self._performance(project_id, given), PERFORMANCE, given)
        if tool == "list_quotable_blocks":
            return _page(self._blocks(project_id, given), BLOCK, given)
        root = self._world.entity(project_id, entity_id or "")
        if root is None:
            return NO_ENTITY
        if tool == "get_entity":
            return {"data": pick(root, *ENTITY)}
        return {"data": self._graph(root, int(given.get("depth", 1)), given.get("relationshipTypes", ""))}

    def _search(self, project_id: str, given: dict[str, Any]) -> list[Row]:
        rows = self._world.of(self._world.entities, project_id)
        for name in ("entityType", "status", "conceptKind"):
            if name in given:
                rows = [row for row in rows if row.get(name) == given[name]]
        if needle := given.get("search"):
            rows = [row for row in rows if contains(row["title"], needle) or contains(row["slug"], needle)]
        return ordered(rows, "-createdAt", "-id")

    def _performance(self, project_id: str, given: dict[str, Any]) -> list[Row]:
        rows = self._world.of(self._world.performance, project_id)
        if "entityId" in given:
            rows = [row for row in rows if row.get("entityId") == given["entityId"].lower()]
        for name in ("query", "pageUrl"):
            if needle := given.get(name):
                rows = [row for row in rows if contains(row[name], needle)]
        if (first := instant(given.get("dateStart"))) is not None:
            rows = [row for row in rows if row["dateStart"] >= first]
        if (last := instant(given.get("dateEnd"), upper=True)) is not None:
            rows = [row for row in rows if row["dateEnd"] <= last]
        return ordered(rows, "-dateStart", "-dateEnd", "query", "pageUrl", "-id")

    def _blocks(self, project_id: str, given: dict[str, Any]) -> list[Row]:
        rows = self._world.of(self._world.blocks, project_id)
        if "entityId" in given:
            rows = [row for row in rows if row["entityId"] == given["entityId"].lower()]
        if "claimType" in given:
            rows = [row for row in rows if row["claimType"] == given["claimType"]]
        if needle := given.get("topicTag"):
            rows = [row for row in rows if contains(row.get("topicTag"), needle)]
        if (first := instant(given.get("verifiedUntilAfter"))) is not None:
            rows = [row for row in rows if row.get("verifiedUntil") is not None and row["verifiedUntil"] >= first]
        if (last := instant(given.get("verifiedUntilBefore"), upper=True)) is not None:
            rows = [row for row in rows if row.get("verifiedUntil") is not None and row["verifiedUntil"] <= last]
        return ordered(rows, "-createdAt", "-id")

    def _graph(self, root: Row, depth: int, types: str) -> Value:
        chosen = {item.strip(" ") for item in types.split(",")} if types else set[str]()
        relations = self._world.relations_of(root["projectId"], chosen)
        arrived: dict[str, tuple[Row, Row | None]] = {}
        """By the relation's id: the relation, and the entity at the end that the walk came to."""
        nearest = {root["id"]}
        seen = {root["id"]}
        for _ in range(depth):
            for near in sorted(nearest):
                for relation in relations:
                    if near in (relation["fromEntityId"], relation["toEntityId"]) and relation["id"] not in arrived:
                        far = relation["toEntityId" if relation["fromEntityId"] == near else "fromEntityId"]
                        arrived[relation["id"]] = (relation, self._world.entity(root["projectId"], far))
            reached = {entity["id"] for _, entity in arrived.values() if entity is not None}
            nearest = reached - seen
            seen |= reached
        found = ordered([relation for relation, _ in arrived.values()], "-createdAt", "-id")
        value: Value = {"rootEntity": pick(root, *ENTITY), "relationships": [], "depth": depth}
        for relation in found[:RELATIONS_LIMIT]:
            _, entity = arrived[relation["id"]]
            fields = ("id", "relationType", "fromEntityId", "toEntityId", "notes", "createdAt")
            related = None if entity is None else pick(entity, "id", "entityType", "title", "slug", "status")
            value["relationships"].append(pick(relation, *fields) | {"relatedEntity": related})
        if len(found) > RELATIONS_LIMIT:
            value["truncated"] = True
        return value


def _page(rows: list[Row], fields: tuple[str, ...], given: dict[str, Any]) -> Value:
    page, limit = int(given.get("page", 1)), int(given.get("limit", 20))
    data = [pick(row, *fields) for row in rows[(page - 1) * limit : page * limit]]
    return {
        "data": data,
        "pagination": {"page": page, "limit": limit, "total": len(rows), "hasMore": page * limit < len(rows)},
    }
