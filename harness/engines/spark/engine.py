"""Runs lowered plans on a Spark session, the user's or one of harness's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from harness.engines.column_values import conformed, exact
from harness.engines.spark.connect import reader_of
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import Gateway
from harness.engines.spark.lowering import lower, without_call_sites
from harness.engines.spark.session import spark_session
from harness.engines.spark.types import shown
from harness.engines.union_arms import refuse_same_names
from harness.errors import EngineError, HarnessError, UnsupportedError
from harness.metadata.model.schema import Field, arrow_field
from harness.metadata.plan.scan_plan import ScanPlan

__all__ = ["dataframe", "name", "query", "to_arrow", "version"]


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows that `DataFrame.toArrow` gives for columns of `types.storage_type`, as `column_values.conform` has them.

    Raises:
        EngineError: a value does not fit, or text is no UTF-8 (iceberg 6.11), which Spark does not check.
    """
    loose = conformed(schema)
    columns = [_conformed(column, f) for column, f in zip(rows.columns, loose, strict=True)]
    return pa.Table.from_arrays(columns, schema=loose)


def _conformed(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        chunks = [exact(chunk, field.type) for chunk in column.chunks]
        if _has_text(field.type):
            for chunk in chunks:
                chunk.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise EngineError(
            f"Cannot give column {field.name} out as {field.type}: {' '.join(str(error).split())}", field=field.name
        ) from error
    return pa.chunked_array(chunks, field.type)


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_string(type_))


def dataframe(plan: ScanPlan, spark: SparkSession | None = None) -> DataFrame:
    """The plan's rows as a lazy frame of a session, whose settings stay as they are.

    Types that Spark lacks are carried by others, see `harness.engines.spark.types`.

    Args:
        plan: what to read.
        spark: the user's session, or None for one of harness's own.

    Raises:
        HarnessError: as `harness.engines.spark.lowering.lower` says.
    """
    own = spark_session() if spark is None else spark
    reader = reader_of(own)
    with _about(plan), without_call_sites():
        refuse_same_names(plan.columns, plan.table)
        rows = lower(plan, reader)
        fields = [(functions.col(f"c{i}"), shown(f)) for i, f in enumerate(plan.columns)]
        named = rows.select(*[column.alias(field.name, metadata=field.metadata) for column, field in fields])
    return reader.expose(named)


def to_arrow(plan: ScanPlan, spark: SparkSession | None = None) -> pa.Table:
    """All rows of a plan, in the exact types of its columns (`harness.metadata.model.schema.arrow_type`); row order
    is open.

    Raises:
        HarnessError: as for `dataframe`.
        EngineError: Spark failed while it ran the query.
    """
    own = spark_session() if spark is None else spark
    with _about(plan):
        frame = lower(replace(plan, bounds=None), reader_of(own))  # no filter comes later
        frame = frame if plan.enough is None else frame.limit(plan.enough)
    try:
        if not plan.columns:  # Arrow results without columns lose their rows on the way
            return pa.table({"": pa.nulls(frame.count())}).select([])
        rows = frame.toArrow()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, plan.table).within(format=plan.format) from error


@contextmanager
def _about(plan: ScanPlan) -> Iterator[None]:
    """Errors on the way to a query name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise


# The Spark engine: runs a `ScanPlan` as one lazy frame, by Spark's own Parquet and ORC readers where they read right.
#
#     dataframe(plan, spark)       the planned rows as a frame of a user's session
#     to_arrow(plan)               the rows, in the plan's exact Arrow types
#     query(text, plans, spark)    a query over several plans
#     name, version()              as `harness.engines.registry.Engine` wants them
#
# `session` makes local sessions, `gateway` hands planned files to the JVM, `types` and `columns` lower one column,
# `scans` opens groups of files, `positions` and `equality` apply deletes, `arm` and `lowering` put the frame together.


# Queries over several plans, each of them a view in a session that lives no longer than it takes to read the query.


# What a query means must not depend on the user's session, nor on how it was configured at its start.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
}


def query(
    text: str,
    plans: Mapping[str, ScanPlan],
    spark: SparkSession | None = None,
    *,
    columns: Sequence[Field] | None = None,
) -> DataFrame:
    """The result of a query that reads plans by name, as a lazy frame of the user's session.

    The query is analysed in a new session that shares nothing with the user's but the application: under ANSI mode, in
    time zone UTC, names without regard to case. So it sees no views, functions or settings of the user's, and leaves
    none behind.

    Args:
        text: one query in Spark's dialect.
        plans: by the name that the query calls each. Their filters must be implied by the query's own conditions.
        spark: the user's session, or None for `harness.spark_session()`.
        columns: what the result must look like, by place: names, and types that the columns can be cast to without
            loss; None: as Spark has it.

    Raises:
        HarnessError: as for `dataframe`; UnsupportedError also for Spark Connect, where there is no such session.
            Or, where `columns` are given, for what this version of Spark does not analyse, though DuckDB does.
        EngineError: Spark refuses the query.
    """
    own = spark_session() if spark is None else spark
    gateway = Gateway.of(own)
    session = own.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    try:
        for name, plan in plans.items():  # which the query's own filters have narrowed already: no bounds are read
            gateway.moved(dataframe(replace(plan, bounds=None), own), session).createOrReplaceTempView(_quoted(name))
        result = session.sql(text)
        return gateway.expose(result if columns is None else _as_columns(result, columns))
    except ParseException as error:
        raise engine_error(error) from error
    except AnalysisException as error:
        if columns is not None:
            raise _not_analysed(error, own.version) from error
        raise engine_error(_better_told(error, text, plans, session)) from error


def _not_analysed(error: AnalysisException, version: str) -> UnsupportedError:
    """The error for a query that DuckDB takes, and which is written for Spark by what both have."""
    reason = " ".join(str(error).split())
    return UnsupportedError(
        f"Cannot run the query on Spark {version}, which does not take what it is written as: {reason[:200]}; "
        "run it on DuckDB",
        options=("engine",),
    )


def _better_told(
    error: AnalysisException, text: str, plans: Mapping[str, ScanPlan], session: SparkSession
) -> AnalysisException:
    """The error where the tables have all their columns: Spark suggests among those that it sees."""
    try:
        for name, plan in plans.items():
            fields = {f.name.casefold(): f for f in (*plan.columns, *plan.schema.fields)}
            empty = session.createDataFrame([], StructType([shown(f) for f in fields.values()]))
            empty.createOrReplaceTempView(_quoted(name))
        session.sql(text)
    except AnalysisException as better:
        return better
    except HarnessError:  # a type that Spark has nothing for
        return error
    return error


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _as_columns(frame: DataFrame, columns: Sequence[Field]) -> DataFrame:
    assert len(frame.columns) == len(columns), "a column for each"
    places = frame.toDF(*(f"c{i}" for i in range(len(columns))))
    return places.select(*(_as_column(places, i, field) for i, field in enumerate(columns)))


def _as_column(frame: DataFrame, place: int, field: Field) -> Column:
    told = shown(field)
    column = functions.col(f"c{place}")
    if frame.schema[place].dataType.simpleString() != told.dataType.simpleString():
        column = column.cast(told.dataType)
    return column.alias(field.name, metadata=told.metadata)


def start() -> None:
    """Starts the session of harness's own, unless it runs.

    Raises:
        RequestError, EngineError: as `spark_session`.
    """
    spark_session()


name = "spark"


def version() -> str:
    """The version of PySpark."""
    return pyspark.__version__
