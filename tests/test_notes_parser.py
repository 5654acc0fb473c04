"""What a note says: its title, tags and links."""

import pytest

from carrel.notes.parser import parse, truncated


def links(text: str) -> list[str]:
    note = parse(text, "name")
    for link in note.links:
        assert text[link.span.start : link.span.end].strip() in (link.target, link.target.replace(" ", "%20"))
    return [link.target for link in note.links]


def tags(text: str) -> list[str]:
    return list(parse(text, "name").tags)


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[[a]]", ["a"]),
        ("see [[a]], [[b|the b]] and [[c#Head]]", ["a", "b", "c"]),
        ("[[a#^block]] ![[picture note]]", ["a", "picture note"]),
        ("[[sub/a.md#h|text]]", ["sub/a.md"]),
        (r"| [[a\|text]] | [[b]] |", ["a", "b"]),
        ("[[ a ]]", ["a"]),
        ("[[#only a heading]] [[]] [[|x]] [[a\nb]]", []),
        (r"\[[a]] \[[b]]", []),
        ("[[日本語]] [[Ärger]] [[a (b)]]", ["日本語", "Ärger", "a (b)"]),
        ("[text](a.md)", ["a.md"]),
        ("[text](../x/a%20b.md#head)", ["../x/a b.md"]),
        ("[text](<a b.md>) [t](c.MD 'title') [t](d.md \"title\")", ["a b.md", "c.MD", "d.md"]),
        ("[a [nested] text](a.md) ![e](b.md)", ["a.md", "b.md"]),
        ("[t](a(1).md)", ["a(1).md"]),
        ("[t](https://x.org/a.md) [t](mailto:a.md) [t](//x/a.md) [t](a.txt) [t]()", []),
        ("`[[a]]` [[b]]", ["b"]),
        ("```\n[[a]]\n```\n[[b]]", ["b"]),
        ("<!-- [[a]] -->[[b]]", ["b"]),
        ("    [[a]]\n\n[[b]]", ["b"]),
        ("---\nup: '[[a]]'\n---\n[[b]]", ["b"]),
        ("[[a]] [[a]] [[A]]", ["a", "a", "A"]),
        ("[[a]][[b]]", ["a", "b"]),
        ("**[[a]]** ([[b]])", ["a", "b"]),
    ],
)
def test_links(text: str, targets: list[str]) -> None:
    assert links(text) == targets


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#a and #b", ["a", "b"]),
        ("#a/b #c-d #e_f", ["a/b", "c-d", "e_f"]),
        ("#1 #2024 #1a", ["1a"]),
        ("#ärger #日本", ["ärger", "日本"]),
        ("# heading #tag\n## #other", ["tag", "other"]),
        ("a#b C#x \\#y &#38; #", []),
        ("(#a) [#b] **#c**, _#d_", ["a", "b", "c", "d_"]),
        ("`#a` ```\n#b\n```", ["b"]),
        ("https://x.org/#a <https://y.org/#b> x://y#c #d", ["d"]),
        ("[[note#head]] [text #a](b.md#c) #d", ["d"]),
        ("#A #a #b #B", ["A", "b"]),
        ("---\ntags: [x, y]\n---\n#Y #z", ["x", "y", "z"]),
        ("#a/ #b", ["a", "b"]),
    ],
)
def test_tags(text: str, found: list[str]) -> None:
    assert tags(text) == found


def test_a_title_is_the_frontmatters_else_the_name() -> None:
    assert parse("---\ntitle: 007\n---\n# Not this", "name").title == "007"
    assert parse("# Not this", "name").title == "name"
    assert parse("---\ntitle: ''\n---\n", "name").title == "name"


def test_warnings() -> None:
    assert parse("---\ntags: [a, b, A]\n---\n#b", "n").warnings == ("Duplicate tag ignored: A",)
    (warning,) = parse("---\ntitle: [\n---\n[[a]] #t", "n").warnings
    assert warning.startswith("Frontmatter cannot be read: line ")
    broken = parse("---\ntitle: [\n---\n[[a]] #t", "n")
    assert (broken.title, broken.body, broken.tags, links("---\ntitle: [\n---\n[[a]]")) == ("n", 0, ("t",), ["a"])


def test_a_truncated_text_is_never_longer_than_its_limit() -> None:
    assert truncated("a" * 500, 500) == "a" * 500
    assert truncated("é" * 501, 500) == "é" * 485 + "... [truncated]"
    assert len(truncated("\U0001f600" * 20_000, 10_000)) == 10_000


def test_hostile_text_takes_no_time() -> None:
    for text in ("[" * 50_000, "[[" * 50_000, "[a](" * 30_000, "#" * 100_000, "![" * 50_000, "[a](b(" * 30_000):
        parse(text, "n")
    parse("[" + "a" * 100_000, "n")
    parse("[[" + "a" * 100_000, "n")
