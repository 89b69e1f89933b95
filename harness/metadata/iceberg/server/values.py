"""Iceberg's JSON form of single values, in requests to servers and in their answers.

Spec: Iceberg, "JSON single-value serialization", and open-api/rest-catalog-open-api.yaml, `PrimitiveTypeValue`.
"""

from __future__ import annotations

import math
import re
import uuid
from decimal import Decimal
from typing import Any

from harness.metadata.iceberg.types import PER_SECOND, parse_primitive
from harness.metadata.model import schema as dt
from harness.metadata.model.times import year_month_day

_DECIMAL = re.compile(r"[+-]?[0-9]{1,50}(\.[0-9]{0,50})?([eE][+-]?[0-9]{1,2})?")
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def single_value(value: dt.CellValue, type_: dt.Type) -> Any:
    """Return an internal value in the JSON form of a type.

    The value has the form that Java writes: hexadecimal digits in upper case, times with at least microseconds, and
    text for a float that is not finite.

    Returns:
        The JSON value. None for null.

    Raises:
        ValueError: The type has no JSON form (variant, geometry, geography, and unknown types).
    """
    if value is None:
        return None
    match type_:
        case dt.BooleanType() | dt.IntegerType() | dt.StringType():
            return value
        case dt.FloatType():
            return value if math.isfinite(value) else repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        case dt.DecimalType(scale=scale):
            return f"{dt.from_unscaled(dt.unscaled(value, scale), scale):f}"
        case dt.DateType():
            return _date_text(value)
        case dt.TimeType(unit=unit):
            return _time_text(value, unit)
        case dt.TimestampType(unit=unit, utc=utc):
            days, time = divmod(value, 86_400 * PER_SECOND[unit])
            return f"{_date_text(days)}T{_time_text(time, unit)}{'+00:00' if utc else ''}"
        case dt.UuidType():
            return str(uuid.UUID(bytes=value))
        case dt.FixedType() | dt.BinaryType():
            return value.hex().upper()
        case dt.StructType(fields=fields):
            return {str(f.id): single_value(value[f.id], f.type) for f in fields if f.id in value}
        case dt.ListType(element=element):
            return [single_value(item, element.type) for item in value]
        case dt.MapType(key=key, value=item):
            return {
                "keys": [single_value(k, key.type) for k, _ in value],
                "values": [single_value(v, item.type) for _, v in value],
            }
        case _:
            raise ValueError(f"values of type {type_} have no JSON form")


def _date_text(days: int) -> str:
    """Return the ISO form of a day in any year. Years after 9999 have a sign, as in Java."""
    year, month, day = year_month_day(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _time_text(value: int, unit: str) -> str:
    seconds, fraction = divmod(value, PER_SECOND[unit])
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:0{9 if unit == 'ns' else 6}d}"


def parse_single_value(json: Any, type_: dt.Type) -> dt.CellValue:
    """Return the internal value of a JSON value of a primitive type.

    Servers differ, so more forms are accepted than in metadata files. Dates may be numbers of days, and times and
    timestamps numbers of microseconds. Instants may end in `Z`. Decimals may be numbers, and may have a different
    number of digits after the point if their value stays the same. Floats may be `NaN` or infinite.

    Returns:
        The internal value. None for null.

    Raises:
        ValueError: The value does not have the type. The message describes the expected form.
    """
    if json is None:
        return None
    match type_:
        # Java reads a number for a timestamp in nanoseconds as microseconds, so its unit is unclear.
        case dt.DateType() if type(json) is int:
            return parse_primitive(json, dt.IntegerType(32))
        case dt.TimeType(unit="us") | dt.TimestampType(unit="us") if type(json) is int:
            return parse_primitive(json, dt.IntegerType(64))
        case dt.TimestampType(utc=True) if type(json) is str and json.endswith("Z"):
            return parse_primitive(f"{json[:-1]}+00:00", type_)
        case dt.FloatType() if type(json) is float and not math.isfinite(json):
            return json
        case dt.FloatType() if type(json) is str and json in _SPECIAL_FLOATS:
            return _SPECIAL_FLOATS[json]
        case dt.DecimalType():
            return parse_primitive(_decimal_text(json, type_), type_)
        case _:
            return parse_primitive(json, type_)


def _decimal_text(json: Any, type_: dt.DecimalType) -> Any:
    """Return a decimal as text with as many digits after the point as its type has."""
    text = json if type(json) is str else repr(json) if type(json) in (int, float) else ""
    if not _DECIMAL.fullmatch(text):
        return json
    try:
        number = dt.unscaled(Decimal(text), type_.scale)
    except ValueError:  # it has more digits after the point
        return text
    return f"{dt.from_unscaled(number, type_.scale):f}"
