"""Text as the terms it is found by: words without their endings, identifiers also in their parts, CJK in pairs."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

MAX_TERM_CHARACTERS = 64
"""Characters: what is longer is no word, but a key or an encoded picture."""

_ACCENTS = re.compile("[\u0300-\u036f]+")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_COMMON_WORDS = """
    a about an and any are as at be been but by can could did do does for from had has have how i if in into is it its
    me my no not of on one or our should so some than that the their them then there these they this those to was we
    were what when where which who why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def terms(text: str) -> list[str]:
    """All terms of a text, as often as they occur."""
    return _stemmed(_words(text, shortest_run=1))


def query_terms(text: str) -> list[str]:
    """The different terms to look for; words that are in every text are left out where others remain."""
    words = list(dict.fromkeys(_words(text, shortest_run=2)))
    return list(dict.fromkeys(_stemmed(word for word in words if word not in _COMMON) or _stemmed(words)))


def normalized_title(text: str) -> str:
    """A title as it is compared."""
    return " ".join(_without_accents(text).casefold().split())


def _stemmed(words: "Iterator[str] | list[str]") -> list[str]:
    return _stemmer().analyze(" ".join(words))


@cache
def _stemmer() -> "TextAnalyzer":
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stemmer("english")).build()


def _words(text: str, *, shortest_run: int) -> Iterator[str]:
    for word in _WORD.findall(_without_accents(text)):
        if _IS_UNSPACED.search(word):
            yield from _unspaced(word, shortest_run)
        else:
            yield from _identifier(word)


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


def _identifier(word: str) -> Iterator[str]:
    """A word, or the parts of a camelCase or snake_case one and all of them together."""
    parts = _PART.findall(word)
    if len(parts) > 1:
        yield from (part.casefold() for part in parts if len(part) <= MAX_TERM_CHARACTERS)
    whole = "".join(parts).casefold()
    if 0 < len(whole) <= MAX_TERM_CHARACTERS:
        yield whole


def _unspaced(word: str, shortest: int) -> Iterator[str]:
    """Scripts that put no space between words: every two characters in a row, and each where so few are enough."""
    for run in _RUNS.findall(word):
        if not _IS_UNSPACED.match(run):
            yield from _identifier(run)
            continue
        if shortest == 1 or len(run) < shortest:
            yield from run
        yield from (run[place : place + 2] for place in range(len(run) - 1))
