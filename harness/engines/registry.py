"""Engines: what harness asks of an engine, and how an engine is found by its name.

`Engine` is the protocol, which DuckDB, Spark, the oracle, engines of other packages and readers of other projects
keep. An engine is imported when it is first used, so that opening a table loads neither DuckDB nor Spark. A module that
needs what only one engine can do, such as DuckDB's relations, imports that from the engine's own modules, in the
function that needs it.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness.errors import RequestError
from harness.storage.records import dataclass
from harness.storage.threads import import_uninterrupted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import pyarrow as pa

    from harness.metadata.planned_scan import PlannedScan


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that runs plans.

    A package registers a module or an object with members of these names. An engine that cannot do what a member with a
    default is for leaves that member out.

    Attributes:
        name: The name that `find_engine` takes.
        version: Returns the version of the library that runs the plans.
        to_arrow: Returns all rows of a plan in any order, in the exact types of its columns
            (`harness.metadata.model.schema.arrow_type`). Raises HarnessError if the plan cannot be run, which is an
            EngineError if the plan failed while it ran.
        start: Starts an engine that takes long to start, unless it runs. Raises HarnessError if it cannot.
        dialect: sqlglot's name of the dialect that `query` takes.
        query: Returns the result, an Arrow stream, of a query that reads plans by name.
        count: Returns the number of rows of a plan, by a way of its own. Raises as `to_arrow` does.
        options: Returns the options of `read` that the engine takes, of `limit`, `threads`, `batch_rows`,
            `split_bytes` and `union`.
        read: Returns the rows of a plan under options, which must not change them: but for `limit`, which is how many
            rows are enough, and `union`, plans of the same table whose rows follow. Raises as `to_arrow` does.
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


GROUP = "harness.engines"
"""The group of the entry points by which packages register engines."""
_BUILT_IN = {
    "duckdb": ("harness.engines.duckdb.engine", "duckdb", "duckdb"),
    "spark": ("harness.engines.spark.engine", "pyspark", "'lakeharness[spark]'"),
    "oracle": ("harness.suite.oracle_engine", "pyarrow", "pyarrow"),
}
"""Per engine of harness: the module whose `ENGINE` it is, the package that runs the plans, and what to install."""
_OTHERS = "harness.suite.reader_engine"
"""The module that finds readers of other projects. No import leads from here to it or to the modules above."""


def find_engine(name: str) -> Engine:
    """Return the engine of that name: of harness, of a package that registered it, or a reader of another project.

    Raises:
        RequestError: There is no such engine, or what it needs is not installed.
    """
    if name in _BUILT_IN:
        module, package, install = _BUILT_IN[name]
        if importlib.util.find_spec(package) is None:
            raise RequestError(f"Cannot use the engine {name}: {package} is not installed, pip install {install}")
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
    """Return the engine that a module or an object is, by its members of the names of `Engine`.

    Raises:
        AttributeError: A member without a default is missing. The message calls the object `label`.
    """
    fields = dataclasses.fields(Engine)
    missing = [f.name for f in fields if f.default is dataclasses.MISSING and not hasattr(members, f.name)]
    if missing:
        raise AttributeError(f"{label} has no {' or '.join(missing)}")
    return Engine(**{f.name: getattr(members, f.name) for f in fields if hasattr(members, f.name)})


def start_engines(names: Iterable[str]) -> None:
    """Find and start engines, because an engine that is missing says nothing about a table.

    Raises:
        HarnessError: As `find_engine` and `Engine.start` raise.
    """
    for engine in map(find_engine, dict.fromkeys(names)):
        if engine.start is not None:
            engine.start()


def engine_names() -> tuple[str, ...]:
    """Return the names of the engines that run plans, whether or not what they need is installed. Loads no engine."""
    return (*_BUILT_IN, *registered_engines())


def registered_engines() -> dict[str, EntryPoint]:
    """Return the entry points of engines of other packages by name, without the names of harness's own engines."""
    from importlib.metadata import entry_points  # takes 10 ms, which reads by harness's own engines save

    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in _BUILT_IN}


# Rows as a stream of Arrow batches, for tables that are larger than memory.


BATCH_ROWS = 65_536
"""Rows of a batch where nobody asks for another number: a few megabytes of a common table."""

Context = Callable[[], AbstractContextManager[None]]
"""A context around each step of a read, which says more of its errors."""


class Batches(Iterator["pa.RecordBatch"]):
    """The rows of one read, batch by batch as the engine produces them. None is kept.

        with snapshot.to_batches(columns=["id"]) as batches:
            for batch in batches:
                ...

    Closing it ends the query, and so does dropping it; there are no more batches then. Anything that takes an Arrow
    stream takes what is left of it, as `pyarrow.RecordBatchReader.from_stream(batches)` does.
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
        """End the query. Closing twice is no error."""
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
