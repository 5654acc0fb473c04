"""What a token opens, and what stays as if it were not there, on a desk with everything on it."""

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from carrel.auth.access import SCOPES
from tests.databases import prepare_desk, prepare_postgres, url_of
from tests.program import run_carrel_here
from tests.vaults import write
from tests.wire import ERAS, LEGACY, MODERN, PLAIN, HttpServer, HttpWire, call, value

BUNDLE = Path(__file__).parents[1] / "examples" / "content" / "bundle.json"
BREAD, GARDEN = (project["id"] for project in json.loads(BUNDLE.read_text())["projects"])
IN_BREAD = next(each["id"] for each in json.loads(BUNDLE.read_text())["entities"] if each["project"] == "slow-bread")
NOWHERE = "11111111-1111-4111-8111-111111111111"

CATALOG = ["list_projects", "search_entities", "get_entity", "get_entity_graph"]
BRIDGE = [*CATALOG, "list_search_performance", "list_quotable_blocks"]
NOTES_READ = [
    "search",
    "get_node",
    "get_neighbors",
    "find_path",
    "get_hubs",
    "search_by_tags",
    "random_node",
]
NOTES_WRITE = ["create_node", "update_node", "delete_node"]
TASKS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
CODE = ["context_search", "read_file", "grep_codebase"]
JOURNAL_READ, JOURNAL_WRITE = ["list_discoveries"], ["record_discovery", "forget_discovery"]
OPENS = {
    "content:read": BRIDGE,
    "notes:read": NOTES_READ,
    "notes:write": NOTES_WRITE,
    "tasks": TASKS,
    "code:read": [*CODE, *JOURNAL_READ],
    "code:write": JOURNAL_WRITE,
}
ALL = [*BRIDGE, *NOTES_READ, *NOTES_WRITE, *TASKS, *CODE, JOURNAL_WRITE[0], *JOURNAL_READ, JOURNAL_WRITE[1]]


