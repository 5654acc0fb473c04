"""Preparing a database: constraints, indexes, and the properties that other programs leave out of their notes."""

import logging
from typing import Final, LiteralString

from carrel.notes.neo4j.connection import (
    Connection,
    PermissionDenied,
    SchemaRefused,
    Transaction,
    acquire_write_lock,
    record_count,
)
from carrel.notes.neo4j.records import completed_properties, mentioning, relink, relink_all, strings_of, title_of
from carrel.notes.neo4j.transactions import put

ADOPT_BATCH_SIZE = 200
MAX_SINGLE_RELINKS = 1000
"""Up to so many notes that others wrote are linked one by one."""

SCHEMA: tuple[LiteralString, ...] = (
    "CREATE CONSTRAINT carrel_node_id IF NOT EXISTS FOR (n:Node) REQUIRE n.id IS UNIQUE",
    "CREATE CONSTRAINT carrel_notes_name IF NOT EXISTS FOR (m:CarrelNotes) REQUIRE m.name IS UNIQUE",
    "CREATE INDEX carrel_node_path IF NOT EXISTS FOR (n:Node) ON (n.path)",
    "CREATE INDEX carrel_node_name IF NOT EXISTS FOR (n:Node) ON (n.name)",
    "CREATE INDEX carrel_node_title IF NOT EXISTS FOR (n:Node) ON (n.titleKey)",
    "CREATE INDEX carrel_node_turn IF NOT EXISTS FOR (n:Node) ON (n.turn)",
    "CREATE INDEX carrel_node_sort IF NOT EXISTS FOR (n:Node) ON (n.sortKey)",
)
_CHANGED: Final = """
MATCH (n:Node)
WHERE n.id IS NOT NULL AND (n.seen IS NULL
   OR n.seen <> [coalesce(n.title, ''), toString(size(coalesce(n.content, '')))] + coalesce(n.tags, []))
"""
EXTERNAL_CHANGES: Final = (
    _CHANGED
    + """
RETURN n.id AS id, n.title AS title, n.content AS content, n.tags AS tags, n.head AS head,
       n.titleKey AS titleKey, n.aliasKeys AS aliasKeys
LIMIT $limit
"""
)

log = logging.getLogger("carrel.notes")


async def define(connection: Connection) -> None:
    """Create constraints and indexes; do without those that the database refuses."""
    for statement in SCHEMA:
        try:
            await connection.define(statement)
        except SchemaRefused as error:  # we do without: whoever writes here waits for the others
            log.warning("a constraint or an index of the notes is missing: %s", error)


async def adopt(connection: Connection) -> list[str]:
    """Complete the notes that other programs have written or changed; return their IDs."""
    found: list[str] = []
    names: set[str] = set()

    async def adopt_batch(transaction: Transaction) -> tuple[list[str], set[str]]:
        rows = await transaction.run(EXTERNAL_CHANGES, limit=ADOPT_BATCH_SIZE)
        if not rows:
            return [], set()
        revision = await acquire_write_lock(transaction)
        notes = {
            row["id"]: completed_properties(
                row["id"],
                row["head"],
                title_of(row["id"], row["title"]),
                row["content"] or "",
                strings_of(row["tags"]),
            )
            for row in rows
        }
        await put(transaction, revision, notes)
        before = {name for row in rows for name in (row["titleKey"], *(row["aliasKeys"] or ())) if name}
        after = {name for each in notes.values() for name in (each["name"], each["titleKey"], *each["aliasKeys"])}
        return list(notes), before | after

    while True:
        ids, more = await connection.write(adopt_batch)
        if not ids:
            break
        found += ids
        names |= more
    if len(found) > MAX_SINGLE_RELINKS:
        await relink_all(connection)

    async def link(transaction: Transaction) -> None:
        revision = await acquire_write_lock(transaction)
        if 0 < len(found) <= MAX_SINGLE_RELINKS:
            await relink(transaction, {*found} | await mentioning(transaction, names))
        await record_count(transaction, revision)

    await connection.write(link)
    return found


async def prepare(connection: Connection) -> list[str]:
    """Prepare the database as far as the user's permissions go."""
    try:
        await define(connection)
        return await adopt(connection)
    except PermissionDenied as error:
        log.warning("the notes in the database are taken as they are: %s", error)
        return []
