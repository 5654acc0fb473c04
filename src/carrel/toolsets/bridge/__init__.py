"""The bridge contract."""

from carrel.toolsets.bridge.backend import Backend, InProcessBackend
from carrel.toolsets.bridge.toolset import bridge_toolset

__all__ = ["Backend", "InProcessBackend", "bridge_toolset"]
