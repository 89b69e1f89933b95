"""Typed parts of an SQL expression, the casts that DuckDB puts between them, and arithmetic.

A term knows its type before any row is read, as in DuckDB. Values are those of chapter `types`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

from harness.errors import EngineError, UnsupportedError
from harness.testing.oracle import types as dt
from harness.testing.oracle.texts import DAY_SECONDS, SQL, UNITS, parsed, single, to_decimal, within_bits

Values: TypeAlias = Mapping[int, Any]
"""A row: values by the field id of the column."""
Evaluate: TypeAlias = Callable[[Values], Any]
_NUMBERS = (dt.IntegerType, dt.DecimalType, dt.FloatType)
_WIDE = Context(prec=200)
_SIGNS = {"+": (operator.add, _WIDE.add), "-": (operator.sub, _WIDE.subtract), "*": (operator.mul, _WIDE.multiply)}
"""Per sign, the operation on floats and the one on exact numbers."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


@dataclass(frozen=True)
class Term:
    """A part of an expression.

    type: `UNKNOWN` for NULL.
    literal: the text of a string literal, or the number of an integer literal, which take the type of what they meet.
    """

    type: dt.Type
    evaluate: Evaluate
    literal: str | int | None = None


def refused(reason: str) -> UnsupportedError:
    """The error for a filter, or a part of one, that the oracle does not evaluate."""
    return UnsupportedError(f"Cannot evaluate the filter: the oracle does not {reason}")


def constant(type_: dt.Type, value: Any, *, literal: str | int | None = None) -> Term:
    """A term that is the same in every row."""
    return Term(type_, lambda _: value, literal)


def unless_null(convert: Callable[[Any], Any], value: Any) -> Any:
    """The converted value; null stays null."""
    return None if value is None else convert(value)


def sql_type(type_: dt.Type) -> dt.Type:
    """The type of a column as the engines' SQL has it: variant is text, geometries and fixed are bytes."""
    if isinstance(type_, dt.FixedType | dt.GeoType):
        return dt.BINARY
    is_nanos = isinstance(type_, dt.TimestampType) and type_.unit == "ns"
    return dt.TimestampType("ns") if is_nanos else dt.STRING if type_ == dt.VARIANT else type_


def comparable(terms: Sequence[Term]) -> list[Evaluate]:
    """The terms of one comparison, all in the type in which DuckDB compares them, ordered as DuckDB orders values.

    Raises UnsupportedError: there is no such type, or the oracle does not know it.
    """
    typed = [t.type for t in terms if not isinstance(t.literal, str) and t.type != dt.UNKNOWN]
    wanted = reduce(_common, typed) if typed else dt.STRING
    return [_ordered(_implicit(term, wanted).evaluate, wanted) for term in terms]


def _common(left: dt.Type, right: dt.Type) -> dt.Type:
    if left == right:
        return left
    match left, right:
        case dt.FloatType(), dt.FloatType():
            return dt.FloatType(64)
        case dt.FloatType(), dt.IntegerType() | dt.DecimalType():
            return left
        case dt.IntegerType() | dt.DecimalType(), dt.FloatType():
            return right
        case dt.IntegerType() | dt.DecimalType(), dt.IntegerType() | dt.DecimalType():
            return dt.DecimalType(38, 0)  # exact numbers are compared as they are, so no type need hold both
        case dt.DATE, dt.TimestampType():
            return right
        case dt.TimestampType(), dt.DATE:
            return left
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
            return dt.TimestampType("us", utc=True)
        case dt.TimestampType(utc=False), dt.TimestampType(utc=False):
            return dt.TimestampType("ns")
        case _:
            raise refused(f"compare {left} with {right}")


def _implicit(term: Term, wanted: dt.Type) -> Term:
    exact = (dt.IntegerType, dt.DecimalType)
    is_exact = isinstance(term.type, exact) and isinstance(wanted, exact)
    return term if is_exact or term.type == dt.UNKNOWN else cast(term, wanted)


def _ordered(evaluate: Evaluate, type_: dt.Type) -> Evaluate:
    """Values in an order of Python's that is DuckDB's: text by its bytes, NaN above all numbers and equal to itself."""
    match type_:
        case dt.STRING:
            return lambda row: unless_null(str.encode, evaluate(row))
        case dt.FloatType():
            return lambda row: unless_null(lambda v: (1, 0.0) if math.isnan(v) else (0, v), evaluate(row))
        case dt.StructType() | dt.ListType() | dt.MapType() | dt.OpaqueType():
            raise refused(f"compare values of type {type_}")
        case _:
            return evaluate


def cast(term: Term, wanted: dt.Type) -> Term:
    """`CAST(term AS wanted)`. Raises UnsupportedError for a cast that the oracle does not know."""
    if isinstance(term.literal, str):
        return constant(wanted, _value_of_text(term.literal, wanted))
    convert = _conversion(term.type, wanted)

    def evaluate(row: Values) -> Any:
        try:
            return unless_null(convert, term.evaluate(row))
        except (ValueError, ArithmeticError) as error:
            raise EngineError(f"Cannot evaluate the filter: {error}") from error

    return Term(wanted, evaluate)


