"""Edits of Parquet footers: numbers and texts are replaced, located by Thrift's compact protocol."""

from collections.abc import Mapping
from pathlib import Path

Way = tuple[int, ...]
"""The field numbers and list indexes that lead to a value."""

FILE_ROWS: Way = (3,)


def group(number: int, *rest: int) -> Way:
    """Return the path to a field of a row group. Field 3 is its row count."""
    return (4, number, *rest)


def chunk(number: int, column: int, field: int) -> Way:
    """Return the path to a field of a column chunk: 1 type, 5 values, 6 and 7 sizes, 9 data page, 11 dictionary."""
    return (4, number, 1, column, 3, field)


def edit(path: Path, changes: Mapping[Way, int | bytes]) -> None:
    """Rewrite a file's footer with other values at these paths."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = edited(data[-8 - length : -8], changes)
    path.unlink()  # readers may remember a file by its status
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:])


def edited(footer: bytes, changes: Mapping[Way, int | bytes]) -> bytes:
    """Return a footer with other values at these paths. Structs in it do not record their length."""
    for way, value in changes.items():
        places: dict[Way, tuple[int, int]] = {}
        _find(footer, 0, 12, (), places)
        start, end = places[way]
        footer = footer[:start] + _written(value) + footer[end:]
    return footer


def _find(data: bytes, at: int, kind: int, way: Way, places: dict[Way, tuple[int, int]]) -> int:
    """Return the end of a value, and add the offsets of the numbers and texts in it by their paths."""
    start = at
    match kind:
        case 4 | 5 | 6:
            _, at = _varint(data, at)
        case 8:
            length, at = _varint(data, at)
            at += length
        case 9:
            of, count, at = data[at] & 15, data[at] >> 4, at + 1
            if count == 15:
                count, at = _varint(data, at)
            for i in range(count):
                at = _find(data, at, of, (*way, i), places)
        case 12:
            field = 0
            while head := data[at]:
                field, at = field + (head >> 4), at + 1
                if head & 15 > 2:  # Booleans are encoded by their type
                    at = _find(data, at, head & 15, (*way, field), places)
            at += 1
    places[way] = start, at
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _written(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return _number(len(value)) + value
    return _number(value << 1 if value >= 0 else (-value << 1) - 1)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
