"""Carrel: a desk for an AI assistant in a project, as one MCP server."""

from typing import TYPE_CHECKING, Any

from carrel.version import __version__

if TYPE_CHECKING:
    from carrel.client import InProcessClient, in_process

__all__ = ["InProcessClient", "__version__", "in_process"]


def __getattr__(name: str) -> Any:
    """`in_process` brings the whole server with it, so it is imported when it is asked for."""
    if name in ("in_process", "InProcessClient"):
        import carrel.client as module

        return getattr(module, name)
    raise AttributeError(f"module 'carrel' has no attribute {name!r}")
