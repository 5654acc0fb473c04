"""`carrel connect`: what is written where, and what is asked first."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import json5
import pytest

from carrel.client_config.clients import CLIENTS, Client, System, this_program
from carrel.client_config.config_file import ConfigFile
from carrel.errors import CarrelError
from tests.databases import prepare_desk
from tests.program import Done, misused, run_carrel_here
from tests.wire import LEGACY, environment

CARREL = str(Path(sys.executable).with_name("carrel"))
clients = pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "my desk").mkdir()
    return tmp_path / "my desk"


def run(desk: Path, *words: str) -> Done:
    """`carrel connect` of a person whose home is beside the desk."""
    home = str(desk.parent / "home")
    return run_carrel_here(
        "connect", *words, cwd=desk, HOME=home, XDG_CONFIG_HOME="", CODEX_HOME="", CLAUDE_CONFIG_DIR="", UV=""
    )


def file_of(client: Client, desk: Path, of_user: bool = False) -> Path:
    return client.file(desk, of_user, System("linux", desk.parent / "home", {}))


def read(client: Client, path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    return (tomllib.loads(text) if client.is_toml else json5.loads(text))[client.key]


# --- where, and what


PLACES = {
    "claude-code": (".mcp.json", "~/.claude.json", "~/.claude.json", "~/.claude.json"),
    "claude-desktop": (
        None,
        "~/.config/Claude/claude_desktop_config.json",
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "~/AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "vscode": (
        ".vscode/mcp.json",
        "~/.config/Code/User/mcp.json",
        "~/Library/Application Support/Code/User/mcp.json",
        "~/AppData/Roaming/Code/User/mcp.json",
    ),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json", "~/.cursor/mcp.json", "~/.cursor/mcp.json"),
    "codex": (None, "~/.codex/config.toml", "~/.codex/config.toml", "~/.codex/config.toml"),
    "gemini": (
        ".gemini/settings.json",
        "~/.gemini/settings.json",
        "~/.gemini/settings.json",
        "~/.gemini/settings.json",
    ),
    "zed": (
        ".zed/settings.json",
        "~/.config/zed/settings.json",
        "~/.config/zed/settings.json",
        "~/AppData/Roaming/Zed/settings.json",
    ),
}


@pytest.mark.rule("connect.files.place")
@clients
def test_each_client_has_its_file_on_each_system(client: Client) -> None:
    home, folder = Path("/h"), Path("/p")
    project, *of_user = PLACES[client.name]
    for platform, expected in zip(("linux", "darwin", "win32"), of_user, strict=True):
        system = System(platform, home, {})
        assert client.file(folder, True, system) == Path(expected.replace("~", "/h"))
        own = client.user_file(system) if project is None else folder / project
        assert client.file(folder, False, system) == own


@pytest.mark.rule("connect.files.place")
def test_folders_that_the_environment_names_are_taken() -> None:
    given = {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d", "APPDATA": "relative"}
    linux, windows = System("linux", Path("/h"), given), System("win32", Path("/h"), given)
    found = {name: str(client.user_file(linux)) for name, client in CLIENTS.items()}
    assert found["claude-code"] == "/d/.claude.json"
    assert found["codex"] == "/c/config.toml"
    assert found["zed"] == "/x/zed/settings.json"
    assert found["vscode"] == "/x/Code/User/mcp.json"
    assert CLIENTS["vscode"].user_file(windows).is_relative_to(PurePosixPath("/h/AppData/Roaming"))


URL = ["--url", "https://desk.example.com/mcp"]
ENTRIES = {
    "claude-code": {"type": "http", "url": URL[1], "headers": {"Authorization": "Bearer ${DESK}"}},
    "vscode": {"type": "http", "url": URL[1], "headers": {"Authorization": "Bearer ${env:DESK}"}},
    "cursor": {"url": URL[1], "headers": {"Authorization": "Bearer ${env:DESK}"}},
    "codex": {"url": URL[1], "bearer_token_env_var": "DESK"},
    "gemini": {"httpUrl": URL[1], "headers": {"Authorization": "Bearer ${DESK}"}},
}


@pytest.mark.rule("connect.files.entry", "connect.writing.prints")
@pytest.mark.parametrize("name", ENTRIES)
def test_an_address_is_written_as_the_client_takes_it_and_a_token_as_the_name_of_a_variable(
    desk: Path, name: str
) -> None:
    client, entry = CLIENTS[name], ENTRIES[name]
    done = run(desk, name, *URL, "--token-env", "DESK", "--print", "--name", "team-desk")
    parse = tomllib.loads if client.is_toml else json.loads
    assert parse(done.stdout) == {client.key: {"team-desk": entry}}
    bare = {key: value for key, value in entry.items() if key not in ("headers", "bearer_token_env_var")}
    assert parse(run(desk, name, *URL, "--print").stdout) == {client.key: {"carrel": bare}}
    assert [*desk.iterdir(), *(desk.parent / "home").iterdir()] == []
    done = run(desk, name, *URL, "--token-env", "DESK", "--yes")
    assert "next: set DESK in the environment that starts " in done.stdout


@pytest.mark.rule("connect.edits.refused")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zed", *URL, "--token-env", "DESK"], "Zed cannot send a token from a variable"),
        (["claude-desktop", *URL], "Claude Desktop only accepts URLs in its settings"),
        (["cursor", "--token-env", "DESK"], "--token-env requires --url"),
        (["cursor", *URL, "--token-env", "carrel_1-2"], "never the token itself"),
        (["cursor", "--url", "http://desk.example.com/mcp", "--token-env", "DESK"], "must begin with https://"),
        (["cursor", "--url", "https://ana:secret@desk.example.com/mcp"], "must not contain a password"),
        (["cursor", "--url", "desk.example.com/mcp"], "must be like https://"),
        (["cursor", "--url", "https://[::1/mcp"], "--url: "),
        (["cursor", "--url", "https://desk.example.com:port/mcp"], "--url: "),
        (["cursor", "--url", "https://desk.example.com/${A}"], "Cursor would substitute"),
        (["cursor", *URL, "--", "--user", "ana"], "that desk is already running"),
        (["cursor", "--", "--http"], "cannot follow --"),
        (["cursor", "--name", "my desk"], "--name must be"),
        (["cursor", "--remove", "--print"], "--remove can only be combined with"),
    ],
)
def test_what_a_client_could_not_use_is_refused(desk: Path, words: list[str], said: str) -> None:
    done = run(desk, words[0], "--yes", *words[1:])
    misused(done, said)
    assert "secret@" not in done.stderr
    assert list(desk.iterdir()) == []


@pytest.mark.rule("connect.edits.refused")
def test_options_of_serve_are_checked_by_serve_itself(desk: Path) -> None:
    done = run(desk, "cursor", "--yes", "--", "--usre", "ana")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option '--usre'" in done.stderr
    assert run(desk, "cursor", "vscode").returncode == 2


@pytest.mark.rule("connect.edits.refused")
def test_a_folder_with_a_dollar_sign_is_refused_only_where_a_client_would_replace_it(desk: Path) -> None:
    odd = desk / "a$HOME"
    odd.mkdir()
    misused(run(odd, "gemini", "--print"), "Gemini CLI would substitute")
    assert json.loads(run(odd, "cursor", "--print").stdout)["mcpServers"]["carrel"]["args"][-1] == str(odd)


@pytest.mark.rule("connect.files.program")
def test_the_program_is_the_one_that_runs(tmp_path: Path) -> None:
    def program(argv0: str, executable: str = "/usr/bin/python3", prefix: str = "/usr", **env: str) -> tuple[str, ...]:
        return this_program(argv0, executable, prefix, env)

    for name in ("carrel", "uvx", "uv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    linked = tmp_path / "bin" / "carrel"
    linked.parent.mkdir()
    linked.symlink_to(tmp_path / "carrel")
    assert program(str(linked)) == (str(linked),)  # as pipx has it: the link stays when the program is upgraded
    assert program("/x/carrel/__main__.py", str(tmp_path / "python3")) == (str(tmp_path / "carrel"),)
    assert program("/x/carrel/__main__.py") == ("/usr/bin/python3", "-m", "carrel")
    for folder in ("archive-v0/AbC", "environments-v2/carrel-1"):
        cached = f"/home/ana/.cache/uv/{folder}"
        assert program(f"{cached}/bin/carrel", prefix=cached) == ("uvx", "carrel")
        uv = str(tmp_path / "uv")
        assert program(f"{cached}/bin/carrel", prefix=cached, UV=uv) == (str(tmp_path / "uvx"), "carrel")


# --- it works


@pytest.mark.rule("connect.files.starts", "connect.files.entry", "connect.edits.again", "connect.edits.undone")
def test_what_each_client_reads_from_its_file_starts_the_desk(desk: Path) -> None:
    prepare_desk(desk)
    started = dict[tuple[str, ...], subprocess.Popen[str]]()
    try:
        for client in CLIENTS.values():
            done = run(desk, client.name, "--yes", "--", "--toolsets", "tasks", "--user", "ana")
            assert (done.returncode, done.stderr) == (0, "")
            path = file_of(client, desk)
            assert done.stdout.startswith(f"--- {path}\n+++ {path}\n@@")
            assert re.search(rf"\nwrote {re.escape(str(path))}\nnext: .+\n$", done.stdout), done.stdout
            assert run(desk, client.name, "--", "--toolsets", "tasks", "--user", "ana").stdout == (
                f"already connected: {path}\n"
            )
            entry = read(client, path)["carrel"]
            assert entry.get("type", "stdio") == "stdio"
            assert entry["command"] == CARREL
            words = (entry["command"], *entry["args"])
            if words in started:
                continue
            started[words] = subprocess.Popen(
                words,
                cwd="/",
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        requests = [
            {"id": 1, "method": "initialize", "params": opening},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ]
        said = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in requests)
        for words, process in started.items():
            opened, listed = map(json.loads, process.communicate(said, timeout=60)[0].splitlines())
            assert opened["result"]["serverInfo"]["name"] == "carrel", words
            assert "add_task" in [tool["name"] for tool in listed["result"]["tools"]]
    finally:
        for process in started.values():
            process.kill()
            process.communicate()
    for client in CLIENTS.values():
        done = run(desk, client.name, "--remove", "--yes")
        assert (done.returncode, "\nremoved " in done.stdout) == (0, True)
        assert not file_of(client, desk).exists()
        assert run(desk, client.name, "--remove").stdout == f"not connected: {file_of(client, desk)} has no carrel\n"


@pytest.mark.rule("connect.files.place")
@clients
def test_the_users_own_file_is_asked_for(desk: Path, client: Client) -> None:
    path = file_of(client, desk, of_user=True)
    assert f"wrote {path}\n" in run(desk, client.name, "--user", "--yes").stdout
    assert list(read(client, path)) == ["carrel"]
    assert list(desk.iterdir()) == []


def test_settings_that_are_wrong_are_told_now_and_not_in_a_clients_log(desk: Path) -> None:
    (desk / "carrel.toml").write_text("[server]\nprot = 1\n")
    misused(run(desk, "cursor", "--yes"), "prot")


# --- asking


def talk(desk: Path, answer: str, *words: str) -> tuple[int, str]:
    """`carrel connect` on a terminal: its status, and all that it shows."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "carrel", "connect", *words]
    with subprocess.Popen(command, cwd=desk, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
            if b"[Y/n]" in part:
                os.write(ours, answer.encode())
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


@pytest.mark.rule("connect.writing.asks")
def test_the_change_is_shown_and_asked_about(desk: Path) -> None:
    path = desk / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {}}')
    status, shown = talk(desk, "n\n", "cursor")
    assert status == 1
    assert re.search(r'\n-\{"mcpServers": \{\}\}\n\\ No newline at end of file\n\+\{.+\n.+\nWrite\? \[Y/n\]', shown), (
        shown
    )
    assert f"carrel: {path} was not changed" in shown
    assert path.read_text() == '{"mcpServers": {}}'
    status, shown = talk(desk, "\n", "cursor")
    assert (status, f"wrote {path}; the old one is mcp.json.bak-" in shown) == (0, True)
    assert list(json.loads(path.read_text())["mcpServers"]) == ["carrel"]


