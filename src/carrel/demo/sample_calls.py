"""Tool calls that the demo shows, made over HTTP by a minimal MCP client."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from textwrap import shorten
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from carrel.demo.sample_workspace import USER
from carrel.errors import CarrelError
from carrel.version import __version__

PROTOCOL_VERSION = "2026-07-28"
REQUEST_TIMEOUT_SECONDS = 60.0


class CallFailed(CarrelError):
    """The demo's own server failed to answer a call."""


class McpClient:
    """A minimal client for the tools of one MCP endpoint."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address)
        self._calls = 0

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its result; raises `CallFailed`."""
        self._calls += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "carrel-demo", "version": __version__},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": PROTOCOL_VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=REQUEST_TIMEOUT_SECONDS
        )
        try:
            connection.request("POST", self._address.path, json.dumps(message), headers)
            response = json.loads(connection.getresponse().read())
            result = response["result"]
            value = json.loads(result["content"][0]["text"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
            raise CallFailed(f"{tool} got no valid response: {error!r}") from error
        finally:
            connection.close()
        if result.get("isError"):
            raise CallFailed(f"{tool} failed: {json.dumps(value)}")
        return value


MAX_LINE_LENGTH = 96
MAX_LINES = 4

NOTES_QUESTION = "what can children do at night"
CODE_QUESTION = "can we heat the oven two times a day"
PROJECT = "slow-bread"
ENTITY = "concept", "hydration"


class SampleCall(NamedTuple):
    """A call and the lines that show its result."""

    title: str
    tool: str
    arguments: Mapping[str, Any]
    lines: list[str]

    @property
    def text(self) -> str:
        return shorten(f"{self.tool} {json.dumps(self.arguments)}", MAX_LINE_LENGTH, placeholder=" ...")


def make_calls(desk: McpClient, wait_for_embeddings: Callable[[], None]) -> Iterator[SampleCall]:
    """Make the calls one by one: first those that need no index, then, after `wait_for_embeddings`, those that do."""
    yield _tasks(desk)
    yield _grep(desk)
    yield _graph(desk)
    _notes(desk)  # the first calls start indexing notes and code
    _context(desk)
    wait_for_embeddings()
    yield _notes(desk)
    yield _context(desk)


def _tasks(desk: McpClient) -> SampleCall:
    arguments = {"user_id": USER, "status": "pending"}
    tasks = desk.call("list_tasks", arguments)
    lines = [f"[ ] {task['title']}" for task in tasks]
    return SampleCall("Open tasks", "list_tasks", arguments, _limit_lines(lines))


def _grep(desk: McpClient) -> SampleCall:
    arguments = {"pattern": r"-\(-\w+ //", "filePattern": "*.py"}
    found = desk.call("grep_codebase", arguments)
    lines = [f"{each['file']}:{each['line']}  {each['text'].strip()}" for each in found["matches"]]
    return SampleCall("Code, by regular expression", "grep_codebase", arguments, _limit_lines(lines))


def _graph(desk: McpClient) -> SampleCall:
    projects = desk.call("list_projects", {})["data"]
    project = _first(each["id"] for each in projects if each["slug"] == PROJECT)
    type_, slug = ENTITY
    entities = desk.call("search_entities", {"projectId": project, "entityType": type_, "search": slug})["data"]
    arguments = {"projectId": project, "entityId": _first(each["id"] for each in entities if each["slug"] == slug)}
    graph = desk.call("get_entity_graph", arguments)["data"]
    lines = [
        f"{each['relationType'].lower().replace('_', ' '):28}  {each['relatedEntity']['title']}"
        for each in graph["relationships"]
    ]
    return SampleCall(
        f"Relations of {graph['rootEntity']['title']!r}", "get_entity_graph", arguments, _limit_lines(lines)
    )


def _notes(desk: McpClient) -> SampleCall:
    arguments = {"query": NOTES_QUESTION, "limit": 3}
    lines = [
        f"{each['score']:.2f}  {each['id']:26}  {_first_line(each['content'])}"
        for each in desk.call("search", arguments)
    ]
    return SampleCall("Notes, by meaning", "search", arguments, _limit_lines(lines))


def _context(desk: McpClient) -> SampleCall:
    arguments = {"query": CODE_QUESTION, "type": "decision", "limit": 2}
    found = desk.call("context_search", arguments)["results"]
    lines = [f"{each['score']:.2f}  {each['module']:8}  {_first_line(each['content'])}" for each in found]
    return SampleCall("Decisions about the code, by meaning", "context_search", arguments, _limit_lines(lines))


def _first_line(text: str) -> str:
    return shorten(text, MAX_LINE_LENGTH, placeholder=" ...")


def _limit_lines(lines: list[str]) -> list[str]:
    shown = [
        f"{line[: MAX_LINE_LENGTH - 4].rstrip()} ..." if len(line) > MAX_LINE_LENGTH else line
        for line in lines[:MAX_LINES]
    ]
    return [*shown, f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else shown


def _first(found: Iterator[str]) -> str:
    first = next(found, None)
    if first is None:  # someone changed a demo that was kept
        raise CallFailed(f"the demo no longer has the {' '.join(ENTITY)} of {PROJECT}; delete its folder")
    return first
