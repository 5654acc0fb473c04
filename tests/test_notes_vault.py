"""Which files of a folder are notes, and that reading and writing them is safe."""

import os
from pathlib import Path

import pytest

from carrel.notes.note_search import NotesSource
from carrel.notes.vault import Vault, VaultError, temporary_name
from tests.vaults import contents, journal, note, opened, without_privileges, write

pytestmark = pytest.mark.anyio


def scanned(vault: Vault) -> list[str]:
    return sorted(note_id for note_id, _ in vault.scan())


@pytest.mark.rule("notes.nodes.which")
def test_notes_are_the_markdown_files_outside_of_hidden_folders_and_node_modules(tmp_path: Path) -> None:
    write(
        tmp_path,
        dict.fromkeys(
            [
                "a.md",
                "Upper.MD",
                "sub/b.md",
                "sub/deep/er/c.md",
                ".hidden-file.md",
                "with blanks/Ünïcödé 日本.md",
                "dotted.folder/d.md",
                "folder.md/inside.md",
                "no.txt",
                "no.markdown",
                "md",
                "a.md.bak",
                ".git/x.md",
                ".obsidian/plugins/x.md",
                "sub/.trash/x.md",
                "node_modules/x.md",
                "sub/node_modules/pkg/README.md",
                ".carrel/trash/x.md",
            ],
            "x",
        ),
    )
    os.mkfifo(tmp_path / "pipe.md")
    assert scanned(Vault(tmp_path)) == [
        ".hidden-file.md",
        "Upper.MD",
        "a.md",
        "dotted.folder/d.md",
        "folder.md/inside.md",
        "sub/b.md",
        "sub/deep/er/c.md",
        "with blanks/Ünïcödé 日本.md",
    ]


@pytest.mark.rule("notes.nodes.ignore")
@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        (
            ("templates",),
            ["a.md", "archive/2019/x.md", "archive/2024/x.md", "archive/x.md", "draft-1.md", "sub/draft-2.md"],
        ),
        (("/templates/", "draft-*"), ["a.md", "archive/2019/x.md", "archive/2024/x.md", "archive/x.md"]),
        (("archive/20*", "templates"), ["a.md", "archive/x.md", "draft-1.md", "sub/draft-2.md"]),
        (("archive", "sub/draft-2.md", "templates"), ["a.md", "draft-1.md"]),
        (("*",), []),
        (("TEMPLATES", "archive", "sub"), ["a.md", "draft-1.md", "templates/t.md"]),
    ],
)
async def test_the_settings_leave_out_folders_and_files(
    tmp_path: Path, ignore: tuple[str, ...], left: list[str]
) -> None:
    files = ["a.md", "draft-1.md", "sub/draft-2.md", "templates/t.md", "sub/templates/t.md"]
    files += ["archive/x.md", "archive/2019/x.md", "archive/2024/x.md"]
    write(tmp_path / "notes", dict.fromkeys(files, "x"))
    assert scanned(Vault(tmp_path / "notes", ignore)) == [each for each in left if each in files]
    async with opened(tmp_path, ignore=ignore) as store:
        for each in files:
            assert (await store.get(each) is not None) == (each in left), each


@pytest.mark.rule("notes.nodes.outside")
async def test_links_that_lead_outside_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "secret", "folder/secret.md": "secret"})
    vault = write(tmp_path / "notes", {"real.md": "real", "sub/x.md": "x"})
    (vault / "linked.md").symlink_to(outside / "secret.md")
    (vault / "relative.md").symlink_to("../outside/secret.md")
    (vault / "folder").symlink_to(outside / "folder")
    (vault / "dangling.md").symlink_to("nowhere.md")
    (vault / "loop.md").symlink_to("loop.md")
    (vault / "inside.md").symlink_to("real.md")
    (vault / "again").symlink_to("sub")
    (vault / "up").symlink_to(".")
    async with opened(tmp_path) as store:
        assert [node.id for node in sorted(store.index.graph, key=lambda node: node.id)] == [
            "inside.md",
            "real.md",
            "sub/x.md",
        ]
        assert note(await store.get("inside.md")).content == "real"
        for note_id in (
            "linked.md",
            "relative.md",
            "folder/secret.md",
            "dangling.md",
            "loop.md",
            "again/x.md",
            "up/real.md",
        ):
            assert await store.get(note_id) is None, note_id
        for note_id in (
            "../outside/secret.md",
            "sub/../../outside/secret.md",
            "/etc/hosts.md",
            str(outside / "secret.md"),
        ):
            assert await store.get(note_id) is None, note_id
    (vault / "real.md").unlink()
    (vault / "real.md").symlink_to(outside / "secret.md")  # swapped after it was seen
    assert Vault(vault).read("real.md") is None


