"""Engines as the rest of harness sees them: what each of them can do, and how one is found by name.

The protocols stand here, below `harness.table`, and not among the engines, because tables and queries hand plans to
engines while engines are built upon tables' plans: whoever calls an engine must not import one. An engine is a module,
`harness.engines.<name>`, imported when it is first asked for, so that opening a table loads neither DuckDB nor Spark.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from harness.errors import HarnessError, RequestError

if TYPE_CHECKING:
    import datetime

    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from harness.engines.batches import Batches, Context
    from harness.engines.duckdb.attached import Attached
    from harness.metadata.filters.predicate import Filter
    from harness.metadata.model.schema import Field
    from harness.metadata.plan.scan_plan import ScanPlan


class Engine(Protocol):
    """What every engine does with a plan."""

    @property
    def name(self) -> str:
        """The name that `find_engine` knows it by."""

    def version(self) -> str:
        """The version of the library that runs the plans."""

    def to_arrow(self, plan: ScanPlan) -> pa.Table:
        """All rows of a plan, in the exact types of its columns (`harness.metadata.model.schema.arrow_type`); order
        is open.

        Raises:
            HarnessError: the plan cannot be run; an EngineError if it failed while it ran.
        """


class DuckDBEngine(Engine, Protocol):
    """What DuckDB does besides: lazy relations, and streams."""

    def relation(
        self, plan: ScanPlan, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The plan's rows; with `name` also as a temporary view of the connection."""

    def batches(self, plan: ScanPlan, *, rows: int, context: Context) -> Batches:
        """The plan's rows as a stream of batches of so many rows, each of which is read within `context`."""

    def query(
        self,
        text: str,
        plans: Mapping[str, ScanPlan | pa.Table],
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        aliased: Collection[str] = (),
        originals: Mapping[str, str] = ...,
    ) -> duckdb.DuckDBPyRelation:
        """The result of a query in DuckDB's dialect that reads plans by name, those in `aliased` under an alias.

        originals: of texts in the query, what the user has written in their place: DuckDB's names of columns tell it.
        """

    def filled(
        self,
        text: str,
        plans: Mapping[str, ScanPlan | pa.Table],
        connection: duckdb.DuckDBPyConnection,
        *,
        aliased: Collection[str] = (),
    ) -> str:
        """A statement of any kind as DuckDB runs it on the connection; the arguments are those of `query`."""

    def query_text(
        self,
        text: str,
        plans: Mapping[str, ScanPlan | pa.Table],
        connection: duckdb.DuckDBPyConnection,
        *,
        aliased: Collection[str] = (),
        originals: Mapping[str, str] = ...,
        parameters: object = None,
    ) -> str:
        """What `query` would run, as text for a connection to execute with these parameters."""

    def attach(
        self, plans: Mapping[tuple[str | None, str], ScanPlan], connection: duckdb.DuckDBPyConnection
    ) -> Attached:
        """Make plans views of a connection's database, by schema and name; what its cursors need to use them."""

    def release(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take away what reads have left on a user's connection."""

    def moment(self, connection: duckdb.DuckDBPyConnection | None) -> datetime.datetime:
        """When a query on a connection, or None for one of its own, is made: in UTC, without a zone."""

    def zoned(self, filter_: Filter, connection: duckdb.DuckDBPyConnection | None) -> Filter:
        """A filter as planning may use it for a read on a user's connection, or None for one in UTC."""

    def columns_of(
        self, text: str, plans: Mapping[str, ScanPlan], originals: Mapping[str, str] = ...
    ) -> tuple[tuple[str, str], ...]:
        """Name and DuckDB type of the query's columns, before `query` casts any; reads no file."""

    def syntax_trees(self, *texts: str) -> tuple[str, ...]:
        """The trees of DuckDB's parser for queries, as JSON."""

    def engine_error(self, error: Exception, plan: ScanPlan) -> HarnessError:
        """What DuckDB's failure on the plan's rows means: that a file is gone or damaged, or an EngineError."""


class SparkEngine(Engine, Protocol):
    """What Spark does besides: lazy frames in the user's session."""

    def dataframe(self, plan: ScanPlan, spark: SparkSession | None = None) -> DataFrame:
        """The plan's rows."""

    def query(
        self,
        text: str,
        plans: Mapping[str, ScanPlan],
        spark: SparkSession | None = None,
        *,
        columns: Sequence[Field] | None = None,
    ) -> DataFrame:
        """The result of a query in Spark's dialect that reads plans by name; `columns`: what it must look like."""


def find_engine(name: str) -> Engine:
    """The engine of that name: `duckdb`, `spark` or `oracle`.

    Raises:
        RequestError: there is no such engine, or what it needs is not installed.
    """
    if name not in _NEEDS:
        raise RequestError(f"Unknown engine {name!r}: there are {', '.join(_NEEDS)}")
    package, install = _NEEDS[name]
    if importlib.util.find_spec(package) is None:
        raise RequestError(f"Cannot use the engine {name}: {package} is not installed, pip install {install}")
    # `harness.engines` says to mypy that its modules keep the protocols.
    return cast(Engine, importlib.import_module(_MODULES[name]))


def engine_names() -> tuple[str, ...]:
    """The names that `find_engine` knows, whether or not what they need is installed. Loads none of them."""
    return tuple(_NEEDS)


def duckdb_engine() -> DuckDBEngine:
    """The DuckDB engine, with what only it can do. Raises as `find_engine`."""
    return cast(DuckDBEngine, find_engine("duckdb"))


def spark_engine() -> SparkEngine:
    """The Spark engine, with what only it can do. Raises as `find_engine`."""
    return cast(SparkEngine, find_engine("spark"))


_NEEDS = {
    "duckdb": ("duckdb", "duckdb"),
    "spark": ("pyspark", "'lakeharness[spark]'"),
    "oracle": ("pyarrow", "pyarrow"),
}
"""By name of an engine: the package that it runs on, and what to install."""

_MODULES = {
    "duckdb": "harness.engines.duckdb.engine",
    "spark": "harness.engines.spark.engine",
    "oracle": "harness.testing.oracle.engine.reading",
}
"""By name of an engine: the module that keeps the protocol."""
