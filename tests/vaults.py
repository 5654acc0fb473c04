"""Vaults for tests: files in a folder, and a store of notes over them."""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path

from carrel.notes.file_store import FileStore
from carrel.notes.journal import Journal
from carrel.notes.links import rewritten
from carrel.notes.note_store import NoteView, Refusal
from carrel.notes.vault import TEMPORARY_SUFFIX, Vault

NOBODY = 65534


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Put files into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def contents(vault: Path) -> dict[str, bytes]:
    """All files below a folder, Carrel's own aside."""
    return {
        path.relative_to(vault).as_posix(): path.read_bytes()
        for path in sorted(vault.rglob("*"))
        if path.is_file() and ".carrel" not in path.relative_to(vault).parts
    }


def leftovers(folder: Path) -> list[Path]:
    """What only a crash should leave behind, and only until the next start."""
    own = folder / ".carrel" / "notes"
    return [*folder.rglob(f"*{TEMPORARY_SUFFIX}"), *own.glob("journal.json"), *own.glob("writing")]


@asynccontextmanager
async def opened(folder: Path, *, watch: bool = False, ignore: tuple[str, ...] = ()) -> AsyncGenerator[FileStore]:
    """The store over `folder`/notes, indexed."""
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    store = FileStore(Vault(folder / "notes", ignore), folder / ".carrel")
    try:
        await store.open(watch=watch)
        await store.index.wait_until_ready(no_timeout=True)
        yield store
    finally:
        await store.close()


def journal(folder: Path) -> Journal:
    """That of the vault at `folder`/notes, which need not be there."""
    for each in ("notes", ".carrel/notes"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    return Journal(Vault(folder / "notes"), folder / ".carrel", rewritten)


def note(outcome: NoteView | Refusal | None) -> NoteView:
    assert isinstance(outcome, NoteView), outcome
    return outcome


def refused(outcome: NoteView | Refusal | None) -> str:
    """The code of what must be a refusal."""
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


@contextmanager
def without_privileges() -> Generator[Path]:
    """A folder of one's own, as somebody whom permissions hold back; root is nobody meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="carrel-"))
    folder.chmod(0o755)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            import_module("importlib.readers")  # nobody may not be able to read root's Python
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        for path in folder.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(folder)
