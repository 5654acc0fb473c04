"""What is looked over: a folder, its environment, and as much of its settings as can be used."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from carrel.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Subject:
    workspace: Workspace
    """With the settings that can be used; those that cannot are as if they were not there."""
    environment: Mapping[str, str]

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Those that the settings name."""
        return self.workspace.settings.server.toolsets

    def serves(self, toolset: str) -> bool:
        """Whether the settings let it be served."""
        return not self.toolsets or toolset in self.toolsets

    def setting(self, section: str, key: str, default: Any = None) -> Any:
        """A setting by its name; `default` where this version has none of that name."""
        return getattr(getattr(self.workspace.settings, section, None), key, default)


def may(path: str | os.PathLike[str], mode: int) -> bool:
    """As `os.access`, for the user that this process acts as."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def megabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.1f} MB"


def lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def one_line(error: object) -> str:
    """What an error says, on one line."""
    return " ".join(lines(str(error)))
