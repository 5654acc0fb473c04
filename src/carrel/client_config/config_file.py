"""A client's configuration file: Carrel's entry is added, updated or removed, and a copy of the old file is kept."""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from carrel.client_config import json_edits, toml_edits
from carrel.client_config.clients import Client
from carrel.client_config.document_parser import Unreadable, table
from carrel.errors import CarrelError

# What an entry says of the way to the server. All else in it is the user's.
_OF_PROGRAM = ("command", "args")
_OF_ADDRESS = ("url", "httpUrl", "headers", "bearer_token_env_var")


def connect(text: str, client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """The text with our entry, otherwise as it is."""
    servers = table(_read(text, client).get(client.key)) or {}
    old = table(servers.get(name))
    path = (client.key, name)
    if old is not None:
        update = _updated_toml if client.is_toml else _updated_json
        after = update(text, path, old, entry)
    else:
        after = (toml_edits if client.is_toml else json_edits).put(text, path, entry)
    return _checked(text, after, client, name, entry)


def disconnect(text: str, client: Client, name: str) -> str:
    """The text without our entry, otherwise as it is."""
    path = (client.key, name)
    return _checked(text, (toml_edits if client.is_toml else json_edits).take(text, path), client, name, None)


def shown(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """The entry in a file of its own."""
    path = (client.key, name)
    return toml_edits.put("", path, entry) if client.is_toml else json_edits.new_document(path, entry)


def _read(text: str, client: Client) -> dict[str, Any]:
    return (toml_edits if client.is_toml else json_edits).read(text)


def _updated_json(text: str, path: tuple[str, str], old: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    for key, value in entry.items():
        if key == "headers" and isinstance(old.get(key), dict):  # others may stand there
            text = _put_json(text, (*path, key, "Authorization"), old[key], value["Authorization"])
        else:
            text = _put_json(text, (*path, key), old, value)
    for key in _left_over(old, entry):
        text = json_edits.take(text, (*path, key))
    return text if "headers" in entry else json_edits.take(text, (*path, "headers", "Authorization"))


def _put_json(text: str, path: tuple[str, ...], old: Mapping[str, Any], value: Any) -> str:
    return text if old.get(path[-1]) == value else json_edits.put(text, path, value)


def _updated_toml(text: str, path: tuple[str, str], old: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    for key, value in entry.items():
        if old.get(key) != value:
            text = toml_edits.set_key(text, path, key, value)
    for key in _left_over(old, entry):
        text = toml_edits.drop_key(text, path, key)
    return text


def _left_over(old: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """What an entry said of another way to the server."""
    gone = _OF_ADDRESS if "command" in entry else (*_OF_PROGRAM, "bearer_token_env_var")
    return [key for key in gone if key in old and key not in entry]


def _checked(before: str, after: str, client: Client, name: str, entry: Mapping[str, Any] | None) -> str:
    """What was edited says what it should, and all else what it said."""
    old = _read(before, client)
    try:
        new = _read(after, client)
    except Unreadable:  # a table was closed to new ones, say
        new = {}
    was, is_now = _servers(old, client), _servers(new, client)
    was.pop(name, None)
    if not _agrees(is_now.pop(name, None), entry) or (old, was) != (new, is_now):
        raise Unreadable(before, 0, f"{client.key} is written in a way that cannot be edited here; change it by hand")
    return after


def _servers(data: dict[str, Any], client: Client) -> dict[str, Any]:
    """What holds the servers, taken out of the rest."""
    return dict(table(data.pop(client.key, None)) or {})


def _agrees(found: Any, entry: Any) -> bool:
    """Whether all that the entry says is there; headers of the user's may stand beside ours."""
    wanted, there = table(entry), table(found)
    if wanted is None or there is None:
        return found == entry
    return all(_agrees(there.get(key), each) for key, each in wanted.items())


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
