"""`carrel discoveries` and `carrel sessions` as a person uses them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from carrel.storage.admin import upgrade
from carrel.storage.database import SqliteLocation
from tests.databases import query
from tests.program import Done, misused, run_carrel_here
from tests.wire import CARREL, environment


class Desk:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def run(self, *words: str | Path) -> Done:
        return run_carrel_here(*words, cwd=self.folder, CARREL_DATABASE_URL=self.url)

    def done(self, *words: str | Path) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.rstrip("\n")

    def json(self, *words: str | Path) -> Any:
        return json.loads(self.done(*words, "--json"))

    def add(self, *words: str) -> dict[str, Any]:
        return self.json("discoveries", "add", *words)

    def listed(self, *words: str) -> list[dict[str, Any]]:
        return self.json("discoveries", "list", *words)["discoveries"]


@pytest.fixture
def desk(database_url: str, tmp_path: Path) -> Desk:
    return Desk(tmp_path, database_url)


@pytest.fixture
def sqlite(tmp_path: Path) -> Desk:
    return Desk(tmp_path, "sqlite:///carrel.db")


@pytest.mark.rule("knowledge.command.add", "knowledge.command.list", "knowledge.command.show")
def test_a_discovery_is_added_listed_and_shown(desk: Desk) -> None:
    said = desk.done("discoveries", "add", "--type", "pattern", "--module", "auth", "Use «JWT»\ntokens")
    one = desk.listed()[0]
    assert said == f"added {one['id']}"
    two = desk.add("--type", "rule", "--session", "s-1", "--date", "2025-01-15T12:00+02:00", "x")
    assert list(two.items())[1:] == [
        ("type", "rule"),
        ("content", "x"),
        ("module", None),
        ("session", "s-1"),
        ("date", "2025-01-15T10:00:00.000Z"),
    ]
    assert desk.json("discoveries", "list") == {"discoveries": [one, two], "total": 2}
    assert desk.listed("--type", "rule") == [two]
    assert desk.listed("--module", "auth") == [one]
    assert desk.done("discoveries", "list", "--type", "pattern").split() == [
        *(one["id"][:8], one["date"][:10], "pattern", "auth", "Use", "«JWT»", "tokens")
    ]
    assert desk.run("discoveries", "list", "--limit", "1").stderr == "1 more; see --limit\n"
    shown = desk.done("discoveries", "show", one["id"][:9].upper())
    assert shown.splitlines()[-2:] == ["Use «JWT»", "tokens"]
    assert f"id:        {one['id']}" in shown
    assert desk.json("discoveries", "show", two["id"]) == two


@pytest.mark.rule("knowledge.command.edit")
def test_fields_are_changed_one_by_one(desk: Desk) -> None:
    one = desk.add("--type", "rule", "--module", "auth", "--date", "2025-01-15", "x")
    assert desk.done("discoveries", "edit", one["id"], "--type", "issue") == f"changed {one['id']}"
    assert desk.json("discoveries", "edit", one["id"], "--module", "", "--content", "y") == {
        **one,
        "type": "issue",
        "module": None,
        "content": "y",
    }
    same = desk.done("discoveries", "edit", one["id"], "--content", "y")
    assert same == f"{one['id']} is unchanged"
    misused(desk.run("discoveries", "edit", one["id"]), "nothing to change")
    misused(desk.run("discoveries", "edit", one["id"], "--content", " "), "content must not be empty")


@pytest.mark.rule("knowledge.command.remove")
def test_all_that_are_named_are_removed_or_none(desk: Desk) -> None:
    one, two, three = (desk.add("--type", "rule", text) for text in "abc")
    misused(desk.run("discoveries", "remove", one["id"], "00000000-0"), "no discovery '00000000-0'")
    assert len(desk.listed()) == 3
    assert desk.json("discoveries", "remove", one["id"], two["id"], one["id"]) == {"removed": [one["id"], two["id"]]}
    assert desk.listed() == [three]


@pytest.mark.rule("knowledge.import.faults", "knowledge.import.idempotent", "knowledge.import.round_trip")
def test_discoveries_go_in_and_out_as_json_lines(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "learned.jsonl"
    lines = [
        '{"type": "rule", "content": "x", "module": "auth", "date": "2025-01-15"}',
        '{"type": "issue", "content": "é"}',
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert desk.done("discoveries", "import", file) == "2 added, 0 updated, 0 unchanged"
    assert desk.json("discoveries", "import", file) == {"ok": True, "added": 0, "updated": 0, "unchanged": 2}
    before = desk.json("discoveries", "list")
    out = tmp_path / "out.jsonl"
    assert desk.done("discoveries", "export", out) == f"wrote 2 discoveries to {out}"
    misused(desk.run("discoveries", "export", out), "already exists")
    assert desk.json("discoveries", "export", out, "--replace") == {"file": str(out), "discoveries": 2}
    assert desk.done("discoveries", "export") == out.read_text(encoding="utf-8").rstrip("\n")
    desk.done("discoveries", "remove", *(each["id"] for each in before["discoveries"]))
    desk.done("discoveries", "import", out)
    assert desk.json("discoveries", "list") == before
    file.write_text("\n".join([*lines, "{", '{"type": "rule"}']), encoding="utf-8")
    errors = ("nothing was written: 2 faults", "line 3: it must be JSON", "line 4: content is missing")
    misused(desk.run("discoveries", "import", file), *errors, status=1)
    done = desk.run("discoveries", "import", file, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["faults"][0] == {"line": 3, "message": "it must be JSON"}
    assert desk.json("discoveries", "list") == before


@pytest.mark.rule("knowledge.command.add")
def test_a_dash_reads_stdin(sqlite: Desk) -> None:
    def piped(text: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
        words = (*CARREL, "discoveries", *words)
        env = environment(CARREL_DATABASE_URL=sqlite.url)
        return subprocess.run(words, cwd=sqlite.folder, env=env, input=text, capture_output=True, check=False)

    assert piped("Zwei\nZeilen é\r\n".encode(), "add", "--type", "decision", "-").returncode == 0
    assert piped(b'{"type": "rule", "content": "x"}\n', "import", "-").stdout == b"1 added, 0 updated, 0 unchanged\n"
    assert {each["content"] for each in sqlite.listed()} == {"Zwei\nZeilen é", "x"}


@pytest.mark.rule("knowledge.command.add")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "--type", "rule", " "], "content must not be empty"),
        (["add", "--type", "rule", "--date", "soon", "x"], "--date must be a day"),
        (
            ["add", "--type", "rule", "--module", "m" * 201, "x" * 10_001],
            "content must have 10,000 characters or less; module",
        ),
        (["show", "zz"], "no discovery 'zz'"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(sqlite: Desk, words: list[str], message: str) -> None:
    misused(sqlite.run("discoveries", *words), message)


@pytest.mark.rule("knowledge.command.show")
def test_a_beginning_that_several_share_is_not_enough(sqlite: Desk) -> None:
    file = sqlite.folder / "two.jsonl"
    ids = [f"a0000000-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    file.write_text("\n".join(json.dumps({"id": each, "type": "rule", "content": each}) for each in ids))
    sqlite.done("discoveries", "import", file)
    misused(sqlite.run("discoveries", "show", "a0"), "'a0' is ambiguous")
    assert sqlite.json("discoveries", "show", ids[1])["content"] == ids[1]


@pytest.mark.rule("knowledge.command.sessions")
def test_summaries_of_sessions_are_added_and_listed(desk: Desk) -> None:
    old = desk.json(
        "sessions", "add", "--title", "Refresh", "--module", "auth", "--date", "2025-01-15", "Found the race."
    )
    assert list(old) == ["id", "title", "content", "module", "date"]
    new = desk.done("sessions", "add", "Wrote it down.").removeprefix("added ")
    found = desk.json("sessions", "list")
    assert ([each["id"] for each in found["sessions"]], found["total"]) == ([new, old["id"]], 2)
    assert desk.json("sessions", "list", "--module", "auth") == {"sessions": [old], "total": 1}
    line = desk.done("sessions", "list", "--module", "auth")
    assert line == f"{old['id']}  2025-01-15  auth          Refresh: Found the race."
    misused(desk.run("sessions", "add", ""), "summary must not be empty")


@pytest.mark.rule("knowledge.command.backup")
def test_a_backup_carries_what_was_learned_to_the_other_engine(desk: Desk, tmp_path: Path) -> None:
    one = desk.add("--type", "rule", "--module", "auth", "x")
    desk.done("sessions", "add", "y")
    desk.done("db", "backup", tmp_path / "all.gz")
    other = SqliteLocation(tmp_path / "other" / "carrel.db")
    upgrade(other)
    copy = Desk(tmp_path, f"sqlite:///{other.path}")
    copy.done("db", "restore", tmp_path / "all.gz")
    assert query(other, "SELECT id, type, content, module FROM discovery") == [(one["id"], "rule", "x", "auth")]
    assert query(other, "SELECT content FROM session_summary") == [("y",)]
