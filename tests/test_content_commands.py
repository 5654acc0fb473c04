"""`carrel import`, `carrel export` and `carrel content` as a person uses them."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.content.bundle.exporter import export_content
from carrel.content.bundle.fields import KINDS
from carrel.content.bundle.importer import import_content
from carrel.content.field_types import RELATION_TYPES
from tests.bundles import WORDS, Store, block, entity, performance, project, relation, rows, small, uid, written
from tests.program import Done, misused, run_carrel, run_carrel_here
from tests.test_startup import loaded_modules
from tests.wire import CARREL, environment


class Desk(Store):
    """A folder with a database, and the command line in it."""

    def run(self, *words: str | Path) -> Done:
        return run_carrel_here(*words, cwd=self.folder, CARREL_DATABASE_URL=self.url)

    def done(self, *words: str | Path) -> str:
        """What a command prints that succeeds."""
        done = self.run(*words)
        assert done.returncode == 0, done
        return done.stdout.rstrip("\n")

    def shown(self, ref: str, *words: str) -> dict[str, Any]:
        return json.loads(self.done("content", "show", ref, "--json", *words))


@pytest.fixture
def desk(database_url: str, tmp_path: Path) -> Desk:
    return Desk(database_url, tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> Desk:
    return Desk("sqlite:///carrel.db", tmp_path)


@pytest.fixture
def reef(ready_url: str, tmp_path: Path) -> Desk:
    desk = Desk(ready_url, tmp_path)
    desk.load(small())
    return desk


# --- import and export


@pytest.mark.rule("content.command.import")
def test_import_tells_what_it_added_on_stdout(desk: Desk, tmp_path: Path) -> None:
    path = written(tmp_path / "bundle.json", small())
    lines = desk.done("import", "content", path).splitlines()
    assert lines[0].split() == ["added", "updated", "unchanged"]
    assert ["entities", "2", "0", "0"] in [line.split() for line in lines]
    answer = json.loads(desk.done("import", "content", path, "--json", "--dry-run"))
    assert answer["counts"]["relations"] == {"added": 0, "updated": 0, "unchanged": 4}
    assert (answer["ok"], answer["dryRun"], answer["warnings"], answer["warningsInAll"]) == (True, True, [], 0)


@pytest.mark.rule("content.command.import", "content.fault.nothing_written")
def test_import_tells_faults_on_stderr_and_fails(desk: Desk, tmp_path: Path) -> None:
    bundle = small()
    bundle["entities"][0]["status"] = "live"
    bundle["quotableBlocks"][0]["text"] = "short"
    path = written(tmp_path / "bundle.json", bundle)
    misused(desk.run("import", "content", path), "nothing was written: 1 fault", "entities[0]: status must", status=1)
    done = desk.run("import", "content", path, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert [fault["place"] for fault in answer["faults"]] == [f"{path}: entities[0]"]
    assert answer["faultsInAll"] == 1
    bundle["entities"][0]["status"] = "draft"
    done = desk.run("import", "content", written(path, bundle))
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == "warnings:"
    assert "a block should have 25 to 50 words" in done.stderr


@pytest.mark.rule("content.command.progress")
def test_a_terminal_sees_the_progress_and_a_pipe_does_not(tmp_path: Path) -> None:
    path = written(tmp_path / "bundle.json", small())
    control, terminal = pty.openpty()
    words = [*CARREL, "import", "content", path]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    seen = b""
    try:
        while chunk := os.read(control, 4096):
            seen += chunk
    except OSError:
        pass  # Linux says so when the other side is closed
    os.close(control)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"reading" in seen
    assert b"writing" in seen
    assert b"100%" in seen
    assert b"entities" in out
    again = run_carrel("import", "content", path, cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.rule("content.command.export")
def test_export_goes_to_a_file_or_to_stdout(sqlite: Desk, tmp_path: Path) -> None:
    sqlite.load(small())
    env = {"CARREL_DATABASE_URL": sqlite.url}
    printed = run_carrel("export", "content", cwd=tmp_path, **env)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert len(json.loads(printed.stdout)["relations"]) == 4
    assert sqlite.done("export", "content", "1.json") == "wrote 13 records to 1.json"
    assert (tmp_path / "1.json").read_text(encoding="utf-8") == printed.stdout
    answer = json.loads(sqlite.done("export", "content", "2.jsonl.gz", "--project", "reef", "--json"))
    assert answer["records"]["entities"] == 2
    assert (tmp_path / "2.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    misused(sqlite.run("export", "content", "1.json"), "1.json exists already", "--replace")
    sqlite.done("export", "content", "1.json", "--replace", "--format", "jsonl")
    assert (tmp_path / "1.json").read_text(encoding="utf-8").startswith('{"kind":"project",')


@pytest.mark.rule("content.command.lazy")
def test_help_loads_none_of_it(tmp_path: Path) -> None:
    program = "import sys, carrel.cli.app as c; c.app(['--help'], standalone_mode=False); print(*sys.modules)"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    assert "Import content bundles" in done.stdout
    assert {name for name in done.stdout.split() if name.startswith(("carrel.content", "carrel.cli."))} == {
        "carrel.cli.app",
        "carrel.cli.db",
        "carrel.cli.terminal",
        "carrel.cli.search",
        "carrel.cli.diagnostics",
    }
    assert loaded_modules("import carrel.cli.content", tmp_path) & {"sqlalchemy", "alembic", "psycopg", "mcp"} == set()


# --- by hand


@pytest.mark.rule("content.command.add")
def test_content_can_be_written_from_nothing_by_hand(desk: Desk) -> None:
    assert desk.done("content", "add-project", "Life on the Reef", "--slug", "reef") == "added the project reef"
    assert desk.done("content", "add", "guide", "Reading a Tide Table", "--difficulty", "beginner") == (
        "added guide:reading-a-tide-table"
    )
    assert desk.done("content", "add", "concept", "Ébbe & Flut", "--slug", "tide") == "added concept:tide"
    desk.done(
        "content", "add", "source", "Atlas", "--url", "https://a.example/x", "--set", "year=1998", "--set", "by=Ana"
    )
    desk.done("content", "add", "video", "The night shift")
    desk.done("content", "add", "block", WORDS, "--entity", "concept:tide", "--claim-type", "definition")
    desk.done("content", "relate", "guide:reading-a-tide-table", "GUIDE_USES_CONCEPT", "concept:tide", "--notes", "why")
    desk.done("content", "relate", "guide:reading-a-tide-table", "GUIDE_REFERENCES_SOURCE", "sourceItem:Atlas")
    desk.done("content", "relate", "video:The night shift", "video_explains_guide", "guide:reading-a-tide-table")
    guide = desk.shown("guide:reading-a-tide-table")
    assert (guide["title"], guide["difficulty"], guide["status"]) == ("Reading a Tide Table", "beginner", "draft")
    assert [(each["from"], each["relationType"], each["to"]) for each in guide["relations"]] == [
        ("video:The night shift", "VIDEO_EXPLAINS_GUIDE", "guide:reading-a-tide-table"),
        ("guide:reading-a-tide-table", "GUIDE_REFERENCES_SOURCE", "sourceItem:https://a.example/x"),
        ("guide:reading-a-tide-table", "GUIDE_USES_CONCEPT", "concept:tide"),
    ]
    source = desk.shown("sourceItem:https://a.example/x")
    assert (source["year"], source["by"], source["relationsInAll"]) == (1998, "Ana", 1)
    assert desk.shown("concept:tide")["quotableBlocksInAll"] == 1
    assert desk.query("SELECT sum(total) FROM entity_tally") == [(2,)]


@pytest.mark.rule("content.command.add")
def test_adding_what_is_there_changes_nothing_and_says_so(reef: Desk) -> None:
    before = reef.state()
    misused(reef.run("content", "add-project", "Other", "--slug", "reef"), "project reef already exists")
    misused(reef.run("content", "add", "guide", "Other", "--slug", "intro"), "guide:intro already exists")
    misused(reef.run("content", "add", "video", "The night shift"), "video:The night shift already exists")
    words = ["content", "add", "block", WORDS, "--entity", "concept:tide", "--claim-type", "definition"]
    assert reef.done(*words) == "unchanged: the block"
    assert reef.done("content", "relate", "guide:intro", "GUIDE_USES_CONCEPT", "concept:tide").startswith("unchanged:")
    assert reef.state() == before


@pytest.mark.rule("content.command.checked")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "guide", "x" * 501], "title must have 500 characters or less"),
        (["add", "guide", "A", "--status", "live"], "status must be one of draft, publish_requested"),
        (["add", "guide", "A", "--url", "u"], "unknown field 'url'; known are id, entityType"),
        (["add", "block", "A", "--entity", "concept:none", "--claim-type", "definition"], "there is no concept:none"),
        (["add", "block", "A", "--claim-type", "definition"], "entity is missing"),
        (["edit", "guide:intro", "--title", ""], "title must not be empty"),
        (["edit", "concept:tide", "--entity-type", "news"], "cannot become a news while relations depend"),
        (["relate", "guide:intro", "GUIDE_USES_CONCEPT", "guide:intro"], "leads to a concept, not to a guide"),
        (["add-project", "A", "--slug", "A"], "slug must be lower-case letters"),
    ],
)
def test_what_is_written_by_hand_is_checked_as_an_import_is(reef: Desk, words: list[str], message: str) -> None:
    before = reef.state()
    misused(reef.run("content", *words), "nothing was written: 1 fault", message, status=1)
    assert reef.state() == before


@pytest.mark.rule("content.command.edit")
def test_edit_changes_what_is_named_and_nothing_else(reef: Desk) -> None:
    before = reef.shown("guide:intro")
    words = ["--status", "archived", "--summary", "", "--comparison-targets", f"concept:tide,{uid(2)}"]
    assert reef.done("content", "edit", "guide:intro", *words) == "changed guide:intro"
    after = reef.shown("guide:intro")
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"status", "summary", "comparisonTargets", "updatedAt"}
    assert (after["summary"], after["comparisonTargets"]) == (None, [uid(3), uid(2)])
    assert reef.done("content", "edit", "guide:intro", *words) == "guide:intro is unchanged"
    assert reef.done("content", "edit", uid(2).upper(), "--slug", "start") == "changed guide:intro"
    reef.done("content", "edit", "reef", "--name", "Grand Reef", "--slug", "grand")
    assert reef.shown("grand")["name"] == "Grand Reef"
    reef.done("content", "edit", uid(13), "--topic-tag", "Ebb")
    assert reef.shown(uid(13))["topicTag"] == "Ebb"
    reef.done("content", "edit", "sourceItem:Atlas", "--set", "year=", "--set", 'tags=["a"]')
    source = reef.shown("sourceItem:Atlas")
    assert ("year" in source, source["tags"]) == (False, ["a"])
    misused(reef.run("content", "edit", "guide:start"), "nothing to change")
    misused(reef.run("content", "edit", "guide:start", "--set", "a=b"), "only for a source, a video, or a distribution")


@pytest.mark.rule("content.command.remove")
def test_remove_tells_what_goes_with_it_and_asks_first(reef: Desk) -> None:
    before = reef.state()
    asked = run_carrel("content", "remove", "concept:tide", cwd=reef.folder, CARREL_DATABASE_URL=reef.url)
    assert asked.returncode == 130
    assert "remove the entity concept:tide with its 2 relations, 1 quotableBlocks" in asked.stderr
    assert "; 1 search performance rows are kept without it?" in asked.stderr
    assert reef.state() == before
    assert reef.done("content", "remove", "concept:tide", "--yes").startswith("removed the entity concept:tide")
    assert reef.query("SELECT count(*), count(entity_pk) FROM search_performance") == [(2, 0)]
    assert reef.query("SELECT count(*) FROM relation") == [(2,)]
    assert reef.query("SELECT sum(total) FROM entity_tally") == [(1,)]
    assert reef.query("SELECT count(*) FROM quotable_block_expiry_tally") == [(0,)]
    reef.done("content", "remove", uid(8), "--yes")
    reef.done("content", "remove", "video:The night shift", "--yes")
    assert reef.query("SELECT count(*) FROM relation") == [(0,)]
    reef.done("content", "remove", uid(11), "--yes")
    assert reef.query("SELECT total FROM search_performance_tally") == [(1,)]
    fresh = Store("sqlite:///fresh.db", reef.folder)
    export_content(reef.location, reef.folder / "left.json")
    import_content(fresh.location, [reef.folder / "left.json"])
    assert rows(fresh.location) == rows(reef.location)
    assert reef.done("content", "remove", "reef", "--yes") == (
        "removed the project reef with its 1 entities, 1 sources, 1 distributions, 1 searchPerformance"
    )
    assert all(rows == [] for rows in reef.state().values())


@pytest.mark.rule("content.command.list")
def test_list_filters_and_counts(desk: Desk) -> None:
    times = [{"updatedAt": f"2026-01-{day:02}"} for day in range(1, 10)]
    desk.load(
        {
            "projects": [project(), project("other")],
            "entities": [
                entity("guide:tide-table", title="Reading ÉBB", status="published", **times[0]),
                entity("concept:tide", **times[2]),
                entity("concept:100%_a!b", **times[1]),
                {**entity("guide:far", **times[3]), "project": "other"},
            ],
        }
    )

    def found(*words: str) -> list[str]:
        return [each["slug"] for each in json.loads(desk.done("content", "list", "--json", *words))["entities"]]

    assert found() == ["far", "tide", "100%_a!b", "tide-table"]
    assert found("--project", "reef", "--type", "guide") == ["tide-table"]
    assert found("--status", "published") == ["tide-table"]
    assert found("--search", "tIDe") == ["tide", "tide-table"]
    assert found("--search", "ébb") == ["tide-table"]
    assert found("--search", "%_A!") == ["100%_a!b"]
    assert found("--search", "_") == ["100%_a!b"]
    done = desk.run("content", "list", "--limit", "1")
    assert done.stdout.split() == ["other", "guide:far", "draft", "The", "far"]
    assert done.stderr == "3 more; see --limit\n"
    assert [line.split()[:2] for line in desk.done("content", "projects").splitlines()] == [
        ["other", "1"],
        ["reef", "3"],
    ]
    assert json.loads(desk.done("content", "projects", "--json"))[1]["entities"] == 3


@pytest.mark.rule("content.command.ref")
def test_a_ref_is_a_key_of_a_project_or_an_id_or_a_project(desk: Desk) -> None:
    desk.load(small())
    desk.load({"projects": [project("other")], "entities": [{**entity("guide:intro"), "project": "other"}]})
    misused(desk.run("content", "show", "guide:intro"), "name a project with --project; there are other, reef")
    assert desk.shown("guide:intro", "--project", "reef")["id"] == uid(2)
    assert desk.shown("guide:intro", "--project", "other")["id"] != uid(2)
    for number, name in {1: "slug", 2: "title", 4: "url", 5: "title", 7: "notes", 11: "query", 13: "text"}.items():
        assert desk.shown(uid(number).upper())[name] is not None
    misused(
        desk.run("content", "show", "guide:none", "--project", "reef"), "there is no guide:none in the project reef"
    )
    misused(desk.run("content", "show", uid(77)), f"there is no {uid(77)}")
    misused(desk.run("content", "show", "none"), "there is no none")
    misused(desk.run("content", "show", "page:x", "--project", "reef"), "must be a type and a slug")
    misused(
        desk.run("content", "show", "guide:x", "--project", "none"), "there is no project none; there are other, reef"
    )
    text = desk.done("content", "show", "guide:intro", "--project", "reef")
    assert "title:               Él Íntro" in text
    assert f"guide:intro GUIDE_USES_CONCEPT concept:tide  (why)  {uid(7)}" in text


@pytest.mark.rule("content.command.nothing")
def test_without_a_database_there_is_nothing_to_look_at(sqlite: Desk, tmp_path: Path) -> None:
    misused(sqlite.run("content", "list"), "there is no database carrel.db", status=1)
    assert list(tmp_path.iterdir()) == []
    sqlite.load({})
    misused(sqlite.run("content", "add", "guide", "A"), "there is none yet; make one with carrel content add-project")


def test_a_hub_is_shown_with_its_newest_relations_only(sqlite: Desk) -> None:
    sqlite.load(
        {
            "projects": [project()],
            "entities": [entity("concept:hub"), *(entity(f"guide:g{n}") for n in range(30))],
            "relations": [
                relation(f"guide:g{n}", "GUIDE_USES_CONCEPT", "concept:hub", createdAt=f"2026-01-{n + 1:02}")
                for n in range(30)
            ],
            "searchPerformance": [performance(entity="concept:hub")],
            "quotableBlocks": [block("concept:hub")],
        }
    )
    hub = sqlite.shown("concept:hub")
    assert [each["from"] for each in hub["relations"]] == [f"guide:g{n}" for n in range(29, 9, -1)]
    assert (hub["relationsInAll"], hub["quotableBlocksInAll"], hub["searchPerformanceInAll"]) == (30, 1, 1)


# --- what the documentation shows

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "content.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "examples" / "content"


def commands(text: str, heading: str) -> list[list[str]]:
    """The commands of the first block of shell under a heading."""
    (block, *_) = re.findall(r"```sh\n(.*?)```", text.partition(heading)[2], re.DOTALL)
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_the_bundles_of_the_page_are_as_it_says(sqlite: Desk, tmp_path: Path) -> None:
    document, lines = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "bundle.json").write_text(document, encoding="utf-8")
    (tmp_path / "lines").write_text(lines, encoding="utf-8")
    assert sqlite.load(json.loads(document)).counts["relations"].added == 2
    counts = json.loads(sqlite.done("import", "content", "lines", "--json"))["counts"]
    assert (counts["projects"]["unchanged"], counts["entities"]["unchanged"]) == (1, 1)


def test_every_field_is_on_the_page(sqlite: Desk) -> None:
    for kind in KINDS:
        row = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{kind.key}`" in line)
        for name in kind.given_fields:
            assert re.search(rf"\b{name}\b", row) or name == "id", (kind.key, name)
        for name in kind.needed:
            assert f"**{name}**" in row
    for name in RELATION_TYPES:
        assert name in PAGE or name.startswith(("DISTRIBUTION_PROMOTES_", "VIDEO_EXPLAINS_"))


def test_the_commands_of_the_page_do_what_it_says(sqlite: Desk) -> None:
    for words in commands(PAGE, "## Editing by hand"):
        sqlite.done(*words, *(["--yes"] if words[1] == "remove" else []))
    assert sqlite.query("SELECT status FROM entity") == [("published",)]
    for words in commands(PAGE, "## Export"):
        sqlite.done(*words)
    (sqlite.folder / "Queries.csv").write_text(
        "Top queries,Clicks,Impressions,CTR,Position\na,1,2,50%,3\n", encoding="utf-8"
    )
    for words in commands(PAGE, "## Google Search Console"):
        sqlite.done(*words)


@pytest.mark.rule("content.upsert.twice")
def test_the_sample_is_what_its_page_says(desk: Desk) -> None:
    page = (SAMPLE / "README.md").read_text(encoding="utf-8")
    first, second = ([word.replace("examples/content", str(SAMPLE)) for word in words] for words in commands(page, "#"))
    answer = json.loads(desk.done(*first, "--json"))
    assert answer["warnings"] == []
    assert {key: counts["added"] for key, counts in answer["counts"].items()} == {
        "projects": 2,
        "entities": 60,
        "sources": 13,
        "videos": 7,
        "distributions": 7,
        "relations": 120,
        "searchPerformance": 158,
        "quotableBlocks": 24,
    }
    assert "10 of 12 pages are entities of slow-bread" in desk.done(*second)
    assert desk.query("SELECT count(DISTINCT relation_type) FROM relation") == [(19,)]
    assert desk.query("SELECT count(DISTINCT entity_type), count(DISTINCT status) FROM entity") == [(4, 4)]
    for words in commands(page, "Then try:"):
        if words[0] == "content":
            assert desk.done(*words)
    assert json.loads(desk.done(*first, "--json"))["counts"]["relations"]["unchanged"] == 120
