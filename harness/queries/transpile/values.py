"""Expressions with their types, and how values of two types become values of one, as DuckDB would have it.

Every change of type is written out as a CAST or done on the literal: Spark's own coercion decides nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.filters.literal_comparison import as_nanoseconds
from harness.metadata.filters.literals import Kind, Literal, double, nearest_float32
from harness.metadata.filters.sqltext import (
    parse_bytes,
    parse_date,
    parse_decimal,
    parse_float,
    parse_instant,
    parse_integer,
    parse_time,
    parse_timestamp,
    parse_uuid,
)
from harness.metadata.model import schema as dt
from harness.queries.transpile import spark_text

HUGE = dt.OpaqueType("hugeint")
"""DuckDB's 128-bit integer; on Spark a DECIMAL(38, 0)."""
INT, LONG, DOUBLE, BOOLEAN, TEXT, DATE, BLOB_TYPE = (
    dt.IntegerType(32),
    dt.IntegerType(64),
    dt.FloatType(64),
    dt.BooleanType(),
    dt.StringType(),
    dt.DateType(),
    dt.BinaryType(),
)


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in Spark's SQL, with its type on DuckDB.

    literal: of a number or text, which among others takes the type of its neighbour; None: it is no literal.
    """

    sql: str
    type: dt.Type
    literal: Literal | None = None

    @property
    def number(self) -> int | None:
        """The whole number that the expression is, if it is a literal."""
        return int(self.literal.value) if self.literal is not None and self.literal.kind is Kind.INTEGER else None

    @property
    def text(self) -> str | None:
        """The text that the expression is, if it is a literal."""
        return str(self.literal.value) if self.literal is not None and self.literal.kind is Kind.STRING else None


BOUND = "harness_bound"
"""The key of a parameter's meaning among what sqlglot keeps of a node."""


def bind(node: exp.Placeholder, value: Any) -> str | None:
    """Notes at a parameter how Spark gets it; gives its text, None for null. Raises UnsupportedError: it has none."""
    type_, text = _of_value(node, value)
    name = f":p_{node.name}"
    sql = f"UNHEX({name})" if type_ == BLOB_TYPE else f"CAST({name} AS {type_name(type_)})"
    node.meta[BOUND] = Typed("CAST(NULL AS INT)" if text is None else sql, type_)
    return text


