"""Notes in a graph database: what only such a store has to see to. What notes do is in test_notes_stores.py."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import MissingExtra
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller
from carrel.notes.neo4j import Connection, Neo4jStore, connection
from carrel.notes.neo4j.neo4j_store import Neo4jSource
from carrel.notes.neo4j.records import name_properties
from carrel.notes.neo4j.vault_import import Pushed, push
from carrel.notes.note_search import NotesSearch
from carrel.notes.note_store import NotesError, NoteView, Refusal
from carrel.search.engine import SearchEngine
from carrel.search.local.local_store import LocalStore
from carrel.toolsets.notes import notes_toolset
from carrel.toolsets.notes.handlers import note_handlers
from tests.bolt import Bolt, bolt, bolt_url

pytestmark = pytest.mark.anyio
__all__ = ["bolt", "bolt_url"]


@pytest.fixture
async def store(bolt: Bolt) -> AsyncIterator[Neo4jStore]:
    store = bolt.store()
    yield store
    await store.close()


@pytest.fixture
async def alert_store(bolt: Bolt) -> AsyncIterator[Neo4jStore]:
    """One that looks what others do before each answer."""
    store = Neo4jStore(bolt.connection(), refresh_seconds=0)
    yield store
    await store.close()


@pytest.fixture
async def lone_store(bolt: Bolt) -> AsyncIterator[Neo4jStore]:
    """One that need not look what others do."""
    store = Neo4jStore(bolt.connection(), refresh_seconds=3600)
    yield store
    await store.close()


async def filled(store: Neo4jStore, files: dict[str, str]) -> Pushed:
    return await push(store, [(note_id, content.encode()) for note_id, content in files.items()])


async def view(store: Neo4jStore, note_id: str) -> NoteView:
    note = await store.get(note_id)
    assert note is not None
    return note


async def linked(store: Neo4jStore, note_id: str) -> list[str]:
    return [link.id for link in (await view(store, note_id)).links]


# --- round trips


class Wire:
    """The statements that the driver sends, off its own log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "neo4j.io")
        self._caplog = caplog

    def statements(self) -> int:
        found = sum(" C: RUN " in record.getMessage() for record in self._caplog.records)
        self._caplog.clear()
        return found


@pytest.mark.rule("neo4j.trips.titles")
async def test_the_titles_of_any_number_of_links_come_in_one_round_trip(
    lone_store: Neo4jStore, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"n{number}" for number in range(60)]
    links = " ".join(f"[[{name}]]" for name in names)
    await filled(
        lone_store,
        {"hub.md": links, "also.md": links, **{f"{name}.md": f"---\ntitle: T {name}\n---\n" for name in names}},
    )
    wire = Wire(caplog)
    note = await lone_store.get("hub.md")
    assert wire.statements() == 1
    assert note is not None
    assert [link.title for link in note.links] == [f"T {name}" for name in names]
    both = await lone_store.get_many(["hub.md", "also.md"])
    assert wire.statements() == 1
    assert [len(each.links) for each in both] == [60, 60]


@pytest.mark.rule("neo4j.trips.tools")
async def test_no_tool_asks_for_notes_one_by_one(lone_store: Neo4jStore, caplog: pytest.LogCaptureFixture) -> None:
    chain = {f"c{number}.md": f"[[c{number + 1}]] #t" for number in range(6)}
    await filled(lone_store, {"hub.md": " ".join(f"[[c{number}]]" for number in range(6)), **chain})
    wire = Wire(caplog)
    trips: dict[str, int] = {}
    for name, asking in {
        "neighborhood": lone_store.neighborhood("hub.md", "both", 50),
        "hubs": lone_store.hubs("in_degree", 50),
        "tagged": lone_store.find_by_tags(["t"], all_of_them=False, limit=50),
        "random": lone_store.random(["t"]),
        "path": lone_store.path("c0.md", "c5.md"),
    }.items():
        await asking
        trips[name] = wire.statements()
    assert trips == {"neighborhood": 2, "hubs": 1, "tagged": 1, "random": 1, "path": 1 + 5}


# --- what others write


