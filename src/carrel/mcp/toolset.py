"""A toolset: tool definitions as data, handlers, views, and the dialect in which its contract words errors."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from carrel.auth.access import ADMIN, Access
from carrel.common import AsyncProgress
from carrel.mcp.validation import Validator, Violation

if TYPE_CHECKING:
    from carrel.mcp.limits.call_limits import Deadline
    from carrel.mcp.resources import Completions, Resources
    from carrel.mcp.tracing import Origin


@dataclass(frozen=True, slots=True)
class View:
    """A page that stands in a package; it holds no data, only the way to draw it."""

    uri: str
    name: str
    title: str
    description: str
    package: str
    file: str

    @property
    def html(self) -> str:
        return _text(self.package, self.file)


@lru_cache
def _text(package: str, file: str) -> str:
    from importlib.resources import files  # a tenth of a start

    return (files(package) / file).read_text(encoding="utf-8")


Arguments = dict[str, Any]
ErrorObject = dict[str, Any]
USER_ARGUMENT = "user_id"
"""That contracts call the user whose things a call is about."""


"""Is told how much of how much is done, and of what."""


@dataclass(slots=True)
class Caller:
    """Who calls: `client` is what limits count by, `user` is set where the transport has authenticated one.

    One is made for every call, and a frozen dataclass takes three times as long to make.
    """

    client: str
    user: str | None = None
    projects: frozenset[str] | None = None
    """Slugs or ids of the only projects that there are for this caller; None where there are all."""
    address: str = ""
    """Where the call came from, if `client` does not say so."""
    progress: AsyncProgress | None = None
    """Set where the caller asked to be told how far a call is."""
    origin: "Origin | None" = None
    """Set where calls are traced."""
    access: Access | None = None
    """What the caller's token opens; None where callers are not authenticated."""

    deadline: "Deadline | None" = None
    """Of the call that is under way."""

    def may(self, scope: str) -> bool:
        """Whether the caller's token opens what takes a scope; where callers are not authenticated, all is open."""
        return self.access is None or self.access.has(scope)


@dataclass(frozen=True, slots=True)
class Failure:
    """A tool's failure in its contract's words."""

    error: ErrorObject
    is_ours: bool = False
    """Whether it was none of the caller's doing."""
    is_denial: bool = False
    """Whether the caller asked for what it may not have."""


Handler = Callable[[Arguments, Caller], Awaitable[Any]]
"""Takes valid arguments; returns the result as a JSON value, or a `Failure`."""


Suggest = Callable[[str, Caller, int], Awaitable["Completions"]]
"""The first, at most so many, of what begins so and that the caller may know of."""


class Dialect(Protocol):
    """How a contract words what the pipeline itself can find wrong with a call."""

    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject: ...

    def failed(self, tool: str) -> ErrorObject:
        """Something unexpected; its cause is in the log."""
        ...

    def timed_out(self, tool: str, seconds: float) -> ErrorObject: ...

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject: ...

    def too_large(self, tool: str, message: str) -> ErrorObject:
        """The result is; `message` says by how much, and how to ask for less."""
        ...


class Scopes(NamedTuple):
    """What a token must open for a toolset's tools to be there."""

    read: str
    write: str


ADMIN_SCOPES = Scopes(ADMIN, ADMIN)


@dataclass(frozen=True)
class Tool:
    """`definition` is what clients are shown: an MCP tool as JSON."""

    definition: Mapping[str, Any]
    handler: Handler
    validator: Validator

    @cached_property
    def name(self) -> str:
        return self.definition["name"]

    @cached_property
    def writes(self) -> bool:
        return not self.definition["annotations"]["readOnlyHint"]


def _unchanged(_tool: str, arguments: Arguments) -> Arguments:
    return arguments


def _unlimited(_tool: str, _arguments: Arguments) -> float:
    return math.inf


def _admit_everyone(_arguments: Arguments, _caller: Caller) -> Failure | None:
    return None


@dataclass(frozen=True, slots=True)
class Toolset:
    name: str
    about: str
    """One sentence for the model: what is here, and what it must know to use it."""
    tools: tuple[Tool, ...]
    dialect: Dialect
    prepare: Callable[[str, Arguments], Arguments] = _unchanged
    """What the contract does to arguments before it looks at them."""
    admit: Callable[[Arguments, Caller], Failure | None] = _admit_everyone
    """Whether this caller may make this call; asked once the arguments are known to be valid."""
    resources: "Resources | None" = None
    scopes: Scopes = ADMIN_SCOPES
    targets: tuple[str, ...] = ()
    """Arguments that name what a call is about, or else fields of its result; the audit tells the first one's."""
    max_seconds: Callable[[str, Arguments], float] = _unlimited
    """The seconds past which the contract has a call be warned of."""
    suggestions: Mapping[str, Suggest] = field(default_factory=dict[str, Suggest])
    """What a person may mean, by what is named: a `note`, a `project`, a `module`."""
    views: "Mapping[str, View]" = field(default_factory=dict[str, "View"])
    """By tool, the page that a host may show a result with."""

    def scope_of(self, tool: Tool) -> str:
        return self.scopes.write if tool.writes else self.scopes.read


def tool_names(package: str) -> list[str]:
    """The names of the tools that a package defines, without reading them."""
    return sorted(path.name.removesuffix(".json") for path in _tools_folder(package).iterdir())


def load_tools(
    package: str, handlers: Mapping[str, Handler], rules: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Tool, ...]:
    """The tools defined by the `tools/*.json` of a package, in the order of `handlers`.

    `rules` holds, by argument name, the schema keywords that a contract demands in its text but leaves out of the
    schema that it publishes.
    """
    folder = _tools_folder(package)
    tools: list[Tool] = []
    for name, handler in handlers.items():
        definition = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        tools.append(Tool(definition, handler, Validator(_with_rules(definition["inputSchema"], rules or {}))))
    return tuple(tools)


def _tools_folder(package: str) -> Path:
    """Find the folder without importing the package or `importlib.resources`, which would be a tenth of a start."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    return Path(spec.submodule_search_locations[0], "tools")


def _with_rules(schema: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    properties = {name: {**value, **rules.get(name, {})} for name, value in schema["properties"].items()}
    return {**schema, "properties": properties}
