"""Changing and deleting notes: what is written, what is refused, and that nothing else changes."""

import asyncio
import errno
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from carrel.notes.file_store import FileStore
from carrel.notes.trash import Restorer, Trash
from carrel.notes.vault import Stamp, Vault, VaultError
from tests.faults import can_mount, fill, small_disk
from tests.vaults import contents, leftovers, note, opened, refused, without_privileges, write

pytestmark = pytest.mark.anyio

# --- update


@pytest.mark.rule("notes.update.tags")
@pytest.mark.parametrize(
    ("before", "tags", "after"),
    [
        ("Body #inline", ["a"], "---\ntags:\n  - a\n---\nBody #inline"),
        ("---\ntags: [b]\n---\nBody #inline", ["a", "c d"], "---\ntags: [a, c d]\n---\nBody #inline"),
        ("---\ntags:\n- b\nkey: 1\n---\n", ["a", "c"], "---\ntags:\n- a\n- c\nkey: 1\n---\n"),
        ("---\nkey: 1 # c\ntags: b\n---\n", ["a", "c"], "---\nkey: 1 # c\ntags: a c\n---\n"),
        ("---\ntag: b\n---\n", ["a"], "---\ntag: a\n---\n"),
        ("---\ntags: [b]\n---\nx", [], "---\ntags: []\n---\nx"),
        ("---\ntags:\n  - b\n---\nx", [], "x"),
        ("---\ntags:\n  - b\ntag: c\n---\nx", [], "---\ntags: []\ntag: c\n---\nx"),
        ("---\ntags: >-\n  b\n  c\nkey: 1\n---\nx", ["a"], "---\ntags: a\nkey: 1\n---\nx"),
        ("---\ntags: &t\n  - b\nsame: *t\n---\nx", ["a"], "---\ntags: &t [a]\nsame: *t\n---\nx"),
        ("\ufeff---\r\ntags: [b]\r\n---\r\nx", ["a"], "\ufeff---\r\ntags: [a]\r\n---\r\nx"),
        ("\ufeffx\r\n", ["a"], "\ufeff---\r\ntags:\r\n  - a\r\n---\r\nx\r\n"),
    ],
)
async def test_tags_replace_those_of_the_frontmatter(tmp_path: Path, before: str, tags: list[str], after: str) -> None:
    vault = write(tmp_path / "notes", {"n.md": before})
    async with opened(tmp_path) as store:
        found = note(await store.update("n.md", title=None, content=None, tags=tags))
        assert list(found.tags) == [*tags, *(["inline"] if "#inline" in before else [])]
    assert contents(vault) == {"n.md": after.encode()}


@pytest.mark.rule("notes.update.content", "notes.files.only_what_was_asked")
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        ("old", "new", "new"),
        ("old", "", ""),
        ("---\ntitle: T # c\nx: [1,  2]\n---\nold", "new\n", "---\ntitle: T # c\nx: [1,  2]\n---\nnew\n"),
        ("\ufeff---\r\ntitle: T\r\n---\r\nold\r\n", "a\nb\r\nc", "\ufeff---\r\ntitle: T\r\n---\r\na\r\nb\r\nc"),
        ("\ufeffold", "new", "\ufeffnew"),
        ("a\r\nb\n", "x\ny", "x\ny"),
        ("---\nbroken: [\n---\nold", "new", "new"),
        ("---\nt: 1\n---\nold", "---\nt: 2\n---\nnew", "---\nt: 1\n---\n---\nt: 2\n---\nnew"),
    ],
)
async def test_content_replaces_the_text_and_leaves_the_head(
    tmp_path: Path, before: str, content: str, after: str
) -> None:
    vault = write(tmp_path / "notes", {"n.md": before, "other.md": "[[n]]"})
    async with opened(tmp_path) as store:
        note(await store.update("n", title=None, content=content, tags=None))
    assert contents(vault) == {"n.md": after.encode(), "other.md": b"[[n]]"}


