"""Numbers and byte strings at many places of one buffer at a time, as Avro encodes them.

Every function takes and gives arrays with one element per *lane*: a place in the buffer that is decoded in step with
others. What is wrong, or so odd that an entry-wise decoder had better judge it, raises `Unsure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Places: TypeAlias = npt.NDArray[np.int64]
"""Offsets into a buffer, in bytes, or other whole numbers, one per lane."""

_LONGEST = 10
_PADDING = 16
_WORD = 64
"""Bytes that one word of the index stands for."""


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
    _last: Places  # the offset of each byte that can be the last one of a number, ascending
    _words: npt.NDArray[np.uint64]  # a bit for each offset: whether its byte can be such a last one
    _before: npt.NDArray[np.int64]  # how many bits are set in the words before

    @staticmethod
    def of(buffer: bytes) -> Varints:
        """The index of a buffer, which has less than 2 GiB."""
        padding = _PADDING + -(len(buffer) + _PADDING) % _WORD
        data = np.frombuffer(buffer + bytes(padding), dtype=np.uint8)
        last = data < 0x80
        words = np.packbits(last, bitorder="little").view("<u8")
        set_ = np.bitwise_count(words)
        before = np.cumsum(set_, dtype=np.int64) - set_
        return Varints(data, len(buffer), np.flatnonzero(last), words, before)

    def skip(self, at: Places, count: Places | int = 1) -> Places:
        """The places after `count` numbers each, one or more, that follow each other."""
        if isinstance(count, int) and count == 1 and at.size and int(self.data[at].max()) < 0x80:
            return at + 1
        ordinal = self._rank(at) + (count - 1)
        if ordinal.size and int(ordinal.max()) >= len(self._last):
            raise Unsure
        after: Places = self._last[ordinal] + 1
        return after

    def _rank(self, at: Places) -> Places:
        """How many numbers may end before each place."""
        word = at >> 6
        lower = self._words[word] & ((np.uint64(1) << (at & 63).astype(np.uint64)) - np.uint64(1))
        rank: Places = self._before[word] + np.bitwise_count(lower)
        return rank

    def numbers(self, at: Places) -> tuple[Places, Places]:
        """The ints or longs at the places, and the places after them; `Unsure` if one does not fit 64 bits."""
        byte = self.data[at]
        values = (byte & 0x7F).astype(np.uint64)
        after = at + 1
        longer = np.flatnonzero(byte >= 0x80)
        for place in range(1, _LONGEST):
            if not longer.size:
                break
            byte = self.data[after[longer]]
            if place == _LONGEST - 1 and int(byte.max()) > 1:
                raise Unsure
            values[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            after[longer] += 1
            longer = longer[byte >= 0x80]
        signs = -(values & np.uint64(1)).astype(np.int64)
        return (values >> np.uint64(1)).astype(np.int64) ^ signs, after

    def lengths(self, at: Places) -> tuple[Places, Places]:
        """Lengths or counts at the places, none negative, and the places after them."""
        byte = self.data[at]
        if byte.size and int(byte.max()) < 0x80:
            values, after = (byte >> 1).astype(np.int64), at + 1
            negative = bool((byte & 1).any())
        else:
            values, after = self.numbers(at)
            negative = bool((values < 0).any())
        if negative or (values.size and int(values.max()) > self.size):
            raise Unsure
        return values, after
