"""Typed parts of an SQL expression, and the casts that DuckDB puts between them.

A term knows its type before any row is read, as in DuckDB. Values are as internal values (see `harness.model.schema`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from harness.errors import EngineError, UnsupportedError
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)
from harness.oracle.engine.conversions import single
from harness.oracle.engine.sql_text import value_of_text

Values: TypeAlias = Mapping[int, Any]
"""A row: values by the field id of the column."""
Evaluate: TypeAlias = Callable[[Values], Any]

_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression.

    type: `UnknownType` for NULL.
    literal: the text of a string literal, or the number of an integer literal, which take the type of what they meet.
    """

    type: Type
    evaluate: Evaluate
    literal: str | int | None = None


def constant(type_: Type, value: Any, *, literal: str | int | None = None) -> Term:
    """A term that is the same in every row."""
    return Term(type_, lambda _: value, literal)


def sql_type(type_: Type) -> Type:
    """The type of a table as the engines' SQL has it: variant is text, geometries and fixed are bytes."""
    match type_:
        case VariantType():
            return StringType()
        case FixedType() | GeometryType() | GeographyType():
            return BinaryType()
        case TimestampType(unit="ns"):
            return TimestampType("ns")
        case _:
            return type_


def comparable(terms: Sequence[Term]) -> list[Evaluate]:
    """The terms of one comparison, all cast to the type in which DuckDB compares them.

    Raises:
        UnsupportedError: there is no such type, or the oracle does not know it.
    """
    wanted = _common_type(terms)
    return [_cast(term, wanted) for term in terms]


def _common_type(terms: Sequence[Term]) -> Type:
    typed = [t for t in terms if not isinstance(t.literal, str) and not isinstance(t.type, UnknownType)]
    if not typed:
        return StringType()
    common = typed[0].type
    for term in typed[1:]:
        common = _common(common, term.type)
    return common


def _common(left: Type, right: Type) -> Type:
    if left == right:
        return left
    match left, right:
        case FloatType(), FloatType():
            return FloatType(64)
        case (FloatType(), IntegerType() | DecimalType()) | (IntegerType() | DecimalType(), FloatType()):
            return left if isinstance(left, FloatType) else right
        case (IntegerType() | DecimalType(), IntegerType() | DecimalType()):
            # Python compares ints and decimals exactly, so no type need hold both.
            return left if isinstance(left, DecimalType) else right
        case (DateType(), TimestampType()) | (TimestampType(), DateType()):
            return right if isinstance(left, DateType) else left
        case TimestampType(unit="us"), TimestampType(unit="us"):
            return TimestampType("us", utc=True)
        case TimestampType(utc=False), TimestampType(utc=False):
            return TimestampType("ns")
        case _:
            raise UnsupportedError(f"Cannot evaluate the filter: the oracle does not compare {left} with {right}")


def _cast(term: Term, wanted: Type) -> Evaluate:
    """The term in the type of its comparison; exact numbers stay as they are."""
    if isinstance(term.literal, str):
        value = value_of_text(term.literal, wanted)
        return _ordered(lambda _: value, wanted)
    convert = _conversion(term.type, wanted)
    return _ordered(lambda row: _unless_null(convert, term.evaluate(row)), wanted)


def _unless_null(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _ordered(evaluate: Evaluate, type_: Type) -> Evaluate:
    """Values that Python orders as DuckDB does: text by its bytes, NaN above all numbers and equal to itself."""
    match type_:
        case StringType():
            return lambda row: _unless_null(str.encode, evaluate(row))
        case FloatType():
            return lambda row: _unless_null(lambda v: (1, 0.0) if math.isnan(v) else (0, v), evaluate(row))
        case BooleanType() | IntegerType() | DecimalType() | DateType() | TimeType() | TimestampType():
            return evaluate
        case UuidType() | BinaryType():
            return evaluate
        case other:
            raise UnsupportedError(f"Cannot evaluate the filter: the oracle does not compare values of type {other}")


def _conversion(type_: Type, wanted: Type) -> Callable[[Any], Any]:
    match wanted, type_:
        case _ if isinstance(type_, UnknownType) or type_ == wanted:
            return _same
        case FloatType(bits=bits), IntegerType() | DecimalType() | FloatType():
            return lambda value: as_float(value, bits)
        case TimestampType(unit=unit), DateType():
            return lambda value: _fitting(value * _DAY_MICROS * (1000 if unit == "ns" else 1))
        case TimestampType(unit="ns"), TimestampType(unit="us"):
            return lambda value: _fitting(value * 1000)
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


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


def explicit_cast(term: Term, wanted: Type) -> Term:
    """`CAST(term AS wanted)`.

    Raises:
        UnsupportedError: the oracle does not know the cast.
    """
    if isinstance(term.literal, str):
        return constant(wanted, value_of_text(term.literal, wanted))
    convert = _explicit(term.type, wanted)
    return Term(wanted, lambda row: _unless_null(convert, term.evaluate(row)))


def _explicit(type_: Type, wanted: Type) -> Callable[[Any], Any]:
    match wanted, type_:
        case _ if type_ == wanted or isinstance(type_, UnknownType):
            return _same
        case IntegerType(bits=bits), IntegerType():
            return _within(2 ** (bits - 1))
        case FloatType(bits=bits), IntegerType() | DecimalType() | FloatType():
            return lambda value: as_float(value, bits)
        case DecimalType(scale=scale), IntegerType() | DecimalType() if _scale(type_) <= scale:
            checked = _within(10 ** (wanted.precision - scale))
            return lambda value: checked(scaled(value, scale))
        case DateType(), TimestampType(unit=unit):
            day = _DAY_MICROS * (1000 if unit == "ns" else 1)
            return lambda value: value // day
        case TimestampType(unit="us"), DateType() | TimestampType(unit="us"):
            return _conversion(type_, wanted)
        case TimestampType(unit="ns"), DateType() | TimestampType(unit="us", utc=False):
            return _conversion(type_, wanted)
        case _:
            raise UnsupportedError(f"Cannot evaluate the filter: the oracle does not cast {type_} to {wanted}")


def scaled(value: int | Decimal, scale: int) -> Decimal:
    """A number with `scale` digits after the point, which it does not exceed."""
    number = Decimal(value)
    sign, digits, exponent = number.as_tuple()
    zeros = (0,) * (scale + int(exponent))
    return Decimal((sign, digits + zeros, -scale))


def _scale(type_: Type) -> int:
    return type_.scale if isinstance(type_, DecimalType) else 0


def _within(limit: int) -> Callable[[Any], Any]:
    """Refuses what is `limit` or more, or less than its negative; an int may be just that."""

    def checked(value: Any) -> Any:
        if not -limit <= value < limit or (isinstance(value, Decimal) and value == -limit):
            raise EngineError(f"Cannot evaluate the filter: {value} is out of the range of a type")
        return value

    return checked