@pytest.mark.rule("connect.writing.asks")
def test_without_a_terminal_it_takes_yes(desk: Path) -> None:
    misused(run(desk, "cursor"), "not a terminal", "--yes")
    assert list(desk.iterdir()) == []


@pytest.mark.rule("connect.writing.asks")
def test_a_diff_carries_no_control_characters_to_the_terminal(desk: Path) -> None:
    (desk / ".mcp.json").write_bytes(b'{\n  "a": 1 // \x1b]0;title\x07\r\n}\n')
    assert "\x1b" not in run(desk, "claude-code", "--yes").stdout


# --- writing


@pytest.mark.rule("connect.writing.backup")
def test_a_link_stays_one_the_mode_stays_and_the_old_file_is_kept(desk: Path) -> None:
    real = desk / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    real.write_text('model = "x"\n')
    real.chmod(0o640)
    link = desk.parent / "home" / ".codex" / "config.toml"
    link.parent.mkdir()
    link.symlink_to(real)
    assert run(desk, "codex", "--yes").returncode == 0
    assert link.readlink() == real
    assert list(tomllib.loads(real.read_text())["mcp_servers"]) == ["carrel"]
    assert [path.name for path in real.parent.iterdir()] == ["codex.toml"]
    (backup,) = link.parent.glob("config.toml.bak-*")
    assert re.fullmatch(r"config\.toml\.bak-\d{8}-\d{6}", backup.name)
    assert backup.read_text() == 'model = "x"\n'
    assert (real.stat().st_mode & 0o7777, backup.stat().st_mode & 0o7777) == (0o640, 0o640)
    run(desk, "codex", "--yes", "--name", "two")
    run(desk, "codex", "--yes", "--name", "three")
    assert len(list(link.parent.glob("config.toml.bak-*"))) == 3


