"""A note that gets another title: every link to it goes with it, all or none."""

from pathlib import Path

import pytest

from carrel.notes.vault import VaultError
from tests.vaults import contents, leftovers, note, opened, refused, without_privileges, write

pytestmark = pytest.mark.anyio

OLD = "---\ntitle: The Old Title\naliases: [Nick, Nick Name]\n---\nBody"


async def renamed(folder: Path, files: dict[str, str], note_id: str, title: str) -> dict[str, str]:
    """The vault's files after a rename; that the graph stays true is checked on the way."""
    write(folder / "notes", files)
    async with opened(folder) as store:
        into = [node.id for node in store.index.graph.incoming(store.index.graph.find(note_id))]  # type: ignore[arg-type]
        found = note(await store.update(note_id, title=title, content=None, tags=None))
        node = store.index.graph.get(found.id)
        assert node is not None
        after = [each.id for each in store.index.graph.incoming(node)]
        assert sorted(after) == sorted(found.id if each == note_id else each for each in into)
    async with opened(folder) as again:  # and so it is for one who reads it all anew
        node = again.index.graph.get(found.id)
        assert node is not None
        assert [each.id for each in again.index.graph.incoming(node)] == after
    assert leftovers(folder) == []
    return {name: content.decode() for name, content in contents(folder / "notes").items()}


@pytest.mark.rule("notes.update.links", "notes.links.styles")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[[old]]", "[[new-title]]"),
        ("[[Old]]", "[[new-title]]"),
        ("[[old.md]]", "[[new-title.md]]"),
        ("[[old|some text]]", "[[new-title|some text]]"),
        ("[[old#Heading]]", "[[new-title#Heading]]"),
        ("[[old#Heading|text]]", "[[new-title#Heading|text]]"),
        ("[[old#^block-id]]", "[[new-title#^block-id]]"),
        ("![[old]]", "![[new-title]]"),
        ("![[old#Heading|300]]", "![[new-title#Heading|300]]"),
        ("[[ old ]]", "[[ new-title ]]"),
        ("[[sub/old]]", "[[sub/new-title]]"),
        ("[[/sub/old]]", "[[/sub/new-title]]"),
        ("[[../notes/sub/old|up]]", None),
        ("| a [[old\\|in a table]] | [[old#h\\|x]] |", "| a [[new-title\\|in a table]] | [[new-title#h\\|x]] |"),
        ("[[The Old Title]]", "[[New Title]]"),
        ("[[the old title#h|text]]", "[[New Title#h|text]]"),
        ("[[Nick]] and [[nick name|x]]", "[[Nick]] and [[nick name|x]]"),
        ("[text](sub/old.md)", "[text](sub/new-title.md)"),
        ("[text](sub/old.md#heading)", "[text](sub/new-title.md#heading)"),
        ("[text](./sub/old.md)", "[text](./sub/new-title.md)"),
        ("[text](<sub/old.md>)", "[text](<sub/new-title.md>)"),
        ('[text](sub/old.md "A title")', '[text](sub/new-title.md "A title")'),
        ("![image](sub/old.md)", "![image](sub/new-title.md)"),
        ("[text](sub/%6Fld.md)", "[text](sub/new-title.md)"),
        ("[text](old.md)", "[text](new-title.md)"),
        ("[a [nested] text](sub/old.md)", "[a [nested] text](sub/new-title.md)"),
        ("[[old]] twice [[old]] and [[old|x]]", "[[new-title]] twice [[new-title]] and [[new-title|x]]"),
        ("> quoted [[old]]\n\n- item [[old]]\n  - [ ] task [[old]]\n", None),
        ("# Heading [[old]]\n", "# Heading [[new-title]]\n"),
        ("**[[old]]** _[[old]]_ ([[old]])", "**[[new-title]]** _[[new-title]]_ ([[new-title]])"),
        ("crlf\r\n[[old]]\r\n", "crlf\r\n[[new-title]]\r\n"),
        ("\ufeff---\r\nkey: '[[old]]'\r\n---\r\n[[old]]", "\ufeff---\r\nkey: '[[old]]'\r\n---\r\n[[new-title]]"),
        ("[[old]] `[[old]]` ``[[old]]``", "[[new-title]] `[[old]]` ``[[old]]``"),
        (
            "[[old]]\n\n```\n[[old]]\n```\n\n~~~md\n[[old]]\n~~~\n",
            "[[new-title]]\n\n```\n[[old]]\n```\n\n~~~md\n[[old]]\n~~~\n",
        ),
        ("[[old]]\n\n    [[old]] indented\n", "[[new-title]]\n\n    [[old]] indented\n"),
        ("[[old]] <!-- [[old]] -->", "[[new-title]] <!-- [[old]] -->"),
        ("[[old]] \\[[old]] [[older]] [[xold]]", "[[new-title]] \\[[old]] [[older]] [[xold]]"),
        ("[[old]] https://x.example/old.md [x](https://x.example/old.md)", None),
        ("[[old]] [text](other.md) [[other]] text old", "[[new-title]] [text](other.md) [[other]] text old"),
        ("[[#old]] [[old]]", "[[#old]] [[new-title]]"),
    ],
)
async def test_a_link_of_any_style_keeps_its_text_heading_and_style(
    tmp_path: Path, before: str, after: str | None
) -> None:
    files = {"sub/old.md": OLD, "linking.md": before, "other.md": "x"}
    found = await renamed(tmp_path, files, "sub/old.md", "New Title")
    if after is None:
        after = before if before.startswith("[[../") else before.replace("[[old", "[[new-title")
    assert found == {
        "sub/new-title.md": OLD.replace("The Old Title", "New Title"),
        "linking.md": after,
        "other.md": "x",
    }