def _of_value(node: exp.Placeholder, value: Any) -> tuple[dt.Type, str | None]:
    """The type that DuckDB gives to a value of Python's, and its text."""
    match value:
        case None:
            return dt.UnknownType(), None
        case bool():
            return BOOLEAN, str(value).lower()
        case int() if _fits(value, 64):
            return INT if _fits(value, 32) else LONG, str(value)
        case float():
            return DOUBLE, {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
        case str():
            return TEXT, value
        case Decimal() if value.is_finite():
            _, digits, exponent = value.as_tuple()
            scale = max(-int(exponent), 0)
            return dt.DecimalType(max(len(digits) + int(exponent) + scale, scale + 1), scale), f"{value:f}"
        case datetime.datetime():
            instant = value.tzinfo is not None
            moment = value.astimezone(datetime.UTC) if instant else value
            return dt.TimestampType(utc=instant), moment.isoformat(" ")
        case datetime.date():
            return DATE, value.isoformat()
        case bytes():
            return dt.BinaryType(), value.hex()
        case _:
            raise spark_text.refused(node, f"a value of type {type(value).__name__}", "write it as a literal")


def type_name(type_: dt.Type) -> str:
    """The Spark type for values of a type."""
    return "DECIMAL(38, 0)" if type_ == HUGE else spark_text.type_name(type_)


def of_literal(literal: Literal) -> Typed:
    """A literal as it is when nothing beside it gives it a type."""
    type_ = _own_type(literal)
    if type_ == HUGE:
        return Typed(f"CAST({literal.value} AS DECIMAL(38, 0))", HUGE, literal)
    found = Typed("", type_, literal)
    return Typed(coerced(found, type_, "a literal"), type_, literal)


def _own_type(literal: Literal) -> dt.Type:
    value = literal.value
    match literal.kind:
        case Kind.NULL:
            return dt.UnknownType()
        case Kind.INTEGER:
            return next((t for t in (INT, LONG) if _fits(value, t.bits)), HUGE)
        case Kind.DECIMAL:
            _, digits, exponent = value.as_tuple()
            scale = -exponent
            return dt.DecimalType(min(38, max(len(digits), scale + 1)), scale)
        case Kind.FLOAT:
            return dt.FloatType(32)
        case Kind.TIMESTAMP:
            return dt.TimestampType("us" if value % 1000 == 0 else "ns")
        case Kind.INSTANT:
            return dt.TimestampType("us", utc=True)
        case kind:
            return _TYPES[kind]


_TYPES: dict[Kind, dt.Type] = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.DOUBLE: DOUBLE,
    Kind.STRING: TEXT,
    Kind.DATE: DATE,
    Kind.TIME: dt.TimeType(),
    Kind.UUID: dt.UuidType(),
    Kind.BYTES: dt.BinaryType(),
}


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def common_type(values: Sequence[Typed], what: str) -> dt.Type:
    """The type that DuckDB gives to values that must share one. what: the construct. Raises UnsupportedError."""
    firm = [v.type for v in values if not _is_pliant(v)]
    # A number among literals still widens, a text takes any type, a null too.
    numbers = [v.type for v in values if _is_pliant(v) and is_number(v.type)]
    result: dt.Type | None = firm[0] if firm else None
    for type_ in (*firm[1:], *numbers):
        if result is None or (type_ in numbers and isinstance(result, dt.FloatType)):
            result = result or type_
            continue
        result = _merged(result, type_)
        if result is None:
            listed = ", ".join(dict.fromkeys(str(v.type) for v in values))
            raise UnsupportedError(f"Cannot run {what} of types {listed} on Spark as DuckDB does: cast to one type")
    if result is not None:
        return result
    return TEXT if any(v.type == TEXT for v in values) else values[0].type


def _is_pliant(value: Typed) -> bool:
    kinds = (Kind.NULL, Kind.STRING, Kind.INTEGER, Kind.DECIMAL)
    return isinstance(value.type, dt.UnknownType) or (value.literal is not None and value.literal.kind in kinds)


def is_number(type_: dt.Type) -> bool:
    """Tells whether a type is one of numbers."""
    return isinstance(type_, dt.IntegerType | dt.DecimalType | dt.FloatType) or str(type_) == str(HUGE)


def is_timestamp(type_: dt.Type) -> bool:
    """Tells whether values of a type are moments with microseconds."""
    return isinstance(type_, dt.TimestampType) and type_.unit == "us"


def is_moment(type_: dt.Type) -> bool:
    """Tells whether a type is one of dates or timestamps."""
    return isinstance(type_, dt.DateType) or is_timestamp(type_)


def _merged(left: dt.Type, right: dt.Type) -> dt.Type | None:
    if str(left) == str(right):
        return left
    for one, other in ((left, right), (right, left)):
        match one, other:
            case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
                return dt.IntegerType(max(a, b))
            case huge, (dt.IntegerType() | dt.DecimalType()) if huge == HUGE:
                return dt.DecimalType(38, other.scale) if isinstance(other, dt.DecimalType) else HUGE
            case ((dt.DecimalType() | dt.IntegerType()), (dt.DecimalType() | dt.IntegerType())):
                first, second = as_decimal(left), as_decimal(right)
                scale = max(first.scale, second.scale)
                # A value that has too many digits for 38 is an error on either engine.
                before = max(first.precision - first.scale, second.precision - second.scale)
                return dt.DecimalType(min(38, before + scale), scale)
            case dt.FloatType(), dt.FloatType():
                return DOUBLE
            case dt.FloatType(bits=64), number if is_number(number):
                return DOUBLE
            case dt.DateType(), dt.TimestampType(unit="us"):
                return other
            case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
                return dt.TimestampType("us", utc=True)
            case ((dt.BinaryType() | dt.FixedType()), (dt.BinaryType() | dt.FixedType())):
                return BLOB_TYPE
            case _:
                pass
    return None


