"""Making the sample workspace."""

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from carrel.code.knowledge import discovery, sessions
from carrel.code.knowledge.discoveries import DiscoveryRepository
from carrel.code.knowledge.times import instant
from carrel.content.bundle.importing import import_content
from carrel.demo.places import MARK
from carrel.errors import UsageError
from carrel.storage.database import Database, Session
from carrel.storage.opening import open_database
from carrel.tasks import AddTaskUseCase, CompleteTaskUseCase, InvalidTask, TaskRepository
from carrel.workspace import Workspace, find_workspace

USER = "demo"
FOLDERS = ("notes", "planner")
SETTINGS = "carrel.toml"
HOURS_BETWEEN_NOTES = 11
"""So that some notes have changed this week and most have not."""

Tell = Callable[[str], None]


def open_sample(folder: Path, **server: Any) -> Workspace:
    """As its own settings say: nothing of whoever tries it, such as the address of a database, may reach it."""
    return find_workspace(folder, {"server": server}, environment={})


def make_sample(folder: Path, tell: Tell) -> None:
    """Fill a folder that is empty or does not exist: as a whole, or not at all."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"--folder: cannot write in {folder.parent}: {error.strerror}") from error
    try:
        _fill(part, tell)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fill(folder: Path, tell: Tell) -> None:
    sample = files("carrel.demo") / "sample"
    tell("writing notes and code")
    for name in FOLDERS:
        for path, content in _walk(sample / name, name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    _date_notes(folder / "notes")
    (folder / SETTINGS).write_bytes((sample / SETTINGS).read_bytes())
    workspace = open_sample(folder)
    tell("importing content")
    with as_file(sample / "content.json.gz") as bundle:
        import_content(workspace.location, [bundle])
    tell("adding tasks and discoveries")
    asyncio.run(_write_down(workspace, *(json.loads((sample / name).read_bytes()) for name in _WRITTEN)))
    (folder / MARK).touch()


_WRITTEN = ("tasks.json", "knowledge.json")


def _walk(place: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Every file; without what Python has compiled where the package lies."""
    for each in sorted(place.iterdir(), key=lambda each: each.name):
        below = f"{path}/{each.name}"
        if each.is_dir():
            if each.name != "__pycache__":
                yield from _walk(each, below)
        else:
            yield below, each.read_bytes()


def _date_notes(vault: Path) -> None:
    now = time.time()
    for number, path in enumerate(sorted(vault.rglob("*.md"), key=lambda path: path.stem, reverse=True)):
        moment = now - number * HOURS_BETWEEN_NOTES * 3600
        os.utime(path, (moment, moment))


async def _write_down(workspace: Workspace, tasks: list[dict[str, Any]], knowledge: dict[str, Any]) -> None:
    database = await open_database(workspace.location, pool_size=1)
    try:
        await _add_tasks(database, tasks)
        await database.write(lambda session: _add_knowledge(session, workspace.code_base, knowledge))
    finally:
        await database.close()


async def _add_tasks(database: Database, tasks: list[dict[str, Any]]) -> None:
    async def work(session: Session) -> None:
        repository = TaskRepository(session, USER)
        for task in tasks:
            added = await AddTaskUseCase(repository).execute(task["title"], task.get("description"))
            if isinstance(added, InvalidTask):
                raise ValueError(added.reason)
            if task.get("done"):
                await CompleteTaskUseCase(repository).execute(added.id)

    await database.write(work)


async def _add_knowledge(session: Session, code_base: str, knowledge: dict[str, Any]) -> None:
    ids: dict[str, str] = {}
    for each in knowledge["sessions"]:
        summary = sessions.checked(each["content"], each["title"], each["module"])
        if isinstance(summary, sessions.InvalidSession):
            raise ValueError(str(summary.faults))
        kept = await sessions.SessionRepository(session, code_base).add(summary, instant(each["date"]))
        ids[each["key"]] = kept.id
    for each in knowledge["discoveries"]:
        found = discovery.checked(each["type"], each["content"], each["module"], ids.get(each.get("session", "")))
        if isinstance(found, discovery.InvalidDiscovery):
            raise ValueError(str(found.faults))
        await DiscoveryRepository(session, code_base).add(found, instant(each["date"]))
