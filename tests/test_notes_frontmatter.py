"""The head of a note: what is read from it, and changes that leave every other byte alone."""

import subprocess
import sys
from random import Random

import pytest

from carrel.notes.frontmatter import Unreadable, read
from carrel.notes.frontmatter_edits import with_tags, with_title


@pytest.mark.parametrize(
    ("yaml", "title", "tags", "aliases"),
    [
        ("title: Some note", "Some note", [], []),
        ("title: 007", "007", [], []),
        ("title: 2024-01-15", "2024-01-15", [], []),
        ("title: 3.10", "3.10", [], []),
        ("title: true", None, [], []),
        ("title:", None, [], []),
        ("title: [a]", None, [], []),
        ('title: "a: b"', "a: b", [], []),
        ("tags: [a, b c, 007]", None, ["a", "b c", "007"], []),
        ("tags:\n- a\n- '#b'", None, ["a", "b"], []),
        ("tags: a, b  c", None, ["a", "b", "c"], []),
        ("tag: one", None, ["one"], []),
        ("tags: [a, a, A]", None, ["a", "a", "A"], []),
        ("tags: [a, null, [b], {c: d}]", None, ["a"], []),
        ("aliases: [One, Two words]\ntags: x", None, ["x"], ["One", "Two words"]),
        ("alias: Just one, really", None, [], ["Just one, really"]),
        ("base: &b [p, q]\ntags: *b", None, ["p", "q"], []),
        ("# nothing but a comment", None, [], []),
        ("{title: x, tags: [y]}", "x", ["y"], []),
    ],
)
def test_what_is_read(yaml: str, title: str | None, tags: list[str], aliases: list[str]) -> None:
    found = read(f"---\n{yaml}\n---\nbody")
    assert (found.title, list(found.tags), list(found.aliases), found.problem) == (title, tags, aliases, "")
    assert f"---\n{yaml}\n---\nbody"[found.body :] == "body"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", ""),
        ("no frontmatter", "no frontmatter"),
        ("\ufeffwith a mark", "with a mark"),
        ("\ufeff---\ntitle: x\n---\nbody", "body"),
        ("---\r\ntitle: x\r\n---\r\nbody\r\n", "body\r\n"),
        ("---\ntitle: x\n...\nbody", "body"),
        ("---  \ntitle: x\n--- \nbody", "body"),
        ("---\n---\nbody", "body"),
        ("---\ntitle: x\n---", ""),
        ("---\nnever closed\n", "---\nnever closed\n"),
        ("----\nno fence\n----\n", "----\nno fence\n----\n"),
        (" ---\ntitle: x\n---\n", " ---\ntitle: x\n---\n"),
        ("---\nbetween rules\n---\n", "---\nbetween rules\n---\n"),
        ("---\n- a\n- b\n---\n", "---\n- a\n- b\n---\n"),
        ("text\n---\ntitle: x\n---\n", "text\n---\ntitle: x\n---\n"),
    ],
)
def test_where_the_content_begins(text: str, body: str) -> None:
    found = read(text)
    assert (text[found.body :], found.problem) == (body, "")


@pytest.mark.parametrize("yaml", ["title: [", "a: b: c", "\tx: y", "x: *nowhere", "a: \x01"])
def test_what_cannot_be_read_is_told_and_all_is_content(yaml: str) -> None:
    text = f"---\n{yaml}\n---\nbody"
    found = read(text)
    assert found.problem
    assert (found.body, found.title, found.tags) == (0, None, ())
    with pytest.raises(Unreadable):
        with_tags(text, ["a"])
    with pytest.raises(Unreadable):
        with_title(text, "a")


WORDS = ["a", "b", "note", "área", "日本", "x/y", "2024", "idea-1", "007"]
STYLES = ("[a, b]", "['a', 'b']", '["a", "b"]', "lines", "indented", "string", "none")


def _tagged(style: str, tags: list[str], comment: str) -> list[str]:
    if style == "none":
        return []
    if style == "string":
        return [f"tags: {' '.join(tags)}{comment}"]
    if style in ("lines", "indented"):
        indent = "    " if style == "indented" else ""
        return [f"tags:{comment}", *(f"{indent}- {tag}" for tag in tags)]
    quote = style[1] if style[1] in "'\"" else ""
    return [f"tags: [{', '.join(quote + tag + quote for tag in tags)}]{comment}"]


