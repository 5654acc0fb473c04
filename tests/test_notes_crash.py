"""`kill -9` in the middle of renames: all links are old or all are new, and nothing is left behind."""

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from carrel.notes.note_reader import hash_of
from carrel.notes.vault import TEMPORARY_SUFFIX, VaultError
from tests.program import Script, ending
from tests.vaults import contents, leftovers, note, opened, without_privileges, write

pytestmark = pytest.mark.anyio

LINKS = 200
KILLS = 20

RENAMER = """
import asyncio, os, sys
from pathlib import Path
from carrel.notes.file_store import FileStore
from carrel.notes.note_reader import hash_of
from carrel.notes.vault import Vault

async def rename(folder):
    store = FileStore(Vault(folder / "notes"), folder / ".carrel")
    await store.open(watch=False)
    await store.index.wait_until_ready(no_timeout=True)
    now = "one" if store.index.graph.get("one.md") else "two"
    print("begun", flush=True)
    while True:
        new = "two" if now == "one" else "one"
        await store.update(f"{now}.md", title=new, content=None, tags=None)
        now = new

for line in sys.stdin:
    child = os.fork()
    if not child:
        asyncio.run(rename(Path(sys.argv[1])))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""


def state(folder: Path) -> str:
    """What the vault's files say that the note is called; fails the test if they do not agree."""
    files = contents(folder / "notes")
    (name,) = {"one.md", "two.md"} & set(files)
    title = name.removesuffix(".md")
    assert len(files) == LINKS + 2
    for number in range(LINKS):
        expected = f"{number}: [[{title}]] and [m]({title}.md#h) `[[one]] [[two]]`\n"
        assert files[f"links/{number}.md"].decode() == expected
    assert files[name].decode() == f"I am [[{title}]]"
    return title


