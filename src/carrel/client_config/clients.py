"""The MCP clients that Carrel can configure: the locations and formats of their configuration files."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from carrel.errors import UsageError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_UVX_CACHE_FOLDERS = ("archive-v0", "environments-v2")  # where uv's cache keeps the environments that uvx runs


@dataclass(frozen=True, slots=True)
class Program:
    """A server that the client starts and talks to over stdio."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """A server that the client connects to over HTTP, with the token in a variable of its environment."""

    url: str
    token_variable: str | None = None


Server = Program | Address


def this_program(argv0: str, executable: str, prefix: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command line that starts this installation of Carrel from any folder, also after a reboot.

    uvx runs programs from a cache that it prunes, so its environments are not referred to; uvx itself is.
    """
    if any(part in _UVX_CACHE_FOLDERS for part in Path(prefix).parts):
        beside = Path(environment.get("UV", "uv")).with_name("uvx.exe" if os.name == "nt" else "uvx")
        return (str(beside) if beside.is_absolute() and beside.exists() else "uvx", "carrel")
    if Path(argv0).stem == "carrel":
        found = shutil.which(os.path.abspath(argv0)) if os.path.dirname(argv0) else shutil.which(argv0)
        if found is not None:
            return (os.path.abspath(found),)
    beside = shutil.which("carrel", path=os.path.dirname(executable))
    return (beside,) if beside is not None else (executable, "-m", "carrel")


def serve_program(program: Sequence[str], folder: Path, options: Sequence[str]) -> Program:
    command, *arguments = (*program, "serve", "--workspace", str(folder), *options)
    for word in (command, *arguments):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r} cannot be written to a UTF-8 configuration file") from None
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
        raise UsageError("--url must not contain a password; pass --token-env with the variable that holds a token")
    if token_variable is not None:
        if _VARIABLE.fullmatch(token_variable) is None:
            raise UsageError("--token-env takes the name of a variable, such as CARREL_TOKEN, never the token itself")
        if parts.scheme == "http" and host not in _LOOPBACK:
            raise UsageError("--url must begin with https:// if a token is sent")
    return Address(url, token_variable)


@dataclass(frozen=True, slots=True)
class System:
    """The platform, home folder, and environment by which the user's configuration files are located."""

    platform: str  # as sys.platform has it
    home: Path
    environment: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        folder = self.environment.get(variable)
        return Path(folder) if folder and Path(folder).is_absolute() else self.home / default

    @property
    def applications(self) -> Path:
        """The folder in which desktop applications keep user data."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData/Roaming")
        return self.folder("XDG_CONFIG_HOME", ".config")


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client, and how its configuration file describes servers."""

    name: str
    title: str
    key: str  # of the object or table that holds the servers
    project_file: str | None
    user_file: Callable[[System], Path]
    next_step: str
    user_next_step: str | None = None
    types: bool = False  # whether an entry has the type of its transport
    url_key: str = "url"
    token: str | None = None  # template that puts a variable into a header; None if the client has none
    replaced: str | None = None  # pattern of the placeholders that the client substitutes in strings
    programs_only: bool = False

    @property
    def is_toml(self) -> bool:
        return self.key == "mcp_servers"

    def file(self, folder: Path, user_scope: bool, system: System) -> Path:
        if self.project_file is None or user_scope:
            return self.user_file(system)
        return folder / self.project_file

    def entry(self, server: Server) -> dict[str, Any]:
        if isinstance(server, Program):
            self._check_words(server.command, *server.arguments)
            kind = {"type": "stdio"} if self.types else {}
            return {**kind, "command": server.command, "args": list(server.arguments)}
        self._check_words(server.url)
        if self.programs_only:
            raise UsageError(
                f"{self.title} only accepts URLs in its settings, under Connectors, Add custom connector: {server.url}"
            )
        kind = {"type": "http"} if self.types else {}
        return {**kind, self.url_key: server.url, **self._token(server)}

    def _token(self, server: Address) -> dict[str, Any]:
        if server.token_variable is None:
            return {}
        if self.is_toml:
            return {"bearer_token_env_var": server.token_variable}
        if self.token is None:
            raise UsageError(
                f"{self.title} cannot send a token from a variable: leave out --token-env and sign in when it asks, "
                f"or leave out --url so that it starts the desk itself"
            )
        return {"headers": {"Authorization": f"Bearer {self.token.format(server.token_variable)}"}}

    def _check_words(self, *words: str) -> None:
        for word in words:
            if self.replaced is not None and re.search(self.replaced, word):
                raise UsageError(f"{self.title} would substitute the '$' placeholder in {word}")


def _zed_user_file(system: System) -> Path:
    if system.platform == "win32":
        return system.applications / "Zed" / "settings.json"
    return system.folder("XDG_CONFIG_HOME", ".config") / "zed" / "settings.json"  # on macOS, too


CLIENTS = {
    each.name: each
    for each in (
        Client(
            "claude-code",
            "Claude Code",
            "mcpServers",
            ".mcp.json",
            lambda system: system.folder("CLAUDE_CONFIG_DIR", ".") / ".claude.json",
            "start claude in {folder} and approve the server when asked; claude mcp list shows it",
            "restart claude; claude mcp list shows it",
            types=True,
            token="${{{}}}",  # noqa: S106 - a placeholder that the client substitutes
            replaced=r"\$\{",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            "mcpServers",
            None,
            lambda system: system.applications / "Claude" / "claude_desktop_config.json",
            "quit Claude Desktop and start it again; Settings, Developer shows it",
            programs_only=True,
        ),
        Client(
            "vscode",
            "VS Code",
            "servers",
            ".vscode/mcp.json",
            lambda system: system.applications / "Code" / "User" / "mcp.json",
            "in VS Code run the command MCP: List Servers, start {name} and trust it when asked",
            types=True,
            token="${{env:{}}}",  # noqa: S106 - a placeholder that the client substitutes
            replaced=r"\$\{",
        ),
        Client(
            "cursor",
            "Cursor",
            "mcpServers",
            ".cursor/mcp.json",
            lambda system: system.home / ".cursor" / "mcp.json",
            "restart Cursor, and enable {name} in its list of MCP servers",
            token="${{env:{}}}",  # noqa: S106 - a placeholder that the client substitutes
            replaced=r"\$\{",
        ),
        Client(
            "codex",
            "Codex",
            "mcp_servers",
            None,
            lambda system: system.folder("CODEX_HOME", ".codex") / "config.toml",
            "restart codex; codex mcp list shows it",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "mcpServers",
            ".gemini/settings.json",
            lambda system: system.home / ".gemini" / "settings.json",
            "start gemini in {folder} and trust the folder when asked; gemini mcp list shows it",
            "restart gemini; gemini mcp list shows it",
            url_key="httpUrl",
            token="${{{}}}",  # noqa: S106 - a placeholder that the client substitutes
            replaced=r"\$[\w{]",
        ),
        Client(
            "zed",
            "Zed",
            "context_servers",
            ".zed/settings.json",
            _zed_user_file,
            "open {folder} in Zed and trust it when asked; the agent panel's settings show {name}",
            "nothing; Zed has already read it, and the agent panel's settings show {name}",
        ),
    )
}
