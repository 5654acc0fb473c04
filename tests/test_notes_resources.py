"""Notes as resources, wherever they are kept; over the wire they are in test_resources.py."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from carrel import concurrency
from carrel.mcp.resources import Completions, ResourceEntry
from carrel.notes.neo4j import Neo4jStore
from carrel.notes.neo4j.vault_import import notes_of, push
from carrel.notes.note_store import NoteStore
from carrel.notes.vault import Vault
from carrel.toolsets.notes.note_resources import NoteResources
from tests.bolt import ENGINES, Bolt, bolt, bolt_url, empty
from tests.vaults import opened, write
from tests.wire import ERAS, LEGACY, MODERN, StdioWire

pytestmark = pytest.mark.anyio
__all__ = ["bolt", "bolt_url"]

Files = Mapping[str, str]
WAIT_TIMEOUT_SECONDS = 20.0
INTERNAL = -32603


class Kept(NamedTuple):
    store: NoteStore
    resources: NoteResources


Keep = Callable[[Files], Awaitable[Kept]]


@pytest.fixture(params=("files", *ENGINES))
async def keep(request: pytest.FixtureRequest, tmp_path: Path, worker_id: str) -> AsyncIterator[Keep]:
    """Keeps notes in each store."""
    async with AsyncExitStack() as stack:

        async def kept(files: Files) -> Kept:
            vault = write(tmp_path / "notes", files)
            if request.param == "files":
                store: NoteStore = await stack.enter_async_context(opened(tmp_path))
            else:
                graph = Neo4jStore(empty(request.param, request, worker_id).connection(), refresh_seconds=0)
                stack.push_async_callback(graph.close)
                await push(graph, notes_of(Vault(vault)))
                await graph.ready()
                store = graph
            return Kept(store, NoteResources(concurrency.already_open(store)))

        yield kept


GARDEN = {
    "a.md": "---\ntitle: Alpha\ntags: [x] # kept\n---\nSee [[b]].\r\n",
    "Ideen/grüne Wiese.md": "Gras.\n",
    "Ideen/Wiesen/blau.md": "",
    "alt/ideen/wiese.md": "x",
    "A/wiese.md": "x",
    "\U0001f600.md": "smile",
    "\uff21.md": "wide",
    "50% off?#1.md": "---\n---\n---\nx",
}


@pytest.mark.rule("notes_resources.same.list")
async def test_notes_are_listed_by_id_from_where_the_last_page_ended(keep: Keep) -> None:
    _, resources = await keep(GARDEN)
    for size in (1, 3):
        found, after = list[ResourceEntry](), ""
        while page := await resources.list_after(after, size):
            assert len(page) == size or len(found) + len(page) == len(GARDEN)
            found += page
            after = page[-1].uri
        assert [each.name for each in found] == sorted(GARDEN)
    found = await resources.list_after("", 100)
    assert found[sorted(GARDEN).index("a.md")] == ("note://a.md", "a.md", "Alpha")
    assert found[0].uri == "note://50%25%20off%3F%231.md"
    assert await resources.list_after("note://b", 1) == [found[sorted(GARDEN).index("\uff21.md")]]


@pytest.mark.rule("notes_resources.same.read")
async def test_a_resource_is_the_content_of_its_note(keep: Keep) -> None:
    _, resources = await keep(GARDEN)
    assert await resources.read("note://a.md") == "See [[b]].\r\n"
    assert await resources.read("note://A") == "See [[b]].\r\n"
    assert await resources.read("note://50%25%20off%3F%231.md") == "---\nx"
    for each in await resources.list_after("", 100):
        assert await resources.read(each.uri) is not None
    for nothing in ("note://nowhere.md", "note://", "a.md", "file:///a.md", "note://\ud800", "note://a\0.md"):
        assert await resources.read(nothing) is None


@pytest.mark.rule("notes_resources.same.completion")
async def test_ids_are_completed_by_their_beginning_then_within(keep: Keep) -> None:
    _, resources = await keep(GARDEN)
    assert await resources.completions("IDEEN/", 9) == (
        ["Ideen/Wiesen/blau.md", "Ideen/grüne Wiese.md", "alt/ideen/wiese.md"],
        3,
    )
    assert await resources.completions("wiese", 9) == (["A/wiese.md", "Ideen/Wiesen/blau.md", "alt/ideen/wiese.md"], 3)
    assert await resources.completions("wiese", 2) == (["A/wiese.md", "Ideen/Wiesen/blau.md"], 3)
    assert await resources.completions("A", 2) == (["A/wiese.md", "a.md"], 3)
    assert await resources.completions("a", 9) == (["A/wiese.md", "a.md", "alt/ideen/wiese.md"], 3)
    assert await resources.completions("", 100) == (sorted(GARDEN), len(GARDEN))
    assert await resources.completions("50%", 9) == (["50% off?#1.md"], 1)
    for nothing in ("nowhere", "%", "_", "\ud800"):
        assert await resources.completions(nothing, 9) == Completions([], 0)


@pytest.mark.rule("notes_resources.same.changes")
async def test_whoever_listens_is_told_of_each_change_once(keep: Keep) -> None:
    store, resources = await keep({"a.md": "[[b]]", "b.md": "x", "c d.md": "[[B]]"})
    told: list[tuple[set[str], bool]] = []
    resources.listen(lambda uris, has_others: told.append((set(uris), has_others)))
    await store.create("New", "[[a]]", [], "sub")
    await store.update("a", title=None, content=None, tags=["t"])
    await store.update("b", title="Other", content=None, tags=None)
    await store.delete("sub/new")
    assert not await store.delete("nowhere")
    assert told == [
        ({"note://sub/new.md"}, True),
        ({"note://a.md"}, False),
        ({"note://a.md", "note://b.md", "note://c%20d.md", "note://other.md"}, True),
        ({"note://sub/new.md"}, True),
    ]


# --- others' changes in the database


class Told:
    """What a listener hears, while somebody watches."""

    def __init__(self, resources: NoteResources) -> None:
        self._heard: asyncio.Queue[tuple[set[str], bool]] = asyncio.Queue()
        resources.listen(lambda uris, has_others: self._heard.put_nowait((set(uris), has_others)))

    async def next(self) -> tuple[set[str], bool]:
        return await asyncio.wait_for(self._heard.get(), WAIT_TIMEOUT_SECONDS)

    @property
    def is_silent(self) -> bool:
        return self._heard.empty()


@pytest.fixture
async def quick(bolt: Bolt) -> AsyncIterator[Neo4jStore]:
    """One that looks often, and knows what there is."""
    other = bolt.store()
    await push(other, [("a.md", b"[[b]]"), ("b.md", b"x")])
    await other.close()
    store = Neo4jStore(bolt.connection(), refresh_seconds=0.01)
    await store.ready()
    yield store
    await store.close()


@pytest.mark.rule("notes_resources.others.carrel")
async def test_what_another_carrel_changes_is_told_while_somebody_watches(bolt: Bolt, quick: Neo4jStore) -> None:
    resources, other = NoteResources(concurrency.already_open(quick)), bolt.store()
    told, stop = Told(resources), resources.watch()
    try:
        await other.create("New", "x", [], "")
        assert await told.next() == ({"note://new.md"}, True)
        await other.update("a", title=None, content="[[b]] now", tags=None)
        assert await told.next() == ({"note://a.md"}, False)
        await other.update("b", title="Moved", content=None, tags=None)
        assert await told.next() == ({"note://a.md", "note://b.md", "note://moved.md"}, True)
        await other.delete("new")
        assert await told.next() == ({"note://new.md"}, True)
    finally:
        stop()
        await other.close()


@pytest.mark.rule("notes_resources.others.hand")
async def test_notes_that_others_add_or_delete_are_told_too(bolt: Bolt, quick: Neo4jStore) -> None:
    resources = NoteResources(concurrency.already_open(quick))
    told, stop = Told(resources), resources.watch()
    bolt.run("CREATE (:Node {id: 'by hand', content: 'x'})")
    assert await told.next() == ({"note://by%20hand"}, True)
    bolt.run("MATCH (n:Node {id: 'by hand'}) DETACH DELETE n")
    assert await told.next() == (set(), True)
    stop()


class Statements:
    """Those that the driver sends, off its own log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "neo4j.io")
        self._caplog = caplog

    def count(self) -> int:
        found = sum(" C: RUN " in record.getMessage() for record in self._caplog.records)
        self._caplog.clear()
        return found


