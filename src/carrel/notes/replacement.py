"""Giving a file of the vault other content, unless another program has changed it.

The new content is written to a temporary file beside the old one and flushed. Then the two change places in one step,
and what came out is compared with what was read before. If it differs, another program wrote in the meantime, and its
text goes back to where it was: no text is ever overwritten that was not read. Where the file system cannot exchange
files, the content is compared immediately before the file is replaced.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from carrel.directory import UNSUPPORTED, Directory, Folder, LinkFound, split_path
from carrel.notes.vault import Stamp, read_descriptor, temporary_name


class FileChanged(Exception):
    """Another program has changed a file since it was read."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A file's place in the vault, and the name of its temporary file."""

    folder: str
    name: str
    temporary: str

    @classmethod
    def at(cls, place: str) -> "Slot":
        """Return the slot of a path, with a new temporary name."""
        folder, name = split_path(place)
        return cls(folder, name, temporary_name(name))

    @property
    def place(self) -> str:
        """The path from the vault."""
        return self.folder + self.name


class Replacement:
    """The replacement of one file, whose folder is held open. Methods raise `OSError`."""

    def __init__(self, directory: Directory, slot: Slot) -> None:
        self._folder = directory.folder(slot.folder)
        self._name = slot.name
        self._temporary = slot.temporary

    def __enter__(self) -> "Replacement":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.close()

    @property
    def current(self) -> bytes | None:
        """The file's content; None if there is no file."""
        return read_content(self._folder, self._name)

    @property
    def staged(self) -> bytes | None:
        """The temporary file's content: the new text, or after an exchange the old one."""
        return read_content(self._folder, self._temporary)

    def stage(self, content: bytes, mode: int | None = None) -> Stamp:
        """Write and flush the temporary file, with the permissions of the existing file unless others are given."""
        with suppress(FileNotFoundError):
            mode = mode or stat.S_IMODE(self._folder.lstat(self._name).st_mode)
        return write_durably(self._folder, self._temporary, content, mode)

    def swap(self, before: bytes, after: bytes) -> None:
        """Exchange the staged file `after` with `before`, which is staged then.

        Raises `FileChanged`, and then the file is as the other program has left it.
        """
        if self.current != before:  # the exchange would find out, too; but then others see it and what comes back
            raise FileChanged(self._name)
        try:
            self._folder.exchange(self._temporary, self._name)
        except FileNotFoundError as error:
            raise FileChanged(self._name) from error
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._folder.replace(self._temporary, self._name)
            return
        if self.staged != before:
            self.undo_exchange(after)
            raise FileChanged(self._name)

    def undo_exchange(self, put: bytes | None) -> None:
        """Return the file that `put` was exchanged for to its place, unless another program has saved a newer one.

        If what comes out is not what was last put there, it is newer still, and the two are exchanged again.
        """
        while True:
            held = self.staged
            try:
                self._folder.exchange(self._temporary, self._name)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    return self._folder.move(self._temporary, self._folder, self._name)
                continue
            if self.staged == put:
                return None
            put = held

    def restore(self, before: bytes, after: bytes) -> None:
        """Undo a swap, unless another program has changed the file since."""
        if self.staged is not None:
            if self.current == after:
                self.undo_exchange(after)
        elif self.current == after:  # it was replaced without an exchange
            self.stage(before)
            self._folder.replace(self._temporary, self._name)
        self.discard()

    def discard(self) -> None:
        """Remove the temporary file."""
        self._folder.discard(self._temporary)

    def publish(self) -> None:
        """Rename the temporary file to the note's name; raises `FileExistsError` if that is taken."""
        self._folder.move(self._temporary, self._folder, self._name)

    def sync(self) -> None:
        """Flush the folder."""
        self._folder.sync()


def read_content(folder: Folder, name: str) -> bytes | None:
    """Return a regular file's content; None if there is none."""
    try:
        descriptor = folder.open(name)
    except (FileNotFoundError, LinkFound):
        return None
    try:
        facts = os.fstat(descriptor)
        return read_descriptor(descriptor, facts.st_size) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(descriptor)


def write_durably(folder: Folder, name: str, content: bytes, mode: int | None = None) -> Stamp:
    """Write and flush a new file; if that fails, leave none behind."""
    descriptor = folder.create(name)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            return Stamp.of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError:
        folder.unlink(name)
        raise
