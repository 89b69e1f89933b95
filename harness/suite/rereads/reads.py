"""Reads of one table in many ways: with columns, conditions, options, snapshots, and from copies of the table.

Readers of other projects receive options through their protocol. DuckDB and Spark receive them as queries of
`harness.sql` and as settings. An engine declines a read if it does not support an option.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from harness.engines.registry import Engine
from harness.errors import EngineError, HarnessError, HarnessWarning, UnsupportedError, visible
from harness.metadata.filters.sqltext import quoted
from harness.metadata.planned_scan import PlannedScan
from harness.queries.sql import sql
from harness.slices.pulling import make_slice
from harness.slices.request import SliceRequest
from harness.snapshot import Snapshot, read_context
from harness.storage.gate import Outside
from harness.storage.paths import redact
from harness.storage.records import dataclass
from harness.table import open_table

_QUERIES = frozenset({"parameters", "limit", "union", "threads"})
"""Options that DuckDB and Spark implement as a query."""
_OPTIONS = {
    "duckdb": frozenset({*_QUERIES, "batch_rows"}),
    "spark": frozenset({"parameters", "limit", "union", "split_bytes"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A read of a table.

    Attributes:
        columns: Column names in output order. None means all.
        where: A condition with a `?` for each of `parameters`. None means every row.
        parameters: The values of the parameters.
        at: A snapshot id or version. None means the snapshot that is reread.
        limit: The largest number of rows. None means all.
        union: Reads whose rows are appended.
        settings: Values of `threads`, `batch_rows`, and `split_bytes`.
    """

    columns: tuple[str, ...] | None = None
    where: str | None = None
    parameters: tuple[object, ...] = ()
    at: int | None = None
    limit: int | None = None
    union: tuple[ReadRequest, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)

    @property
    def options(self) -> frozenset[str]:
        """The options that an engine must support for the read."""
        needed_by_option = {"parameters": self.parameters, "limit": self.limit is not None, "union": self.union}
        return frozenset({name for name, value in needed_by_option.items() if value} | self.settings.keys())

    def sql(self, tables: Mapping[int | None, str] | None = None) -> str:
        """Return the read as a query in DuckDB's dialect.

        `tables` has the table names by snapshot. None uses a table `t`.
        """
        name = f"t{'' if self.at is None else f' AT (VERSION => {self.at})'}" if tables is None else tables[self.at]
        columns = "*" if self.columns is None else ", ".join(map(quoted, self.columns))
        where = "" if self.where is None else f" WHERE {self.where}"
        parts = [f"SELECT {columns} FROM {name}{where}", *(each.sql(tables) for each in self.union)]
        return " UNION ALL ".join(parts) + ("" if self.limit is None else f" LIMIT {self.limit}")

    def __str__(self) -> str:
        values = [f"{name} = {value:,}" for name, value in self.settings.items()]
        values += [f"? = {value!r}" for value in self.parameters]
        return self.sql() + (f"  -- {', '.join(values)}" if values else "")


@dataclass(frozen=True, slots=True)
class SnapshotReads:
    """The reads of a snapshot by an engine."""

    snapshot: Snapshot
    engine: Engine

    def options(self) -> frozenset[str]:
        """Return the options that the engine supports."""
        if self.engine.options is None:
            return _OPTIONS.get(self.engine.name, frozenset())
        return self.engine.options()

    def rows(self, request: ReadRequest, *, by_query: bool = False) -> pa.Table:
        """Return the rows of a read.

        Args:
            request: The read.
            by_query: Whether DuckDB and Spark run a query. The types of a query's result may differ from those of a
                plain read.

        Raises:
            UnsupportedError: The engine declines the read.
            HarnessError: The read fails.
        """
        missing = sorted(request.options - self.options())
        if missing:
            raise UnsupportedError(f"{self.engine.name} does not support the option {missing[0]}")
        if self.engine.name in _OPTIONS and (by_query or request.options & _QUERIES):
            return self._query_rows(request)
        plan = self._plan(request)
        if self.engine.read is not None:
            options: dict[str, object] = {
                **request.settings,
                "limit": request.limit,
                "union": [*map(self._plan, request.union)],
            }
            rows = self.engine.read(plan, {name: value for name, value in options.items() if value not in (None, [])})
            if repeated := [name for name, times in Counter(rows.column_names).items() if times > 1]:
                raise EngineError(f"{self.engine.name} returns column {visible(repeated[0])} twice")
            return rows
        if "batch_rows" in request.settings:
            size = request.settings["batch_rows"]
            with self.snapshot.to_batches(columns=request.columns, where=request.where, batch_rows=size) as batches:
                return pa.Table.from_batches(batches, batches.schema)
        with _split(request.settings.get("split_bytes")):
            return self.engine.to_arrow(plan)

    def count(self, where: str | None) -> int | None:
        """Return the number of rows as the engine counts them, or None if it does not count."""
        if self.engine.name == "duckdb":
            return self.snapshot.count(where=where)
        return None if self.engine.count is None else self.engine.count(self.snapshot._planned((), where))

    def previous(self) -> int | None:
        """Return the previous snapshot or version if it has the same columns, otherwise None."""
        source = self.snapshot._source
        try:
            points = {point["id"]: point["parent_id"] for point in source.snapshots()}
            parent = points.get(self.snapshot.id)
            has_same_columns = parent in points and self._at(parent).schema.fields == self.snapshot.schema.fields
        except HarnessError:
            return None
        return parent if has_same_columns else None

    def _at(self, point: int | None) -> Snapshot:
        if point is None:
            return self.snapshot
        return replace(self.snapshot, _selection=self.snapshot._source.select(point))

    def _plan(self, request: ReadRequest) -> PlannedScan:
        return self._at(request.at)._planned(request.columns, request.where)

    def _query_rows(self, request: ReadRequest) -> pa.Table:
        moments = {each.at for each in (request, *request.union)}
        names = {at: "t" if at is None else f"t{at}" for at in moments}
        threads = request.settings.get("threads")
        connection = None if threads is None else duckdb.connect(config={"threads": threads})
        try:
            result: Any = sql(
                request.sql(names),
                {name: self._at(at) for at, name in names.items()},
                params=list(request.parameters) or None,
                engine=self.engine.name,
                connection=connection,
            )
            if self.engine.name != "duckdb":
                return _spark_rows(result, self.snapshot._source.location)
            rows: pa.Table = result.to_arrow_table()
        except duckdb.Error as error:
            raise EngineError(str(error), table=self.snapshot._source.location) from error
        finally:
            if connection is not None:
                connection.close()
        return rows