@pytest.mark.rule("notes.files.only_what_was_asked")
async def test_bytes_that_are_no_utf8_survive_a_change_of_something_else(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": b"---\ntags: [a]\n---\ncaf\xe9\xff", "l.md": b"\xff [[n]] \xfe"})
    async with opened(tmp_path) as store:
        note(await store.update("n", title=None, content=None, tags=["b"]))
        assert contents(vault)["n.md"] == b"---\ntags: [b]\n---\ncaf\xe9\xff"
        note(await store.update("n", title="m", content=None, tags=None))
    assert contents(vault) == {"m.md": b"---\ntags: [b]\n---\ncaf\xe9\xff", "l.md": b"\xff [[m]] \xfe"}


@pytest.mark.rule("notes.update.missing")
async def test_a_note_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"gone.md": "x"})
    async with opened(tmp_path) as store:
        (vault / "gone.md").unlink()
        for note_id in ("nope.md", "gone.md", "", "../x"):
            assert refused(await store.update(note_id, title="t", content="c", tags=["a"])) == "NODE_NOT_FOUND"
    assert contents(vault) == {}


@pytest.mark.rule("notes.update.rename")
@pytest.mark.parametrize(
    ("before", "title", "new_id", "after"),
    [
        ("x", "New Title", "sub/new-title.md", "---\ntitle: New Title\n---\nx"),
        ("x", "new", "sub/new.md", "x"),
        ("---\ntitle: Old # c\nk: 1\n---\nx", "new", "sub/new.md", "---\ntitle: new # c\nk: 1\n---\nx"),
        ("---\ntitle: 'Old'\n---\nx", "It's", "sub/it's.md", "---\ntitle: 'It''s'\n---\nx"),
        ("---\ntitle: >-\n  a\n  b\nk: 1\n---\nx", "C D", "sub/c-d.md", "---\ntitle: C D\nk: 1\n---\nx"),
        ("---\nk: 1\n---\nx", "A: B", "sub/a-b.md", '---\ntitle: "A: B"\nk: 1\n---\nx'),
        ("\ufeffx\r\n", "A B", "sub/a-b.md", "\ufeff---\r\ntitle: A B\r\n---\r\nx\r\n"),
        ("x", "Old Name", "sub/Old Name.md", "x"),
        ("x", "old name", "sub/old-name.md", "---\ntitle: old name\n---\nx"),
    ],
)
async def test_a_title_that_changes_the_name_renames_the_file_in_its_folder(
    tmp_path: Path, before: str, title: str, new_id: str, after: str
) -> None:
    vault = write(tmp_path / "notes", {"sub/Old Name.md": before})
    async with opened(tmp_path) as store:
        found = note(await store.update("sub/old name", title=title, content=None, tags=None))
        assert (found.id, found.title) == (new_id, title)
    assert contents(vault) == {new_id: after.encode()}


@pytest.mark.rule("notes.update.taken", "notes.create.nothing_left")
async def test_a_title_whose_name_is_taken_or_empty_changes_nothing(tmp_path: Path) -> None:
    files = {"a.md": b"x", "B.md": b"y", "links.md": b"[[a]]"}
    vault = write(tmp_path / "notes", files)
    async with opened(tmp_path) as store:
        assert refused(await store.update("a", title="b", content="new", tags=["t"])) == "NODE_EXISTS"
        (vault / "Unseen.md").write_bytes(b"z")
        assert refused(await store.update("a", title="unseen", content=None, tags=None)) == "NODE_EXISTS"
        assert refused(await store.update("a", title="...", content="new", tags=None)) == "INVALID_PARAMS"
    assert contents(vault) == {**files, "Unseen.md": b"z"}


async def test_a_name_may_change_in_case_alone(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"MyNote.md": "x", "links.md": "[[MyNote]]"})
    async with opened(tmp_path) as store:
        assert note(await store.update("MyNote.md", title="mynote", content=None, tags=None)).id == "mynote.md"
        assert [node.id for node in store.index.graph] in (["links.md", "mynote.md"], ["mynote.md", "links.md"])
    assert list(contents(vault)) == ["links.md", "mynote.md"]


async def test_a_head_that_cannot_be_read_is_not_changed(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "---\nbroken: [\n---\nx"})
    async with opened(tmp_path) as store:
        outcome = await store.update("n", title=None, content=None, tags=["a"])
        assert refused(outcome) == "INVALID_PARAMS"
    assert contents(vault) == {"n.md": b"---\nbroken: [\n---\nx"}


