"""Creating notes: what is written, what is refused, and that nothing else changes."""

import threading
from pathlib import Path

import pytest

from carrel.directory import Directory
from carrel.notes.drafts import draft_new
from carrel.notes.note_store import Refusal
from carrel.notes.replacement import Replacement, Slot
from tests.program import Script, run_together
from tests.vaults import contents, leftovers, note, opened, refused, write

pytestmark = pytest.mark.anyio


async def create(
    folder: Path, title: str, content: str = "x", tags: tuple[str, ...] = (), directory: str = ""
) -> bytes:
    """What is in the file that a note is created as."""
    async with opened(folder) as store:
        made = note(await store.create(title, content, tags, directory))
        return (folder / "notes" / made.id).read_bytes()


@pytest.mark.rule("notes.create.title")
@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("plain", ""),
        ("Two Words", "---\ntitle: Two Words\n---\n"),
        ("a: b", '---\ntitle: "a: b"\n---\n'),
        ("True", '---\ntitle: "True"\n---\n'),
        ("007 Bond", "---\ntitle: 007 Bond\n---\n"),
        ('say "hi"', '---\ntitle: say "hi"\n---\n'),
        ("# heading", '---\ntitle: "# heading"\n---\n'),
        ("two\nlines", '---\ntitle: "two\\U0000000alines"\n---\n'),
        ("cafe\u0301", "---\ntitle: cafe\u0301\n---\n"),
        ("[[x]]", '---\ntitle: "[[x]]"\n---\n'),
    ],
)
async def test_the_title_goes_into_the_frontmatter_where_the_name_does_not_give_it_back(
    tmp_path: Path, title: str, head: str
) -> None:
    assert await create(tmp_path, title, "Body\n") == f"{head}Body\n".encode()
    async with opened(tmp_path) as store:
        (node,) = store.index.graph
        assert node.facts.title == title


@pytest.mark.rule("notes.create.title")
@pytest.mark.parametrize(
    ("content", "tags", "expected"),
    [
        ("x", ("a", "two words"), "---\ntags:\n  - a\n  - two words\n---\nx"),
        ("x", ("#a", " a ", "A", ""), "---\ntags:\n  - a\n---\nx"),
        ("x", (), "x"),
        ("---\nkey: 1 # why\n---\nx", (), "---\nkey: 1 # why\n---\nx"),
        ("---\nkey: 1 # why\n---\nx", ("a",), "---\nkey: 1 # why\ntags:\n  - a\n---\nx"),
        ("---\ntags: [b, c]\n---\nx", ("a",), "---\ntags: [a]\n---\nx"),
        ("---\ntitle: Other\n---\nx", (), "---\ntitle: t\n---\nx"),
        ("---\r\nkey: 1\r\n---\r\nx\r\n", ("a",), "---\r\nkey: 1\r\ntags:\r\n  - a\r\n---\r\nx\r\n"),
        ("---\nwords between rules\n---\nx", ("a",), "---\ntags:\n  - a\n---\n---\nwords between rules\n---\nx"),
        ("", (), ""),
    ],
)
async def test_what_a_new_note_is_written_as(
    tmp_path: Path, content: str, tags: tuple[str, ...], expected: str
) -> None:
    assert await create(tmp_path, "t", content, tags) == expected.encode()


@pytest.mark.rule("notes.create.directory")
@pytest.mark.parametrize(
    ("directory", "note_id"),
    [("", "t.md"), ("a", "a/t.md"), ("a/b c/Ü", "a/b c/Ü/t.md"), ("a/", "a/t.md"), ("a.b", "a.b/t.md")],
)
async def test_a_note_is_created_in_a_directory_that_is_made(tmp_path: Path, directory: str, note_id: str) -> None:
    async with opened(tmp_path) as store:
        assert note(await store.create("T", "x", (), directory)).id == note_id
    assert list(contents(tmp_path / "notes")) == [note_id]


def everything(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if ".carrel" not in path.parts]


@pytest.mark.rule("notes.create.directory")
@pytest.mark.parametrize(
    "directory",
    [
        "/",
        "/etc",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        ".hidden",
        "a/.hidden",
        ".carrel",
        ".git/x",
        "node_modules",
        "a/node_modules/b",
        "a//b",
        " ",
        "a/ /b",
        "C:/x",
        "a\\b",
        "..\\x",
        "a\0b",
        "outside",
        "outside/deeper",
        "ignored",
        "ignored/deeper",
        "x" * 256,
        "a\tb",
        "a/b\n",
        "a\x7f",
        "a\x85b",
        "/".join("a" * 65),
        "/".join("a" * 3000),
    ],
)
async def test_a_directory_that_is_not_inside_or_hidden_is_refused(tmp_path: Path, directory: str) -> None:
    vault = write(tmp_path / "notes", {"a/x.md": "x"})
    write(tmp_path / "elsewhere", {})
    (vault / "outside").symlink_to("../elsewhere")
    before = everything(tmp_path)
    async with opened(tmp_path, ignore=("ignored",)) as store:
        assert refused(await store.create("t", "x", (), directory)) == "INVALID_PARAMS"
    assert everything(tmp_path) == before


