"""schemathesis on the backend API of a server that asks for tokens; without them, see tests/test_api_schema.py."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.content_seed import GAMMA, ROOT
from tests.content_servers import write_bundle
from tests.databases import prepare_desk
from tests.fuzz_targets import complaints, tokens
from tests.program import run_carrel_here
from tests.test_api_schema import ROUTES
from tests.wire import HttpServer

pytestmark = pytest.mark.no_cover  # coverage makes it several times slower, and it adds none


@pytest.mark.slow
@pytest.mark.rule("faults.fuzz.api")
def test_requests_made_from_the_description_are_answered_as_it_says_where_tokens_are_asked_for(tmp_path: Path) -> None:
    prepare_desk(tmp_path)
    url = f"sqlite:///{tmp_path}/.carrel/carrel.db"
    assert run_carrel_here("import", "content", write_bundle(tmp_path), cwd=tmp_path).returncode == 0
    admin = tokens(tmp_path, url)[0].decode()
    server = HttpServer("--toolsets", "bridge", cwd=tmp_path, CARREL_AUTH_TOKENS="true")
    try:
        assert httpx.get(f"{server.url}/api/projects", trust_env=False).status_code == 401
        done = subprocess.run(
            [sys.executable, "-m", "tests.api_requests", GAMMA, ROOT, admin, server.url],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        assert done.stdout.splitlines() == [f"GET {route}" for route in ROUTES]
    finally:
        server.stop()
    assert complaints(server.log) == []
