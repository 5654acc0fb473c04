"""`carrel notes check`: what it finds in a vault, and where."""

import pytest

from carrel.notes.graph import Graph
from carrel.notes.parser import facts_of
from carrel.notes.vault import Attachments, Vault, VaultError
from carrel.notes.vault_report import Checker
from tests.note_desks import Desk, desk, empty
from tests.vaults import without_privileges

__all__ = ["desk", "empty"]


@pytest.mark.rule("notes_commands.check.status", "notes_commands.check.json")
def test_a_vault_with_nothing_wrong_passes(empty: Desk) -> None:
    empty.put("a.md", "[[b]]")
    empty.put("b.md", "")
    done = empty.notes("check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "2 notes, no problems\n")
    assert empty.told("check") == []


@pytest.mark.rule("notes_commands.check.status")
def test_findings_are_grouped_by_note_with_their_lines(desk: Desk) -> None:
    done = desk.notes("check")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "ideas/garden.md",
        "     8  ambiguous-name  [[ana]] leads to people/ana.md, but could also mean work/deep/ana.md",
        "     8  broken-link     [[No such note|this]] leads to no note",
        "     8  broken-link     [that](../missing.md) leads to no note",
    ]
    assert done.stderr == "5 notes, 1 of them with problems: 2 broken-link, 1 ambiguous-name\n"


@pytest.mark.rule("notes_commands.check.json", "notes_commands.check.ambiguous")
def test_a_finding_says_all_that_is_known_of_it(desk: Desk) -> None:
    found = desk.told("check", "--ignore", "broken-link", status=1)
    assert found == [
        {
            "id": "ideas/garden.md",
            "line": 8,
            "kind": "ambiguous-name",
            "message": "[[ana]] leads to people/ana.md, but could also mean work/deep/ana.md",
            "link": "[[ana]]",
            "chosen": "people/ana.md",
            "others": ["work/deep/ana.md"],
        }
    ]


