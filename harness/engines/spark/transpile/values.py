"""Typed expressions, casts, and the common type of several values, by DuckDB's rules.

Every type conversion is written as a CAST or applied to the literal, so that Spark's own coercion never takes effect.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.spark_text import refusal
from harness.errors import UnsupportedError
from harness.metadata.filters import sqltext
from harness.metadata.filters.literal_comparison import as_nanoseconds
from harness.metadata.filters.literals import Literal, LiteralKind, double, nearest_float32
from harness.metadata.model import schema as dt

HUGE = dt.OpaqueType("hugeint")
"""DuckDB's 128-bit integer. On Spark it is a DECIMAL(38, 0)."""
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
class TypedSql:
    """An expression in Spark's SQL with its type on DuckDB.

    Attributes:
        sql: The expression.
        type: The type.
        literal: The literal, if the expression is one. Numbers and texts adapt to the type of the values next to them.
            None for other expressions.
    """

    sql: str
    type: dt.Type
    literal: Literal | None = None

    @property
    def number(self) -> int | None:
        """The integer, if the expression is an integer literal."""
        return (
            int(self.literal.value) if self.literal is not None and self.literal.kind is LiteralKind.INTEGER else None
        )

    @property
    def text(self) -> str | None:
        """The text, if the expression is a string literal."""
        return str(self.literal.value) if self.literal is not None and self.literal.kind is LiteralKind.STRING else None


BOUND = "harness_bound"
"""The key in a sqlglot node's `meta` under which a parameter's expression is stored."""


def bind(node: exp.Placeholder, value: object) -> str | None:
    """Record at a parameter's node the SQL that reads its value. Return the value as text, or None for null.

    Raises:
        UnsupportedError: Spark's SQL cannot represent the value.
    """
    type_, text = _literal_of_value(node, value)
    name = f":p_{node.name}"
    sql = f"UNHEX({name})" if type_ == BLOB_TYPE else f"CAST({name} AS {type_name(type_)})"
    node.meta[BOUND] = TypedSql("CAST(NULL AS INT)" if text is None else sql, type_)
    return text


def _literal_of_value(node: exp.Placeholder, value: object) -> tuple[dt.Type, str | None]:
    """Return the DuckDB type of a Python value, and the value as text."""
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
            raise spark_text.refusal(node, f"a value of type {type(value).__name__}", "write it as a literal")


def type_name(type_: dt.Type) -> str:
    """Return the Spark type for values of a type."""
    return "DECIMAL(38, 0)" if type_ == HUGE else spark_text.type_name(type_)


def typed_literal(literal: Literal) -> TypedSql:
    """Return a literal as an expression with its default type.

    This type applies if no value next to the literal determines another type.
    """
    type_ = _literal_type(literal)
    if type_ == HUGE:
        return TypedSql(f"CAST({literal.value} AS DECIMAL(38, 0))", HUGE, literal)
    plain_literal = TypedSql("", type_, literal)
    return TypedSql(coerce(plain_literal, type_, "a literal"), type_, literal)


def _literal_type(literal: Literal) -> dt.Type:
    value = literal.value
    match literal.kind:
        case LiteralKind.NULL:
            return dt.UnknownType()
        case LiteralKind.INTEGER:
            return next((t for t in (INT, LONG) if _fits(value, t.bits)), HUGE)
        case LiteralKind.DECIMAL:
            _, digits, exponent = value.as_tuple()
            scale = -exponent
            return dt.DecimalType(min(38, max(len(digits), scale + 1)), scale)
        case LiteralKind.FLOAT:
            return dt.FloatType(32)
        case LiteralKind.TIMESTAMP:
            return dt.TimestampType("us" if value % 1000 == 0 else "ns")
        case LiteralKind.INSTANT:
            return dt.TimestampType("us", utc=True)
        case kind:
            return _TYPES[kind]