def wait_for_journal(folder: Path, child: int, *, decided: bool) -> None:
    """Until a rename is written down, or decided on and being carried out."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        os.kill(child, 0)
        if is_decided(folder) == decided:
            return
    raise AssertionError("there was no rename")


def is_decided(folder: Path) -> bool | None:
    """Whether the rename that is written down is decided on; None if there is none."""
    with suppress(FileNotFoundError):
        return json.loads((folder / ".carrel/notes/journal.json").read_text(encoding="utf-8"))["decided"]
    return None


@pytest.mark.rule("notes.update.all_or_nothing", "notes.files.crash", "notes.files.temporary")
async def test_after_a_kill_all_links_are_old_or_all_are_new_and_nothing_is_left(tmp_path: Path) -> None:
    links = {
        f"links/{number}.md": f"{number}: [[one]] and [m](one.md#h) `[[one]] [[two]]`\n" for number in range(LINKS)
    }
    write(tmp_path / "notes", {"one.md": "I am [[one]]", "other.md": "x", **links})
    random = Random(9)
    titles, hit = list[str](), {False: 0, True: 0}
    with ending([Script(RENAMER, tmp_path, cwd=tmp_path)]) as (script,):
        while min(hit.values()) < KILLS // 2:
            script.say("go")
            first, second = sorted([script.hear(), script.hear()])
            child = int(first)
            assert second == "begun"
            wait_for_journal(tmp_path, child, decided=hit[True] <= hit[False])
            await asyncio.sleep(random.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
            assert script.hear() == "killed"
            if (decided := is_decided(tmp_path)) is not None:  # it was hit while it wrote, and not between two renames
                hit[decided] += 1
            async with opened(tmp_path) as store:
                title = state(tmp_path)
                assert leftovers(tmp_path) == []
                node = store.index.graph.get(f"{title}.md")
                assert node is not None
                assert len(node.into) == LINKS + 1
            titles.append(title)
        script.finish()
    assert set(titles) == {"one", "two"}


@pytest.mark.rule("notes.files.crash")
async def test_a_server_that_lives_on_finishes_what_another_has_left(tmp_path: Path) -> None:
    links = {
        f"links/{number}.md": f"{number}: [[one]] and [m](one.md#h) `[[one]] [[two]]`\n" for number in range(LINKS)
    }
    write(tmp_path / "notes", {"one.md": "I am [[one]]", "other.md": "x", **links})
    async with opened(tmp_path) as store:
        with ending([Script(RENAMER, tmp_path, cwd=tmp_path)]) as (script,):
            script.say("go")
            child = int(min(script.hear(), script.hear()))
            wait_for_journal(tmp_path, child, decided=True)
            os.kill(child, signal.SIGKILL)
            assert script.hear() == "killed"
            script.finish()
        note(await store.update("other", title=None, content="y", tags=None))
        title = state(tmp_path)
        assert leftovers(tmp_path) == []
        await store.index.rescan()
        assert len(store.index.graph.incoming(store.index.graph.find(title))) == LINKS + 1  # type: ignore[arg-type]


@pytest.mark.rule("notes.files.crash")
async def test_what_was_edited_or_deleted_between_a_crash_and_the_next_start_stays_so(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"old.md": "x", "a.md": "edited since [[old]]", "c.md": "[[old]]"})
    temporaries = {name: f".{name}.00{TEMPORARY_SUFFIX}" for name in ("a.md", "b.md", "c.md", "old.md")}
    changes = {
        "old.md": ("x", "x new"),
        "a.md": ("[[old]]", "[[new]]"),
        "b.md": ("[[old]]", "[[new]]"),
        "c.md": ("[[old]]", "[[new]]"),
    }
    write(vault, {temporaries[name]: after for name, (_, after) in changes.items()})
    records = [
        record(name, temporaries[name], before, after, "new.md" if name == "old.md" else "")
        for name, (before, after) in changes.items()
    ]
    write(tmp_path / ".carrel/notes", {"journal.json": json.dumps({"decided": True, "changes": records})})
    async with opened(tmp_path):
        pass
    assert contents(vault) == {"a.md": b"edited since [[new]]", "c.md": b"[[new]]", "new.md": b"x new"}
    assert leftovers(tmp_path) == []


def record(name: str, temporary: str, before: str, after: str, new_id: str = "") -> dict[str, Any]:
    """What the journal says of a note at the top of the vault."""
    return {
        "folder": "",
        "name": name,
        "temporary": temporary,
        "id": name,
        "new_id": new_id,
        "before": hash_of(before.encode()).hex(),
        "after": hash_of(after.encode()).hex(),
        "links": {"old": "new"},
    }


@pytest.mark.rule("notes.files.crash", "notes.files.compared")
@pytest.mark.parametrize(
    ("there", "aside", "after", "trash"),
    [
        ("ours", "before", {"a.md": b"ours"}, []),
        ("before", "ours", {"a.md": b"before"}, []),
        ("ours", "an editor's", {"a.md": b"an editor's"}, []),
        (None, "an editor's", {"a.md": b"an editor's"}, []),
        ("newer", "an editor's", {"a.md": b"newer"}, [b"an editor's"]),
        ("newer", "before", {"a.md": b"newer"}, []),
    ],
)
async def test_what_an_editor_saved_in_the_moment_of_a_crash_is_not_taken_for_a_temporary_file(
    tmp_path: Path, there: str | None, aside: str, after: dict[str, bytes], trash: list[bytes]
) -> None:
    """The process died after the files had changed places, and before it had looked at what came out."""
    temporary = f".a.md.00{TEMPORARY_SUFFIX}"
    vault = write(tmp_path / "notes", {temporary: aside, **({"a.md": there} if there else {})})
    begun = {"folder": "", "name": "a.md", "temporary": temporary, "before": hash_of(b"before").hex()}
    lines = [json.dumps(begun), json.dumps({"after": hash_of(b"ours").hex()})]
    write(tmp_path / ".carrel/notes", {"writing": "\n".join(lines)})
    async with opened(tmp_path):
        pass
    assert contents(vault) == after
    assert [path.read_bytes() for path in (tmp_path / ".carrel").glob("trash/*/a.md")] == trash
    assert leftovers(tmp_path) == []


@pytest.mark.rule("notes.files.crash", "notes.files.compared")
@pytest.mark.parametrize(
    ("there", "aside", "after"),
    [
        ("[[new]]", "[[old]]", b"[[new]]"),
        ("[[new]]", "edited [[old]]", b"edited [[new]]"),
        ("edited [[old]]", "[[new]]", b"edited [[new]]"),
        ("edited [[old]]", "[[old]]", b"edited [[new]]"),
        ("[[old]]", "[[new]]", b"[[new]]"),
    ],
)
async def test_what_an_editor_saved_in_the_moment_of_a_crash_in_a_rename_keeps_its_text_and_gets_the_new_links(
    tmp_path: Path, there: str, aside: str, after: bytes
) -> None:
    temporary = f".a.md.00{TEMPORARY_SUFFIX}"
    vault = write(
        tmp_path / "notes", {"old.md": "x", "a.md": there, temporary: aside, f".old.md.00{TEMPORARY_SUFFIX}": "x"}
    )
    records = [
        record("old.md", f".old.md.00{TEMPORARY_SUFFIX}", "x", "x", "new.md"),
        record("a.md", temporary, "[[old]]", "[[new]]"),
    ]
    write(tmp_path / ".carrel/notes", {"journal.json": json.dumps({"decided": True, "changes": records})})
    async with opened(tmp_path):
        pass
    assert contents(vault) == {"new.md": b"x", "a.md": after}
    assert leftovers(tmp_path) == []


@pytest.mark.rule("notes.files.recovery")
async def test_a_rename_that_cannot_be_undone_yet_keeps_no_server_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with without_privileges() as folder:
        vault = write(folder / "notes", {"one.md": "x", "two.md": "[[one]]"})
        async with opened(folder):
            pass
        temporary = vault / f".two.md{TEMPORARY_SUFFIX}"
        temporary.write_text("half", encoding="utf-8")
        journal = json.dumps({"decided": False, "changes": [record("two.md", temporary.name, "[[one]]", "half")]})
        (folder / ".carrel/notes/journal.json").write_text(journal, encoding="utf-8")
        vault.chmod(0o555)
        async with opened(folder) as store:
            assert "cannot be finished" in caplog.text
            assert note(await store.get("one.md")).content == "x"
            with pytest.raises(VaultError, match="see to the disk and try again") as raised:
                await store.update("two.md", title=None, content="new", tags=None)
            assert str(folder) not in str(raised.value), "no message carries an absolute path"
            vault.chmod(0o755)
            assert note(await store.update("two.md", title=None, content="new", tags=None)).content == "new"
        assert leftovers(folder) == []


@pytest.mark.rule("notes.files.recovery", "notes.nodes.outside")
@pytest.mark.parametrize("is_rename", [True, False])
async def test_what_was_cut_short_in_a_folder_that_has_become_a_link_holds_up_no_write(
    tmp_path: Path, is_rename: bool
) -> None:
    temporary = f".a.md.00{TEMPORARY_SUFFIX}"
    outside = write(tmp_path / "outside", {"a.md": "[[old]]", temporary: "[[new]]"})
    vault = write(tmp_path / "notes", {"old.md": "x", f".old.md.00{TEMPORARY_SUFFIX}": "x"})
    (vault / "st").symlink_to(outside)
    begun = record("a.md", temporary, "[[old]]", "[[new]]") | {"folder": "st/", "id": "st/a.md"}
    changes = [record("old.md", f".old.md.00{TEMPORARY_SUFFIX}", "x", "x", "new.md"), begun]
    rename = {"journal.json": json.dumps({"decided": True, "changes": changes})}
    write(tmp_path / ".carrel/notes", rename if is_rename else {"writing": json.dumps(begun)})
    before = contents(outside)
    async with opened(tmp_path) as store:
        assert note(await store.create("more", "y", (), "")).id == "more.md"
    assert contents(outside) == before
    assert not any((tmp_path / ".carrel/notes" / name).exists() for name in ("journal.json", "writing"))


@pytest.mark.rule("notes.files.recovery")
@pytest.mark.parametrize("journal", ["", "[]", "{", "[" * 100_000, '{"decided": true, "changes": [{}]}'])
async def test_a_journal_that_makes_no_sense_keeps_no_server_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, journal: str
) -> None:
    write(tmp_path / "notes", {"one.md": "x"})
    async with opened(tmp_path):
        pass
    (tmp_path / ".carrel/notes/journal.json").write_text(journal, encoding="utf-8")
    async with opened(tmp_path) as store:
        assert "cannot be finished" in caplog.text
        assert note(await store.get("one.md")).content == "x"


@pytest.mark.rule("notes.files.recovery")
@pytest.mark.parametrize(
    "record",
    [
        "",
        "[" * 100_000,
        '{"folder": 1, "name": [], "temporary": {}}',
        '{"folder": "", "name": "two.md", "temporary": "one.md"}',
    ],
    ids=["empty", "nested", "of other types", "of a note"],
)
async def test_where_a_dead_process_has_not_said_where_it_wrote_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    vault = write(tmp_path / "notes", {"one.md": "x"})
    mine = write(tmp_path / "elsewhere", {f".mine{TEMPORARY_SUFFIX}": "x"}) / f".mine{TEMPORARY_SUFFIX}"
    async with opened(tmp_path):
        pass
    place = tmp_path / ".carrel/notes/writing"
    place.write_text(record, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with opened(tmp_path):
        assert mine.exists()
    assert not place.exists()
    assert contents(vault) == {"one.md": b"x"}
