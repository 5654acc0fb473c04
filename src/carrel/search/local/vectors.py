"""Vectors in memory, a byte a number, looked through from the first to the last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CHUNK_ROWS = 8192
"""Rows that room is made for at once."""
BLOCK_ROWS = 1024
"""Rows that are multiplied at once: they fit the processor's cache as floats."""
QUANTIZATION_LEVELS = 127
REMOVED = -1


class _Chunk:
    def __init__(self, dimensions: int) -> None:
        self.codes = np.zeros((CHUNK_ROWS, dimensions), np.int8)
        self.scales = np.zeros(CHUNK_ROWS, np.float32)
        self.passages = np.full(CHUNK_ROWS, REMOVED, np.int64)
        self.has_removed = False
        self.filters: dict[str, npt.NDArray[np.int32]] = {}


@dataclass(frozen=True, slots=True)
class Row:
    passage: int
    filters: Mapping[str, str]


class Vectors:
    """The vectors of a collection, in the order in which they came. One thread at a time may use it."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._chunks: list[_Chunk] = []
        self._length = 0
        self._codes_of: dict[str, dict[str, int]] = {}
        self._block = np.empty((BLOCK_ROWS, dimensions), np.float32)
        """Room for rows as floats: to ask the system for it anew would take longer than to fill it."""

    def __len__(self) -> int:
        return self._length

    def add(self, rows: Sequence[Row], matrix: Floats) -> None:
        """Rows of unit length, each with the passage it is of."""
        largest = np.maximum(np.abs(matrix).max(axis=1), np.finfo(np.float32).tiny)
        codes = np.rint(matrix * (QUANTIZATION_LEVELS / largest)[:, None]).astype(np.int8)
        scales = (largest / QUANTIZATION_LEVELS).astype(np.float32)
        start = 0
        while start < len(rows):
            place = self._length % CHUNK_ROWS
            if place == 0:
                self._chunks.append(_Chunk(self._dimensions))
            chunk = self._chunks[-1]
            stop = min(len(rows), start + CHUNK_ROWS - place)
            here = slice(place, place + stop - start)
            chunk.codes[here] = codes[start:stop]
            chunk.scales[here] = scales[start:stop]
            chunk.passages[here] = [row.passage for row in rows[start:stop]]
            for offset, row in enumerate(rows[start:stop], place):
                for key, value in row.filters.items():
                    self._column(chunk, key)[offset] = self._code(key, value)
            self._length += stop - start
            start = stop

    def remove(self, passages: Sequence[int]) -> None:
        gone = np.asarray(passages, np.int64)
        for chunk in self._chunks:
            found = np.isin(chunk.passages, gone)
            if found.any():
                chunk.passages[found] = REMOVED
                chunk.has_removed = True

    def nearest(self, query: Floats, most: int, filters: Mapping[str, Sequence[str]]) -> list[int]:
        """The passages that are about the nearest, for the exact numbers to decide among."""
        scores = np.full(self._length, -np.inf, np.float32)
        block = self._block
        for number, chunk in enumerate(self._chunks):
            rows = min(CHUNK_ROWS, self._length - number * CHUNK_ROWS)
            here = scores[number * CHUNK_ROWS : number * CHUNK_ROWS + rows]
            wanted = self._wanted(chunk, filters)
            if wanted is not None and not wanted.any():
                continue
            for start in range(0, rows, BLOCK_ROWS):
                stop = min(rows, start + BLOCK_ROWS)
                part = block[: stop - start]
                np.copyto(part, chunk.codes[start:stop])
                np.dot(part, query, out=here[start:stop])
            here *= chunk.scales[:rows]
            if wanted is not None:
                here[~wanted[:rows]] = -np.inf
        found = _largest(scores, most)
        kept: list[int] = found[scores[found] > -np.inf].tolist()
        return [self._chunks[row // CHUNK_ROWS].passages.item(row % CHUNK_ROWS) for row in kept]

    def _wanted(self, chunk: _Chunk, filters: Mapping[str, Sequence[str]]) -> Mask | None:
        """None for all of its rows."""
        if not filters and not chunk.has_removed:
            return None
        wanted: Mask = chunk.passages != REMOVED
        for key, values in filters.items():
            codes = [code for value in values if (code := self._codes_of.get(key, {}).get(value))]
            column = chunk.filters.get(key)
            wanted &= False if column is None else np.isin(column, codes)
        return wanted

    def _column(self, chunk: _Chunk, key: str) -> npt.NDArray[np.int32]:
        """Which value of the filter each row has; 0 for none."""
        return chunk.filters.setdefault(key, np.zeros(CHUNK_ROWS, np.int32))

    def _code(self, key: str, value: str) -> int:
        codes = self._codes_of.setdefault(key, {})
        return codes.setdefault(value, len(codes) + 1)


def _largest(scores: Floats, most: int) -> npt.NDArray[np.intp]:
    if len(scores) <= most:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - most)[-most:]


def pack(matrix: Floats) -> list[bytes]:
    """Each row as it is kept on disk."""
    return [row.tobytes() for row in matrix.astype("<f2")]


def unpack(data: Sequence[bytes], dimensions: int) -> Floats:
    halves: npt.NDArray[Any] = np.frombuffer(b"".join(data), "<f2")
    return halves.reshape(len(data), dimensions).astype(np.float32)