def as_decimal(type_: dt.Type) -> dt.DecimalType:
    """The DECIMAL that holds a decimal's or an integer's values."""
    match type_:
        case dt.IntegerType(bits=bits):
            return dt.DecimalType({8: 3, 16: 5, 32: 10, 64: 19}[bits], 0)
        case dt.DecimalType():
            return type_
        case _:
            raise AssertionError(type_)


def coerced(value: Typed, to: dt.Type, what: str) -> str:
    """The value in type `to` of `common_type`. Raises UnsupportedError: a literal that engines may read differently."""
    if value.literal is not None and to != HUGE:
        if value.literal.kind is Kind.NULL:
            return f"CAST(NULL AS {type_name(to)})"
        stored = _stored(value.literal, to)
        if stored is None:
            raise UnsupportedError(
                f"Cannot run {what} on Spark: engines may read {value.literal.value!r} as {to} differently; "
                "write it with all its digits, in a CAST to its type"
            )
        return spark_text.literal(stored, to)
    if isinstance(value.type, dt.UnknownType):
        return f"CAST(NULL AS {type_name(to)})"
    if str(value.type) == str(to):
        return value.sql
    if all(isinstance(type_, dt.BinaryType | dt.FixedType) for type_ in (value.type, to)):
        return value.sql
    return f"CAST({value.sql} AS {type_name(to)})"


def alike(values: Iterable[Typed], what: str) -> tuple[list[str], dt.Type]:
    """All values as ones of their common type, and that type. Raises UnsupportedError."""
    listed = list(values)
    type_ = common_type(listed, what)
    return [coerced(v, type_, what) for v in listed], type_


def _stored(literal: Literal, type_: dt.Type) -> Any:
    """The internal value of a literal as a value of a type; None where that is not certain, or not possible."""

    def read(kind: Kind, parse: Callable[[str], Any]) -> Any:
        return parse(literal.value) if literal.kind is Kind.STRING else literal.value if literal.kind is kind else None

    match type_:
        case dt.BooleanType():
            return read(Kind.BOOLEAN, lambda _: None)
        case dt.StringType():
            return read(Kind.STRING, str)
        case dt.IntegerType(bits=bits):
            number = read(Kind.INTEGER, parse_integer)
            return number if number is not None and _fits(number, bits) else None
        case dt.DecimalType(precision=precision, scale=scale):
            exact = literal.value if literal.kind is Kind.INTEGER else read(Kind.DECIMAL, parse_decimal)
            unscaled = None if exact is None else Fraction(exact) * 10**scale
            fits = unscaled is not None and unscaled.denominator == 1 and abs(unscaled) < 10**precision
            return Decimal(exact) if fits else None
        case dt.FloatType(bits=bits):
            return _stored_float(literal, bits)
        case dt.DateType():
            return read(Kind.DATE, parse_date)
        case dt.TimestampType(unit=unit, utc=utc):
            parse = partial(parse_instant if utc else parse_timestamp, digits=9 if unit == "ns" else 6)
            nanos = as_nanoseconds(literal, parse)
            is_whole = nanos is not None and unit == "us" and nanos % 1000 == 0
            return nanos if nanos is None or unit == "ns" else nanos // 1000 if is_whole else None
        case dt.TimeType(unit="us"):
            nanos = read(Kind.TIME, parse_time)
            return None if nanos is None else nanos // 1000
        case dt.UuidType():
            return read(Kind.UUID, parse_uuid)
        case dt.BinaryType() | dt.FixedType():
            return read(Kind.BYTES, parse_bytes)
        case _:
            return None


def _stored_float(literal: Literal, bits: int) -> float | None:
    value = literal.value
    match literal.kind:
        case Kind.STRING:
            number = parse_float(value)
            return number if number is None or bits == 64 or number != number else nearest_float32(number)
        case Kind.FLOAT | Kind.DOUBLE:
            return float(value)
        case Kind.INTEGER | Kind.DECIMAL if bits == 64:
            return double(value)
        case Kind.INTEGER | Kind.DECIMAL:
            digits = len(Decimal(value).as_tuple().digits)
            return nearest_float32(value) if digits <= 7 and double(value) is not None else None
        case _:
            return None
