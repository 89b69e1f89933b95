"""Engines as the rest of harness sees them: their protocols, and how one is found by name.

Harness's own engines are in a table here. Every other package registers one by an entry point of the group
`harness.engines`, whose object keeps the protocol `Engine`. All other names are readers of other projects, which plan
for themselves (`harness.testing.conformance.other_engine`). An engine is imported when it is first asked for, so that
opening a table loads neither DuckDB nor Spark. Whoever calls an engine imports this module, and no engine.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from harness.errors import RequestError
from harness.storage.threads import whole_module

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import pyarrow as pa

    from harness.metadata.plan.scan_plan import ScanPlan


class Engine(Protocol):
    """An engine that runs plans."""

    @property
    def name(self) -> str:
        """The name that `find_engine` knows it by."""

    def version(self) -> str:
        """The version of the library that runs the plans."""

    def to_arrow(self, plan: ScanPlan) -> pa.Table:
        """All rows of a plan in any order, in its columns' exact types (`harness.metadata.model.schema.arrow_type`).

        Raises HarnessError: the plan cannot be run; an EngineError if it failed while it ran.
        """


@runtime_checkable
class Starting(Protocol):
    """An engine that takes long to start, or may be unable to."""

    def start(self) -> None:
        """Starts the engine, unless it runs; a HarnessError if it cannot."""


@runtime_checkable
class QueryEngine(Protocol):
    """An engine that runs queries in a dialect of its own, for `harness.sql`."""

    dialect: str
    """sqlglot's name of the dialect."""

    def query(self, text: str, plans: Mapping[str, ScanPlan]) -> Any:
        """The result, an Arrow stream, of a query that reads plans by name."""


@runtime_checkable
class CountingEngine(Protocol):
    """An engine that counts rows by a way of its own, which need not be the one that gives rows."""

    def count(self, plan: ScanPlan) -> int:
        """The number of rows of a plan. Raises as `Engine.to_arrow`."""


@runtime_checkable
class OptionsEngine(Protocol):
    """An engine whose reads take options by which the same rows must come, or so many of them."""

    def options(self) -> frozenset[str]:
        """The options: of `limit`, `threads`, `batch_rows`, `split_bytes` and `union`."""

    def read(self, plan: ScanPlan, options: Mapping[str, Any]) -> pa.Table:
        """The rows of a plan. union: plans of the same table, whose rows come too. Raises as `Engine.to_arrow`."""


if TYPE_CHECKING:
    from harness.engines.duckdb import engine as _duckdb
    from harness.engines.spark import engine as _spark

    # The modules of harness's own engines, whose functions have signatures and docstrings there.

    class DuckDBEngine:
        """DuckDB, which besides gives lazy relations and streams."""

        attach = staticmethod(_duckdb.attach)
        batches = staticmethod(_duckdb.batches)
        columns_of = staticmethod(_duckdb.columns_of)
        engine_error = staticmethod(_duckdb.engine_error)
        filled = staticmethod(_duckdb.filled)
        misparsed = staticmethod(_duckdb.misparsed)
        moment = staticmethod(_duckdb.moment)
        own_tables = staticmethod(_duckdb.own_tables)
        query = staticmethod(_duckdb.query)
        query_text = staticmethod(_duckdb.query_text)
        relation = staticmethod(_duckdb.relation)
        release = staticmethod(_duckdb.release)
        syntax_trees = staticmethod(_duckdb.syntax_trees)
        to_arrow = staticmethod(_duckdb.to_arrow)
        zoned = staticmethod(_duckdb.zoned)

    class SparkEngine:
        """Spark, which besides gives lazy frames in the user's session."""

        dataframe = staticmethod(_spark.dataframe)
        query = staticmethod(_spark.query)
        version = staticmethod(_spark.version)


GROUP = "harness.engines"
"""The group of the entry points by which packages register engines."""
_REQUIRED = ("name", "version", "to_arrow")


def find_engine(name: str) -> Engine:
    """The engine of that name, harness's own or registered by a package; else a reader of another project.

    Raises RequestError: there is no such engine, or what it needs is not installed.
    """
    if name in _BUILT_IN:
        module, package, install = _BUILT_IN[name]
        if importlib.util.find_spec(package) is None:
            raise RequestError(f"Cannot use the engine {name}: {package} is not installed, pip install {install}")
        # `harness.engines` says to mypy that its modules keep the protocols.
        return cast(Engine, whole_module(module))
    registered = registered_engines()
    if name not in registered:
        return cast(Engine, importlib.import_module(_OTHERS).other_engine(name))
    try:
        engine = registered[name].load()
    except (ImportError, AttributeError) as error:
        raise RequestError(f"Cannot use the engine {name}: {error}") from error
    missing = [member for member in _REQUIRED if not hasattr(engine, member)]
    if missing:
        raise RequestError(f"Cannot use the engine {name}: {registered[name].value} has no {' or '.join(missing)}")
    return cast(Engine, engine)


def start_engines(names: Iterable[str]) -> None:
    """Finds and starts engines: one that is missing says nothing about a table. Raises as `find_engine` and `start`."""
    for engine in map(find_engine, dict.fromkeys(names)):
        if isinstance(engine, Starting):
            engine.start()


def engine_names() -> tuple[str, ...]:
    """The engines that run plans, whether or not what they need is installed. Loads none of them."""
    return (*_BUILT_IN, *registered_engines())


def registered_engines() -> dict[str, EntryPoint]:
    """The entry points of engines of other packages by name; none takes the name of an engine of harness's own."""
    from importlib.metadata import entry_points  # 10 ms, which reads by harness's own engines need not

    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in _BUILT_IN}


def duckdb_engine() -> DuckDBEngine:
    """The DuckDB engine, with what only it can do. Raises as `find_engine`."""
    return cast("DuckDBEngine", find_engine("duckdb"))


def spark_engine() -> SparkEngine:
    """The Spark engine, with what only it can do. Raises as `find_engine`."""
    return cast("SparkEngine", find_engine("spark"))


_BUILT_IN = {
    "duckdb": ("harness.engines.duckdb.engine", "duckdb", "duckdb"),
    "spark": ("harness.engines.spark.engine", "pyspark", "'lakeharness[spark]'"),
    "oracle": ("harness.engines.oracle", "pyarrow", "pyarrow"),
}
"""Per engine: the module that keeps the protocol, the package that it runs on, and what to install."""
_OTHERS = "harness.testing.conformance.other_engine"
"""The module that knows all further engines. Only an engine's name leads to it, as to the modules above."""


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
