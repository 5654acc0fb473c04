"""What other programs do to a vault shows in the graph soon after, and after a restart."""

import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
import watchfiles

from carrel.notes import watcher as watching
from carrel.notes.file_store import FileStore
from carrel.notes.graph import Graph
from carrel.notes.inotify import Inotify
from carrel.notes.parser import facts_of
from carrel.notes.vault import Vault
from tests.vaults import note, opened, without_privileges, write

pytestmark = pytest.mark.anyio

WAIT_TIMEOUT_SECONDS = 15.0
"""Seconds. The rule says one; a machine that runs other tests besides may need more, and is no news about us."""

Shown = dict[str, tuple[str, tuple[str, ...], list[str], str]]


def shown(graph: Graph) -> Shown:
    return {
        node.id: (
            node.facts.title,
            node.facts.tags,
            [each.id for each in graph.outgoing(node)],
            node.facts.excerpt.decode(),
        )
        for node in graph
    }


def truth(vault: Path) -> Shown:
    """What is on the disk, read by one who knows nothing yet."""
    graph, files = Graph(), Vault(vault)
    for note_id, _ in files.scan():
        if found := files.read(note_id):
            graph.put(note_id, facts_of(note_id, found[0]))
    return shown(graph)


async def becomes_true(store: FileStore, vault: Path, ids: list[str] | None = None) -> None:
    """Until the graph is what the files say; and that is what this test thinks, too."""
    expected = truth(vault)
    if ids is not None:
        assert sorted(expected) == sorted(ids)
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while (found := shown(store.index.graph)) != expected:
        assert time.monotonic() < end, {
            each: (found.get(each), expected.get(each))
            for each in found.keys() | expected.keys()
            if found.get(each) != expected.get(each)
        }
        await asyncio.sleep(0.01)


WAYS = ("waiting", "looking") if sys.platform == "linux" else ("looking",)
"""Linux lets one wait for changes. Elsewhere it is looked for them now and then, by a library that runs here too."""


@pytest.fixture(params=WAYS)
async def watched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[FileStore, Path]]:
    """A vault on a path with blanks and Unicode, being watched."""
    if request.param == "looking":
        monkeypatch.setattr(watching.Watcher, "_watch", watching.Watcher._read_watchfiles)
    folder = tmp_path / "My Vault - Ünïcödé 日本"
    vault = write(folder / "notes", {"a.md": "[[b]] #one", "b.md": "x", "sub/c.md": "[[a]]", "sub/deep/d.md": "[[c]]"})
    async with opened(folder, watch=True) as store:
        yield store, vault


