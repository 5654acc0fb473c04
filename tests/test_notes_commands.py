"""`carrel notes` as a person uses it, and the vault in `carrel index` and `carrel search`."""

import asyncio
import json
import re
import shutil
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from carrel.cli import notes as cli_notes
from carrel.cli.notes import line, read_vault
from carrel.mcp.toolset import Caller
from carrel.notes.file_store import FileStore
from carrel.notes.note_store import NoteView
from carrel.notes.vault import Vault
from carrel.notes.vault_report import KINDS
from carrel.toolsets.notes import notes_toolset
from carrel.toolsets.notes.handlers import note_handlers
from tests.bolt import Bolt, bolt, bolt_url
from tests.note_desks import GARDEN, NOTES, Desk, desk, empty
from tests.program import misused, run_carrel, run_carrel_here

__all__ = ["bolt", "bolt_url", "desk", "empty"]

PAGE = (Path(__file__).parents[1] / "docs" / "notes.md").read_text(encoding="utf-8")


# --- list and show


@pytest.mark.rule("notes_commands.list.order")
def test_list_shows_every_note_by_id(desk: Desk) -> None:
    told = desk.told("list")
    assert told["total"] == 5
    assert told["notes"][1:3] == [
        {"id": "ideas/compost.md", "title": "compost", "tags": ["outdoors"], "incomingCount": 1, "outgoingCount": 1},
        {
            "id": "ideas/garden.md",
            "title": "The garden",
            "tags": ["Idea", "outdoors"],
            "incomingCount": 1,
            "outgoingCount": 2,
        },
    ]
    lines = desk.notes("list").stdout.splitlines()
    assert [each.split()[0] for each in lines] == sorted(NOTES)
    assert lines[2].split() == ["ideas/garden.md", "1", "in", "2", "out", "The", "garden", "#Idea", "#outdoors"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--tag", "IDEA"), ["bread/loaf.md", "ideas/garden.md"]),
        (("--tag", "#idea", "--tag", "outdoors"), ["ideas/garden.md"]),
        (("--tag", "none"), []),
        (("--folder", "./Work/"), ["work/deep/ana.md"]),
        (("--folder", "work/deep"), ["work/deep/ana.md"]),
        (("--folder", "wor"), []),
        (("--folder", "ideas", "--tag", "idea"), ["ideas/garden.md"]),
        (("--limit", "2"), ["bread/loaf.md", "ideas/compost.md"]),
    ],
)
@pytest.mark.rule("notes_commands.list.narrowed")
def test_list_is_narrowed(desk: Desk, words: Sequence[str], expected: list[str]) -> None:
    done = desk.notes("list", *words)
    assert [each.split()[0] for each in done.stdout.splitlines()] == expected
    assert done.stderr == ("3 more; see --limit\n" if "--limit" in words else "" if expected else "no matching notes\n")


@pytest.mark.rule("notes_commands.show.whole")
def test_show_has_the_whole_note_and_its_links(desk: Desk) -> None:
    done = desk.notes("show", "IDEAS/Garden")
    head, _, content = done.stdout.partition("\n\n")
    assert head.splitlines() == [
        "The garden  (ideas/garden.md)",
        "tags: Idea, outdoors",
        "links to: ideas/compost.md  compost",
        "links to: people/ana.md  ana",
        "linked from: ideas/compost.md  compost",
    ]
    assert content == GARDEN.partition("---\nThree")[2].join(["Three", ""])
    assert "warning: Broken link: [[No such note]]" in done.stderr


@pytest.mark.rule("notes_commands.show.tool", "notes_commands.show.whole")
@pytest.mark.anyio
async def test_show_as_json_is_what_get_node_answers(desk: Desk, tmp_path: Path) -> None:
    desk.put("people/ana.md", "Ana. [[bread/loaf]]\n" + "flour " * 4000)
    told = await asyncio.to_thread(desk.told, "show", "people/ana")
    store = FileStore(Vault(desk.vault), tmp_path / "other")
    await store.open(watch=False)
    (tool,) = (each for each in notes_toolset(note_handlers(store)).tools if each.name == "get_node")
    answer = await tool.handler({"id": "people/ana.md", "depth": 1}, Caller("test"))
    await store.close()
    assert len(told.pop("content")) == 24020
    assert len(answer.pop("content")) == 10_000
    assert told == answer


