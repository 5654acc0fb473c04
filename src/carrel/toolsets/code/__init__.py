"""The code contract."""

from carrel.toolsets.code.toolset import TOOLS, code_toolset

__all__ = ["TOOLS", "code_toolset"]
