"""Variant columns, plain and shredded, as JSON text with sorted keys, which makes rows of all engines comparable.

    null, true, false    as they are; a missing object field is left out
    integers             digits
    float, double        the shortest number that reads back as the same value of that width: 1.0, 1e+300, -0.0
    NaN, infinities      the strings "NaN", "Infinity", "-Infinity"
    decimal              a number with exactly as many digits after the point as its scale: 1.50
    date                 "2017-11-16"; years outside of 0 to 9999 have a sign
    time                 "22:31:08.123456"
    timestamp            "2017-11-16T22:31:08.123456"; nanoseconds have nine digits, instants end with +00:00
    binary               base64, padded
    uuid                 lower case with hyphens
    string               with only the escapes that JSON requires

There are no blanks between tokens.

Spec: Parquet, "Variant Binary Encoding" and "Variant Shredding" (rule iceberg 6.15).
"""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.times import year_month_day

__all__ = ["value_text", "variant_to_json"]


def text(value: str) -> str:
    """Return a JSON string with only the escapes that JSON requires."""
    return json.dumps(value, ensure_ascii=False)


def binary(value: bytes) -> str:
    """Return a JSON string of padded base64."""
    return f'"{base64.b64encode(value).decode()}"'


def uuid_text(value: bytes) -> str:
    """Return a JSON string of a UUID in lower case with hyphens, from 16 big-endian bytes."""
    return f'"{uuid.UUID(bytes=value)}"'


def boolean(value: bool) -> str:
    """Return `true` or `false`."""
    return "true" if value else "false"


def double(value: float) -> str:
    """Return the shortest number that reads back as the same value, or a string for NaN and infinities."""
    return repr(value) if math.isfinite(value) else f'"{_not_finite(value)}"'


def single(value: float) -> str:
    """Return the shortest number that reads back as the same 32-bit value, or a string for NaN and infinities."""
    if not math.isfinite(value):
        return f'"{_not_finite(value)}"'
    bits = struct.pack("<f", value)
    shortest = next(digits for digits in range(1, 18) if struct.pack("<f", float(f"{value:.{digits}g}")) == bits)
    return repr(float(f"{value:.{shortest}g}"))


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decimal(unscaled: int, scale: int) -> str:
    """Return a decimal with exactly `scale` digits after the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{whole}.{fraction}" if scale else f"{sign}{whole}"


def date(days: int) -> str:
    """Return a JSON string like "2017-11-16", from days since 1970-01-01."""
    return f'"{_date(days)}"'


def time(micros: int) -> str:
    """Return a JSON string like "22:31:08.123456", from microseconds since midnight."""
    return f'"{_time(micros, 6)}"'


def timestamp(ticks: int, *, digits: int, utc: bool) -> str:
    """Return a JSON string like "2017-11-16T22:31:08.123456", followed by +00:00 if it is an instant.

    Args:
        ticks: The time since 1970-01-01, in units of 10^-`digits` seconds.
        digits: The number of digits after the second, 6 or 9.
        utc: True if the timestamp is an instant.
    """
    days, rest = divmod(ticks, 86_400 * 10**digits)
    return f'"{_date(days)}T{_time(rest, digits)}{"+00:00" if utc else ""}"'


def array(items: Sequence[str]) -> str:
    """Return a JSON array of items that already are JSON text."""
    return f"[{','.join(items)}]"


def record(fields: Mapping[str, str]) -> str:
    """Return a JSON object of values that already are JSON text, in ascending order of names (by code point)."""
    return "{" + ",".join(f"{text(name)}:{fields[name]}" for name in sorted(fields)) + "}"


def _time(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}"


def _date(days: int) -> str:
    year, month, day = year_month_day(days)
    name = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{name}-{month:02}-{day:02}"


# Values in the Parquet variant binary encoding, version 1. Every offset is checked. A valid value has at most as many
# parts as bytes. If there are more, the parts share bytes and could multiply without end.


MAX_DEPTH = 128
"""The maximum nesting depth. Python's stack would overflow at some larger depth."""

_OBJECT = 2