@pytest.mark.rule("notes.files.reread")
async def test_a_change_that_somebody_made_a_moment_before_is_not_lost(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "---\ntags: [a]\n---\nold", "l.md": "[[n]]"})
    async with opened(tmp_path) as store:
        write(vault, {"n.md": "---\ntags: [a]\nkey: new\n---\nnew text"})
        note(await store.update("n", title=None, content=None, tags=["b"]))
        assert contents(vault)["n.md"] == b"---\ntags: [b]\nkey: new\n---\nnew text"
        write(vault, {"l.md": "now [[n|with text]] and\n", "unseen.md": "[[n]]"})
        note(await store.update("n", title="m", content=None, tags=None))
        assert contents(vault)["l.md"] == b"now [[m|with text]] and\n"
        assert contents(vault)["unseen.md"] == b"[[m]]"
        write(vault, {"m.md": "---\ntitle: Given Elsewhere\n---\nx", "l.md": "[[Given Elsewhere]]"})
        assert note(await store.update("m", title="m", content=None, tags=None)).title == "m"
    assert contents(vault)["l.md"] == b"[[m]]"
    assert contents(vault)["m.md"] == b"---\ntitle: m\n---\nx"


class Meddled(Vault):
    """Somebody else writes a file right after it was read."""

    meddling: dict[str, list[bytes]]

    def read(self, note_id: str) -> tuple[bytes, Stamp] | None:
        found = super().read(note_id)
        if others := self.meddling.get(note_id):
            Path(self.path(note_id)).write_bytes(others.pop(0))
        return found


@asynccontextmanager
async def meddled(folder: Path, meddling: dict[str, list[bytes]]) -> AsyncGenerator[FileStore]:
    vault = Meddled(folder / "notes")
    vault.meddling = {}
    store = FileStore(vault, folder / ".carrel")
    await store.open(watch=False)
    await store.index.wait_until_ready(no_timeout=True)
    vault.meddling = meddling
    yield store
    await store.close()


@pytest.mark.rule("notes.files.reread")
async def test_a_change_between_reading_and_writing_is_seen_and_kept(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "one", "l.md": "[[n]]"})
    async with meddled(tmp_path, {"n.md": [b"two", b"three"]}) as store:
        note(await store.update("n", title=None, content=None, tags=["t"]))
    assert contents(vault)["n.md"] == b"---\ntags:\n  - t\n---\nthree"
    async with meddled(tmp_path, {"l.md": [b"![[n]] edited", b"edited: [[n#h]]"], "n.md": [b"four"]}) as store:
        note(await store.update("n", title="m", content=None, tags=None))
    assert contents(vault) == {"m.md": b"four", "l.md": b"edited: [[m#h]]"}


@pytest.mark.rule("notes.files.reread")
async def test_a_note_that_changes_all_the_time_is_left_to_others_after_some_tries(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "one"})
    edits = [f"edit {number}".encode() for number in range(30)]
    async with meddled(tmp_path, {"n.md": edits}) as store:
        with pytest.raises(VaultError, match="being changed by others"):
            await store.update("n", title=None, content=None, tags=["t"])
    assert contents(vault)["n.md"].startswith(b"edit ")
    assert leftovers(tmp_path) == []


# --- delete


@pytest.mark.rule("notes.delete.trash", "notes.delete.heals")
async def test_a_deleted_note_lies_in_the_trash_with_its_path_and_time_and_can_come_back(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"sub/Ü note.md": b"\xff bytes", "links.md": "[[Ü note]]"})
    async with opened(tmp_path) as store:
        assert await store.delete("SUB/ü NOTE") is True
        assert await store.delete("sub/Ü note.md") is False
        assert await store.get("sub/Ü note.md") is None
        links = note(await store.get("links"))
        assert (links.links, list(links.warnings)) == ([], ["Broken link: [[Ü note]]"])
        trash = Trash(Vault(tmp_path / "notes"), tmp_path / ".carrel")
        (trashed,) = trash
        assert trashed.id == "sub/Ü note.md"
        assert trashed.path.read_bytes() == b"\xff bytes"
        assert trashed.path.is_relative_to(tmp_path / ".carrel" / "trash")
        assert trashed.deleted.tzinfo is not None
        trash.restore(trashed, trashed.id)
        await store.index.rescan()
        links = note(await store.get("links"))
        assert ([link.id for link in links.links], list(links.warnings)) == (["sub/Ü note.md"], [])
        assert list(trash) == []
    assert list((tmp_path / ".carrel" / "trash").iterdir()) == []
    assert contents(tmp_path / "notes")["sub/Ü note.md"] == b"\xff bytes"