_TYPES: dict[LiteralKind, dt.Type] = {
    LiteralKind.BOOLEAN: BOOLEAN,
    LiteralKind.DOUBLE: DOUBLE,
    LiteralKind.STRING: TEXT,
    LiteralKind.DATE: DATE,
    LiteralKind.TIME: dt.TimeType(),
    LiteralKind.UUID: dt.UuidType(),
    LiteralKind.BYTES: dt.BinaryType(),
}


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def common_type(values: Sequence[TypedSql], what: str) -> dt.Type:
    """Return the type that DuckDB gives to values that must have the same type.

    Args:
        values: The values.
        what: The name of the construct, for the error.

    Raises:
        UnsupportedError: DuckDB's rule for these types is not known here.
    """
    firm = [v.type for v in values if not _takes_other_type(v)]
    # Between literals, numbers still widen the type; texts and nulls adapt to any type.
    numbers = [v.type for v in values if _takes_other_type(v) and is_number(v.type)]
    result: dt.Type | None = firm[0] if firm else None
    for type_ in (*firm[1:], *numbers):
        if result is None or (type_ in numbers and isinstance(result, dt.FloatType)):
            result = result or type_
            continue
        result = _common_of_two(result, type_)
        if result is None:
            listed = ", ".join(dict.fromkeys(str(v.type) for v in values))
            raise UnsupportedError(f"Cannot run {what} of types {listed} on Spark as DuckDB does: cast to one type")
    if result is not None:
        return result
    return TEXT if any(v.type == TEXT for v in values) else values[0].type


def _takes_other_type(value: TypedSql) -> bool:
    kinds = (LiteralKind.NULL, LiteralKind.STRING, LiteralKind.INTEGER, LiteralKind.DECIMAL)
    return isinstance(value.type, dt.UnknownType) or (value.literal is not None and value.literal.kind in kinds)


def list_of(type_: dt.Type) -> dt.ListType:
    """Return the type of lists with elements of a type."""
    return dt.ListType(dt.Field(id=0, name="element", type=type_))


def is_number(type_: dt.Type) -> bool:
    """Return whether a type is numeric."""
    return isinstance(type_, dt.IntegerType | dt.DecimalType | dt.FloatType) or str(type_) == str(HUGE)


def is_timestamp(type_: dt.Type) -> bool:
    """Return whether a type is a timestamp with microseconds."""
    return isinstance(type_, dt.TimestampType) and type_.unit == "us"


def is_moment(type_: dt.Type) -> bool:
    """Return whether a type is a date or a timestamp with microseconds."""
    return isinstance(type_, dt.DateType) or is_timestamp(type_)


def _common_of_two(left: dt.Type, right: dt.Type) -> dt.Type | None:
    if str(left) == str(right):
        return left
    for subject, other in ((left, right), (right, left)):
        match subject, other:
            case dt.IntegerType(bits=a), dt.IntegerType(bits=b):
                return dt.IntegerType(max(a, b))
            case huge, (dt.IntegerType() | dt.DecimalType()) if huge == HUGE:
                return dt.DecimalType(38, other.scale) if isinstance(other, dt.DecimalType) else HUGE
            case ((dt.DecimalType() | dt.IntegerType()), (dt.DecimalType() | dt.IntegerType())):
                first, second = as_decimal(left), as_decimal(right)
                scale = max(first.scale, second.scale)
                # A value that needs more than 38 digits is an error on both engines.
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
    """Return the DECIMAL type that holds all values of a decimal or integer type."""
    match type_:
        case dt.IntegerType(bits=bits):
            return dt.DecimalType({8: 3, 16: 5, 32: 10, 64: 19}[bits], 0)
        case dt.DecimalType():
            return type_
        case _:
            raise AssertionError(type_)


def coerce(value: TypedSql, to: dt.Type, what: str) -> str:
    """Return a value in the type that `common_type` returned.

    Raises:
        UnsupportedError: The engines may read the literal differently.
    """
    if value.literal is not None and to != HUGE:
        if value.literal.kind is LiteralKind.NULL:
            return f"CAST(NULL AS {type_name(to)})"
        stored = _stored_value(value.literal, to)
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


def with_common_type(values: Iterable[TypedSql], what: str) -> tuple[list[str], dt.Type]:
    """Convert values to their common type. Return the expressions and the type."""
    listed = list(values)
    type_ = common_type(listed, what)
    return [coerce(v, type_, what) for v in listed], type_


