"""The vault, or Neo4j in its place."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from carrel.doctor.checks import Finding, Subject, may, ok, one_line, problem, warning
from carrel.errors import CarrelError, MissingExtra
from carrel.settings import NotesSettings

INOTIFY_LIMIT = "/proc/sys/fs/inotify/max_user_watches"
COUNT_SECONDS = 2.0


def vault(subject: Subject) -> Iterator[Finding]:
    settings, folder = subject.workspace.settings.notes, subject.workspace.vault_folder
    if not subject.serves("notes"):
        yield ok("vault", "not served")
    elif settings.store != "files":
        yield ok("vault", "notes are in Neo4j")
    elif not folder.is_dir():
        found = f"there is no folder {folder}: notes are not served"
        if "notes" in subject.toolsets:
            yield problem("vault", found, f"mkdir {folder}, or set notes.vault to the folder that your notes are in")
        else:
            yield ok("vault", found)
    elif not may(folder, os.R_OK | os.X_OK):
        yield problem("vault", f"{folder} cannot be read by this user", f"chmod u+rwx {folder}, as its owner")
    else:
        yield from _folder(subject, folder)


def _folder(subject: Subject, folder: Path) -> Iterator[Finding]:
    from carrel.notes.journal import JOURNAL_FILE
    from carrel.notes.watcher import needs_polling

    folders = _folders(folder)
    if may(folder, os.W_OK) or subject.workspace.settings.server.read_only:
        yield ok("vault", f"{folder}, folders: {folders or 'very many'}")
    else:
        cure = f"chmod u+w {folder}, as its owner, or set server.read_only"
        yield problem("vault", f"{folder} cannot be written by this user: create_node and others fail", cure)
    if (subject.workspace.own_folder / "notes" / JOURNAL_FILE).exists():
        yield warning(
            "vault",
            "a rename of a note is under way, or was cut short and is not finished yet",
            "see that the vault can be written; the next write of a note, or the next start, finishes it",
        )
    if needs_polling(str(folder.resolve())):
        yield warning(
            "watching",
            f"{folder} is on a file system that does not tell what others change: it is looked through again and again",
            "put the vault on a local disk of this machine",
        )
        return
    limit = _watches()
    if limit is not None and folders is not None and folders > limit:
        yield warning(
            "watching",
            f"{folders} folders, and fs.inotify.max_user_watches is {limit}: the vault is looked through all the time",
            f"sysctl fs.inotify.max_user_watches={max(524_288, folders * 2)}",
        )
    else:
        yield ok("watching", "changes by others are told by the system" + (f", limit {limit}" if limit else ""))


def _folders(root: Path) -> int | None:
    """How many there are; None where counting takes too long."""
    deadline = time.monotonic() + COUNT_SECONDS
    count = 0
    for _, names, _ in os.walk(root):
        names[:] = [name for name in names if not name.startswith(".")]
        count += 1
        if time.monotonic() > deadline:
            return None
    return count


def _watches() -> int | None:
    try:
        return int(Path(INOTIFY_LIMIT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def neo4j(subject: Subject) -> Iterator[Finding]:
    notes = subject.workspace.settings.notes
    if notes.store != "neo4j" or not subject.serves("notes"):
        return
    variable = notes.neo4j_password_env
    if not notes.neo4j_url:
        cure = "set notes.neo4j_url, such as neo4j://localhost:7687"
        yield problem("neo4j", "notes.store is neo4j, and notes.neo4j_url is not set", cure)
        return
    if variable and variable not in subject.environment:
        yield problem("neo4j", f"the variable {variable} is not set", f"export {variable}=PASSWORD")
        return
    try:
        asyncio.run(_asked(notes, subject.environment.get(variable, "")))
    except MissingExtra as error:
        yield problem("neo4j", str(error), "pip install 'carrel[neo4j]'")
    except CarrelError as error:
        cure = "start Neo4j, or correct notes.neo4j_url, notes.neo4j_user and the password"
        yield problem("neo4j", one_line(error), cure)
    else:
        yield ok("neo4j", f"{notes.neo4j_url} answers")


async def _asked(notes: NotesSettings, password: str) -> None:
    from carrel.notes.neo4j import Connection

    connection = Connection(notes.neo4j_url, user=notes.neo4j_user, password=password, database=notes.neo4j_database)
    try:
        await connection.read("RETURN 1 AS one")
    finally:
        await connection.close()