@pytest.mark.rule("notes_commands.check.ignore")
def test_a_kind_that_is_ignored_is_no_reason_to_fail(desk: Desk) -> None:
    assert desk.found("broken-link", "ambiguous-name") == []
    done = desk.notes("check", "--ignore", "typo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'broken-link'" in done.stderr


@pytest.mark.rule("notes_commands.check.broken_link")
def test_a_link_to_a_file_that_is_no_note_is_not_broken(empty: Desk) -> None:
    empty.put("pictures/deep/Plan.PNG", b"")
    empty.put(".hidden/secret.pdf", b"")
    empty.put("pictures/a.md", "[[b]] ![[deep/plan.png]]")
    empty.put("b.md", "[[pictures/a]]\n![[plan.png]] [[pictures/deep/Plan.png]]\n\n![[n.png]]\n[[deep/other/plan.png]]")
    empty.put("c.md", "[[a]] [[secret.pdf]] `[[code]]`\n```\n[[code]]\n```\n")
    assert empty.found() == [
        ("b.md", 4, "broken-link"),
        ("b.md", 5, "broken-link"),
        ("c.md", 1, "broken-link"),
    ]


@pytest.mark.rule("notes_commands.check.broken_link")
def test_lines_count_from_the_top_of_the_file_whatever_its_line_ends(empty: Desk) -> None:
    empty.put("a.md", "\ufeff---\r\ntitle: x\r\n---\r\n[[b]]\r\n[[gone]]\r\n\r\n[[gone]] [[away]]")
    empty.put("b.md", "")
    assert empty.found() == [("a.md", line, "broken-link") for line in (5, 7, 7)]


@pytest.mark.rule("notes_commands.check.ambiguous")
def test_a_link_is_ambiguous_where_the_deciding_step_finds_several(empty: Desk) -> None:
    for note_id in ("x/name.md", "y/name.md", "z/deep/name.md"):
        empty.put(note_id, "---\naliases: [Twin, twin]\n---\n[[index]]")
    empty.put("t1.md", "---\ntitle: Same\nalias: [once, Once]\n---\n[[index]]")
    empty.put("t2.md", "---\ntitle: same\n---\n[[index]]")
    empty.put("index.md", "[[x/name]]\n[[deep/name]]\n[[once]]\n[[name]]\n[[SAME]]\n[[twin]]\n")
    empty.put("x/beside.md", "[[name]]\n[[index]]")
    found = [each for each in empty.told("check", status=1) if each["kind"] == "ambiguous-name"]
    assert [(each["id"], each["line"], each["chosen"], each["others"]) for each in found] == [
        ("index.md", 4, "x/name.md", ["y/name.md", "z/deep/name.md"]),
        ("index.md", 5, "t1.md", ["t2.md"]),
        ("index.md", 6, "x/name.md", ["y/name.md", "z/deep/name.md"]),
    ]


@pytest.mark.rule("notes_commands.check.orphan")
def test_a_note_that_has_no_links_is_an_orphan(empty: Desk) -> None:
    empty.put("a.md", "[[b]]")
    empty.put("b.md", "")
    empty.put("lonely.md", "[[nowhere]]")
    assert empty.found() == [("lonely.md", None, "orphan"), ("lonely.md", 1, "broken-link")]


@pytest.mark.rule("notes_commands.check.duplicate_title", "notes_commands.check.case_clash")
def test_notes_that_are_called_the_same_are_told(empty: Desk) -> None:
    empty.put("a.md", "---\ntitle: Straße\n---\n")
    empty.put("x/strasse.md", "")
    empty.put("Caf\u00e9.md", "")
    empty.put("cafe\u0301.MD", "")
    assert empty.found("orphan") == [
        ("Caf\u00e9.md", None, "case-clash"),
        ("a.md", None, "duplicate-title"),
        ("cafe\u0301.MD", None, "case-clash"),
        ("x/strasse.md", None, "duplicate-title"),
    ]


@pytest.mark.rule("notes_commands.check.duplicate_title")
def test_of_very_many_others_the_first_are_named(empty: Desk) -> None:
    for number in range(13):
        empty.put(f"{number:02}.md", "---\ntitle: Untitled\n---\n")
    first = empty.told("check", "--ignore", "orphan", status=1)[0]
    assert first["others"] == [f"{number:02}.md" for number in range(1, 11)]
    assert first["message"].endswith("09.md, 10.md and 2 more")


@pytest.mark.rule("notes_commands.check.broken_yaml", "notes_commands.check.not_utf8")
def test_files_that_are_not_as_they_should_be_are_told(empty: Desk) -> None:
    empty.put("latin.md", b"[[yaml]]\n" * 400 + b"caf\xe9\n")
    empty.put("yaml.md", "---\nok: 1\ntitle: [open\n---\n")
    assert empty.found() == [("latin.md", 401, "not-utf8"), ("yaml.md", 4, "broken-yaml")]


@pytest.mark.rule("notes_commands.check.unreadable")
def test_a_file_that_cannot_be_read_is_told(empty: Desk) -> None:
    graph = Graph()
    graph.load([("a.md", facts_of("a.md", b"[[b]]")), ("b.md", facts_of("b.md", b""))])

    def read(note_id: str) -> bytes:
        if note_id == "b.md":
            raise VaultError("b.md cannot be read: permission denied")
        return b"[[b]]"

    checker = Checker(graph, read, Attachments(Vault(empty.vault)).has)
    assert checker.findings("a.md") == []
    assert [each[:4] for each in checker.findings("b.md")] == [
        ("b.md", None, "unreadable", "cannot be read: permission denied")
    ]


@pytest.mark.rule("notes_commands.check.unreadable")
def test_a_file_without_permissions_is_told() -> None:
    with without_privileges() as folder:
        desk = Desk(folder)
        desk.put("secret.md", "")
        (desk.vault / "secret.md").chmod(0)
        assert desk.found() == [("secret.md", None, "unreadable")]
