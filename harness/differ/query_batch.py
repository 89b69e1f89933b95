"""Many queries, each run on two sides and compared: the check of a migration.

A column whose last bits depend on the engine (`harness.queries.allowances`) is compared within its allowance, which the
entry says. Rows are then paired by the other columns, and among equal ones in the order of their values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import harness.query
from harness.differ.batch import BatchEntry, BatchOutcome, entry_of
from harness.differ.compare import compare
from harness.differ.opening import Opening
from harness.differ.query_file import QueryFile
from harness.differ.relaxations import ALL_TYPE_RULES, Measure, Relaxations, Tolerance
from harness.differ.result import ComparisonResult, SideInfo
from harness.differ.storage_types import carried
from harness.engines.registry import find_engine
from harness.engines.shared.running_queries import tracked
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError
from harness.queries.allowances import allowances
from harness.queries.transpile.from_spark import to_duckdb
from harness.snapshot import Snapshot

MOST_ROWS = 2_000_000
"""Rows of a result that is held in memory; a query of more is no check of a query, but of a table."""
_PLACE = "place among equal rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """What the queries of a batch have in common.

    engines, tables: of the left and of the right side. dialect: of the queries; Spark's run as they are on Spark, and
    elsewhere in DuckDB's dialect where it is certain what they mean there.
    """

    engines: tuple[str, str]
    tables: tuple[Mapping[str, Snapshot], Mapping[str, Snapshot]]
    dialect: str = "duckdb"
    max_rows: int = 20

    def entry(self, query: QueryFile) -> BatchEntry:
        """Runs a query on both sides, and compares.

        Raises:
            RequestError: its options do not fit its columns.
        """
        try:
            texts = [self._text(query.text, engine) for engine in self.engines]
        except (RequestError, UnsupportedError) as error:
            return _refused(query, error)
        results: list[pa.Table | HarnessError] = []
        seconds: list[float | None] = []
        for side in (0, 1):
            start = time.perf_counter()
            try:
                results.append(self._result(side, *texts[side]))
            except (RequestError, UnsupportedError) as error:
                return _refused(query, error)
            except HarnessError as error:
                results.append(error)
            seconds.append(time.perf_counter() - start)
        times = (seconds[0], seconds[1])
        left, right = results
        if isinstance(left, HarnessError) or isinstance(right, HarnessError):
            return entry_of(query.name, self._outcome(left, right), seconds=times)
        if self.dialect != "duckdb" and len(left.schema) == len(right.schema):
            right = right.rename_columns(left.column_names)  # columns without a name are called otherwise
        comparison, reasons = self._compared(query, texts[1][0], left, right)
        return entry_of(query.name, comparison, message=reasons, allowed=reasons is not None, seconds=times)

    def _text(self, text: str, engine: str) -> tuple[str, str]:
        """What an engine is asked, and in which dialect."""
        if self.dialect == "spark" and engine != "spark":
            return to_duckdb(text), "duckdb"
        return text, self.dialect

    def _result(self, side: int, text: str, dialect: str) -> pa.Table:
        try:
            tables: dict[str, Any] = dict(self.tables[side])
            result = harness.query.sql(text, engine=self.engines[side], dialect=dialect, **tables)
        except duckdb.Error as error:
            raise EngineError(f"DuckDB cannot run the query: {' '.join(str(error).split())}") from error
        opening = Opening(data=result, label="", name=None, engine="", columns=None, where=None, spark=None)
        with ExitStack() as resources:
            opened = opening.open(MOST_ROWS, resources)
            rows = opened.head(opened.schema.names, MOST_ROWS + 1)
        if rows.num_rows > MOST_ROWS:
            raise RequestError(f"A result of more than {MOST_ROWS:,} rows: compare the tables, or aggregate")
        return rows

    def _outcome(self, *results: pa.Table | HarnessError) -> ComparisonResult:
        infos = []
        for engine, result in zip(self.engines, results, strict=True):
            info = SideInfo(name="query", engine=self._engine(engine))
            failed = result if isinstance(result, HarnessError) else None
            infos.append(replace(info, error=failed, rows=None if isinstance(result, HarnessError) else len(result)))
        return ComparisonResult(left=infos[0], right=infos[1])

    def _engine(self, name: str) -> str:
        return f"{name} {find_engine(name).version()}"

    def _compared(
        self, query: QueryFile, text: str, left: pa.Table, right: pa.Table
    ) -> tuple[ComparisonResult, str | None]:
        """The comparison; and where it is equal because of allowances alone, what these are."""
        names = (f"{query.name} on {self._engine(self.engines[0])}", f"{query.name} on {self._engine(self.engines[1])}")

        def compared(a: pa.Table, b: pa.Table, keys: Sequence[str], relaxations: Relaxations) -> ComparisonResult:
            return compare(a, b, keys=keys, relaxations=relaxations, max_rows=self.max_rows, names=names)

        own = query.relaxations
        if self.dialect == "spark" and self.engines[0] != self.engines[1] and own.types is None:
            own = replace(own, types=ALL_TYPE_RULES)  # each engine gives its own types, as the text is its own
        exact = own if query.keys else replace(own, tolerances={})
        first = compared(left, right, query.keys, exact)
        given = {name: tolerance for name, tolerance in own.tolerances.items() if not query.keys}
        within = {**self._allowed(text, left), **given}
        within = {n: t for n, t in within.items() if n not in (*query.keys, *exact.tolerances, *own.exclude)}
        if first.equal or not within or left.num_rows != right.num_rows:
            return first, None
        relaxed = replace(own, tolerances={**exact.tolerances, **within})
        second = compared(left, right, query.keys, relaxed) if query.keys else _paired(left, right, relaxed, compared)
        if second is None or not second.equal:
            return second or first, None
        used = [f"{name} within {within[name]}" for name in sorted(within) if _differs(second, name)]
        return second, "; ".join(used) or None

    def _allowed(self, text: str, rows: pa.Table) -> dict[str, Tolerance]:
        """By name of a column of the result, how far its last bits may differ."""
        schemas = {name: snapshot.schema for name, snapshot in self.tables[1].items()}
        found = allowances(text, schemas)
        return {
            rows.column_names[place]: Tolerance(Decimal(each.ulps), Measure.ULPS, each.reason)
            for place, each in found.items()
            if place < rows.num_columns and pa.types.is_floating(rows.schema.types[place])
        }


_Compared = Callable[[pa.Table, pa.Table, Sequence[str], Relaxations], ComparisonResult]


def _paired(left: pa.Table, right: pa.Table, relaxed: Relaxations, compared: _Compared) -> ComparisonResult | None:
    """The comparison of rows paired by all columns without a tolerance; None: these cannot pair them."""
    if left.column_names != right.column_names or relaxed.rename or relaxed.changes_text:
        return None
    exact = [name for name in left.column_names if name not in relaxed.tolerances and name not in relaxed.exclude]
    try:
        sides = [_placed(rows, exact, list(relaxed.tolerances)) for rows in (left, right)]
    except duckdb.Error:
        return None
    return compared(sides[0], sides[1], [*exact, _PLACE], relaxed)


def _placed(rows: pa.Table, exact: Sequence[str], close: Sequence[str]) -> pa.Table:
    """The rows with their places among those that agree in all exact columns, by the values of the close ones."""
    texts = {name: f"c{i}" for i, name in enumerate(rows.column_names)}
    partition = f"PARTITION BY {', '.join(texts[name] for name in exact)} " if exact else ""
    connection = tracked(duckdb.connect())
    try:
        held = carried(rows).append_column("row_number", pa.array(range(rows.num_rows), pa.int64()))
        connection.register("rows", held)
        order = ", ".join(texts[name] for name in close)
        places = connection.sql(
            f'SELECT row_number() OVER ({partition}ORDER BY {order}) AS p FROM rows ORDER BY "row_number"'
        )
        return rows.append_column(_PLACE, pa.table(places).column(0))
    finally:
        connection.close()


def _differs(comparison: ComparisonResult, column: str) -> bool:
    return any(each.column == column for each in comparison.by_column)


def _refused(query: QueryFile, error: HarnessError) -> BatchEntry:
    return BatchEntry(name=query.name, outcome=BatchOutcome.REFUSED, message=str(error))
