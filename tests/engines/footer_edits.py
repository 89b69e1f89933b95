"""Parquet footers with one number changed: Thrift's compact protocol taken apart, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Struct = dict[int, tuple[int, Any]]
"""A type and a value by field number; a list is the type of its elements and these."""

FILE_ROWS: tuple[int, ...] = (3,)
GROUPS: tuple[int, ...] = (4,)


def group(number: int, *rest: int) -> tuple[int, ...]:
    """The way to a field of a row group: 3 its rows."""
    return (4, number, *rest)


def chunk(number: int, column: int, field: int) -> tuple[int, ...]:
    """The way to a field of a chunk's metadata: 1 type, 5 values, 6 and 7 sizes, 9 data page, 11 dictionary."""
    return (4, number, 1, column, 3, field)


def edit(path: Path, changes: Mapping[tuple[int, ...], int]) -> None:
    """Write a file's footer anew, where numbers at these ways are others."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = edited(data[-8 - length : -8], changes)
    path.unlink()  # readers may remember a file by its status
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:])


def edited(footer: bytes, changes: Mapping[tuple[int, ...], int]) -> bytes:
    """A footer in which numbers at these ways are others."""
    root, _ = _struct(footer, 0)
    for way, number in changes.items():
        _put(root, way, lambda _, number=number: number)
    return _written(root)


def _put(value: Any, way: tuple[int, ...], change: Callable[[Any], Any]) -> None:
    step, *rest = way
    kind, inner = value[step] if isinstance(value, dict) else (None, value[step])
    if rest:
        _put(inner[1] if isinstance(inner, tuple) else inner, tuple(rest), change)
    else:
        value[step] = (kind, change(inner))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    raw, at = _varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while data[at]:
        number, kind, at = number + (data[at] >> 4), data[at] & 15, at + 1
        value, at = (None, at) if kind in (1, 2) else _value(data, at, kind)
        found[number] = kind, value
    return found, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        return _signed(data, at)
    if kind == 8:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == 12:
        return _struct(data, at)
    assert kind == 9
    of, count, at = data[at] & 15, data[at] >> 4, at + 1
    if count == 15:
        count, at = _varint(data, at)
    items = []
    for _ in range(count):
        item, at = _value(data, at, of)
        items.append(item)
    return (of, items), at


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _zigzag(value: int) -> bytes:
    return _number(value << 1 if value >= 0 else (-value << 1) - 1)


def _written(struct: Struct) -> bytes:
    last, parts = 0, []
    for number, (kind, value) in struct.items():
        parts.append(bytes((number - last << 4 | kind,)) + (b"" if kind in (1, 2) else _of(kind, value)))
        last = number
    return b"".join(parts) + b"\0"


def _of(kind: int, value: Any) -> bytes:
    if kind in (4, 5, 6):
        return _zigzag(value)
    if kind == 8:
        return _number(len(value)) + value
    if kind == 12:
        return _written(value)
    of, items = value
    head = bytes((len(items) << 4 | of,)) if len(items) < 15 else bytes((0xF0 | of,)) + _number(len(items))
    return head + b"".join(_of(of, item) for item in items)
