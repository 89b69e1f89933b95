"""Recorded minima and maxima of columns, widened to bounds that certainly enclose every value.

Writers shorten long strings, cut timestamps to milliseconds, leave NaN out, and compute decimals in doubles. This
module moves the bounds outward to compensate for each of these (delta F5 to F8, F10).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.filters.skipping import bound_array, bound_type
from harness.metadata.filters.sqltext import parse_date, parse_instant, parse_timestamp
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of, from_numpy, null_where, scalar_of, to_numpy, true_mask

PREFIX_LENGTH = 32
"""The number of characters to which writers cut strings in bounds (delta F6)."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MS_US = 1000  # a millisecond, in microseconds
_DAY_US = 86_400 * 10**6
_MODERN_DAY = -25_202
"""1901-01-01 as days since 1970-01-01.

Some writers record older dates and times days off without marking them: in the hybrid Julian calendar, or with offsets
cut to minutes (delta F7, T20). A bound before this day therefore only shows that the values are older than this day.
Trino draws the same line. From 1900-01-01 on, in the writer's zone, all writers agree.
"""
_MODERN_US = _MODERN_DAY * _DAY_US
_ZONED = re.compile(r".*(?:Z|[+-][0-9]{2}:?[0-9]{2})", re.DOTALL)
_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF
_WIDE = Context(prec=120, traps=[])
# relative error: 8 units in the last place of a double, enough for a few operations on it
_LOST_BY_DOUBLES = Decimal(2) ** -49
_SATURATED = Decimal(2**63)
_ABOVE_DECIMALS = Decimal(10) ** 39


def has_bounds(type_: dt.Type) -> bool:
    """Return whether the log records minima and maxima for columns of this type.

    Other types only have a null count (delta F5).
    """
    return isinstance(
        type_, dt.IntegerType | dt.FloatType | dt.DecimalType | dt.DateType | dt.TimestampType | dt.StringType
    )


def from_json(values: pa.Array | Sequence[Any], type_: dt.Type) -> pa.Array:
    """Return JSON values as an array of `recorded_type`, with null for values of another type.

    Args:
        values: An Arrow array of texts or numbers, or Python values as `json` returns them, with decimals for
            fractions.
        type_: The type of the column.
    """
    converted = _from_array(values, type_) if isinstance(values, pa.Array) else None
    if converted is not None:
        return converted
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    return bound_array([value_from_json(value, type_) for value in listed], recorded_type(type_))


def value_from_json(value: Any, type_: dt.Type) -> Any:
    """Return a JSON value in internal form, or None if the value is not of the type."""
    match type_:
        case dt.IntegerType(bits=bits):
            return _integer(value, 1 << bits - 1)
        case dt.FloatType(bits=bits):
            return _float32(value) if bits == 32 else _float64(value)
        case dt.DecimalType():
            return _decimal(value)
        case dt.DateType():
            return parse_date(value) if isinstance(value, str) else None
        case dt.TimestampType(utc=utc):
            return _micros(value, utc=utc)
        case dt.StringType():
            return value if isinstance(value, str) else None
        case _:
            return None


def recorded_type(type_: dt.Type) -> dt.Type:
    """Return the type of recorded bounds. It equals the column's type, except that decimals may have more digits."""
    return dt.DecimalType(38, 38) if isinstance(type_, dt.DecimalType) else type_


def _from_array(values: pa.Array, type_: dt.Type) -> pa.Array | None:
    """Convert a whole column to `recorded_type`; return None if values must be converted one by one."""
    is_text = pa.types.is_string(values.type)
    match type_:
        case dt.IntegerType(bits=bits) if pa.types.is_int64(values.type):
            if bits == 64:
                return values
            numbers, least = to_numpy(pc.fill_null(values, _ZERO)), -(1 << bits - 1)
            return null_where(values, (numbers < least) | (numbers >= -least))
        case dt.FloatType(bits=64) if pa.types.is_float64(values.type):
            return null_where(values, ~true_mask(pc.is_finite(values)))
        case dt.DateType() | dt.TimestampType() if is_text:
            with contextlib.suppress(pa.ArrowInvalid):  # a text is in an unusual form
                dates = values.cast(dt.arrow_type(type_))
                return dates.cast(pa.int32()).cast(pa.int64()) if type_ == dt.DateType() else dates.cast(pa.int64())
        case dt.DecimalType() if pa.types.is_decimal(values.type):
            with contextlib.suppress(pa.ArrowInvalid):  # a value has too many digits
                return values.cast(bound_type(recorded_type(type_)))
        case dt.StringType() if is_text:
            return values
        case _:
            pass
    return None