def value_text(metadata: bytes, value: bytes) -> str:
    """Return a variant as JSON text, in the form described at the top of this module.

    Raises:
        CorruptFileError: The metadata or the value is malformed.
        UnsupportedError: A primitive type or the metadata version is unknown, or the nesting exceeds `MAX_DEPTH`.
    """
    return _Decoder(_names(metadata), value).text(0, 0)


def object_fields(metadata: bytes, value: bytes) -> dict[str, str]:
    """Return the JSON text of each field of a variant, which must be an object. Errors are as for `value_text`."""
    decoder = _Decoder(_names(metadata), value)
    if decoder.header(0) & 3 != _OBJECT:
        raise malformed("the unshredded part of an object is not an object")
    return decoder.fields(0, 0)


def malformed(reason: str) -> CorruptFileError:
    """Return the error for a variant that violates its encoding. The caller adds the file."""
    return CorruptFileError(
        f"Cannot decode variant value: {reason}; rewrite the file", cause="CorruptDataFile", rule="iceberg 6.15"
    )


def unsupported(feature: str) -> UnsupportedError:
    """Return the error for a variant that may be valid but is not supported."""
    return UnsupportedError(
        f"Cannot decode variant value: {feature}; leave the column out", cause="UnsupportedType", rule="iceberg 6.15"
    )


@lru_cache(maxsize=4096)
def _names(metadata: bytes) -> tuple[str, ...]:
    """Return the dictionary of field names."""
    if not metadata:
        raise malformed("the metadata is empty")
    header = metadata[0]
    if header & 0x0F != 1:
        raise unsupported(f"metadata version {header & 0x0F}, expected 1")
    width = (header >> 6) + 1
    size = _unsigned(metadata, 1, width)
    start = 1 + width * (size + 2)
    offsets = [_unsigned(metadata, 1 + width * (index + 1), width) for index in range(min(size, len(metadata)) + 1)]
    names = []
    for low, high in pairwise(offsets):
        if low > high:
            raise malformed("the metadata's offsets descend")
        names.append(_utf8(_slice(metadata, start + low, high - low)))
    return tuple(names)


def _unsigned(data: bytes, position: int, width: int) -> int:
    return int.from_bytes(_slice(data, position, width), "little")


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _slice(data: bytes, position: int, length: int) -> bytes:
    if position + length > len(data):
        raise malformed(f"it ends after {len(data)} bytes, but {length} are expected at {position}")
    return data[position : position + length]


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"text is not UTF-8: {error}") from error


class _Decoder:
    """A decoder of one value. Positions count from the first byte of the value."""

    def __init__(self, names: tuple[str, ...], data: bytes) -> None:
        self.names = names
        self.data = data
        self.values = 0

    def header(self, position: int) -> int:
        return _unsigned(self.data, position, 1)

    def text(self, position: int, depth: int) -> str:
        self.values += 1
        if self.values > len(self.data):
            raise malformed("values share bytes")
        if depth > MAX_DEPTH:
            raise unsupported(f"it nests deeper than {MAX_DEPTH} levels")
        header = self.header(position)
        match header & 3:
            case 0:
                return self.primitive(header >> 2, position + 1)
            case 1:
                return text(_utf8(_slice(self.data, position + 1, header >> 2)))
            case 2:
                return record(self.fields(position, depth))
            case _:
                return self.array(position, depth)

    def primitive(self, type_id: int, position: int) -> str:
        if type_id in _CONSTANTS:
            return _CONSTANTS[type_id]
        if type_id in _FIXED:
            width, form = _FIXED[type_id]
            return form(_slice(self.data, position, width))
        if type_id in (15, 16):
            content = _slice(self.data, position + 4, _unsigned(self.data, position, 4))
            return binary(content) if type_id == 15 else text(_utf8(content))
        raise unsupported(f"primitive type {type_id} is not known")

    def fields(self, position: int, depth: int) -> dict[str, str]:
        header = self.header(position) >> 2
        offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
        count, start = self.count(position + 1, 4 if header & 16 else 1)
        ids = [_unsigned(self.data, start + id_width * index, id_width) for index in range(count)]
        starts = self.starts(start + id_width * count, offset_width, count)
        fields: dict[str, str] = {}
        for id_, child in zip(ids, starts, strict=True):
            if id_ >= len(self.names):
                raise malformed(f"field name {id_} does not exist, there are {len(self.names)} names")
            name = self.names[id_]
            if name in fields:
                raise malformed(f"an object has field {name!r} twice")
            fields[name] = self.text(child, depth + 1)
        return fields

    def array(self, position: int, depth: int) -> str:
        header = self.header(position) >> 2
        count, start = self.count(position + 1, 4 if header & 4 else 1)
        return array([self.text(s, depth + 1) for s in self.starts(start, (header & 3) + 1, count)])

    def count(self, position: int, width: int) -> tuple[int, int]:
        """Return the number of elements, and the position after it."""
        count = _unsigned(self.data, position, width)
        if count > len(self.data):
            raise malformed(f"{len(self.data)} bytes claim {count} elements")
        return count, position + width

    def starts(self, position: int, width: int, count: int) -> list[int]:
        """Return the start positions of `count` values from the list of their offsets."""
        first = position + width * (count + 1)
        offsets = [_unsigned(self.data, position + width * index, width) for index in range(count + 1)]
        if first + offsets[-1] > len(self.data):
            raise malformed("its elements reach beyond its end")
        if any(offset >= offsets[-1] for offset in offsets[:-1]):
            raise malformed("an element starts after the last one's end")
        return [first + offset for offset in offsets[:-1]]