@pytest.mark.rule("neo4j.others.four_properties")
async def test_notes_that_others_wrote_need_but_four_properties(bolt: Bolt, alert_store: Neo4jStore) -> None:
    bolt.run("CREATE (:Node {id: 'x/Known.md', title: 'Known', content: 'before', tags: ['Old']})")
    assert (await view(alert_store, "X/known")).content == "before"
    bolt.run(
        "CREATE (a:Node {id: 'concept-1', title: 'First', content: 'See [[concept-2]] and [[later]]. #inline', "
        "                tags: ['Über', 'b']})"
        "-[:LINKS_TO]->(b:Node {id: 'Concept-2', title: 'Second', content: '', tags: []})"
        "CREATE (a)-[:LINKS_TO]->(:Node {id: 'bare'})"
    )
    first = await view(alert_store, "CONCEPT-1")
    assert (first.id, first.title, first.tags) == ("concept-1", "First", ["Über", "b"])
    assert first.links == [("Concept-2", "Second"), ("bare", "bare")]
    assert first.warnings == ["Broken link: [[later]]"]
    assert [note.id for note in await alert_store.find_by_tags(["ÜBER", "old"], all_of_them=False, limit=9)] == [
        "concept-1",
        "x/Known.md",
    ]
    assert await alert_store.path("First", "bare") is None
    assert await alert_store.path("concept-1", "BARE") == ["concept-1", "bare"]
    around = await alert_store.neighborhood("bare", "in", 5)
    assert around is not None
    assert [each.note.id for each in around.neighbors] == ["concept-1"]
    created = await alert_store.create("Later", "[[First]]", [], "")
    assert isinstance(created, NoteView)
    assert created.links == [("concept-1", "First")]
    assert await linked(alert_store, "concept-1") == ["Concept-2", "later.md", "bare"]


@pytest.mark.rule("neo4j.others.four_properties")
async def test_notes_of_others_can_be_changed_and_keep_what_was_not_asked_for(bolt: Bolt, store: Neo4jStore) -> None:
    bolt.run(
        "CREATE (a:Node {id: 'a', title: 'My A', content: $content, tags: ['t', 'in'], mine: 7})"
        "-[:LINKS_TO]->(:Node {id: 'b', title: 'B', content: '[[a]] [[My A]]', tags: []}), "
        "(a)-[:LINKS_TO]->(:Node {id: 'c'})",
        content="---\nno: frontmatter\n---\n#in [[b]]",
    )
    changed = await store.update("a", title=None, content=None, tags=["u"])
    assert isinstance(changed, NoteView)
    assert (changed.title, changed.tags) == ("My A", ["u", "in"])
    assert changed.content == "---\nno: frontmatter\n---\n#in [[b]]"
    assert await linked(store, "a") == ["b", "c"]
    renamed = await store.update("a", title="New A", content=None, tags=None)
    assert isinstance(renamed, NoteView)
    assert renamed.id == "new-a.md"
    assert (await view(store, "b")).content == "[[new-a]] [[New A]]"
    assert await linked(store, "new-a") == ["b", "c"]
    assert bolt.run("MATCH (n:Node {id: 'new-a.md'}) RETURN n.mine AS mine") == [{"mine": 7}]


@pytest.mark.rule("neo4j.others.four_properties")
async def test_a_link_that_others_made_twice_counts_once(bolt: Bolt, store: Neo4jStore) -> None:
    bolt.run(
        "CREATE (a:Node {id: 'a', title: 'A'}), (b:Node {id: 'b', title: 'B'}), "
        "(a)-[:LINKS_TO]->(b), (a)-[:LINKS_TO]->(b), (a)-[:LINKS_TO {position: 3}]->(b)"
    )
    assert await linked(store, "a") == ["b"]
    assert await store.hubs("in_degree", 5) == [("b", "B", 1)]
    assert await store.hubs("out_degree", 5) == [("a", "A", 1)]
    around = await store.neighborhood("b", "both", 5)
    assert around is not None
    assert ([each.note.id for each in around.neighbors], around.incoming) == (["a"], 1)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
@pytest.mark.rule("neo4j.same.order")
def test_sort_keys_sort_as_ids_do_also_where_utf_16_is_compared(ids: list[str]) -> None:
    in_utf_16 = sorted(ids, key=lambda each: str(name_properties(each, "", ())["sortKey"]).encode("utf-16-be"))
    assert in_utf_16 == sorted(ids)