def _stored_value(literal: Literal, type_: dt.Type) -> Any:
    """Return a literal as an internal value of a type. None if the conversion is uncertain or impossible."""

    def read(kind: LiteralKind, parse: Callable[[str], object]) -> Any:
        return (
            parse(literal.value)
            if literal.kind is LiteralKind.STRING
            else literal.value
            if literal.kind is kind
            else None
        )

    match type_:
        case dt.BooleanType():
            return read(LiteralKind.BOOLEAN, lambda _: None)
        case dt.StringType():
            return read(LiteralKind.STRING, str)
        case dt.IntegerType(bits=bits):
            number = read(LiteralKind.INTEGER, sqltext.parse_integer)
            return number if number is not None and _fits(number, bits) else None
        case dt.DecimalType(precision=precision, scale=scale):
            exact = (
                literal.value
                if literal.kind is LiteralKind.INTEGER
                else read(LiteralKind.DECIMAL, sqltext.parse_decimal)
            )
            unscaled = None if exact is None else Fraction(exact) * 10**scale
            fits = unscaled is not None and unscaled.denominator == 1 and abs(unscaled) < 10**precision
            return Decimal(exact) if fits else None
        case dt.FloatType(bits=bits):
            return _stored_float(literal, bits)
        case dt.DateType():
            return read(LiteralKind.DATE, sqltext.parse_date)
        case dt.TimestampType(unit=unit, utc=utc):
            parse = partial(sqltext.parse_instant if utc else sqltext.parse_timestamp, digits=9 if unit == "ns" else 6)
            nanos = as_nanoseconds(literal, parse)
            is_whole = nanos is not None and unit == "us" and nanos % 1000 == 0
            return nanos if nanos is None or unit == "ns" else nanos // 1000 if is_whole else None
        case dt.TimeType(unit="us"):
            nanos = read(LiteralKind.TIME, sqltext.parse_time)
            return None if nanos is None else nanos // 1000
        case dt.UuidType():
            return read(LiteralKind.UUID, sqltext.parse_uuid)
        case dt.BinaryType() | dt.FixedType():
            return read(LiteralKind.BYTES, sqltext.parse_bytes)
        case _:
            return None


def _stored_float(literal: Literal, bits: int) -> float | None:
    value = literal.value
    match literal.kind:
        case LiteralKind.STRING:
            number = sqltext.parse_float(value)
            return number if number is None or bits == 64 or number != number else nearest_float32(number)
        case LiteralKind.FLOAT | LiteralKind.DOUBLE:
            return float(value)
        case LiteralKind.INTEGER | LiteralKind.DECIMAL if bits == 64:
            return double(value)
        case LiteralKind.INTEGER | LiteralKind.DECIMAL:
            digits = len(Decimal(value).as_tuple().digits)
            return nearest_float32(value) if digits <= 7 and double(value) is not None else None
        case _:
            return None


# Casts are supported only if both engines return the same value for every value that both accept.


# Casts of texts that both engines read alike, given by a regular expression; other texts are an error. DuckDB reads
# `1e3`, `0x10`, `1_000`, and `1.5` as INTEGER and `2024/1/5` as DATE; Spark reads `1.5d` as DOUBLE.


_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"


# For each type, two regular expressions in Java's syntax: texts that both engines read alike, and texts that neither
# engine accepts.
_NO_NUMBER = r"\A\s*\z|[^0-9A-Za-z_.+\-\s]|\A\s*[^0-9+.\-\siInN]|\A[0-9]+-"
_INTEGER = (r"\A *[+-]?[0-9]+ *\z", _NO_NUMBER)
_DECIMAL = (rf"\A *[+-]?{_DIGITS} *\z", _NO_NUMBER)
_NO_DAY = r"\A(?!.*(?i:epoch|inf))([^0-9]*|[^-/\\ ]*)\z"
_READINGS: dict[dt.Type, tuple[str, str]] = {
    **{dt.IntegerType(bits): _INTEGER for bits in (8, 16, 32, 64)},
    DOUBLE: (rf"\A *[+-]?{_DIGITS}([eE][+-]?[0-9]+)? *\z", _NO_NUMBER),
    dt.DateType(): (rf"\A{_DAY}\z", _NO_DAY),
    dt.TimestampType(): (rf"\A{_DAY}([ T]{_CLOCK})?\z", _NO_DAY),
    dt.BooleanType(): (r"\A(?i:t|true|y|yes|1|f|false|n|no|0)\z", r"\A(?!(?i:t|true|y|yes|1|f|false|n|no|0)\z)"),
}


