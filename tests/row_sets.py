"""The sets of rows that are kept, and those that looking at each row gives."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from carrel.content import blocks, entities, performance
from carrel.content.bit_sets import offsets_of, places_of, ranks, unpacked, within
from carrel.content.row_sets import BY_TABLE, DATES, PRESENT, SHORT, Dates, Sets
from tests.bundles import Store

Keys = defaultdict[tuple[Any, ...], set[int]]


def pieces(*texts: str | None, longest: int) -> set[str]:
    """Every one to so many characters in a row."""
    found = [(text, start) for text in texts if text for start in range(len(text))]
    return {text[start : start + length] for text, start in found for length in range(1, longest + 1)}


def make_small(patch: pytest.MonkeyPatch, *, keys: int = 64, many: int = 3, noted: int = 4) -> None:
    """Many blocks of few rows, and whatever can be counted by sets is."""
    patch.setattr("carrel.content.rarity.FEW", 0)
    patch.setattr("carrel.content.row_set_making.MOST_NOTED", noted)
    patch.setattr("carrel.content.row_set_asking.FEW_LOOKED_AT", 3)
    patch.setattr("carrel.content.row_set_asking.LOOKED_THROUGH", 40)
    for module, name in ((performance, "PERFORMANCE"), (entities, "ENTITIES"), (blocks, "BLOCKS")):
        sets = replace(getattr(module, name), keys=keys, many=many)
        patch.setattr(module, name, sets)
        patch.setitem(BY_TABLE, sets.table, sets)


def check_sets(store: Store) -> None:
    """What is kept is what looking at each row gives, but for the rows that are noted."""
    for sets in BY_TABLE.values():
        _Check(store, sets).run()


class _Check:
    def __init__(self, store: Store, sets: Sets) -> None:
        self.sets = sets
        self.blocks = store.query(f"SELECT project_pk, number, held, changed FROM {sets.blocks}")
        self.grams = store.query(f"SELECT project_pk, block, texts, gram, bits FROM {sets.grams} WHERE gram <> ''")
        self.of_rows = {
            (project, number, name): data
            for project, number, name, data in store.query(
                f"SELECT project_pk, block, texts, bits FROM {sets.grams} WHERE gram = ''"
            )
        }
        columns = ("project_pk", "pk", *(sets.dates or ()), *sets.facets, *sets.texts)
        self.rows = store.query(f"SELECT {', '.join(columns)} FROM {sets.table}")
        self.placed = [
            (column, store.query(f"SELECT project_pk, pk, {column} FROM {sets.table}")) for column in sets.orders
        ]
        self.noted: set[int] = set()
        for _, number, _, changed in self.blocks:
            self.noted |= set() if changed is None else self.keys(number, changed)

    def keys(self, number: int, data: bytes) -> set[int]:
        return {number * self.sets.keys + offset for offset in offsets_of(unpacked(data, self.sets.keys)).tolist()}

    def run(self) -> None:
        assert {(project, number): held for project, number, held, _ in self.blocks} == self.counted()
        kept, held = Keys(set), self.held()
        for project, number, name, gram, bits in self.grams:
            found = self.keys(number, bits) - self.noted
            if name in self.sets.facets or len(gram) <= SHORT:
                kept[project, name, gram] |= found
            else:
                assert found == {key for key, text in held[project, number, name] if gram in text}, (name, gram)
        assert {what: keys for what, keys in kept.items() if keys} == self.expected()
        if self.sets.dates:
            self.check_dates()
        for column, rows in self.placed:
            for project, key, place in rows:
                if key not in self.noted:
                    kept, shift = self.place(column, project, key)
                    assert kept == place >> shift

    def present(self, project: int, number: int) -> bytes | None:
        return self.of_rows.get((project, number, PRESENT))

    def place(self, column: str, project: int, key: int) -> tuple[int, int]:
        """The time that is kept, and the bits of it that are not."""
        number, offset = divmod(key, self.sets.keys)
        rows = ranks(np.array([offset]), self.present(project, number), self.sets.keys)
        places = places_of(self.of_rows[project, number, column], rows)
        return places.times.item(), places.shift

    def counted(self) -> dict[tuple[int, int], int]:
        found: defaultdict[tuple[int, int], int] = defaultdict(int)
        for project, key, *_ in self.rows:
            found[project, key // self.sets.keys] += 1
        return found

    def held(self) -> defaultdict[tuple[int, int, str], list[tuple[int, str]]]:
        """The texts of rows that are not noted, by project, block and name."""
        found: defaultdict[tuple[int, int, str], list[tuple[int, str]]] = defaultdict(list)
        for project, key, *values in self.rows:
            texts = values[-len(self.sets.texts) :]
            for name, text in zip(self.sets.texts.values(), texts, strict=True):
                if key not in self.noted:
                    found[project, key // self.sets.keys, name].append((key, text or ""))
        return found

    def expected(self) -> dict[tuple[Any, ...], set[int]]:
        """Of the short pieces and the facets."""
        found = Keys(set)
        for (project, _, name), texts in self.held().items():
            for key, text in texts:
                for piece in pieces(text, longest=SHORT):
                    found[project, name, piece].add(key)
        first = 2 if self.sets.dates is None else 4
        for row in self.rows:
            for name, value in zip(self.sets.facets, row[first:], strict=False):
                if value is not None and row[1] not in self.noted:
                    found[row[0], name, value].add(row[1])
        return dict(found)

    def check_dates(self) -> None:
        times = {time for row in self.rows for time in row[2:4] if time is not None}
        for project, number, *_ in self.blocks:
            dates, present = self.of_rows[project, number, DATES], self.present(project, number)
            mine = [row for row in self.rows if row[0] == project and row[1] // self.sets.keys == number]
            for time in times:
                for asked in (Dates(time), Dates(None, time), Dates(time, time)):
                    sure, likely = (
                        self.keys(number, found.tobytes()) for found in within(dates, present, asked, self.sets.keys)
                    )
                    fitting = {
                        key
                        for _, key, start, end, *_ in mine
                        if key not in self.noted
                        and start is not None
                        and (asked.earliest_start is None or start >= asked.earliest_start)
                        and (asked.latest_end is None or end <= asked.latest_end)
                    }
                    assert sure - self.noted <= fitting <= likely