@pytest.mark.rule("neo4j.others.changes")
async def test_a_server_that_starts_takes_in_what_others_have_changed(bolt: Bolt, store: Neo4jStore) -> None:
    await filled(store, {"a.md": "---\naliases: [aka]\ntags: [old]\n---\n[[b]]", "b.md": "", "c.md": "[[aka]]"})
    bolt.run("MATCH (n:Node {id: 'a.md'}) SET n.title = 'Theirs', n.tags = ['New'], n.content = '[[b]] then [[c]]'")
    other = bolt.store()
    try:
        note = await view(other, "a.md")
        assert (note.title, note.tags, [link.id for link in note.links]) == ("Theirs", ["New"], ["b.md", "c.md"])
        assert [each.id for each in await other.find_by_tags(["new"], all_of_them=True, limit=5)] == ["a.md"]
        assert await linked(other, "c.md") == ["a.md"]
    finally:
        await other.close()


# --- several at once


@pytest.mark.rule("neo4j.writes.race")
async def test_of_several_that_create_the_same_note_one_does(bolt: Bolt) -> None:
    stores = [bolt.store() for _ in range(4)]
    try:
        outcomes = await asyncio.gather(*(each.create("Same", "x", [], "") for each in stores for _ in range(2)))
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
        assert [outcome.code for outcome in refused] == ["NODE_EXISTS"] * 7
        assert bolt.run("MATCH (n:Node) RETURN count(n) AS notes") == [{"notes": 1}]
    finally:
        for each in stores:
            await each.close()


@pytest.mark.rule("neo4j.writes.race")
async def test_notes_that_are_created_at_once_and_link_to_each_other_are_linked(bolt: Bolt) -> None:
    stores = [bolt.store() for _ in range(4)]
    try:
        await asyncio.gather(
            *(each.create(f"n{place}", f"[[n{(place + 1) % 4}]]", [], "") for place, each in enumerate(stores))
        )
        assert [await linked(stores[0], f"n{place}") for place in range(4)] == [
            ["n1.md"],
            ["n2.md"],
            ["n3.md"],
            ["n0.md"],
        ]
    finally:
        for each in stores:
            await each.close()


@pytest.mark.rule("neo4j.writes.transaction")
async def test_a_rename_that_is_cut_off_is_done_or_not_done_at_all(bolt: Bolt, store: Neo4jStore) -> None:
    await filled(store, {"name-0.md": "x", **{f"l{number}.md": "[[name-0]]" for number in range(8)}})
    name = 0
    for milliseconds in (2, 4, 6, 8, 10, 13, 16, 20, 30, 1000):
        with suppress(TimeoutError):
            async with asyncio.timeout(milliseconds / 1000):
                await store.update(f"name-{name}", title=f"name-{name + 1}", content=None, tags=None)
        is_done = await store.get(f"name-{name + 1}.md") is not None
        assert (await store.get(f"name-{name}.md") is None) is is_done
        name += is_done
        contents = {(await view(store, f"l{number}")).content for number in range(8)}
        assert contents == {f"[[name-{name}]]"}
        assert [hub.score for hub in await store.hubs("in_degree", 5)] == [8]
    assert name > 0


# --- what goes wrong


SECRET = "a secret that nobody is told"  # noqa: S105 - what must not be found


def tools(connection: Connection) -> Pipeline:
    return Pipeline([notes_toolset(note_handlers(Neo4jStore(connection)))], timeout=60)


async def complaint(connection: Connection) -> str:
    answer = await tools(connection).call("get_node", {"id": "a"}, Caller("test"))
    await connection.close()
    assert answer.is_error
    error = json.loads(answer.text)["error"]
    assert error["code"] == "PROVIDER_ERROR"
    assert SECRET not in error["message"]
    return error["message"]


@pytest.mark.rule("neo4j.errors.words")
async def test_who_cannot_be_reached_is_named_with_what_to_do(unused_tcp_port: int) -> None:
    said = await complaint(Connection(f"bolt://127.0.0.1:{unused_tcp_port}", user="u", password=SECRET))
    assert said == f"Neo4j at 127.0.0.1:{unused_tcp_port} cannot be reached; start it, or see to notes.neo4j_url"


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.mark.rule("neo4j.errors.words")
async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 0.2)
    hold = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        said = await complaint(Connection(f"bolt://127.0.0.1:{port}", user="u", password=SECRET))
        assert said.startswith(f"Neo4j at 127.0.0.1:{port} cannot be reached")
    finally:
        hold.set()
        server.close()


@pytest.mark.rule("neo4j.errors.words")
async def test_a_wrong_password_and_a_missing_database_are_told_without_the_password(bolt: Bolt) -> None:
    said = await complaint(Connection(bolt.url, user=bolt.user, password=SECRET))
    assert "does not let the user" in said
    assert "notes.neo4j_password_env" in said
    said = await complaint(Connection(bolt.url, user=bolt.user, password=bolt.password, database="nothere"))
    assert "nothere" in said
    assert "notes.neo4j_database" in said


