"""The one way that every tool call goes, whatever its toolset and transport."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from carrel.mcp.limits import RateLimiter
from carrel.mcp.toolset import Arguments, Caller, Failure, Tool, Toolset

if TYPE_CHECKING:
    from carrel.mcp.resources import Resources

log = logging.getLogger("carrel.calls")


class UnknownTool(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to: the value, the same as JSON text, and whether it is an error."""

    value: Any
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as metrics and the log see it: never the result; arguments only where the settings ask for them."""

    toolset: str
    tool: str
    outcome: str
    """`ok`, `refused` for the caller's fault, `limited` past the rate limit, `failed` for ours, or `cancelled`."""
    seconds: float
    size: int
    is_slow: bool = False
    """Whether it took longer than its contract allows."""
    arguments: Arguments | None = None


Observer = Callable[[CallRecord], None]


class Pipeline:
    """The tools of some toolsets, ready to be called."""

    def __init__(
        self,
        toolsets: Iterable[Toolset],
        *,
        timeout: float,
        limiter: RateLimiter | None = None,
        read_only: bool = False,
        shows_arguments: bool = False,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        toolsets = list(toolsets)
        self._resources = next((each.resources for each in toolsets if each.resources), None)
        self._tools: dict[str, tuple[Toolset, Tool]] = {
            tool.name: (toolset, tool)
            for toolset in toolsets
            for tool in toolset.tools
            if not (read_only and tool.writes)
        }
        self._timeout = timeout
        self._limiter = limiter
        self._shows_arguments = shows_arguments
        self._observers = observers

    @property
    def resources(self) -> "Resources | None":
        """Those of the one toolset that has any."""
        return self._resources

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """In the order of the toolsets and, within each, of its contract."""
        return [tool.definition for _, tool in self._tools.values()]

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        found = self._tools.get(name)
        return None if found is None else found[1].definition["inputSchema"]

    async def call(self, name: str, arguments: Arguments, caller: Caller) -> Answer:
        """Raises `UnknownTool`; every other failure is an `Answer` in the contract's words."""
        found = self._tools.get(name)
        if found is None:
            raise UnknownTool(name)
        toolset, tool = found
        started = time.perf_counter()
        outcome = "cancelled"
        text = ""
        try:
            outcome, value = await self._answer(toolset, tool, arguments, caller)
            text = _encoded(value)
        except Exception:
            log.exception("%s failed", name)
            outcome, value = "failed", toolset.dialect.failed(name)
            text = _encoded(value)
        finally:
            seconds = time.perf_counter() - started
            is_slow = seconds > toolset.longest(name, arguments)
            given = arguments if self._shows_arguments else None
            record = CallRecord(toolset.name, name, outcome, seconds, len(text), is_slow, given)
            for observe in self._observers:
                observe(record)
        return Answer(value, text, outcome != "ok")

    async def _answer(self, toolset: Toolset, tool: Tool, arguments: Arguments, caller: Caller) -> tuple[str, Any]:
        """The outcome and the value: `ok`, `refused` for the caller's fault, `failed` for ours."""
        dialect, name = toolset.dialect, tool.name
        arguments = toolset.prepare(name, arguments)
        if violations := tool.validator.violations(arguments):
            return "refused", dialect.invalid(name, violations)
        if (refusal := toolset.admit(arguments, caller)) is not None:
            return "refused", refusal.error
        if self._limiter and (seconds := self._limiter.retry_after(caller.client, name)) is not None:
            return "limited", dialect.rate_limited(name, seconds)
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                value = await tool.handler(arguments, caller)
        except TimeoutError:
            if not limit.expired():
                raise
            log.error("%s was given up after %s s", name, self._timeout)
            return "failed", dialect.timed_out(name, self._timeout)
        if isinstance(value, Failure):
            return ("failed" if value.is_ours else "refused"), value.error
        return "ok", value


def _encoded(value: Any) -> str:
    return to_json(value).decode()
