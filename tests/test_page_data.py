"""What the page is told: of the desk and its calls, of notes, and of content on both engines."""

import json
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from carrel.auth.tokens import TokenAuthenticator, TokenChecker, TokenRepository
from carrel.calls.call_store import MAX_CALLS, CallReaders, CallRecord, CallStore
from carrel.content import entity_graph
from carrel.content.projects import ProjectRepository
from carrel.mcp.gateway import Gateway
from carrel.notes.neo4j.vault_import import notes_of, push
from carrel.notes.note_store import BROKEN, ORPHAN, Overview
from carrel.notes.vault import Vault
from carrel.page.desk_overview import call_statistics
from carrel.workspace import Desk
from tests.bolt import bolt_url, empty
from tests.content_desks import Desks, open_desks
from tests.content_seed import (
    APPLE,
    APPLE_2,
    BETA,
    FOREIGN,
    GAMMA,
    NOWHERE,
    ROOT,
    SMALL_GRAPH,
    SOURCE,
    STRANGER,
    at,
    block,
    entity,
    gamma_entities,
    performance,
    project,
    relation,
    uid,
)
from tests.databases import prepare_desk
from tests.vaults import opened, write
from tests.wire import MODERN, PLAIN, HttpServer, HttpWire, call

pytestmark = pytest.mark.anyio
__all__ = ["bolt_url"]

DAY = 86_400
ENTITIES = {row["id"]: row for row in gamma_entities()}
KINDS = ["guide", "concept", "project", "news"]


def in_days(days: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + days * DAY))


def bundle() -> dict[str, list[dict[str, Any]]]:
    kinds = {number: row["entityType"] for number, row in ENTITIES.items()} | {SOURCE: "sourceItem"}
    ends = [(number, *row) for number, row in SMALL_GRAPH.items() if row[0] in kinds and row[2] in kinds]
    dates = [(at(1), at(7)), (at(1), at(7)), (at(8), at(14)), (at(8), at(9))]
    counts = [(100, 10, 2.0), (300, 20, 4.0), (0, 0, 1.0), (50, 5, 1.5)]
    return {
        "projects": [project(GAMMA, "gamma", "gamma"), project(BETA, "beta", "Beta")],
        "entities": [*ENTITIES.values(), entity(FOREIGN, BETA, "guide", "Foreign", "foreign")],
        "sources": [{"id": SOURCE, "projectId": GAMMA, "url": "https://source.example/", "title": "Source"}],
        "relations": [
            relation(uid(0xD1, number), GAMMA, (start, kind, end), created, kinds)
            for number, start, kind, end, created in ends
        ],
        "searchPerformance": [
            performance(
                n,
                GAMMA,
                f"query {n}",
                "https://x.example/",
                dates[n],
                impressions=counts[n][0],
                clicks=counts[n][1],
                avgPosition=counts[n][2],
                ctr=counts[n][1] / counts[n][0] if counts[n][0] else 0.0,
                **({"entityId": ROOT} if n == 1 else {}),
            )
            for n in range(4)
        ],
        "quotableBlocks": [
            block(1, GAMMA, ROOT, verifiedUntil=in_days(5.5), topicTag="soon"),
            block(2, GAMMA, APPLE, verifiedUntil=in_days(-2.5)),
            block(3, GAMMA, ROOT, verifiedUntil=in_days(90)),
            block(4, GAMMA, ROOT),
            block(5, BETA, FOREIGN, verifiedUntil=in_days(1)),
        ],
    }


@pytest.fixture(scope="module")
async def desks(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, worker_id: str
) -> AsyncIterator[Desks]:
    folder, name = tmp_path_factory.mktemp("page-data"), f"page_data_{worker_id}"
    async with open_desks(bundle(), folder=folder, postgres_server_url=postgres_server_url, name=name) as opened_desks:
        yield opened_desks


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, desks: Desks) -> Desk:
    return desks[request.param]


