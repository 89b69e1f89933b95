"""CAST: only where both engines give the same value for every value that neither refuses."""

from __future__ import annotations

import re

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.filters.literals import Kind
from harness.metadata.model import schema as dt
from harness.queries.transpile import spark_text
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import DOUBLE, HUGE, Typed, coerced, type_name

# Casts of texts that both engines read alike, by a regular expression; other texts are an error. DuckDB reads `1e3`,
# `0x10`, `1_000` and `1.5` as an INTEGER, `2024/1/5` as a DATE; Spark reads `1.5d` as a DOUBLE.


_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"


# For a type, texts that both engines read alike, and texts that neither reads, as regular expressions of Java.
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


def _read(text: str, to: dt.Type, cast: str = "CAST") -> str | None:
    """`CAST(text AS to)`, or `TRY_CAST`; None for types of which nothing is certain."""
    reading = _DECIMAL if isinstance(to, dt.DecimalType) else _READINGS.get(to)
    if reading is None:
        return None
    known, unknown = map(spark_text.text, reading)
    none = f"WHEN {text} RLIKE {unknown} THEN NULL " if cast == "TRY_CAST" else ""
    message = spark_text.text(f"a text that DuckDB and Spark may read differently as {to}")
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} RLIKE {known} "
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
    if isinstance(value.type, dt.UnknownType):
        return Typed(f"CAST(NULL AS {type_name(to)})", to)
    if isinstance(value.type, dt.StringType) and not isinstance(to, dt.StringType):
        sql = _read(value.sql, to, "TRY_CAST")
    else:
        sql = _converted(Typed(value.sql, value.type), to)
        # The outermost cast is the one that may fail.
        sql = f"TRY_{sql}" if sql is not None and sql.startswith("CAST(") and sql != value.sql else sql
    inexact = isinstance(value.type, dt.FloatType) and isinstance(to, dt.DecimalType | dt.FloatType)
    if sql is None or isinstance(to, dt.ListType) or (inexact and to not in (DOUBLE, value.type)):
        raise refused(node, f"a cast from {value.type} to {to}")
    return Typed(sql, to)


def _type_of(node: exp.Cast) -> dt.Type:
    if node.args.get("format") is not None or node.args.get("default") is not None:
        raise refused(node, "a cast with a format")
    return _named(node, node.to)


def _named(node: exp.Cast, to: exp.DataType) -> dt.Type:
    if to.this in (exp.DType.ARRAY, exp.DType.LIST) and len(to.expressions) == 1 and not to.args.get("values"):
        return dt.ListType(dt.Field(id=0, name="element", type=_named(node, to.expressions[0])))
    if to.this == exp.DType.DECIMAL:
        sizes = [p.this.name for p in to.expressions] or ["18", "3"]
        if not all(re.fullmatch("[0-9]{1,2}", size) for size in sizes):
            raise refused(node, f"a cast to {to.sql('duckdb')}")
        return dt.DecimalType(int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0)
    type_ = _TYPES.get(to.this)
    if type_ is None or (to.expressions and not isinstance(type_, dt.StringType)):
        raise refused(node, f"a cast to {to.sql('duckdb')}")
    return type_


_TYPES: dict[exp.DType, dt.Type] = {
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


def _converted(value: Typed, to: dt.Type) -> str | None:
    plain = f"CAST({value.sql} AS {type_name(to)})"
    match value.type, to:
        case left, right if str(left) == str(right):
            return value.sql
        case dt.ListType(element=left), dt.ListType(element=right):
            element = _converted(Typed("v", left.type), right.type)
            return None if element is None else f"TRANSFORM({value.sql}, v -> {element})"
        case dt.StringType(), _:
            return _read(value.sql, to)
        case dt.FloatType(bits=64), dt.DecimalType(precision=precision, scale=scale) if precision <= 18 and scale <= 16:
            # A double rounded as on DuckDB: times a power of ten, to the nearest whole number. Spark goes by its text.
            shifted = f"({value.sql} * {10.0**scale!r}D)"
            whole = f"CAST(CAST(ROUND(ABS({shifted}), 0) * SIGNUM({shifted}) AS BIGINT) AS DECIMAL(19, 0))"
            return f"CAST({whole} * CAST('1E-{scale}' AS DECIMAL({scale + 1}, {scale})) AS {type_name(to)})"
        case ((dt.DateType() | dt.TimestampType(unit="us")), dt.StringType()):
            zone = " || '+00'" if value.type == dt.TimestampType(utc=True) else ""
            text = f"CAST({value.sql} AS STRING){zone}"
            message = spark_text.text("the text of a date outside the years 1 to 9999")
            known = f"YEAR({value.sql}) BETWEEN 1 AND 9999"
            return f"CASE WHEN {value.sql} IS NULL THEN NULL WHEN {known} THEN {text} ELSE RAISE_ERROR({message}) END"
        case ((dt.BinaryType() | dt.FixedType()), dt.BinaryType()):
            return value.sql
        case ((dt.IntegerType() | dt.BooleanType()), _) if to == HUGE or isinstance(to, _OF_WHOLE_NUMBERS):
            return plain
        case dt.DecimalType(), _ if to == HUGE or isinstance(to, dt.IntegerType):
            # DuckDB rounds half away from zero; Spark would cut.
            return f"CAST(ROUND({value.sql}, 0) AS {type_name(to)})"
        case dt.DecimalType(), (dt.DecimalType() | dt.FloatType(bits=64) | dt.StringType()):
            return plain
        case dt.FloatType(), dt.IntegerType():
            # DuckDB rounds half to even; Spark would cut.
            return f"CAST(RINT({value.sql}) AS {type_name(to)})"
        case dt.FloatType(), dt.FloatType():
            return plain
        case huge, (dt.FloatType(bits=64) | dt.StringType() | dt.IntegerType() | dt.DecimalType()) if huge == HUGE:
            return plain
        case ((dt.DateType() | dt.TimestampType(unit="us")), (dt.DateType() | dt.TimestampType(unit="us"))):
            return plain
        case _:
            return None