_CONSTANTS = {0: "null", 1: "true", 2: "false"}


def _integer(data: bytes) -> str:
    return str(_signed(data))


def _decimal(data: bytes) -> str:
    if data[0] > 38:
        raise malformed(f"a decimal has scale {data[0]}, expected at most 38")
    return decimal(_signed(data[1:]), data[0])


def _timestamp(digits: int, *, utc: bool) -> Callable[[bytes], str]:
    return lambda data: timestamp(_signed(data), digits=digits, utc=utc)


def _time_value(data: bytes) -> str:
    micros = _signed(data)
    if not 0 <= micros < 86_400_000_000:
        raise malformed(f"a time has {micros} micros, expected less than a day")
    return time(micros)


_FIXED: dict[int, tuple[int, Callable[[bytes], str]]] = {
    3: (1, _integer),
    4: (2, _integer),
    5: (4, _integer),
    6: (8, _integer),
    7: (8, lambda data: double(struct.unpack("<d", data)[0])),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, lambda data: date(_signed(data))),
    12: (8, _timestamp(6, utc=True)),
    13: (8, _timestamp(6, utc=False)),
    14: (4, lambda data: single(struct.unpack("<f", data)[0])),
    17: (8, _time_value),
    18: (8, _timestamp(9, utc=True)),
    19: (8, _timestamp(9, utc=False)),
    20: (16, uuid_text),
}
"""The width in bytes and the text function of each primitive type with a fixed width, by type id."""


def variant_to_json(array: pa.StructArray) -> pa.StringArray:
    """Return the variants of a stored group `metadata`, `value`, and `typed_value` as JSON text, row by row.

    The result is null if the whole group is null (SQL null). It is the text `null` if the variant is null, or if both
    `value` and `typed_value` are missing. If an object has both shredded and unshredded fields of the same name, the
    shredded ones are used.

    Raises:
        CorruptFileError: A variant is malformed, or both shredded and stored whole (rule iceberg 6.15).
        UnsupportedError: A type is unknown.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    parts = _parts(array)
    present = array.is_valid().to_pylist()
    metadata = _bytes(parts, "metadata", len(array))
    if any(is_present and m is None for is_present, m in zip(present, metadata, strict=True)):
        raise malformed("it has no metadata")
    texts = _group(parts, metadata)
    rows = [
        None if not is_present else "null" if t is None else t for is_present, t in zip(present, texts, strict=True)
    ]
    return array_of(rows, pa.string())


def _parts(group: pa.StructArray) -> dict[str, pa.Array]:
    """Return the group's children by name, with nulls for rows whose group is null."""
    return dict(zip((f.name for f in group.type), group.flatten(), strict=True))


