"""The engine protocol, and the lookup of engines by name.

DuckDB, Spark, the oracle, engines of other packages, and readers of other projects all implement `Engine`. An engine is
imported on first use, so that opening a table loads neither DuckDB nor Spark. A feature that only one engine has, for
example DuckDB's relations, is imported from that engine's modules inside the function that needs it.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import RequestError, UnsupportedError
from harness.storage.records import dataclass
from harness.storage.threads import import_uninterrupted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import pyarrow as pa

    from harness.metadata.planned_scan import PlannedScan

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that runs plans.

    A package registers a module or an object that has members with these names. An engine omits a member with a default
    if it does not support that feature.

    Attributes:
        name: The name under which `find_engine` finds the engine.
        version: Returns the version of the library that runs the plans.
        to_arrow: Returns all rows of a plan, in any order, in the exact types of its columns
            (`harness.metadata.model.schema.arrow_type`). Raises HarnessError if the plan cannot be run; the error is an
            EngineError if the plan failed while it ran.
        start: Starts an engine that takes long to start, unless it is running already. Raises HarnessError if the
            engine cannot start.
        dialect: The name that sqlglot uses for the SQL dialect of `query`.
        query: Returns the result of a query that refers to plans by name, as an Arrow stream.
        count: Counts the rows of a plan without returning them. Raises the same errors as `to_arrow`.
        options: Returns which options of `read` the engine accepts: any of `limit`, `threads`, `batch_rows`,
            `split_bytes` and `union`.
        read: Returns the rows of a plan under options. Options never change the rows, with two exceptions: `limit` is
            the number of rows after which the engine may stop, and `union` lists plans of the same table whose rows are
            appended. Raises the same errors as `to_arrow`.
        lifetimes: True if the engine executes plans with lifetimes, which read changes.
    """

    name: str
    version: Callable[[], str]
    to_arrow: Callable[[PlannedScan], pa.Table]
    start: Callable[[], object] | None = None
    dialect: str | None = None
    query: Callable[[str, Mapping[str, PlannedScan]], Any] | None = None
    count: Callable[[PlannedScan], int] | None = None
    options: Callable[[], frozenset[str]] | None = None
    read: Callable[[PlannedScan, Mapping[str, Any]], pa.Table] | None = None
    lifetimes: bool = False


GROUP = "harness.engines"
"""The entry point group for engines of packages."""
_BUILT_IN = {
    "duckdb": ("harness.engines.duckdb.engine", "duckdb", "duckdb"),
    "spark": ("harness.engines.spark.engine", "pyspark", "'lakeharness[spark]'"),
    "oracle": ("harness.suite.oracle_engine", "pyarrow", "pyarrow"),
}
"""The built-in engines by name.

For each: the module that defines its `ENGINE`, the package that must be installed, and what to pass to pip.
"""
_OTHERS = "harness.suite.reader_engine"
"""The module that finds readers of other projects. It is named only: importing it here would create a cycle."""


def find_engine(name: str) -> Engine:
    """Return an engine by name: a built-in one, one that a package registered, or a reader of another project.

    Raises:
        RequestError: No engine has this name, or a package that the engine needs is not installed.
    """
    if name in _BUILT_IN:
        module, package, install = _BUILT_IN[name]
        if importlib.util.find_spec(package) is None:
            raise RequestError(f"Cannot use the engine {name}: {package} is not installed; run pip install {install}")
        built_in: Engine = import_uninterrupted(module).ENGINE
        return built_in
    registered = registered_engines()
    if name not in registered:
        return engine_of(importlib.import_module(_OTHERS).reader_engine(name), name)
    try:
        return engine_of(registered[name].load(), registered[name].value)
    except (ImportError, AttributeError) as error:
        raise RequestError(f"Cannot use the engine {name}: {error}") from error


def engine_of(members: object, label: str) -> Engine:
    """Build an `Engine` from a module or object that has members with the names of its attributes.

    Args:
        members: The module or object.
        label: The name of the module or object in the error message.

    Raises:
        AttributeError: A member without a default is missing.
    """
    fields = dataclasses.fields(Engine)
    missing = [f.name for f in fields if f.default is dataclasses.MISSING and not hasattr(members, f.name)]
    if missing:
        raise AttributeError(f"{label} has no {' or '.join(missing)}")
    engine = Engine(**{f.name: getattr(members, f.name) for f in fields if hasattr(members, f.name)})
    return engine if engine.lifetimes else _without_lifetimes(engine)


def _without_lifetimes(engine: Engine) -> Engine:
    """Return an engine that refuses plans with lifetimes, whose rows it would return as those of a snapshot."""

    def checked(function: Callable[..., _T]) -> Callable[..., _T]:
        def call(*arguments: Any) -> _T:
            for argument in arguments:
                plans = argument.values() if isinstance(argument, Mapping) else (argument,)
                if any(getattr(plan, "lifetimes", None) is not None for plan in plans):
                    raise UnsupportedError(
                        f"Cannot read changes with {engine.name}: use duckdb or spark", options=("engine",)
                    )
            return function(*arguments)

        return call

    return dataclasses.replace(
        engine,
        to_arrow=checked(engine.to_arrow),
        query=None if engine.query is None else checked(engine.query),
        count=None if engine.count is None else checked(engine.count),
        read=None if engine.read is None else checked(engine.read),
    )


def start_engines(names: Iterable[str]) -> None:
    """Find and start engines before a test or comparison, so that a missing engine is reported as such.

    Raises:
        HarnessError: An engine was not found (see `find_engine`) or could not start.
    """
    for engine in map(find_engine, dict.fromkeys(names)):
        if engine.start is not None:
            engine.start()


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines that run plans, including those whose packages are not installed.

    Load none of them.
    """
    return (*_BUILT_IN, *registered_engines())


def registered_engines() -> dict[str, EntryPoint]:
    """Return the entry points of engines from other packages by name, except for names that built-in engines use."""
    from importlib.metadata import entry_points  # takes 10 ms, which reads by built-in engines do not need to spend

    points = {point.name: point for point in entry_points(group=GROUP)}
    return {name: points[name] for name in sorted(points) if name not in _BUILT_IN}


BATCH_ROWS = 65_536
"""The default number of rows in a batch: a few megabytes in a typical table."""

Context = Callable[[], AbstractContextManager[None]]
"""Returns a context for one step of a read, which adds the table and snapshot to errors."""


class Batches(Iterator["pa.RecordBatch"]):
    """The rows of one read as an iterator of Arrow batches. Each batch is produced on demand and not kept.

        with snapshot.to_batches(columns=["id"]) as batches:
            for batch in batches:
                ...

    Closing the iterator, or dropping the last reference to it, ends the query. After that it yields nothing. Any
    consumer of Arrow streams accepts the object, for example `pyarrow.RecordBatchReader.from_stream(batches)`.

    Attributes:
        schema: The schema of the batches.
    """

    def __init__(
        self, schema: pa.Schema, read: Callable[[], pa.RecordBatch | None], close: Callable[[], None], context: Context
    ) -> None:
        self.schema = schema
        self._read, self._close, self._context = read, close, context
        self._is_open = True

    def __next__(self) -> pa.RecordBatch:
        if not self._is_open:
            raise StopIteration
        try:
            with self._context():
                batch = self._read()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the query. Closing twice is allowed."""
        if self._is_open:
            self._is_open = False
            self._close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)
