"""The command line: what goes where, and with which exit status."""

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

import carrel
from carrel.cli.app import app
from carrel.storage.schema import metadata
from carrel.storage.schema_version import HEAD
from tests.program import Done, misused, run_carrel, run_carrel_here
from tests.wire import environment

WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
import carrel.cli
carrel.cli.main()
"""


def command_lines(command: click.Command = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from command_lines(each, (*path, name))


# --- the program itself


def test_the_version_is_printed_however_the_program_is_started(tmp_path: Path) -> None:
    expected = f"carrel {carrel.__version__}\n"
    done = run_carrel("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    installed = Path(sys.executable).with_name("carrel")
    assert subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout == expected


GROUPS = [
    (name,) for name in ("db", "import", "export", "content", "discoveries", "notes", "sessions", "token", "audit")
]
WITHOUT_WORKSPACE = [*GROUPS, ("demo",), ("completions",)]


@pytest.mark.parametrize("words", list(command_lines()), ids=lambda words: " ".join(words) or "carrel")
def test_every_command_explains_itself(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_carrel_here(*words, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {' '.join(('carrel', *words))} [OPTIONS]")
    if words and words not in WITHOUT_WORKSPACE:
        assert "--workspace DIR" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group", [(), *GROUPS], ids=lambda words: " ".join(words) or "carrel")
def test_the_help_of_each_command_fits_on_its_line(tmp_path: Path, group: tuple[str, ...]) -> None:
    done = run_carrel_here(*group, "--help", cwd=tmp_path, COLUMNS="80")
    cut = [line for line in done.stdout.partition("\nCommands:\n")[2].splitlines() if line.endswith("...")]
    assert cut == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sevre"],
        ["serve", "--prot", "1"],
        ["serve", "--port", "http"],
        ["serve", "extra"],
        ["db"],
        ["db", "drop"],
        ["db", "backup"],
        ["db", "restore", "."],
    ],
)
def test_a_misuse_is_explained_on_stderr_with_status_2(tmp_path: Path, words: list[str]) -> None:
    done = run_carrel_here(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: carrel")


# --- carrel db


def test_the_upkeep_commands_print_their_result_on_stdout_and_nothing_on_stderr(
    tmp_path: Path, database_url: str
) -> None:
    def text(*words: str) -> str:
        done = run_carrel_here("db", *words, cwd=tmp_path, CARREL_DATABASE_URL=database_url)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    nothing = {name: 0 for name, table in metadata.tables.items() if not table.info.get("is_passing")}
    assert f"revision {HEAD}" in text("upgrade")
    assert json.loads(text("upgrade", "--json")) == {"before": HEAD, "after": HEAD}
    assert text("check").endswith(": no problems found\n")
    assert json.loads(text("check", "--json")) == {"ok": True, "faults": []}
    assert text("backup", "one.gz") == "wrote 0 rows to one.gz\n"
    assert json.loads(text("backup", "--json", "two.gz")) == {"file": "two.gz", "rows": nothing}
    assert text("restore", "one.gz") == "restored 0 rows from one.gz\n"
    assert json.loads(text("restore", "--json", "two.gz")) == {"file": "two.gz", "rows": nothing}


def test_a_check_that_finds_something_has_status_1_and_says_what(tmp_path: Path) -> None:
    run_carrel_here("db", "upgrade", cwd=tmp_path)
    with closing(sqlite3.connect(tmp_path / ".carrel" / "carrel.db")) as connection:
        connection.execute("DROP INDEX task_by_user")
    done = run_carrel_here("db", "check", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "task_by_user" in done.stdout
    done = run_carrel_here("db", "check", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert "task_by_user" in found["faults"][0]


@pytest.mark.parametrize("words", [["check"], ["backup", "x.gz"]])
def test_what_only_looks_makes_no_database(tmp_path: Path, words: list[str]) -> None:
    misused(run_carrel_here("db", *words, cwd=tmp_path), "there is no database carrel.db", status=1)
    assert list(tmp_path.iterdir()) == []


# --- what keeps a server from starting


@pytest.mark.rule("common.toolsets.chosen")
@pytest.mark.parametrize("words", [["--toolsets", "tasks,nots"], ["--http", "--toolsets", "nots"]])
def test_an_unknown_toolset_is_a_mistake_that_names_the_known_ones(tmp_path: Path, words: list[str]) -> None:
    misused(
        run_carrel_here("serve", *words, cwd=tmp_path),
        "server.toolsets",
        "unknown toolset 'nots'",
        "known: catalog, bridge, notes, tasks, code, journal",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - to see it refused
def test_an_address_beyond_loopback_is_refused_without_auth(tmp_path: Path, host: str) -> None:
    done = run_carrel_here("serve", "--http", "--host", host, "--port", "0", cwd=tmp_path)
    misused(done, "server.host", f"refusing to listen on {host} without [auth]")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_carrel("serve", "--http", "--port", str(port), cwd=tmp_path)
    misused(done, "server.port", f"cannot listen on 127.0.0.1 port {port}: Address already in use")


BAD_URLS = [
    ("mysql://ana:secret@localhost/x", ["must start with sqlite:/// or postgresql://, not 'mysql://'"]),
    ("carrel.db", ["must be sqlite:///FILE or postgresql://USER@HOST/NAME"]),
    ("sqlite://carrel.db", ["must start with sqlite:///"]),
    ("sqlite:///", ["must start with sqlite:///"]),
    ("postgresql:ana:secret", ["must be sqlite:///FILE or postgresql://USER@HOST/NAME"]),
    ("postgresql://ana:secret@localhost/x?colour=red", ["cannot be used: invalid URI query parameter"]),
    ("postgresql://ana:secret%zz@localhost/x", ["cannot be used: invalid percent-encoded token"]),
    ("postgresql://ana:secret@[::1/x", ["cannot be used", "IPv6"]),
]
RUNS = [pytest.param(run_carrel, ["serve"], id="serve"), pytest.param(run_carrel_here, ["db", "check"], id="db")]
Run = Callable[..., Done]


@pytest.mark.parametrize(("url", "words"), BAD_URLS)
def test_a_database_url_that_cannot_be_one_is_a_mistake_and_no_secret_is_told(
    tmp_path: Path, url: str, words: list[str]
) -> None:
    done = run_carrel_here("db", "check", cwd=tmp_path, CARREL_DATABASE_URL=url)
    misused(done, "carrel: database.url ", *words)
    assert "secret" not in done.stderr


@pytest.mark.parametrize(("url", "words"), BAD_URLS[-1:])
def test_a_server_tells_the_same(tmp_path: Path, url: str, words: list[str]) -> None:
    done = run_carrel_here("serve", "--database", url, cwd=tmp_path)
    misused(done, "carrel: database.url ", *words)
    assert "secret" not in done.stderr


@pytest.mark.parametrize(("run", "command"), RUNS)
def test_a_postgresql_server_that_is_not_there_is_told_at_once(tmp_path: Path, run: Run, command: list[str]) -> None:
    with socket.socket() as unused:  # bound and not listening: whoever connects is refused
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        done = run(*command, cwd=tmp_path, CARREL_DATABASE_URL=f"postgresql://ana:secret@127.0.0.1:{port}/x")
    misused(done, "carrel: PostgreSQL: ", f"port {port}", "refused", status=1)
    assert "secret" not in done.stderr


@pytest.mark.parametrize("command", [["serve"], ["db", "check"]], ids=" ".join)
def test_a_missing_extra_names_its_cure(tmp_path: Path, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PSYCOPG, *command],
        cwd=tmp_path,
        env=environment(CARREL_DATABASE_URL="postgresql://localhost/x"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    misused(done, "needs the 'postgres' extra: pip install 'carrel[postgres]'")


ON_A_FILE = [
    *RUNS,
    pytest.param(run_carrel_here, ["db", "upgrade"], id="upgrade"),
    pytest.param(run_carrel_here, ["db", "backup", "x"], id="backup"),
]


@pytest.mark.parametrize(("run", "command"), ON_A_FILE)
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, run: Run, command: list[str]) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"not a database, by any means" * 40)
    done = run(*command, cwd=tmp_path, CARREL_DATABASE_URL="sqlite:///junk.db")
    misused(done, "cannot open the database junk.db: file is not a database", status=1)
    assert junk.read_bytes() == b"not a database, by any means" * 40
    assert [path.name for path in tmp_path.iterdir()] == ["junk.db"]


@pytest.mark.parametrize(("run", "command"), [(run_carrel, ["serve"]), (run_carrel_here, ["db", "upgrade"])])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, run: Run, command: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run(*command, cwd=tmp_path, CARREL_DATABASE_URL="sqlite:///file/below/carrel.db")
    misused(done, "cannot make the folder for carrel.db", status=1)


@pytest.mark.parametrize(("run", "command"), [(run_carrel, ["serve"]), (run_carrel_here, ["db", "upgrade"])])
def test_another_programs_table_of_the_same_name_is_not_touched(tmp_path: Path, run: Run, command: list[str]) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        connection.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, what TEXT)")
        connection.execute("INSERT INTO task VALUES (1, 'theirs')")
        connection.commit()
    done = run(*command, cwd=tmp_path, CARREL_DATABASE_URL="sqlite:///theirs.db")
    misused(done, "table task already exists", status=1)
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        assert connection.execute("SELECT * FROM task").fetchall() == [(1, "theirs")]
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("task",)]
