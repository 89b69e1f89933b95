"""Typed parts of an SQL expression, the casts that DuckDB puts between them, and arithmetic.

A term knows its type before any row is read, as in DuckDB. Values are those of chapter `types`.
"""

from __future__ import annotations

import math
import operator
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

from harness.errors import EngineError, UnsupportedError
from harness.testing.oracle import types as dt
from harness.testing.oracle.conversions import DAY_MICROS, EXACT, UNITS, day_of, same, single, time_of

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?"
_DATE = r"(?!0+-)(?P<year>\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_ZONE = r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?"


def refused(reason: str) -> UnsupportedError:
    """The error for a filter, or a part of one, that the oracle does not evaluate."""
    return UnsupportedError(f"Cannot evaluate the filter: the oracle does not {reason}")


def _value_of_text(text: str, type_: dt.Type) -> Any:
    """The value of `type_` that DuckDB makes of a text."""
    try:
        value = _parsed(text, type_)
    except ValueError:
        value = None
    if value is None:
        raise refused(f"read {text!r} as {type_}")
    return value


def _parsed(text: str, type_: dt.Type) -> Any:
    match type_:
        case dt.StringType():
            return text
        case dt.BooleanType():
            return {"true": True, "false": False, "t": True, "f": False}.get(text.lower())
        case dt.IntegerType(bits=bits):
            fits = re.fullmatch(r"[+-]?\d{1,20}", text) and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)
            return int(text) if fits else None
        case dt.FloatType(bits=bits):
            form = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)"
            rounded = float if bits == 64 else single
            return rounded(float(text)) if re.fullmatch(form, text, re.IGNORECASE) else None
        case dt.DecimalType():
            return _decimal(text, type_)
        case dt.DateType():
            found = re.fullmatch(_DATE, text)
            return None if found is None else day_of(found)
        case dt.TimeType():
            found = re.fullmatch(_TIME, text)
            return None if found is None else time_of(found, UNITS["us"])
        case dt.TimestampType():
            return _timestamp(text, type_)
        case dt.UuidType():
            is_uuid = re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)
            return uuid.UUID(text).bytes if is_uuid else None
        case dt.BinaryType() if re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):  # ASCII, other bytes as \xAA
            return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
        case _:
            return None


def _decimal(text: str, type_: dt.DecimalType) -> Decimal | None:
    """A number whose digits all fit; DuckDB would round others."""
    found = re.fullmatch(r"([+-]?)(\d+)(?:\.(\d*))?", text)
    if found is None or len((found[3] or "").rstrip("0")) > type_.scale:
        return None
    digits = int(found[2] + (found[3] or "").rstrip("0").ljust(type_.scale, "0"))
    if digits >= 10**type_.precision:
        return None
    return Decimal((int(found[1] == "-"), tuple(map(int, str(digits))), -type_.scale))


def _timestamp(text: str, type_: dt.TimestampType) -> int | None:
    """Ticks since 1970; a text for an instant without a zone is in UTC, as the engines' sessions are."""
    found = re.fullmatch(rf"{_DATE}(?:[ T]{_TIME})?{_ZONE}", text)
    if found is None or (found["zone"] is not None and (not type_.utc or found["hour"] is None)):
        return None
    seconds, per_second = 0, UNITS[type_.unit]
    if (zone := found["zone"] or "Z") != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
        if hours > 15 or minutes > 59:
            return None
        seconds = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    ticks = (day_of(found) * 86_400 - seconds) * per_second + time_of(found, per_second)
    return ticks if type_.unit == "us" or -(2**63) < ticks < 2**63 else None


