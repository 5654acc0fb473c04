"""The MCP clients that Carrel can configure: where each keeps its configuration, and how it names things."""

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


@dataclass(frozen=True, slots=True)
class System:
    """What the user's own files are found by."""

    platform: str  # as sys.platform has it
    home: Path
    environment: Mapping[str, str]

    def folder(self, variable: str, otherwise: str) -> Path:
        given = self.environment.get(variable)
        return Path(given) if given and Path(given).is_absolute() else self.home / otherwise

    @property
    def applications(self) -> Path:
        """Where desktop programs keep what is the user's."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData/Roaming")
        return self.folder("XDG_CONFIG_HOME", ".config")


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    title: str
    key: str  # what holds its servers
    project_file: str | None
    user_file: Callable[[System], Path]
    next_step: str
    next_step_of_user: str | None = None
    types: bool = False  # an entry says its transport
    url_key: str = "url"
    token: str | None = None  # how a header takes a variable; None: it cannot
    replaced: str | None = None  # what it replaces in strings, by a variable's value
    programs_only: bool = False

    @property
    def is_toml(self) -> bool:
        return self.key == "mcp_servers"

    def file(self, folder: Path, of_user: bool, system: System) -> Path:
        if self.project_file is None or of_user:
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
                f"{self.title} takes addresses in its settings only (Connectors, Add custom connector): {server.url}"
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
                f"{self.title} puts no variables into headers: leave out --token-env and sign in when it asks, "
                f"or let it start the desk itself, without --url"
            )
        return {"headers": {"Authorization": f"Bearer {self.token.format(server.token_variable)}"}}

    def _check_words(self, *words: str) -> None:
        for word in words:
            if self.replaced is not None and re.search(self.replaced, word):
                raise UsageError(f"{self.title} would replace what follows the '$' in {word}")


def _of_zed(system: System) -> Path:
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
            "start claude anew; claude mcp list shows it",
            types=True,
            token="${{{}}}",  # noqa: S106 - where the client puts it in
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
            token="${{env:{}}}",  # noqa: S106 - where the client puts it in
            replaced=r"\$\{",
        ),
        Client(
            "cursor",
            "Cursor",
            "mcpServers",
            ".cursor/mcp.json",
            lambda system: system.home / ".cursor" / "mcp.json",
            "restart Cursor, and switch {name} on among its MCP servers",
            token="${{env:{}}}",  # noqa: S106 - where the client puts it in
            replaced=r"\$\{",
        ),
        Client(
            "codex",
            "Codex",
            "mcp_servers",
            None,
            lambda system: system.folder("CODEX_HOME", ".codex") / "config.toml",
            "start codex anew; codex mcp list shows it",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "mcpServers",
            ".gemini/settings.json",
            lambda system: system.home / ".gemini" / "settings.json",
            "start gemini in {folder} and trust the folder when asked; gemini mcp list shows it",
            "start gemini anew; gemini mcp list shows it",
            url_key="httpUrl",
            token="${{{}}}",  # noqa: S106 - where the client puts it in
            replaced=r"\$[\w{]",
        ),
        Client(
            "zed",
            "Zed",
            "context_servers",
            ".zed/settings.json",
            _of_zed,
            "open {folder} in Zed and trust it when asked; the settings of the agent panel show {name}",
            "nothing; Zed has read it, and the settings of the agent panel show {name}",
        ),
    )
}