class Desk:
    """A server over everything, and tokens to it."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self._env = {"CARREL_DATABASE_URL": database_url}
        write(folder / "notes", {"alpha.md": "[[beta]]", "beta.md": "The end."})
        imported = run_carrel_here("import", "content", BUNDLE, cwd=folder, **self._env)
        assert imported.returncode == 0, imported.stderr
        self.server = HttpServer(
            "--toolsets",
            "catalog,bridge,notes,tasks,code,journal",
            cwd=folder,
            CARREL_AUTH_TOKENS="true",
            CARREL_AUTH_PROJECT_LIMITS="limited=slow-bread",
            CARREL_AUDIT_TO="database",
            **self._env,
        )
        self._tokens: dict[tuple[str, ...], str] = {}

    def token(self, *scopes: str, user: str = "ana", projects: str = "") -> str:
        key = (user, projects, *scopes)
        if key not in self._tokens:
            words = ["token", "create", "--user", user, "--scopes", ",".join(scopes), "--json"]
            made = run_carrel_here(
                *words, *(["--projects", projects] if projects else []), cwd=self.folder, **self._env
            )
            self._tokens[key] = json.loads(made.stdout)["token"]
        return self._tokens[key]

    def wire(self, *scopes: str, era: str = MODERN, path: str = "/mcp", **who: str) -> HttpWire:
        wire = HttpWire(era, self.server.url, path)
        wire.http.headers["authorization"] = f"Bearer {self.token(*scopes, **who)}"
        return wire

    def get(self, path: str, *scopes: str, headers: dict[str, str] | None = None, **who: str) -> httpx.Response:
        given = {"authorization": f"Bearer {self.token(*scopes, **who)}", **(headers or {})}
        return httpx.get(self.server.url + path, headers=given, trust_env=False, verify=PLAIN, timeout=30)

    def audit(self) -> list[dict[str, Any]]:
        shown = run_carrel_here("audit", "show", "--limit", "5000", "--json", cwd=self.folder, **self._env)
        return json.loads(shown.stdout)["lines"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("scopes")
    url = "sqlite:///.carrel/carrel.db"
    if request.param == "sqlite":
        prepare_desk(folder)
    else:
        name = f"doors_{request.getfixturevalue('worker_id')}"
        url = url_of(prepare_postgres(request.getfixturevalue("postgres_server_url"), name))
    running = Desk(folder, url)
    yield running
    assert running.server.stop() == 143


def names(wire: HttpWire) -> list[str]:
    return [tool["name"] for tool in wire.request("tools/list")["result"]["tools"]]


@pytest.mark.rule("doors.scopes.tools")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("scopes", [*combinations(OPENS, 1), *combinations(OPENS, 2)], ids=" ".join)
def test_the_tools_that_a_token_opens_are_all_that_there_are(desk: Desk, era: str, scopes: tuple[str, ...]) -> None:
    wire = desk.wire(*scopes, era=era)
    opened = {name for scope in scopes for name in OPENS[scope]}
    assert names(wire) == [name for name in ALL if name in opened]
    for name in ALL:
        if name in opened:
            continue
        response = wire.post("tools/call", {"name": name, "arguments": {}})
        (needed,) = (scope for scope, tools in OPENS.items() if name in tools)
        challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
        refusal = (response.status_code, response.text, response.headers["www-authenticate"])
        assert refusal == (403, "The access token does not open this", challenge)
    wire.close()


@pytest.mark.rule("doors.scopes.tools")
def test_a_call_that_hides_its_tool_is_no_way_round(desk: Desk) -> None:
    """Header and body that differ, a body in pieces, a batch, another method's name."""
    wire = desk.wire("notes:read")
    params = {"name": "create_node", "arguments": {"title": "x", "content": "y"}}
    body = wire.message("tools/call", params)
    honest = wire.headers("tools/call", params) | {"Content-Type": "application/json"}
    legacy = {**honest, "MCP-Protocol-Version": LEGACY}
    for name in ("Mcp-Method", "Mcp-Name"):
        del legacy[name]
    url = f"{desk.server.url}/mcp"

    def pieces() -> Iterator[bytes]:
        whole = json.dumps(body).encode()
        yield whole[:20]
        yield whole[20:]

    tries: list[httpx.Response] = [
        wire.http.post(url, json=body, headers={**honest, "Mcp-Name": "get_node"}),
        wire.http.post(url, json=body, headers={**honest, "Mcp-Method": "tools/list"}),
        wire.http.post(url, content=pieces(), headers=honest),
        wire.http.post(url, content=pieces(), headers=legacy),
        wire.http.post(url, json=[body], headers=legacy),
        wire.http.post(url, json={**body, "method": "tools/list"}, headers=legacy),
        wire.http.post(url, content=json.dumps(body).encode("utf-16"), headers=legacy),
        wire.http.post(url, content=json.dumps(body).replace("create_node", "create\\u005fnode"), headers=legacy),
        wire.http.post(url, content=b"\xef\xbb\xbf" + json.dumps(body).encode(), headers=legacy),
    ]
    for response in tries:
        assert "result" not in response.text or "tools" in response.json()["result"], response.text
        assert response.status_code < 500
    assert not (desk.folder / "notes" / "x.md").exists()
    wire.close()


@pytest.mark.rule("doors.scopes.tools")
@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("/catalog/mcp", "catalog:read"),
        ("/bridge/mcp", "content:read"),
        ("/notes/mcp", "notes:read notes:write"),
        ("/tasks/mcp", "tasks"),
        ("/code/mcp", "code:read"),
        ("/journal/mcp", "code:read code:write"),
    ],
)
def test_an_endpoint_of_which_a_token_opens_nothing_is_closed(desk: Desk, path: str, scope: str) -> None:
    others = [each for each in SCOPES if each not in (*scope.split(), "admin")]
    for method in ("server/discover", "tools/list", "resources/list", "ping"):
        wire = desk.wire(*others, path=path)
        response = wire.post(method)
        wire.close()
        assert response.status_code == 403
        assert response.headers["www-authenticate"] == f'Bearer error="insufficient_scope", scope="{scope}"'
    for each in scope.split():
        wire = desk.wire(each, path=path)
        assert names(wire)
        wire.close()


@pytest.mark.rule("doors.scopes.resources")
def test_notes_are_resources_to_who_may_read_them(desk: Desk) -> None:
    reader, writer = desk.wire("notes:read"), desk.wire("notes:write", "tasks")
    assert len(reader.request("resources/list")["result"]["resources"]) >= 2
    assert "resources" in reader.request("server/discover")["result"]["capabilities"]
    assert "resources" not in writer.request("server/discover")["result"]["capabilities"]
    for method, params in {
        "resources/list": {},
        "resources/read": {"uri": "note://alpha.md"},
        "resources/templates/list": {},
    }.items():
        assert "error" in writer.request(method, params)
    reader.close()
    writer.close()