async def test_notes_of_one_name_are_kept_apart_in_the_trash_and_none_is_written_over(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {})
    async with opened(tmp_path) as store:
        for number in range(3):
            write(vault, {"a.md": str(number)})
            assert await store.delete("a.md")
        trash = Trash(Vault(vault), tmp_path / ".carrel")
        assert [each.path.read_text(encoding="utf-8") for each in trash] == ["2", "1", "0"]
        write(vault, {"a.md": "there"})
        with pytest.raises(VaultError, match=r"a\.md is there already"):
            trash.restore(next(iter(trash)), "a.md")
        trash.restore(next(iter(trash)), "other/b.md")
    assert contents(vault) == {"a.md": b"there", "other/b.md": b"2"}


@pytest.mark.rule("notes.delete.missing")
async def test_deleting_a_note_whose_file_is_gone_leaves_no_trace(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"a/b/c.md": "x"})
    async with opened(tmp_path) as store:
        (vault / "a/b/c.md").unlink()
        assert await store.delete("a/b/c.md") is False
        assert await store.delete("a/b/c.md") is False
        assert await store.delete("../notes/a/b/c.md") is False
    assert list((tmp_path / ".carrel" / "trash").iterdir()) == []


# --- calls that are given up


async def test_a_call_that_is_given_up_leaves_the_vault_whole_and_the_way_free(tmp_path: Path) -> None:
    links = {f"l{number}.md": "[[n]]" for number in range(20)}
    vault = write(tmp_path / "notes", {"n.md": "x", **links})
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        for number in range(0, 40, 2):
            calls = [
                asyncio.create_task(store.update("n", title="m" if number % 4 else "n", content=None, tags=None)),
                asyncio.create_task(store.create(f"new {number}", "x", (), "")),
                asyncio.create_task(store.delete(f"new-{number - 2}")),
            ]
            await asyncio.sleep(number / 4000)
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await store.delete("no such note") is False  # when what is under way is done
            name = "n" if (vault / "n.md").exists() else "m"
            await store.index.rescan()
            found = note(await store.update(name, title="n", content=None, tags=None))
            assert found.id == "n.md"
            note(await other.update("n", title=None, content=f"edit {number}", tags=None))
    files = contents(vault)
    assert all(files[each] == b"[[n]]" for each in links)
    assert files["n.md"].endswith(b"edit 38")
    assert leftovers(tmp_path) == []


# --- a disk that does not do what it is asked


@pytest.mark.rule("notes.errors.disk")
async def test_in_a_folder_that_cannot_be_written_everything_fails_and_nothing_changes() -> None:
    with without_privileges() as folder:
        vault = write(folder / "notes", {"sub/a.md": "---\ntags: [x]\n---\nx", "l.md": "[[a]]"})
        before = contents(vault)
        async with opened(folder) as store:
            (vault / "sub").chmod(0o555)
            for attempt in (
                store.create("new", "x", (), "sub"),
                store.create("new", "x", (), "sub/deeper"),
                store.update("sub/a.md", title=None, content="new", tags=None),
                store.update("sub/a.md", title="b", content=None, tags=None),
                store.delete("sub/a.md"),
            ):
                with pytest.raises(VaultError, match="permission denied; nothing was changed") as failure:
                    await attempt
                assert str(folder) not in str(failure.value)
            assert contents(vault) == before
            assert note(await store.get("l")).links[0].id == "sub/a.md"
            assert list(Trash(Vault(vault), folder / ".carrel")) == []
        assert [path for path in leftovers(folder) if path.name != "index.db"] == []


