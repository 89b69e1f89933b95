"""Variants as JSON text, plain or shredded over columns (iceberg 6.15).

The text has sorted keys and no spaces between tokens:

    integers digits · floats the shortest number that reads back as the same value of that width
    NaN and infinities "NaN", "Infinity", "-Infinity" · decimals with as many digits after the point as their scale
    date "2017-11-16" · time "22:31:08.123456" · timestamp "2017-11-16T22:31:08.123456", an instant with +00:00
    binary base64, padded · uuid lower case with hyphens · a missing field of an object is left out

Spec: Parquet, "Variant Binary Encoding", "Variant Shredding".
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from harness.errors import CorruptFileError, UnsupportedError
from harness.suite.oracle import types as dt
from harness.suite.oracle.types import RawColumn
from harness.suite.oracle.values import EXACT, date_text

MAX_DEPTH = 128
"""The deepest nesting that is read."""
_ShreddedParts: TypeAlias = dict[str, tuple[RawColumn, Any]]
_string = partial(json.dumps, ensure_ascii=False)


def is_variant(column: RawColumn) -> bool:
    """Return whether a struct has the columns of a variant."""
    names = {part.name for part in column.parts}
    return "metadata" in names and len(names) > 1 and names <= {"metadata", "value", "typed_value"}


def variant_json(column: RawColumn, group: object) -> str:
    """Return the JSON text of a variant that is not SQL's null. Shredded columns are merged into it."""
    parts = _group_parts(column, group)
    if parts["metadata"][1] is None:
        raise _malformed("it has no metadata")
    return _shredded_text(parts, parts["metadata"][1]) or "null"


def _malformed(reason: str) -> CorruptFileError:
    message = f"Cannot decode variant value: {reason}; rewrite the file"
    return CorruptFileError(message, cause="CorruptDataFile", rule="iceberg 6.15")


def _unsupported(feature: str) -> UnsupportedError:
    message = f"Cannot decode variant value: {feature}; leave the column out"
    return UnsupportedError(message, cause="UnsupportedType", rule="iceberg 6.15")


def _group_parts(column: RawColumn, group: Any) -> _ShreddedParts:
    if column.type != "struct":
        raise _malformed(f"a shredded part is {column.type}, expected a group of value and typed_value")
    return {part.name: (part, None if group is None else group[i]) for i, part in enumerate(column.parts)}


def _shredded_text(parts: _ShreddedParts, metadata: bytes) -> str | None:
    """Return the JSON text of a `value` and `typed_value` pair, or None if both are null and the value is missing."""
    _, value = parts.get("value", (None, None))
    column, typed = parts.get("typed_value", (None, None))
    if value is not None and not isinstance(value, bytes):
        raise _malformed("its value is not binary")
    if column is None or typed is None:
        return None if value is None else _BinaryValue(metadata, value).text(0, 0)
    if column.type == "struct":  # typed_value has the shredded fields of an object, and value has the others
        if value is not None and _number(value, 0, 1) & 3 != 2:
            raise _malformed("the unshredded part of an object is not an object")
        fields = {} if value is None else _BinaryValue(metadata, value).fields(0, 0)
        for part, group in zip(column.parts, typed, strict=True):
            fields.pop(part.name, None)
            text = _shredded_text(_group_parts(part, group), metadata)
            if text is not None:
                fields[part.name] = text
        return _object_text(fields)
    if value is not None:
        raise _malformed("it has both a value and a typed_value, but is not an object")
    if column.type == "list":  # elements cannot be missing: an element without a value is a variant null
        items = [_shredded_text(_group_parts(column.parts[0], group), metadata) or "null" for group in typed]
        return f"[{','.join(items)}]"
    return _typed_text(column.type, typed)


def _typed_text(type_: object, value: Any) -> str:
    match type_:
        case dt.BOOLEAN:
            return "true" if value else "false"
        case dt.IntegerType():
            return str(value)
        case dt.FloatType(bits=32 | 64 as bits):
            return _float(value, bits)
        case dt.DecimalType():
            return f"{value:f}"
        case dt.DATE:
            return f'"{date_text(value)}"'
        case dt.TimeType(unit="us"):
            return f'"{_clock(value, 6)}"'
        case dt.TimestampType(unit="us" | "ns" as unit, utc=utc):
            return _timestamp(value, 6 if unit == "us" else 9, utc=utc)
        case dt.STRING:
            return _string(value.decode())
        case dt.UUID | dt.FixedType(length=16):
            return f'"{uuid.UUID(bytes=value)}"'
        case dt.BINARY:
            return f'"{base64.b64encode(value).decode()}"'
        case dt.UNKNOWN:
            return "null"
        case other:
            raise _unsupported(f"it is shredded as {other}")


_FIXED: dict[int, tuple[int, dt.ColumnType]] = {
    **{3: (1, dt.IntegerType(8)), 4: (2, dt.IntegerType(16)), 5: (4, dt.IntegerType(32)), 6: (8, dt.IntegerType(64))},
    **{7: (8, dt.FloatType(64)), 14: (4, dt.FloatType(32)), 11: (4, dt.DATE), 17: (8, dt.TimeType())},
    **{12: (8, dt.TimestampType("us", utc=True)), 13: (8, dt.TimestampType("us"))},
    **{18: (8, dt.TimestampType("ns", utc=True)), 19: (8, dt.TimestampType("ns")), 20: (16, dt.UUID)},
}
"""The width in bytes and the type of each fixed-width primitive type by type id. Decimals are in `_DECIMALS`."""
_DECIMALS = {8: 5, 9: 9, 10: 17}
_DAY_MICROS = 86_400_000_000


