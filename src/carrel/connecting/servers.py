"""What a client is told of: a program that it starts, or an address that it connects to."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from carrel.errors import UsageError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OF_UVX = ("archive-v0", "environments-v2")  # folders of uv's cache that hold what uvx runs


@dataclass(frozen=True, slots=True)
class Program:
    """Started by the client, and spoken to over stdin and stdout."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """Connected to over HTTP, with the token that a variable of the client's environment holds."""

    url: str
    token_variable: str | None = None


Server = Program | Address


def this_program(argv0: str, executable: str, prefix: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words that start the `carrel` that runs now, also from another folder and tomorrow."""
    if any(part in _OF_UVX for part in Path(prefix).parts):
        beside = Path(environment.get("UV", "uv")).with_name("uvx.exe" if os.name == "nt" else "uvx")
        return (str(beside) if beside.is_absolute() and beside.exists() else "uvx", "carrel")
    if Path(argv0).stem == "carrel":
        found = shutil.which(os.path.abspath(argv0)) if os.path.dirname(argv0) else shutil.which(argv0)
        if found is not None:
            return (os.path.abspath(found),)
    beside = shutil.which("carrel", path=os.path.dirname(executable))
    return (beside,) if beside is not None else (executable, "-m", "carrel")


def serving(words: Sequence[str], folder: Path, options: Sequence[str]) -> Program:
    command, *arguments = (*words, "serve", "--workspace", str(folder), *options)
    for word in (command, *arguments):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r} is not UTF-8, which configuration files are") from None
    return Program(command, tuple(arguments))


def address(url: str, token_variable: str | None) -> Address:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"--url: {error}") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", url):
        raise UsageError("--url must be like https://desk.example.com/mcp")
    if parts.username is not None or parts.password is not None:
        raise UsageError("--url must hold no secret; name a variable that does, with --token-env")
    if token_variable is not None:
        if _VARIABLE.fullmatch(token_variable) is None:
            raise UsageError("--token-env takes the name of a variable, such as CARREL_TOKEN, never the token itself")
        if parts.scheme == "http" and host not in _LOOPBACK:
            raise UsageError("--url must begin with https:// where a token is sent")
    return Address(url, token_variable)