@pytest.mark.rule("notes.files.full", "notes.errors.disk")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("full", ["the vault's disk", "the workspace's disk"])
async def test_a_full_disk_is_said_to_be_full_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, full: str
) -> None:
    vault = write(tmp_path / "notes", {"a.md": "x", "l.md": "[[a]]"})

    def refuse(*_: object, **_named: object) -> int:
        raise OSError(number, os.strerror(number))

    async with opened(tmp_path) as store:
        before = contents(vault)
        with monkeypatch.context() as patch:
            if full == "the vault's disk":
                patch.setattr(os, "write", refuse)
            else:
                patch.setattr(Path, "open", refuse)
                patch.setattr(os, "fsync", refuse)
            for attempt in (
                store.create("new", "x", (), ""),
                store.update("a.md", title=None, content="new", tags=None),
                store.update("a.md", title="b", content=None, tags=None),
            ):
                with pytest.raises(VaultError, match="the disk is full; nothing was changed, free space and try again"):
                    await attempt
        assert contents(vault) == before
        assert leftovers(tmp_path) == []
        assert note(await store.update("a.md", title="b", content=None, tags=None)).id == "b.md"


@pytest.mark.rule("notes.files.full", "notes.errors.disk")
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a disk")
async def test_on_a_disk_that_is_really_full_nothing_changes_and_later_it_does(tmp_path: Path) -> None:
    with small_disk(tmp_path / "notes", megabytes=1) as vault:
        write(vault, {"a.md": "x", "l.md": "[[a]]"})
        async with opened(tmp_path) as store:
            filler, before = fill(vault), contents(vault)
            for attempt in (
                store.create("new", "x", (), ""),
                store.update("a.md", title=None, content="new", tags=None),
                store.update("a.md", title="b", content=None, tags=None),
            ):
                with pytest.raises(VaultError, match="the disk is full; nothing was changed, free space and try again"):
                    await attempt
            assert contents(vault) == before
            assert leftovers(tmp_path) == []
            filler.unlink()
            assert note(await store.update("a.md", title="b", content=None, tags=None)).id == "b.md"


@pytest.mark.rule("notes.files.durable")
async def test_before_a_write_is_answered_its_folder_is_flushed_with_the_new_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = write(tmp_path / "notes", {"a.md": "x", "l.md": "[[a]]"})
    flush, flushed = os.fsync, list[dict[str, bytes]]()

    def seen(descriptor: int) -> None:
        flush(descriptor)
        if os.path.samestat(os.fstat(descriptor), vault.stat()):
            flushed.append(contents(vault))

    async with opened(tmp_path) as store:
        monkeypatch.setattr(os, "fsync", seen)
        for work in (
            lambda: store.create("new", "x", (), ""),
            lambda: store.update("new.md", title=None, content="y", tags=None),
            lambda: store.update("a.md", title="b", content=None, tags=None),
            lambda: store.delete("new.md"),
        ):
            flushed.clear()
            await work()
            assert flushed[-1:] == [contents(vault)]
        flushed.clear()
        restorer = Restorer(Vault(vault), tmp_path / ".carrel")
        assert restorer.restore(restorer.trashed()[0], "new.md") == "new.md"
        assert flushed[-1:] == [contents(vault)]


@pytest.mark.rule("notes.errors.disk")
async def test_in_place_of_a_vault_that_is_away_nothing_is_written(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"a.md": "x"})
    async with opened(tmp_path) as store:
        vault.rename(tmp_path / "away")
        for directory in ("", "sub"):
            with pytest.raises(VaultError, match="the vault itself is gone"):
                await store.create("new", "x", (), directory)
        assert not vault.exists()
        (tmp_path / "away").rename(vault)
        assert note(await store.create("new", "x", (), "")).id == "new.md"


@pytest.mark.rule("notes.files.temporary")
async def test_what_a_process_that_died_was_writing_is_tidied_up_by_the_next(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"sub/a.md": "x"})
    record = {"folder": "sub/", "name": "a.md", "temporary": ".a.md.0123456789ab.carrel-tmp", "before": "a hash"}
    own = write(tmp_path / ".carrel/notes", {"writing": json.dumps(record)})
    write(vault, {"sub/.a.md.0123456789ab.carrel-tmp": "half", "sub/.mine": "x"})
    async with opened(tmp_path) as store:
        assert leftovers(tmp_path) == []
        write(own, {".journal.json.carrel-tmp": "half"})
        assert note(await store.update("sub/a.md", title=None, content="y", tags=None)).content == "y"
    assert contents(vault) == {"sub/a.md": b"y", "sub/.mine": b"x"}
    assert leftovers(tmp_path) == []
