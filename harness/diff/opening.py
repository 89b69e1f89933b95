"""Sides of a comparison, opened from the objects that a user passes.

Supported objects are planned tables (`Table`, `Snapshot`, and `PlannedRows` such as `Changes`), a `Query`, a DuckDB
relation, a Spark DataFrame, and Arrow streams from pyarrow, polars, or pandas. A comparison does not change the
settings of a user's connection or session, and its result does not depend on them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeGuard

import duckdb
import pyarrow as pa

import harness.queries.sql
from harness.diff.paths import is_inside, suggestion
from harness.diff.result import SideInfo
from harness.diff.sides import DuckDBSide, Side, arrow_type, open_arrow
from harness.diff.sides import translate_duckdb_errors as failing_duckdb
from harness.diff.source_reading import check_exists, open_rows
from harness.diff.sources import RowSource
from harness.diff.tolerances import Measure, Tolerance
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.lowering import QueryUse, lower, with_numbered_columns
from harness.engines.duckdb.relations import registrar
from harness.engines.registry import engine_names, find_engine
from harness.errors import HarnessError, RequestError, UnknownColumnError, UnsupportedError
from harness.metadata.catalogs.resolving import is_foreign_table
from harness.metadata.model.arguments import check_arguments
from harness.metadata.model.schema import METADATA, arrow_field
from harness.metadata.model.times import When
from harness.metadata.planned_scan import PlannedScan
from harness.snapshot import PlannedRows, Snapshot, short_table_name
from harness.storage.paths import redact
from harness.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Query:
    """A query over tables, as a side of `harness.compare`, which runs the query on the engine of that side.

        harness.compare(query, query, engines=("duckdb", "spark"))

    If the last bits of a column depend on the engine, as for averages, the column is compared within an allowance that
    follows from the query's text (`docs/reference/allowances.md`). The report names these columns and the reason.

    Attributes:
        text: A statement that only reads.
        tables: The tables by the names that the text uses. A location is opened.
        dialect: The SQL dialect of the text, as for `harness.sql`.
    """

    text: str
    tables: Mapping[str, Table | Snapshot | str | os.PathLike[str]] = field(default_factory=dict)
    dialect: str = "duckdb"

    def __post_init__(self) -> None:
        check_arguments({"text": self.text, "tables": self.tables, "dialect": self.dialect})

    @property
    def name(self) -> str:
        """The query's name in reports."""
        return f"query on {', '.join(self.tables)}" if self.tables else "query"

    def run(self, engine: str, spark: SparkSession | None) -> object:
        """Run the query, and return its unread result or the engine's error.

        The error is returned rather than raised, because it is the outcome of this side.

        Raises:
            RequestError, UnsupportedError: harness refuses the query. This is not a difference between the sides.
        """
        try:
            session = spark if engine == "spark" else None
            return harness.queries.sql.sql(self.text, self.tables, engine=engine, dialect=self.dialect, spark=session)
        except (RequestError, UnsupportedError):
            raise
        except HarnessError as error:
            return error


def last_bit_tolerances(query: Query, columns: list[str]) -> dict[str, Tolerance]:
    """Return the tolerances for columns of a query's result whose last bits depend on the engine.

    Columns that share a name have no tolerance.

    Args:
        query: The query.
        columns: The names of the result's columns, in their order.
    """
    from harness.queries.allowances import allowances
    from harness.queries.inputs import schema_of

    schemas = {name: schema_of(name, each) for name, each in query.tables.items()}
    counts = Counter(columns)
    return {
        columns[place]: Tolerance(Decimal(each.ulps), Measure.ULPS, each.reason)
        for place, each in allowances(query.text, schemas, query.dialect).items()
        if place < len(columns) and counts[columns[place]] == 1
    }


def engine_version(engine: str) -> str:
    """Return the name and version of an engine, for example `duckdb 2.0.0`."""
    result = find_engine(engine)
    return f"{result.name} {result.version()}"