async def unserved(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("the page is what is asked")


@asynccontextmanager
async def asking(
    desk: Desk, calls: CallStore | None = None, authenticator: TokenAuthenticator | None = None
) -> AsyncGenerator[httpx.AsyncClient]:
    gateway = Gateway(unserved, requires_auth=authenticator is not None, authenticator=authenticator)
    gateway.page = replace(desk, calls=calls or CallStore()).page(gateway)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(gateway), base_url="http://localhost/page/data"
    ) as client:
        yield client


async def told(client: httpx.AsyncClient, what: str, **query: Any) -> Any:
    found = await client.get(f"/{what}", params=query)
    assert found.status_code == 200, found.text
    assert found.headers["cache-control"] == "no-store"
    return found.json()


@pytest.mark.rule("page.data.content")
async def test_a_projects_graph_has_its_entities_and_each_pair_that_is_related_once(desk: Desk) -> None:
    async with asking(desk) as client:
        found = await told(client, "graph", source="content", project=GAMMA)
        tag = (await client.get("/graph", params={"source": "content", "project": GAMMA})).headers["etag"]
        again = await client.get(
            "/graph", params={"source": "content", "project": GAMMA}, headers={"If-None-Match": tag}
        )
        assert (again.status_code, again.content) == (304, b"")
    assert list(found) == ["nodes", "links", "kinds", "project", "total", "truncated"]
    assert found["kinds"] == KINDS
    assert found["project"] == {"id": GAMMA, "slug": "gamma", "name": "gamma"}
    assert (found["total"], found["truncated"]) == (len(ENTITIES), False)
    ids = [node[0] for node in found["nodes"]]
    pairs = list(zip(found["links"][::2], found["links"][1::2], strict=True))
    expected = {(row[0], row[2]) for row in SMALL_GRAPH.values() if {row[0], row[2]} <= ENTITIES.keys()}
    assert sorted((ids[start], ids[end]) for start, end in pairs) == sorted(expected)
    related = {each for pair in expected for each in pair}
    assert sorted(found["nodes"]) == sorted(
        [number, row["title"], KINDS.index(row["entityType"]), 0 if number in related else ORPHAN]
        for number, row in ENTITIES.items()
    )
    assert STRANGER not in related