@pytest.mark.rule("neo4j.errors.extra")
def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(MissingExtra, match=r"pip install 'carrel\[neo4j\]'"):
        Connection("bolt://localhost")


# --- copying a vault


@pytest.mark.rule("neo4j.push.again")
async def test_a_push_writes_what_has_changed_and_removes_what_is_gone(bolt: Bolt, store: Neo4jStore) -> None:
    files = {"a.md": "[[b]] [[c]]", "b.md": "", "c.md": "[[a]]"}
    assert await filled(store, files) == Pushed(written=3, removed=0, total=3)
    before = bolt.run("MATCH (n:Node) RETURN properties(n) AS note ORDER BY n.id")
    assert await filled(store, files) == Pushed(written=0, removed=0, total=3)
    assert bolt.run("MATCH (n:Node) RETURN properties(n) AS note ORDER BY n.id") == before
    await store.create("Made here", "[[b]]", [], "")
    assert await filled(store, {"a.md": "[[b]] [[c]]", "c.md": "[[a]] [[made here]]"}) == Pushed(1, 1, 2)
    assert await linked(store, "a.md") == ["c.md"]
    assert await linked(store, "c.md") == ["a.md", "made-here.md"]
    assert (await view(store, "made-here")).warnings == ["Broken link: [[b]]"]


@pytest.mark.rule("neo4j.push.again")
async def test_a_push_removes_nothing_that_was_changed_in_the_database(store: Neo4jStore) -> None:
    await filled(store, {"a.md": "x", "b.md": "x"})
    await store.update("a", title=None, content="changed here", tags=None)
    assert (await filled(store, {"b.md": "x"})).removed == 0
    assert (await view(store, "a")).content == "changed here"


@pytest.mark.rule("neo4j.push.progress")
async def test_a_push_tells_how_far_it_is(store: Neo4jStore) -> None:
    told: list[tuple[int, int]] = []
    notes = [(f"n{number}.md", b"[[n0]]") for number in range(450)]
    await push(store, notes, total=450, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(200, 450), (400, 450), (450, 450)]
    assert await store.hubs("in_degree", 2) == [("n0.md", "n0", 450)]


# --- search


@pytest.mark.rule("neo4j.search.source")
async def test_notes_are_searched_as_they_are_now(bolt: Bolt, store: Neo4jStore, tmp_path: Path) -> None:
    await filled(store, {"apple.md": "---\ntitle: Apple tree\n---\n# Fruit\nIt bears pomes.", "other.md": "nothing"})
    engine = SearchEngine(lambda: LocalStore(tmp_path), None)
    search = NotesSearch(engine, Neo4jSource(store))
    store.listen(search.note)
    try:
        search.start()

        async def found(query: str) -> list[str]:
            return [hit.id for hit in await search.find(query, 5)]

        assert await found("pomes") == ["apple.md"]
        assert await found("apple tree") == ["apple.md"]
        await store.create("Pear", "It bears pomes too", [], "")
        await store.update("apple", title=None, content="cut down", tags=None)
        assert await found("pomes") == ["pear.md"]
        await store.delete("pear")
        assert await found("pomes") == []
    finally:
        await search.close()
        await engine.close()


@pytest.mark.rule("neo4j.search.others")
async def test_whoever_listens_is_told_of_what_others_write(bolt: Bolt, store: Neo4jStore) -> None:
    await filled(store, {"a.md": "x"})
    told: asyncio.Queue[Sequence[str]] = asyncio.Queue()
    store.listen(lambda changed, _gone, _has_others: told.put_nowait(changed))
    store.watch()
    other = bolt.store()
    try:
        await other.create("By another", "x", [], "")
        assert "by-another.md" in await asyncio.wait_for(told.get(), 20)
    finally:
        await other.close()
    bolt.run("CREATE (:Node {id: 'by hand', content: 'x'})")
    assert "by hand" in await asyncio.wait_for(told.get(), 20)


@pytest.mark.rule("neo4j.errors.words")
async def test_an_error_is_one_of_notes(bolt: Bolt) -> None:
    connection = bolt.connection()
    with pytest.raises(NotesError, match="failed"):
        await connection.read("NONSENSE")
    await connection.close()
