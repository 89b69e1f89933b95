"""Decoders of single Avro types, put together by `harness.iceberg.avro_decoding`."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from harness.files.avro_numbers import decode_long, decode_string
from harness.iceberg.avro_numbers import Decoder, Skipper, next_block
from harness.iceberg.avro_tally import Tally


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