def test_a_path_behind_a_link_is_no_notes_also_when_it_is_told_later(tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret.md": "secret"})
    folder = write(tmp_path / "notes", {"real/x.md": "x"})
    (folder / "link").symlink_to(tmp_path / "outside")
    vault = Vault(folder)
    assert vault.id_of(f"{folder}/real/x.md") == "real/x.md"
    assert vault.id_of(f"{folder}/real/gone.md") == "real/gone.md"
    assert vault.id_of(f"{folder}/link/secret.md") is None
    assert vault.folder_of_path(f"{folder}/link") is None
    assert vault.folder_of_path(f"{folder}/link/below") is None
    assert vault.folder_of_path(f"{folder}/real") == "real/"
    assert vault.folder_of_path(str(folder)) == ""
    assert vault.folder_of_path(f"{folder}/gone") == "gone/"
    assert vault.folder_of_path(f"{folder}/.git") is None
    assert vault.folder_of_path(f"{folder}x") is None


async def test_a_vault_may_itself_be_behind_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", {"a.md": "x"})
    (tmp_path / "notes").symlink_to("real")
    async with opened(tmp_path) as store:
        assert note(await store.get("a.md")).content == "x"


@pytest.mark.rule("notes.nodes.id", "notes.nodes.look_up")
async def test_a_look_up_takes_the_id_exactly_else_the_one_that_differs_in_case_or_form(tmp_path: Path) -> None:
    names = ["Sub/Größe.md", "cafe\u0301.md", "twin.md", "Twin.md", "UPPER.MD"]
    write(tmp_path / "notes", dict.fromkeys(names, "x"))
    async with opened(tmp_path) as store:

        async def found(note_id: str) -> str | None:
            view = await store.get(note_id)
            return view and view.id

        for name in names:
            assert await found(name) == name
        assert (
            await found("sub/größe") == await found("SUB/GRÖSSE.MD") == await found("sub/Gro\u0308ße") == "Sub/Größe.md"
        )
        assert await found("caf\u00e9") == await found("CAF\u00c9.md") == "cafe\u0301.md"
        assert await found("upper") == "UPPER.MD"
        assert await found("TWIN.md") is None
        assert await found("twin") is None
        for unknown in ("", "/", ".", "Größe", "Sub/", "nope.md", "Sub", "x\0.md"):
            assert await found(unknown) is None


@pytest.mark.rule("notes.nodes.id")
async def test_titles_are_no_ids(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.md": "---\ntitle: Some Title\naliases: [Other]\n---\n"})
    async with opened(tmp_path) as store:
        assert await store.get("Some Title") is None
        assert await store.get("Other") is None


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
async def test_names_that_are_no_text_are_left_alone(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"good.md": "x", "sub/good.md": "x"})
    (vault / os.fsdecode(b"bad-\xff.md")).write_bytes(b"x")
    (vault / os.fsdecode(b"bad-\xfe")).mkdir()
    (vault / os.fsdecode(b"bad-\xfe/in.md")).write_bytes(b"x")
    async with opened(tmp_path) as store:
        assert sorted(node.id for node in store.index.graph) == ["good.md", "sub/good.md"]
        assert await store.get(os.fsdecode(b"bad-\xff.md")) is None


@pytest.mark.rule("notes.files.untouched")
@pytest.mark.parametrize(
    ("raw", "title", "content", "tags"),
    [
        (b"", "n", "", ()),
        (b"\xef\xbb\xbf", "n", "", ()),
        (b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\nBody\r\n", "T", "Body\r\n", ()),
        (b"\xef\xbb\xbfBody #tag", "n", "Body #tag", ("tag",)),
        (b"caf\xe9 #tag", "n", "caf\ufffd #tag", ("tag",)),
        (b"---\ntitle: caf\xe9\n---\n#x", "n", "---\ntitle: caf\ufffd\n---\n#x", ("x",)),
        (b"\x00\x01\xff\xfe", "n", "\x00\x01\ufffd\ufffd", ()),
        (b"a\rb\r\nc\nd", "n", "a\rb\r\nc\nd", ()),
        ("\ud83d".encode("utf-8", "surrogatepass") + b" [[n]]", "n", "\ufffd\ufffd\ufffd [[n]]", ()),
    ],
)
async def test_any_bytes_are_read_and_left_as_they_are(
    tmp_path: Path, raw: bytes, title: str, content: str, tags: tuple[str, ...]
) -> None:
    vault = write(tmp_path / "notes", {"n.md": raw})
    async with opened(tmp_path) as store:
        found = note(await store.get("n"))
        assert (found.title, found.content, tuple(found.tags)) == (title, content, tags)
    async with opened(tmp_path) as store:  # from the cache
        assert note(await store.get("n")).title == title
    assert contents(vault) == {"n.md": raw}


async def test_a_note_that_cannot_be_read_leaves_the_others_alone() -> None:
    with without_privileges() as folder:
        vault = write(folder / "notes", {"open.md": "x", "closed.md": "x", "shut/in.md": "x"})
        (vault / "closed.md").chmod(0)
        (vault / "shut").chmod(0)
        async with opened(folder) as store:
            assert sorted(node.id for node in store.index.graph) == ["open.md"]
            with pytest.raises(VaultError, match=r"closed\.md cannot be read: permission denied"):
                await store.get("closed.md")
            assert await store.get("shut/in.md") is None
            assert any("closed.md cannot be read" in warning for warning in store.take_warnings())


async def test_a_note_that_can_no_longer_be_read_does_not_keep_others_from_being_searched() -> None:
    with without_privileges() as folder:
        vault = write(folder / "notes", {"open.md": "x", "closed.md": "x"})
        async with opened(folder) as store:
            (vault / "closed.md").chmod(0)
            source = NotesSource(store.index)
            assert [each.id for each in await source.documents(["closed.md", "open.md", "gone.md"])] == ["open.md"]


@pytest.mark.parametrize("name", ["a.md", "🎉" * 60 + ".md", "日" * 80 + ".md", "x" * 252 + ".md"])
def test_a_temporary_files_name_fits_beside_any_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / "notes", {name: "before"})
    temporary = temporary_name(name)
    assert len(os.fsencode(temporary)) <= 255
    assert temporary.startswith(".")
    journal(tmp_path).replace(name, b"before", b"after")
    assert contents(tmp_path / "notes") == {name: b"after"}


def test_a_file_keeps_its_permissions_when_it_is_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "notes", {"a.md": "before"}) / "a.md"
    path.chmod(0o640)
    journal(tmp_path).replace("a.md", b"before", b"after")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_within_the_vault_stays_one_when_its_note_is_written(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"real/a.md": "before"})
    (vault / "link.md").symlink_to("real/a.md")
    journal(tmp_path).replace("link.md", b"before", b"after")
    assert (vault / "link.md").is_symlink()
    assert (vault / "real/a.md").read_bytes() == b"after"


def test_a_note_is_created_only_where_there_is_none(tmp_path: Path) -> None:
    writing = journal(tmp_path)
    assert writing.create("new/folder/a.md", b"one") is not None
    assert writing.create("new/folder/a.md", b"two") is None
    assert contents(tmp_path / "notes") == {"new/folder/a.md": b"one"}
