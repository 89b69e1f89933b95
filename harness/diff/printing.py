r"""Values as text in which every difference is visible.

null                    NULL
boolean, integer        true, -7
decimal                 12.50, with all digits of its scale
float                   0.1, followed by its bits if the digits are ambiguous: -0.0, NaN, and values inexact in 32 bits
string, JSON            'it\'s', with unprintable and invisible characters escaped; '' differs from NULL
binary, fixed           x'00ff'
uuid                    61626364-6566-6768-696a-6b6c6d6e6f70
date                    2024-02-29; years before 1 and after 9999 with a sign
timestamp               2024-02-29 12:00:00.000000, with the digits of its unit; instants in UTC, with Z
time, duration          12:00:00.000000, -90.5s
interval                1 month 2 days 3 ns, each with its number
struct, list, map       {a: 1, b: NULL}, [1, 2], map{'k': 1} sorted by key
"""

from __future__ import annotations

import re
import struct
import unicodedata
import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.canonical import canonical_values, decode_array, group_elements, order_key, stored_values
from harness.diff.schemas import is_binary, is_hugeint, is_text
from harness.errors import JOINER, visible
from harness.metadata.model.arrow_values import children_of, elements_of, is_list
from harness.metadata.model.times import year_month_day

ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray

LIMIT = 400
"""The approximate number of characters shown of a value. Longer values are cut, and the cut says how much is missing.
"""
_HEAD, _TAIL = 100, 60
_BEFORE, _AFTER = 60, 140
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SECONDS_PER_DAY = 86_400


def show(column: ArrowColumn, place: int) -> str:
    """Return the value at an index of a column as text, cut in the middle if it is long."""
    return cut(_text(column, place))


def show_pair(left: ArrowColumn, left_place: int, right: ArrowColumn, right_place: int) -> tuple[str, str]:
    """Return two different values as texts that show the difference.

    Long values are cut in the same way, around the first difference. Texts that look the same are shown in ASCII
    escapes. Other values that print the same are shown with their types.
    """
    first, second = _text(left, left_place), _text(right, right_place)
    visible_texts = [JOINER.sub("", unicodedata.normalize("NFKC", text)) for text in (first, second)]
    if visible_texts[0] == visible_texts[1] and first != second:
        first, second = _escaped(first), _escaped(second)
    if first == second:
        first, second = f"{first} ({left.type})", f"{second} ({right.type})"
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    return cut(first, around=at), cut(second, around=at)


def cut(text: str, *, around: int | None = None) -> str:
    """Return `text` without its middle if it is long.

    Args:
        text: The text.
        around: The index of a character to keep, with its surroundings.
    """
    if len(text) <= LIMIT:
        return text
    spans = [(0, _HEAD), (len(text) - _TAIL, len(text))]
    if around is not None:
        spans.append((max(around - _BEFORE, 0), min(around + _AFTER, len(text))))
    excerpt, end = "", 0
    for start, stop in sorted(spans):
        if start > end:
            excerpt += f"…({start - end:,} of {len(text):,} characters)…"
        excerpt += text[max(start, end) : stop]
        end = max(end, stop)
    return excerpt


def show_values(array: pa.Array) -> list[str]:
    """Return each value of an array as text, uncut."""
    array = decode_array(array)
    type_, kind = array.type, pa.types
    if isinstance(type_, pa.UuidType):
        return ["NULL" if value is None else str(uuid.UUID(bytes=value)) for value in array.storage.to_pylist()]
    if is_hugeint(type_):
        return ["NULL" if value is None else str(value) for value in canonical_values(array)]
    if isinstance(type_, pa.BaseExtensionType):
        return show_values(array.storage)
    if kind.is_struct(type_):
        columns = [
            [f"{f.name}: {text}" for text in show_values(c)] for f, c in zip(type_, children_of(array), strict=True)
        ]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        valid = array.is_valid().to_pylist()
        return [f"{{{', '.join(row)}}}" if v else "NULL" for row, v in zip(rows, valid, strict=True)]
    if kind.is_map(type_):
        keys, values = children_of(array)
        order = map(order_key, canonical_values(keys))
        entries = list(zip(order, show_values(keys), show_values(values), strict=True))
        result = (
            None if row is None else sorted(row, key=lambda entry: entry[0]) for row in group_elements(entries, array)
        )
        return ["NULL" if row is None else f"map{{{', '.join(f'{k}: {v}' for _, k, v in row)}}}" for row in result]
    if is_list(type_):
        texts = show_values(elements_of(array))
        return ["NULL" if row is None else f"[{', '.join(row)}]" for row in group_elements(texts, array)]
    if kind.is_floating(type_):
        return _floats(array)
    write = _writer(type_)
    return ["NULL" if value is None else write(value) for value in stored_values(array).to_pylist()]