@pytest.mark.rule("notes.create.nothing_left")
@pytest.mark.parametrize("title", ["", " ", "...", "///", "[]#^|", "\x00", "- . -"])
async def test_a_title_of_which_nothing_is_left_is_refused(tmp_path: Path, title: str) -> None:
    async with opened(tmp_path) as store:
        assert refused(await store.create(title, "x", (), "")) == "INVALID_PARAMS"
    assert contents(tmp_path / "notes") == {}


def test_content_whose_frontmatter_is_broken_is_refused_only_where_it_would_have_to_be_changed() -> None:
    broken = "---\nkey: [\n---\n"
    assert not isinstance(draft_new("t", broken, (), ""), Refusal)
    outcome = draft_new("t", broken, ("a",), "")
    assert isinstance(outcome, Refusal)
    assert outcome.code == "INVALID_PARAMS"


@pytest.mark.rule("notes.create.exists")
@pytest.mark.parametrize(
    ("there", "title", "directory"),
    [
        ("note.md", "Note", ""),
        ("NOTE.md", "note", ""),
        ("Note.MD", "note", ""),
        ("sub/a-b.md", "A B", "sub"),
        ("Sub/A.md", "a", "sub"),
        ("cafe\u0301.md", "café", ""),
        ("straße.md", "STRASSE", ""),
    ],
)
async def test_a_file_that_is_there_is_left_as_it_is_also_one_that_differs_in_case(
    tmp_path: Path, there: str, title: str, directory: str
) -> None:
    vault = write(tmp_path / "notes", {there: "before"})
    async with opened(tmp_path) as store:
        assert refused(await store.create(title, "x", (), directory)) == "NODE_EXISTS"
        (vault / "unseen.MD").write_bytes(b"before")
        assert refused(await store.create("Unseen", "x", (), "")) == "NODE_EXISTS"
    assert contents(vault) == {there: b"before", "unseen.MD": b"before"}


CREATOR = """
import asyncio, sys
from pathlib import Path
from carrel.directory import Directory
from carrel.notes.file_store import FileStore
from carrel.notes.note_store import NoteView
from carrel.directory import Directory
from carrel.notes.replacement import Replacement, Slot
from carrel.notes.vault import Vault

async def main():
    folder, name = Path(sys.argv[1]), sys.argv[2]
    store = FileStore(Vault(folder / "notes"), folder / ".carrel")
    await store.open(watch=False)
    await store.index.wait_until_ready(no_timeout=True)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(30):
        title = f"Race {number}" if name != "2" else f"RACE {number}"
        outcomes = await asyncio.gather(*(store.create(title, f"{name} {each}", (), "") for each in range(3)))
        for outcome in outcomes:
            print(outcome.id + " " + outcome.content if isinstance(outcome, NoteView) else outcome.code)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.rule("notes.create.exists")
def test_when_many_create_the_same_note_one_does_and_the_others_are_told(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {})
    said = run_together([Script(CREATOR, tmp_path, name, cwd=tmp_path) for name in "123"])
    lines = [line for each in said for line in each.splitlines()]
    made = [line for line in lines if not line.startswith("NODE_EXISTS")]
    assert len(lines) == 270
    assert sorted(line.split()[0] for line in made) == sorted(f"race-{number}.md" for number in range(30))
    files = contents(vault)
    assert len(files) == 30
    for line in made:
        name, _, content = line.partition(" ")
        assert files[name].decode().endswith(content)
    assert leftovers(tmp_path) == []


def test_threads_that_race_for_a_file_do_not_write_over_each_other(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.make("sub").close()
    barrier, won = threading.Barrier(8), list[int]()

    def run(number: int) -> None:
        barrier.wait()
        with Replacement(directory, Slot.at("sub/a.md")) as file:
            file.stage(str(number).encode())
            try:
                file.publish()
            except FileExistsError:
                file.discard()
            else:
                won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert contents(tmp_path) == {"sub/a.md": str(won[0]).encode()}
    assert len(won) == 1
