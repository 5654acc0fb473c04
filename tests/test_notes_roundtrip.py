"""Awkwardly written notes: whatever is done to their tags and undone again, every byte is as it was."""

from pathlib import Path
from random import Random

import pytest

from carrel.notes.frontmatter import read
from carrel.notes.frontmatter_edits import with_tags, with_title
from carrel.notes.parser import decoded
from tests.reference.awkward import note as awkward_note
from tests.reference.awkward import other_tags
from tests.vaults import contents, note, opened, refused, write

pytestmark = pytest.mark.anyio


CHUNKS, CHUNK = 8, 250
"""2,000 notes in all."""


@pytest.mark.rule("notes.update.round_trip", "notes.files.untouched")
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.no_cover  # which makes it several times slower
async def test_other_tags_and_back_leave_every_byte_of_2000_files(tmp_path: Path, chunk: int) -> None:
    random = Random(20240115 + chunk)
    files = {f"{number // 10}/{number}.md": awkward_note(random) for number in range(CHUNK)}
    vault = write(tmp_path / "notes", files)
    remembered = 0
    async with opened(tmp_path) as store:
        assert contents(vault) == files, "reading changes nothing"
        for note_id, content in files.items():
            head = read(decoded(content))
            if head.problem:
                assert refused(await store.update(note_id, title=None, content=None, tags=["x"])) == "INVALID_PARAMS"
                continue
            for _ in range(random.choice([1, 1, 2, 3])):
                tags = other_tags(random)
                found = note(await store.update(note_id, title=None, content=None, tags=tags))
                assert list(found.tags)[: len(tags)] == tags
            remembered += any((tmp_path / ".carrel/notes/heads").glob("*"))
            note(await store.update(note_id, title=None, content=None, tags=head.tags))
    after = contents(vault)
    assert [note_id for note_id in files if after[note_id] != files[note_id]] == []
    assert remembered > CHUNK // 5, "some of them need what is remembered"


@pytest.mark.rule("notes.files.only_what_was_asked")
def test_a_change_of_tags_leaves_all_that_is_no_tag() -> None:
    random = Random(3)
    for _ in range(1500):
        text = decoded(awkward_note(random))
        before, tags = read(text), other_tags(random)
        if before.problem:
            continue
        changed = with_tags(text, tags)
        after = read(changed)
        assert (list(after.tags), after.title, after.aliases, after.problem) == (tags, before.title, before.aliases, "")
        assert changed[after.body :] == text[before.body :]
        assert changed.startswith("\ufeff") == text.startswith("\ufeff")


@pytest.mark.rule("notes.files.only_what_was_asked")
def test_a_change_of_title_leaves_all_that_is_no_title() -> None:
    random = Random(4)
    for _ in range(1500):
        text = decoded(awkward_note(random))
        before, title = (
            read(text),
            random.choice(["New", "a: b", "it's", "# x", "True", "007", "日本語", 'say "x"', "a\tb"]),
        )
        if before.problem:
            continue
        changed = with_title(text, title)
        after = read(changed)
        assert (after.title, after.tags, after.aliases, after.problem) == (title, before.tags, before.aliases, ""), text
        assert changed[after.body :] == text[before.body :]


def test_plain_heads_are_read_as_yaml_reads_them() -> None:
    """Most are read without YAML's help. A comment keeps one from being plain, and says nothing."""
    random = Random(5)
    for _ in range(3000):
        text = decoded(awkward_note(random))
        if not text.startswith("---\n"):
            continue
        found, by_yaml = read(text), read(text.replace("---\n", "---\n# plain no more\n", 1))
        if not found.problem and found.body:
            assert (found.title, found.tags, found.aliases) == (by_yaml.title, by_yaml.tags, by_yaml.aliases), text
            assert text[found.body :] == text.replace("---\n", "---\n# plain no more\n", 1)[by_yaml.body :]


async def test_a_head_that_was_changed_since_is_not_put_back(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "---\ntags: [a, # first\n  b]\n---\nx"})
    async with opened(tmp_path) as store:
        note(await store.update("n", title=None, content=None, tags=["c"]))
        write(vault, {"n.md": contents(vault)["n.md"].replace(b"---\n", b"---\nkey: new\n", 1)})
        note(await store.update("n", title=None, content=None, tags=["a", "b"]))
    assert contents(vault)["n.md"] == b"---\nkey: new\ntags: [a, b]\n---\nx"


async def test_what_is_remembered_survives_a_restart_and_a_change_of_the_text(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"n.md": "---\ntags: [a, # first\n  b]\n---\nx"})
    async with opened(tmp_path) as store:
        note(await store.update("n", title=None, content=None, tags=[]))
    async with opened(tmp_path) as store:
        note(await store.update("n", title=None, content="y", tags=None))
        note(await store.update("n", title=None, content=None, tags=["c"]))
        note(await store.update("n", title=None, content=None, tags=["a", "b"]))
    assert contents(vault)["n.md"] == b"---\ntags: [a, # first\n  b]\n---\ny"
    assert list((tmp_path / ".carrel/notes/heads").iterdir()) == []