@pytest.mark.rule("doors.scopes.write_only")
@pytest.mark.parametrize("era", ERAS)
def test_who_may_only_write_notes_is_shown_none(desk: Desk, era: str) -> None:
    secret, note = "the very secret words", f"kept-{era}.md"
    writer, both = desk.wire("notes:write", "code:write", era=era), desk.wire("notes:write", "notes:read", era=era)
    kept = {"title": f"Kept {era}", "content": f"{secret} [[missing]] [[alpha]]", "tags": ["one", "One"]}
    assert value(call(both, "create_node", kept))["content"].startswith(secret)
    answers = [
        call(writer, "update_node", {"id": note, "tags": []}),
        call(writer, "create_node", {"title": f"Mine {era}", "content": "[[kept]] [[missing]] #tag", "tags": ["Tag"]}),
        call(writer, "delete_node", {"id": f"mine-{era}.md"}),
    ]
    assert [value(each) for each in answers] == [
        {"id": note, "title": f"Kept {era}"},
        {"id": f"mine-{era}.md", "title": f"Mine {era}"},
        {"deleted": True},
    ]
    schemas = {each["name"]: each["outputSchema"] for each in writer.request("tools/list")["result"]["tools"]}
    for tool, answer in zip(("update_node", "create_node", "delete_node"), answers, strict=True):
        assert jsonschema_rs.is_valid(schemas[tool], answer["structuredContent"])
    whole = value(call(both, "update_node", {"id": note, "tags": ["now"]}))
    assert (whole["content"].startswith(secret), whole["tags"]) == (True, ["now"])
    writer.close()
    both.close()


@pytest.mark.rule("doors.scopes.tools")
def test_the_instructions_tell_of_what_is_there_only(desk: Desk) -> None:
    wire = desk.wire("tasks")
    found = wire.request("server/discover")["result"]["instructions"]
    assert "- tasks:" in found
    assert "notes" not in found
    assert wire.request("tools/list")["result"]["cacheScope"] == "private"
    wire.close()


@pytest.mark.rule("doors.scopes.metrics")
def test_a_slash_more_leads_round_no_scope(desk: Desk) -> None:
    for path, scope, status in (
        ("/metrics/", "tasks", 403),
        ("/metrics//", "tasks", 403),
        ("/metrics/", "admin", 200),
        ("/healthz/", "tasks", 404),
        ("/tasks/mcp/", "notes:read", 404),
    ):
        response = desk.get(path, scope)
        assert (response.status_code, "location" in response.headers) == (status, False), path


@pytest.mark.rule("doors.scopes.admin")
def test_admin_opens_everything(desk: Desk) -> None:
    wire = desk.wire("admin")
    assert names(wire) == ALL
    assert value(call(wire, "get_node", {"id": "alpha.md"}))["id"] == "alpha.md"
    wire.close()
    assert desk.get("/metrics", "admin").status_code == 200
    assert desk.get("/api/projects", "admin").status_code == 200


@pytest.mark.rule("doors.scopes.api")
def test_the_backend_takes_content_read_and_the_metrics_take_admin(desk: Desk) -> None:
    others = [scope for scope in SCOPES if scope not in ("content:read", "admin")]
    for path in ("/api/projects", "/api/entities", "/api/openapi.json", "/api/nowhere"):
        refused = desk.get(path, *others)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
        assert refused.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="content:read"'
    assert desk.get("/api/projects", "content:read").status_code == 200
    assert desk.get("/metrics", *(scope for scope in SCOPES if scope != "admin")).status_code == 403


LIMITED = [{"projects": "slow-bread"}, {"projects": BREAD}, {"user": "limited"}]