Values: TypeAlias = Mapping[int, Any]
"""A row: values by the field id of the column."""
Evaluate: TypeAlias = Callable[[Values], Any]


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression.

    type: `UnknownType` for NULL.
    literal: the text of a string literal, or the number of an integer literal, which take the type of what they meet.
    path: of a column or a field inside, the fields from the top-level column down.
    """

    type: dt.Type
    evaluate: Evaluate
    literal: str | int | None = None
    path: tuple[dt.Field, ...] = ()


def constant(type_: dt.Type, value: Any, *, literal: str | int | None = None) -> Term:
    """A term that is the same in every row."""
    return Term(type_, lambda _: value, literal)


def sql_type(type_: dt.Type) -> dt.Type:
    """The type of a table as the engines' SQL has it: variant is text, geometries and fixed are bytes."""
    match type_:
        case dt.VariantType():
            return dt.StringType()
        case dt.FixedType() | dt.GeometryType() | dt.GeographyType():
            return dt.BinaryType()
        case dt.TimestampType(unit="ns"):
            return dt.TimestampType("ns")
        case _:
            return type_


def comparable(terms: Sequence[Term]) -> list[Evaluate]:
    """The terms of one comparison, all cast to the type in which DuckDB compares them.

    Raises:
        UnsupportedError: there is no such type, or the oracle does not know it.
    """
    typed: list[dt.Type] = [
        t.type for t in terms if not isinstance(t.literal, str) and not isinstance(t.type, dt.UnknownType)
    ]
    wanted: dt.Type = reduce(_common, typed) if typed else dt.StringType()
    return [_cast(term, wanted) for term in terms]


def _common(left: dt.Type, right: dt.Type) -> dt.Type:
    if left == right:
        return left
    match left, right:
        case dt.FloatType(), dt.FloatType():
            return dt.FloatType(64)
        case (dt.FloatType(), dt.IntegerType() | dt.DecimalType()) | (
            dt.IntegerType() | dt.DecimalType(),
            dt.FloatType(),
        ):
            return left if isinstance(left, dt.FloatType) else right
        case (dt.IntegerType() | dt.DecimalType(), dt.IntegerType() | dt.DecimalType()):
            # Python compares ints and decimals exactly, so no type need hold both.
            return left if isinstance(left, dt.DecimalType) else right
        case (dt.DateType(), dt.TimestampType()) | (dt.TimestampType(), dt.DateType()):
            return right if isinstance(left, dt.DateType) else left
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
            return dt.TimestampType("us", utc=True)
        case dt.TimestampType(utc=False), dt.TimestampType(utc=False):
            return dt.TimestampType("ns")
        case _:
            raise refused(f"compare {left} with {right}")


def _cast(term: Term, wanted: dt.Type) -> Evaluate:
    """The term in the type of its comparison; exact numbers stay as they are."""
    if isinstance(term.literal, str):
        value = _value_of_text(term.literal, wanted)
        return _ordered(lambda _: value, wanted)
    convert = _conversion(term.type, wanted)
    return _ordered(lambda row: unless_null(convert, term.evaluate(row)), wanted)


def unless_null(convert: Callable[[Any], Any], value: Any) -> Any:
    """The converted value; null stays null."""
    return None if value is None else convert(value)


def _ordered(evaluate: Evaluate, type_: dt.Type) -> Evaluate:
    """Values in an order of Python's that is DuckDB's: text by its bytes, NaN above all numbers and equal to itself."""
    match type_:
        case dt.StringType():
            return lambda row: unless_null(str.encode, evaluate(row))
        case dt.FloatType():
            return lambda row: unless_null(lambda v: (1, 0.0) if math.isnan(v) else (0, v), evaluate(row))
        case (
            dt.BooleanType() | dt.IntegerType() | dt.DecimalType() | dt.DateType() | dt.TimeType() | dt.TimestampType()
        ):
            return evaluate
        case dt.UuidType() | dt.BinaryType():
            return evaluate
        case other:
            raise refused(f"compare values of type {other}")