class _BinaryValue:
    """A variant value in the binary encoding. Positions count from the first byte of the value."""

    def __init__(self, metadata: bytes, data: bytes) -> None:
        self.names, self.data, self.count = _names(metadata), data, 0

    def text(self, at: int, depth: int) -> str:
        self.count += 1
        if self.count > len(self.data):  # a value has no more parts than bytes, unless parts share bytes
            raise _malformed("values share bytes")
        if depth > MAX_DEPTH:
            raise _unsupported(f"it nests deeper than {MAX_DEPTH} levels")
        header = _number(self.data, at, 1)
        match header & 3:
            case 0:
                return self.primitive(header >> 2, at + 1)
            case 1:
                return _string(_utf8(_slice(self.data, at + 1, header >> 2)))
            case 2:
                return _object_text(self.fields(at, depth))
            case _:
                width, is_large = (header >> 2 & 3) + 1, header >> 4 & 1
                size, start = self.size(at + 1, 4 if is_large else 1)
                return f"[{','.join(self.text(place, depth + 1) for place in self.places(start, width, size))}]"

    def primitive(self, type_id: int, at: int) -> str:
        if type_id < 3:
            return ("null", "true", "false")[type_id]
        if type_id in _DECIMALS:
            data = _slice(self.data, at, _DECIMALS[type_id])
            if data[0] > 38:
                raise _malformed(f"a decimal has scale {data[0]}, expected at most 38")
            unscaled = Decimal(int.from_bytes(data[1:], "little", signed=True))
            return f"{unscaled.scaleb(-data[0], context=EXACT):f}"
        if type_id in _FIXED:
            width, type_ = _FIXED[type_id]
            data = _slice(self.data, at, width)
            if isinstance(type_, dt.FloatType):
                return _typed_text(type_, struct.unpack("<d" if width == 8 else "<f", data)[0])
            number = int.from_bytes(data, "little", signed=True)
            if isinstance(type_, dt.TimeType) and not 0 <= number < _DAY_MICROS:
                raise _malformed(f"a time has {number} micros, expected less than a day")
            return _typed_text(type_, data if width == 16 else number)
        if type_id in (15, 16):
            content = _slice(self.data, at + 4, _number(self.data, at, 4))
            return _typed_text(dt.BINARY, content) if type_id == 15 else _string(_utf8(content))
        raise _unsupported(f"primitive type {type_id} is not known")

    def fields(self, at: int, depth: int) -> dict[str, str]:
        header = _number(self.data, at, 1) >> 2
        offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
        size, start = self.size(at + 1, 4 if header & 16 else 1)
        ids = [_number(self.data, start + id_width * index, id_width) for index in range(size)]
        fields: dict[str, str] = {}
        for id_, place in zip(ids, self.places(start + id_width * size, offset_width, size), strict=True):
            if id_ >= len(self.names):
                raise _malformed(f"field name {id_} of {len(self.names)}")
            if self.names[id_] in fields:
                raise _malformed(f"an object has field {self.names[id_]!r} twice")
            fields[self.names[id_]] = self.text(place, depth + 1)
        return fields

    def size(self, at: int, width: int) -> tuple[int, int]:
        """Return the number of elements and the position after it."""
        size = _number(self.data, at, width)
        if size > len(self.data):
            raise _malformed(f"{size} elements are declared for {len(self.data)} bytes")
        return size, at + width

    def places(self, at: int, width: int, size: int) -> list[int]:
        """Return the start positions of `size` values from the list of their offsets."""
        first = at + width * (size + 1)
        *offsets, end = [_number(self.data, at + width * index, width) for index in range(size + 1)]
        if first + end > len(self.data) or any(offset >= end for offset in offsets):
            raise _malformed("an element is beyond the end")
        return [first + offset for offset in offsets]


def _names(metadata: bytes) -> list[str]:
    """Return the dictionary of field names. Spec: Parquet, "Metadata encoding"."""
    header = _number(metadata, 0, 1)
    if header & 0x0F != 1:
        raise _unsupported(f"metadata version {header & 0x0F}, expected 1")
    width = (header >> 6) + 1
    size = _number(metadata, 1, width)
    start = 1 + width * (size + 2)
    offsets = [_number(metadata, 1 + width * (index + 1), width) for index in range(min(size, len(metadata)) + 1)]
    if any(low > high for low, high in pairwise(offsets)):
        raise _malformed("the metadata's offsets descend")
    return [_utf8(_slice(metadata, start + low, high - low)) for low, high in pairwise(offsets)]


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_slice(data, at, width), "little")


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise _malformed(f"it ends after {len(data)} bytes, expected {length} bytes at {at}")
    return data[at : at + length]


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _malformed(f"text is not UTF-8: {error}") from error


def _object_text(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{_string(name)}:{fields[name]}" for name in sorted(fields)) + "}"


def _float(value: float, bits: int) -> str:
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if bits == 64:
        return repr(value)
    stored = struct.pack("<f", value)
    digits = next(digits for digits in range(1, 18) if struct.pack("<f", float(f"{value:.{digits}g}")) == stored)
    return repr(float(f"{value:.{digits}g}"))


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


def _timestamp(ticks: int, digits: int, *, utc: bool) -> str:
    days, rest = divmod(ticks, 86_400 * 10**digits)
    return f'"{date_text(days)}T{_clock(rest, digits)}{"+00:00" if utc else ""}"'