@pytest.mark.rule("doors.projects.limited")
@pytest.mark.parametrize("who", LIMITED, ids=["slug", "id", "settings"])
@pytest.mark.parametrize("path", ["/catalog/mcp", "/bridge/mcp"])
def test_other_projects_are_as_if_they_did_not_exist(desk: Desk, who: dict[str, str], path: str) -> None:
    wire = desk.wire("catalog:read", "content:read", path=path, **who)
    found = value(call(wire, "list_projects", {}))
    assert [each["slug"] for each in found.get("projects") or found["data"]] == ["slow-bread"]
    if path == "/bridge/mcp":
        assert found["pagination"]["total"] == 1
    tools = BRIDGE if path == "/bridge/mcp" else CATALOG
    for tool in tools[1:]:
        arguments: dict[str, Any] = {"entityId": IN_BREAD} if "get_entity" in tool else {}
        if tool == "search_entities" and path == "/catalog/mcp":
            arguments["query"] = "a"
        there, elsewhere, nowhere = (
            call(wire, tool, {"projectId": project, **arguments}) for project in (BREAD, GARDEN, NOWHERE)
        )
        assert not there["isError"], there
        assert elsewhere == nowhere | {"_meta": elsewhere["_meta"]}
        assert elsewhere["isError"]
    wire.close()


@pytest.mark.rule("doors.projects.limited")
@pytest.mark.parametrize("who", LIMITED, ids=["slug", "id", "settings"])
def test_other_projects_are_not_in_the_backend_either(desk: Desk, who: dict[str, Any]) -> None:
    listed = desk.get("/api/projects", "content:read", **who).json()
    assert [each["slug"] for each in listed["data"]] == ["slow-bread"]
    for name, values in {
        "x-project-id": (BREAD, GARDEN, NOWHERE),
        "x-project-slug": ("slow-bread", "night-garden", "nowhere"),
        "cookie": (f"projectId={BREAD}", f"projectId={GARDEN}", f"projectId={NOWHERE}"),
    }.items():
        there, elsewhere, nowhere = (
            desk.get("/api/entities", "content:read", headers={name: text}, **who) for text in values
        )
        assert there.status_code == 200
        assert (elsewhere.status_code, elsewhere.content) == (404, nowhere.content)


@pytest.mark.rule("doors.projects.limited")
def test_a_request_can_be_limited_further_but_not_less(desk: Desk) -> None:
    headers = {"x-carrel-projects": "slow-bread,night-garden"}
    for only, expected in (("", ["night-garden", "slow-bread"]), ("slow-bread", ["slow-bread"])):
        response = desk.get("/api/projects", "content:read", headers=headers, projects=only)
        assert [each["slug"] for each in response.json()["data"]] == expected
    assert desk.get("/api/projects", "content:read", headers={"x-carrel-projects": ","}).json()["data"] == []


@pytest.mark.rule("doors.audit.writes")
@pytest.mark.rule("doors.audit.refusals")
@pytest.mark.rule("doors.audit.database")
def test_writes_and_refusals_are_in_the_audit_without_content(desk: Desk) -> None:
    wire = desk.wire("tasks", "notes:write", "code:read", user="auditor")
    secret = "the very secret words"  # noqa: S105 - what must not be found
    task = value(call(wire, "add_task", {"user_id": "auditor", "title": secret}))["task_id"]
    call(wire, "complete_task", {"user_id": "auditor", "task_id": task})
    call(wire, "list_tasks", {"user_id": "auditor"})
    call(wire, "list_tasks", {"user_id": "somebody else"})
    call(wire, "create_node", {"title": "Audited", "content": secret})
    call(wire, "delete_node", {"id": "audited.md"})
    call(wire, "read_file", {"path": "../../etc/passwd"})
    call(wire, "read_file", {"path": ".env"})
    wire.post("tools/call", {"name": "get_node", "arguments": {"id": secret}})
    wire.close()
    httpx.get(f"{desk.server.url}/mcp", headers={"authorization": f"Bearer {secret}"}, trust_env=False, verify=PLAIN)
    lines = desk.audit()
    assert secret not in json.dumps(lines)
    ours = [(each["action"], each["target"], each["outcome"]) for each in lines if each["subject"] == "auditor"][::-1]
    assert ours == [
        ("add_task", str(task), "ok"),
        ("complete_task", str(task), "ok"),
        ("list_tasks", "", "denied"),
        ("create_node", "audited.md", "ok"),
        ("delete_node", "audited.md", "ok"),
        ("read_file", "../../etc/passwd", "denied"),
        ("read_file", ".env", "denied"),
        ("get_node", "", "denied: scope"),
    ]
    newest = lines[0]
    shown = (newest["subject"], newest["client"], newest["action"], newest["outcome"])
    assert shown == ("", "127.0.0.1", "/mcp", "denied: bad token")
