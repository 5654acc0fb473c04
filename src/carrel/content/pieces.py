"""Taking texts apart: which hold each one to four characters in a row, and each longer piece that many hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from carrel.content.row_sets import SHORT

LONGEST = 200
"""Characters: a longer piece would not fit in an index of PostgreSQL's."""
AT_ONCE = 2**15
"""Places where pieces begin that are looked at together: it takes some 50 bytes for each."""
Numbers = npt.NDArray[np.signedinteger[Any]]
Chosen = npt.NDArray[np.bool_]


def pieces(texts: Sequence[str], rows: npt.ArrayLike, many: int) -> Iterator[tuple[str, Numbers]]:
    """Each piece with the numbers of the texts that hold it. Each text stands for so many rows.

    Of the longer pieces that at least `many` rows hold, only those are told that do not always go on with the same
    character: any other is held wherever the first, in order, of those that begin with it is.
    """
    for level in _first_levels(texts, rows):
        levels = [level]
        while levels:
            level = levels.pop()
            longer, goes_on = level.longer()
            is_short, is_longest = level.length <= SHORT, level.length == LONGEST
            yield from level.told(np.ones_like(goes_on) if is_short or is_longest else ~goes_on)
            if level.length >= SHORT:
                longer = longer.held_by(many)
            if not is_longest:
                levels += longer.parts()


@dataclass(frozen=True, slots=True)
class _Texts:
    """One after the other, each with one place more behind its end."""

    joined: str
    letters: Numbers
    """A number from 1 on for each character, 0 behind a text."""
    alphabet: int
    owners: Numbers
    """The number of the text at each place."""
    rows: Numbers


@dataclass(frozen=True, slots=True)
class _Level:
    """Where the pieces of one length begin, and the number of each piece: by number, then by place."""

    texts: _Texts
    length: int
    places: Numbers
    numbers: Numbers

    def longer(self) -> tuple["_Level", Chosen]:
        """The pieces with one character more; and which of these here go on with the same one wherever they are."""
        letters, alphabet = self.texts.letters, self.texts.alphabet
        codes = self.numbers * alphabet + letters[self.places + self.length]
        order = np.argsort(codes, kind="stable")  # it is in order but for what follows each piece
        codes, places = codes[order], self.places[order]
        firsts = _firsts(codes)
        numbers, added = np.divmod(codes[firsts], alphabet)
        ways = np.bincount(numbers) + np.bincount(numbers, added == 0)
        within = (codes % alphabet) > 0
        return _Level(self.texts, self.length + 1, places[within], _numbered(codes[within])), ways == 1

    def held_by(self, many: int) -> "_Level":
        """Only those that so many rows hold."""
        numbers, holders = self._holders()
        kept = (np.bincount(numbers, self.texts.rows[holders]) >= many)[self.numbers]
        return _Level(self.texts, self.length, self.places[kept], _numbered(self.numbers[kept]))

    def parts(self) -> list["_Level"]:
        """The same in lots that are not too large; each piece is in one of them."""
        firsts = _firsts(self.numbers)
        cuts = firsts[_firsts(firsts // AT_ONCE)].tolist()
        return [
            _Level(self.texts, self.length, self.places[start:end], self.numbers[start:end] - self.numbers[start])
            for start, end in pairwise([*cuts, len(self.places)])
        ]

    def told(self, chosen: Chosen) -> Iterator[tuple[str, Numbers]]:
        numbers, holders = self._holders()
        bounds = [*_firsts(numbers).tolist(), len(numbers)]
        examples = self.places[_firsts(self.numbers)]
        for number, place in zip(np.flatnonzero(chosen).tolist(), examples[chosen].tolist(), strict=True):
            yield self.texts.joined[place : place + self.length], holders[bounds[number] : bounds[number + 1]]

    def _holders(self) -> tuple[Numbers, Numbers]:
        """The number of a piece with each text that holds it, once."""
        owners = self.texts.owners[self.places]
        is_first = np.diff(owners, prepend=-1) != 0
        is_first |= np.diff(self.numbers, prepend=-1) != 0
        return self.numbers[is_first], owners[is_first]


def _first_levels(texts: Sequence[str], rows: npt.ArrayLike) -> Iterator[_Level]:
    """The single characters, in lots that are not too large."""
    everything = _joined(texts, rows)
    letters = everything.letters
    totals = np.bincount(letters, minlength=everything.alphabet)
    starts = np.cumsum(totals) - totals
    for lowest, end in pairwise([*_firsts(starts // AT_ONCE).tolist(), everything.alphabet]):
        places = np.flatnonzero((letters >= max(lowest, 1)) & (letters < end))
        yield _Level(everything, 0, places, np.zeros_like(places)).longer()[0]


def _joined(texts: Sequence[str], rows: npt.ArrayLike) -> _Texts:
    joined = "".join(f"{text}\n" for text in texts)
    lengths = np.array([len(text) + 1 for text in texts], np.int64)
    codes = np.frombuffer(joined.encode("utf-32-le"), "<u4") + 1
    codes[np.cumsum(lengths) - 1] = 0
    is_there = np.zeros(codes.max(initial=0) + 1, np.bool_)
    is_there[codes] = True
    letters = (np.cumsum(is_there, dtype=np.int32) - 1)[codes]
    owners = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    return _Texts(joined, letters, int(is_there.sum()), owners, np.asarray(rows, np.int64))


def _firsts(ordered: Numbers) -> Numbers:
    """Where another number begins."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _numbered(ordered: Numbers) -> Numbers:
    """The same numbers as 0, 1, 2 and so on."""
    return np.cumsum(np.diff(ordered, prepend=ordered[:1]) != 0)
