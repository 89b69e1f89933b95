"""Runs lowered plans on a Spark session: the user's session, or one that harness starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from harness.engines.column_values import as_exact_type, nullable_schema
from harness.engines.registry import Engine
from harness.engines.spark.connect import reader_of
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import Gateway
from harness.engines.spark.lowering import lower, without_call_sites
from harness.engines.spark.session import spark_session
from harness.engines.spark.types import output_column, quote_name
from harness.engines.union_arms import refuse_same_names
from harness.errors import EngineError, HarnessError, UnsupportedError
from harness.metadata.model.schema import Field, arrow_field
from harness.metadata.planned_scan import PlannedScan


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert rows that `DataFrame.toArrow` returned in storage types to the exact types of a schema.

    Raises:
        EngineError: A value does not fit, or a text is not UTF-8 (iceberg 6.11), which Spark does not check.
    """
    loose, columns = nullable_schema(schema), []
    for column, f in zip(rows.columns, loose, strict=True):
        try:
            chunks = [as_exact_type(chunk, f.type) for chunk in column.chunks]
            if _has_text(f.type):
                for chunk in chunks:
                    chunk.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            raise EngineError(
                f"Cannot return column {f.name} as {f.type}: {' '.join(str(error).split())}", field=f.name
            ) from error
        columns.append(pa.chunked_array(chunks, f.type))
    return pa.Table.from_arrays(columns, schema=loose)


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_string(type_))


def dataframe(plan: PlannedScan, spark: SparkSession | None = None) -> DataFrame:
    """Return the plan's rows as a lazy frame of a session. The session's settings stay unchanged.

    Args:
        plan: The plan.
        spark: The user's session. None for `harness.spark_session()`.

    Raises:
        HarnessError: The errors of `harness.engines.spark.lowering.lower`.
    """
    session = spark_session() if spark is None else spark
    reader = reader_of(session)
    with _naming_table(plan), without_call_sites():
        refuse_same_names(plan.columns, plan.table)
        rows = lower(plan, reader)
        fields = [(functions.col(f"c{i}"), output_column(f)) for i, f in enumerate(plan.columns)]
        renamed = rows.select(*[column.alias(field.name, metadata=field.metadata) for column, field in fields])
    return reader.expose(renamed)


def to_arrow(plan: PlannedScan, spark: SparkSession | None = None) -> pa.Table:
    """Return all rows of a plan as an Arrow table.

    Raises the errors of `dataframe`, or those that `engine_error` returns.
    """
    session = spark_session() if spark is None else spark
    with _naming_table(plan):
        # statistics only help filters that are added later
        frame = lower(replace(plan, statistics=None), reader_of(session))
        frame = frame if plan.enough is None else frame.limit(plan.enough)
    try:
        if not plan.columns:  # Arrow results without columns would lose their row count
            return pa.table({"": pa.nulls(frame.count())}).select([])
        rows = frame.toArrow()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, plan.table).within(format=plan.format) from error


@contextmanager
def _naming_table(plan: PlannedScan) -> Iterator[None]:
    """Add the table and the snapshot to errors that are raised while a query is prepared."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise


# A query's meaning must not depend on the user's session or on the settings it was started with.
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
    plans: Mapping[str, PlannedScan],
    spark: SparkSession | None = None,
    *,
    columns: Sequence[Field] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the result of a query in Spark's dialect that refers to plans by name.

    The result is a lazy frame of the user's session.

    The query is analyzed in a new session, in ANSI mode, in time zone UTC, with case-insensitive names. So it does not
    see views, functions, or settings of the user's session, and leaves none there.

    Args:
        text: The query.
        plans: The plans by the names that the query uses. The query's own conditions must imply the filters of the
            plans.
        spark: The user's session. None for `harness.spark_session()`.
        columns: The names and types of the result's columns, in order. The query's columns can be cast to these types
            without loss. None to keep the columns that Spark returns.
        parameters: The values of parameters by name, or by number for `?`.

    Raises:
        HarnessError: The errors of `dataframe`.
        UnsupportedError: The session is one of Spark Connect, which has no private session. Or `columns` is given, and
            this Spark version cannot analyze the query although DuckDB can.
        EngineError: Spark refuses the query.
    """
    user_session = spark_session() if spark is None else spark
    gateway = Gateway.for_session(user_session)
    session = user_session.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    try:
        # the query's own filters have already narrowed the plans, so bounds are not read
        for name, plan in plans.items():
            gateway.move(dataframe(replace(plan, statistics=None), user_session), session).createOrReplaceTempView(
                quote_name(name)
            )
        result = session.sql(text, args=_arguments(parameters))
        return gateway.expose(result if columns is None else _as_columns(result, columns))
    except ParseException as error:
        raise engine_error(error) from error
    except AnalysisException as error:
        if columns is not None:  # DuckDB accepts the query, and it was translated to constructs of both engines
            raise UnsupportedError(
                f"Cannot run the query on Spark {user_session.version}, which does not accept its translation: "
                f"{' '.join(str(error).split())[:200]}; run it on DuckDB",
                options=("engine",),
            ) from error
        raise engine_error(_with_suggestions(error, text, plans, session)) from error


def _arguments(parameters: Mapping[str, Any] | None) -> dict[str, Any] | list[Any] | None:
    """Return the parameters in the form that Spark accepts: by name, or as a list for `?`."""
    if not parameters:
        return None
    return dict(parameters) if not all(name.isdecimal() for name in parameters) else list(parameters.values())


def _with_suggestions(
    error: AnalysisException, text: str, plans: Mapping[str, PlannedScan], session: SparkSession
) -> AnalysisException:
    """Return Spark's error for the query after replacing the tables by empty ones with all columns.

    Spark's suggestions for a misspelled column are then complete.
    """
    try:
        for name, plan in plans.items():
            fields = {f.name.casefold(): f for f in (*plan.columns, *plan.schema.fields)}
            empty = session.createDataFrame([], StructType([output_column(f) for f in fields.values()]))
            empty.createOrReplaceTempView(quote_name(name))
        session.sql(text)
    except AnalysisException as better:
        return better
    except HarnessError:  # Spark has no type for a column
        return error
    return error


def _as_columns(frame: DataFrame, columns: Sequence[Field]) -> DataFrame:
    assert len(frame.columns) == len(columns), "a column for each"
    places = frame.toDF(*(f"c{i}" for i in range(len(columns))))
    selected = []
    for stored, target in zip(places.schema, map(output_column, columns), strict=True):
        column = functions.col(stored.name)
        if stored.dataType.simpleString() != target.dataType.simpleString():
            column = column.cast(target.dataType)
        selected.append(column.alias(target.name, metadata=target.metadata))
    return places.select(*selected)


ENGINE = Engine(
    name="spark",
    version=lambda: pyspark.__version__,
    to_arrow=to_arrow,
    start=spark_session,
    dialect="spark",
    query=query,
)
