"""What a start costs: no command pays for what it does not use."""

import subprocess
import sys
from pathlib import Path

from tests.programs import required
from tests.wire import LEGACY, StdioWire, environment


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
    program = "import carrel.serving.http_server, carrel.page.app, carrel.page.showing"
    assert loaded_modules(program, tmp_path) & {"fastapi", "carrel.page.data"} == set()


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