@pytest.mark.rule("notes_commands.show.missing")
def test_a_note_that_is_not_there_is_refused(desk: Desk) -> None:
    misused(desk.notes("show", "nothing"), "no note nothing")
    misused(desk.notes("show", "The Garden", "--json"), "no note The Garden; did you mean ideas/garden.md?")


def test_what_is_printed_stays_on_its_line(desk: Desk) -> None:
    assert line("a\x1b[2Jb\nc é") == "a\\x1b[2Jb\\nc é"
    desk.put("odd.md", '---\ntitle: "two\\nlines"\n---\n')
    assert "two\\nlines" in desk.notes("list").stdout.splitlines()[3]


# --- restore


def deleted(desk: Desk, note_id: str) -> None:
    """What the tool delete_node does."""

    async def delete() -> None:
        store = FileStore(Vault(desk.vault), desk.folder / ".carrel")
        await store.open(watch=False)
        assert await store.delete(note_id)
        await store.close()

    asyncio.run(delete())


@pytest.mark.rule("notes_commands.restore.list", "notes_commands.restore.newest")
def test_the_note_that_was_deleted_last_comes_back(desk: Desk) -> None:
    assert desk.notes("restore").stderr == "the trash is empty\n"
    deleted(desk, "people/ana.md")
    desk.put("ideas/garden.md", b"\xef\xbb\xbfolder\r\n")
    deleted(desk, "ideas/garden.md")
    desk.put("ideas/garden.md", "newer")
    deleted(desk, "ideas/garden.md")
    listed = desk.told("restore")
    assert [each["id"] for each in listed] == ["ideas/garden.md", "ideas/garden.md", "people/ana.md"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each["deletedAt"]) for each in listed)
    assert desk.told("restore", "--list", "people/ANA") == listed[2:]
    assert desk.notes("restore", "--list").stdout.splitlines()[2] == f"{listed[2]['deletedAt']}  people/ana.md"

    assert desk.told("restore", "Ideas/Garden") == {"id": "ideas/garden.md", "older": 1}
    assert (desk.vault / "ideas/garden.md").read_text() == "newer"
    (desk.vault / "ideas/garden.md").unlink()
    assert desk.notes("restore", "ideas/garden.md").stdout == "restored ideas/garden.md\n"
    assert (desk.vault / "ideas/garden.md").read_bytes() == b"\xef\xbb\xbfolder\r\n"
    assert [each["id"] for each in desk.told("restore")] == ["people/ana.md"]


@pytest.mark.rule("notes_commands.restore.elsewhere")
def test_a_note_comes_back_elsewhere(desk: Desk) -> None:
    deleted(desk, "people/ana.md")
    assert desk.notes("restore", "people/ana.md", "--as", "archive/2026/Ana").returncode == 0
    assert (desk.vault / "archive/2026/Ana.md").read_text() == NOTES["people/ana.md"]
    misused(desk.notes("restore", "--as", "x.md"), "--as requires the ID")


@pytest.mark.rule("notes_commands.restore.refused")
def test_nothing_is_overwritten_and_nothing_leaves_the_vault(desk: Desk, tmp_path: Path) -> None:
    deleted(desk, "people/ana.md")
    (desk.vault / "out").symlink_to(tmp_path)
    desk.put("people/Ana.MD", "another")
    before = desk.contents()
    misused(desk.notes("restore", "people/ana.md"), "people/Ana.MD is there already", "--as", status=1)
    for place in ("ideas/garden.md", "../x.md", "/tmp/x.md", "a/../x.md", ".x/y.md", "node_modules/x.md", "out/x.md"):  # noqa: S108 - no file
        misused(desk.notes("restore", "people/ana.md", "--as", place), "--as", status=1)
    misused(desk.notes("restore", "people/ana", "--as", "old/x", CARREL_NOTES_IGNORE="old"), "notes.ignore", status=1)
    misused(desk.notes("restore", "garden"), "garden is not in the trash")
    assert desk.contents() == before
    assert len(desk.told("restore")) == 1


