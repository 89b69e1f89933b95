"""Filters as conditions on Spark."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from harness.errors import RequestError, UnsupportedError
from harness.filters.column_names import Names
from harness.filters.parse import reason
from harness.filters.predicate import Filter, is_decided
from harness.model.schema import Field, Schema, StructType
from harness.queries.transpile import spark_text
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.nodes import check
from harness.queries.transpile.parser import parse_condition
from harness.queries.transpile.predicates import condition_of
from harness.queries.transpile.values import Typed


def condition(filter: Filter, columns: Mapping[str, str]) -> str:
    """The filter as a condition in Spark's SQL, true for the rows for which it is true on DuckDB.

    Where planning understood all of it, it is written from the predicate, whose values are exact; else from the text.

    Args:
        columns: by name of a column, the name that it has on Spark, where its values travel as `Snapshot.to_spark`
            says.

    Raises:
        UnsupportedError: a part that may mean different things on the two engines; the message names it.
    """
    if is_decided(filter.predicate):
        known = dict(_members(filter.columns, columns))
        return condition_of(filter.predicate, lambda field: known[field.id])
    return _from_text(filter, columns)


def _members(fields: tuple[Field, ...], columns: Mapping[str, str]) -> list[tuple[int, str]]:
    """Expressions by field id, for the columns and the fields of structs in them."""
    found = [(f.id, spark_text.name(columns[f.name])) for f in fields]
    pending = list(zip(fields, (sql for _, sql in found), strict=True))
    while pending:
        parent, base = pending.pop()
        if isinstance(parent.type, StructType):
            inner = [(f, f"{base}.{spark_text.name(f.name)}") for f in parent.type.fields]
            found += [(f.id, sql) for f, sql in inner]
            pending += inner
    return found


def _from_text(filter: Filter, columns: Mapping[str, str]) -> str:
    names = Names(schema=Schema(fields=filter.columns), case_sensitive=True, table=None)
    known = dict(_members(filter.columns, columns))

    def resolve(path: tuple[str, ...]) -> Typed:
        found = names.resolve(path)
        if found.leaf is None:
            raise UnsupportedError(
                f"Cannot filter by {'.'.join(path)} on Spark: the type of a field of a metadata column is not known"
            )
        return Typed(known[found.leaf.id], found.leaf.type)

    try:
        return Expressions(resolve).boolean(_parsed(filter.sql))
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None


def _parsed(sql: str) -> exp.Expr:
    try:
        parsed = parse_condition(sql)
    except SqlglotError as error:
        raise RequestError(f"Cannot parse the filter as duckdb SQL: {reason(error)}.") from error
    check(parsed)
    return parsed
