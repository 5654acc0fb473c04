"""A desk without a wire: the same tools, called as functions, for one user."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from carrel.mcp.pipeline import Answer, Pipeline
from carrel.mcp.toolset import USER_ARGUMENT, Caller
from carrel.settings import Overrides
from carrel.workspace import Workspace, find_workspace


class InProcessClient:
    """Holds a workspace open for one user. Opens with the first call; close it, or use it as a context manager."""

    def __init__(self, workspace: Workspace, user_id: str) -> None:
        if not user_id:
            raise ValueError("user_id must be a non-empty string")
        self.user_id = user_id
        self._workspace = workspace
        self._caller = Caller(client=f"in-process:{user_id}", user=user_id)
        self._stack = AsyncExitStack()
        self._pipeline: Pipeline | None = None

    async def list_tools(self) -> list[dict[str, Any]]:
        """The tool definitions, without the user's id, which is call_arguments with every call."""
        return [_without_user(definition) for definition in (await self._open_pipeline()).definitions]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Answer:
        """What the tool answers to this user. Raises `carrel.mcp.pipeline.UnknownTool` for a tool that there is not."""
        pipeline = await self._open_pipeline()
        call_arguments = dict(arguments or {})
        if USER_ARGUMENT in (pipeline.input_schema(name) or {}).get("properties", {}):
            call_arguments.setdefault(USER_ARGUMENT, self.user_id)
        return await pipeline.call(name, call_arguments, self._caller)

    async def aclose(self) -> None:
        self._pipeline = None
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        await self._open_pipeline()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _open_pipeline(self) -> Pipeline:
        if self._pipeline is None:
            desk = await self._stack.enter_async_context(self._workspace.open())
            self._pipeline = desk.pipeline()
        return self._pipeline


def in_process(
    *, user_id: str, workspace: Path | str | None = None, settings: Overrides | None = None
) -> InProcessClient:
    """A client for `user_id` on the workspace at a folder (default: found as the command line finds it).

    `settings` overrides single values, as the command line does: `{"database": {"url": "sqlite:///desk.db"}}`.
    """
    folder = Path(workspace) if workspace is not None else None
    return InProcessClient(find_workspace(folder, settings), user_id)


def _without_user(definition: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(definition["inputSchema"])
    schema["properties"] = {name: value for name, value in schema["properties"].items() if name != USER_ARGUMENT}
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name != USER_ARGUMENT]
    return {**definition, "inputSchema": schema}
