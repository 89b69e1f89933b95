"""Roaring bitmaps, decoded straight from the format's description: https://github.com/RoaringBitmap/RoaringFormatSpec.

All functions raise BitmapError for bytes that are damaged, or of another form.
"""

from __future__ import annotations

import struct
import zlib
from typing import Literal

import numpy as np
from pyroaring import BitMap64

from harness.testing.oracle.engine.bounded import MOST_POSITIONS

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_LARGEST_ARRAY = 4096
_BITSET = 8192  # bytes
_CHUNK = 1 << 16
_KEY_LIMITS = {"any": (1 << 31) - 1, "ascending": 1 << 31}  # iceberg 4.18; delta D7
_PUFFIN_MAGIC = b"\xd1\xd3\x39\x64"
_PORTABLE, _NATIVE = 1681511377, 1681511376


class BitmapError(ValueError):
    """The bytes are no bitmap; the text says why."""


class ByteSource:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        """So many bytes. Raises BitmapError if there are fewer."""
        part = self.data[self.at : self.at + length]
        if length < 0 or len(part) != length:
            raise BitmapError(f"it ends after {len(self.data)} bytes")
        self.at += length
        return part

    def number(self, layout: str) -> int:
        """The next number, in a layout of `struct`."""
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def end(self) -> None:
        """Refuses, by BitmapError, bytes that are left."""
        if self.at != len(self.data):
            raise BitmapError(f"{len(self.data) - self.at} bytes follow it")


def puffin_vector(blob: bytes) -> BitMap64:
    """The positions of an Iceberg deletion vector: length, magic, bitmap, checksum of both (iceberg 4.18)."""
    data = ByteSource(blob)
    length, body = data.number(">I"), data.take(len(blob) - 8)
    if length != len(body) or data.number(">I") != zlib.crc32(body):
        raise BitmapError("its length or its checksum is wrong")
    if body[:4] != _PUFFIN_MAGIC:
        raise BitmapError(f"its magic is {body[:4].hex()}")
    return decode_portable(body[4:], order="any")


def delta_vector(frame: bytes) -> BitMap64:
    """The positions of a Delta deletion vector in a file: length, magic and bitmap, checksum (delta D5 to D8)."""
    data = ByteSource(frame)
    body = data.take(data.number(">i"))
    if data.number(">I") != zlib.crc32(body):
        raise BitmapError("its checksum is wrong")
    data.end()
    return delta_bitmap(body)


def delta_bitmap(blob: bytes) -> BitMap64:
    """The positions of a bitmap behind its magic number (delta D7)."""
    match blob[:4]:
        case magic if magic == struct.pack("<i", _PORTABLE):
            return decode_portable(blob[4:], order="ascending")
        case magic if magic == struct.pack("<i", _NATIVE):
            return decode_native(blob[4:], order="little")
        case magic if magic == struct.pack(">i", _NATIVE):  # as the sample of the protocol text has it
            return decode_native(blob[4:], order="big")
        case magic:
            raise BitmapError(f"its magic is {magic.hex()}")


def decode_portable(data: bytes, *, order: Literal["ascending", "any"]) -> BitMap64:
    """A 64-bit bitmap: a count, then per bitmap its upper 32 bits and the bitmap (iceberg 4.18, delta D7).

    order: whether the upper halves must ascend (delta D7), or only differ (iceberg 4.20).
    """
    source, found, seen = ByteSource(data), BitMap64(), [-1]
    for _ in range(source.number("<Q")):
        key = source.number("<I")
        if key >= _KEY_LIMITS[order]:
            raise BitmapError(f"key {key} is too large")
        if key in seen or (order == "ascending" and key < seen[-1]):
            raise BitmapError(f"key {key} comes twice or out of order")
        seen.append(key)
        found |= _bitmap(source, key << 32)
    source.end()
    return found


def decode_native(data: bytes, *, order: Literal["little", "big"]) -> BitMap64:
    """A 64-bit bitmap of Delta's older form: a count, then per bitmap its length and the bitmap (delta D7).

    order: of the bytes of the count and the lengths; the bitmaps themselves are always little-endian.
    """
    source, found = ByteSource(data), BitMap64()
    number = "<i" if order == "little" else ">i"
    for key in range(source.number(number)):
        inner = ByteSource(source.take(source.number(number)))
        found |= _bitmap(inner, key << 32)
        inner.end()
    source.end()
    return found


def _bitmap(source: ByteSource, base: int) -> BitMap64:
    cookie = source.number("<I")
    has_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not has_runs and cookie != _COOKIE:
        raise BitmapError(f"a bitmap begins with {cookie}")
    count = (cookie >> 16) + 1 if has_runs else source.number("<I")
    if count > _CHUNK:
        raise BitmapError(f"a bitmap has {count} containers")
    runs = source.take((count + 7) // 8) if has_runs else bytes((count + 7) // 8)
    heads = [(source.number("<H"), source.number("<H") + 1) for _ in range(count)]
    if sum(cardinality for _, cardinality in heads) > MOST_POSITIONS:
        raise BitmapError(f"it holds more positions than the oracle reads, which is {MOST_POSITIONS}")
    if not has_runs or count >= 4:
        source.take(4 * count)  # offsets, which only seeking needs
    found, last = BitMap64(), -1
    for place, (key, cardinality) in enumerate(heads):
        if key <= last:
            raise BitmapError("its containers are out of order")
        last = key
        is_run = runs[place // 8] >> place % 8 & 1
        container = _container(source, base + key * _CHUNK, None if is_run else cardinality)
        if len(container) != cardinality:
            raise BitmapError(f"a container holds {len(container)} values, it says {cardinality}")
        found |= container
    return found


def _container(source: ByteSource, base: int, cardinality: int | None) -> BitMap64:
    """A container of runs, or of so many values."""
    if cardinality is None:
        found = BitMap64()
        for _ in range(source.number("<H")):
            start, more = source.number("<H"), source.number("<H")
            if start + more >= _CHUNK:
                raise BitmapError("a run leaves its container")
            found.add_range(base + start, base + start + more + 1)
        return found
    if cardinality <= _LARGEST_ARRAY:
        values = np.frombuffer(source.take(2 * cardinality), dtype="<u2")
        if np.any(values[1:] <= values[:-1]):
            raise BitmapError("the values of a container are out of order")
    else:
        bits = np.unpackbits(np.frombuffer(source.take(_BITSET), dtype=np.uint8), bitorder="little")
        values = np.flatnonzero(bits)
    return BitMap64((values.astype(np.uint64) + np.uint64(base)).tolist())