def _cast_text(text: str, to: dt.Type, cast: str = "CAST") -> str | None:
    """Return `CAST(text AS to)` or `TRY_CAST`. None if no text is known to be read alike."""
    reading = _DECIMAL if isinstance(to, dt.DecimalType) else _READINGS.get(to)
    if reading is None:
        return None
    valid_pattern, null_pattern = map(spark_text.text, reading)
    null_branch = f"WHEN {text} RLIKE {null_pattern} THEN NULL " if cast == "TRY_CAST" else ""
    message = spark_text.text(f"a text that DuckDB and Spark may read differently as {to}")
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} RLIKE {valid_pattern} "
        f"THEN {cast}({text} AS {spark_text.type_name(to)}) {null_branch}ELSE RAISE_ERROR({message}) END"
    )


def cast(value: TypedSql, node: exp.Cast) -> TypedSql:
    """Translate `CAST(value AS type)`."""
    to = _type_of(node)
    if value.literal is not None and value.literal.kind is not LiteralKind.STRING:
        # `literal_of` keeps the cast around a literal that is rounded or does not fit.
        value = TypedSql(value.sql, value.type)
    if value.literal is not None:
        try:
            return TypedSql(coerce(value, to, "CAST"), to)
        except UnsupportedError:
            value = TypedSql(value.sql, value.type)
    sql = _checked_cast(value, to)
    if sql is None:
        raise refusal(node, f"a cast from {value.type} to {to}")
    return TypedSql(sql, to)


def try_cast(value: TypedSql, node: exp.TryCast) -> TypedSql:
    """Translate `TRY_CAST(value AS type)`. The result is null if DuckDB's result is null."""
    to = _type_of(node)
    if isinstance(value.type, dt.UnknownType):
        return TypedSql(f"CAST(NULL AS {type_name(to)})", to)
    if isinstance(value.type, dt.StringType) and not isinstance(to, dt.StringType):
        sql = _cast_text(value.sql, to, "TRY_CAST")
    else:
        sql = _checked_cast(TypedSql(value.sql, value.type), to)
        # Only the outermost cast may fail.
        sql = f"TRY_{sql}" if sql is not None and sql.startswith("CAST(") and sql != value.sql else sql
    inexact = isinstance(value.type, dt.FloatType) and isinstance(to, dt.DecimalType | dt.FloatType)
    if sql is None or isinstance(to, dt.ListType) or (inexact and to not in (DOUBLE, value.type)):
        raise refusal(node, f"a cast from {value.type} to {to}")
    return TypedSql(sql, to)


def _type_of(node: exp.Cast) -> dt.Type:
    if node.args.get("format") is not None or node.args.get("default") is not None:
        raise refusal(node, "a cast with a format")
    return _target_type(node, node.to)


def _target_type(node: exp.Cast, to: exp.DataType) -> dt.Type:
    if to.this in (exp.DType.ARRAY, exp.DType.LIST) and len(to.expressions) == 1 and not to.args.get("values"):
        return list_of(_target_type(node, to.expressions[0]))
    if to.this == exp.DType.DECIMAL:
        sizes = [p.this.name for p in to.expressions] or ["18", "3"]
        if not all(re.fullmatch("[0-9]{1,2}", size) for size in sizes):
            raise refusal(node, f"a cast to {to.sql('duckdb')}")
        return dt.DecimalType(int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0)
    type_ = _NAMED_TYPES.get(to.this)
    if type_ is None or (to.expressions and not isinstance(type_, dt.StringType)):
        raise refusal(node, f"a cast to {to.sql('duckdb')}")
    return type_


