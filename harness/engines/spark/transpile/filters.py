"""Translation of filters to conditions in Spark's SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never

from sqlglot.errors import SqlglotError

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.expressions import Expressions
from harness.engines.spark.transpile.parser import check, parse_condition
from harness.engines.spark.transpile.values import TypedSql
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters import predicate as predicates
from harness.metadata.filters.literals import nearest_float32
from harness.metadata.filters.parse import reason
from harness.metadata.filters.predicate import Op
from harness.metadata.filters.sqltext import ColumnNames
from harness.metadata.model import schema as dt


def condition_of(predicate: predicates.Predicate, column: Callable[[dt.Field], str]) -> str:
    """Return a decided predicate as a condition that is true, false, or null for the same rows.

    Args:
        predicate: The predicate.
        column: Returns the expression of a field.
    """
    match predicate:
        case predicates.And(parts=parts):
            return f"({' AND '.join(condition_of(p, column) for p in parts)})" if parts else "true"
        case predicates.Or(parts=parts):
            return f"({' OR '.join(condition_of(p, column) for p in parts)})" if parts else "false"
        case predicates.Constant(value=None):
            return "CAST(NULL AS BOOLEAN)"
        case predicates.Constant(value=value):
            return "true" if value else "false"
        case predicates.Comparison(field=f, op=op, value=value):
            return _comparison(column(f), op, value, f)
        case predicates.In(field=f, values=values, negated=negated):
            if isinstance(f.type, dt.FloatType):
                # Spark searches long IN lists with a hash set, in which -0.0 is not 0.0. A NOT around the whole list
                # would be pushed to files.
                op, word = (Op.NE, " AND ") if negated else (Op.EQ, " OR ")
                return f"({word.join(_comparison(column(f), op, v, f) for v in values)})"
            return f"({column(f)} {'NOT ' if negated else ''}IN ({', '.join(_literal(v, f) for v in values)}))"
        case predicates.IsNull(field=f, negated=negated):
            return f"({column(f)} IS {'NOT ' if negated else ''}NULL)"
        case predicates.IsNan(field=f, negated=negated):
            # Spark's isnan is false for null, but SQL requires null. NaN equals NaN, so a comparison works.
            return _comparison(column(f), Op.NE if negated else Op.EQ, math.nan, f)
        case predicates.StartsWith(field=f, prefix=prefix, negated=negated):
            return f"({'NOT ' if negated else ''}STARTSWITH({column(f)}, {spark_text.text(prefix)}))"
        case predicates.Undecided():
            raise AssertionError("an undecided predicate has no condition of its own")
        case _ as unreachable:
            assert_never(unreachable)


def _comparison(column: str, op: Op, value: dt.CellValue, field: dt.Field) -> str:
    # Parquet statistics and dictionaries ignore NaN and distinguish -0.0 from 0.0, and Spark compares plain columns
    # with them. NANVL returns its first argument unchanged, but prevents this.
    if isinstance(field.type, dt.FloatType) and (
        op in (Op.GT, Op.GE, Op.NE) or (value is not None and (value == 0 or math.isnan(value)))
    ):
        column = f"NANVL({column}, {spark_text.literal(math.nan, field.type)})"
    return f"({column} {op.value} {_literal(value, field)})"


def _literal(value: dt.CellValue, field: dt.Field) -> str:
    is_double = isinstance(field.type, dt.FloatType) and value is not None and math.isfinite(value)
    if is_double and nearest_float32(value) != value:  # compare as doubles
        return spark_text.literal(value, dt.FloatType(64))
    return spark_text.literal(value, field.type)


def condition(filter: predicates.Filter, columns: Mapping[str, str]) -> str:
    """Return a filter as a condition in Spark's SQL. It is true for the same rows as the filter on DuckDB.

    A predicate that planning could interpret is translated from its exact values, any other filter from its text.

    Args:
        filter: The filter.
        columns: Spark's names by column name. The columns have the storage types described at `Snapshot.to_spark`.

    Raises:
        UnsupportedError: A part may mean something else on Spark. The message names the part.
    """
    if predicates.is_decided(filter.predicate):
        expressions_by_id = dict(_members(filter.columns, columns))
        return condition_of(filter.predicate, lambda field: expressions_by_id[field.id])
    return _from_text(filter, columns)


def _members(fields: tuple[dt.Field, ...], columns: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return expressions by field id, for the columns and the struct fields in them."""
    members = [(f.id, spark_text.name(columns[f.name])) for f in fields]
    pending = list(zip(fields, (sql for _, sql in members), strict=True))
    while pending:
        parent, base = pending.pop()
        if isinstance(parent.type, dt.StructType):
            inner = [(f, f"{base}.{spark_text.name(f.name)}") for f in parent.type.fields]
            members += [(f.id, sql) for f, sql in inner]
            pending += inner
    return members


def _from_text(filter: predicates.Filter, columns: Mapping[str, str]) -> str:
    names = ColumnNames(schema=dt.Schema(fields=filter.columns), table=None)
    expressions_by_id = dict(_members(filter.columns, columns))

    def resolve(path: tuple[str, ...]) -> TypedSql:
        column = names.resolve(path)
        if column.leaf is None:
            raise UnsupportedError(
                f"Cannot filter by {'.'.join(path)} on Spark: the type of a field of a metadata column is not known"
            )
        return TypedSql(expressions_by_id[column.leaf.id], column.leaf.type)

    try:
        try:
            parsed = parse_condition(filter.sql)
        except SqlglotError as error:
            raise RequestError(f"Cannot parse the filter as duckdb SQL: {reason(error)}.") from error
        check(parsed)
        return Expressions(resolve).boolean(parsed)
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None
