"""Work in the background of several processes over one PostgreSQL: one at a time does it, another takes over."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from carrel.errors import StoreUnavailable
from carrel.search import embedder as embedding
from carrel.search.engine import SearchEngine
from carrel.search.postgres.connections import lock_number
from carrel.search.postgres.postgres_store import PostgresStore
from carrel.storage.database import PostgresLocation
from carrel.storage.notifications import Notifications
from carrel.storage.schema_version import open_database
from carrel.workspace.subscriptions import follow_search
from tests.pgbouncer import PgBouncer
from tests.program import Script, ending
from tests.search_stores import BOOK, DIMENSIONS, MODEL, embed_all, new_schema, note, vector_of

DOCUMENTS = 300
TAKEOVER_SECONDS = 15
"""At the most: it is looked for every two; the rest is for a busy machine."""

# Embeds what is pending, and says which texts it begins with, and that they are kept; asks for leave before each batch.
EMBEDDER = """
import sys
from contextlib import contextmanager
import numpy as np
from carrel.search.embedder import Embedder
from carrel.search.postgres.postgres_store import PostgresStore
from tests.search_stores import DIMENSIONS, MODEL, say, vector_of

class Provider:
    name, dimensions = MODEL, DIMENSIONS

    def embed(self, texts):
        say("began " + " ".join(text.split()[-1] for text in texts))
        sys.stdin.readline()
        return np.stack([vector_of(text) for text in texts])

class Store(PostgresStore):
    @contextmanager
    def work_lock(self):
        with super().work_lock() as has_lock:
            if not has_lock:
                say("waits")
            yield has_lock

store = Store(sys.argv[1], schema=sys.argv[2])
embedder = Embedder(store, Provider(), lambda count: say("done"))
say("ready")
embedder.start()
while not embedder.wait(0.05):
    pass
say("idle")
embedder.stop()
embedder.join()
store.close()
"""

# Brings an index up to date with documents of which it says that they are read; asks for leave before each batch.
INDEXER = """
import asyncio, sys
from carrel.search.engine import SearchEngine
from carrel.search.postgres.postgres_store import PostgresStore
from carrel.search.engine import update_index
from tests.search_stores import BOOK, note, say

class Documents:
    collection = BOOK

    async def versions(self):
        for number in range(int(sys.argv[3])):
            yield str(number), "1"

    async def documents(self, ids):
        say("reads " + " ".join(ids))
        sys.stdin.readline()
        return [note(each, f"text {each}") for each in ids]

async def main():
    engine = SearchEngine(lambda: PostgresStore(sys.argv[1], schema=sys.argv[2]), None)
    say("ready")
    await update_index(engine, Documents())
    say("up to date")
    await engine.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def pooler(postgres_server_url: str) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres_server_url)
    yield pooler
    pooler.close()


@pytest.fixture
def schema(postgres_url: str, worker_id: str) -> Iterator[str]:
    for place in new_schema(postgres_url, worker_id):
        yield place.partition("#")[2]


@pytest.fixture
def store(postgres_url: str, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, schema=schema)
    yield store
    store.close()


@pytest.fixture(params=["direct", "pooled"])
def way(request: pytest.FixtureRequest, postgres_url: str) -> str:
    """To the database, or through pgbouncer to it."""
    if request.param == "direct":
        return postgres_url
    pooler: PgBouncer = request.getfixturevalue("pooler")
    return pooler.url(postgres_url)


def heard(script: Script, word: str) -> list[str]:
    """The rest of the next line, which begins with `word`."""
    first, *rest = script.hear().split()
    assert first == word
    return rest


@pytest.mark.rule("fleet.background.one", "fleet.background.takeover")
def test_when_the_embedder_is_killed_another_goes_on_where_it_was(
    way: str, schema: str, store: PostgresStore, tmp_path: Path
) -> None:
    store.put(BOOK, [note(str(number), f"text {number}") for number in range(DOCUMENTS)])
    with ending([]) as scripts:
        one = Script(EMBEDDER, way, schema, cwd=tmp_path, PYTHONPATH=python_path())
        scripts.append(one)
        assert one.hear() == "ready"
        kept = heard(one, "began")
        one.say()
        heard(one, "done")
        lost = heard(one, "began")
        other = Script(EMBEDDER, way, schema, cwd=tmp_path, PYTHONPATH=python_path())
        scripts.append(other)
        assert [other.hear(), other.hear()] == ["ready", "waits"]
        one.kill()
        killed = time.monotonic()
        while (line := other.hear()) == "waits":
            pass
        by_other = line.removeprefix("began ").split()
        assert time.monotonic() - killed < TAKEOVER_SECONDS
        assert by_other == lost, "the newest first, none of which was kept"
        other.say()
        while (line := other.hear()) != "idle":
            if line.startswith("began"):
                by_other += line.split()[1:]
                other.say()
        other.finish()
    everything = [str(number) for number in range(DOCUMENTS)]
    assert sorted(kept + by_other, key=int) == everything, "what was kept is not embedded again"
    assert store.progress()[BOOK].pending == 0