def _note(rng: Random, style: str) -> str:
    """Awkward frontmatter, in which all that is not tags must survive."""
    others = [
        ["date: 2024-01-15  # when"],
        ["id: 007"],
        ["# a comment"],
        ['title: "Hi: there"'],
        ["author: 'it''s'"],
        ["list: &l [1, 2]", "again: *l"],
        ["nested:", "  a: 1  # deep", "  b: [x]"],
        ["text: |", "  one", "  # no comment"],
        ["empty:"],
        [""],
    ]
    rng.shuffle(others)
    cut = rng.randint(0, 5)
    comment = rng.choice(["", "  # mine"])
    head = [line for part in others[:cut] for line in part]
    tail = [line for part in others[cut : cut + rng.randint(0, 4)] for line in part]
    lines = [*head, *_tagged(style, rng.sample(WORDS, rng.randint(2, 4)), comment), *tail]
    body = rng.choice(["", "text", "# Head\n\ntext #inline\n", "---\na rule\n---\n", "\n\n  odd \n"])
    end = rng.choice(["---\n", "...\n", "--- \n"])
    text = "\n".join(["---", *lines, end]) + body if lines else body
    return rng.choice(["", "\ufeff"]) + text.replace("\n", rng.choice(["\n", "\r\n"]))


@pytest.mark.parametrize("style", STYLES)
def test_tags_changed_and_changed_back_leave_every_byte_as_it_was(style: str) -> None:
    rng = Random(style)
    for _ in range(300):
        text = _note(rng, style)
        before = read(text)
        assert not before.problem
        tags = rng.sample(["new", "p", "q", "ünï", "x:y", "9", *WORDS], rng.randint(2, 4))
        changed = with_tags(text, tags)
        after = read(changed)
        assert (list(after.tags), after.title, after.problem) == (tags, before.title, "")
        assert changed[after.body :] == text[before.body :]
        assert with_tags(changed, before.tags) == text
        titled = with_title(text, 'A "new": title')
        assert (read(titled).title, read(titled).tags) == ('A "new": title', before.tags)
        assert titled[read(titled).body :] == text[before.body :]


@pytest.mark.parametrize(
    "tag", ["a: b", "[x]", "null", "it's", 'say "hi"', "- x", "a # b", "two words", "{", "*x", "&"]
)
@pytest.mark.parametrize("head", ["", "---\ntags: [a]\n---\n", "---\ntags:\n- a\n---\n", "---\ntags: a\n---\n"])
def test_any_tag_can_be_written(head: str, tag: str) -> None:
    changed = with_tags(f"{head}body", ["first", tag])
    assert (list(read(changed).tags), read(changed).problem) == (["first", tag], "")


def test_tags_that_are_kept_stay_as_they_are_written() -> None:
    text = "---\ntags:\n  - 'kept'   # why\n  - gone\n---\n"
    assert "'kept'" in with_tags(text, ["kept", "new"])
    assert with_tags(text, ["kept", "gone"]) == text


def test_without_tags_nothing_is_left_of_them() -> None:
    assert with_tags("body", []) == "body"
    assert with_tags("---\ntags: [a, b]  # c\n---\nbody", []) == "---\ntags: []  # c\n---\nbody"
    assert with_tags("---\ntitle: x\ntags:\n- a\n---\nbody", []) == "---\ntitle: x\n---\nbody"
    assert with_tags(with_tags("body\r\n", ["a"]), []) == "body\r\n"
    assert with_tags("---\nbase: &b [p]\ntags: *b\n---\n", ["q"]) == "---\nbase: &b [p]\ntags: [q]\n---\n"
    assert with_tags("---\ntags:\ntitle: x\n---\n", ["q"]) == "---\ntags: [q]\ntitle: x\n---\n"
    assert with_tags("---\n{title: x}\n---\n", ["q"]) == "---\n{title: x, tags: [q]}\n---\n"


@pytest.mark.rule("notes.node.broken_yaml")
@pytest.mark.parametrize(
    "yaml",
    [
        "x: " + 25_000 * "[" + 25_000 * "]",
        "x: " + 2_000 * "{" + "a: b" + 2_000 * "}",
        "x:\n  " + 25_000 * "- " + "a",
        25_000 * "? " + "a",
        "\n".join(" " * depth + "k:" for depth in range(500)),
        'x: "' + 300_000 * "a" + '"',
    ],
    ids=["brackets", "braces", "dashes", "keys", "indentation", "length"],
)
def test_frontmatter_that_would_overflow_the_stack_is_not_composed(yaml: str) -> None:
    """In a process of its own, which the old way of reading ended with SIGSEGV."""
    program = "import sys; from carrel.notes.frontmatter import read; print(read(sys.stdin.read()).problem)"
    note = f"---\n{yaml}\n---\nbody"
    done = subprocess.run([sys.executable, "-c", program], input=note, capture_output=True, text=True, check=True)
    assert done.stdout.strip()
