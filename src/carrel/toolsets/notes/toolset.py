"""The ten tools, as clients are shown them."""

from collections.abc import Mapping

from carrel.mcp.resources import Completions, Resources
from carrel.mcp.toolset import Caller, Handler, Scopes, Suggest, Toolset, load_tools
from carrel.toolsets.notes.dialect import NotesDialect, admit
from carrel.toolsets.views import GRAPH

TOOLS = (
    "search",
    "get_node",
    "get_neighbors",
    "find_path",
    "get_hubs",
    "search_by_tags",
    "random_node",
    "create_node",
    "update_node",
    "delete_node",
)


def notes_toolset(
    handlers: Mapping[str, Handler],
    resources: Resources | None = None,
    suggestions: Mapping[str, Suggest] | None = None,
) -> Toolset:
    """The toolset of the tools that there are handlers for."""
    tools = load_tools("carrel.toolsets.notes", {name: handlers[name] for name in TOOLS if name in handlers})
    return Toolset(
        name="notes",
        about="markdown notes that link to each other; a note's id is its path in the vault, such as ideas/garden.md.",
        tools=tools,
        dialect=NotesDialect(tools),
        scopes=Scopes("notes:read", "notes:write"),
        targets=("id", "source"),
        admit=admit,
        resources=resources,
        views={"get_node": GRAPH},
        suggestions={**({} if resources is None else {"note": _ids(resources)}), **(suggestions or {})},
    )


def _ids(resources: Resources) -> Suggest:
    async def suggest(start: str, _caller: Caller, limit: int) -> Completions:
        return await resources.completions(start, limit)

    return suggest