def _text(column: ArrowColumn, place: int) -> str:
    cell = column.slice(place, 1)
    array = next(chunk for chunk in cell.chunks if len(chunk)) if isinstance(cell, pa.ChunkedArray) else cell
    return show_values(array)[0]


def _escaped(text: str) -> str:
    return "".join(c if c.isascii() else c.encode("unicode_escape").decode("ascii") for c in text)


def _writer(type_: pa.DataType) -> Callable[[Any], str]:
    """Return a function that turns a non-null value without parts into text."""
    kind = pa.types
    if kind.is_boolean(type_):
        return lambda value: "true" if value else "false"
    if kind.is_decimal(type_):
        return lambda value: format(value, "f")
    if is_text(type_):
        return _string
    if is_binary(type_):
        return _bytes
    if kind.is_date32(type_):
        return date_text
    if kind.is_date64(type_):
        return lambda value: timestamp_text(value, "ms", "") if value % 86_400_000 else date_text(value // 86_400_000)
    if kind.is_timestamp(type_):
        return lambda value: timestamp_text(value, type_.unit, "" if type_.tz is None else "Z")
    if kind.is_time(type_):
        return lambda value: _time(value, type_.unit)
    if kind.is_duration(type_):
        return lambda value: _duration(value, type_.unit)
    if kind.is_interval(type_):
        return lambda value: f"{value.months} month {value.days} days {value.nanoseconds} ns"
    return str


def _string(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return f"{_bytes(value)} (not UTF-8)"
    return "'" + visible(re.sub(r"[\\']", r"\\\g<0>", text)) + "'"


def _bytes(value: bytes) -> str:
    return f"x'{value.hex()}'"


def date_text(days: int) -> str:
    """Return the date that is this many days after 1970-01-01 in the proleptic Gregorian calendar, in any year."""
    year, month, day = year_month_day(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def timestamp_text(value: int, unit: str, zone: str) -> str:
    """Return the timestamp that is this many units after 1970-01-01, in any year, followed by `zone`."""
    days, rest = divmod(value, _SECONDS_PER_DAY * 10 ** _DIGITS[unit])
    return f"{date_text(days)} {_time(rest, unit)}{zone}"


def _time(value: int, unit: str) -> str:
    seconds, fraction = divmod(value, 10 ** _DIGITS[unit])
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{_DIGITS[unit]}d}" if _DIGITS[unit] else text


def _duration(value: int, unit: str) -> str:
    seconds, fraction = divmod(abs(value), 10 ** _DIGITS[unit])
    digits = f".{fraction:0{_DIGITS[unit]}d}".rstrip("0").rstrip(".") if _DIGITS[unit] else ""
    return f"{'-' if value < 0 else ''}{seconds}{digits}s"


def _floats(array: pa.Array) -> list[str]:
    width = array.type.bit_width
    zeros = pc.fill_null(array, pa.scalar(0, array.type)) if array.null_count else array
    numbers = zeros.to_numpy(zero_copy_only=False)
    bits = numbers.view(f"u{width // 8}")
    valid = array.is_valid().to_pylist()
    return [_float(numbers[i], f"0x{int(bits[i]):0{width // 4}x}") if valid[i] else "NULL" for i in range(len(numbers))]


def _float(value: np.floating[Any], bits: str) -> str:
    exact = float(value)
    if exact != exact:
        return f"NaN ({bits})"
    shortest = repr(float(str(value)))
    hides = shortest != repr(exact) or struct.pack(">d", exact) == struct.pack(">d", -0.0)
    return f"{shortest} ({bits})" if hides else shortest
