"""What of a note is code or a comment, compared with what markdown-it-py finds."""

import re
from random import Random

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from carrel.notes.markdown import prose

WORD = re.compile(r"w\d+")
REFERENCE = MarkdownIt("commonmark")


def hidden(text: str) -> set[str]:
    """The words that are not in prose."""
    seen = {word for span in prose(text) for word in WORD.findall(text[span.start : span.end])}
    return set(WORD.findall(text)) - seen


def hidden_in_reference(tokens: list[Token]) -> set[str]:
    found: set[str] = set()
    for token in tokens:
        if token.type in ("fence", "code_block", "code_inline"):
            found.update(WORD.findall(f"{token.info} {token.content}"))
        elif token.type in ("html_block", "html_inline"):
            found.update(WORD.findall(" ".join(re.findall(r"<!--.*?(?:-->|\Z)", token.content, re.DOTALL))))
        found |= hidden_in_reference(token.children or [])
    return found


class Page:
    """Markdown as people write it, made at random, every word different."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._words = 0

    def word(self) -> str:
        self._words += 1
        return f"w{self._words}"

    def inline(self) -> str:
        kinds = (
            lambda: self.word(),
            lambda: self.word(),
            lambda: f"`{self.word()}`",
            lambda: f"`` {self.word()} ` {self.word()} ``",
            lambda: f"\\`{self.word()}",
            lambda: f"<!-- {self.word()} -->",
            lambda: f"[[{self.word()}]]",
            lambda: f"`{self.word()}\n{self.word()}`",
            lambda: f"``{self.word()}`",
        )
        # A line that begins with a comment is HTML to the end, whose backticks mean nothing; to us they do.
        return " ".join([self.word(), *(self._rng.choice(kinds)() for _ in range(self._rng.randint(0, 3)))])

    def block(self, depth: int = 0) -> str:
        kinds = [self.inline, self.heading, self.fence, self.code, self.comment, self.inline]
        if depth < 3:
            kinds += [lambda: self.quote(depth), lambda: self.items(depth), lambda: self.items(depth)]
        return self._rng.choice(kinds)()

    def heading(self) -> str:
        return self._rng.choice([f"# {self.inline().splitlines()[0]}", f"{self.word()} `{self.word()}`\n==="])

    def fence(self) -> str:
        mark = self._rng.choice(["```", "~~~", "````"])
        return f"{mark}{self._rng.choice(['', 'py', ' text'])}\n{self.word()} [[{self.word()}]]\n\n``\n{mark}"

    def code(self) -> str:
        return f"    {self.word()}\n\n    {self.word()}"

    def comment(self) -> str:
        return f"<!-- {self.word()}\n\n{self.word()}\n-->"

    def quote(self, depth: int) -> str:
        return "\n".join(f"> {line}" for line in self.blocks(depth + 1).split("\n"))

    def items(self, depth: int) -> str:
        marker = self._rng.choice(["- ", "* ", "1. ", "10) "])
        items = [self.blocks(depth + 1) for _ in range(self._rng.randint(1, 3))]
        return "\n".join(marker + item.replace("\n", "\n" + " " * len(marker)) for item in items)

    def blocks(self, depth: int = 0) -> str:
        return "\n\n".join(self.block(depth) for _ in range(self._rng.randint(1, 3)))


@pytest.mark.parametrize("seed", range(20))
def test_code_and_comments_are_found_as_the_reference_finds_them(seed: int) -> None:
    rng = Random(seed)
    for _ in range(100):
        text = Page(rng).blocks()
        assert hidden(text) == hidden_in_reference(REFERENCE.parse(text)), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("w1 `w2` w3", "w2"),
        ("w1 `w2 w3", ""),
        ("w1 ` w2\n\nw3 ` w4", ""),
        ("# w1 `\nw2 `w3`", "w3"),
        ("w1\n```\nw2\n```\nw3", "w2"),
        ("w1\n~~~\nw2\n```\nw3", "w2 w3"),
        ("    w1\nw2\n    w3", "w1"),
        ("\tw1\n\n\tw2", "w1 w2"),
        ("- w1\n\n      w2\n\n  w3", "w2"),
        ("- w1\n    w2", ""),
        ("> ```\n> w1\nw2", "w1"),
        ("<!-- w1\n\n`w2` -->\nw3", "w1 w2"),
        ("w1 <!-- w2 --> w3", "w2"),
        ("w1 <!-- w2", ""),
        ("<!-- w1\n\nw2", "w1 w2"),
        ("w1 \\`w2\\`", ""),
        ("```\r\nw1\r\n```\r\nw2\r\n", "w1"),
        ("`w1 <!-- w2` w3 -->", "w1 w2"),
    ],
)
def test_code_and_comments(text: str, words: str) -> None:
    assert hidden(text) == set(words.split())


def test_it_begins_where_it_is_told_to() -> None:
    text = "`w1\n---\nw2` w3"
    assert [text[span.start : span.end] for span in prose(text, text.index("w2"))] == ["w2` w3"]
    assert prose("", 0) == prose("abc", 3) == []


def test_hostile_text_takes_no_time() -> None:
    for text in ("`" * 100_000, "> " * 5_000 + "w1", "- " * 5_000, "<!--" * 50_000, "a`" * 50_000, "\\`" * 100_000):
        prose(text)