@pytest.mark.rule("notes_commands.restore.watched")
@pytest.mark.anyio
async def test_a_server_that_runs_sees_the_note_that_comes_back(desk: Desk) -> None:
    store = FileStore(Vault(desk.vault), desk.folder / ".carrel")
    await store.open()
    await store.index.wait_until_ready(no_timeout=True)
    assert await store.delete("ideas/garden.md")
    is_back = asyncio.Event()
    store.index.listeners.append(lambda changed, *_more: is_back.set() if "ideas/garden.md" in changed else None)
    done = await asyncio.to_thread(run_carrel, "notes", "restore", "ideas/garden", cwd=desk.folder)
    assert done.returncode == 0, done
    await asyncio.wait_for(is_back.wait(), 20)
    note = await store.get("ideas/garden.md")
    await store.close()
    assert isinstance(note, NoteView)
    assert [link.id for link in note.links] == ["ideas/compost.md", "people/ana.md"]


@pytest.mark.rule("notes_commands.restore.newest")
def test_of_ids_that_differ_in_case_the_one_that_is_named_comes_back(empty: Desk) -> None:
    for note_id in ("Name.md", "name.md"):
        empty.put(note_id, note_id)
        deleted(empty, note_id)
    assert empty.told("restore", "Name.md") == {"id": "Name.md", "older": 0}
    assert (empty.vault / "Name.md").read_text() == "Name.md"


# --- push


@pytest.mark.rule("notes_commands.push.copies")
def test_push_copies_the_vault(desk: Desk, bolt: Bolt) -> None:
    place = {
        "CARREL_NOTES_NEO4J_URL": bolt.url,
        "CARREL_NOTES_NEO4J_USER": bolt.user,
        "CARREL_NOTES_NEO4J_DATABASE": bolt.database,
        "CARREL_NOTES_NEO4J_PASSWORD_ENV": "BOLT_PASSWORD",
    }
    misused(desk.notes("push", **place), "BOLT_PASSWORD is not set")
    place["BOLT_PASSWORD"] = bolt.password
    before = desk.contents()
    done = desk.notes("push", **place)
    assert (done.returncode, done.stdout) == (0, "5 of 5 notes written, 0 removed\n"), done
    rows = bolt.run("MATCH (n:Node)-[:LINKS_TO]->(m:Node) RETURN n.id AS source, m.id AS target")
    assert sorted((row["source"], row["target"]) for row in rows) == [
        ("ideas/compost.md", "ideas/garden.md"),
        ("ideas/garden.md", "ideas/compost.md"),
        ("ideas/garden.md", "people/ana.md"),
        ("people/ana.md", "bread/loaf.md"),
        ("work/deep/ana.md", "bread/loaf.md"),
    ]
    gone = str(desk.vault / "work")
    shutil.rmtree(gone)
    again = desk.notes("push", "--json", **place)
    assert json.loads(again.stdout) == {"written": 0, "removed": 1, "total": 4}
    assert {path: each for path, each in before.items() if not path.startswith(gone)} == desk.contents()


@pytest.mark.rule("notes_commands.push.unset")
def test_push_says_what_to_set(desk: Desk) -> None:
    misused(desk.notes("push"), "notes.neo4j_url is not set")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    misused(desk.notes("push", CARREL_NOTES_NEO4J_URL=f"bolt://127.0.0.1:{port}"), "cannot be reached", status=1)


# --- stats, and what all commands share


@pytest.mark.rule("notes_commands.stats.figures")
def test_stats_counts_what_is_in_the_vault(desk: Desk) -> None:
    told = desk.told("stats")
    assert told.pop("indexing")["notesRead"] == 5
    assert told == {
        "notes": 5,
        "folders": 4,
        "bytes": sum(len(text.encode()) for text in NOTES.values()),
        "links": 5,
        "brokenLinks": 2,
        "orphans": 0,
        "tags": 3,
        "topTags": [{"tag": "idea", "notes": 2}, {"tag": "outdoors", "notes": 2}, {"tag": "bread", "notes": 1}],
        "hubs": [
            {"id": "bread/loaf.md", "title": "loaf", "score": 2},
            {"id": "ideas/compost.md", "title": "compost", "score": 1},
            {"id": "ideas/garden.md", "title": "The garden", "score": 1},
            {"id": "people/ana.md", "title": "ana", "score": 1},
        ],
    }
    shown = desk.notes("stats").stdout
    assert re.search(r"^links +5, 2 broken$", shown, re.MULTILINE)
    assert re.search(r"^ +2  bread/loaf.md  loaf$", shown, re.MULTILINE)