@pytest.mark.rule("connect.writing.backup")
def test_a_link_that_leads_nowhere_yet_is_written_through(desk: Path) -> None:
    (desk / ".mcp.json").symlink_to(desk / "shared" / "mcp.json")
    assert run(desk, "claude-code", "--yes").returncode == 0
    assert (desk / ".mcp.json").is_symlink()
    assert list(json.loads((desk / "shared" / "mcp.json").read_text())["mcpServers"]) == ["carrel"]


@pytest.mark.rule("connect.writing.backup")
def test_a_file_that_changes_meanwhile_is_left_alone(desk: Path) -> None:
    from datetime import datetime

    path = desk / "mcp.json"
    path.write_text("{}")
    old = ConfigFile.read(path)
    path.write_text('{"other": 1}')
    with pytest.raises(CarrelError, match="has changed meanwhile"):
        ConfigFile(path, b"{1}").replace(old, datetime.now())
    assert [each.name for each in desk.iterdir()] == ["mcp.json"]


@pytest.mark.rule("connect.edits.broken")
def test_a_file_that_cannot_be_read_or_written_is_left_alone(desk: Path) -> None:
    path = desk / ".mcp.json"
    path.write_text('{"mcpServers": {')
    misused(run(desk, "claude-code", "--yes"), f"{path}:1:17: expected a name in double quotes", status=1)
    assert path.read_text() == '{"mcpServers": {'
    path.unlink()
    path.mkdir()
    misused(run(desk, "claude-code", "--yes"), f"cannot read {path}: Is a directory", status=1)
    (desk / ".cursor").write_text("")
    misused(run(desk, "cursor", "--yes"), "Not a directory", status=1)
    (desk / ".zed").symlink_to(desk / ".zed")
    misused(run(desk, "zed", "--yes"), "cannot read", status=1)
    assert sorted(each.name for each in desk.iterdir()) == [".cursor", ".mcp.json", ".zed"]


# --- completions


@pytest.mark.rule("connect.packages.completions")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(tmp_path: Path, shell: str) -> None:
    done = run_carrel_here("completions", shell, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_CARREL_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.rule("connect.packages.completions")
def test_bash_completes_commands_options_and_clients(tmp_path: Path) -> None:
    (tmp_path / "carrel.bash").write_text(run_carrel_here("completions", "bash", cwd=tmp_path).stdout)
    script = """
    source carrel.bash
    for line in "carrel conn" "carrel connect --tok" "carrel connect ge"; do
        COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        _carrel_completion carrel; echo "${COMPREPLY[@]}"
    done
    """
    path = os.pathsep.join([str(Path(CARREL).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(PATH=path), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["connect", "--token-env", "gemini"]
