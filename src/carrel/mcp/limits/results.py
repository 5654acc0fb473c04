"""What a call is told whose result is too large."""

from carrel.mcp.toolset import Tool

_LESS = {
    "limit": "a smaller limit",
    "depth": "a smaller depth",
    "relationshipTypes": "fewer relationshipTypes",
    "maxDepth": "a smaller maxDepth",
    "includeDeps": "includeDeps false",
    "status": "one status",
}
"""Arguments with which one gets less, and how."""
UTF8_LONGEST = 4


def too_large(tool: Tool, text: str, most: int) -> str | None:
    """None for a result that fits; 0 is no limit, and a tool that has written always gets to say so."""
    if not most or len(text) * UTF8_LONGEST <= most or tool.writes or (size := len(text.encode())) <= most:
        return None
    said = f"{tool.name}: the result has {size} bytes, more than the {most} that limits.result_bytes allows"
    properties = tool.definition["inputSchema"].get("properties", {})
    ways = [way for argument, way in _LESS.items() if argument in properties]
    return f"{said}; ask for less, with {' or '.join(ways)}" if ways else said
