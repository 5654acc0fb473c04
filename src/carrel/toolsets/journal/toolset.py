"""The three tools, thin on top of the repository."""

from typing import Any

from carrel.code.knowledge.code_base import validated_name
from carrel.code.knowledge.discoveries import DiscoveryRepository, InvalidDiscovery, validated
from carrel.common import UUID, is_storable
from carrel.mcp.toolset import Arguments, Caller, Failure, Scopes, Toolset, load_tools
from carrel.storage.database import Database
from carrel.toolsets.code.dialect import INVALID, CodeDialect, invalid_parameter

FAILURES = {
    "record_discovery": "Failed to record discovery",
    "list_discoveries": "Failed to list discoveries",
    "forget_discovery": "Failed to forget discovery",
}


def journal_toolset(database: Database, code_base: str) -> Toolset:
    """The toolset over the discoveries of one code base."""
    journal = _Handlers(database, validated_name(code_base))
    handlers = {
        "record_discovery": journal.record,
        "list_discoveries": journal.list,
        "forget_discovery": journal.forget,
    }
    tools = load_tools("carrel.toolsets.journal", handlers, {"id": {"pattern": f"^{UUID}$"}})
    return Toolset(
        name="journal",
        about="what was learned about this code base: record patterns, rules, decisions and issues as you find them.",
        tools=tools,
        dialect=CodeDialect(tools, FAILURES),
        scopes=Scopes("code:read", "code:write"),
        targets=("id",),
    )


class _Handlers:
    def __init__(self, database: Database, code_base: str) -> None:
        self._database = database
        self._code_base = code_base

    async def record(self, arguments: Arguments, _caller: Caller) -> Any:
        given = validated(arguments["type"], arguments["content"], arguments.get("module"), arguments.get("session"))
        if isinstance(given, InvalidDiscovery):
            details = [
                {"path": [fault.field], "message": f"{fault.must[0].upper()}{fault.must[1:]}"} for fault in given.errors
            ]
            return Failure({"error": INVALID, "details": details})
        kept = await self._database.write(lambda session: DiscoveryRepository(session, self._code_base).add(given))
        return kept.as_json()

    async def list(self, arguments: Arguments, _caller: Caller) -> Any:
        type_, module = arguments.get("type", "all"), arguments.get("module")
        if module is not None and not is_storable(module):
            return Failure(invalid_parameter("module", "Must not contain NUL or unpaired surrogates"))
        found = await self._database.read(
            lambda session: DiscoveryRepository(session, self._code_base).newest(
                int(arguments.get("limit", 20)), type=None if type_ == "all" else type_, module=module
            )
        )
        return {"discoveries": [each.as_json() for each in found.discoveries], "total": found.total}

    async def forget(self, arguments: Arguments, _caller: Caller) -> Any:
        deleted = await self._database.write(
            lambda session: DiscoveryRepository(session, self._code_base).remove(arguments["id"])
        )
        return {"deleted": deleted}