def _value_of_text(text: str, type_: dt.Type) -> Any:
    """The value of a type that DuckDB makes of a text."""
    if type_ == dt.BINARY and re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    try:
        return parsed(text, type_, SQL)
    except (ValueError, ArithmeticError) as error:
        raise refused(f"read {text!r} as {type_}") from error


def _conversion(type_: dt.Type, wanted: dt.Type) -> Callable[[Any], Any]:
    """The cast of a value that is not null; it raises ValueError or ArithmeticError for one that does not fit."""
    match wanted, type_:
        case _ if type_ == wanted or type_ == dt.UNKNOWN:
            return lambda value: value
        case dt.IntegerType(bits=bits), dt.IntegerType():
            return lambda value: within_bits(value, bits)
        case dt.FloatType(bits=bits), dt.IntegerType() | dt.DecimalType() | dt.FloatType():
            return lambda value: as_float(value, bits)
        case dt.DecimalType(scale=scale), dt.IntegerType() | dt.DecimalType() if getattr(type_, "scale", 0) <= scale:
            return lambda value: to_decimal(Decimal(value), wanted)
        case dt.DATE, dt.TimestampType(unit=unit):
            return lambda value: value // (DAY_SECONDS * UNITS[unit])
        case dt.TimestampType(unit=unit), dt.DATE:
            return lambda value: within_bits(value * DAY_SECONDS * UNITS[unit], 64)
        case dt.TimestampType(unit="ns"), dt.TimestampType(unit="us", utc=False):
            return lambda value: within_bits(value * 1000, 64)
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
            return lambda value: value
        case _:
            raise refused(f"cast {type_} to {wanted}")


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


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`left sign right`, where sign is one of + - *; null if either is null.

    Raises UnsupportedError: the oracle does not compute with these types.
    """
    type_ = _computed(sign, left, right)
    of_floats, of_exact = _SIGNS[sign]

    def evaluate(row: Values) -> Any:
        x, y = left.evaluate(row), right.evaluate(row)
        if x is None or y is None:
            return None
        if isinstance(type_, dt.FloatType):
            return as_float(of_floats(as_float(x, type_.bits), as_float(y, type_.bits)), type_.bits)
        value = of_exact(Decimal(x), Decimal(y))
        if isinstance(type_, dt.DecimalType) and abs(value) < Decimal(10) ** (type_.precision - type_.scale):
            return value
        if isinstance(type_, dt.IntegerType) and abs(2 * value + 1) < 2**type_.bits:
            return int(value)
        raise EngineError(f"Cannot evaluate the filter: {value} overflows {type_}")

    return Term(type_, evaluate)


def _computed(sign: str, left: Term, right: Term) -> dt.IntegerType | dt.FloatType | dt.DecimalType:
    """The type of a sum, difference or product; an integer literal takes the other integer's type if it fits."""
    match left.type, right.type:
        case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
            if isinstance(left.literal, int) != isinstance(right.literal, int):
                literal, bits = (left.literal, b) if isinstance(left.literal, int) else (right.literal, a)
                if isinstance(literal, int) and -(2 ** (bits - 1)) <= literal < 2 ** (bits - 1):
                    return dt.IntegerType(bits)
            return dt.IntegerType(max(a, b))
        case (dt.FloatType(bits=bits), dt.FloatType(bits=other)):
            return dt.FloatType(max(bits, other))
        case (dt.FloatType() as type_, dt.IntegerType() | dt.DecimalType()):
            return type_
        case (dt.IntegerType() | dt.DecimalType(), dt.FloatType() as type_):
            return type_
        case (dt.IntegerType() | dt.DecimalType(), dt.IntegerType() | dt.DecimalType()):
            (p, s), (q, t) = _size(left), _size(right)
            scale = s + t if sign == "*" else max(s, t)
            digits = p + q if sign == "*" else max(p - s, q - t) + scale + 1
            if scale <= 38:
                return dt.DecimalType(min(digits, 38), scale)
        case _:
            pass
    raise refused(f"compute {left.type} {sign} {right.type}")


def _size(term: Term) -> tuple[int, int]:
    """Precision and scale of an exact number."""
    if isinstance(term.type, dt.DecimalType):
        return term.type.precision, term.type.scale
    bits = term.type.bits if isinstance(term.type, dt.IntegerType) else 64
    return (len(str(abs(term.literal))) if isinstance(term.literal, int) else _DIGITS[bits]), 0


def negative(term: Term) -> Term:
    """`-term`. A literal stays one."""
    if isinstance(term.literal, int):
        return constant(term.type, -term.literal, literal=-term.literal)
    if not isinstance(term.type, _NUMBERS):
        raise refused(f"know a negative {term.type}")
    if isinstance(term.type, dt.IntegerType):
        return arithmetic("-", constant(term.type, 0), term)
    return Term(
        term.type,
        lambda row: unless_null(lambda v: v.copy_negate() if isinstance(v, Decimal) else -v, term.evaluate(row)),
    )
