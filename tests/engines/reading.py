"""Rows of a test table, read through every interface to DuckDB. All interfaces must agree."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import harness
from harness.engines.column_values import conform
from harness.engines.duckdb import relations as engine
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.relations import QueryUse
from harness.writing.iceberg.builder import IcebergTable


def arrow(
    table: IcebergTable, columns: Sequence[str] | None = None, where: str | None = None, **options: Any
) -> pa.Table:
    """Return the current rows, after asserting that a query and a view return the same rows.

    `options` are for `open_table`.
    """
    plan = harness.open_table(str(table.store.directory), **options).snapshot().plan(columns, where)
    at_once = engine.to_arrow(plan)
    if at_once.num_columns and len({name.lower() for name in at_once.column_names}) == at_once.num_columns:
        con = cursor()
        for use in (QueryUse.ONCE, QueryUse.VIEW):
            engine.register(plan, con, "v", use=use)
            assert con.execute("SELECT count(*) FROM v").fetchall() == [(at_once.num_rows,)], use
        assert values(conform(pa.table(con.sql("FROM v")), at_once.schema)) == values(at_once)
    return at_once


def rows(
    table: IcebergTable, columns: Sequence[str] | None = None, where: str | None = None, **options: Any
) -> list[tuple[Any, ...]]:
    """Return the current rows as tuples in a fixed order."""
    return values(arrow(table, columns, where, **options))


def in_order(unsorted_rows: Any) -> list[tuple[Any, ...]]:
    """Sort rows like `rows`, including nulls and mixed types."""
    return sorted(unsorted_rows, key=repr)


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as tuples in a fixed order. Values without a Python type are ints, and NaN is the text `nan`."""
    if not table.num_columns or not table.num_rows:
        return [()] * table.num_rows
    columns = [[_plain(v) for v in _countable(c.combine_chunks()).to_pylist()] for c in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _countable(array: pa.Array) -> pa.Array:
    """Convert top-level dates and times to ints, because Python's end in the year 9999."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32())
    return array.view(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) else array


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