@pytest.mark.rule("notes.update.links")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[x](a%20b.md)", "[x](c-(d).md)"),
        ("[x](<a b.md>)", "[x](<c-(d).md>)"),
        ("[[a b]]", "[[c-(d)]]"),
        ("[x](a%20b.md#a%20b)", "[x](c-(d).md#a%20b)"),
    ],
)
async def test_markdown_links_are_escaped_as_they_need_it(tmp_path: Path, before: str, after: str) -> None:
    found = await renamed(tmp_path, {"a b.md": "x", "l.md": before}, "a b.md", "c (d)")
    assert found["l.md"] in (after, after.replace("c-(d).md", "c-%28d%29.md"))


@pytest.mark.rule("notes.update.links")
async def test_a_link_from_within_a_folder_stays_relative(tmp_path: Path) -> None:
    files = {
        "a/b/old.md": "x",
        "a/b/near.md": "[x](old.md) [y](./old.md) [[old]]",
        "a/c/far.md": "[x](../b/old.md) [[../b/old|t]] [[b/old]] [[a/b/old]]",
        "top.md": "[x](a/b/old.md) [[a/b/old#h]]",
    }
    assert await renamed(tmp_path, files, "a/b/old.md", "new") == {
        "a/b/new.md": "x",
        "a/b/near.md": "[x](new.md) [y](./new.md) [[new]]",
        "a/c/far.md": "[x](../b/new.md) [[../b/new|t]] [[b/new]] [[a/b/new]]",
        "top.md": "[x](a/b/new.md) [[a/b/new#h]]",
    }


@pytest.mark.rule("notes.update.links")
async def test_links_to_itself_go_along(tmp_path: Path) -> None:
    files = {"old.md": "# Old\n[[old#Old]] ![x](old.md) [[#Old]] `[[old]]`"}
    assert await renamed(tmp_path, files, "old.md", "new") == {
        "new.md": "# Old\n[[new#Old]] ![x](new.md) [[#Old]] `[[old]]`"
    }


@pytest.mark.rule("notes.update.links")
async def test_where_the_new_name_is_ambiguous_a_link_says_the_whole_path(tmp_path: Path) -> None:
    files = {
        "z/old.md": "x",
        "new.md": "another, which a plain link leads to",
        "links.md": "[[old]] [[old|t]] [m](z/old.md)",
        "z/near.md": "[[old]]",
    }
    found = await renamed(tmp_path, files, "z/old.md", "new")
    assert found["links.md"] == "[[z/new]] [[z/new|t]] [m](z/new.md)"
    async with opened(tmp_path) as store:
        for source in ("links.md", "z/near.md"):
            assert [link.id for link in note(await store.get(source)).links] == ["z/new.md"]


