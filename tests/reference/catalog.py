"""catalog.md and its rulings, read aloud."""

from collections.abc import Callable
from typing import Any

from tests.reference.model import (
    ENTITY_TYPES,
    RELATION_TYPES,
    Row,
    Value,
    World,
    contains,
    fold,
    is_integer,
    is_set_of,
    is_text,
    is_uuid,
    ordered,
    pick,
)

PROJECTS_LIMIT = 100
NODES_LIMIT = 100
EDGES_LIMIT = 200

Checks = dict[str, Callable[[Any], bool]]

ARGUMENTS: dict[str, Checks] = {
    "list_projects": {},
    "search_entities": {
        "projectId": is_uuid,
        "query": lambda value: is_text(value, 1, 256),
        "entityTypes": lambda value: is_set_of(value, ENTITY_TYPES, 4),
        "limit": lambda value: is_integer(value, 1, 50),
    },
    "get_entity": {"projectId": is_uuid, "entityId": is_uuid},
    "get_entity_graph": {
        "projectId": is_uuid,
        "entityId": is_uuid,
        "depth": lambda value: is_integer(value, 1, 2),
        "relationshipTypes": lambda value: is_set_of(value, RELATION_TYPES, 50),
    },
}
REQUIRED = {
    "list_projects": (),
    "search_entities": ("projectId", "query"),
    "get_entity": ("projectId", "entityId"),
    "get_entity_graph": ("projectId", "entityId"),
}


def error(code: str, message: str) -> Value:
    return {"error": {"code": code, "message": message, "details": {}}}


INVALID = error("VALIDATION_ERROR", "the model does not word these")
NO_PROJECT = error("PROJECT_NOT_FOUND", "Project not found")
NO_ENTITY = error("ENTITY_NOT_FOUND", "Entity not found")


class CatalogModel:
    def __init__(self, world: World) -> None:
        self._world = world

    def call(self, tool: str, arguments: dict[str, Any]) -> Value:
        checks = ARGUMENTS[tool]
        if any(name not in arguments for name in REQUIRED[tool]):
            return INVALID
        if any(name not in checks or not checks[name](value) for name, value in arguments.items()):
            return INVALID
        if tool == "list_projects":
            return self._projects()
        if self._world.project(arguments["projectId"]) is None:
            return NO_PROJECT
        if tool == "search_entities":
            return self._search(**arguments)
        root = self._world.entity(arguments["projectId"], arguments["entityId"])
        if root is None:
            return NO_ENTITY
        if tool == "get_entity":
            return {"entity": self._details(root)}
        return self._graph(root, int(arguments.get("depth", 1)), set(arguments.get("relationshipTypes", ())))

    def _projects(self) -> Value:
        rows = sorted(self._world.projects, key=lambda row: (fold(row["name"]), row["id"]))
        fields = ("id", "name", "slug", "description", "createdAt", "updatedAt")
        return {"projects": [pick(row, *fields) for row in rows[:PROJECTS_LIMIT]]}

    def _search(self, projectId: str, query: str, entityTypes: list[str] | None = None, limit: float = 20) -> Value:  # noqa: N803 - as called
        found = [
            row
            for row in self._world.of(self._world.entities, projectId)
            if not entityTypes or row["entityType"] in entityTypes
            if any(contains(row.get(field), query) for field in ("title", "slug", "summary"))
        ]
        fields = ("id", "entityType", "title", "slug", "summary", "status", "createdAt", "updatedAt")
        rows = ordered(found, "-updatedAt", "id")
        return {"entities": [pick(row, *fields) for row in rows[: int(limit)]], "totalCount": len(found)}

    def _details(self, entity: Row) -> Value:
        among = self._among_entities(entity["projectId"], set())
        value = pick(
            entity,
            "id",
            "entityType",
            "title",
            "slug",
            "summary",
            "difficulty",
            "conceptKind",
            "comparisonTargets",
            "repoUrl",
            "repoDefaultBranch",
            "license",
            "status",
            "canonicalUrl",
            "contentRef",
            "publishedAt",
            "archivedAt",
            "createdAt",
            "updatedAt",
        )
        value["comparisonTargets"] = value["comparisonTargets"] or []
        value["relationshipCounts"] = {
            "outgoing": sum(relation["fromEntityId"] == entity["id"] for relation in among),
            "incoming": sum(relation["toEntityId"] == entity["id"] for relation in among),
        }
        return value

    def _among_entities(self, project_id: str, types: set[str]) -> list[Row]:
        """The relations whose both ends are entities of the project."""
        return [
            relation
            for relation in self._world.relations_of(project_id, types)
            if relation["fromEntityType"] in ENTITY_TYPES and relation["toEntityType"] in ENTITY_TYPES
        ]

    def _graph(self, root: Row, depth: int, types: set[str]) -> Value:
        relations = self._among_entities(root["projectId"], types)
        depths = {root["id"]: 0}
        for step in range(1, depth + 1):
            for relation in relations:
                ends = (relation["fromEntityId"], relation["toEntityId"])
                for near, far in (ends, ends[::-1]):
                    if depths.get(near) == step - 1:
                        depths.setdefault(far, step)
        reached = [{**row, "depth": depths[row["id"]]} for row in self._world.entities if row["id"] in depths]
        nodes = sorted(reached, key=lambda row: (row["depth"], fold(row["title"]), row["id"]))
        kept = {row["id"] for row in nodes[:NODES_LIMIT]}
        walked = [
            relation
            for relation in relations
            if {relation["fromEntityId"], relation["toEntityId"]} <= kept
            and min(depths[relation["fromEntityId"]], depths[relation["toEntityId"]]) < depth
        ]
        edges = ordered(walked, "fromEntityId", "toEntityId", "relationType", "id")
        node_fields = ("id", "entityType", "title", "slug", "summary", "status", "depth")
        edge_fields = ("fromEntityId", "toEntityId", "relationType", "notes")
        value: Value = {
            "nodes": [pick(row, *node_fields) for row in nodes[:NODES_LIMIT]],
            "edges": [pick(row, *edge_fields) for row in edges[:EDGES_LIMIT]],
        }
        if len(nodes) > NODES_LIMIT or len(edges) > EDGES_LIMIT:
            value["truncated"] = True
        return value