def _spark_rows(frame: Any, location: str) -> pa.Table:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from harness.engines.spark.executor_python import engine_error

    try:
        rows: pa.Table = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise engine_error(error, location) from error
    return rows


@contextmanager
def _split(size: int | None) -> Iterator[None]:
    """Make Spark read files in parts of `size` bytes. None changes nothing."""
    if size is None:
        yield
        return
    from harness.engines.spark.session import spark_session

    conf, name = spark_session().conf, "spark.sql.files.maxPartitionBytes"
    previous = conf.get(name)
    conf.set(name, str(size))
    try:
        yield
    finally:
        conf.set(name, str(previous))


MAX_BYTES = 1 << 30
"""The largest size of the data files that are copied, in bytes."""
MOVED = "moved"
COPIES: Mapping[str, SliceRequest] = {
    MOVED: SliceRequest(),
    "order": SliceRequest(reverse=True, link=True),
    "statistics": SliceRequest(statistics=False, link=True),
}
"""The slice for each copy: one with all rows, and slices of it with other metadata. All must return the same rows."""


class Copies:
    """The copies of a snapshot. Each is made when it is first used, and all are removed at the end."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._directory: TemporaryDirectory[str] | None = None
        self._copies: dict[str, Snapshot | UnsupportedError] = {}

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            self._directory.cleanup()

    def get(self, name: str) -> Snapshot:
        """Return a copy.

        Raises:
            UnsupportedError: The table must not be copied, is larger than `MAX_BYTES`, or cannot be read by harness.
            EngineError: Harness plans other files or deletes for the copy than for the table.
        """
        if name not in self._copies:
            try:
                source = self._snapshot if name == MOVED else self.get(MOVED)
                self._copies[name] = self._copy(name, source)
            except HarnessError as error:
                self._copies[name] = UnsupportedError(f"Cannot copy the table: {error.message}")
        copy = self._copies[name]
        if isinstance(copy, UnsupportedError):
            raise copy
        request = COPIES[name]
        if _plan_fingerprint(copy, counts=request.statistics) != _plan_fingerprint(
            self._snapshot, counts=request.statistics
        ):
            location = redact(self._snapshot._source.location)
            raise EngineError(
                f"The copy of {location} has other files or deletes than the table; this is a bug in harness"
            )
        return copy

    def _copy(self, name: str, source: Snapshot) -> Snapshot:
        plan = self._snapshot._planned()
        size = sum(filter(None, plan.files.column("size").to_pylist()))
        if size > MAX_BYTES:
            raise UnsupportedError(f"its data files have {size:,} bytes, more than the limit of {MAX_BYTES:,}")
        roots = plan.storage.roots
        if roots is not None and roots.outside is Outside.REFUSE:
            raise UnsupportedError("it must not read files outside its own directory")
        _plan_fingerprint(source, counts=True)  # raises an error for broken deletes before anything is written
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="harness-copies-", ignore_cleanup_errors=True)
        place = Path(self._directory.name) / name
        with warnings.catch_warnings(), read_context(source._source, source._selection.snapshot):
            warnings.simplefilter("ignore", HarnessWarning)
            make_slice(source, place, COPIES[name])
        return open_table(place).snapshot()


def _plan_fingerprint(snapshot: Snapshot, *, counts: bool) -> Counter[tuple[Any, ...]]:
    """Count the live files by format and deleted positions.

    With `counts`, also by rows and number of equality deletes.

    Without bounds, more equality deletes apply, but they delete no further rows.
    """
    plan = snapshot._planned()
    dead = plan.load_positions(range(plan.files.num_rows))
    names = ("format", "record_count", "delete_set")
    files = zip(*(plan.files.column(name).to_pylist() for name in names), strict=True)
    return Counter(
        (format_, (rows, len(plan.delete_sets[deletes])) if counts else None, _digest(dead.get(ordinal, ())))
        for ordinal, (format_, rows, deletes) in enumerate(files)
    )


def _digest(positions: Any) -> bytes:
    return np.fromiter(positions, np.uint64, len(positions)).tobytes()