@pytest.mark.rule("page.data.content")
async def test_of_too_many_entities_the_best_linked_are_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.database is not None

    async def some(most: int) -> entity_graph.LinkedEntities:
        async def work(session: Any) -> entity_graph.LinkedEntities:
            found = await ProjectRepository(session).with_id(GAMMA)
            assert found is not None
            return await entity_graph.linked_entities(session, found, most)

        assert desk.database is not None
        return await desk.database.snapshot(work, seconds=30)

    few = await some(3)
    assert (len(few.nodes), few.total, few.is_truncated) == (3, len(ENTITIES), True)
    assert few.nodes[0].id == APPLE
    assert {each.id for each in few.nodes} >= {APPLE, APPLE_2}
    most = await some(len(ENTITIES) - 1)
    assert [each.is_linked for each in most.nodes] == [True] * (len(ENTITIES) - 1)
    monkeypatch.setattr(entity_graph, "MAX_RELATIONS", 2)
    newest = await some(5)
    assert (len(newest.nodes), len(newest.links) // 2, newest.is_truncated) == (5, 2, True)
    assert [each.is_linked for each in newest.nodes] == [True] * 3 + [False] * 2


@pytest.mark.rule("page.data.performance")
async def test_performance_is_added_up_by_pair_of_dates(desk: Desk) -> None:
    async with asking(desk) as client:
        found = await told(client, "performance", project=GAMMA)
        assert found == {
            "points": [
                {
                    "from": "2025-01-01",
                    "to": "2025-01-07",
                    "clicks": 30,
                    "impressions": 400,
                    "ctr": 0.075,
                    "position": 3.5,
                },
                {"from": "2025-01-08", "to": "2025-01-09", "clicks": 5, "impressions": 50, "ctr": 0.1, "position": 1.5},
                {"from": "2025-01-08", "to": "2025-01-14", "clicks": 0, "impressions": 0, "ctr": 0.0, "position": 0.0},
            ],
            "truncated": False,
        }
        (point,) = (await told(client, "performance", project=GAMMA, entity=ROOT))["points"]
        assert (point["clicks"], point["impressions"], point["position"]) == (20, 300, 4.0)
        for entity_id in (FOREIGN, NOWHERE):
            assert (await told(client, "performance", project=GAMMA, entity=entity_id))["points"] == []
        assert (await told(client, "performance", project=BETA))["points"] == []


@pytest.mark.rule("page.data.performance")
async def test_only_as_many_periods_are_added_up_as_are_quickly_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(desk) as client:
        monkeypatch.setattr("carrel.content.performance.MAX_SUMMED_ROWS", 2)
        newest = await told(client, "performance", project=GAMMA)
        assert ([each["from"] for each in newest["points"]], newest["truncated"]) == (["2025-01-08"] * 2, True)
        monkeypatch.undo()
        monkeypatch.setattr("carrel.content.performance.MAX_PERIODS", 1)
        newest = await told(client, "performance", project=GAMMA)
        assert ([each["to"] for each in newest["points"]], newest["truncated"]) == (["2025-01-14"], True)


@pytest.mark.rule("page.data.blocks")
async def test_blocks_that_expire_or_have_come_soonest_first(desk: Desk) -> None:
    async with asking(desk) as client:
        found = await told(client, "blocks", project=GAMMA)
        assert [(each["days"], each["topic"], each["entity"]) for each in found["blocks"]] == [
            (-3, None, {"id": APPLE, "title": ENTITIES[APPLE]["title"]}),
            (5, "soon", {"id": ROOT, "title": "Root"}),
        ]
        assert found["total"] == 2
        assert list(found["blocks"][0]) == ["id", "text", "claimType", "topic", "verifiedUntil", "days", "entity"]
        assert [each["days"] for each in (await told(client, "blocks", project=GAMMA, days=0))["blocks"]] == [-3]
        assert (await told(client, "blocks", project=GAMMA, days=365))["total"] == 3
        other = await told(client, "blocks", project=BETA, days=2)
        assert [each["entity"]["id"] for each in other["blocks"]] == [FOREIGN]


@pytest.mark.rule("page.data.words")
async def test_what_is_wrong_is_told_in_the_words_of_the_api(desk: Desk) -> None:
    wrong = {
        "graph?source=code": "source must be one of notes, content",
        "graph?source=content&project=gamma": "project must be a UUID",
        "performance?entity=1": "entity must be a UUID",
        "blocks?days=soon": "days must be an integer",
        "blocks?days=-1": "days must be at least 0",
        "blocks?days=1&days=2": "days is given more than once",
        "desk?project=1": "project is not a parameter of this route",
    }
    async with asking(desk) as client:
        for path, message in wrong.items():
            found = await client.get(f"/{path}")
            assert (found.status_code, found.json()) == (400, {"error": {"code": "BAD_REQUEST", "message": message}})
        for path in ("graph?source=content&", "performance?", "blocks?"):
            for project_id in (f"project={NOWHERE}", ""):
                found = await client.get(f"/{path}{project_id}")
                assert (found.status_code, found.json()["error"]["message"]) == (404, "Project not found")
        found = await client.get("/graph")
        assert (found.status_code, found.json()["error"]["message"]) == (404, "Notes are not served here")


@pytest.mark.rule("page.data.scopes", "page.data.own")
async def test_a_caller_is_told_what_its_token_opens(desk: Desk) -> None:
    assert desk.database is not None

    async def token(subject: str, *scopes: str, only: tuple[str, ...] | None = None) -> dict[str, str]:
        assert desk.database is not None
        text, _ = await desk.database.write(
            lambda session: TokenRepository(session).create(subject, scopes, days=1, projects=only)
        )
        return {"Authorization": f"Bearer {text}"}

    calls = CallStore()
    long = "a" * 200
    for subject in ("ana", "bo", f"{long}b", f"{long}c", ""):
        calls.record(CallRecord("bridge", "list_projects", "ok", 0.001, 10, time.time(), subject=subject))
    async with asking(desk, calls, TokenAuthenticator(tokens=TokenChecker(desk.database))) as client:
        client.headers = httpx.Headers(await token("ana", "content:read", only=("beta",)))
        found = await told(client, "desk")
        assert (found["user"], found["scopes"], found["sees"]) == ("ana", ["content:read"], "own")
        assert [each["name"] for each in found["toolsets"]] == ["bridge"]
        assert [each["user"] for each in found["recent"]] == ["ana"]
        assert (found["tools"][0]["calls"], sum(found["minutes"])) == (1, 1)
        assert (await told(client, "graph", source="content", project=BETA))["total"] == 1
        hidden = await client.get("/graph", params={"source": "content", "project": GAMMA})
        absent = await client.get("/graph", params={"source": "content", "project": NOWHERE})
        assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
        assert hidden.status_code == 404
        client.headers = httpx.Headers(await token(f"{long}b", "catalog:read"))
        assert len((await told(client, "desk"))["recent"]) == 1
        assert (await told(client, "graph", source="content", project=GAMMA))["total"] == len(ENTITIES)
        client.headers = httpx.Headers(await token("cy", "tasks"))
        assert (await told(client, "desk"))["toolsets"] == []
        for path in ("graph?source=content", "performance", "blocks", "graph?source=notes"):
            refused = await client.get(f"/{path}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
            assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        client.headers = httpx.Headers(await token("root", "admin"))
        found = await told(client, "desk")
        assert (found["sees"], len(found["recent"]), found["scopes"]) == ("all", 5, ["admin"])


@pytest.mark.rule("page.data.desk", "page.data.errors")
async def test_the_desk_is_told_with_exact_figures_of_its_calls(desk: Desk) -> None:
    calls = CallStore()
    for number in range(1, 101):
        calls.record(CallRecord("bridge", "get_entity", "ok", number / 1000, number, time.time()))
    for outcome in ("refused", "limited", "failed", "cancelled"):
        calls.record(CallRecord("bridge", "list_projects", outcome, 0.5, 7, time.time()))
    async with asking(desk, calls) as client:
        found = await told(client, "desk")
    assert list(found) == [
        *("version", "now", "startedAt", "user", "scopes", "readOnly", "health", "toolsets"),
        *("window", "tools", "minutes", "recent", "sees"),
    ]
    assert (found["user"], found["scopes"], found["readOnly"], found["sees"]) == (None, None, False, "all")
    assert found["health"][0] == {
        "name": "database",
        "state": "ok",
        "detail": desk.settings.database.url.partition(":")[0],
    }
    assert [(each["name"], each["endpoint"]) for each in found["toolsets"]] == [
        ("catalog", "/catalog/mcp"),
        ("bridge", "/bridge/mcp"),
    ]
    fields = ("toolset", "tool", "calls", "perMinute", "errors", "p50", "p95", "p99")
    assert found["tools"] == [
        dict(zip(fields, ("bridge", "get_entity", 100, 100.0, 0, 50.0, 95.0, 99.0), strict=True)),
        dict(zip(fields, ("bridge", "list_projects", 4, 4.0, 3, 500.0, 500.0, 500.0), strict=True)),
    ]
    assert (found["window"], len(found["minutes"]), sum(found["minutes"])) == (60, 30, 104)
    assert len(found["recent"]) == 50
    assert list(found["recent"][0]) == ["at", "toolset", "tool", "outcome", "ms", "bytes", "user"]
    assert [each["outcome"] for each in found["recent"][:4]] == ["cancelled", "failed", "limited", "refused"]


@pytest.mark.rule("page.data.ring")
def test_the_last_calls_are_kept_and_the_figures_say_of_how_long(tmp_path: Path) -> None:
    for calls in (CallStore(), CallStore(tmp_path)):
        readers = CallReaders(calls)
        record = CallRecord("tasks", "add_task", "ok", 0.001, 1, now := time.time(), subject="ana")
        for _ in range(3):
            for _ in range(MAX_CALLS):
                calls.record(record)
            call_statistics(readers, None)
        later = call_statistics(readers, None, now + 200)
        assert (later.window, later.tools[0]["calls"]) == (200, MAX_CALLS)
        assert sum(call_statistics(readers, None).minutes) == 3 * MAX_CALLS, "minutes are counted, whatever is kept"
        struct.pack_into("<d", calls.memory, 0, now - 1000)
        calls.record(record._replace(tool="x" * 60, subject="é" * 100, at=time.time()))
        last = call_statistics(readers, None).recent[0]
        assert (last["tool"], last["user"]) == ("x" * 48, "é" * 44)
        assert call_statistics(readers, "é" * 100).tools[0]["calls"] == 1


@pytest.mark.rule("page.data.workers")
def test_whichever_worker_is_asked_tells_of_all(tmp_path: Path) -> None:
    server = HttpServer("--toolsets", "tasks", "--workers", "2", cwd=prepare_desk(tmp_path))
    try:
        for _ in range(20):
            wire = HttpWire(MODERN, server.url, "/tasks/mcp")
            call(wire, "list_tasks", {"user_id": "ana"})
            wire.close()
        for _ in range(6):
            found = httpx.get(f"{server.url}/page/data/desk", trust_env=False, verify=PLAIN).json()
            assert (found["tools"][0]["calls"], sum(found["minutes"]), len(found["recent"])) == (20, 20, 20)
    finally:
        assert server.stop() == 143


NOTES = {
    "a.md": "[[b]] [[b]] [[c]] [[gone]]",
    "b.md": "---\ntitle: Bee\n---\n[[a]]",
    "c.md": "nothing",
    "d.md": "[[nowhere]]",
    "e.md": "alone",
}


def shown(found: Overview) -> tuple[dict[str, tuple[str, int]], list[tuple[str, str]]]:
    ids = [note.id for note in found.notes]
    pairs = zip(found.links[::2], found.links[1::2], strict=True)
    return {note.id: (note.title, note.flags) for note in found.notes}, sorted((ids[a], ids[b]) for a, b in pairs)


@pytest.mark.rule("page.data.notes")
@pytest.mark.parametrize("kind", ["files", "arcadedb"])
async def test_the_graph_of_notes_has_each_link_once_and_marks_broken_ones_and_orphans(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, worker_id: str
) -> None:
    vault = write(tmp_path / "notes", NOTES)
    async with opened(tmp_path) as files:
        if kind == "files":
            every, few = await files.overview(100), await files.overview(2)
        else:
            store = empty(kind, request, worker_id).store()
            await push(store, notes_of(Vault(vault)))
            every, few = await store.overview(100), await store.overview(2)
            await store.close()
    notes, links = shown(every)
    assert notes == {
        "a.md": ("a", BROKEN),
        "b.md": ("Bee", 0),
        "c.md": ("c", 0),
        "d.md": ("d", BROKEN | ORPHAN),
        "e.md": ("e", ORPHAN),
    }
    assert links == [("a.md", "b.md"), ("a.md", "c.md"), ("b.md", "a.md")]
    assert (every.total, few.total) == (5, 5)
    assert shown(few) == ({"a.md": ("a", BROKEN), "b.md": ("Bee", 0)}, [("a.md", "b.md"), ("b.md", "a.md")])


@pytest.mark.rule("page.data.notes")
def test_the_page_gets_the_graph_of_notes_over_http(tmp_path: Path) -> None:
    write(prepare_desk(tmp_path) / "notes", NOTES)
    server = HttpServer("--toolsets", "notes", cwd=tmp_path, CARREL_EMBEDDINGS_PROVIDER="none")
    try:
        found = httpx.get(f"{server.url}/page/data/graph", trust_env=False, verify=PLAIN)
        assert found.headers["content-type"] == "application/json"
        value = json.loads(found.text)
        assert list(value) == ["nodes", "links", "kinds", "project", "total", "truncated"]
        assert sorted(value["nodes"])[:2] == [["a.md", "a", 0, BROKEN], ["b.md", "Bee", 0, 0]]
        assert (value["kinds"], value["project"], value["total"], value["truncated"]) == (["note"], None, 5, False)
    finally:
        assert server.stop() == 143
