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

# Keys of an entry that Carrel sets. All others belong to the user.
_PROGRAM_KEYS = ("command", "args")
_ADDRESS_KEYS = ("url", "httpUrl", "headers", "bearer_token_env_var")


def connect(text: str, client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with Carrel's entry added or updated."""
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
    """Return the text without Carrel's entry."""
    path = (client.key, name)
    return _checked(text, (toml_edits if client.is_toml else json_edits).remove(text, path), client, name, None)


def shown(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """Return the entry as a file of its own."""
    path = (client.key, name)
    return toml_edits.put("", path, entry) if client.is_toml else json_edits.new_document(path, entry)


def _read(text: str, client: Client) -> dict[str, Any]:
    return (toml_edits if client.is_toml else json_edits).read(text)


def _updated_json(text: str, path: tuple[str, str], old: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    for key, value in entry.items():
        if key == "headers" and isinstance(old.get(key), dict):  # which may have other headers
            text = _put_json(text, (*path, key, "Authorization"), old[key], value["Authorization"])
        else:
            text = _put_json(text, (*path, key), old, value)
    for key in _obsolete_keys(old, entry):
        text = json_edits.remove(text, (*path, key))
    return text if "headers" in entry else json_edits.remove(text, (*path, "headers", "Authorization"))


def _put_json(text: str, path: tuple[str, ...], old: Mapping[str, Any], value: Any) -> str:
    return text if old.get(path[-1]) == value else json_edits.put(text, path, value)


def _updated_toml(text: str, path: tuple[str, str], old: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    for key, value in entry.items():
        if old.get(key) != value:
            text = toml_edits.set_key(text, path, key, value)
    for key in _obsolete_keys(old, entry):
        text = toml_edits.remove_key(text, path, key)
    return text


def _obsolete_keys(old: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """Return the keys of the entry's previous transport."""
    obsolete = _ADDRESS_KEYS if "command" in entry else (*_PROGRAM_KEYS, "bearer_token_env_var")
    return [key for key in obsolete if key in old and key not in entry]


def _checked(before: str, after: str, client: Client, name: str, entry: Mapping[str, Any] | None) -> str:
    """Return the edited text, once parsing it confirms that only the entry has changed.

    Edits are made on text, so an unusual layout could defeat them: better to refuse than to damage a file.
    """
    old = _read(before, client)
    try:
        new = _read(after, client)
    except Unreadable:  # such as a TOML inline table, which cannot be extended
        new = {}
    old_servers, new_servers = _servers(old, client), _servers(new, client)
    old_servers.pop(name, None)
    if not _agrees(new_servers.pop(name, None), entry) or (old, old_servers) != (new, new_servers):
        raise Unreadable(before, 0, f"{client.key} is written in a way that Carrel cannot edit; change it by hand")
    return after


def _servers(data: dict[str, Any], client: Client) -> dict[str, Any]:
    """Remove the servers from a document and return them."""
    return dict(table(data.pop(client.key, None)) or {})


def _agrees(found: Any, entry: Any) -> bool:
    """Whether everything in the entry is there; the user may have added other headers."""
    expected, actual = table(entry), table(found)
    if expected is None or actual is None:
        return found == entry
    return all(_agrees(actual.get(key), each) for key, each in expected.items())


_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file and its content, which is None if the file does not exist."""

    path: Path
    data: bytes | None

    @classmethod
    def read(cls, path: Path) -> "ConfigFile":
        try:
            return cls(path, path.read_bytes())
        except FileNotFoundError:
            return cls(path, None)
        except (OSError, RuntimeError) as error:
            raise CarrelError(f"cannot read {path}: {_reason(error)}") from error

    @property
    def text(self) -> str:
        """The content without a byte order mark; raises `CarrelError` if it is not UTF-8."""
        try:
            return (self.data or b"").decode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            raise CarrelError(f"{self.path} is not UTF-8 (byte {error.start + 1}); it was not changed") from None

    def edited(self, edit: Callable[[str], str]) -> "ConfigFile":
        """Return the edited file. A file that Carrel created and that becomes empty is deleted again."""
        try:
            before, after = self.text, edit(self.text)
        except Unreadable as error:
            place = f"{self.path}:{error.line}:{error.column}"
            raise CarrelError(f"{place}: {error.reason}; the file was not changed") from None
        if after == before:
            return self
        if self.data is None:
            return ConfigFile(self.path, f"{after}\n".encode())
        if not after and before.endswith("\n"):
            return ConfigFile(self.path, None)
        mark = _BOM if self.data.startswith(_BOM.encode()) else ""
        return ConfigFile(self.path, (mark + after).encode())

    def replace(self, old: "ConfigFile", now: datetime) -> Path | None:
        """Replace `old` on disk, unless it has changed meanwhile, and return the path of its backup."""
        try:
            return self._replace(old, now)
        except (OSError, RuntimeError) as error:
            raise CarrelError(f"cannot write {self.path}: {_reason(error)}") from error

    def _replace(self, old: "ConfigFile", now: datetime) -> Path | None:
        real = self.path.resolve()  # the target of a symbolic link is replaced, not the link
        if ConfigFile.read(self.path) != old:
            raise CarrelError(f"{self.path} has changed meanwhile and was not touched; run the command again")
        backup = None
        if old.data is not None:
            backup = _back_up(old.data, self.path, now, real.stat().st_mode)
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


def _back_up(data: bytes, path: Path, now: datetime, mode: int) -> Path:
    stamp = f"{path.name}.bak-{now:%Y%m%d-%H%M%S}"
    for number in range(100):
        backup = path.with_name(f"{stamp}-{number}" if number else stamp)
        try:
            _write(backup, data, mode)
        except FileExistsError:
            continue
        return backup
    raise FileExistsError(f"there are already a hundred backups {stamp}")


def _write(path: Path, data: bytes, mode: int | None) -> None:
    """Write a new file with the mode of the file that it replaces; its content is never readable to more than that."""
    number = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666 if mode is None else 0o600
    )
    with open(number, "wb") as file:
        if mode is not None:
            os.chmod(path, mode & 0o7777)
        file.write(data)
        file.flush()
        os.fsync(number)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
