"""Copying a vault into the database."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from carrel.common import TotalProgress
from carrel.notes.neo4j.connection import Transaction, acquire_write_lock, record_count
from carrel.notes.neo4j.neo4j_store import Neo4jStore
from carrel.notes.neo4j.records import Properties, properties_of, relink_all
from carrel.notes.neo4j.transactions import put
from carrel.notes.parser import decoded
from carrel.notes.vault import Vault

PUSH_BATCH_SIZE = 200
"""Notes that are written in one transaction."""

VERSIONS: Final = (
    "MATCH (n:Node) WHERE n.version IS NOT NULL RETURN n.id AS id, n.version AS version, n.pushed AS pushed"
)
REMOVE: Final = "MATCH (n:Node) WHERE n.id IN $ids AND n.pushed = n.version DETACH DELETE n"


class Pushed(NamedTuple):
    """Counts of a push."""

    written: int
    """Notes that are new or were not the same."""
    removed: int
    """Notes of an earlier push that are gone from the vault, and that nobody has changed in the database since."""
    total: int


def notes_of(vault: Vault) -> Iterator[tuple[str, bytes]]:
    """Every note of a vault. Raises `VaultError`."""
    for note_id, _ in vault.scan():
        if (found := vault.read(note_id)) is not None:
            yield note_id, found[0]


async def push(
    store: Neo4jStore, notes: Iterable[tuple[str, bytes]], total: int = 0, on_progress: TotalProgress | None = None
) -> Pushed:
    """Make these notes, ids and files' contents, what the database has of them; `total` is how many are expected.

    Notes that were made in the database stay there. Done again, it changes nothing.
    """
    await store.ready()
    connection = store.connection
    there = {row["id"]: row for row in await connection.read(VERSIONS)}
    seen: set[str] = set()
    written: list[str] = []
    waiting = iter(notes)
    while batch := list(islice(waiting, PUSH_BATCH_SIZE)):
        changed: dict[str, Properties] = {}
        for note_id, content in batch:
            seen.add(note_id)
            properties = properties_of(note_id, decoded(content))
            properties["pushed"] = properties["version"]
            row = there.get(note_id)
            if row is None or not row["version"] == row["pushed"] == properties["version"]:
                changed[note_id] = properties
        if changed:
            await _put(store, changed)
        written += changed
        if on_progress:
            on_progress(len(seen), max(total, len(seen)))
    gone = [note_id for note_id, row in there.items() if note_id not in seen and row["pushed"] == row["version"]]
    await _remove(store, gone)
    if written or gone:
        await relink_all(connection)
    store.notify(written, gone, bool(gone) or not there.keys() >= set(written))
    return Pushed(len(written), len(gone), len(seen))


async def _put(store: Neo4jStore, notes: dict[str, Properties]) -> None:
    async def work(transaction: Transaction) -> None:
        revision = await acquire_write_lock(transaction)
        await put(transaction, revision, notes)
        await record_count(transaction, revision)

    await store.connection.write(work)


async def _remove(store: Neo4jStore, ids: Sequence[str]) -> None:
    for start in range(0, len(ids), PUSH_BATCH_SIZE):
        batch = ids[start : start + PUSH_BATCH_SIZE]

        async def work(transaction: Transaction, some: Sequence[str] = batch) -> None:
            revision = await acquire_write_lock(transaction)
            await transaction.run(REMOVE, ids=list(some))
            await record_count(transaction, revision, some)

        await store.connection.write(work)
