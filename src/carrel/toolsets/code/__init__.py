"""The code contract."""

from carrel.toolsets.code.toolset import code_toolset

__all__ = ["code_toolset"]
