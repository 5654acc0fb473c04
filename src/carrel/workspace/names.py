"""The toolsets that there are."""

TOOLSETS = ("catalog", "bridge", "notes", "tasks", "code", "journal")
CONTENT = ("catalog", "bridge")
"""Two contracts over the same content, whose tools share names: where both are served, catalog has its own endpoint."""
ON_DEMAND = ("journal",)
"""Served only where they are named."""
