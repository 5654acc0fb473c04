"""`carrel token` and `carrel audit`, and what the settings refuse."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from carrel.auth.audit import audit_entry
from carrel.auth.audit_repository import AuditRepository, DatabaseAudit
from carrel.auth.tokens import TokenChecker, TokenRepository
from carrel.storage.database import Database
from tests.databases import prepare_desk
from tests.issuers import AUDIENCE, issuer
from tests.program import Done, run_carrel_here
from tests.wire import MODERN, HttpServer, HttpWire, call, value

BUNDLE = Path(__file__).parents[1] / "examples" / "content" / "bundle.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare_desk(tmp_path)


def token(folder: Path, *words: str, **env: str) -> Done:
    return run_carrel_here("token", *words, cwd=folder, **env)


@pytest.mark.rule("doors.tokens.commands")
def test_a_token_is_made_listed_and_revoked(folder: Path) -> None:
    made = token(folder, "create", "--user", "ana", "--scopes", "tasks, notes:read", "--days", "7", "--label", "laptop")
    text = made.stdout.strip()
    assert made.returncode == 0
    assert text.startswith("carrel_")
    assert "valid until" in made.stderr
    assert "auth.tokens is not set" in made.stderr
    name = text.split("_")[1]
    (listed,) = json.loads(token(folder, "list", "--json").stdout)["tokens"]
    expected = {"id": name, "user": "ana", "scopes": ["tasks", "notes:read"], "projects": None, "label": "laptop"}
    assert listed | expected == listed
    assert listed["state"] == "valid"
    plain = token(folder, "list").stdout
    assert (name in plain, "laptop" in plain, text in plain) == (True, True, False)
    assert token(folder, "revoke", name).stdout == f"revoked {name}\n"
    assert json.loads(token(folder, "list", "--json").stdout)["tokens"][0]["state"] == "revoked"
    again = token(folder, "revoke", name)
    assert (again.returncode, "carrel token list" in again.stderr) == (2, True)


@pytest.mark.rule("doors.tokens.own")
def test_only_a_hash_of_a_token_is_kept(folder: Path) -> None:
    text = token(folder, "create", "--user", "ana", "--scopes", "tasks").stdout.strip()
    secret = text.split("_", 2)[2]
    assert secret.encode() not in b"".join(path.read_bytes() for path in (folder / ".carrel").glob("carrel.db*"))


@pytest.mark.rule("doors.tokens.commands")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "ana", "--scopes", "notes:reed"], "unknown scope 'notes:reed'; the scopes are catalog:read"),
        (["--user", "ana", "--scopes", " , "], "--scopes: give at least one"),
        (["--user", "", "--scopes", "tasks"], "--user must have"),
        (["--user", "a\nb", "--scopes", "tasks"], "--user must have"),
        (["--user", "ana", "--scopes", "tasks", "--projects", ","], "--projects: give at least one"),
        (["--user", "ana", "--scopes", "tasks", "--days", "0"], "--days"),
        (["--user", "ana"], "--scopes"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(folder: Path, words: list[str], said: str) -> None:
    done = token(folder, "create", *words)
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True)


@pytest.mark.rule("doors.tokens.own")
@pytest.mark.anyio
async def test_a_token_of_our_own_ends_with_its_time(database: Database) -> None:
    text, kept = await database.write(
        lambda session: TokenRepository(session).create("ana", ("tasks",), days=1, projects=("a", "b"))
    )
    checker = TokenChecker(database)
    found = await checker.check(text)
    assert found is not None
    assert (found.subject, found.scopes, found.projects) == ("ana", {"tasks"}, {"a", "b"})
    for broken in (
        "",
        "carrel_",
        text[:-1],
        text + "x",
        text.replace(kept.id, kept.id[::-1]),
        f"carrel_{kept.id}",
    ):
        assert await checker.check(broken) is None
    past = int(time.time() * 1000) - 1
    await database.write(lambda session: session.all("UPDATE access_token SET expires_at = :past", {"past": past}))
    assert await checker.check(text) is None


@pytest.mark.rule("doors.audit.database")
@pytest.mark.anyio
async def test_lines_are_kept_shown_newest_first_and_pruned(database: Database) -> None:
    audit = DatabaseAudit(database)
    kept = [
        audit.record(
            audit_entry(subject=f"user {number % 2}", client="", action="add_task", target=str(number), outcome="ok")
        )
        for number in range(10)
    ]
    odd = audit.record(audit_entry(subject="", client="", action="/a\0b\ud800\n", target="x" * 600, outcome="denied"))
    for each in (*kept, odd):
        assert each is not None
        await each
    await audit.close()
    newest = await database.read(lambda session: AuditRepository(session).newest(3))
    assert [each.target for each in newest] == ["x" * 500, "9", "8"]
    assert newest[0].action == "/a\ufffdb\ufffd\ufffd"
    ours = await database.read(lambda session: AuditRepository(session).newest(3, subject="user 0"))
    assert [each.target for each in ours] == ["8", "6", "4"]
    assert await database.write(lambda session: AuditRepository(session).prune(newest[0].at + 1)) == 11


@pytest.mark.rule("doors.audit.writes")
def test_lines_go_to_the_log_unless_told_otherwise(folder: Path) -> None:
    for to, expected in (("log", 1), ("none", 0)):
        server = HttpServer(cwd=folder, CARREL_AUDIT_TO=to)
        wire = HttpWire(MODERN, server.url)
        call(wire, "add_task", {"user_id": "ana", "title": "a secret plan"})
        call(wire, "list_tasks", {"user_id": "ana"})
        wire.close()
        assert server.stop() == 143
        lines = [json.loads(each) for each in server.log if '"carrel.audit"' in each]
        assert len(lines) == expected
        for each in lines:
            assert (each["action"], each["target"], each["outcome"], each["client"]) == (
                "add_task",
                "1",
                "ok",
                "127.0.0.1",
            )
        assert "secret plan" not in "".join(server.log)


@pytest.mark.rule("doors.audit.database")
def test_the_audit_is_shown_and_pruned_by_a_command(folder: Path) -> None:
    server = HttpServer(cwd=folder, CARREL_AUDIT_TO="database")
    wire = HttpWire(MODERN, server.url)
    call(wire, "add_task", {"user_id": "ana", "title": "read"})
    wire.close()
    assert server.stop() == 143
    shown = run_carrel_here("audit", "show", "--days", "1", cwd=folder).stdout
    assert shown.split()[1:] == ["-", "127.0.0.1", "add_task", "1", "ok"]
    assert run_carrel_here("audit", "prune", "--days", "1", cwd=folder).stdout == "deleted 0 lines\n"


@pytest.mark.rule("doors.listening.network")
def test_beyond_loopback_there_is_no_listening_without_auth(folder: Path) -> None:
    refused = run_carrel_here("serve", "--http", "--host", "0.0.0.0", "--port", "0", cwd=folder)  # noqa: S104 - refused
    assert (refused.returncode, "auth.tokens" in refused.stderr) == (2, True)
    server = HttpServer("--host", "0.0.0.0", cwd=folder, CARREL_AUTH_TOKENS="true")  # noqa: S104 - with a token only
    port = server.url.rpartition(":")[2]
    assert httpx.get(f"http://127.0.0.1:{port}/mcp", trust_env=False).status_code == 401
    assert server.stop() == 143


@pytest.mark.rule("doors.tokens.audience")
def test_beyond_loopback_an_issuers_tokens_need_an_audience(folder: Path) -> None:
    with issuer() as origin:
        env = {"CARREL_AUTH_ISSUER": origin.name, "CARREL_AUTH_JWKS_URL": origin.jwks_url}
        words = ("--host", "0.0.0.0")  # noqa: S104 - refused, or with a token only
        refused = run_carrel_here("serve", "--http", "--port", "0", *words, cwd=folder, **env)
        assert refused.returncode == 2
        assert "Set server.public_url" in refused.stderr
        assert "auth.audience" in refused.stderr
        seen = json.loads(run_carrel_here("doctor", "--json", cwd=folder, CARREL_SERVER_HOST=words[1], **env).stdout)
        assert "refuses to start" in json.dumps(seen)
        for name in ("CARREL_AUTH_AUDIENCE", "CARREL_SERVER_PUBLIC_URL"):
            server = HttpServer(*words, cwd=folder, **env, **{name: "https://desk.example"})
            assert server.stop() == 143


@pytest.mark.rule("doors.projects.claim")
def test_a_token_without_the_claim_that_projects_are_limited_by_sees_none(folder: Path) -> None:
    assert run_carrel_here("import", "content", BUNDLE, cwd=folder).returncode == 0
    with issuer() as origin:
        env = {"AUTH_ISSUER": origin.name, "AUTH_JWKS_URL": origin.jwks_url, "AUTH_AUDIENCE": AUDIENCE}
        for claim, tokens in {
            "": [({}, 2), ({"carrel_projects": "slow-bread"}, 1), ({"carrel_projects": []}, 0)],
            "may_see": [({}, 0), ({"may_see": None}, 0), ({"may_see": ["slow-bread"]}, 1), ({"may_see": 7}, 0)],
        }.items():
            settings = {f"CARREL_{key}": text for key, text in {**env, "AUTH_PROJECTS_CLAIM": claim}.items()}
            server = HttpServer(cwd=folder, **settings)
            for claims, count in tokens:
                headers = {"Authorization": f"Bearer {origin.token(scope='content:read catalog:read', **claims)}"}
                listed = httpx.get(f"{server.url}/api/projects", headers=headers, trust_env=False).json()
                assert len(listed["data"]) == listed["pagination"]["total"] == count, (claim, claims)
            assert server.stop() == 143


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"ISSUER": "https://id.example"}, "auth.issuer needs one of auth.jwks_url and auth.public_key_file"),
        ({"ISSUER": "https://id.example", "JWKS_URL": "http://id.example/keys"}, "auth.jwks_url must be https"),
        ({"ISSUER": "https://id.example", "PUBLIC_KEY_FILE": "nowhere.pem"}, "auth.public_key_file: cannot read"),
        (
            {"ISSUER": "https://id.example", "JWKS_URL": "https://id.example/keys", "ALGORITHMS": "HS256"},
            "auth.algorithms: HS256 cannot be used",
        ),
        ({"TOKENS": "true", "PROJECT_LIMITS": "ana"}, "auth.project_limits: 'ana' is not SUBJECT=PROJECT"),
    ],
)
def test_settings_that_nobody_could_come_in_by_are_refused(folder: Path, env: dict[str, str], said: str) -> None:
    variables = {f"CARREL_AUTH_{key}": text for key, text in env.items()}
    done = run_carrel_here("serve", "--http", "--port", "0", cwd=folder, **variables)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.rule("doors.scopes.required")
def test_scopes_that_every_token_must_have_are_asked_for(folder: Path) -> None:
    with issuer() as origin:
        settings = {"ISSUER": origin.name, "JWKS_URL": origin.jwks_url, "AUDIENCE": AUDIENCE, "REQUIRED_SCOPES": "desk"}
        server = HttpServer(cwd=folder, **{f"CARREL_AUTH_{key}": text for key, text in settings.items()})
        outcomes: dict[str, int] = {}
        for scopes in ("tasks", "desk", "desk tasks", "admin", "desk admin"):
            wire = HttpWire(MODERN, server.url)
            wire.http.headers["authorization"] = f"Bearer {origin.token(scope=scopes)}"
            outcomes[scopes] = wire.post("tools/list").status_code
            wire.close()
        assert server.stop() == 143
    assert outcomes == {"tasks": 403, "desk": 403, "desk tasks": 200, "admin": 403, "desk admin": 200}


@pytest.mark.rule("doors.projects.limited")
def test_a_claim_of_the_token_limits_projects_too(folder: Path) -> None:
    bundle = Path(__file__).parents[1] / "examples" / "content" / "bundle.json"
    run_carrel_here("import", "content", bundle, cwd=folder)
    with issuer() as origin:
        settings = {"ISSUER": origin.name, "JWKS_URL": origin.jwks_url, "AUDIENCE": AUDIENCE}
        server = HttpServer(cwd=folder, **{f"CARREL_AUTH_{key}": text for key, text in settings.items()})
        found: list[Any] = []
        for claim in (None, "slow-bread", ["night-garden"], [], {"night-garden": 1}):
            wire = HttpWire(MODERN, server.url, "/catalog/mcp")
            text = origin.token(scope="catalog:read", carrel_projects=claim)
            wire.http.headers["authorization"] = f"Bearer {text}"
            found.append([each["slug"] for each in value(call(wire, "list_projects", {}))["projects"]])
            wire.close()
        assert server.stop() == 143
    assert found == [["slow-bread", "night-garden"], ["slow-bread"], ["night-garden"], [], []]


@pytest.mark.rule("doors.projects.remote")
def test_a_bridge_shows_its_own_token_and_limits_it_to_its_callers_projects(folder: Path, tmp_path: Path) -> None:
    bundle = Path(__file__).parents[1] / "examples" / "content" / "bundle.json"
    run_carrel_here("import", "content", bundle, cwd=folder)
    backend = HttpServer(cwd=folder, CARREL_AUTH_TOKENS="true")
    bridges = token(folder, "create", "--user", "bridge", "--scopes", "content:read").stdout.strip()
    near = prepare_desk(tmp_path / "near")
    settings = {
        "CARREL_AUTH_TOKENS": "true",
        "CARREL_CONTENT_BACKEND_URL": backend.url,
        "CARREL_CONTENT_BACKEND_TOKEN_ENV": "BACKEND",
    }
    server = HttpServer("--toolsets", "bridge,tasks", cwd=near, BACKEND=bridges, **settings)
    found: list[Any] = []
    for more in ([], ["--projects", "slow-bread"]):
        ours = token(near, "create", "--user", "ana", "--scopes", "content:read", *more).stdout.strip()
        wire = HttpWire(MODERN, server.url, "/bridge/mcp")
        wire.http.headers["authorization"] = f"Bearer {ours}"
        found.append([each["slug"] for each in value(call(wire, "list_projects", {}))["data"]])
        wire.close()
    assert found == [["night-garden", "slow-bread"], ["slow-bread"]]
    assert server.stop() == 143
    assert backend.stop() == 143
