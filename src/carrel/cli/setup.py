"""Setup of a workspace and its clients: `carrel init`, `carrel connect`, and `carrel completions`."""

import difflib
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from carrel.cli.terminal import workspace_option
from carrel.client_config.clients import CLIENTS, Client, System
from carrel.errors import CarrelError, UsageError
from carrel.settings import FILE_NAME, all_settings

if TYPE_CHECKING:
    from carrel.client_config.clients import Server
    from carrel.client_config.config_file import ConfigFile


def write_settings_file(folder: Path) -> Path:
    path = folder / FILE_NAME
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(settings_template())
    except FileExistsError:
        raise UsageError(f"{path} already exists; it was not changed") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return path


def settings_template() -> str:
    lines = [
        "# Carrel's settings. Every line below is commented out and shows the default.",
        "# Each key can also be given in the environment, as CARREL_SECTION_KEY; the command line beats both.",
    ]
    section = ""
    for setting in all_settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        choices = f" One of: {', '.join(setting.choices)}." if setting.choices else ""
        lines += [f"# {setting.doc}{choices}", f"# {setting.key} = {_toml(setting.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Format a value as TOML: its booleans, integers, strings, and lists of strings are written as in JSON."""
    return json.dumps(value)


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@click.command()
@workspace_option
@click.option("--user", "user_scope", is_flag=True, help="Use your user configuration, for all projects.")
@click.option("--url", metavar="URL", help="Connect to a desk served over HTTP instead of starting this one.")
@click.option("--token-env", metavar="NAME", help="With --url: the environment variable that holds the access token.")
@click.option("--name", default="carrel", show_default=True, metavar="NAME", help="The desk's name in the client.")
@click.option("--print", "print_only", is_flag=True, help="Print the entry without writing it.")
@click.option("--remove", is_flag=True, help="Remove the entry.")
@click.option("--yes", is_flag=True, help="Write without asking for confirmation.")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.argument("options", nargs=-1, metavar="[-- SERVE OPTIONS]")
def connect(
    workspace: Path | None,
    user_scope: bool,
    url: str | None,
    token_env: str | None,
    name: str,
    print_only: bool,
    remove: bool,
    yes: bool,
    client: str,
    options: tuple[str, ...],
) -> None:
    """Register this desk with an MCP client.

    CLIENT is claude-code, claude-desktop, vscode, cursor, codex, gemini, or zed. The client then starts the desk of the
    current folder itself, with the carrel serve options that follow --. The entry goes into the project's configuration
    file, if the client has one (Claude Desktop and Codex do not). You see the change before it is written; the rest of
    the file is left unchanged, and a backup is saved next to it.

    \b
    carrel connect claude-code
    carrel connect codex -- --user ana
    carrel connect vscode --url https://desk.example.com/mcp --token-env DESK_TOKEN
    """
    from carrel.client_config import config_file
    from carrel.client_config.config_file import ConfigFile
    from carrel.workspace.folder import find_folder

    chosen = CLIENTS[client]
    if _NAME.fullmatch(name) is None:
        raise UsageError("--name must be a letter and then at most 63 letters, digits, '-' or '_'")
    if remove and (print_only or url is not None or token_env is not None or options):
        raise UsageError("--remove can only be combined with --user, --name, --workspace, and --yes")
    entry = {} if remove else chosen.entry(_server(workspace, url, token_env, options))
    if print_only:
        click.echo(config_file.shown(chosen, name, entry))
        return
    folder = find_folder(workspace)
    system = System(sys.platform, Path.home(), os.environ)
    old = ConfigFile.read(chosen.file(folder, user_scope, system))
    new = old.edited(
        lambda text: (
            config_file.disconnect(text, chosen, name) if remove else config_file.connect(text, chosen, name, entry)
        )
    )
    if new == old:
        click.echo(f"not connected: {old.path} has no {name}" if remove else f"already connected: {old.path}")
        return
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"not a terminal: pass --yes to write {old.path}, or --print to show the entry")
    for line in _diff(old, new):
        click.echo(line)
    if not yes and not click.confirm("Write?", default=True):
        raise CarrelError(f"{old.path} was not changed")
    backup = new.replace(old, datetime.now())  # as the clock of the user shows it
    done = "removed" if new.data is None else "wrote"
    click.echo(f"{done} {old.path}" + ("" if backup is None else f"; the old one is {backup.name}"))
    click.echo(_next_step(chosen, user_scope, folder, name, token_env, remove))


def _server(workspace: Path | None, url: str | None, token_env: str | None, options: tuple[str, ...]) -> "Server":
    from carrel.cli.app import serve
    from carrel.client_config.clients import address, serve_program, this_program
    from carrel.workspace import find_workspace

    if url is not None:
        if options:
            raise UsageError("carrel serve options cannot be combined with --url: that desk is already running")
        return address(url, token_env)
    if token_env is not None:
        raise UsageError("--token-env requires --url")
    serve_options = serve.make_context("serve", list(options), parent=click.get_current_context().parent).params
    if serve_options["http"] or serve_options["workspace"] is not None:
        raise UsageError("--http and --workspace cannot follow --")
    folder = find_workspace(workspace).folder  # report invalid settings now rather than in the client's log
    return serve_program(this_program(sys.argv[0], sys.executable, sys.prefix, os.environ), folder, options)


def _diff(old: "ConfigFile", new: "ConfigFile") -> Iterator[str]:
    before, after = (each.text.splitlines(keepends=True) for each in (old, new))
    path = str(old.path)
    for line in difflib.unified_diff(before, after, path, path):
        yield _CONTROL.sub("\ufffd", line.rstrip("\r\n"))
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _next_step(client: Client, user_scope: bool, folder: Path, name: str, token_env: str | None, remove: bool) -> str:
    if remove:
        return f"next: {client.title} drops it when you restart it"
    uses_user_file = user_scope or client.project_file is None
    step = (client.user_next_step if uses_user_file else None) or client.next_step
    token = "" if token_env is None else f"set {token_env} in the environment that starts {client.title}, then "
    return f"next: {token}{step.format(folder=folder, name=name)}"


_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), metavar="SHELL")
def completions(shell: str) -> None:
    """Print a shell completion script.

    SHELL is bash, zsh, or fish. Save the script where your shell looks for completions:

    \b
    bash:  carrel completions bash > ~/.local/share/bash-completion/completions/carrel
    zsh:   carrel completions zsh > "${fpath[1]}/_carrel"
    fish:  carrel completions fish > ~/.config/fish/completions/carrel.fish
    """
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - it is one of click's own
    root = click.get_current_context().find_root().command
    click.echo(script(root, {}, "carrel", "_CARREL_COMPLETE").source())
