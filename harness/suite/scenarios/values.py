"""Values as written in scenarios, and their conversion to and from the form of `harness.metadata.model.schema`.

boolean true, false · int, long, float, double numbers (.nan, .inf, -.inf, -0.0) · string text
decimal text or a whole number: '9.99' · date '2024-01-31', or days since 1970-01-01 as a number
time '12:34:56.789' · timestamp '2024-01-31 12:34:56.789', timestamptz with Z or an offset like +02:00; or units
since 1970-01-01 (micros, nanos for _ns types) as a number · uuid text · fixed, binary, geometry, geography hex
text: '00ff' · struct a mapping by name or a list in field order · list a list · map a list of [key, value] pairs,
or a mapping · variant {metadata: hex, value: hex} in files, its JSON text in expected rows · null null
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from harness.errors import RequestError
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import Field
from harness.suite.scenarios.arguments import Arguments, checked

_DAYS_TO_1970 = datetime.date(1970, 1, 1).toordinal()
_UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_TIME = r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?"
_TIMES = re.compile(_TIME)
_TIMESTAMPS = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}})[ T]{_TIME}(Z|[+-]\d{{2}}:\d{{2}})?")


def parse_value(type_: dt.Type, value: object) -> Any:
    """Return the internal form of a value in a scenario.

    Raises:
        RequestError: The value does not fit the type.
    """
    if value is None:
        return None
    try:
        return _parsed(type_, value)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as exc:
        raise RequestError(f"Invalid value {value!r} for {type_}: {exc}") from exc


def stored_struct(fields: tuple[Field, ...], row: object) -> dict[int, dt.CellValue]:
    """Return a row or struct by field id. A mapping may omit fields, a list must have a value for each field.

    Raises:
        RequestError: A name is unknown, or the number of values is wrong.
    """
    if isinstance(row, Mapping):
        unknown = set(row) - {f.name for f in fields}
        if unknown:
            names = ", ".join(f.name for f in fields)
            raise RequestError(
                f"Unknown column {', '.join(sorted(map(repr, unknown)))} in {dict(row)!r}: the columns are {names}"
            )
        return {f.id: parse_value(f.type, row[f.name]) for f in fields if f.name in row}
    if not isinstance(row, list | tuple) or len(row) != len(fields):
        names = ", ".join(f.name for f in fields)
        raise RequestError(f"Invalid row {row!r}: expected a list of {len(fields)} values ({names}), or a mapping")
    return {f.id: parse_value(f.type, value) for f, value in zip(fields, row, strict=True)}


def natural_rows(fields: tuple[Field, ...], rows: list[Any]) -> list[dict[str, object]]:
    """Return rows as mappings by column name with internal values, as `write_data` of both builders accepts them."""
    by_id = {f.id: f for f in fields}
    stored = (stored_struct(fields, row) for row in rows)
    return [{by_id[i].name: with_names(by_id[i].type, value) for i, value in row.items()} for row in stored]


def with_names(type_: dt.Type, value: Any, leaf: Callable[[dt.Type, Any], object] = lambda _, value: value) -> Any:
    """Return an internal value with the fields of its structs by name instead of id, at every level.

    `leaf` converts values that are not nested.
    """
    if value is None:
        return None
    match type_:
        case dt.StructType(fields=fields):
            return {f.name: with_names(f.type, value[f.id], leaf) for f in fields if f.id in value}
        case dt.ListType(element=element):
            return [with_names(element.type, v, leaf) for v in value]
        case dt.MapType(key=key, value=item):
            return [[with_names(key.type, k, leaf), with_names(item.type, v, leaf)] for k, v in value]
        case _:
            return leaf(type_, value)


def format_value(type_: dt.Type, value: object) -> object:
    """Return an internal value as written in a scenario: the reverse of `parse_value`."""
    return with_names(type_, value, _formatted)


def _formatted(type_: dt.Type, value: Any) -> object:
    match type_:
        case dt.DecimalType():
            return f"{value:f}"
        case dt.UuidType():
            return str(uuid.UUID(bytes=value))
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return bytes(value).hex()
        case dt.VariantType() if isinstance(value, Mapping):
            return {part: bytes(value[part]).hex() for part in ("metadata", "value")}
        case _:
            return value


def _parsed(type_: dt.Type, value: Any) -> Any:
    match type_:
        case dt.BooleanType():
            return _instance(bool, value)
        case dt.IntegerType() | dt.UnknownType():
            return _instance(int, value)
        case dt.FloatType():
            return _float(value)
        case dt.StringType():
            return _instance(str, value)
        case dt.DecimalType(scale=scale):
            return _decimal(value, scale)
        case dt.DateType():
            return _days(value) if isinstance(value, str) else _instance(int, value)
        case dt.TimeType(unit=unit):
            return _time(value, unit) if isinstance(value, str) else _instance(int, value)
        case dt.TimestampType(unit=unit, utc=utc):
            return _timestamp(value, unit, utc=utc) if isinstance(value, str) else _instance(int, value)
        case dt.UuidType():
            return uuid.UUID(_instance(str, value)).bytes
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return bytes.fromhex(_instance(str, value))
        case dt.VariantType() if isinstance(value, str):
            return value
        case dt.VariantType():
            return {part: bytes.fromhex(value[part]) for part in ("metadata", "value")}
        case dt.StructType(fields=fields):
            return stored_struct(fields, value)
        case dt.ListType(element=element):
            return [parse_value(element.type, v) for v in _instance(list, value)]
        case dt.MapType(key=key, value=item):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(parse_value(key.type, k), parse_value(item.type, v)) for k, v in pairs]
        case _:
            raise ValueError("values of this type cannot be written in a scenario")


def _instance(kind: type, value: object) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"expected {kind.__name__}")
    return value


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a number")
    number = float(value)
    if isinstance(value, int) and math.isfinite(number) and int(number) != value:
        raise ValueError("the number is not exactly a double")
    return number


def _decimal(value: Any, scale: int) -> Decimal:
    if isinstance(value, float | bool):
        raise ValueError("expected text like '9.99', because a number would be rounded")
    number = Decimal(value)
    digits = number.as_tuple()
    if not isinstance(digits.exponent, int) or -digits.exponent > scale:
        raise ValueError(f"more than {scale} digits after the point")
    unscaled = int("".join(map(str, digits.digits)) + "0" * (digits.exponent + scale))
    return Decimal((digits.sign, tuple(map(int, str(unscaled))), -scale))


def _days(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - _DAYS_TO_1970


def _time(text: str, unit: str) -> int:
    match = _TIMES.fullmatch(text)
    if match is None:
        raise ValueError("expected text like '12:34:56.789'")
    return _ticks(match[1], match[2], match[3], match[4], unit)


def _timestamp(text: str, unit: str, *, utc: bool) -> int:
    match = _TIMESTAMPS.fullmatch(text)
    if match is None or (match[6] is not None) != utc:
        zone = " with Z or an offset" if utc else " without a zone"
        raise ValueError(f"expected text like '2024-01-31 12:34:56.789'{zone}")
    zone, offset = match[6] or "Z", 0
    if zone != "Z":
        offset = (-1 if zone[0] == "-" else 1) * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    seconds = _days(match[1]) * 86_400 - offset
    return seconds * _UNITS[unit] + _ticks(match[2], match[3], match[4], match[5], unit)


def _ticks(hours: str, minutes: str, seconds: str, fraction: str | None, unit: str) -> int:
    digits = len(str(_UNITS[unit])) - 1
    parts = (fraction or "").ljust(digits, "0")
    if parts[digits:].strip("0"):
        raise ValueError(f"more than {digits} digits after the point")
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * _UNITS[unit] + int(parts[:digits] or 0)


def expand_rows(rows: object, place: str) -> list[Any]:
    """Return the rows, with counted rows expanded.

        rows: [[1, x], {id: 2, name: y}]
        rows: {count: 6000, row: ['{i}', 'name {i}'], from: 0, except: [0, 5999]}

    `{i}` is the number of the row, counted from `from` (default 0) in steps of `step` (default 1). A text that consists
    only of `{i}` becomes the number; in other texts `{i}` becomes its digits. `except` omits numbers and ranges of
    numbers: [[100, 199]].

    Raises:
        RequestError: The rows have neither form.
    """
    if not isinstance(rows, Mapping):
        return checked(list, rows, place)
    arguments = Arguments(rows, place)
    count, start, step = arguments.integer("count"), arguments.typed(int, "from", 0), arguments.typed(int, "step", 1)
    row = arguments.any("row")
    omitted: set[int] = set()
    for entry in arguments.typed(list, "except", []):
        first, last = (entry, entry) if isinstance(entry, int) else checked(list, entry, f"{place}, key 'except'")
        omitted.update(range(checked(int, first, place), checked(int, last, place) + 1))
    arguments.finish()
    numbers = (start + step * place for place in range(count))
    return [replace_texts(row, partial(_with_number, i=i)) for i in numbers if i not in omitted]


def replace_texts(value: object, change: Callable[[Any], object]) -> object:
    """Return the value with texts and mappings replaced by the result of `change`, at every level."""
    match value:
        case str():
            return change(value)
        case Mapping():
            other = change(value)
            return {k: replace_texts(v, change) for k, v in value.items()} if other is value else other
        case list() | tuple():
            return [replace_texts(item, change) for item in value]
        case _:
            return value


def _with_number(value: object, i: int) -> object:
    return (i if value == "{i}" else value.replace("{i}", str(i))) if isinstance(value, str) else value
