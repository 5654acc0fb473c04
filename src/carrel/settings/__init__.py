"""The settings: their definitions, and their loader."""

from carrel.settings.definitions import (
    ENVIRONMENT_PREFIX,
    AuthSettings,
    EmbeddingsSettings,
    LimitsSettings,
    NotesSettings,
    ServerSettings,
    Setting,
    Settings,
    all_settings,
)
from carrel.settings.loader import FILE_NAME, Overrides, load

__all__ = [
    "ENVIRONMENT_PREFIX",
    "FILE_NAME",
    "AuthSettings",
    "EmbeddingsSettings",
    "LimitsSettings",
    "NotesSettings",
    "Overrides",
    "ServerSettings",
    "Setting",
    "Settings",
    "all_settings",
    "load",
]
