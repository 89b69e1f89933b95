"""CAST: only where both engines give the same value for every value that neither refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.filters.literals import Kind
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    StringType,
    TimestampType,
    Type,
    UnknownType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import DOUBLE, HUGE, Typed, coerced, type_name

# Casts of texts that both engines read alike, by a regular expression; other texts are an error. DuckDB reads `1e3`,
# `0x10`, `1_000` and `1.5` as an INTEGER, `2024/1/5` as a DATE; Spark reads `1.5d` as a DOUBLE.


_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"


@dataclass(frozen=True, slots=True)
class _TextReading:
    """Texts of a type, as regular expressions of Java: texts that both engines read alike, and that neither reads."""

    alike: str
    neither: str


# Texts with a character that is in no number, or that begin as no number does.
_NO_NUMBER = r"\A\s*\z|[^0-9A-Za-z_.+\-\s]|\A\s*[^0-9+.\-\siInN]|\A[0-9]+-"
_INTEGER = _TextReading(r"\A *[+-]?[0-9]+ *\z", _NO_NUMBER)
_DECIMAL = _TextReading(rf"\A *[+-]?{_DIGITS} *\z", _NO_NUMBER)
_DOUBLE = _TextReading(rf"\A *[+-]?{_DIGITS}([eE][+-]?[0-9]+)? *\z", _NO_NUMBER)
_NO_DAY = r"\A(?!.*(?i:epoch|inf))([^0-9]*|[^-/\\ ]*)\z"
_DATE = _TextReading(rf"\A{_DAY}\z", _NO_DAY)
_TIMESTAMP = _TextReading(rf"\A{_DAY}([ T]{_CLOCK})?\z", _NO_DAY)
_BOOLEAN = _TextReading(r"\A(?i:t|true|y|yes|1|f|false|n|no|0)\z", r"\A(?!(?i:t|true|y|yes|1|f|false|n|no|0)\z)")


def _reading(to: Type) -> _TextReading | None:
    match to:
        case IntegerType():
            return _INTEGER
        case DecimalType():
            return _DECIMAL
        case FloatType(bits=64):
            return _DOUBLE
        case DateType():
            return _DATE
        case TimestampType(unit="us", utc=False):
            return _TIMESTAMP
        case BooleanType():
            return _BOOLEAN
        case _:
            return None


def read(text: str, to: Type) -> str | None:
    """`CAST(text AS to)`; None for types of which nothing is certain."""
    reading = _reading(to)
    return None if reading is None else _guarded(text, to, reading, "CAST", "")


def try_read(text: str, to: Type) -> str | None:
    """`TRY_CAST(text AS to)`; None for types of which nothing is certain."""
    reading = _reading(to)
    if reading is None:
        return None
    return _guarded(text, to, reading, "TRY_CAST", f"WHEN {text} RLIKE {spark_text.text(reading.neither)} THEN NULL ")


def _guarded(text: str, to: Type, reading: _TextReading, cast: str, none: str) -> str:
    message = spark_text.text(f"a text that DuckDB and Spark may read differently as {to}")
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} RLIKE {spark_text.text(reading.alike)} "
        f"THEN {cast}({text} AS {spark_text.type_name(to)}) {none}ELSE RAISE_ERROR({message}) END"
    )


def cast(value: Typed, node: exp.Cast) -> Typed:
    """`CAST(value AS type)`. Raises UnsupportedError."""
    to = _type_of(node)
    if value.literal is not None and value.literal.kind is not Kind.STRING:
        # A literal that `literal_of` does not see through the cast: one that is rounded or does not fit.
        value = Typed(value.sql, value.type)
    if value.literal is not None:
        try:
            return Typed(coerced(value, to, "CAST"), to)
        except UnsupportedError:
            value = Typed(value.sql, value.type)
    sql = _converted(value, to)
    if sql is None:
        raise refused(node, f"a cast from {value.type} to {to}")
    return Typed(sql, to)


def try_cast(value: Typed, node: exp.TryCast) -> Typed:
    """`TRY_CAST(value AS type)`: null where DuckDB has null. Raises UnsupportedError."""
    to = _type_of(node)
    if isinstance(value.type, UnknownType):
        return Typed(f"CAST(NULL AS {type_name(to)})", to)
    if isinstance(value.type, StringType) and not isinstance(to, StringType):
        sql = try_read(value.sql, to)
    else:
        sql = _converted(Typed(value.sql, value.type), to)
        # The outermost cast is the one that may fail.
        sql = f"TRY_{sql}" if sql is not None and sql.startswith("CAST(") and sql != value.sql else sql
    inexact = isinstance(value.type, FloatType) and isinstance(to, DecimalType | FloatType) and to != value.type
    if sql is None or isinstance(to, ListType) or (inexact and to != DOUBLE):
        raise refused(node, f"a cast from {value.type} to {to}")
    return Typed(sql, to)


def _type_of(node: exp.Cast) -> Type:
    if node.args.get("format") is not None or node.args.get("default") is not None:
        raise refused(node, "a cast with a format")
    return _named(node, node.to)


def _named(node: exp.Cast, to: exp.DataType) -> Type:
    if to.this in (exp.DType.ARRAY, exp.DType.LIST) and len(to.expressions) == 1 and not to.args.get("values"):
        return ListType(Field(id=0, name="element", type=_named(node, to.expressions[0])))
    if to.this == exp.DType.DECIMAL:
        sizes = [p.this.name for p in to.expressions] or ["18", "3"]
        if not all(re.fullmatch("[0-9]{1,2}", size) for size in sizes):
            raise refused(node, f"a cast to {to.sql('duckdb')}")
        return DecimalType(int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0)
    type_ = _TYPES.get(to.this)
    if type_ is None or (to.expressions and not isinstance(type_, StringType)):
        raise refused(node, f"a cast to {to.sql('duckdb')}")
    return type_


_TYPES: dict[exp.DType, Type] = {
    exp.DType.BOOLEAN: BooleanType(),
    exp.DType.TINYINT: IntegerType(8),
    exp.DType.SMALLINT: IntegerType(16),
    exp.DType.INT: IntegerType(32),
    exp.DType.BIGINT: IntegerType(64),
    exp.DType.INT128: HUGE,
    exp.DType.FLOAT: FloatType(32),
    exp.DType.DOUBLE: FloatType(64),
    exp.DType.VARCHAR: StringType(),
    exp.DType.TEXT: StringType(),
    exp.DType.DATE: DateType(),
    exp.DType.TIMESTAMP: TimestampType(),
    exp.DType.TIMESTAMPNTZ: TimestampType(),
    exp.DType.TIMESTAMPTZ: TimestampType(utc=True),
    exp.DType.VARBINARY: BinaryType(),
}


def _converted(value: Typed, to: Type) -> str | None:
    plain = f"CAST({value.sql} AS {type_name(to)})"
    match value.type, to:
        case left, right if str(left) == str(right):
            return value.sql
        case ListType(element=left), ListType(element=right):
            element = _converted(Typed("v", left.type), right.type)
            return None if element is None else f"TRANSFORM({value.sql}, v -> {element})"
        case StringType(), _:
            return read(value.sql, to)
        case FloatType(bits=64), DecimalType(precision=precision, scale=scale) if precision <= 18 and scale <= 16:
            # A double rounded as on DuckDB: times a power of ten, to the nearest whole number. Spark goes by its text.
            shifted = f"({value.sql} * {10.0**scale!r}D)"
            whole = f"CAST(CAST(ROUND(ABS({shifted}), 0) * SIGNUM({shifted}) AS BIGINT) AS DECIMAL(19, 0))"
            return f"CAST({whole} * CAST('1E-{scale}' AS DECIMAL({scale + 1}, {scale})) AS {type_name(to)})"
        case IntegerType(), BooleanType():
            return plain
        case ((DateType() | TimestampType(unit="us")), StringType()):
            zone = " || '+00'" if value.type == TimestampType(utc=True) else ""
            text = f"CAST({value.sql} AS STRING){zone}"
            message = spark_text.text("the text of a date outside the years 1 to 9999")
            known = f"YEAR({value.sql}) BETWEEN 1 AND 9999"
            return f"CASE WHEN {value.sql} IS NULL THEN NULL WHEN {known} THEN {text} ELSE RAISE_ERROR({message}) END"
        case ((BinaryType() | FixedType()), BinaryType()):
            return value.sql
        case ((IntegerType() | BooleanType()), (IntegerType() | FloatType() | DecimalType())):
            return plain
        case DecimalType(), IntegerType():
            # DuckDB rounds half away from zero; Spark would cut.
            return f"CAST(ROUND({value.sql}, 0) AS {type_name(to)})"
        case DecimalType(), (DecimalType() | FloatType(bits=64)):
            return plain
        case FloatType(), IntegerType():
            # DuckDB rounds half to even; Spark would cut.
            return f"CAST(RINT({value.sql}) AS {type_name(to)})"
        case FloatType(), FloatType():
            return plain
        case ((IntegerType() | BooleanType() | DecimalType()), StringType()):
            return plain
        case huge, (FloatType(bits=64) | StringType() | IntegerType() | DecimalType()) if huge == HUGE:
            return plain
        case ((IntegerType() | BooleanType()), huge) if huge == HUGE:
            return plain
        case DecimalType(), huge if huge == HUGE:
            return f"CAST(ROUND({value.sql}, 0) AS {type_name(to)})"
        case ((DateType() | TimestampType(unit="us")), (DateType() | TimestampType(unit="us"))):
            return plain
        case _:
            return None