def test_an_empty_vault_is_no_failure(empty: Desk) -> None:
    assert empty.told("stats")["notes"] == 0
    assert empty.told("list") == {"notes": [], "total": 0}
    assert empty.notes("list").stderr == "the vault has no notes\n"
    assert empty.told("check") == []


@pytest.mark.parametrize("words", [("list",), ("show", "a"), ("check",), ("stats",), ("restore",), ("push",)])
@pytest.mark.rule("notes_commands.every.vault")
def test_without_a_vault_a_command_says_what_to_set(tmp_path: Path, words: Sequence[str]) -> None:
    misused(run_carrel_here("notes", *words, cwd=tmp_path), "notes.vault")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("notes_commands.every.untouched")
def test_looking_changes_nothing_and_leaves_nothing_running(desk: Desk) -> None:
    before, threads = desk.contents(), set(threading.enumerate())
    for words in (("list",), ("show", "ideas/garden"), ("check",), ("stats",), ("restore",)):
        desk.notes(*words)
    assert desk.contents() == before
    for each in set(threading.enumerate()) - threads:
        each.join(10)
        assert not each.is_alive(), each


@pytest.mark.rule("notes_commands.every.progress")
@pytest.mark.anyio
async def test_reading_a_vault_tells_how_far_it_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_notes, "POLL_INTERVAL_SECONDS", 0)
    store = FileStore(Vault(desk.vault), desk.folder / ".carrel")
    told: list[tuple[str, int, int]] = []
    await store.open(watch=False)
    await read_vault(store.index, lambda *each: told.append(each))
    assert store.index.is_ready
    await store.close()
    assert {(step, total) for step, _, total in told} == {("reading", 5)}
    assert sum(more for _, more, _ in told) <= 5


# --- the search index


@pytest.mark.rule("notes_commands.search.index", "notes_commands.search.collections")
def test_notes_are_indexed_and_searched(desk: Desk) -> None:
    indexed = json.loads(desk.run("index", "--json").stdout)["collections"]
    assert (list(indexed), indexed["notes"]["documents"]) == (["notes"], 5)
    assert json.loads(desk.run("index", "--status", "--json").stdout)["collections"] == indexed
    for words in (("--collection", "notes"), ()):
        found = json.loads(desk.run("search", "--json", *words, "knead").stdout)
        assert [(hit["collection"], hit["id"]) for hit in found["hits"]] == [("notes", "bread/loaf.md")]
    assert "(notes bread/loaf.md)" in desk.run("search", "knead").stdout
    refused = desk.run("search", "--collection", "code", "x")
    misused(refused, "code is not indexed", "Indexed collections: notes", status=1)
    shutil.rmtree(desk.vault / "bread")
    desk.run("index")
    assert json.loads(desk.run("search", "--json", "knead").stdout)["hits"] == []


# --- what the documentation shows


@pytest.mark.rule("notes_commands.docs.page")
def test_the_page_shows_what_the_commands_do(empty: Desk) -> None:
    for note_id, text in re.findall(r"`notes/(\S+)`:\n\n```markdown\n(.*?)```", PAGE, re.DOTALL):
        empty.put(note_id, text)
    shown = re.findall(r"```console\n\$ carrel (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) == 4
    for words, output in shown:
        done = empty.run(*words.split())
        lines = done.stdout.splitlines() + done.stderr.splitlines()
        assert [each for each in output.splitlines() if each not in lines] == [], done
    for kind in KINDS:
        assert f"| `{kind}` |" in PAGE
        assert f"  {kind} " in empty.notes("check", "--help").stdout
