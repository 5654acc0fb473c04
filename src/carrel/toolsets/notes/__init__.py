"""The notes contract."""

from carrel.toolsets.notes.toolset import TOOLS, notes_toolset

__all__ = ["TOOLS", "notes_toolset"]
