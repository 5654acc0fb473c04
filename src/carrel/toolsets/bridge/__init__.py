"""The bridge contract."""

from carrel.toolsets.bridge.backend import Backend, InProcessBackend, RemoteBackend
from carrel.toolsets.bridge.toolset import bridge_toolset

__all__ = ["Backend", "InProcessBackend", "RemoteBackend", "bridge_toolset"]
