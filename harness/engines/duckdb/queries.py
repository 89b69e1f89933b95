"""Queries over several plans, each of them a view."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from harness.engines.duckdb.engine import connect, register
from harness.engines.duckdb.lowering import Use
from harness.engines.duckdb.unbound import better_told
from harness.plan import ScanPlan
from harness.schema import arrow_field


def query(
    text: str, plans: Mapping[str, ScanPlan], connection: duckdb.DuckDBPyConnection | None = None
) -> duckdb.DuckDBPyRelation:
    """The result of a query that reads plans by name, as a lazy relation.

    Args:
        text: one query in DuckDB's dialect.
        plans: by the name that the query calls each. Their filters must be implied by the query's own conditions.
        connection: the user's, or None for a new one; the names become temporary views on it.

    Raises:
        HarnessError: as for `register`.
        duckdb.Error: DuckDB refuses the query.
    """
    own = connect() if connection is None else connection
    for name, plan in plans.items():
        register(plan, own, name, use=Use.ONCE)
    try:
        return own.sql(text)
    except duckdb.BinderException as error:
        raise better_told(error, text, plans, own) from None


def columns_of(text: str, plans: Mapping[str, ScanPlan]) -> tuple[tuple[str, str], ...]:
    """Name and DuckDB type of the columns that `query` gives for the same arguments; reads no file.

    Raises:
        duckdb.Error: DuckDB refuses the query.
    """
    connection = connect()
    for name, plan in plans.items():
        rows = pa.schema([arrow_field(f) for f in plan.columns] or [pa.field("NULL", pa.int32())]).empty_table()
        connection.register(name, rows)
    try:
        result = connection.sql(text)
    except duckdb.BinderException as error:
        raise better_told(error, text, plans, connection) from None
    return tuple(zip(result.columns, map(str, result.types), strict=True))
