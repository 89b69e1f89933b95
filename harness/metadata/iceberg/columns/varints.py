"""Numbers and byte strings at many places of one buffer at a time, as Avro encodes them.

Every function takes and gives arrays with one element per *lane*: a place in the buffer that is decoded in step with
others. What is wrong, or so odd that an entry-wise decoder had better judge it, raises `Unsure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.storage.records import dataclass

Places: TypeAlias = npt.NDArray[np.int64]
"""Offsets into a buffer, in bytes, or other whole numbers, one per lane."""

_LONGEST = 10
_PADDING = 16
_CHUNK = 1 << 18
_GROUP = 8
"""Bytes that one byte of the index stands for."""
_SUMS = np.uint64(0x0101010101010101)
_LAST = np.uint64(56)
_FROM = np.array([256 - (1 << place) for place in range(_GROUP)], dtype=np.uint8)
"""The bits of a group that stand at each of its places or behind it."""
_NTH = np.array(
    [([place for place in range(_GROUP) if bits >> place & 1] + [0] * _GROUP)[:_GROUP] for bits in range(1 << _GROUP)],
    dtype=np.int64,
)
"""The place of the first, second, … bit that is set in a group."""


class Unsure(Exception):
    """Something that is to be decoded entry by entry: it may be damaged, or only unusual."""


@dataclass(frozen=True, slots=True)
class Varints:
    """A buffer, with an index of where numbers may end in it.

    data: the bytes, with some zeros behind them, so that reading a few bytes from the last place is no error.
    size: how many bytes there are without these.
    """

    data: npt.NDArray[np.uint8]
    size: int
    _ends: npt.NDArray[np.uint8]  # a bit for each offset: whether its byte can be the last one of a number
    _within: npt.NDArray[np.uint8]  # how many bits are set up to the end of each group, in its word of groups
    _before: npt.NDArray[np.int32]  # how many bits are set in the words before; for the end of the data, too

    @staticmethod
    def of(blocks: Sequence[bytes]) -> Varints:
        """The index of some blocks, one behind the other, which together have less than 2 GiB."""
        size = sum(map(len, blocks))
        padding = _PADDING + -(size + _PADDING) % (_GROUP * _GROUP)
        data = np.frombuffer(b"".join((*blocks, bytes(padding))), dtype=np.uint8)
        ends = np.empty(len(data) // _GROUP, dtype=np.uint8)
        for start in range(0, len(data), _CHUNK):  # what fits into a cache is many times as fast
            part = data[start : start + _CHUNK]
            ends[start // _GROUP : (start + len(part)) // _GROUP] = np.packbits(part < 0x80, bitorder="little")
        # A product with this number has in each byte the sum of the factor's bytes up to there.
        within = np.bitwise_count(ends).view("<u8") * _SUMS
        before = np.zeros(len(within) + 1, dtype=np.int32)
        np.cumsum(within >> _LAST, out=before[1:], dtype=np.int32)
        return Varints(data, size, ends, within.view(np.uint8), before)

    def skip(self, at: Places) -> Places:
        """The places after a number each."""
        after = at + 1
        longer = np.flatnonzero(self.data.take(at) >= 0x80)
        while longer.size:
            byte = self.data.take(after[longer])
            after[longer] += 1
            longer = longer[byte >= 0x80]
        return after

    def skip_many(self, at: Places, count: Places) -> Places:
        """The places after `count` numbers each, one or more, that follow each other."""
        group = at >> 3
        ends = self._ends.take(group)
        left = self._until(group) - np.bitwise_count(ends & _FROM.take(at & 7)) + count
        if left.size and int(left.max()) > int(self._before[-1]):
            raise Unsure
        while True:
            # In a group end eight numbers at most, so an eighth of those to come is never too many groups.
            until = self._until(group)
            ahead = (left - until + 7) >> 3
            if not ahead.any():
                break
            group += ahead
        ends = self._ends.take(group)
        nth = _NTH[ends, left - until + np.bitwise_count(ends) - 1]
        after: Places = (group << 3) + nth + 1
        return after

    def _until(self, group: Places) -> Places:
        """How many numbers can end up to the end of each group."""
        found: Places = self._before.take(group >> 3) + self._within.take(group)
        return found

    def numbers(self, at: Places) -> tuple[Places, Places]:
        """The ints or longs at the places, and the places after them; `Unsure` if one does not fit 64 bits."""
        byte = self.data.take(at)
        after = at + 1
        longer = np.flatnonzero(byte >= 0x80)
        if not longer.size:
            return (byte >> 1).astype(np.int64) ^ -(byte & 1).astype(np.int64), after
        values = (byte & 0x7F).astype(np.uint64)
        for place in range(1, _LONGEST):
            if not longer.size:
                break
            byte = self.data.take(after[longer])
            if place == _LONGEST - 1 and int(byte.max()) > 1:
                raise Unsure
            values[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            after[longer] += 1
            longer = longer[byte >= 0x80]
        signs = -(values & np.uint64(1)).astype(np.int64)
        return (values >> np.uint64(1)).astype(np.int64) ^ signs, after

    def lengths(self, at: Places) -> tuple[Places, Places]:
        """Lengths or counts at the places, none negative, and the places after them."""
        byte = self.data.take(at)
        if not (byte & 0x81).any():
            values, after = (byte >> 1).astype(np.int64), at + 1
            negative = False
        else:
            values, after = self.numbers(at)
            negative = bool((values < 0).any())
        if negative or (values.size and int(values.max()) > self.size):
            raise Unsure
        return values, after
