"""Creates the sample workspace, and removes it when no demo uses it any more."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any

from carrel.code.knowledge import discoveries, sessions
from carrel.code.knowledge.discoveries import DiscoveryRepository
from carrel.common import instant
from carrel.content.bundle.importer import import_content
from carrel.errors import UsageError
from carrel.storage.database import Database, Session
from carrel.storage.schema_version import open_database
from carrel.tasks import AddTaskUseCase, CompleteTaskUseCase, InvalidTask, TaskRepository
from carrel.workspace import Workspace, find_workspace

NAME = "carrel-demo"
MARK = ".carrel-demo"
"""Marker file of a sample folder. Every demo that uses the folder holds a lock on it."""


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns `carrel-demo` in the user's cache folder, or a new temporary folder if there is none."""
    for place in _cache_places(environment):
        with suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return place / NAME
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-"))


def _cache_places(environment: Mapping[str, str]) -> Generator[Path]:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        given = Path(environment.get(variable, ""))
        if given.is_absolute():
            yield given
    with suppress(RuntimeError):  # there is no home folder
        yield Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def is_demo(folder: Path) -> bool:
    return (folder / MARK).is_file()


def refuse_other(folder: Path) -> None:
    """Refuses a folder that contains anything but a demo; raises `UsageError`."""
    if folder.is_dir() and any(folder.iterdir()) and not is_demo(folder):
        raise UsageError(f"--folder: {folder} is not empty and does not contain a demo; choose another folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--folder: {folder} is not a folder")


@contextmanager
def in_use(folder: Path, *, remove: bool) -> Generator[None]:
    """Locks the folder while the demo runs; afterwards removes it if `remove` is set and no other demo uses it."""
    with (folder / MARK).open("a", encoding="utf-8") as mark:
        _lock(mark, alone=False)
        try:
            yield
        finally:
            if remove and _lock(mark, alone=True):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(mark: IO[str], *, alone: bool) -> bool:
    if sys.platform == "win32":
        return alone  # there a folder in use cannot be removed anyway
    import fcntl

    try:
        fcntl.flock(mark, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


USER = "demo"
FOLDERS = ("notes", "planner")
SETTINGS = "carrel.toml"
HOURS_BETWEEN_NOTES = 11
"""Makes some notes recently changed, and most of them not."""

Tell = Callable[[str], None]


def open_sample(folder: Path, **server: Any) -> Workspace:
    """Opens the sample with its own settings only: the environment's, such as a database URL, do not apply."""
    return find_workspace(folder, {"server": server}, environment={})


def make_sample(folder: Path, tell: Tell) -> None:
    """Creates the sample in a folder that is empty or does not exist, atomically."""
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
    """Yields the path and content of every file, except compiled Python."""
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
        found = discoveries.checked(each["type"], each["content"], each["module"], ids.get(each.get("session", "")))
        if isinstance(found, discoveries.InvalidDiscovery):
            raise ValueError(str(found.faults))
        await DiscoveryRepository(session, code_base).add(found, instant(each["date"]))
