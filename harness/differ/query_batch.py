"""Many queries, each run on two sides and compared: the check of a migration.

A column whose last bits depend on the engine is compared within its allowance (`harness.queries.allowances`), and the
entry says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

import harness.queries.sql
from harness.differ.compare import compare
from harness.differ.opening import SideOpening, named_allowances
from harness.differ.relaxations import ALL_TYPE_RULES
from harness.differ.relaxed import MOST_ROWS
from harness.differ.result import BatchEntry, BatchOutcome, ComparisonResult, QueryFile, SideInfo, entry_of
from harness.engines.registry import find_engine
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError
from harness.queries.transpile.parser import to_duckdb
from harness.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """The engines, tables and dialect that the queries of a batch share.

    engines, tables: of the left and of the right side. dialect: of the queries; Spark's run as they are on Spark, and
    elsewhere in DuckDB's dialect where it is certain what they mean there.
    """

    engines: tuple[str, str]
    tables: tuple[Mapping[str, Snapshot], Mapping[str, Snapshot]]
    dialect: str = "duckdb"
    max_rows: int = 20

    def entry(self, query: QueryFile) -> BatchEntry:
        """Runs a query on both sides, and compares. Raises RequestError: its options do not fit its columns."""
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
        """The text that an engine runs, and its dialect."""
        if self.dialect == "spark" and engine != "spark":
            return to_duckdb(text), "duckdb"
        return text, self.dialect

    def _result(self, side: int, text: str, dialect: str) -> pa.Table:
        try:
            result = harness.queries.sql.run_query(text, self.tables[side], engine=self.engines[side], dialect=dialect)
        except duckdb.Error as error:
            raise EngineError(f"DuckDB cannot run the query: {' '.join(str(error).split())}") from error
        opening = SideOpening(data=result, label="", name=None, engine="", columns=None, where=None, spark=None)
        with ExitStack() as resources:
            opened = opening.open(MOST_ROWS, resources)
            rows = opened.head(opened.schema.names, MOST_ROWS + 1)
        if rows.num_rows > MOST_ROWS:  # a query of more is no check of a query, but of a table
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
        """The comparison, and the allowances where it is equal because of them alone."""
        own = query.relaxations
        if self.dialect == "spark" and self.engines[0] != self.engines[1] and own.types is None:
            own = replace(own, types=ALL_TYPE_RULES)  # each engine gives its own types, as the text is its own
        exact = own if query.keys else replace(own, tolerance={})
        floats = [field.name for field in left.schema if pa.types.is_floating(field.type)]
        given = own.with_floats(floats, left.column_names).tolerances
        schemas = {name: snapshot.schema for name, snapshot in self.tables[1].items()}
        allowed = named_allowances(text, schemas, left.column_names)
        allowances = {n: allowed[n] for n in floats if n in allowed} | ({} if query.keys else given)
        found = compare(
            left,
            right,
            keys=query.keys,
            relaxations=exact,
            max_rows=self.max_rows,
            names=[f"{query.name} on {self._engine(engine)}" for engine in self.engines],
            allowances=allowances,
        )
        used = sorted(each.column for each in found.by_column if each.column in allowances and each.allowed)
        return found, "; ".join(f"{name} within {allowances[name]}" for name in used) if found.equal and used else None


def _refused(query: QueryFile, error: HarnessError) -> BatchEntry:
    return BatchEntry(name=query.name, outcome=BatchOutcome.REFUSED, message=str(error))
