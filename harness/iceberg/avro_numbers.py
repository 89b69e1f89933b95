"""The hot loops of decoding manifests: skipping numbers and byte strings, and the maps of statistics.

Loops repeat how a number is encoded inline, where a call per number would double the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, TypeAlias

from harness.files.avro_numbers import decode_bytes, decode_long
from harness.iceberg.avro_tally import Tally

Decoder: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Skipper: TypeAlias = Callable[[bytes, int], int]


def skip_long(data: bytes, position: int) -> int:
    """The position after a number."""
    while data[position] > 0x7F:
        position += 1
    return position + 1


def skip_bytes(data: bytes, position: int) -> int:
    """The position after a byte string or text."""
    length, position = decode_long(data, position)
    if length < 0 or position + length > len(data):
        raise IndexError(position)
    return position + length


def next_block(data: bytes, position: int) -> tuple[int, int]:
    """The number of items in the next block of an array or map (0 at its end), and the position of the first one."""
    byte = data[position]
    if byte < 0x80 and not byte & 1:
        return byte >> 1, position + 1
    count, position = decode_long(data, position)
    if count < 0:
        # A negative count is followed by the size of the block in bytes.
        count = -count
        _, position = decode_long(data, position)
    if count > len(data):
        raise ValueError(f"an array claims {count} items, more than the data has bytes")
    return count, position


@lru_cache(maxsize=256)
def _numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*+[\x00-\x7f]){%d}" % count)


def skip_long_items(data: bytes, position: int) -> int:
    """The position after an array of (number, number) records."""
    count, position = next_block(data, position)
    while count:
        end = position + 2 * count
        # One byte each is the usual case of counts; otherwise the regular expression is the fastest loop there is.
        if data[position:end].isascii():
            position = end
        else:
            match = _numbers(2 * count).match(data, position)
            if match is None:
                raise IndexError(position)
            position = match.end()
        count, position = next_block(data, position)
    return position


def skip_bytes_items(data: bytes, position: int) -> int:
    """The position after an array of (number, byte string) records."""
    count, position = next_block(data, position)
    while count:
        for _ in range(count):
            while data[position] > 0x7F:
                position += 1
            length = data[position + 1]
            if length < 0x80 and not length & 1:
                position += 2 + (length >> 1)
            else:
                position = skip_bytes(data, position + 1)
        count, position = next_block(data, position)
    return position


def long_map_decoder(keep: AbstractSet[int] | None, tally: Tally) -> Decoder:
    """A decoder of arrays of (number, number) records into dicts of the keys in `keep` (None: all keys)."""

    def decode(data: bytes, position: int) -> tuple[dict[int, int], int]:
        found: dict[int, int] = {}
        repeated: set[int] = set()
        count, position = next_block(data, position)
        while count:
            tally.items(len(found) + count)
            for _ in range(count):
                byte = data[position]
                if byte < 0x80:
                    key = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    key, position = decode_long(data, position)
                if keep is None or key in keep:
                    if key in found:
                        repeated.add(key)
                    found[key], position = decode_long(data, position)
                else:
                    while data[position] > 0x7F:
                        position += 1
                    position += 1
            count, position = next_block(data, position)
        return _without(found, repeated), position

    return decode


def bytes_map_decoder(keep: AbstractSet[int] | None, tally: Tally) -> Decoder:
    """A decoder of arrays of (number, byte string) records into dicts of the keys in `keep` (None: all keys)."""

    def decode(data: bytes, position: int) -> tuple[dict[int, bytes], int]:
        found: dict[int, bytes] = {}
        repeated: set[int] = set()
        count, position = next_block(data, position)
        while count:
            tally.items(len(found) + count)
            for _ in range(count):
                byte = data[position]
                if byte < 0x80:
                    key = (byte >> 1) ^ -(byte & 1)
                    position += 1
                else:
                    key, position = decode_long(data, position)
                if keep is None or key in keep:
                    if key in found:
                        repeated.add(key)
                    found[key], position = decode_bytes(data, position)
                else:
                    length = data[position]
                    if length < 0x80 and not length & 1:
                        position += 1 + (length >> 1)
                    else:
                        position = skip_bytes(data, position)
            count, position = next_block(data, position)
        return _without(found, repeated), position

    return decode


def _without(found: dict[int, Any], repeated: set[int]) -> dict[int, Any]:
    """A statistic that is given twice is unknown (iceberg 2.8)."""
    for key in repeated:
        del found[key]
    return found