@pytest.mark.rule("notes.watching.changes")
async def test_edits_new_notes_and_removals_show(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    write(vault, {"a.md": "---\ntitle: New\n---\n[[c]] #two", "new.md": "[[a]] [[New]]"})
    await becomes_true(store, vault, ["a.md", "b.md", "new.md", "sub/c.md", "sub/deep/d.md"])
    (vault / "b.md").unlink()
    (vault / "new.md").write_bytes(b"")
    await becomes_true(store, vault, ["a.md", "new.md", "sub/c.md", "sub/deep/d.md"])
    (vault / "b.md").write_bytes(b"back [[new]]")
    await becomes_true(store, vault)
    assert [each.id for each in note(await store.get("b")).links] == ["new.md"]


@pytest.mark.rule("notes.watching.changes")
async def test_moves_show_also_between_folders_and_in_and_out_of_the_vault(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    (vault / "a.md").rename(vault / "sub/moved.md")
    (vault / "b.md").rename(vault / "b.txt")
    (vault / "sub/c.md").rename(vault.parent / "out.md")
    await becomes_true(store, vault, ["sub/moved.md", "sub/deep/d.md"])
    (vault.parent / "out.md").rename(vault / "in.md")
    (vault / "b.txt").rename(vault / "B.md")
    (vault / "sub/moved.md").rename(vault / "sub/MOVED.md")
    await becomes_true(store, vault, ["in.md", "B.md", "sub/MOVED.md", "sub/deep/d.md"])


@pytest.mark.rule("notes.watching.changes")
async def test_case_and_script_do_not_matter(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    write(
        vault,
        {
            "ÜBER/Größe.MD": "[[a]]",
            "日本/ノート.md": "[[größe]]",
            "e\u0301/cafe\u0301.md": "[[ノート]]",
            "😀.md": "[[café]]",
        },
    )
    await becomes_true(store, vault)
    (vault / "ÜBER").rename(vault / "über")
    (vault / "A.md").write_bytes(b"another that differs in case")
    await becomes_true(store, vault)
    (vault / "a.md").unlink()
    (vault / "😀.md").write_bytes("[[größe]] 😀".encode())
    await becomes_true(store, vault)


@pytest.mark.rule("notes.watching.changes")
async def test_folders_that_come_go_and_are_renamed_show_with_all_in_them(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    (vault / "sub").rename(vault / "renamed")
    await becomes_true(store, vault, ["a.md", "b.md", "renamed/c.md", "renamed/deep/d.md"])
    (vault / "renamed/c.md").write_bytes(b"edited in its new place")
    write(vault / "one/two/three", {"deep.md": "[[a]]", "deeper/est.md": "[[deep]]"})
    await becomes_true(store, vault)
    write(vault, {"one/two/later.md": "[[est]]", "one/two/three/deeper/more.md": "x"})
    await becomes_true(store, vault)
    outside = write(vault.parent / "elsewhere", {"x/in.md": "[[a]]", "x/y/in.md": "[[deep]]"})
    shutil.move(outside / "x", vault / "x")
    await becomes_true(store, vault)
    shutil.rmtree(vault / "one")
    shutil.rmtree(vault / "x")
    await becomes_true(store, vault, ["a.md", "b.md", "renamed/c.md", "renamed/deep/d.md"])


@pytest.mark.rule("notes.nodes.which", "notes.nodes.outside")
async def test_what_is_no_note_stays_out_however_it_comes(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    outside = write(vault.parent / "outside", {"secret.md": "secret"})
    (vault / "link").symlink_to(outside)
    (vault / "again").symlink_to("sub")
    (vault / "linked.md").symlink_to(outside / "secret.md")
    write(vault, {".git/x.md": "x", "node_modules/y.md": "x", ".obsidian/z.md": "x", "image.png": "x"})
    write(outside, {"secret.md": "changed", "more.md": "more"})
    write(vault, {"sub/seen.md": "x"})
    await becomes_true(store, vault, ["a.md", "b.md", "sub/c.md", "sub/deep/d.md", "sub/seen.md"])
    write(vault, {"sub/seen.md": "and now all that came before is told"})
    await becomes_true(store, vault)


@pytest.mark.rule("notes.watching.changes")
async def test_deleting_and_creating_at_once_and_saving_by_rename_show(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    (vault / "a.md").unlink()
    (vault / "a.md").write_bytes(b"made anew #fresh")
    write(vault, {".b.md.swp": "saved by rename [[a]]"})
    (vault / ".b.md.swp").replace(vault / "b.md")
    write(vault, {"sub/c.md~": "backup"})
    (vault / "sub/c.md").rename(vault / "sub/c.md.bak")
    (vault / "sub/c.md~").rename(vault / "sub/c.md")
    await becomes_true(store, vault)
    stamp = (vault / "a.md").stat()
    (vault / "a.md").write_bytes(b"made ANEW #fresh")  # as long as before
    os.utime(vault / "a.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # and as old
    await becomes_true(store, vault)


@pytest.mark.rule("notes.watching.burst")
async def test_a_burst_of_a_thousand_files_shows(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    write(vault, {f"burst/{number % 7}/{number}.md": f"[[{number + 1}]] #burst" for number in range(1000)})
    await becomes_true(store, vault)
    assert len(await store.find_by_tags(["burst"], all_of_them=False, limit=2000)) == 1000
    for number in range(0, 1000, 2):
        (vault / f"burst/{number % 7}/{number}.md").unlink()
    (vault / "burst").rename(vault / "moved")
    await becomes_true(store, vault)


@pytest.mark.rule("notes.warnings.collected")
async def test_what_is_wrong_with_what_changed_is_collected_once(watched: tuple[FileStore, Path]) -> None:
    store, vault = watched
    store.take_warnings()
    write(vault, {"bad.md": "---\nkey: [\n---\n", "twice.md": "---\ntags: [x, X]\n---\n[[nowhere]]"})
    await becomes_true(store, vault)
    warnings = store.take_warnings()
    assert any(each.startswith("bad.md: Frontmatter cannot be read") for each in warnings)
    assert "twice.md: Duplicate tag ignored: X" in warnings
    assert store.take_warnings() == []


# --- what Linux tells


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


def heard(events: Inotify) -> set[str]:
    """All that there is to read by now."""
    found: set[str] = set()
    while events.wait(0):
        found |= events.read()
    return found


@on_linux
@pytest.mark.rule("notes.watching.burst")
def test_where_more_happens_than_linux_remembers_all_is_looked_through(tmp_path: Path) -> None:
    one, other = (tmp_path / name for name in ("one.md", "other.md"))
    write(tmp_path, {"one.md": "", "other.md": ""})
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    with Inotify(str(tmp_path), lambda _: False) as events:
        for _ in range(most // 2 + 1):
            os.utime(one)
            os.utime(other)
        (tmp_path / "unheard").mkdir()
        assert str(tmp_path) in heard(events)
        write(tmp_path, {"unheard/of.md": "x"})
        assert str(tmp_path / "unheard/of.md") in heard(events)


@on_linux
@pytest.mark.rule("notes.watching.changes")
def test_a_folder_is_followed_where_it_goes_and_forgotten_where_it_went(tmp_path: Path) -> None:
    vault, outside = write(tmp_path / "vault", {"a/b/c.md": "x"}), tmp_path / "outside"
    with Inotify(str(vault), lambda path: "hidden" in path) as events:
        (vault / "a").rename(vault / "z")
        write(vault, {"z/b/c.md": "y"})
        heard(events)
        write(vault, {"z/b/c.md": "z"})
        assert heard(events) == {str(vault / "z/b/c.md")}
        (vault / "z").rename(outside)
        heard(events)
        write(outside, {"b/c.md": "nobody's business"})
        assert heard(events) == set()
        outside.rename(vault / "hidden")
        heard(events)
        write(vault, {"hidden/b/c.md": "nor this"})
        assert heard(events) == set()


@on_linux
@pytest.mark.rule("notes.watching.changes")
def test_a_folder_that_could_not_be_read_is_followed_when_it_can() -> None:
    with without_privileges() as folder:
        write(folder / "closed", {"a.md": "x"})
        (folder / "closed").chmod(0)
        with Inotify(str(folder), lambda _: False) as events:
            (folder / "closed").chmod(0o755)
            assert str(folder / "closed") in heard(events)
            write(folder / "closed", {"a.md": "y"})
            assert heard(events) == {str(folder / "closed/a.md")}


@on_linux
@pytest.mark.rule("notes.watching.idle")
def test_nobody_wakes_while_nothing_changes(tmp_path: Path) -> None:
    """Not one switch to the thread that waits, however long it waits."""
    vault = write(tmp_path / "notes", {"a.md": "x"})
    told: list[watching.Changes] = []
    watcher = watching.Watcher(Vault(vault), told.append)
    watcher.start()
    watcher.wait_until_watching()
    wait_until(lambda: state_of(watcher) == "S")
    before = switches_of(watcher)
    time.sleep(0.5)
    assert switches_of(watcher) == before
    write(vault, {"a.md": "y"})
    wait_until(lambda: bool(told))
    assert told[0].notes == {"a.md"}
    watcher.stop()
    watcher.join(5)
    assert not watcher.is_alive()


@on_linux
@pytest.mark.rule("notes.watching.idle", "notes.nodes.outside")
def test_folders_behind_links_and_those_left_out_are_not_watched(tmp_path: Path) -> None:
    """Of these the system keeps watches, and wakes whoever holds them, also where nobody asks for what they tell."""
    vault = write(tmp_path / "notes", {"sub/a.md": "x", "node_modules/deep/y.md": "x", ".git/objects/z.md": "x"})
    outside = write(tmp_path / "outside", {"one/a.md": "x", "two/b.md": "x"})
    (vault / "link").symlink_to(outside)
    before = watches_held()
    with Inotify(str(vault), Vault(vault).is_excluded) as events:
        assert watches_held() - before == 2, "the vault's own and that of sub"
        (vault / "later").symlink_to(outside)
        write(vault, {"sub/new/b.md": "x"})
        heard(events)
        assert watches_held() - before == 3


@on_linux
@pytest.mark.rule("notes.watching.idle", "notes.nodes.outside")
def test_watchfiles_alone_watches_behind_links_and_in_folders_that_are_left_out(tmp_path: Path) -> None:
    """Why we read inotify ourselves. Where this fails, watchfiles has learned what `carrel.notes.inotify` is for."""
    vault = write(tmp_path / "notes", {"sub/a.md": "x", "node_modules/deep/y.md": "x", ".git/objects/z.md": "x"})
    outside = write(tmp_path / "outside", {"one/a.md": "x", "two/b.md": "x"})
    (vault / "link").symlink_to(outside)
    before = watches_held()
    batches = watchfiles.watch(vault, debounce=50, step=10, rust_timeout=50, yield_on_timeout=True)
    with closing(batches):  # pyright: ignore[reportArgumentType] - it is a generator
        assert next(batches) == set(), "its watches are there"
        assert watches_held() - before == 9, "of six folders in the vault and three outside"
        write(outside, {"one/a.md": "y"})
        told = next(batch for batch in batches if batch)
        assert {path for _, path in told} == {str(vault / "link/one/a.md")}


def watches_held() -> int:
    """Of inotify, by this process."""
    held = 0
    for path in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):  # it was the one that lists them
            held += path.read_text(encoding="ascii").count("inotify wd:")
    return held


def switches_of(thread: threading.Thread) -> int:
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def state_of(thread: threading.Thread) -> str:
    return Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.rule("notes.watching.polling")
async def test_a_vault_that_goes_away_and_comes_back_is_followed(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"a.md": "[[b]]", "b.md": "x"})
    async with opened(tmp_path, watch=True) as store:
        vault.rename(tmp_path / "away")
        await becomes_true(store, vault, [])
        (tmp_path / "away").rename(vault)
        await becomes_true(store, vault, ["a.md", "b.md"])
        write(vault, {"b.md": "[[a]]", "c.md": "new"})
        await becomes_true(store, vault, ["a.md", "b.md", "c.md"])


# --- restarts


@pytest.mark.rule("notes.watching.restart")
async def test_a_restart_sees_what_changed_while_it_was_down(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {f"{number}.md": f"[[{number + 1}]] #t{number % 3}" for number in range(50)})
    old = time.time_ns() - 10_000_000_000
    for path in vault.iterdir():
        os.utime(path, ns=(old, old))
    async with opened(tmp_path):
        pass
    write(vault, {"3.md": "edited", "new/x.md": "[[3]]", "5.md": "[[6]] #t2"})
    (vault / "7.md").unlink()
    (vault / "8.md").rename(vault / "new/8.md")
    async with opened(tmp_path) as store:
        assert shown(store.index.graph) == truth(vault)


@pytest.mark.rule("notes.watching.restart")
async def test_a_change_with_the_same_size_and_time_is_seen_where_one_cannot_be_sure(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"a.md": "before #one", "b.md": "x"})
    async with opened(tmp_path):  # right after they were written
        pass
    stamp = (vault / "a.md").stat()
    (vault / "a.md").write_bytes(b"after!! #two")
    (vault / "a.md").write_bytes(b"after! #two")
    os.utime(vault / "a.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert (vault / "a.md").stat().st_size == stamp.st_size
    async with opened(tmp_path) as store:
        assert shown(store.index.graph) == truth(vault)


@pytest.mark.rule("notes.watching.restart")
async def test_what_is_kept_for_a_restart_is_what_was_read(tmp_path: Path) -> None:
    head = '---\ntags: ["a\\0b", "A\\0B", " "]\naliases: ["", "x\\0y"]\ntitle: "t\\0u"\n---\n'
    vault = write(
        tmp_path / "notes", {"odd.md": f"{head}[[a\0b]] [[]] #t", "a.md": "x", "b.md": "[[x]]", "empty.md": ""}
    )
    async with opened(tmp_path) as store:
        before = {node.id: node.facts for node in store.index.graph}
    async with opened(tmp_path) as store:
        assert {node.id: node.facts for node in store.index.graph} == before
        assert shown(store.index.graph) == truth(vault)


@pytest.mark.rule("notes.watching.restart")
@pytest.mark.parametrize("damage", [b"", b"no database at all", b"SQLite format 3\0 and then rubbish"])
async def test_an_index_that_is_damaged_or_gone_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    vault = write(tmp_path / "notes", {"a.md": "[[b]]", "b.md": "x"})
    async with opened(tmp_path):
        pass
    for path in (tmp_path / ".carrel/notes").iterdir():
        if path.is_file() and path.name != "lock":
            path.write_bytes(damage)
    async with opened(tmp_path) as store:
        assert shown(store.index.graph) == truth(vault)


@pytest.mark.rule("notes.watching.serving")
async def test_notes_are_served_while_they_are_still_read(tmp_path: Path) -> None:
    write(tmp_path / "notes", {f"{number}.md": f"[[{number + 1}]]" for number in range(3000)})
    store = FileStore(Vault(tmp_path / "notes"), tmp_path / ".carrel")
    await store.open(watch=False)
    try:
        assert note(await store.get("2999.md")).content == "[[3000]]"
        assert len(note(await store.create("New", "[[1]]", [], "")).links) <= 1
        await store.index.wait_until_ready(no_timeout=True)
        assert shown(store.index.graph) == truth(tmp_path / "notes")
    finally:
        await store.close()


@pytest.mark.rule("notes.watching.polling")
async def test_a_vault_that_the_system_tells_nothing_of_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_is_told(_self: object, _root: str) -> None:
        raise AssertionError("this file system tells nothing")

    monkeypatch.setattr(watching, "needs_polling", lambda _folder: True)
    monkeypatch.setattr(watching.Watcher, "_watch", nothing_is_told)
    vault = tmp_path / "notes"
    write(vault, {"a.md": "[[b]]"})
    async with opened(tmp_path, watch=True) as store:
        write(vault, {"b.md": "new", "sub/c.md": "[[a]]"})
        await becomes_true(store, vault, ["a.md", "b.md", "sub/c.md"])
        shutil.rmtree(vault / "sub")
        await becomes_true(store, vault, ["a.md", "b.md"])


@pytest.mark.rule("notes.watching.polling")
async def test_a_vault_that_the_system_cannot_watch_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more_watches(_self: object, _root: str) -> None:
        raise OSError(28, "no space left for watches")

    monkeypatch.setattr(watching.Watcher, "_watch", no_more_watches)
    vault = tmp_path / "notes"
    write(vault, {"a.md": "one"})
    async with opened(tmp_path, watch=True) as store:
        write(vault, {"a.md": "other"})
        await becomes_true(store, vault, ["a.md"])
