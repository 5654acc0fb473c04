"""Sets of the keys of a block, as they are kept: one bit for each key, from the lowest."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from carrel.content.row_sets import Dates
from carrel.content.times import DAY

Bits = npt.NDArray[np.uint8]
_OFFSET, _DAY = np.dtype("<u2"), np.dtype("<i8")


def packed(offsets: npt.NDArray[np.int64], keys: int) -> bytes:
    """A set of a block of so many keys: its bits, or where that is shorter, the offsets of what is in it."""
    numbers = offsets.astype(_OFFSET)
    return numbers.tobytes() if numbers.nbytes < keys // 8 else bits(offsets, keys).tobytes()


def unpacked(data: bytes, keys: int) -> Bits:
    if len(data) == keys // 8:
        return np.frombuffer(data, np.uint8)
    return bits(np.frombuffer(data, _OFFSET).astype(np.int64), keys)


def bits(offsets: npt.NDArray[np.int64], keys: int) -> Bits:
    room = np.zeros(keys, np.bool_)
    room[offsets] = True
    return np.packbits(room, bitorder="little")


def offsets_of(data: Bits) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))


def packed_dates(dates: Mapping[int, tuple[int, int]], keys: int) -> bytes:
    """The days there are of starts and ends, and for each key which of them it has, or one beyond; by offset."""
    days = {offset: (start // DAY, end // DAY) for offset, (start, end) in dates.items()}
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(days.values()))}
    of_keys = np.full(keys, len(numbers), _OFFSET)
    of_keys[list(days)] = [numbers[pair] for pair in days.values()]
    return of_keys.tobytes() + np.array(list(numbers), _DAY).tobytes()


def within(data: bytes, dates: Dates, keys: int) -> tuple[Bits, Bits]:
    """The sets of those within the dates, and of those that are or may be: a day may be so in part."""
    of_keys = np.frombuffer(data, _OFFSET, keys)
    starts, ends = np.frombuffer(data, _DAY, offset=of_keys.nbytes).reshape(-1, 2).T
    sure, likely = np.ones(len(starts) + 1, np.bool_), np.ones(len(starts) + 1, np.bool_)
    sure[-1] = likely[-1] = False
    if dates.earliest_start is not None:
        sure[:-1] &= starts * DAY >= dates.earliest_start
        likely[:-1] &= (starts + 1) * DAY > dates.earliest_start
    if dates.latest_end is not None:
        sure[:-1] &= (ends + 1) * DAY <= dates.latest_end + 1
        likely[:-1] &= ends * DAY <= dates.latest_end
    return np.packbits(sure[of_keys], bitorder="little"), np.packbits(likely[of_keys], bitorder="little")