_ZERO = scalar_of(0, pa.int64())


def from_struct(values: pa.Array, type_: dt.Type) -> pa.Array:
    """Return values of a checkpoint's statistics struct as an array of `recorded_type`.

    Values that cannot be converted become null.

    The values may still have the type that the column had before it was widened (delta F10, T24).
    """
    stored = values.type
    if pa.types.is_timestamp(stored) and isinstance(type_, dt.TimestampType):
        return _convert_unit(values.cast(pa.int64()), _PER_SECOND["us"], _PER_SECOND[stored.unit])
    if pa.types.is_date32(stored):
        days = values.cast(pa.int32()).cast(pa.int64())
        if isinstance(type_, dt.DateType):
            return days
        if isinstance(type_, dt.TimestampType) and not type_.utc:
            return _convert_unit(days, _DAY_US, 1)
    is_number = pa.types.is_integer(stored) or pa.types.is_decimal(stored) or pa.types.is_floating(stored)
    if isinstance(type_, dt.DateType | dt.TimestampType) or not (is_number or pa.types.is_string(stored)):
        return bound_array([None] * len(values), recorded_type(type_))
    if pa.types.is_signed_integer(stored) and isinstance(type_, dt.IntegerType):
        values = values.cast(pa.int64())
    return from_json(values, type_)


