"""Deletion vectors, decoded by hand into sets of row positions.

A vector's payload is a 64-bit roaring bitmap: 32-bit bitmaps, each under the high half of its positions. A 32-bit
bitmap has containers of positions that share their middle 16 bits: sorted arrays, bitsets, or runs.

Spec: Iceberg (Puffin) "deletion-vector-v1"; Delta, "Deletion Vector Format"; RoaringFormatSpec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from harness.oracle.engine.bounded import MOST_POSITIONS, check

_PUFFIN_MAGIC = b"\xd1\xd3\x39\x64"
_PORTABLE, _NATIVE = 1681511377, 1681511376
_NO_RUNS, _WITH_RUNS = 12346, 12347
_ARRAY_LIMIT = 4096
_OFFSETS_FROM = 4
_KEY_LIMIT = 2**31 - 1


def decode_puffin_vector(blob: bytes) -> set[int]:
    """The positions of an Iceberg deletion vector: length, magic, bitmap, checksum of both (iceberg 4.18).

    Raises:
        ValueError: any part of it is wrong.
    """
    data = _Bytes(blob)
    length, body = data.number(">I"), data.take(len(blob) - 8)
    if length != len(body) or data.number(">I") != zlib.crc32(body):
        raise ValueError("its length or its checksum is wrong")
    if body[:4] != _PUFFIN_MAGIC:
        raise ValueError(f"its magic is {body[:4].hex()}")
    return _portable(_Bytes(body[4:]))


def decode_delta_vector(frame: bytes) -> set[int]:
    """The positions of a Delta deletion vector in a file: length, magic and bitmap, checksum (delta D5 to D8).

    Raises:
        ValueError: any part of it is wrong.
    """
    data = _Bytes(frame)
    body = data.take(data.number(">i"))
    if data.number(">I") != zlib.crc32(body):
        raise ValueError("its checksum is wrong")
    payload = _Bytes(body)
    magic = payload.number("<i")
    if magic == _PORTABLE:
        return _portable(payload, ascending=True)
    if magic == _NATIVE:
        return _native(payload)
    raise ValueError(f"its magic is {magic}")


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise ValueError(f"it ends after {len(self.data)} bytes")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def number(self, form: str) -> int:
        """One number in the form that `struct` gives it."""
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def numbers(self, count: int) -> tuple[int, ...]:
        """So many unsigned 16-bit numbers."""
        found: tuple[Any, ...] = struct.unpack(f"<{count}H", self.take(2 * count))
        return found

    def check_end(self) -> None:
        if self.position != len(self.data):
            raise ValueError(f"{len(self.data) - self.position} bytes follow it")


def _portable(data: _Bytes, *, ascending: bool = False) -> set[int]:
    """64-bit bitmap: how many, then each behind its key."""
    positions: set[int] = set()
    keys: list[int] = []
    for _ in range(data.number("<Q")):
        keys.append(data.number("<I"))
        positions.update(keys[-1] << 32 | low for low in _bitmap(data))
    data.check_end()
    if len(set(keys)) < len(keys) or any(key >= _KEY_LIMIT for key in keys) or (ascending and keys != sorted(keys)):
        raise ValueError("its keys are repeated, too large or out of order")
    return positions


def _native(data: _Bytes) -> set[int]:
    """Delta's older layout: how many, then each behind its length; its key is its place."""
    positions: set[int] = set()
    for key in range(data.number("<i")):
        inner = _Bytes(data.take(data.number("<i")))
        positions.update(key << 32 | low for low in _bitmap(inner))
        inner.check_end()
    data.check_end()
    return positions


def _bitmap(data: _Bytes) -> Iterator[int]:
    """A 32-bit bitmap; with runs, a bit per container says which ones are runs."""
    cookie = data.number("<I")
    if cookie == _NO_RUNS:
        count, runs, has_offsets = data.number("<I"), 0, True
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs, has_offsets = int.from_bytes(data.take((count + 7) // 8), "little"), count >= _OFFSETS_FROM
    else:
        raise ValueError(f"a bitmap has cookie {cookie & 0xFFFF}")
    headers = [data.numbers(2) for _ in range(count)]
    if [key for key, _ in headers] != sorted({key for key, _ in headers}):
        raise ValueError("containers are out of order")
    check(sum(less_one + 1 for _, less_one in headers), MOST_POSITIONS, "deleted rows")
    if has_offsets:
        data.take(4 * count)
    for i, (key, less_one) in enumerate(headers):
        values = _container(data, less_one + 1, is_run=bool(runs >> i & 1))
        if values != sorted(set(values)) or len(values) != less_one + 1:
            raise ValueError("a container contradicts its header")
        yield from (key << 16 | value for value in values)


def _container(data: _Bytes, cardinality: int, *, is_run: bool) -> list[int]:
    if is_run:
        runs = [data.numbers(2) for _ in range(*data.numbers(1))]
        return [value for start, more in runs for value in range(start, start + more + 1)]
    if cardinality <= _ARRAY_LIMIT:
        return list(data.numbers(cardinality))
    bits = int.from_bytes(data.take(8192), "little")
    return [value for value in range(65536) if bits >> value & 1]