_NAMED_TYPES: dict[exp.DType, dt.Type] = {
    exp.DType.BOOLEAN: dt.BooleanType(),
    exp.DType.TINYINT: dt.IntegerType(8),
    exp.DType.SMALLINT: dt.IntegerType(16),
    exp.DType.INT: dt.IntegerType(32),
    exp.DType.BIGINT: dt.IntegerType(64),
    exp.DType.INT128: HUGE,
    exp.DType.FLOAT: dt.FloatType(32),
    exp.DType.DOUBLE: dt.FloatType(64),
    exp.DType.VARCHAR: dt.StringType(),
    exp.DType.TEXT: dt.StringType(),
    exp.DType.DATE: dt.DateType(),
    exp.DType.TIMESTAMP: dt.TimestampType(),
    exp.DType.TIMESTAMPNTZ: dt.TimestampType(),
    exp.DType.TIMESTAMPTZ: dt.TimestampType(utc=True),
    exp.DType.VARBINARY: dt.BinaryType(),
}


_OF_WHOLE_NUMBERS = (dt.BooleanType, dt.IntegerType, dt.FloatType, dt.DecimalType, dt.StringType)


def _checked_cast(value: TypedSql, to: dt.Type) -> str | None:
    plain = f"CAST({value.sql} AS {type_name(to)})"
    match value.type, to:
        case left, right if str(left) == str(right):
            return value.sql
        case dt.ListType(element=left), dt.ListType(element=right):
            element = _checked_cast(TypedSql("v", left.type), right.type)
            return None if element is None else f"TRANSFORM({value.sql}, v -> {element})"
        case dt.StringType(), _:
            return _cast_text(value.sql, to)
        case dt.FloatType(bits=64), dt.DecimalType(precision=precision, scale=scale) if precision <= 18 and scale <= 16:
            # DuckDB rounds a double by multiplying it with a power of ten and rounding to an integer; Spark rounds its
            # decimal text.
            shifted = f"({value.sql} * {10.0**scale!r}D)"
            whole = f"CAST(CAST(ROUND(ABS({shifted}), 0) * SIGNUM({shifted}) AS BIGINT) AS DECIMAL(19, 0))"
            return f"CAST({whole} * CAST('1E-{scale}' AS DECIMAL({scale + 1}, {scale})) AS {type_name(to)})"
        case ((dt.DateType() | dt.TimestampType(unit="us")), dt.StringType()):
            zone = " || '+00'" if value.type == dt.TimestampType(utc=True) else ""
            text = f"CAST({value.sql} AS STRING){zone}"
            message = spark_text.text("the text of a date outside the years 1 to 9999")
            condition = f"YEAR({value.sql}) BETWEEN 1 AND 9999"
            return (
                f"CASE WHEN {value.sql} IS NULL THEN NULL WHEN {condition} THEN {text} ELSE RAISE_ERROR({message}) END"
            )
        case ((dt.BinaryType() | dt.FixedType()), dt.BinaryType()):
            return value.sql
        case ((dt.IntegerType() | dt.BooleanType()), _) if to == HUGE or isinstance(to, _OF_WHOLE_NUMBERS):
            return plain
        case dt.DecimalType(), _ if to == HUGE or isinstance(to, dt.IntegerType):
            # DuckDB rounds half away from zero; Spark would truncate.
            return f"CAST(ROUND({value.sql}, 0) AS {type_name(to)})"
        case dt.DecimalType(), (dt.DecimalType() | dt.FloatType(bits=64) | dt.StringType()):
            return plain
        case dt.FloatType(), dt.IntegerType():
            # DuckDB rounds half to even; Spark would truncate.
            return f"CAST(RINT({value.sql}) AS {type_name(to)})"
        case dt.FloatType(), dt.FloatType():
            return plain
        case huge, (dt.FloatType(bits=64) | dt.StringType() | dt.IntegerType() | dt.DecimalType()) if huge == HUGE:
            return plain
        case ((dt.DateType() | dt.TimestampType(unit="us")), (dt.DateType() | dt.TimestampType(unit="us"))):
            return plain
        case _:
            return None
