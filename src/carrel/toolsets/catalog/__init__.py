"""The catalog contract."""

from carrel.toolsets.catalog.toolset import catalog_toolset

__all__ = ["catalog_toolset"]
