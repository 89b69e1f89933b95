"""Minimum and maximum of a column in a file, as the log records them, to bounds that every value certainly lies within.

Writers shorten long strings, cut timestamps to milliseconds, leave NaN out and count decimals in doubles; here each of
these is undone outward (delta F5 to F8, F10).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from harness.metadata.filters.sqltext import parse_date, parse_instant, parse_timestamp
from harness.metadata.model import schema as dt

PREFIX_LENGTH = 32
"""Writers cut strings to this many characters in bounds (delta F6)."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MS_US = 1000  # a millisecond, in microseconds
_DAY_US = 86_400 * 10**6
_MODERN_DAY = -25_202
"""1901-01-01 in days since 1970-01-01. Some writers record older dates and times in the hybrid Julian calendar, or in
offsets cut to minutes, days off, and do not say so (delta F7, T20): such a bound tells only that values are older.
Trino draws the line there, too: all agree from 1900-01-01 on, in the writer's zone."""
_MODERN_US = _MODERN_DAY * _DAY_US
_ZONED = re.compile(r".*(?:Z|[+-][0-9]{2}:?[0-9]{2})", re.DOTALL)
_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF
_WIDE = Context(prec=120, traps=[])
_LOST_BY_DOUBLES = Decimal(2) ** -49  # of a number: 8 units in the last place of a double, for a few operations on it
_SATURATED = Decimal(2**63)
_ABOVE_DECIMALS = Decimal(10) ** 39


def has_bounds(type_: dt.Type) -> bool:
    """True if the log records minimum and maximum of such a column; others have only a null count (delta F5)."""
    return isinstance(
        type_, dt.IntegerType | dt.FloatType | dt.DecimalType | dt.DateType | dt.TimestampType | dt.StringType
    )


def from_json(values: pa.Array | Sequence[object], type_: dt.Type) -> list[dt.CellValue]:
    """JSON values as stored-form values of `type_`; None where a value is not of the type.

    values: an Arrow array of texts or numbers, or any Python values as `json` gives them (decimals for fractions).
    """
    if isinstance(values, pa.Array):
        if pa.types.is_string(values.type) and isinstance(type_, dt.DateType | dt.TimestampType):
            numbers = pa.int32() if isinstance(type_, dt.DateType) else pa.int64()
            try:
                return list(values.cast(dt.arrow_type(type_)).cast(numbers).to_pylist())
            except pa.ArrowInvalid:  # a text is not of the usual form
                pass
        listed: list[object] = values.to_pylist()
        if type_ == dt.IntegerType(64) and pa.types.is_int64(values.type):
            return listed
        values = listed
    convert = _json_reader(type_)
    return [None if value is None else convert(value) for value in values]


