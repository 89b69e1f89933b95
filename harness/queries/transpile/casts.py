"""CAST: only where both engines give the same value for every value that neither refuses."""

from __future__ import annotations

from sqlglot import exp

from harness.filters.literals import Kind
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
)
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import HUGE, Typed, coerced, type_name


def cast(value: Typed, node: exp.Cast) -> Typed:
    """`CAST(value AS type)`. Raises UnsupportedError."""
    to = _type_of(node)
    if value.literal is not None and value.literal.kind is not Kind.STRING:
        # A literal that `literal_of` does not see through the cast: one that is rounded or does not fit.
        value = Typed(value.sql, value.type)
    if value.literal is not None:
        return Typed(coerced(value, to, "CAST"), to)
    sql = _converted(value, to)
    if sql is None:
        raise refused(node, f"a cast from {value.type} to {to}")
    return Typed(sql, to)


def _type_of(node: exp.Cast) -> Type:
    if node.args.get("format") is not None or node.args.get("default") is not None:
        raise refused(node, "a cast with a format")
    to = node.to
    if to.this == exp.DType.DECIMAL:
        sizes = [p.this.name for p in to.expressions] or ["18", "3"]
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
