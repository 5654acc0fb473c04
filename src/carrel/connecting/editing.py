"""Our entry in the text of a client's configuration: put there, brought up to date, and taken out."""

from collections.abc import Mapping
from typing import Any

from carrel.connecting import json_edits, toml_edits
from carrel.connecting.clients import Client
from carrel.connecting.documents import Unreadable, table

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
