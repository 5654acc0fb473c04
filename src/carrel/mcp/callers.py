"""Who calls, as the HTTP side knows it."""

from collections.abc import MutableMapping
from typing import Any

from carrel.common import Tell
from carrel.doors.access import access_of
from carrel.mcp.door import client_of
from carrel.mcp.toolset import Caller


def http_caller(scope: MutableMapping[str, Any], progress: Tell | None = None) -> Caller:
    """Limits count by who shows a token, else by the address."""
    access = access_of(scope)
    if access is None:
        return Caller(client=client_of(scope), progress=progress)
    return Caller(
        client=access.subject,
        user=access.subject,
        projects=access.projects,
        address=client_of(scope),
        progress=progress,
        access=access,
    )
