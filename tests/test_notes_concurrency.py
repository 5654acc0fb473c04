"""Eight writers in three server processes over one vault, against a model of what each of them has done."""

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.vaults import contents, leftovers, opened, write
from tests.wire import MODERN, StdioWire, call, value

pytestmark = pytest.mark.anyio

WRITERS = 8
SERVERS = 3
OPERATIONS = 1000


class Shared:
    """A server that several threads call at once."""

    era = MODERN

    def __init__(self, folder: Path) -> None:
        self._wire = StdioWire(MODERN, "--toolsets", "notes", cwd=folder, CARREL_EMBEDDINGS_PROVIDER="none")
        self._sending = threading.Lock()
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                message = self._wire.receive(timeout=60)
            except (AssertionError, queue.Empty):
                return
            with self._sending:  # whoever asked is written down by now
                answer = self._waiting.pop(message["id"])
            answer.put(message)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: queue.Queue[dict[str, Any]] = queue.Queue()
        with self._sending:
            self._waiting[self._wire.begin(method, params)] = answer
        return answer.get(timeout=60)

    def ok(self, name: str, **arguments: Any) -> Any:
        result = call(self, name, arguments)
        assert not result.get("isError"), (name, arguments, result)
        return value(result)

    def close(self) -> int:
        return self._wire.close()


class Writer:
    """Has notes of its own, which link to each other and to some that nobody changes."""

    def __init__(self, name: str, server: Shared) -> None:
        self.name = name
        self.server = server
        self.random = Random(name)
        self.first = f"{name}-first"
        """The title that its first note has by now. `board.md` links to it, and to those of all the others."""
        self.notes: dict[str, tuple[list[str], list[str]]] = {self.first: ([], [])}
        """By title, the links and the tags."""
        self.made = self.deleted = 0

    def work(self, operations: int) -> None:
        kinds = [self.create, self.change_text, self.change_tags, self.rename, self.delete]
        for kind in self.random.choices(kinds, [35, 20, 10, 25, 10], k=operations):
            kind()

    def create(self) -> None:
        title, links, tags = self.new_title(), self.some_links(), self.some_tags()
        found = self.server.ok("create_node", title=title, content=text(links), tags=tags, directory=self.name)
        assert found["id"] == self.id(title)
        self.notes[title] = (links, tags)

    def change_text(self) -> None:
        title, links = self.some_note(), self.some_links()
        self.server.ok("update_node", id=self.id(title), content=text(links))
        self.notes[title] = (links, self.notes[title][1])

    def change_tags(self) -> None:
        title, tags = self.some_note(), self.some_tags()
        assert self.server.ok("update_node", id=self.id(title), tags=tags)["tags"] == tags
        self.notes[title] = (self.notes[title][0], tags)

    def rename(self) -> None:
        old, new = self.first if self.random.random() < 0.4 else self.some_note(), self.new_title()
        found = self.server.ok("update_node", id=self.id(old), title=new)
        assert found["id"] == self.id(new)
        self.notes[new] = self.notes.pop(old)
        for links, _ in self.notes.values():
            links[:] = [new if link == old else link for link in links]
        if old == self.first:
            self.first = new

    def delete(self) -> None:
        if (title := self.some_note()) != self.first:
            assert self.server.ok("delete_node", id=self.id(title))["deleted"] is True
            del self.notes[title]
            self.deleted += 1

    def id(self, title: str) -> str:
        return f"{self.name}/{title}.md"

    def new_title(self) -> str:
        self.made += 1
        return f"{self.name}-{self.made}"

    def some_note(self) -> str:
        return self.random.choice(sorted(self.notes))

    def some_links(self) -> list[str]:
        own = self.random.sample(sorted(self.notes), min(len(self.notes), self.random.randrange(4)))
        return own + self.random.sample(["Shared 0", "Shared 1"], self.random.randrange(2))

    def some_tags(self) -> list[str]:
        return self.random.sample(["a", "b", "c"], self.random.randrange(1, 4))


def text(links: list[str]) -> str:
    return " and ".join(f"[[{link}]]" for link in links) or "nothing"


Node = tuple[list[str], list[str]]
"""What a note links to, and its tags."""


def expected(writers: list[Writer]) -> dict[str, Node]:
    shared = {"Shared 0": "shared-0.md", "Shared 1": "shared-1.md"}
    graph: dict[str, Node] = {note_id: ([], []) for note_id in shared.values()}
    graph["board.md"] = ([writer.id(writer.first) for writer in writers], [])
    for writer in writers:
        there = {title: writer.id(title) for title in writer.notes} | shared
        for title, (links, tags) in writer.notes.items():
            graph[writer.id(title)] = ([there[link] for link in links if link in there], tags)
    return graph


def seen_by(server: Shared, ids: list[str]) -> dict[str, Node]:
    found = {note_id: server.ok("get_node", id=note_id) for note_id in ids}
    return {
        note_id: ([link["id"] for link in each["links"]], each["tags"]) if each else ([], ["missing"])
        for note_id, each in found.items()
    }


@pytest.mark.rule("notes.update.links", "notes.files.concurrent")
async def test_a_thousand_operations_of_eight_writers_leave_the_graph_that_they_say(tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(WRITERS)]
    files = {f"{name}/{name}-first.md": "nothing" for name in names}
    shared = {f"shared-{number}.md": f"---\ntitle: Shared {number}\n---\n" for number in range(2)}
    vault = write(tmp_path / "notes", {"board.md": text([f"{name}-first" for name in names]), **files, **shared})
    servers = [Shared(tmp_path) for _ in range(SERVERS)]
    writers = [Writer(name, servers[number % SERVERS]) for number, name in enumerate(names)]
    with ThreadPoolExecutor(WRITERS) as threads:
        for done in [threads.submit(writer.work, OPERATIONS // WRITERS) for writer in writers]:
            done.result()
    graph = expected(writers)
    assert sorted(contents(vault)) == sorted(graph), "no note is lost, and none is left over"
    async with opened(tmp_path) as store:
        found = {
            node.id: ([each.id for each in store.index.graph.outgoing(node)], list(node.facts.tags))
            for node in store.index.graph
        }
    assert found == graph
    for server in servers:
        end = time.monotonic() + 5
        while (seen := seen_by(server, sorted(graph))) != graph:
            assert time.monotonic() < end, {
                each: (seen[each], graph[each]) for each in graph if seen[each] != graph[each]
            }
    assert len(list((tmp_path / ".carrel/trash").rglob("*.md"))) == sum(writer.deleted for writer in writers)
    assert leftovers(tmp_path) == []
    assert [server.close() for server in servers] == [0] * SERVERS