def _convert_unit(values: pa.Array, multiplier: int, divisor: int) -> pa.Array:
    """Return whole numbers in another unit, with null for results that do not fit into 64 bits."""
    numbers = to_numpy(pc.fill_null(values, _ZERO))
    factor = max(multiplier // divisor, 1)
    most = (2**63 - 1) // factor
    missing = to_numpy(values.is_null()) | (numbers > most) | (numbers < -most)
    return from_numpy(numbers * factor // max(divisor // multiplier, 1), missing=missing)


def lower_bounds(values: pa.Array, type_: dt.Type) -> pa.Array:
    """Return lower bounds of a column for its recorded minima, with null if no bound is known.

    Args:
        values: The recorded minima, an array of `recorded_type`.
        type_: The type of the column.
    """
    match type_:
        case dt.DateType():
            return null_where(values, to_numpy(pc.fill_null(values, _ZERO)) < _MODERN_DAY)
        case dt.TimestampType():
            numbers = to_numpy(pc.fill_null(values, _ZERO))
            # Some writers cut to milliseconds towards zero (delta F7).
            moved = np.where(numbers < 0, numbers - _MS_US, numbers)
            return from_numpy(moved, missing=to_numpy(values.is_null()) | (numbers < _MODERN_US))
        case dt.FloatType(bits=64):
            return _float32_neighbors(values, -np.inf)
        case dt.DecimalType(scale=scale):
            return _decimal_bounds(values, type_, scale, ROUND_CEILING)
        case _:
            return values


def upper_bounds(values: pa.Array, type_: dt.Type) -> pa.Array:
    """Return upper bounds of a column, ignoring NaN, for its recorded maxima, with null if no bound is known.

    Args:
        values: The recorded maxima, an array of `recorded_type`.
        type_: The type of the column.
    """
    match type_:
        case dt.DateType():
            numbers = to_numpy(pc.fill_null(values, _ZERO))
            return from_numpy(np.maximum(numbers, _MODERN_DAY), missing=to_numpy(values.is_null()))
        case dt.TimestampType():
            numbers = to_numpy(pc.fill_null(values, _ZERO))
            missing = to_numpy(values.is_null()) | (numbers > 2**63 - 1 - _MS_US)
            return from_numpy(np.maximum(numbers, _MODERN_US) + _MS_US * ~missing, missing=missing)
        case dt.FloatType(bits=64):
            return _float32_neighbors(values, np.inf)
        case dt.DecimalType(scale=scale):
            return _decimal_bounds(values, type_, scale, ROUND_FLOOR)
        case dt.StringType():
            return _after_prefixes(values)
        case _:
            return values


def _float32_neighbors(values: pa.Array, towards: float) -> pa.Array:
    """Return the values, but replace each value that may be the text of a 32-bit float by the next such float.

    `towards` is the direction. In a column that was widened to 64 bits, the text of a 32-bit float reads as a slightly
    different number (delta T24).
    """
    numbers = to_numpy(pc.fill_null(values, scalar_of(0.0, pa.float64())))
    fits = np.abs(numbers) <= float(np.finfo(np.float32).max)
    nearest = np.where(fits, numbers, 0).astype(np.float32)
    next_ = np.nextafter(nearest, np.float32(towards)).astype(np.float64)
    return from_numpy(np.where(fits & (nearest != numbers), next_, numbers), missing=to_numpy(values.is_null()))


def _decimal_bounds(values: pa.Array, type_: dt.Type, scale: int, inward: str) -> pa.Array:
    decimals = values.to_pylist()
    return bound_array([None if value is None else _decimal_bound(value, scale, inward) for value in decimals], type_)


def _after_prefixes(values: pa.Array) -> pa.Array:
    """Return the texts, after replacing each text that may have been cut.

    The replacement is the smallest text that is above all texts with this prefix.
    """
    is_cut = true_mask(pc.greater_equal(pc.utf8_length(values), scalar_of(PREFIX_LENGTH, pa.int32())))
    if not is_cut.any():
        return values
    places = np.flatnonzero(is_cut)
    above = [_after_prefix(text[:PREFIX_LENGTH]) for text in values.take(from_numpy(places)).to_pylist()]
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pa.concat_arrays([values, array_of(above, pa.string())]).take(from_numpy(order))


def _decimal_bound(value: Decimal, scale: int, inward: str) -> Decimal | None:
    """Return the outermost value that a writer may have recorded as `value`, or None if there is none.

    Writers convert decimals to doubles. For example, 900719925474099.31 and 900719925474099.39 are both recorded as
    900719925474099.4, and 0.5 as 0.49999999999999994. Integers beyond 64 bits are recorded as 2^63. The structs in
    checkpoints are copies of these texts.

    Args:
        value: The recorded bound.
        scale: The scale of the column.
        inward: ROUND_CEILING for a lower bound, ROUND_FLOOR for an upper bound. The result is rounded inward to the
            scale, because all values of the column are multiples of it. Bounds of up to 14 digits therefore stay
            unchanged.
    """
    unscaled = _WIDE.scaleb(value, scale)
    margin = _WIDE.multiply(_WIDE.abs(unscaled), _LOST_BY_DOUBLES)
    if not abs(unscaled) < _ABOVE_DECIMALS or _is_saturated(value) or _is_saturated(unscaled):
        return None
    outer = _WIDE.subtract(unscaled, margin) if inward == ROUND_CEILING else _WIDE.add(unscaled, margin)
    return _WIDE.scaleb(outer.to_integral_value(inward, _WIDE), -scale)


def _is_saturated(value: Decimal) -> bool:
    """Return whether the value is close to 2^63 or -2^63, to which writers cut larger integers."""
    return abs(_WIDE.subtract(_WIDE.abs(value), _SATURATED)) <= _SATURATED * _LOST_BY_DOUBLES


def _after_prefix(prefix: str) -> str | None:
    """Return the smallest string above all strings that start with `prefix`, or None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < _LAST_CHARACTER:
            following = code + 1
            return prefix[: end - 1] + chr(following if following not in _SURROGATES else _SURROGATES.stop)
    return None


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
    """Return the 32-bit float with this text. Writers record the shortest text: 3.4 means 3.4000000953674316."""
    number = _float64(value)
    if number is None or abs(number) > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(number))


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return Decimal(value)


def _micros(value: object, *, utc: bool) -> int | None:
    """Return the microseconds of a timestamp, or None if an instant has no offset.

    The zone of the writer is unknown (delta F10).
    """
    if not isinstance(value, str) or (utc and _ZONED.fullmatch(value) is None):
        return None
    nanos = parse_instant(value, digits=9) if utc else parse_timestamp(value, digits=9)
    return None if nanos is None else nanos // 1000
