"""The journal: what an assistant writes down about the code base. Optional, and off unless it is named."""

from carrel.toolsets.journal.toolset import journal_toolset

__all__ = ["journal_toolset"]