@pytest.mark.rule("notes.update.links")
async def test_links_to_another_note_of_the_same_name_stay(tmp_path: Path) -> None:
    files = {
        "a/same.md": "x",
        "b/same.md": "x",
        "a/l.md": "[[same]]",
        "b/l.md": "[[same]] [[a/same]]",
        "l.md": "[[same]]",
    }
    assert await renamed(tmp_path, files, "b/same.md", "other") == {
        "a/same.md": "x",
        "b/other.md": "x",
        "a/l.md": "[[same]]",
        "b/l.md": "[[other]] [[a/same]]",
        "l.md": "[[same]]",
    }


@pytest.mark.rule("notes.update.links")
async def test_a_title_that_changes_no_name_changes_the_links_that_say_it(tmp_path: Path) -> None:
    files = {"my-note.md": "---\ntitle: My Note\n---\n", "l.md": "[[My Note]] [[my-note]]"}
    assert await renamed(tmp_path, files, "my-note.md", "My: Note") == {
        "my-note.md": '---\ntitle: "My: Note"\n---\n',
        "l.md": "[[My: Note]] [[my-note]]",
    }


@pytest.mark.rule("notes.update.links")
async def test_a_title_that_no_link_can_say_is_linked_by_its_name(tmp_path: Path) -> None:
    files = {"old.md": "---\ntitle: Old Title\n---\n", "l.md": "[[Old Title|t]]"}
    found = await renamed(tmp_path, files, "old.md", "C# [basics]")
    assert found["l.md"] == "[[c-basics|t]]"


async def test_everything_can_be_changed_at_once(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"old.md": "---\ntags: [a]\n---\nx", "l.md": "[[old]]"})
    async with opened(tmp_path) as store:
        found = note(await store.update("old", title="New One", content="see [[new one]] and [[old]]", tags=["b"]))
        assert (found.id, found.title, list(found.tags)) == ("new-one.md", "New One", ["b"])
        assert [link.id for link in found.links] == ["new-one.md"]
    assert contents(vault)["l.md"] == b"[[new-one]]"


async def test_a_broken_link_to_the_new_name_heals(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"old.md": "x", "l.md": "[[new]]"})
    async with opened(tmp_path) as store:
        note(await store.update("old", title="new", content=None, tags=None))
        assert [link.id for link in note(await store.get("l")).links] == ["new.md"]


async def test_a_note_can_go_back_to_its_old_title_as_if_nothing_had_been(tmp_path: Path) -> None:
    files = {
        "a note.md": "x [[a note]]",
        "l.md": "[[a note]] [m](a%20note.md) [[a note|t]]",
        "sub/l.md": "[[../a note]]",
    }
    found = await renamed(tmp_path, files, "a note.md", "other")
    assert found["l.md"] == "[[other]] [m](other.md) [[other|t]]"
    again = await renamed(tmp_path, found, "other.md", "a note")
    assert again["l.md"] == "[[a-note]] [m](a-note.md) [[a-note|t]]"


@pytest.mark.rule("notes.update.all_or_nothing")
async def test_when_one_linking_note_cannot_be_written_none_is() -> None:
    with without_privileges() as folder:
        files = {f"open/{number}.md": f"{number} [[old]]" for number in range(20)}
        vault = write(folder / "notes", {"old.md": "x", "shut/l.md": "[[old]]", **files})
        before = contents(vault)
        async with opened(folder) as store:
            (vault / "shut").chmod(0o555)
            with pytest.raises(
                VaultError, match=r"shut/l\.md cannot be written: permission denied; nothing was changed"
            ):
                await store.update("old", title="new", content=None, tags=None)
            assert contents(vault) == before
            assert leftovers(folder) == []
            assert len(store.index.graph.incoming(store.index.graph.find("old"))) == 21  # type: ignore[arg-type]
            assert await store.get("new") is None
            (vault / "shut").chmod(0o755)
            note(await store.update("old", title="new", content=None, tags=None))
        assert all(b"[[new]]" in content for name, content in contents(vault).items() if name != "new.md")


@pytest.mark.rule("notes.update.taken")
async def test_a_rename_onto_another_note_leaves_all_links(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"old.md": "x", "NEW.md": "y", "l.md": "[[old]]"})
    before = contents(vault)
    async with opened(tmp_path) as store:
        assert refused(await store.update("old", title="new", content=None, tags=None)) == "NODE_EXISTS"
    assert contents(vault) == before
