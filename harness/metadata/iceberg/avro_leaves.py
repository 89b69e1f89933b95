"""Decoders of single Avro types, put together by `harness.metadata.iceberg.avro_decoding`."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, TypeAlias

from harness.metadata.files.avro_numbers import decode_bytes, decode_long, decode_string
from harness.storage.limits import Limits
from harness.storage.records import dataclass

# What one Avro file has claimed so far that its bytes do not back.


@dataclass(slots=True)
class Tally:
    """Counts of one file, held against the limits. empty: values that took no byte."""

    limits: Limits
    file: str
    empty: int = 0

    def items(self, count: int) -> None:
        """Counts the items that a list or map has by now.

        Raises:
            LimitError: they are more than `limits.items`.
        """
        if count > self.limits.items:  # asked for each list of each record
            self.limits.check("items", count, "items of one list", file=self.file)

    def nothing(self) -> None:
        """Counts a value that took no byte.

        Raises:
            LimitError: there are more than `limits.empty_values`.
        """
        self.empty += 1
        if self.empty > self.limits.empty_values:
            self.limits.check("empty_values", self.empty, "values without a byte", file=self.file)


# The hot loops of decoding manifests: skipping numbers and byte strings, and the maps of statistics.
#
# Loops repeat how a number is encoded inline, where a call per number would double the time.


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


def memo(skip: Skipper, decode: Decoder, convert: Callable[[Any], Any]) -> Decoder:
    """A decoder that decodes and converts each distinct encoding once. Equal encodings give the same object."""
    known: dict[bytes, Any] = {}

    def recall(data: bytes, position: int) -> tuple[Any, int]:
        end = skip(data, position)
        encoded = data[position:end]
        try:
            return known[encoded], end
        except KeyError:
            value = known[encoded] = convert(decode(data, position)[0])
            return value, end

    return recall


def optional_decoder(null: int, decode: Decoder) -> Decoder:
    """A union with null; `null` is the encoded index of the null branch, 0 or 2."""
    other = 2 - null

    def optional(data: bytes, position: int) -> tuple[Any, int]:
        branch = data[position]
        if branch == null:
            return None, position + 1
        if branch != other:
            raise ValueError(f"union branch {branch / 2:g} does not exist")
        return decode(data, position + 1)

    return optional


def sequence_skipper(skippers: list[Skipper]) -> Skipper:
    """A skipper of values one after the other."""

    def skip(data: bytes, position: int) -> int:
        for step in skippers:
            position = step(data, position)
        return position

    return skip


def decode_boolean(data: bytes, position: int) -> tuple[bool, int]:
    """A boolean, and the position after it. Raises `ValueError` for a byte other than 0 and 1."""
    byte = data[position]
    if byte > 1:
        raise ValueError(f"{byte} is not a boolean")
    return byte == 1, position + 1


def packed_decoder(form: str) -> Decoder:
    """A decoder of the `struct` format `form`."""
    packed = struct.Struct(form)

    def decode(data: bytes, position: int) -> tuple[float, int]:
        end = position + packed.size
        if end > len(data):
            raise IndexError(end)
        return packed.unpack_from(data, position)[0], end

    return decode


def fixed_decoder(size: int) -> Decoder:
    """A decoder of exactly `size` bytes."""

    def decode(data: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(data):
            raise IndexError(end)
        return data[position:end], end

    return decode


def enum_decoder(symbols: Sequence[str]) -> Decoder:
    """A decoder of an enum into its symbol."""

    def decode(data: bytes, position: int) -> tuple[str, int]:
        index, position = decode_long(data, position)
        if not 0 <= index < len(symbols):
            raise ValueError(f"enum symbol {index} does not exist")
        return symbols[index], position

    return decode


def array_decoder(item: Decoder, tally: Tally) -> Decoder:
    """A decoder of an array into a list."""

    def decode(data: bytes, position: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        count, position = next_block(data, position)
        while count:
            tally.items(len(values) + count)
            for _ in range(count):
                start = position
                value, position = item(data, position)
                values.append(value)
                if position == start:
                    tally.nothing()
            count, position = next_block(data, position)
        return values, position

    return decode


def map_decoder(value: Decoder, tally: Tally) -> Decoder:
    """A decoder of a map, whose keys are text in Avro, into a dict."""
    pairs = array_decoder(lambda data, position: _decode_pair(value, data, position), tally)

    def decode(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        items, position = pairs(data, position)
        return dict(items), position

    return decode


def _decode_pair(value: Decoder, data: bytes, position: int) -> tuple[tuple[str, Any], int]:
    key, position = decode_string(data, position)
    found, position = value(data, position)
    return (key, found), position


def pairs_decoder(item: Decoder, keep: AbstractSet[int] | None, tally: Tally) -> Decoder:
    """Statistics maps whose items are not plain (int, long or bytes) pairs."""
    items = array_decoder(item, tally)

    def decode(data: bytes, position: int) -> tuple[dict[int, Any], int]:
        pairs, position = items(data, position)
        times = Counter(key for key, _ in pairs)
        return {
            key: value
            for key, value in pairs
            if value is not None and (keep is None or key in keep) and times[key] == 1
        }, position

    return decode