def _bytes(parts: dict[str, pa.Array], name: str, rows: int) -> list[bytes | None]:
    """Return the values of one child of a variant group, row by row. They are all null if the group lacks the child."""
    if name not in parts:
        return [None] * rows
    type_ = parts[name].type
    if not any(is_kind(type_) for is_kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)):
        raise malformed(f"its {name} is {type_}, expected binary")
    values: list[bytes | None] = parts[name].to_pylist()
    return values


def _group(parts: dict[str, pa.Array], metadata: Sequence[bytes | None]) -> list[str | None]:
    """Return the JSON text of each row of a `value` and `typed_value` pair, or None if both are missing."""
    values = _bytes(parts, "value", len(metadata))
    typed = parts.get("typed_value")
    if typed is None or pa.types.is_null(typed.type):
        return [None if v is None else _unshredded_text(m, v) for m, v in zip(metadata, values, strict=True)]
    if pa.types.is_struct(typed.type):
        return _objects(typed, metadata, values)
    is_list = pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type)
    shredded: list[str | None]
    if is_list:
        shredded = _arrays(typed, metadata)
    else:
        plain, form = _text_writer(typed.storage if isinstance(typed, pa.ExtensionArray) else typed)
        shredded = [None if v is None else form(v) for v in plain.to_pylist()]
    if any(v is not None and s is not None for v, s in zip(values, shredded, strict=True)):
        raise malformed("it has both a value and a typed_value, but is not an object")
    return [s if v is None else _unshredded_text(m, v) for m, v, s in zip(metadata, values, shredded, strict=True)]


def _unshredded_text(metadata: bytes | None, value: bytes) -> str:
    if metadata is None:
        raise malformed("it has no metadata")
    return value_text(metadata, value)


def _objects(
    typed: pa.StructArray, metadata: Sequence[bytes | None], values: Sequence[bytes | None]
) -> list[str | None]:
    names = [f.name for f in typed.type]
    columns = [_group(_field_parts(field), metadata) for field in typed.flatten()]
    texts: list[str | None] = []
    for row, (is_object, m, value) in enumerate(zip(typed.is_valid().to_pylist(), metadata, values, strict=True)):
        if not is_object:
            texts.append(None if value is None else _unshredded_text(m, value))
            continue
        fields = {} if value is None or m is None else object_fields(m, value)
        for name, column in zip(names, columns, strict=True):
            fields.pop(name, None)
            if (text := column[row]) is not None:
                fields[name] = text
        texts.append(record(fields))
    return texts


def _field_parts(field: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(field.type):
        raise malformed(f"a shredded part is {field.type}, expected a group of value and typed_value")
    return _parts(field)


def _arrays(typed: pa.Array, metadata: Sequence[bytes | None]) -> list[str | None]:
    lengths = pc.list_value_length(typed).to_pylist()
    repeated = [m for m, length in zip(metadata, lengths, strict=True) for m in repeat(m, length or 0)]
    # A list has no missing elements, so an element with neither value is a variant null.
    elements = ["null" if t is None else t for t in _group(_field_parts(typed.flatten()), repeated)]
    texts: list[str | None] = []
    start = 0
    for length in lengths:
        texts.append(None if length is None else array(elements[start : start + length]))
        start += length or 0
    return texts


def _text_writer(typed: pa.Array) -> tuple[pa.Array, Callable[[Any], str]]:
    """Return the array with values that Python represents exactly, and the function that converts a value to text."""
    type_ = typed.type
    if pa.types.is_boolean(type_):
        return typed, boolean
    if pa.types.is_signed_integer(type_):
        return typed, str
    if pa.types.is_float64(type_):
        return typed, double
    if pa.types.is_float32(type_):
        return typed, single
    if pa.types.is_decimal(type_):
        return typed, lambda value: f"{value:f}"
    if pa.types.is_date32(type_):
        return typed.view(pa.int32()), date
    if pa.types.is_time64(type_) and type_.unit == "us":
        return typed.view(pa.int64()), time
    if pa.types.is_timestamp(type_) and type_.unit in ("us", "ns"):
        digits, utc = 6 if type_.unit == "us" else 9, type_.tz is not None
        return typed.view(pa.int64()), lambda value: timestamp(value, digits=digits, utc=utc)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return typed, text
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width == 16:
        return typed, uuid_text
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return typed, binary
    raise unsupported(f"it is shredded as {type_}")