@pytest.mark.rule("notes_resources.others.cost")
async def test_nobody_looks_for_changes_unless_somebody_watches(
    quick: Neo4jStore, caplog: pytest.LogCaptureFixture
) -> None:
    resources = NoteResources(concurrency.already_open(quick))
    told = Told(resources)
    statements = Statements(caplog)
    await asyncio.sleep(0.1)
    assert statements.count() == 0
    first, second = resources.watch(), resources.watch()
    first()
    first()
    await until(lambda: statements.count() > 0)
    second()
    await until(lambda: quick.is_idle)
    statements.count()
    await asyncio.sleep(0.1)
    assert statements.count() == 0
    again = resources.watch()
    await until(lambda: statements.count() > 0)
    again()
    assert told.is_silent, "there was nothing to tell"


@pytest.mark.rule("notes_resources.others.cost")
async def test_a_look_a_page_and_a_completion_take_a_few_statements(
    quick: Neo4jStore, caplog: pytest.LogCaptureFixture
) -> None:
    await push(quick, [(f"n{number:03}.md", b"x") for number in range(150)])
    lone = NoteResources(concurrency.already_open(Neo4jStore(quick.connection, refresh_seconds=3600)))
    await lone.list_after("", 1)
    Told(NoteResources(concurrency.already_open(quick)))
    statements = Statements(caplog)
    assert len(await lone.list_after("note://n010.md", 100)) == 100
    assert statements.count() == 1
    assert (await lone.completions("n", 100)).total == 150
    assert statements.count() == 2
    assert (await lone.completions("n00", 100)).total == 10
    assert statements.count() == 2
    for expected in (3, 1):  # what was pushed, and then nothing new
        await asyncio.sleep(0.02)
        await quick.ready()
        assert statements.count() == expected


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_TIMEOUT_SECONDS):
        while not is_so():  # noqa: ASYNC110 - what is waited for is in a log, or another task's end
            await asyncio.sleep(0.01)


