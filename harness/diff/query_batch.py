"""Many queries, each run on two sides and compared, for example to check a migration.

Columns whose last bits depend on the engine are compared within allowances (`harness.queries.allowances`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from harness.diff.closeness import MOST_ROWS
from harness.diff.compare import compare
from harness.diff.opening import Query, SideOpening, engine_version, last_bit_tolerances
from harness.diff.paths import is_inside
from harness.diff.result import BatchEntry, BatchOutcome, ComparisonResult, QueryFile, batch_entry
from harness.diff.tolerances import FLOATS
from harness.engines.spark.transpile.parser import to_duckdb
from harness.errors import HarnessError, RequestError, UnsupportedError
from harness.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """The options that the queries of a batch share.

    Attributes:
        engines: The engine of the left and of the right side.
        tables: The tables of the left and of the right side.
        dialect: The dialect of the queries. Engines other than Spark run Spark queries in DuckDB's dialect, and refuse
            them if their meaning there is not certain.
        max_rows: The most differing rows to show for a query.
    """

    engines: tuple[str, str]
    tables: tuple[Mapping[str, Snapshot], Mapping[str, Snapshot]]
    dialect: str = "duckdb"
    max_rows: int = 20

    def run_query(self, query: QueryFile) -> BatchEntry:
        """Run a query on both sides and compare the results.

        Raises:
            RequestError: The query's options do not fit its columns.
        """
        results: list[pa.Table | HarnessError] = []
        seconds: list[float] = []
        try:
            requested = [
                Query(to_duckdb(query.text), tables)
                if self.dialect == "spark" and engine != "spark"
                else Query(query.text, tables, self.dialect)
                for tables, engine in zip(self.tables, self.engines, strict=True)
            ]
            for each, engine in zip(requested, self.engines, strict=True):
                start = time.perf_counter()
                results.append(_read_rows(each.run(engine, None)))
                seconds.append(time.perf_counter() - start)
        except (RequestError, UnsupportedError) as error:
            return BatchEntry(name=query.name, outcome=BatchOutcome.REFUSED, message=str(error))
        comparison, reasons = self._compare(query, requested[1], results[0], results[1])
        return batch_entry(query.name, comparison, message=reasons, seconds=(seconds[0], seconds[1]))

    def _compare(
        self, query: QueryFile, sql_query: Query, left: pa.Table | HarnessError, right: pa.Table | HarnessError
    ) -> tuple[ComparisonResult, str | None]:
        """Return the comparison, and a text that names the tolerances if the results are equal only because of them."""
        has_two_texts = self.dialect == "spark" and self.engines[0] != self.engines[1]
        tolerance = dict(query.tolerance)
        if isinstance(left, pa.Table) and isinstance(right, pa.Table):
            if self.dialect != "duckdb" and len(left.schema) == len(right.schema):
                right = right.rename_columns(left.column_names)  # engines name unnamed columns differently
            if FLOATS not in tolerance or FLOATS in left.column_names:
                untouched = {*tolerance, *query.keys, *query.exclude}
                allowed = last_bit_tolerances(sql_query, left.column_names)
                floats = _floats(left) & _floats(right) - untouched
                tolerance |= {name: each for name, each in allowed.items() if name in floats}
        result = compare(
            left,
            right,
            keys=query.keys,
            engines=self.engines,
            tolerance=tolerance,
            exclude=query.exclude,
            types="by_value" if has_two_texts else None,  # the engines return different types for the same expression
            max_rows=self.max_rows,
            names=[f"{query.name} on {engine_version(engine)}" for engine in self.engines],
        )
        columns = [each.column for each in result.by_column if each.allowed]
        names = sorted(
            name for name in tolerance if name == FLOATS or any(name == c or is_inside(name, c) for c in columns)
        )
        if not (result.equal and columns):
            return result, None
        return result, "; ".join(f"{name} within {tolerance[name]}" for name in names)


def _floats(rows: pa.Table) -> set[str]:
    return {field.name for field in rows.schema if pa.types.is_floating(field.type)}


def _read_rows(result: object) -> pa.Table | HarnessError:
    """Return the rows of a result. If the result is an error, or reading it raises one, return the error."""
    if isinstance(result, HarnessError):
        return result
    opening = SideOpening(data=result, label="", name=None, engine="", columns=None, where=None, spark=None)
    try:
        with ExitStack() as resources:
            opened = opening.open(MOST_ROWS, resources)
            rows = opened.head(opened.schema.names, MOST_ROWS + 1)
    except HarnessError as error:
        if isinstance(error, RequestError | UnsupportedError):
            raise
        return error
    if rows.num_rows > MOST_ROWS:  # a larger result would check tables rather than queries
        raise RequestError(f"The result has more than {MOST_ROWS:,} rows: compare the tables, or aggregate")
    return rows
