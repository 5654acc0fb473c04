"""Checks of the notes: the vault and its watcher, or Neo4j."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from carrel.doctor.checks import CheckContext, Finding, has_access, ok, one_line, problem, warning
from carrel.errors import CarrelError, MissingExtra
from carrel.settings import NotesSettings

INOTIFY_LIMIT = "/proc/sys/fs/inotify/max_user_watches"
COUNT_TIMEOUT_SECONDS = 2.0


def vault(context: CheckContext) -> Iterator[Finding]:
    settings, folder = context.workspace.settings.notes, context.workspace.vault_folder
    if not context.serves("notes"):
        yield ok("vault", "not served")
    elif settings.store != "files":
        yield ok("vault", "not used: notes are in Neo4j")
    elif not folder.is_dir():
        found = f"{folder} does not exist, so notes are not served"
        if "notes" in context.toolsets:
            yield problem("vault", found, f"mkdir {folder}, or set notes.vault to your notes' folder")
        else:
            yield ok("vault", found)
    elif not has_access(folder, os.R_OK | os.X_OK):
        yield problem("vault", f"{folder} is not readable by this user", f"chmod u+rwx {folder}, as its owner")
    else:
        yield from _folder(context, folder)


def _folder(context: CheckContext, folder: Path) -> Iterator[Finding]:
    from carrel.notes.journal import JOURNAL_FILE
    from carrel.notes.watcher import needs_polling

    folders = _count_folders(folder)
    if has_access(folder, os.W_OK) or context.workspace.settings.server.read_only:
        yield ok("vault", f"{folder}, folders: {folders or 'too many to count'}")
    else:
        cure = f"chmod u+w {folder}, as its owner, or set server.read_only"
        yield problem("vault", f"{folder} is not writable by this user: create_node and other writes fail", cure)
    if (context.workspace.own_folder / "notes" / JOURNAL_FILE).exists():
        yield warning(
            "vault",
            "a rename of a note is in progress, or was interrupted and is not finished yet",
            "make sure that the vault is writable; the next write of a note, or the next start, finishes the rename",
        )
    if needs_polling(str(folder.resolve())):
        yield warning(
            "watching",
            f"{folder} is on a file system without change events, so it is polled",
            "put the vault on a local disk of this machine",
        )
        return
    limit = _inotify_limit()
    if limit is not None and folders is not None and folders > limit:
        yield warning(
            "watching",
            f"{folders} folders, and fs.inotify.max_user_watches is {limit}, so the vault is polled",
            f"sysctl fs.inotify.max_user_watches={max(524_288, folders * 2)}",
        )
    else:
        yield ok("watching", "change events are available" + (f", limit {limit}" if limit else ""))


def _count_folders(root: Path) -> int | None:
    """Count the folders of a vault; None if that takes too long."""
    deadline = time.monotonic() + COUNT_TIMEOUT_SECONDS
    count = 0
    for _, names, _ in os.walk(root):
        names[:] = [name for name in names if not name.startswith(".")]
        count += 1
        if time.monotonic() > deadline:
            return None
    return count


def _inotify_limit() -> int | None:
    try:
        return int(Path(INOTIFY_LIMIT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def neo4j(context: CheckContext) -> Iterator[Finding]:
    notes = context.workspace.settings.notes
    if notes.store != "neo4j" or not context.serves("notes"):
        return
    variable = notes.neo4j_password_env
    if not notes.neo4j_url:
        cure = "set notes.neo4j_url, such as neo4j://localhost:7687"
        yield problem("neo4j", "notes.store is neo4j, and notes.neo4j_url is not set", cure)
        return
    if variable and variable not in context.environment:
        yield problem("neo4j", f"environment variable {variable} is not set", f"export {variable}=PASSWORD")
        return
    try:
        asyncio.run(_query(notes, context.environment.get(variable, "")))
    except MissingExtra as error:
        yield problem("neo4j", str(error), "pip install 'carrel[neo4j]'")
    except CarrelError as error:
        cure = "start Neo4j, or correct notes.neo4j_url, notes.neo4j_user and the password"
        yield problem("neo4j", one_line(error), cure)
    else:
        yield ok("neo4j", f"{notes.neo4j_url} is reachable")


async def _query(notes: NotesSettings, password: str) -> None:
    from carrel.notes.neo4j import Connection

    connection = Connection(notes.neo4j_url, user=notes.neo4j_user, password=password, database=notes.neo4j_database)
    try:
        await connection.read("RETURN 1 AS one")
    finally:
        await connection.close()
