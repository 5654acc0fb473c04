"""Text to token ids as BERT's uncased models were taught them, in a fraction of the reference's weight."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from unicodedata import category, normalize

LONGEST_WORD = 100
"""A word of more characters is unknown as a whole, as in the reference."""

READ_CHARACTERS = 65_536
"""What follows is not looked at: far more than a model reads of any text made of words."""

CACHED_WORDS = 32_768

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ASCII_DROPPED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ASCII_WORDS = re.compile(rf"[{re.escape(_PUNCTUATION)}]|[^\s{re.escape(_PUNCTUATION)}]+")
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._ids["[UNK]"]
        self._first, self._last = self._ids["[CLS]"], self._ids["[SEP]"]
        self._word_ids = lru_cache(CACHED_WORDS)(self._split)

    def encode(self, text: str, length: int) -> list[int]:
        """At most `length` ids, the marks of beginning and end among them. A mark's name in the text is text."""
        ids = (number for word in _words(text[:READ_CHARACTERS]) for number in self._word_ids(word))
        return [self._first, *islice(ids, length - 2), self._last]

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest piece that the vocabulary has, again and again; a word with a gap is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                if (number := self._ids.get(mark + word[start:end])) is not None:
                    ids.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(ids)


def _words(text: str) -> Iterator[str] | list[str]:
    if text.isascii():
        return (found[0] for found in _ASCII_WORDS.finditer(_ASCII_DROPPED.sub("", text).lower()))
    return normalize("NFD", text.translate(_cleaned)).translate(_folded).split()


class _Cleaned(dict[int, str]):
    """Controls, private characters and halves of pairs fall out, white space is a space, an ideograph stands alone."""

    def __missing__(self, code: int) -> str:
        self[code] = self._made(code, chr(code))
        return self[code]

    def _made(self, code: int, character: str) -> str:
        if character in "\t\n\r":
            return " "
        if code == 0xFFFD or category(character) in ("Cc", "Cf", "Co", "Cs"):
            return ""
        if character.isspace():
            return " "
        return f" {character} " if any(low <= code <= high for low, high in _IDEOGRAPHS) else character


class _Folded(dict[int, str]):
    """Accents fall off, capitals become small one by one (a final sigma too), punctuation stands alone."""

    def __missing__(self, code: int) -> str:
        self[code] = self._made(chr(code))
        return self[code]

    def _made(self, character: str) -> str:
        kind = category(character)
        if kind == "Mn":
            return ""
        if kind.startswith("P") or character in _PUNCTUATION:
            return f" {character} "
        return character.lower()


_cleaned = _Cleaned()
_folded = _Folded()
