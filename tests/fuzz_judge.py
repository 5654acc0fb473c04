"""What an answer must be like, whatever was asked."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jsonschema_rs

from tests.fuzzer import Input, Place

INTERNAL_ERROR = -32603
STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 413, 414, 415, 417, 431}
OURS = (
    "Failed to",
    "failed; the server's log",
    "was given up",
    "timed out",
    "no answer within",
    "Search failed",
)
CODES = {
    "catalog": {"PROJECT_NOT_FOUND", "ENTITY_NOT_FOUND", "VALIDATION_ERROR"},
    "bridge": {"BAD_REQUEST", "NOT_FOUND"},
    "notes": {"INVALID_PARAMS", "NODE_NOT_FOUND", "NODE_EXISTS"},
}


class Wrong(AssertionError):
    """An answer that no input may get."""


class Judge:
    """Knows the tools of every place, and how the errors of each are worded."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._results = {
            place.path: {
                tool["name"]: jsonschema_rs.validator_for(tool["outputSchema"])
                for tool in place.tools
                if "outputSchema" in tool
            }
            for place in places
        }
        self._owners = {
            (place.path, tool["name"]): owner
            for place in places
            for tool in place.tools
            for owner in [_owner(place, tool["name"], places)]
        }

    def http(self, status: int, headers: dict[bytes, bytes], body: bytes, sent: Input) -> str:
        if status not in STATUSES:
            raise Wrong(f"status {status}: {body[:500]!r}")
        kind = headers.get(b"content-type", b"").partition(b";")[0]
        if sent.path.startswith("/api"):
            return self._backend(status, kind, body)
        if kind == b"text/event-stream":
            data = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
            return "stream" if not data else [self.message(_json(each), sent) for each in data][-1]
        if status in (200, 400, 404) and kind == b"application/json":
            return self.message(_json(body), sent)
        if status == 200:
            raise Wrong(f"200 of {kind!r}")
        return f"http {status}"

    def _backend(self, status: int, kind: bytes, body: bytes) -> str:
        if status not in (401, 403, 405, 413, 431) and not isinstance(_json(body), dict):
            raise Wrong(f"no object: {status} {kind!r} {body[:300]!r}")
        return f"api {status}"

    def message(self, message: Any, sent: Input) -> str:
        """A JSON-RPC response or notification."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise Wrong(f"no message: {message!r:.500}")
        if "method" in message:
            return "notification"
        if not isinstance(message.get("id"), int | str | None) or ("result" in message) is ("error" in message):
            raise Wrong(f"no response: {message!r:.500}")
        if "error" in message:
            return self._protocol_error(message["error"])
        result = message["result"]
        if not isinstance(result, dict):
            raise Wrong(f"no result: {message!r:.500}")
        return self._tool_result(result, sent) if "content" in result else "result"

    def _protocol_error(self, error: Any) -> str:
        if not isinstance(error, dict) or not isinstance(error.get("message"), str) or type(error["code"]) is not int:
            raise Wrong(f"no error: {error!r:.500}")
        if error["code"] == INTERNAL_ERROR:
            raise Wrong(f"internal error: {error!r:.500}")
        return f"error {error['code']}"

    def _tool_result(self, result: dict[str, Any], sent: Input) -> str:
        (block,) = result["content"]
        value = json.loads(block["text"])
        tool = _called(sent)
        if not result.get("isError"):
            validator = self._results[sent.path].get(tool)
            if validator and not validator.is_valid(value):
                raise Wrong(f"a result that {tool} does not publish: {value!r:.500}")
            return "tool ok"
        if not isinstance(value, dict) or "error" not in value or "structuredContent" in result:
            raise Wrong(f"no tool's error: {result!r:.500}")
        self._dialect(value, self._owners.get((sent.path, tool), ""))
        return "tool refused"

    def _dialect(self, value: dict[str, Any], owner: str) -> None:
        error = value["error"]
        text = error if isinstance(error, str) else error.get("message", "")
        if any(word in text for word in OURS):
            raise Wrong(f"our failure: {value!r:.500}")
        if owner in CODES:
            fields = {"code", "message", "details"} if owner == "catalog" else {"code", "message"}
            if list(value) != ["error"] or not isinstance(error, dict) or set(error) != fields:
                raise Wrong(f"not in the words of {owner}: {value!r:.500}")
            if error["code"] not in CODES[owner]:
                raise Wrong(f"a code that {owner} has for faults of ours: {value!r:.500}")
        elif owner and (not isinstance(error, str) or not error):
            raise Wrong(f"not in the words of {owner}: {value!r:.500}")


def _owner(place: Place, tool: str, places: Sequence[Place]) -> str:
    """The toolset of a tool at a place; at the common one, bridge's where catalog has one of that name too."""
    if place.path != "/mcp":
        return place.path.split("/")[1]
    found = [
        each.path.split("/")[1] for each in places if each is not place for own in each.tools if own["name"] == tool
    ]
    return "bridge" if "bridge" in found else next(iter(found), "")


def _called(sent: Input) -> str:
    """The tool that an input calls; empty where nobody can tell for sure."""
    with suppress(ValueError, TypeError, KeyError):
        name = json.loads(sent.body)["params"]["name"]
        return name if isinstance(name, str) else ""
    return ""


def _json(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_refuse)
    except ValueError as error:
        raise Wrong(f"no JSON ({error}): {data[:300]!r}") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
