"""A client's configuration file: read, and replaced as a whole with a copy of the old one beside it."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from carrel.connecting.documents import Unreadable
from carrel.errors import CarrelError

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    path: Path
    data: bytes | None  # None: there is no such file

    @classmethod
    def read(cls, path: Path) -> "ConfigFile":
        try:
            return cls(path, path.read_bytes())
        except FileNotFoundError:
            return cls(path, None)
        except (OSError, RuntimeError) as error:
            raise CarrelError(f"cannot read {path}: {_why(error)}") from error

    @property
    def text(self) -> str:
        """Without the mark that some editors begin a file with."""
        try:
            return (self.data or b"").decode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            raise CarrelError(f"{self.path} is not UTF-8 (byte {error.start + 1}), and is left as it is") from None

    def edited(self, edit: Callable[[str], str]) -> "ConfigFile":
        """The file as it shall be. What is nothing but our own goes away, and a new one ends with a newline."""
        try:
            before, after = self.text, edit(self.text)
        except Unreadable as error:
            place = f"{self.path}:{error.line}:{error.column}"
            raise CarrelError(f"{place}: {error.reason}; the file is left as it is") from None
        if after == before:
            return self
        if self.data is None:
            return ConfigFile(self.path, f"{after}\n".encode())
        if not after and before.endswith("\n"):
            return ConfigFile(self.path, None)
        mark = _BOM if self.data.startswith(_BOM.encode()) else ""
        return ConfigFile(self.path, (mark + after).encode())

    def replace(self, old: "ConfigFile", now: datetime) -> Path | None:
        """Put this in the place of `old`, which must be there still; where the copy of that is."""
        try:
            return self._replace(old, now)
        except (OSError, RuntimeError) as error:
            raise CarrelError(f"cannot write {self.path}: {_why(error)}") from error

    def _replace(self, old: "ConfigFile", now: datetime) -> Path | None:
        real = self.path.resolve()  # a link stays a link
        if ConfigFile.read(self.path) != old:
            raise CarrelError(f"{self.path} has changed meanwhile, and is left as it is; run this again")
        backup = None
        if old.data is not None:
            backup = _copy(old.data, self.path, now, real.stat().st_mode)
        if self.data is None:
            real.unlink()
            return backup
        real.parent.mkdir(parents=True, exist_ok=True)
        staged = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
        try:
            _write(staged, self.data, None if old.data is None else real.stat().st_mode)
            os.replace(staged, real)
        finally:
            staged.unlink(missing_ok=True)
        return backup


def _copy(data: bytes, path: Path, now: datetime, mode: int) -> Path:
    stamp = f"{path.name}.bak-{now:%Y%m%d-%H%M%S}"
    for number in range(100):
        backup = path.with_name(f"{stamp}-{number}" if number else stamp)
        try:
            _write(backup, data, mode)
        except FileExistsError:
            continue
        return backup
    raise FileExistsError(f"there are a hundred copies {stamp}")


def _write(path: Path, data: bytes, mode: int | None) -> None:
    """A new file, with the mode of the one that it stands for."""
    number = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666 if mode is None else 0o600
    )
    with open(number, "wb") as file:
        if mode is not None:
            os.chmod(path, mode & 0o7777)
        file.write(data)
        file.flush()
        os.fsync(number)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
