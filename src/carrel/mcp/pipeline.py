"""The one way that every tool call goes, whatever its toolset and transport."""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_core import to_json

from carrel.auth.audit import audit_entry
from carrel.calls.call_store import CallRecord, Observer
from carrel.mcp.limits import CallLimits
from carrel.mcp.limits.call_limits import Deadline, Deadlines, too_large
from carrel.mcp.metrics import InFlight
from carrel.mcp.toolset import Arguments, Caller, Failure, Tool, Toolset
from carrel.mcp.validation import with_readable_names

if TYPE_CHECKING:
    from carrel.auth.audit import Audit, AuditEntry
    from carrel.mcp.prompts import Prompt
    from carrel.mcp.resources import Resources
    from carrel.mcp.toolset import View

log = logging.getLogger("carrel.calls")


class UnknownTool(Exception):
    pass


class Answer(NamedTuple):
    """What a call came to: the value, the same as JSON text, and whether it is an error."""

    value: Any
    text: str
    is_error: bool


class Pipeline:
    """The tools of some toolsets, ready to be called."""

    is_traced = False
    """Whether callers are to say where they come from."""

    def __init__(
        self,
        toolsets: Iterable[Toolset],
        *,
        timeout: float,
        limits: CallLimits | None = None,
        read_only: bool = False,
        shows_arguments: bool = False,
        observers: tuple[Observer, ...] = (),
        scopes: frozenset[str] | None = None,
        audit: "Audit | None" = None,
        in_flight: InFlight | None = None,
        prompts: "Iterable[Prompt]" = (),
    ) -> None:
        """With `scopes`, the tools and resources that they open, as if there were no others. Of `prompts`, those that
        can be followed with these tools."""
        offered = [(toolset, tool) for toolset in toolsets for tool in toolset.tools if not (read_only and tool.writes)]
        self.withheld = {
            tool.name: needed
            for toolset, tool in offered
            if scopes is not None and (needed := toolset.scope_of(tool)) not in scopes
        }
        """The scopes that the others would take, by tool."""
        self._tools = {tool.name: (toolset, tool) for toolset, tool in offered if tool.name not in self.withheld}
        readable = (
            toolset.resources
            for toolset, _ in offered
            if toolset.resources and (scopes is None or toolset.scopes.read in scopes)
        )
        self._resources = next(readable, None)
        self.prompts = tuple(each for each in prompts if each.required_tools <= self._tools.keys())
        self.suggestions = {
            kind: suggest
            for toolset, _ in self._tools.values()
            if scopes is None or toolset.scopes.read in scopes
            for kind, suggest in toolset.suggestions.items()
        }
        """By what they name."""
        self._audit = audit
        self._in_flight = in_flight or InFlight()
        self._timeout = timeout
        self._deadlines = Deadlines(timeout)
        self._limits = limits
        self._shows_arguments = shows_arguments
        self._observers = observers

    @property
    def resources(self) -> "Resources | None":
        """Those of the one toolset that has any."""
        return self._resources

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Those that have a tool here."""
        return tuple(dict.fromkeys(toolset.name for toolset, _ in self._tools.values()))

    @property
    def scopes(self) -> frozenset[str]:
        """Those that its tools take."""
        return frozenset(toolset.scope_of(tool) for toolset, tool in self._tools.values())

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """In the order of the toolsets and, within each, of its contract."""
        return [tool.definition for _, tool in self._tools.values()]

    @property
    def views(self) -> "dict[str, View]":
        """By tool."""
        return {name: toolset.views[name] for name, (toolset, _) in self._tools.items() if name in toolset.views}

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
        outcome, is_denied = "cancelled", False
        value: Any = None
        text = ""
        audit_written = None
        self._in_flight.count += 1
        try:
            outcome, value = await self._answer(toolset, tool, arguments, caller)
            if isinstance(value, Failure):
                is_denied, value = value.is_denial, value.error
            text = _encode(value)
            if self._limits and outcome == "ok" and (message := too_large(tool, text, self._limits.result_bytes)):
                outcome, value = "refused", toolset.dialect.too_large(name, message)
                text = _encode(value)
        except Exception:
            log.exception("%s failed", name)
            outcome, value = "failed", toolset.dialect.failed(name)
            text = _encode(value)
        finally:
            self._in_flight.count -= 1
            seconds = time.perf_counter() - started
            is_slow = seconds > toolset.max_seconds(name, arguments)
            logged_arguments = arguments if self._shows_arguments else None
            user = caller.user or ""
            record = CallRecord(
                toolset.name, name, outcome, seconds, len(text), time.time(), is_slow, logged_arguments, user
            )
            for observe in self._observers:
                observe(record)
            if self._limits and outcome != "limited" and (budget := self._limits.budgets.get(name)) is not None:
                budget.spend(caller.client, seconds)
            if self._audit and (tool.writes or is_denied or outcome == "limited"):
                target = _target(toolset, arguments, value)
                audit_written = self._audit.record(
                    _audit_entry(name, target, "denied" if is_denied else outcome, caller)
                )
        if audit_written is not None:
            await audit_written
        return Answer(value, text, outcome != "ok")

    async def _answer(self, toolset: Toolset, tool: Tool, arguments: Arguments, caller: Caller) -> tuple[str, Any]:
        """The outcome and the value: `ok`, `refused` for the caller's fault, `failed` for ours."""
        dialect, name = toolset.dialect, tool.name
        arguments = toolset.prepare(name, with_readable_names(arguments))
        if violations := tool.validator.violations(arguments):
            return "refused", dialect.invalid(name, violations)
        if (refusal := toolset.admit(arguments, caller)) is not None:
            return "refused", refusal
        limits = self._limits
        if limits is None:
            return await self._run_handler(toolset, tool, arguments, caller)
        budget = limits.budgets.get(name)
        if budget is not None and (seconds := budget.retry_after(caller.client)) is not None:
            return "limited", dialect.rate_limited(name, seconds)
        if limits.shared is None:  # the usual way, which nothing is to be waited for on
            if (seconds := limits.begin(caller.client, name)) is not None:
                return "limited", dialect.rate_limited(name, seconds)
            try:
                return await self._run_handler(toolset, tool, arguments, caller)
            finally:
                limits.leave(caller.client)
        async with limits.call(caller.client, name) as seconds:
            if seconds is not None:
                return "limited", dialect.rate_limited(name, seconds)
            return await self._run_handler(toolset, tool, arguments, caller)

    async def _run_handler(self, toolset: Toolset, tool: Tool, arguments: Arguments, caller: Caller) -> tuple[str, Any]:
        dialect, name = toolset.dialect, tool.name
        deadline = caller.deadline = Deadline(self._deadlines)
        try:
            with deadline:
                value = await tool.handler(arguments, caller)
        except TimeoutError:
            if not deadline.is_expired:
                raise
            log.error("%s was given up after %s s", name, self._timeout)
            return "failed", dialect.timed_out(name, self._timeout)
        if isinstance(value, Failure):
            return ("failed" if value.is_ours else "refused"), value
        return "ok", value


def _target(toolset: Toolset, arguments: Arguments, value: Any) -> str:
    sources = (arguments, cast("Arguments", value) if isinstance(value, dict) else {})
    found = (source[name] for name in toolset.targets for source in sources if name in source)
    target = next(found, "")
    return str(target) if isinstance(target, str | int | float) else ""


def _audit_entry(tool: str, target: str, outcome: str, caller: Caller) -> "AuditEntry":
    client = caller.address or caller.client
    return audit_entry(subject=caller.user or "", client=client, action=tool, target=target, outcome=outcome)


def _encode(value: Any) -> str:
    return to_json(value).decode()
