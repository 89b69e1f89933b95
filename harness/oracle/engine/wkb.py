"""Geometries in the one form that a read gives: little-endian ISO well-known binary without an SRID (frontier F1.6)."""

from __future__ import annotations

import io
import struct

from harness.errors import CorruptFileError


def canonical(data: bytes) -> bytes:
    """The geometry in that form. Raises CorruptFileError for bytes that are none (frontier F1.7)."""
    stream = io.BytesIO(data)
    try:
        geometry, _ = _geometry(stream)
        if stream.read(1):
            raise ValueError("bytes follow it")
    except ValueError as error:
        raise CorruptFileError(
            f"Cannot read a geometry: {error}; restore the file", cause="CorruptDataFile", rule="frontier F1.7"
        ) from error
    return geometry


def _geometry(stream: io.BytesIO) -> tuple[bytes, int]:
    """A geometry, and the ISO code of its type."""
    order = {b"\0": ">", b"\1": "<"}.get(stream.read(1))
    if order is None:
        raise ValueError("it begins with no byte order")
    code = _integer(stream, order)
    flags, code = code >> 28, code & 0x1FFFFFFF
    if flags & 2:
        _integer(stream, order)  # the SRID
    kind, dimensions = code % 1000, code // 1000
    if kind not in range(1, 8) or dimensions not in range(4):
        raise ValueError(f"{code} is no type of geometry")
    has_z, has_m = dimensions in (1, 3) or flags & 8, dimensions in (2, 3) or flags & 4
    iso = kind + (1000 if has_z else 0) + (2000 if has_m else 0)
    head = struct.pack("<BI", 1, iso)
    width = 2 + bool(has_z) + bool(has_m)
    match kind:
        case 1:
            return head + _doubles(stream, order, width), iso
        case 2:
            return head + _points(stream, order, width), iso
        case 3:
            rings = [_points(stream, order, width) for _ in range(_integer(stream, order))]
            return head + struct.pack("<I", len(rings)) + b"".join(rings), iso
        case _:
            parts = [_geometry(stream) for _ in range(_integer(stream, order))]
            for _, part in parts:
                if part // 1000 != iso // 1000 or (kind != 7 and part % 1000 != kind - 3):
                    raise ValueError(f"a geometry of type {part} is part of one of type {iso}")
            return head + struct.pack("<I", len(parts)) + b"".join(data for data, _ in parts), iso


def _points(stream: io.BytesIO, order: str, width: int) -> bytes:
    count = _integer(stream, order)
    return struct.pack("<I", count) + _doubles(stream, order, count * width)


def _integer(stream: io.BytesIO, order: str) -> int:
    data = stream.read(4)
    if len(data) < 4:
        raise ValueError("it ends early")
    return int.from_bytes(data, "little" if order == "<" else "big")


def _doubles(stream: io.BytesIO, order: str, count: int) -> bytes:
    data = stream.read(8 * count)
    if len(data) < 8 * count:
        raise ValueError("it ends early")
    numbers = [data[i : i + 8] for i in range(0, len(data), 8)]
    return b"".join(number if order == "<" else number[::-1] for number in numbers)
