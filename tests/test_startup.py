"""What a start costs: no command pays for what it does not use."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from carrel.content.bundle.importer import import_content
from carrel.workspace import find_workspace
from tests.generated import ROOT
from tests.programs import required
from tests.wire import LEGACY, StdioWire, environment

NEEDED_LATER = {
    # Where an answer needs one of these, it is loaded then; no first answer does.
    "alembic",
    "anyio",
    "carrel.code.context_search",
    "carrel.notes.file_store",
    "carrel.search.engine",
    "click",
    "fastapi",
    "mcp",
    "mcp_types",
    "numpy",
    "onnxruntime",
    "psycopg",
    "pydantic",
    "sqlalchemy",
    "starlette",
    "tantivy",
    "uvicorn",
    "watchfiles",
    "yaml",
}


def loaded_modules(program: str, cwd: Path) -> set[str]:
    words = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_help_loads_no_server_and_no_database(tmp_path: Path) -> None:
    modules = loaded_modules("import carrel.cli.app", tmp_path)
    assert modules & {"mcp", "pydantic", "starlette", "sqlalchemy", "alembic", "psycopg", "jsonschema_rs"} == set()


def test_what_a_desk_keeps_stays_out_of_the_projects_git(tmp_path: Path) -> None:
    git = required("git")
    subprocess.run([git, "init", "--quiet", tmp_path], check=True)
    assert StdioWire(LEGACY, cwd=tmp_path).close() == 0
    assert (tmp_path / ".carrel" / "carrel.db").exists()
    status = subprocess.run([git, "status", "--porcelain"], cwd=tmp_path, capture_output=True, check=True)
    assert status.stdout == b""


def test_importing_carrel_loads_nothing(tmp_path: Path) -> None:
    assert loaded_modules("import carrel", tmp_path) & {"mcp", "asyncio", "sqlalchemy"} == set()


def test_a_server_that_nobody_looks_at_loads_nothing_to_show_itself_with(tmp_path: Path) -> None:
    program = "import carrel.server.http_server, carrel.page.page_app, carrel.page.desk_overview"
    assert loaded_modules(program, tmp_path) & {"fastapi", "carrel.page.page_data"} == set()


def test_serving_a_database_that_is_up_to_date_loads_no_migrations(tmp_path: Path) -> None:
    assert StdioWire(LEGACY, cwd=tmp_path).close() == 0
    program = (
        "import asyncio\n"
        "from carrel.workspace import find_workspace\n"
        "async def main():\n"
        "    async with find_workspace(environment={}).open() as desk:\n"
        "        desk.description(desk.pipeline())\n"
        "asyncio.run(main())"
    )
    assert loaded_modules(program, tmp_path) & {"sqlalchemy", "alembic", "psycopg", "prometheus_client"} == set()


def add_content(folder: Path) -> None:
    import_content(
        find_workspace(folder, environment={}).location, sorted((ROOT / "examples" / "content").glob("*.json"))
    )


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_first_answers_load_nothing_that_only_later_ones_need(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.md").write_text("---\ntags: [a]\n---\n[[two]]\n", encoding="utf-8")
    add_content(tmp_path)
    program = (
        "import sys, carrel.concurrency\n"
        "carrel.concurrency.BACKGROUND_DELAY_SECONDS = 3600\n"  # background opening comes too late
        "from carrel.cli import main\n"
        "sys.argv[1:] = ['serve']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    messages = [
        request(1, "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "x", "version": "1"}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/list"),
        request(3, "tools/call", name="add_task", arguments={"user_id": "ana", "title": "x"}),
        request(4, "tools/call", name="list_tasks", arguments={"user_id": "ana"}),
    ]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(CARREL_SERVER_LOG_LEVEL="error"),
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert {"search", "read_file", "list_tasks", "list_projects"} <= {tool["name"] for tool in answers[2]["tools"]}
    assert not answers[3].get("isError")
    assert NEEDED_LATER & set(done.stderr.split()) == set()


def test_a_first_call_that_comes_before_its_toolset_is_open_is_answered(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.md").write_text("text\n", encoding="utf-8")
    add_content(tmp_path)
    wire = StdioWire(LEGACY, cwd=tmp_path)
    for name, arguments, expected in (
        ("get_node", {"id": "one.md"}, "text"),
        ("read_file", {"path": "notes/one.md"}, "text"),
        ("list_projects", {}, "slow-bread"),
    ):
        answer = wire.request("tools/call", {"name": name, "arguments": arguments})["result"]
        assert not answer.get("isError"), answer
        assert expected in answer["content"][0]["text"]
    assert wire.close() == 0


def test_several_servers_may_start_at_once_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()

    def add(number: int) -> int:
        wire = StdioWire(LEGACY, cwd=tmp_path)
        task = {"user_id": "ana", "title": f"task {number}"}
        answer = wire.request("tools/call", {"name": "add_task", "arguments": task})["result"]
        assert not answer.get("isError"), answer
        return wire.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(add, range(4))) == [0] * 4
    wire = StdioWire(LEGACY, cwd=tmp_path)
    answer = wire.request("tools/call", {"name": "list_tasks", "arguments": {"user_id": "ana"}})["result"]
    assert {each["title"] for each in json.loads(answer["content"][0]["text"])} == {f"task {each}" for each in range(4)}
    assert wire.close() == 0