def _conversion(type_: dt.Type, wanted: dt.Type) -> Callable[[Any], Any]:
    match wanted, type_:
        case _ if isinstance(type_, dt.UnknownType) or type_ == wanted:
            return same
        case dt.FloatType(bits=bits), dt.IntegerType() | dt.DecimalType() | dt.FloatType():
            return lambda value: as_float(value, bits)
        case dt.TimestampType(unit=unit), dt.DateType():
            return lambda value: _fitting(value * DAY_MICROS * (1000 if unit == "ns" else 1))
        case dt.TimestampType(unit="ns"), dt.TimestampType(unit="us"):
            return lambda value: _fitting(value * 1000)
        case _:
            return same


def _fitting(ticks: int) -> int:
    if not -(2**63) < ticks < 2**63:
        raise EngineError("Cannot evaluate the filter: a timestamp is out of range")
    return ticks


def as_float(value: int | float | Decimal, bits: int) -> float:
    """A number as DuckDB casts it to DOUBLE or FLOAT.

    A decimal with more digits than the float has is divided in two parts, the whole and the rest.
    """
    rounded = single if bits == 32 else float
    if not isinstance(value, Decimal):
        return rounded(value)
    sign, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    unscaled, power = int("".join(map(str, digits))), 10**scale
    if unscaled <= 2 ** (24 if bits == 32 else 53) or scale == 0:
        number = rounded(rounded(unscaled) / rounded(power))
    else:
        number = rounded(rounded(unscaled // power) + rounded(rounded(unscaled % power) / rounded(power)))
    return -number if sign else number


def explicit_cast(term: Term, wanted: dt.Type) -> Term:
    """`CAST(term AS wanted)`. Raises UnsupportedError for a cast that the oracle does not know."""
    if isinstance(term.literal, str):
        return constant(wanted, _value_of_text(term.literal, wanted))
    convert = _explicit(term.type, wanted)
    return Term(wanted, lambda row: unless_null(convert, term.evaluate(row)))


def _explicit(type_: dt.Type, wanted: dt.Type) -> Callable[[Any], Any]:
    match wanted, type_:
        case _ if type_ == wanted or isinstance(type_, dt.UnknownType):
            return same
        case dt.IntegerType(bits=bits), dt.IntegerType():
            return _within(2 ** (bits - 1))
        case dt.FloatType(bits=bits), dt.IntegerType() | dt.DecimalType() | dt.FloatType():
            return lambda value: as_float(value, bits)
        case dt.DecimalType(scale=scale), dt.IntegerType() | dt.DecimalType() if getattr(type_, "scale", 0) <= scale:
            checked = _within(10 ** (wanted.precision - scale))
            return lambda value: checked(Decimal(value).quantize(Decimal((0, (1,), -scale)), context=EXACT))
        case dt.DateType(), dt.TimestampType(unit=unit):
            day = DAY_MICROS * (1000 if unit == "ns" else 1)
            return lambda value: value // day
        case dt.TimestampType(), dt.DateType() | dt.TimestampType(unit="us", utc=False):
            return _conversion(type_, wanted)
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
            return _conversion(type_, wanted)
        case _:
            raise refused(f"cast {type_} to {wanted}")


def _within(limit: int) -> Callable[[Any], Any]:
    """Refuses a number of `limit` or more, or less than its negative; an int may be the negative itself."""

    def checked(value: Any) -> Any:
        if not -limit <= value < limit or (isinstance(value, Decimal) and value == -limit):
            raise EngineError(f"Cannot evaluate the filter: {value} is out of the range of a type")
        return value

    return checked


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_WIDE = Context(prec=200)
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_DECIMALS = {"+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply}


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`left sign right`, where sign is one of + - *; null if either is null.

    Raises:
        UnsupportedError: the oracle does not compute with these types.
    """
    types = left.type, right.type
    are_numbers = all(isinstance(t, dt.IntegerType | dt.DecimalType | dt.FloatType) for t in types)
    if not are_numbers or any(isinstance(t.literal, str) for t in (left, right)):
        raise refused(f"compute {left.type} {sign} {right.type}")
    match types:
        case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
            return _integers(sign, left, right, a, b)
        case (dt.FloatType(), _) | (_, dt.FloatType()):
            return _floats(sign, left, right)
        case _:
            return _decimals(sign, left, right)


def negative(term: Term) -> Term:
    """`-term`. A literal stays one."""
    match term.type:
        case dt.IntegerType(bits=bits) if isinstance(term.literal, int):
            value = -term.literal
            return Term(dt.IntegerType(bits), lambda _: value, value)
        case dt.IntegerType(bits=bits):
            return Term(term.type, lambda row: unless_null(lambda v: _held(-v, bits), term.evaluate(row)))
        case dt.DecimalType():
            return Term(
                term.type,
                lambda row: unless_null(lambda v: -v if isinstance(v, int) else v.copy_negate(), term.evaluate(row)),
            )
        case dt.FloatType():
            return Term(term.type, lambda row: unless_null(operator.neg, term.evaluate(row)))
        case other:
            raise refused(f"know a negative {other}")


def _both(compute: Callable[[Any, Any], Any], left: Term, right: Term, type_: dt.Type) -> Term:
    def evaluate(row: Values) -> Any:
        first, second = left.evaluate(row), right.evaluate(row)
        return None if first is None or second is None else compute(first, second)

    return Term(type_, evaluate)


def _integers(sign: str, left: Term, right: Term, a: int, b: int) -> Term:
    """Computes in the wider type; a literal takes the other side's type if it fits."""
    if isinstance(right.literal, int) and not isinstance(left.literal, int) and _fits(right.literal, a):
        bits = a
    elif isinstance(left.literal, int) and not isinstance(right.literal, int) and _fits(left.literal, b):
        bits = b
    else:
        bits = max(a, b)
    return _both(lambda x, y: _held(_FLOATS[sign](x, y), bits), left, right, dt.IntegerType(bits))


def _fits(value: int, bits: int) -> bool:
    limit: int = 2 ** (bits - 1)
    return -limit <= value < limit


def _held(value: int, bits: int) -> int:
    if not _fits(value, bits):
        raise EngineError(f"Cannot evaluate the filter: {value} overflows {bits} bits")
    return value


def _floats(sign: str, left: Term, right: Term) -> Term:
    """Computes in DOUBLE if one side is DOUBLE, else in FLOAT."""
    is_double = any(t.type == dt.FloatType(64) for t in (left, right))
    bits = 64 if is_double else 32
    rounded = float if is_double else single
    return _both(
        lambda x, y: rounded(_FLOATS[sign](as_float(x, bits), as_float(y, bits))), left, right, dt.FloatType(bits)
    )


def _decimals(sign: str, left: Term, right: Term) -> Term:
    """Exactly, in at most 38 digits."""
    (p, s), (q, t) = _size(left), _size(right)
    scale = s + t if sign == "*" else max(s, t)
    digits = p + q if sign == "*" else max(p - s, q - t) + scale + 1
    if scale > 38:
        raise refused(f"compute {left.type} {sign} {right.type}")
    type_ = dt.DecimalType(min(digits, 38), scale)

    def compute(x: Any, y: Any) -> Decimal:
        value = _DECIMALS[sign](Decimal(x), Decimal(y))
        if abs(value) >= Decimal(10) ** (type_.precision - scale):
            raise EngineError(f"Cannot evaluate the filter: {value} overflows {type_}")
        return value

    return _both(compute, left, right, type_)


def _size(term: Term) -> tuple[int, int]:
    match term.type:
        case dt.DecimalType(precision=precision, scale=scale):
            return precision, scale
        case dt.IntegerType(bits=bits):
            return (len(str(abs(term.literal))) if isinstance(term.literal, int) else _DIGITS[bits]), 0
        case other:
            raise AssertionError(other)