_ACCEPTED = (
    "a table or its location or name, a Snapshot, a Query, a DuckDB relation, a Spark DataFrame, an object with an "
    "Arrow stream, a file such as rows.csv, or duckdb:old.duckdb#orders"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOpening:
    """The data of one side, and the options with which it is read.

    Attributes:
        data: The user's object, or a snapshot of the user's table.
        label: `left` or `right`, for messages.
        name: The user's name for the side, or None.
        engine: The engine that reads a planned table.
        columns: Paths to the columns and fields to compare. Their columns are read whole. None: all columns.
        where: The filter of a planned table.
        spark: The session that reads a planned table on Spark.
        exclude: Names of columns and fields to leave out. Only columns are left out here; fields are removed later.
        query: The query if `data` is its result or its error.
    """

    data: object
    label: str
    name: str | None
    engine: str
    columns: tuple[str, ...] | None
    where: str | None
    spark: SparkSession | None
    exclude: frozenset[str] = frozenset()
    query: Query | None = None

    def check(self) -> None:
        """Raise an error if the object cannot be a side, or if its file does not exist."""
        is_planned = isinstance(self.data, Snapshot | PlannedRows)
        find_engine(self.engine)
        if self.where is not None and not isinstance(self.data, Snapshot):
            message = f"Cannot filter the {self.label} side: where= filters only tables and snapshots"
            raise RequestError(message, options=("where",))
        if isinstance(self.data, RowSource):
            check_exists(self.data)
        elif not is_planned and self._describe_unplanned() is None:
            raise RequestError(
                f"Cannot compare the {self.label} side, of type {type(self.data).__name__}: expected {_ACCEPTED}"
            )

    @property
    def has_types(self) -> bool:
        """True if the side's columns have types.

        A side without types is opened second, with the types of the first side.
        """
        return not isinstance(self.data, RowSource) or self.data.has_types

    @property
    def is_foreign(self) -> bool:
        """True if the rows come from outside harness, with their own types: a file, a database, or another reader."""
        planned = isinstance(self.data, Snapshot | PlannedRows)
        return isinstance(self.data, RowSource) or (planned and self.engine not in engine_names())

    @property
    def info(self) -> SideInfo:
        """A description of the side, before anything is read."""
        data = self.data
        format_: str
        if isinstance(data, PlannedRows):
            table, snapshot, table_name, format_ = data.plan.table, data.plan.snapshot, None, data.plan.format
        elif isinstance(data, Snapshot):
            table, snapshot, table_name, format_ = data._source.location, data.id, data.name, data._source.format
        else:
            name, engine = self._describe_unplanned() or ("", "")
            return SideInfo(name=self.name or name, engine=engine)
        name, engine = self.name or short_table_name(table, table_name), engine_version(self.engine)
        return SideInfo(name=name, engine=engine, table=redact(table), snapshot=snapshot, format=format_)

    def _describe_unplanned(self) -> tuple[str, str] | None:
        """Return the name and engine of an object that is not a planned table, or None if it cannot be a side."""
        data, kind = self.data, type(self.data)
        if isinstance(data, HarnessError):
            return "query", engine_version(self.engine)
        if isinstance(data, RowSource):
            return data.name, f"duckdb {duckdb.__version__}, {data.kind.value}"
        if isinstance(data, duckdb.DuckDBPyRelation):
            return "DuckDB relation", f"duckdb {duckdb.__version__}"
        if is_frame(data):
            return "Spark DataFrame", engine_version("spark")
        if self.query is None and not hasattr(data, "__arrow_c_stream__"):
            return None
        return f"{kind.__module__.partition('.')[0]} {kind.__name__}", f"arrow {pa.__version__}"

    def open(
        self,
        limit: int,
        resources: ExitStack,
        like: Mapping[str, pa.DataType] | None = None,
        names: list[str] | None = None,
    ) -> Side:
        """Open the side. Only metadata is read, except that an Arrow stream is read completely.

        Args:
            limit: The number of rows of an Arrow stream to keep in memory. A longer stream is written to disk.
            resources: Closed after the comparison.
            like: The types of the opposite side's columns by name, for a source whose columns are text.
            names: A list to which the names of all columns are added, before `columns` and `exclude` select some.

        Raises:
            RequestError: A column is missing, or its name is ambiguous.
            HarnessError: The side fails.
        """
        data, info = self.data, self.info

        def select_columns(all_names: Sequence[str]) -> list[int]:
            if names is not None:
                names[:] = all_names
            return self.select_columns(all_names)

        if isinstance(data, HarnessError):
            raise data
        if isinstance(data, RowSource):
            data = open_rows(data, like, resources)
        if isinstance(data, Snapshot | PlannedRows):
            plan = self._plan_scan(data, select_columns)
            try:
                if self.engine == "duckdb":
                    connection = cursor()
                    query = with_numbered_columns(lower(plan, connection, registrar(connection), QueryUse.ONCE), plan)
                    with failing_duckdb(info, plan):
                        relation = connection.sql(query)
                    schema = pa.schema([arrow_field(f) for f in plan.columns])
                    return DuckDBSide(info=info, relation=relation, schema=schema, plan=plan, keep=connection)
                if self.engine == "spark":
                    from harness.diff import spark_side

                    return spark_side.open_plan(plan, info, self.spark)
                rows = find_engine(self.engine).to_arrow(plan)
                side = open_arrow(rows, info, lambda names: list(range(len(names))), limit, resources)
                return replace(side, plan=plan)
            except HarnessError as error:
                raise error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format) from None
        if isinstance(data, duckdb.DuckDBPyRelation):
            return self._open_relation(data, info, select_columns)
        if is_frame(data):
            from harness.diff import spark_side

            return spark_side.open_frame(data, info, select_columns)
        return open_arrow(data, info, select_columns, limit, resources)

    def allowances(self) -> Mapping[str, Tolerance]:
        """Return the tolerances for columns of a query's result whose last bits depend on the engine."""
        if self.query is None or not (isinstance(self.data, duckdb.DuckDBPyRelation) or is_frame(self.data)):
            return {}
        return last_bit_tolerances(self.query, list(self.data.columns))

    def select_columns(self, names: Sequence[str]) -> list[int]:
        """Return the indexes of the columns to read among `names`.

        Raises:
            RequestError: A column is missing, a name occurs twice, or all columns are excluded.
        """
        candidates: Iterable[int] = range(len(names))
        if self.columns is not None:
            by_name: dict[str, list[int]] = {}
            for place, name in enumerate(names):
                by_name.setdefault(name, []).append(place)
            candidates = dict.fromkeys(
                place for column in self.columns for place in self._find_columns(column, names, by_name)
            )
        indexes = [place for place in candidates if names[place] not in self.exclude]
        if names and not indexes:
            raise RequestError(
                f"Cannot compare: all columns of the {self.label} side are left out; "
                f"it has {', '.join(map(repr, names))}",
                options=("exclude",) if self.exclude else ("columns",),
            )
        return indexes

    def _find_columns(self, column: str, names: Sequence[str], by_name: Mapping[str, list[int]]) -> list[int]:
        """Return the index of the column with that name, or of the columns that may contain a field of that name."""
        places = by_name.get(column, [])
        if len(places) > 1:
            raise RequestError(
                f"Cannot compare {column!r}: the {self.label} side has {len(places)} columns of that name",
                field=column,
            )
        result = places or [place for place, name in enumerate(names) if is_inside(column, name)]
        if not result:
            raise UnknownColumnError(
                f"Cannot compare {column!r}: the {self.label} side has no column of that name; "
                f"{suggestion(column, [names])}",
                field=column,
            )
        return result

    def _plan_scan(
        self, data: Snapshot | PlannedRows, select_columns: Callable[[Sequence[str]], list[int]]
    ) -> PlannedScan:
        if isinstance(data, PlannedRows):
            if self.columns is None and not self.exclude:
                return data._plan
            message = "Cannot choose columns of planned rows here: choose them when the rows are planned"
            raise RequestError(message, options=("columns",))
        names = [field.name for field in data.schema.fields]
        names += [name for name in METADATA if name in (self.columns or ()) and name not in names]
        columns = tuple(names[place] for place in select_columns(names))
        return data._planned(None if self.columns is None and not self.exclude else columns, self.where)

    def _open_relation(
        self, relation: duckdb.DuckDBPyRelation, info: SideInfo, select_columns: Callable[[Sequence[str]], list[int]]
    ) -> Side:
        with failing_duckdb(info):
            indexes = select_columns(relation.columns)
            projection = relation.project(", ".join(f"#{i + 1} AS c{n}" for n, i in enumerate(indexes)) or "NULL AS c0")
            names = [relation.columns[i] for i in indexes]
            types = [arrow_type(type_, name) for name, type_ in zip(names, projection.types, strict=False)]
        schema = pa.schema([pa.field(name, type_) for name, type_ in zip(names, types, strict=True)])
        return DuckDBSide(info=info, relation=projection, schema=schema)


def resolve_side(data: object, at: When = None) -> object:
    """Open a location or name as a file, database, or table, at a point in time. Return other objects unchanged.

    A table that another library opened becomes a harness table at the same version.

    Raises:
        RequestError: `at` is given, but the object is not a table.
        HarnessError: As for `open_table`.
    """
    if isinstance(data, str | os.PathLike):
        data = RowSource.parse(str(data)) or open_table(data)
    elif is_foreign_table(data):
        data = open_table(data)
    if at is None:
        return data
    if not isinstance(data, Table):
        name = data.name if isinstance(data, RowSource) else f"an object of type {type(data).__name__}"
        raise RequestError(f"Cannot use at={at!r}: {name} has no snapshots", options=("at",))
    return data.snapshot(at)


def is_frame(data: object) -> TypeGuard[DataFrame]:
    """Return whether an object is a Spark DataFrame, classic or of Spark Connect. Spark is not imported for this."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(data).__mro__
    )