def from_struct(values: pa.Array, type_: dt.Type) -> list[dt.CellValue]:
    """Values of a checkpoint's statistics struct as stored-form values of `type_`; None where they cannot become one.

    A struct may still have the type that the column had before it was widened (delta F10, T24).
    """
    stored = values.type
    if pa.types.is_timestamp(stored):
        if not isinstance(type_, dt.TimestampType):
            return [None] * len(values)
        numbers: list[Any] = values.cast(pa.int64()).to_pylist()
        per_second = _PER_SECOND[stored.unit]
        if per_second == _PER_SECOND["us"]:
            return numbers
        return [None if number is None else number * _PER_SECOND["us"] // per_second for number in numbers]
    if pa.types.is_date32(stored):
        days: list[Any] = values.cast(pa.int32()).to_pylist()
        if isinstance(type_, dt.DateType):
            return days
        is_wall_clock = isinstance(type_, dt.TimestampType) and not type_.utc
        return [None if day is None or not is_wall_clock else day * _DAY_US for day in days]
    if isinstance(type_, dt.DateType | dt.TimestampType):
        return [None] * len(values)
    convert = _json_reader(type_)
    is_number = pa.types.is_integer(stored) or pa.types.is_decimal(stored) or pa.types.is_floating(stored)
    if is_number or pa.types.is_string(stored):
        return [None if value is None else convert(value) for value in values.to_pylist()]
    return [None] * len(values)


def lower_bounds(values: Sequence[dt.CellValue], type_: dt.Type) -> Sequence[dt.CellValue]:
    """Values that no value of the column is below, for its recorded minima; None stays None."""
    match type_:
        case dt.DateType():
            return [None if value is None or value < _MODERN_DAY else value for value in values]
        case dt.TimestampType():
            # Cut to milliseconds, by some writers towards zero (delta F7).
            return [
                None if value is None or value < _MODERN_US else value if value >= 0 else value - _MS_US
                for value in values
            ]
        case dt.FloatType(bits=64):
            return [None if value is None else _float32_neighbour(value, -math.inf) for value in values]
        case dt.DecimalType(scale=scale):
            return [None if value is None else _decimal_bound(value, scale, ROUND_CEILING) for value in values]
        case _:
            return values


def upper_bounds(values: Sequence[dt.CellValue], type_: dt.Type) -> Sequence[dt.CellValue]:
    """Values that no value of the column but NaN is above, for its recorded maxima; None: there is none."""
    match type_:
        case dt.DateType():
            return [None if value is None else max(value, _MODERN_DAY) for value in values]
        case dt.TimestampType():
            return [None if value is None else max(value, _MODERN_US) + _MS_US for value in values]
        case dt.FloatType(bits=64):
            return [None if value is None else _float32_neighbour(value, math.inf) for value in values]
        case dt.DecimalType(scale=scale):
            return [None if value is None else _decimal_bound(value, scale, ROUND_FLOOR) for value in values]
        case dt.StringType():
            return [
                value if value is None or len(value) < PREFIX_LENGTH else _after_prefix(value[:PREFIX_LENGTH])
                for value in values
            ]
        case _:
            return values


def _float32_neighbour(value: float, towards: float) -> float:
    """`value`, or where it may be the short text of a 32-bit float (delta T24), the next 32-bit float."""
    nearest = np.float32(value) if abs(value) <= float(np.finfo(np.float32).max) else None
    if nearest is None or float(nearest) == value:
        return value
    return float(np.nextafter(nearest, np.float32(towards)))


def _decimal_bound(value: Decimal, scale: int, inward: str) -> Decimal | None:
    """The outermost value of a column of this scale for which a writer may have recorded `value`; None: there is none.

    Writers take decimals through doubles: min and max of 900719925474099.31 and .39 both come as 900719925474099.4, 0.5
    as 0.49999999999999994; integers of 64 bits end at 2^63. Structs of checkpoints are copies of such texts.
    inward: ROUND_CEILING for a lower bound, ROUND_FLOOR for an upper: no value lies between two steps of the scale, so
        bounds of up to 14 digits stay as they are.
    """
    unscaled = _WIDE.scaleb(value, scale)
    lost = _WIDE.multiply(_WIDE.abs(unscaled), _LOST_BY_DOUBLES)
    if not abs(unscaled) < _ABOVE_DECIMALS or _is_saturated(value) or _is_saturated(unscaled):
        return None
    outer = _WIDE.subtract(unscaled, lost) if inward == ROUND_CEILING else _WIDE.add(unscaled, lost)
    return _WIDE.scaleb(outer.to_integral_value(inward, _WIDE), -scale)


def _is_saturated(value: Decimal) -> bool:
    """True for the largest and least integer of 64 bits, and the doubles in their place."""
    return abs(_WIDE.subtract(_WIDE.abs(value), _SATURATED)) <= _SATURATED * _LOST_BY_DOUBLES


def _after_prefix(prefix: str) -> str | None:
    """The least string above all strings that start with `prefix`."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < _LAST_CHARACTER:
            following = code + 1
            return prefix[: end - 1] + chr(following if following not in _SURROGATES else _SURROGATES.stop)
    return None


def _json_reader(type_: dt.Type) -> Callable[[Any], dt.CellValue]:
    match type_:
        case dt.IntegerType(bits=bits):
            return lambda value: _integer(value, 1 << bits - 1)
        case dt.FloatType(bits=bits):
            return _float32 if bits == 32 else _float64
        case dt.DecimalType():
            return _decimal
        case dt.DateType():
            return lambda value: parse_date(value) if isinstance(value, str) else None
        case dt.TimestampType(utc=utc):
            return lambda value: _micros(value, utc=utc)
        case dt.StringType():
            return lambda value: value if isinstance(value, str) else None
        case _:
            return lambda value: None


def _integer(value: Any, limit: int) -> int | None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and -limit <= value < limit else None


def _float64(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _float32(value: object) -> float | None:
    """The text of a 32-bit float is the shortest that rounds to it: 3.4 is 3.4000000953674316."""
    number = _float64(value)
    if number is None or abs(number) > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(number))


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return Decimal(value)


def _micros(value: object, *, utc: bool) -> int | None:
    """An instant without an offset is unknown: nobody knows the zone of the writer (delta F10)."""
    if not isinstance(value, str) or (utc and _ZONED.fullmatch(value) is None):
        return None
    nanos = parse_instant(value, digits=9) if utc else parse_timestamp(value, digits=9)
    return None if nanos is None else nanos // 1000
