"""Sets of the keys of a block, as they are kept: one bit for each key, from the lowest."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carrel.content.row_sets import Dates
from carrel.content.times import DAY

Bits = npt.NDArray[np.uint8]
SMALL = 512
"""Bytes of a set: so many are put in one by one more quickly than by way of a block."""
_OFFSET, _TIME = np.dtype("<u2"), np.dtype("<i8")


def packed(offsets: npt.NDArray[np.int64], keys: int) -> bytes:
    """A set of a block of so many keys: its bits, or where that is shorter, the offsets of what is in it."""
    numbers = offsets.astype(_OFFSET)
    return numbers.tobytes() if numbers.nbytes < keys // 8 else bits(offsets, keys).tobytes()


def unpacked(data: bytes, keys: int) -> Bits:
    if len(data) == keys // 8:
        return np.frombuffer(data, np.uint8)
    return bits(np.frombuffer(data, _OFFSET).astype(np.int64), keys)


def lines_of(held: Sequence[bytes | None], keys: int) -> Bits:
    """The sets of some blocks, one below the other; None is nothing. Small ones are put in together."""
    lines = np.zeros((len(held), keys // 8), np.uint8)
    small: dict[int, bytes] = {}
    for line, data in enumerate(held):
        if data is not None and len(data) <= SMALL and len(data) != keys // 8:
            small[line] = data
        elif data is not None:
            lines[line] = unpacked(data, keys)
    if small:
        offsets = np.frombuffer(b"".join(small.values()), _OFFSET).astype(np.int64)
        offsets += np.repeat(np.array(list(small)) * keys, [len(data) // _OFFSET.itemsize for data in small.values()])
        np.bitwise_or.at(lines.ravel(), offsets >> 3, np.left_shift(1, offsets & 7).astype(np.uint8))
    return lines


def bits(offsets: npt.NDArray[np.int64], keys: int) -> Bits:
    room = np.zeros(keys, np.bool_)
    room[offsets] = True
    return np.packbits(room, bitorder="little")


def offsets_of(data: Bits) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(data, bitorder="little").view(np.bool_))


def spread(values: npt.NDArray[Any], present: bytes | None, keys: int) -> npt.NDArray[Any]:
    """Those of a block's rows, each at its key; without a set of the rows that are there, all are."""
    if present is None:
        return values
    room = np.zeros(keys, values.dtype)
    room[offsets_of(unpacked(present, keys))] = values
    return room


def ranks(offsets: npt.NDArray[np.int64], present: bytes | None, keys: int) -> npt.NDArray[np.int64]:
    """Which row of a block each is; without a set of the rows that are there, all are."""
    if present is None:
        return offsets
    data = unpacked(present, keys)
    before = np.cumsum(np.bitwise_count(data), dtype=np.int64)
    return before[offsets >> 3] - np.bitwise_count(data[offsets >> 3] >> (offsets & 7).astype(np.uint8))


def packed_places(times: npt.NDArray[np.int64]) -> bytes:
    """How many bits of the times are left out, the first time, and what each row has more, in two bytes."""
    shift, earliest, latest = 0, int(times.min()), int(times.max())
    while (latest >> shift) - (earliest >> shift) > np.iinfo(_OFFSET).max:
        shift += 1
    header = np.array([shift, earliest >> shift], _TIME)
    return header.tobytes() + ((times >> shift) - (earliest >> shift)).astype(_OFFSET).tobytes()


class Places(NamedTuple):
    """Times without their last bits."""

    shift: int
    """How many are left out."""
    times: npt.NDArray[np.int64]

    def at(self, shift: int) -> npt.NDArray[np.int64]:
        """The same where as many are left out, or more."""
        return self.times >> (shift - self.shift)


def places_of(data: bytes, rows: npt.NDArray[np.int64]) -> Places:
    shift, earliest = np.frombuffer(data, _TIME, 2).tolist()
    kept = np.frombuffer(data, _OFFSET, offset=2 * _TIME.itemsize)
    return Places(shift, earliest + kept[rows].astype(np.int64))


def packed_dates(dates: Sequence[tuple[int, int] | None]) -> bytes:
    """How many rows there are, what days of start and end there are, and which of these each row has, or one beyond."""
    days = [None if each is None else (each[0] // DAY, each[1] // DAY) for each in dates]
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pair for pair in days if pair is not None))}
    of_rows = np.array([len(numbers) if pair is None else numbers[pair] for pair in days], _OFFSET)
    return np.array([len(days), *chain(*numbers)], _TIME).tobytes() + of_rows.tobytes()


def within(data: bytes, present: bytes | None, dates: Dates, keys: int) -> tuple[Bits, Bits]:
    """The sets of those within the dates, and of those that are or may be: a day may be so in part."""
    (count,) = np.frombuffer(data, _TIME, 1)
    of_rows = np.frombuffer(data, _OFFSET, offset=len(data) - count * _OFFSET.itemsize)
    starts, ends = np.frombuffer(data[: -of_rows.nbytes], _TIME)[1:].reshape(-1, 2).T
    sure, likely = np.ones(len(starts), np.bool_), np.ones(len(starts), np.bool_)
    if dates.earliest_start is not None:
        sure &= starts * DAY >= dates.earliest_start
        likely &= (starts + 1) * DAY > dates.earliest_start
    if dates.latest_end is not None:
        sure &= (ends + 1) * DAY <= dates.latest_end + 1
        likely &= ends * DAY <= dates.latest_end
    degrees = np.append(np.add(sure, likely, dtype=np.uint8), np.uint8(0))
    of_keys = spread(np.take(degrees, of_rows), present, keys)
    return np.packbits(of_keys == 2, bitorder="little"), np.packbits(of_keys > 0, bitorder="little")