@pytest.mark.rule("fleet.background.one", "fleet.background.takeover")
def test_when_the_indexer_is_killed_another_goes_on_where_it_was(
    way: str, schema: str, store: PostgresStore, tmp_path: Path
) -> None:
    with ending([]) as scripts:
        one = Script(INDEXER, way, schema, str(DOCUMENTS), cwd=tmp_path, PYTHONPATH=python_path())
        scripts.append(one)
        assert one.hear() == "ready"
        kept = heard(one, "reads")
        other = Script(INDEXER, way, schema, str(DOCUMENTS), cwd=tmp_path, PYTHONPATH=python_path())
        scripts.append(other)
        assert other.hear() == "ready"
        one.say()
        heard(one, "reads")
        assert len(store.versions(BOOK)) == len(kept)
        one.kill()
        by_other: list[str] = []
        while (line := other.hear()) != "up to date":
            by_other += line.removeprefix("reads").split()
            other.say()
        other.finish()
    assert sorted(kept + by_other, key=int) == [str(number) for number in range(DOCUMENTS)], "each was read once"
    assert len(store.versions(BOOK)) == DOCUMENTS


@pytest.mark.rule("fleet.background.lost")
def test_whoever_loses_the_connection_of_its_turn_stops(postgres_url: str, schema: str, store: PostgresStore) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "text")])
    other = PostgresStore(postgres_url, schema=schema)
    with store.work_lock() as has_lock:
        assert has_lock
        assert [each.text for each in store.pending(9)] == ["text"]
        with other.work_lock() as others:
            assert not others
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (holder(connection, schema)[0],))
        with pytest.raises(StoreUnavailable):
            store.pending(9)
        with other.work_lock() as others:
            assert others
    with store.work_lock() as has_lock:
        assert has_lock
        assert embed_all(store) == ["text"]
    other.close()


@pytest.mark.rule("fleet.background.one")
def test_whoever_has_the_turn_keeps_nothing_from_being_tidied_up(
    postgres_url: str, schema: str, store: PostgresStore
) -> None:
    with store.work_lock(), psycopg.connect(postgres_url) as connection:
        assert holder(connection, schema)[1] is None, "no view of the data stays open"
        store.pending(9)
        assert holder(connection, schema)[1] is None


def holder(connection: "psycopg.Connection[Any]", schema: str) -> tuple[int, int | None]:
    """The process that has the lock, and the oldest transaction that it still wants to see."""
    number = lock_number(f"{schema} turn") & (2**64 - 1)
    (found,) = connection.execute(
        "SELECT pid, backend_xmin::text::bigint FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE locktype = 'advisory' AND (classid, objid) = (%s, %s)",
        (number >> 32, number & 0xFFFFFFFF),
    ).fetchall()
    return found


class _Provider:
    name = MODEL
    dimensions = DIMENSIONS

    def embed(self, texts: list[str]) -> object:
        return np.stack([vector_of(text) for text in texts])

    def close(self) -> None:
        pass


@pytest.mark.anyio
@pytest.mark.rule("fleet.notices.waking")
async def test_what_another_process_puts_in_is_embedded_at_once(
    postgres_url: str, schema: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "POLL_INTERVAL_SECONDS", 600)  # only a notice wakes it
    database = await open_database(PostgresLocation(postgres_url), pool_size=2)
    notices = Notifications(database, postgres_url)
    engine = SearchEngine(lambda: PostgresStore(postgres_url, schema=schema), _Provider())  # pyright: ignore[reportArgumentType] - lists for sequences
    follow_search(notices, engine)
    embedder = await engine.embed_in_background()
    assert embedder is not None
    assert embedder.wait(30)
    store.put(BOOK, [note("a", "text")])
    deadline = time.monotonic() + 30
    while (await engine.progress())[BOOK].pending:
        assert time.monotonic() < deadline
    await notices.close()
    await engine.close()
    await database.close()


def python_path() -> str:
    """Where the scripts find `tests`."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parent.parent)]))
