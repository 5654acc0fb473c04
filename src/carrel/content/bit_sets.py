"""Sets of the keys of a block, as they are kept: one bit for each key, from the lowest."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint8]
_OFFSET, _TIME = np.dtype("<u2"), np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class Dates:
    earliest_start: int | None = None
    latest_end: int | None = None


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
    """The starts and ends there are, and for each key which of them it has, or one beyond; `dates` are by offset."""
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(dates.values()))}
    of_keys = np.full(keys, len(numbers), _OFFSET)
    of_keys[list(dates)] = [numbers[pair] for pair in dates.values()]
    return of_keys.tobytes() + np.array(list(numbers), _TIME).tobytes()


def within(data: bytes, dates: Dates, keys: int) -> Bits:
    """The set of those within the dates."""
    of_keys = np.frombuffer(data, _OFFSET, keys)
    starts, ends = np.frombuffer(data, _TIME, offset=of_keys.nbytes).reshape(-1, 2).T
    chosen = np.ones(len(starts) + 1, np.bool_)
    chosen[-1] = False
    if dates.earliest_start is not None:
        chosen[:-1] &= starts >= dates.earliest_start
    if dates.latest_end is not None:
        chosen[:-1] &= ends <= dates.latest_end
    return np.packbits(chosen[of_keys], bitorder="little")
