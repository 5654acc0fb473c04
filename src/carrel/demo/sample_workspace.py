"""The sample workspace: created atomically, and removed when the last demo that uses it ends.

Every demo holds a shared lock on the folder's marker file. A demo that ends tries to lock it exclusively, and removes
the folder only if that succeeds: then no other demo uses it.
"""

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
MARKER = ".carrel-demo"
"""Name of the marker file in a sample folder."""


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return `carrel-demo` in the user's cache folder, or a new temporary folder if there is none."""
    for cache in _cache_folders(environment):
        with suppress(OSError):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(cache, os.W_OK | os.X_OK):
                return cache / NAME
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-"))


def _cache_folders(environment: Mapping[str, str]) -> Generator[Path]:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        folder = Path(environment.get(variable, ""))
        if folder.is_absolute():
            yield folder
    with suppress(RuntimeError):  # there is no home folder
        yield Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def is_demo(folder: Path) -> bool:
    return (folder / MARKER).is_file()


def require_demo_folder(folder: Path) -> None:
    """Raise `UsageError` if the folder contains anything but a demo."""
    if folder.is_dir() and any(folder.iterdir()) and not is_demo(folder):
        raise UsageError(f"--folder: {folder} is not empty and does not contain a demo; choose another folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--folder: {folder} is not a folder")


@contextmanager
def in_use(folder: Path, *, remove: bool) -> Generator[None]:
    """Hold the folder's lock while the demo runs, then remove the folder, if asked to and no other demo uses it."""
    with (folder / MARKER).open("a", encoding="utf-8") as marker:
        _lock(marker, exclusive=False)
        try:
            yield
        finally:
            if remove and _lock(marker, exclusive=True):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(marker: IO[str], *, exclusive: bool) -> bool:
    if sys.platform == "win32":
        return exclusive  # Windows does not remove a folder that is in use
    import fcntl

    try:
        fcntl.flock(marker, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


USER = "demo"
FILE_TREES = ("notes", "planner")
SETTINGS = "carrel.toml"
HOURS_BETWEEN_NOTES = 11
"""Spacing of the notes' modification times, so that only some of them are recent."""

OnStep = Callable[[str], None]


def open_sample(folder: Path, **server: Any) -> Workspace:
    """Open the sample with its own settings only: those of the environment, such as a database URL, do not apply."""
    return find_workspace(folder, {"server": server}, environment={})


def make_sample(folder: Path, on_step: OnStep) -> None:
    """Create the sample in a folder that is empty or does not exist, atomically."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"--folder: cannot write in {folder.parent}: {error.strerror}") from error
    try:
        _fill(staging, on_step)
        if folder.exists():
            folder.rmdir()
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fill(folder: Path, on_step: OnStep) -> None:
    sample = files("carrel.demo") / "sample"
    on_step("writing notes and code")
    for name in FILE_TREES:
        for path, content in _walk(sample / name, name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    _date_notes(folder / "notes")
    (folder / SETTINGS).write_bytes((sample / SETTINGS).read_bytes())
    workspace = open_sample(folder)
    on_step("importing content")
    with as_file(sample / "content.json.gz") as bundle:
        import_content(workspace.location, [bundle])
    on_step("adding tasks and discoveries")
    asyncio.run(_add_to_database(workspace, *(json.loads((sample / name).read_bytes()) for name in _DATABASE_FILES)))
    (folder / MARKER).touch()


_DATABASE_FILES = ("tasks.json", "knowledge.json")


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of every file, except compiled Python."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
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


async def _add_to_database(workspace: Workspace, tasks: list[dict[str, Any]], knowledge: dict[str, Any]) -> None:
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
        summary = sessions.validated(each["content"], each["title"], each["module"])
        if isinstance(summary, sessions.InvalidSession):
            raise ValueError(str(summary.errors))
        added = await sessions.SessionRepository(session, code_base).add(summary, instant(each["date"]))
        ids[each["key"]] = added.id
    for each in knowledge["discoveries"]:
        found = discoveries.validated(each["type"], each["content"], each["module"], ids.get(each.get("session", "")))
        if isinstance(found, discoveries.InvalidDiscovery):
            raise ValueError(str(found.errors))
        await DiscoveryRepository(session, code_base).add(found, instant(each["date"]))
