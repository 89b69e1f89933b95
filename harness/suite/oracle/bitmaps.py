"""Deletion vectors of both formats: roaring bitmaps with their headers and checksums.

All functions raise ValueError if the bytes are damaged or have another layout.

Spec: Roaring, https://github.com/RoaringBitmap/RoaringFormatSpec; Iceberg, "Deletion Vectors" and Puffin's
`deletion-vector-v1` (iceberg 4.18); Delta, "Deletion Vector Format" (delta D5 to D8).
"""

from __future__ import annotations

import zlib
from typing import Literal

from harness.suite.oracle.documents import MAX_POSITIONS, ByteReader, check_limit

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_MAX_ARRAY = 4096
_BITSET = 8192  # bytes
_CHUNK = 1 << 16
_KEY_LIMITS = {"any": (1 << 31) - 1, "ascending": 1 << 31}  # iceberg 4.18; delta D7
_PUFFIN_MAGIC = b"\xd1\xd3\x39\x64"
_PORTABLE, _NATIVE = 1681511377, 1681511376


def puffin_vector(blob: bytes) -> set[int]:
    """Return the positions of an Iceberg deletion vector: length, magic, bitmap, and checksum (iceberg 4.18)."""
    data = ByteReader(blob)
    length, body = data.number(4, "big"), data.take(len(blob) - 8)
    if length != len(body) or data.number(4, "big") != zlib.crc32(body):
        raise ValueError("its length or its checksum is wrong")
    if body[:4] != _PUFFIN_MAGIC:
        raise ValueError(f"its magic is {body[:4].hex()}")
    return decode_portable(body[4:], order="any")


def delta_vector(frame: bytes) -> set[int]:
    """Return the positions of a Delta deletion vector file: length, magic, bitmap, and checksum (delta D5 to D8)."""
    data = ByteReader(frame)
    body = data.take(data.number(4, "big", signed=True))
    if data.number(4, "big") != zlib.crc32(body):
        raise ValueError("its checksum is wrong")
    data.end()
    return delta_bitmap(body)


def delta_bitmap(blob: bytes) -> set[int]:
    """Return the positions of a bitmap that begins with its magic number (delta D7)."""
    if blob[:4] == _PORTABLE.to_bytes(4, "little"):
        return decode_portable(blob[4:], order="ascending")
    for order in ("little", "big"):  # the example in the protocol text is big-endian
        if blob[:4] == _NATIVE.to_bytes(4, "big" if order == "big" else "little"):
            return decode_native(blob[4:], order)
    raise ValueError(f"its magic is {blob[:4].hex()}")


def decode_portable(data: bytes, *, order: Literal["ascending", "any"]) -> set[int]:
    """Decode a 64-bit bitmap: a count, then each bitmap's upper 32 bits and the bitmap (iceberg 4.18, delta D7).

    `order` says whether the upper halves must ascend (delta D7) or only be distinct (iceberg 4.20).
    """
    source, positions, keys = ByteReader(data), set[int](), [-1]
    for _ in range(source.number(8)):
        key = source.number(4)
        if key >= _KEY_LIMITS[order]:
            raise ValueError(f"key {key} is too large")
        if key in keys or (order == "ascending" and key < keys[-1]):
            raise ValueError(f"key {key} comes twice or out of order")
        keys.append(key)
        positions |= _bitmap(source, key << 32)
    source.end()
    return positions


def decode_native(data: bytes, order: str) -> set[int]:
    """Decode Delta's older layout: a count, then each bitmap's length and the bitmap (delta D7).

    `order` is the byte order.
    """
    source, positions = ByteReader(data), set[int]()
    for key in range(source.number(4, order, signed=True)):
        inner = ByteReader(source.take(source.number(4, order, signed=True)))
        positions |= _bitmap(inner, key << 32)
        inner.end()
    source.end()
    return positions


def _bitmap(source: ByteReader, base: int) -> set[int]:
    cookie = source.number(4)
    has_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not has_runs and cookie != _COOKIE:
        raise ValueError(f"a bitmap begins with {cookie}")
    count = (cookie >> 16) + 1 if has_runs else source.number(4)
    if count > _CHUNK:
        raise ValueError(f"a bitmap has {count} containers")
    runs = source.take((count + 7) // 8) if has_runs else bytes((count + 7) // 8)
    heads = [(source.number(2), source.number(2) + 1) for _ in range(count)]
    check_limit(sum(cardinality for _, cardinality in heads), MAX_POSITIONS, "positions")
    if not has_runs or count >= 4:
        source.take(4 * count)  # skip the offsets, which only seeking needs
    values, last = set[int](), -1
    for place, (key, cardinality) in enumerate(heads):
        if key <= last:
            raise ValueError("its containers are out of order")
        last = key
        is_run = runs[place // 8] >> place % 8 & 1
        container = _container(source, base + key * _CHUNK, None if is_run else cardinality)
        if len(container) != cardinality:
            raise ValueError(f"a container holds {len(container)} values, declared {cardinality}")
        values |= container
    return values


def _container(source: ByteReader, base: int, cardinality: int | None) -> set[int]:
    """Return the values of a container with `cardinality` values. A cardinality of None means a container of runs."""
    if cardinality is None:
        members, after = set[int](), 0
        for _ in range(source.number(2)):
            start, length = source.number(2), source.number(2)
            if start < after or start + length >= _CHUNK:
                raise ValueError("a run exceeds its container or overlaps the previous run")
            after = start + length + 1
            members.update(range(base + start, base + after))
        return members
    if cardinality > _MAX_ARRAY:
        bits = source.take(_BITSET)
        return {base + value for value in range(_CHUNK) if bits[value >> 3] >> (value & 7) & 1}
    values = [source.number(2) for _ in range(cardinality)]
    if sorted(set(values)) != values:
        raise ValueError("the values of a container are out of order")
    return {base + value for value in values}


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(text: str) -> bytes:
    """Decode a Z85 text, five characters for four bytes: https://rfc.zeromq.org/spec/32 (delta D4)."""
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise ValueError("its text is not Z85")
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        if number >> 32:
            raise ValueError("its text is not Z85")
        data += number.to_bytes(4, "big")
    return data
