"""SQL over tables: the text's own conditions decide which files are read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from harness.engine import duckdb_engine
from harness.errors import RequestError
from harness.query_sql import rewrite
from harness.table import Snapshot, Table, open_table

if TYPE_CHECKING:
    import duckdb

_calls = itertools.count()


def sql(
    query: str,
    /,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    dialect: str = "duckdb",
    **tables: Table | Snapshot | str,
) -> duckdb.DuckDBPyRelation:
    """The result of a query over tables, as a lazy DuckDB relation.

        harness.sql("SELECT region, sum(total) FROM orders WHERE day >= '2024-06-01' GROUP BY region", orders=table)

    The conditions that concern one table reach its planning, so that files and row groups are skipped; the whole query
    then runs on DuckDB. Each mention of a table is planned by itself.

    Args:
        query: one statement that only reads.
        connection: yours, so that its own tables can be named too, or None for a new one. The views that are made on it
            are temporary.
        dialect: sqlglot's name of the dialect of `query`; it is translated to DuckDB's.
        tables: what the names in the query stand for: a table (at its current snapshot), a snapshot, or a location.

    Raises:
        RequestError: the query cannot be parsed, or writes.
        HarnessError: as for `Snapshot.plan`.
        duckdb.Error: DuckDB refuses the query, such as for an unknown column.
    """
    snapshots = {name: _snapshot(name, value) for name, value in tables.items()}
    schemas = {name: snapshot.schema for name, snapshot in snapshots.items()}
    rewritten = rewrite(query, schemas, dialect, prefix=f"_harness_{next(_calls)}")
    plans = {
        reference.view: snapshots[reference.table].plan(columns=reference.columns, where=reference.where)
        for reference in rewritten.references
    }
    return duckdb_engine().query(rewritten.sql, plans, connection)


def _snapshot(name: str, value: Table | Snapshot | str) -> Snapshot:
    match value:
        case Snapshot():
            return value
        case Table():
            return value.snapshot()
        case str():
            return open_table(value).snapshot()
        case _:
            raise RequestError(f"Invalid table {name!r}: expected a table, a snapshot or a location, got {value!r}")
