"""The sets of rows that are kept, and those that looking at each row gives."""

from typing import Any

import numpy as np

from carrel.content.row_sets import BLOCK, Bits, Dates, unpacked, within
from tests.bundles import Store

Sets = dict[tuple[Any, ...], set[int]]
LENGTHS = (1, 2, 3)


def pieces(*texts: str | None) -> set[str]:
    """Every one, two and three characters in a row."""
    found = [text for text in texts if text]
    return {text[start : start + length] for text in found for length in LENGTHS for start in range(len(text))}


def kept_sets(store: Store) -> Sets:
    """The keys of the rows, by project, texts and gram, and by project and dates."""
    found: Sets = {}
    for project, block, texts, gram, bits in store.query("SELECT * FROM search_performance_gram"):
        found.setdefault((project, texts, gram), set()).update(_keys(block, unpacked(bits)))
    pairs = store.query("SELECT project_pk, date_start, date_end FROM search_performance_tally")
    for project, block, total, *bounds, dates in store.query("SELECT * FROM search_performance_block"):
        assert len(_keys(block, within(dates, Dates()))) == total
        assert bounds == _bounds(dates)
        for start, end in (pair for of_project, *pair in pairs if of_project == project):
            later, earlier = within(dates, Dates(start + 1)), within(dates, Dates(None, end - 1))
            same = within(dates, Dates(start, end)) & ~later & ~earlier
            found.setdefault((project, start, end), set()).update(_keys(block, same))
    return found


def _bounds(dates: bytes) -> list[int]:
    """The first and last start, and the first and last end."""
    starts, ends = np.frombuffer(dates, "<i8", offset=2 * BLOCK).reshape(-1, 2).T
    return [starts.min(), starts.max(), ends.min(), ends.max()]


def looked_up_sets(store: Store) -> Sets:
    found: Sets = {}
    for project, pk, start, end, query, page in store.query(
        "SELECT project_pk, pk, date_start, date_end, query_fold, page_url_fold FROM search_performance"
    ):
        found.setdefault((project, start, end), set()).add(pk)
        for texts, text in (("query", query), ("page", page)):
            for gram in pieces(text):
                found.setdefault((project, texts, gram), set()).add(pk)
    return found


def _keys(block: int, bits: Bits) -> set[int]:
    return {block * BLOCK + place for place in np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()}
