"""`HarnessSession`: opens, queries, and compares tables for one test, with the engines of the test run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.diff.compare import compare
from harness.diff.opening import Query, resolve_side
from harness.diff.result import ComparisonResult
from harness.diff.sources import RowSource, default_engines
from harness.engines.duckdb.instance import connect
from harness.queries.parameters import Params
from harness.queries.sql import sql
from harness.snapshot import Changes, Snapshot
from harness.table import Table, open_table
from harness.testing.lake import LakeTable
from harness.testing.same_rows import assert_same_rows

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

_NO_SIDE = object()
"""Stands for a right side that is not given."""


class HarnessSession:
    """Opens, queries, and compares tables. The first call that needs Spark starts it, once for all tests.

    Attributes:
        engines: The names of the engines of the test run.
        allowed_roots: Directories that tables may read in addition to their own directory.
    """

    def __init__(
        self, engines: tuple[str, ...], start_spark: Callable[[], SparkSession], *, allowed_roots: tuple[str, ...] = ()
    ) -> None:
        self.engines = engines
        self.allowed_roots = allowed_roots
        self._start_spark = start_spark
        self._connection: duckdb.DuckDBPyConnection | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """This test's DuckDB connection, with the settings that harness uses for reads."""
        if self._connection is None:
            self._connection = connect(lossless=False)
        return self._connection

    @property
    def spark(self) -> SparkSession:
        """The Spark session of the test run. If Spark cannot start, the test fails or is skipped."""
        return self._start_spark()

    def open(self, location: str | Path | LakeTable, **options: Any) -> Table:
        """Open the table at a location.

        Args:
            location: A location, a name, or a `LakeTable`.
            options: Keyword arguments of `harness.open_table`. `allowed_roots` are added to the roots of the test run.

        Returns:
            The table.

        Raises:
            HarnessError: As for `harness.open_table`.
        """
        roots = (*self.allowed_roots, *options.pop("allowed_roots", ()))
        address = location.location if isinstance(location, LakeTable) else str(location)
        return open_table(address, allowed_roots=roots, **options)

    def sql(
        self,
        query: str,
        tables: Mapping[str, object] | None = None,
        *,
        params: Params = None,
        engine: str | None = None,
        dialect: str = "duckdb",
        storage_options: Mapping[str, object] | None = None,
    ) -> duckdb.DuckDBPyRelation | DataFrame:
        """Return the result of a query, on this test's connection or on Spark.

        Args:
            query: The query.
            tables: The tables by the names in the query, as for `harness.sql`. A `LakeTable` is a table too.
            params: As for `harness.sql`.
            engine: `duckdb` or `spark`. None: the first engine of the test run.
            dialect: As for `harness.sql`.
            storage_options: As for `harness.open_table`.

        Returns:
            A lazy DuckDB relation, or a Spark DataFrame.

        Raises:
            HarnessError: As for `harness.sql`.
        """
        name = self.engines[0] if engine is None else engine
        spark = self.spark if name == "spark" else None
        connection = self.connection if name == "duckdb" else None
        sources: dict[str, object] = {
            key: self.open(table, storage_options=storage_options) if isinstance(table, str | LakeTable) else table
            for key, table in (tables or {}).items()
        }
        return sql(query, sources, params=params, engine=name, dialect=dialect, connection=connection, spark=spark)

    def compare(self, left: object, right: object = _NO_SIDE, **options: Any) -> ComparisonResult:
        """Compare two sides, as `harness.compare` does. A `LakeTable` is a table too.

        If `engines` is not given, the first engine of the test run reads the left table and the last engine the right
        one. A table without a right side is read by both; if the run has only one engine, by DuckDB and Spark.

        Args:
            left: The left side.
            right: The right side. If it is left out, the left side is read twice.
            options: Keyword arguments of `harness.compare`.

        Returns:
            The comparison.

        Raises:
            HarnessError: As for `harness.compare`.
        """
        sides = (left,) if right is _NO_SIDE else (left, right)
        return compare(*self._prepare_sides(sides, options), **options)

    def assert_same_rows(
        self, left: object, right: object, *, keys: Sequence[str] | None = None, **options: object
    ) -> None:
        """Fail unless both sides are the same rows, as for `harness.testing.assert_same_rows`.

        Args:
            left: A table, a result, or a list of rows.
            right: A table, a result, or a list of rows.
            keys: The columns that identify a row. None: rows are counted.
            options: Keyword arguments of `harness.compare`. Engines are chosen as for `compare`.

        Raises:
            AssertionError: The rows differ. The message is the report of the comparison.
        """
        __tracebackhide__ = True
        assert_same_rows(*self._prepare_sides((left, right), options), keys=keys, **options)

    def prepare(self, engine: str) -> None:
        """Start the engine if it needs to be started before it reads a table outside of this session."""
        if engine == "spark":
            self._start_spark()

    def close(self) -> None:
        """Close the connection. Its relations can no longer be read."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _prepare_sides(self, sides: tuple[object, ...], options: dict[str, Any]) -> list[object]:
        """Return the sides as `harness.compare` accepts them, and start Spark if it reads one of them."""
        if options.get("engines") is None:
            is_one_read = len(sides) == 1 and options.get("at") is None and len(self.engines) == 1
            options["engines"] = (
                default_engines(is_one_table=True) if is_one_read else (self.engines[0], self.engines[-1])
            )
        engines = options["engines"]
        names = [name.strip() for name in engines.split(",")] if isinstance(engines, str) else list(engines)
        ready = [self._resolve_side(side) for side in sides]
        twice = ready if len(sides) == 2 else ready * 2
        if options.get("spark") is None and any(map(_read_by_spark, twice, names if len(names) > 1 else names * 2)):
            options["spark"] = self.spark
        return ready

    def _resolve_side(self, side: object) -> object:
        match side:
            case (data, str(engine)) if isinstance(side, tuple):
                return self._resolve_side(data), engine
            case LakeTable():
                return self.open(side)
            case str() | os.PathLike():
                return RowSource.parse(str(side)) or self.open(str(side))
            case _:
                return resolve_side(side)


def _read_by_spark(side: object, engine: object) -> bool:
    match side:
        case (_, str(own)):
            return own == "spark"
        case Table() | Snapshot() | Changes() | Query():
            return engine == "spark"
        case _:
            return False
