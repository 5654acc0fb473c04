"""`kill -9` while an import writes: afterwards all of it is there or nothing, and the next import succeeds."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.bundles import Store, block, entity, performance, project, relation, rows, total, uid, written
from tests.content_stores import store
from tests.program import Script, run_carrel_here

__all__ = ["store"]

RECORDS, MORE = 400, 40
TIMES = {"createdAt": "2026-01-02", "updatedAt": "2026-01-03"}

# Kills itself behind the statement of this number since it began to write, and says what it gets to. Told to rehearse,
# it says how many statements there are, and ends without the commit.
IMPORTER = """
import os, signal, sys
from pathlib import Path
from carrel.content.bundle.importer import import_content
from carrel.storage import bulk
from carrel.storage.database import locate

last = int(sys.argv[3])
written = 0
is_writing = False

def progress(step, more, total):
    global is_writing
    if step == "writing" and not is_writing:
        is_writing = True
        print("writing", flush=True)

def counted(method):
    def run(self, *arguments):
        global written
        result = method(self, *arguments)
        written += is_writing
        if is_writing and written == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return run

def rehearsed(self):
    print(written, flush=True)
    sys.exit()

bulk.INDEX_REBUILD_ROWS = 1
for kind in (bulk.SqliteBulk, bulk.PostgresBulk):
    kind.execute, kind.insert = counted(kind.execute), counted(kind.insert)
    if not last:
        kind.commit = rehearsed
import_content(locate(sys.argv[1], Path.cwd()), [Path(sys.argv[2])], progress=progress)
print("written", flush=True)
"""


def bundle(generation: int) -> dict[str, list[dict[str, Any]]]:
    """Each changes every record of the one before, and has some more."""
    numbers = range(RECORDS + MORE * generation)
    return {
        "projects": [project(id=uid(1), **TIMES)],
        "entities": [
            entity(f"guide:g{n}", id=uid(10_000 + n), title=f"Guide {n}, {generation}", summary="Tides", **TIMES)
            for n in numbers
        ]
        + [entity("concept:tide", id=uid(2), title=f"Tide {generation}", **TIMES)],
        "relations": [
            relation(f"guide:g{n}", "GUIDE_USES_CONCEPT", "concept:tide", id=uid(20_000 + n), notes=str(generation))
            for n in numbers
        ],
        "searchPerformance": [
            performance(f"tide {n}", id=uid(30_000 + n), clicks=generation, capturedAt="2026-02-03") for n in numbers
        ],
        "quotableBlocks": [
            block(f"guide:g{n}", id=uid(40_000 + n), topicTag=f"Topic {generation}", **TIMES) for n in numbers
        ],
    }


def rehearse(store: Store, path: Path) -> int:
    """The number of statements from the first row that is written to the commit."""
    script = Script(IMPORTER, store.url, path, "0", cwd=store.folder)
    assert script.hear() == "writing"
    statements = int(script.hear())
    script.finish()
    return statements


def kill_while_writing(store: Store, path: Path, statement: int) -> None:
    script = Script(IMPORTER, store.url, path, str(statement), cwd=store.folder)
    assert script.hear() == "writing"
    assert script.process.wait(60) == -signal.SIGKILL
    assert "written" not in script.kill()


@pytest.mark.rule("content.transaction.all_or_nothing")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_an_import_that_is_killed_while_it_writes_is_all_there_or_not_at_all(store: Store, kills: int) -> None:
    store.load({"projects": [project(id=uid(1), **TIMES)]})
    for generation in range(kills):
        path = written(store.folder / "killed.json", bundle(generation))
        before, statements = rows(store.location), rehearse(store, path)
        kill_while_writing(store, path, 1 + generation * statements // kills)
        assert rows(store.location) == before
        check(store)
        added, updated, unchanged = total(store.load(bundle(generation)))
        assert updated + unchanged >= 1
        assert added > 0
        assert total(store.load(bundle(generation))) == (0, 0, added + updated + unchanged)
        check(store)


def check(store: Store) -> None:
    done = run_carrel_here("db", "check", cwd=store.folder, CARREL_DATABASE_URL=store.url)
    assert done.returncode == 0, done
    if store.url.startswith("sqlite"):
        for table in ("entity", "search_performance"):
            store.query(f"INSERT INTO {table}_trigrams ({table}_trigrams) VALUES ('integrity-check')")
    for table, of in (("entity_tally", "entity"), ("search_performance_tally", "search_performance")):
        ((tallied, there),) = store.query(
            f"SELECT (SELECT coalesce(sum(total), 0) FROM {table}), (SELECT count(*) FROM {of})"
        )
        assert tallied == there
