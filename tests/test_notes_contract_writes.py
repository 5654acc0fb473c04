"""notes.md on writing, over both transports and both protocol revisions."""

import time
from pathlib import Path

import pytest

from tests.content_servers import error, ok
from tests.note_fixtures import WAIT_TIMEOUT_SECONDS, becomes, desk, folder, ids, plain, writing
from tests.note_servers import NoteServers
from tests.vaults import contents, write
from tests.wire import Wire

__all__ = ["desk", "folder", "writing"]


@pytest.mark.rule("notes.create.answer", "notes.create.file_name", "notes.create.directory")
def test_create_writes_a_file_and_answers_with_the_node(desk: Wire, folder: Path) -> None:
    name = folder.name
    found = ok(
        desk,
        "create_node",
        title=f"Meeting Notes {name}",
        content=f"# Meeting\n\n[[{name} other]] #inline",
        tags=["meeting", "project-x"],
        directory=f"{name}/drafts",
    )
    assert plain(found) == {
        "id": f"{name}/drafts/meeting-notes-{name}.md",
        "title": f"Meeting Notes {name}",
        "content": f"# Meeting\n\n[[{name} other]] #inline",
        "tags": ["meeting", "project-x", "inline"],
        "links": [],
    }
    assert f"Broken link: [[{name} other]]" in found["_warnings"]
    assert (folder / f"drafts/meeting-notes-{name}.md").read_text(encoding="utf-8") == (
        f"---\ntitle: Meeting Notes {name}\ntags:\n  - meeting\n  - project-x\n---\n"
        f"# Meeting\n\n[[{name} other]] #inline"
    )
    other = ok(desk, "create_node", title=f"{name} Other", content="x")
    assert other["id"] == f"{name}-other.md"
    assert ids(ok(desk, "get_node", id=found["id"])["links"]) == [f"{name}-other.md"]
    assert ids(ok(desk, "get_neighbors", id=other["id"])) == [found["id"]]


@pytest.mark.rule("notes.create.exists", "notes.errors.codes")
def test_creating_what_is_there_is_node_exists(desk: Wire, folder: Path) -> None:
    write(folder, {"Some-Note.md": "mine"})
    found = error(desk, "create_node", title="some note", content="theirs", directory=folder.name)
    assert found["code"] == "NODE_EXISTS"
    assert contents(folder) == {"Some-Note.md": b"mine"}


@pytest.mark.rule("notes.update.answer", "notes.update.rename", "notes.update.links", "notes.update.missing")
def test_update_changes_what_is_given_and_answers_with_the_node(desk: Wire, folder: Path) -> None:
    name = folder.name
    write(folder, {f"{name}-old.md": "---\nkey: 1 # kept\ntags: [a]\n---\nBody", "links.md": f"[[{name}-old|text]]"})
    note_id = f"{name}/{name}-old.md"
    found = ok(desk, "update_node", id=note_id, tags=["b", "c"])
    assert (found["id"], found["tags"], found["content"]) == (note_id, ["b", "c"], "Body")
    found = ok(desk, "update_node", id=note_id, content="New")
    assert (found["content"], found["tags"]) == ("New", ["b", "c"])
    found = ok(desk, "update_node", id=note_id.upper(), title=f"{name} New")
    assert plain(found) == {
        "id": f"{name}/{name}-new.md",
        "title": f"{name} New",
        "content": "New",
        "tags": ["b", "c"],
        "links": [],
    }
    assert {each: content.decode() for each, content in contents(folder).items()} == {
        f"{name}-new.md": f"---\ntitle: {name} New\nkey: 1 # kept\ntags: [b, c]\n---\nNew",
        "links.md": f"[[{name}-new|text]]",
    }
    assert ids(ok(desk, "get_node", id=f"{name}/links.md")["links"]) == [f"{name}/{name}-new.md"]
    assert ok(desk, "get_node", id=note_id) is None
    assert error(desk, "update_node", id=note_id, content="x") == {
        "code": "NODE_NOT_FOUND",
        "message": f"There is no note {note_id}",
    }


@pytest.mark.rule("notes.update.taken", "notes.update.nothing")
def test_update_refuses_a_title_that_is_taken_and_a_call_without_a_change(desk: Wire, folder: Path) -> None:
    files = {"a.md": b"x", "B.md": b"y"}
    write(folder, files)
    assert error(desk, "update_node", id=f"{folder.name}/a.md", title="b")["code"] == "NODE_EXISTS"
    assert error(desk, "update_node", id=f"{folder.name}/a.md")["code"] == "INVALID_PARAMS"
    assert error(desk, "update_node", id=f"{folder.name}/a.md", title="...")["code"] == "INVALID_PARAMS"
    assert contents(folder) == files


@pytest.mark.rule("notes.delete.answer", "notes.delete.trash", "notes.delete.missing", "notes.delete.heals")
def test_delete_moves_the_file_to_the_trash(desk: Wire, folder: Path, writing: NoteServers) -> None:
    name = folder.name
    write(folder, {f"{name}-gone.md": "bytes", "links.md": f"[[{name}-gone]]"})
    assert ids(ok(desk, "get_node", id=f"{name}/links.md")["links"]) in ([], [f"{name}/{name}-gone.md"])
    assert plain(ok(desk, "delete_node", id=f"{name}/{name}-gone.md")) == {"deleted": True}
    assert plain(ok(desk, "delete_node", id=f"{name}/{name}-gone.md")) == {"deleted": False}
    (trashed,) = (writing.folder / ".carrel/trash").rglob(f"{name}-gone.md")
    assert trashed.read_bytes() == b"bytes"
    assert trashed.parent.name == name
    assert f"Broken link: [[{name}-gone]]" in ok(desk, "get_node", id=f"{name}/links.md")["_warnings"]
    trashed.rename(folder / f"{name}-gone.md")
    becomes(
        desk,
        "find_path",
        {"path": [f"{name}/links.md", f"{name}/{name}-gone.md"], "length": 1},
        source=f"{name}/links.md",
        target=f"{name}/{name}-gone.md",
    )


@pytest.mark.rule("notes.errors.disk", "notes.errors.codes", "common.error.no_leak")
def test_a_disk_that_refuses_is_a_provider_error_that_says_what_to_do(desk: Wire, folder: Path) -> None:
    write(folder, {"file": "no folder"})
    found = error(desk, "create_node", title="x", content="x", directory=f"{folder.name}/file/below")
    assert list(found) == ["code", "message"]
    assert found["code"] == "PROVIDER_ERROR"
    assert "cannot be written" in found["message"]
    assert str(folder.parent) not in found["message"]
    assert contents(folder) == {"file": b"no folder"}


@pytest.mark.rule("notes.watching.changes")
def test_what_another_program_writes_shows_in_every_tool(desk: Wire, folder: Path) -> None:
    name = folder.name
    write(folder, {f"{name}-a.md": f"[[{name}-b]] #{name}", f"{name}-b.md": f"#{name}", "Ünï.md": f"[[{name}-a]]"})
    a, b, third = f"{name}/{name}-a.md", f"{name}/{name}-b.md", f"{name}/Ünï.md"
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while ids(ok(desk, "search_by_tags", tags=[name])) != [a, b] or ids(ok(desk, "get_neighbors", id=b)) != [a]:
        assert time.monotonic() < end
    assert ok(desk, "find_path", source=third, target=b)["path"] == [third, a, b]
    (folder / f"{name}-a.md").unlink()
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while ids(ok(desk, "search_by_tags", tags=[name])) != [b]:
        assert time.monotonic() < end
    assert ok(desk, "get_neighbors", id=b) == []
