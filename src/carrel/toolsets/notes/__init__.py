"""The notes contract."""

from carrel.toolsets.notes.toolset import notes_toolset

__all__ = ["notes_toolset"]
