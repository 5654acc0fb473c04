"""Pages that hosts draw results with."""

from carrel.mcp.apps import View

GRAPH = View(
    uri="ui://carrel/graph",
    name="graph",
    title="Graph",
    description="What is around an entity or a note, drawn, and expanded on request",
    package="carrel.toolsets.views",
    file="graph.html",
)
