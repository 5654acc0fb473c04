"""Carrel through the official clients, each of which has refused a server over something that the others let pass."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.databases import prepare_desk
from tests.wire import ERAS, LEGACY, MODERN, HttpServer

from .nodejs import run_client, run_inspector

TOOLS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
SERVE = [sys.executable, "-m", "carrel", "serve", "--toolsets", "tasks"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    server = HttpServer("--toolsets", "tasks", cwd=prepare_desk(tmp_path_factory.mktemp("clients")))
    yield server
    assert server.stop() == 143
    assert not any('"level": "error"' in line for line in server.log)


def calls(user: str) -> list[dict[str, Any]]:
    """A result of each shape: object, array, error with an output schema, empty array, unknown tool."""
    return [
        {"name": "add_task", "arguments": {"user_id": user, "title": "Buy milk"}},
        {"name": "list_tasks", "arguments": {"user_id": user, "status": "pending"}},
        {"name": "complete_task", "arguments": {"user_id": user, "task_id": 10**9}},
        {"name": "list_tasks", "arguments": {"user_id": user, "status": "completed"}},
        {"name": "no_such_tool", "arguments": {}},
    ]


def check(era: str, report: dict[str, Any], *, code: int | None = -32602) -> None:
    """What every client must have understood; `code` is None for a client that does not tell."""
    assert report["server"]["name"] == "carrel"
    assert report["protocolVersion"] == era
    tools = {tool["name"]: tool for tool in report["tools"]}
    assert list(tools) == TOOLS
    assert ("outputSchema" in tools["list_tasks"]) is (era == MODERN)
    assert all("outputSchema" in tools[name] for name in TOOLS if name != "list_tasks")
    added, pending, missing, completed, unknown = report["results"]
    number = added["structuredContent"]["task_id"]
    assert added["structuredContent"] == {"task_id": number, "status": "created", "title": "Buy milk"}
    assert json.loads(added["content"][0]["text"]) == added["structuredContent"]
    tasks = [{"id": number, "title": "Buy milk", "description": None, "completed": False}]
    assert json.loads(pending["content"][0]["text"]) == tasks
    assert pending.get("structuredContent") == (tasks if era == MODERN else None)
    assert missing["isError"] is True
    assert json.loads(missing["content"][0]["text"]) == {"error": "Task not found", "task_id": 10**9}
    assert "structuredContent" not in missing
    assert json.loads(completed["content"][0]["text"]) == []
    if code is not None:
        assert unknown["error"]["code"] == code


async def python_report(target: Any, era: str, user: str) -> dict[str, Any]:
    async with Client(target, mode="legacy" if era == LEGACY else "auto") as client:
        listed = await client.list_tools()
        results: list[Any] = []
        for call in calls(user):
            try:
                result = await client.call_tool(call["name"], call["arguments"])
                results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
            except MCPError as error:
                results.append({"error": {"code": error.error.code, "message": error.error.message}})
        dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
        version = client.session.protocol_version
        assert client.server_info is not None
        server = {"name": client.server_info.name}
        return {"server": server, "protocolVersion": version, "tools": dumped, "results": results}


@pytest.mark.parametrize("era", ERAS)
def test_the_python_client_over_http(server: HttpServer, era: str, user: str) -> None:
    check(era, asyncio.run(python_report(f"{server.url}/mcp", era, user)))


@pytest.mark.parametrize("era", ERAS)
def test_the_python_client_over_stdio(tmp_path: Path, era: str, user: str) -> None:
    target = StdioServerParameters(command=SERVE[0], args=SERVE[1:], cwd=prepare_desk(tmp_path))
    check(era, asyncio.run(python_report(target, era, user)))


TYPESCRIPT = [("client_v2.mjs", MODERN), ("client_v2.mjs", LEGACY), ("client_v1.mjs", LEGACY)]


@pytest.mark.parametrize(("script", "era"), TYPESCRIPT)
def test_the_typescript_clients_over_http(server: HttpServer, script: str, era: str, user: str) -> None:
    job = {
        "transport": "http",
        "url": f"{server.url}/tasks/mcp",
        "era": "modern" if era == MODERN else "legacy",
    }
    check(era, run_client(script, {**job, "calls": calls(user)}))


@pytest.mark.parametrize(("script", "era"), TYPESCRIPT)
def test_the_typescript_clients_over_stdio(tmp_path: Path, script: str, era: str, user: str) -> None:
    job = {
        "transport": "stdio",
        "command": SERVE,
        "cwd": str(prepare_desk(tmp_path)),
        "era": "modern" if era == MODERN else "legacy",
    }
    check(era, run_client(script, {**job, "calls": calls(user)}))


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector(server: HttpServer, tmp_path: Path, era: str, transport: str, user: str) -> None:
    desk = prepare_desk(tmp_path)

    def inspect(*method: str) -> tuple[int, Any]:
        options = ["--protocol-era", "modern" if era == MODERN else "legacy"]
        if transport == "http":
            words = [f"{server.url}/mcp", "--transport", "http", *options, *method]
        else:
            words = [*options, *method, "--", *SERVE, "--workspace", str(desk)]
        done = run_inspector(words, tmp_path)
        return done.returncode, json.loads(done.stdout)["result"] if done.stdout else done.stderr

    def called(call: dict[str, Any]) -> tuple[int, Any]:
        arguments = json.dumps(call["arguments"])
        return inspect("--method", "tools/call", "--tool-name", call["name"], "--tool-args-json", arguments)

    status, opened = inspect("--method", "initialize")
    assert status == 0
    status, listed = inspect("--method", "tools/list")
    assert status == 0
    outcomes = [called(call) for call in calls(user)]
    assert [status for status, _ in outcomes] == [0, 0, 5, 0, 5]
    results = [result for _, result in outcomes]
    server_info = opened.get("serverInfo") or {"name": "carrel"}
    report = {
        "server": server_info,
        "protocolVersion": opened["protocolVersion"],
        **listed,
        "results": results,
    }
    check(era, report, code=None)
