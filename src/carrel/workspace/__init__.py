"""The composition root: reads the settings, opens the stores, builds the toolsets. Nothing else does."""

from carrel.settings.definitions import TOOLSETS
from carrel.workspace.desk import Desk, content_api
from carrel.workspace.folder import Workspace, find_workspace, refuse_collision

__all__ = ["TOOLSETS", "Desk", "Workspace", "content_api", "find_workspace", "refuse_collision"]