# --- over the wire


@pytest.fixture
def in_graph(bolt: Bolt, tmp_path: Path) -> dict[str, str]:
    """What a server is to be told to serve notes from the database."""
    (tmp_path / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n', encoding="utf-8")
    return {
        "CARREL_NOTES_STORE": "neo4j",
        "CARREL_NOTES_NEO4J_URL": bolt.url,
        "CARREL_NOTES_NEO4J_USER": bolt.user,
        "CARREL_NOTES_NEO4J_PASSWORD_ENV": "BOLT_PASSWORD",
        "CARREL_NOTES_NEO4J_DATABASE": bolt.database,
        "BOLT_PASSWORD": bolt.password,
    }


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.rule("notes_resources.wire.served")
def test_notes_in_a_database_are_served_as_resources(
    bolt: Bolt, tmp_path: Path, in_graph: dict[str, str], era: str
) -> None:
    wire = StdioWire(era, "--toolsets", "notes", cwd=tmp_path, **in_graph)
    made = {"title": "Watch me", "content": "before\n", "tags": ["t"]}
    wire.request("tools/call", {"name": "create_node", "arguments": made})
    listed = wire.request("resources/list")["result"]["resources"]
    assert [(each["uri"], each["title"]) for each in listed] == [("note://watch-me.md", "Watch me")]
    read = wire.request("resources/read", {"uri": "note://watch-me.md"})["result"]["contents"]
    assert [(each["mimeType"], each["text"]) for each in read] == [("text/markdown", "before\n")]
    (template,) = wire.request("resources/templates/list")["result"]["resourceTemplates"]
    ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
    asked = {"ref": ref, "argument": {"name": "id", "value": "wat"}}
    assert wire.request("completion/complete", asked)["result"]["completion"]["values"] == ["watch-me.md"]
    if era == LEGACY:
        wire.request("resources/subscribe", {"uri": "note://watch-me.md"})
    else:
        wanted = {"resourceSubscriptions": ["note://watch-me.md"]}
        wire.begin("subscriptions/listen", {"notifications": wanted})
        assert wire.receive()["method"] == "notifications/subscriptions/acknowledged"
    wire.begin("tools/call", {"name": "update_node", "arguments": {"id": "watch-me", "content": "after"}})
    messages = [wire.receive(), wire.receive()]
    told = [each["params"]["uri"] for each in messages if each.get("method") == "notifications/resources/updated"]
    assert told == ["note://watch-me.md"]
    bolt.run("CREATE (:Node {id: 'by hand'})")  # who listens to one note is not told
    asyncio.run(_update_elsewhere(bolt))
    assert wire.receive()["params"]["uri"] == "note://watch-me.md"
    assert wire.close() == 0


async def _update_elsewhere(bolt: Bolt) -> None:
    other = bolt.store()
    await other.update("watch-me", title=None, content="by another", tags=None)
    await other.close()


@pytest.mark.rule("notes_resources.wire.unreachable")
def test_a_database_that_cannot_be_reached_is_an_error_that_says_so(tmp_path: Path, in_graph: dict[str, str]) -> None:
    away = in_graph | {"CARREL_NOTES_NEO4J_URL": "bolt://127.0.0.1:1"}
    wire = StdioWire(MODERN, "--toolsets", "notes", cwd=tmp_path, **away)
    error = wire.request("resources/read", {"uri": "note://a.md"})["error"]
    assert error["code"] == INTERNAL
    assert "cannot be reached" in error["message"]
    assert in_graph["BOLT_PASSWORD"] not in str(error)
    assert wire.request("tools/list")["result"]["tools"]
    assert wire.close() == 0
