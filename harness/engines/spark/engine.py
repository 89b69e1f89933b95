"""Runs lowered plans on a Spark session, the user's or one of harness's own."""

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
from harness.engines.spark.types import output_column, quoted
from harness.engines.union_arms import refuse_same_names
from harness.errors import EngineError, HarnessError, UnsupportedError
from harness.metadata.model.schema import Field, arrow_field
from harness.metadata.planned_scan import PlannedScan


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows that `DataFrame.toArrow` gives for columns of `types.storage_type`, as `column_values.conform` has them.

    Raises EngineError: a value does not fit, or text is no UTF-8 (iceberg 6.11), which Spark does not check.
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
                f"Cannot give column {f.name} out as {f.type}: {' '.join(str(error).split())}", field=f.name
            ) from error
        columns.append(pa.chunked_array(chunks, f.type))
    return pa.Table.from_arrays(columns, schema=loose)


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_string(type_))


def dataframe(plan: PlannedScan, spark: SparkSession | None = None) -> DataFrame:
    """The plan's rows as a lazy frame of a session, whose settings stay as they are.

    spark: the user's session, or None for one of harness's own.

    Raises HarnessError: as `harness.engines.spark.lowering.lower` says.
    """
    own = spark_session() if spark is None else spark
    reader = reader_of(own)
    with _naming_table(plan), without_call_sites():
        refuse_same_names(plan.columns, plan.table)
        rows = lower(plan, reader)
        fields = [(functions.col(f"c{i}"), output_column(f)) for i, f in enumerate(plan.columns)]
        named = rows.select(*[column.alias(field.name, metadata=field.metadata) for column, field in fields])
    return reader.expose(named)


def to_arrow(plan: PlannedScan, spark: SparkSession | None = None) -> pa.Table:
    """All rows of a plan, as `Engine` says; raises as `dataframe`, or `engine_error`."""
    own = spark_session() if spark is None else spark
    with _naming_table(plan):
        frame = lower(replace(plan, statistics=None), reader_of(own))  # no filter comes later
        frame = frame if plan.enough is None else frame.limit(plan.enough)
    try:
        if not plan.columns:  # Arrow results without columns lose their rows on the way
            return pa.table({"": pa.nulls(frame.count())}).select([])
        rows = frame.toArrow()
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise engine_error(error, plan.table).within(format=plan.format) from error


@contextmanager
def _naming_table(plan: PlannedScan) -> Iterator[None]:
    """Errors on the way to a query name the table and the snapshot."""
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise


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
    plans: Mapping[str, PlannedScan],
    spark: SparkSession | None = None,
    *,
    columns: Sequence[Field] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The result of a query in Spark's dialect that reads plans by name, as a lazy frame of the user's session.

    The query is analysed in a new session, under ANSI mode, in time zone UTC, names without regard to case. So it sees
    no views, functions or settings of the user's, and leaves none behind.

    Args:
        plans: by the name that the query calls each. Their filters must be implied by the query's own conditions.
        spark: the user's session, or None for `harness.spark_session()`.
        columns: what the result must look like, by place: names, and types that the columns can be cast to without
            loss; None: as Spark has it.
        parameters: values by name, or by number for `?`.

    Raises:
        HarnessError: as for `dataframe`; UnsupportedError also for Spark Connect, where there is no such session.
            Or, where `columns` are given, for what this version of Spark does not analyse, though DuckDB does.
        EngineError: Spark refuses the query.
    """
    own = spark_session() if spark is None else spark
    gateway = Gateway.for_session(own)
    session = own.newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    try:
        for name, plan in plans.items():  # which the query's own filters have narrowed already: no bounds are read
            gateway.moved(dataframe(replace(plan, statistics=None), own), session).createOrReplaceTempView(quoted(name))
        result = session.sql(text, args=_arguments(parameters))
        return gateway.expose(result if columns is None else _as_columns(result, columns))
    except ParseException as error:
        raise engine_error(error) from error
    except AnalysisException as error:
        if columns is not None:  # of a query that DuckDB takes, and which is written for Spark by what both have
            raise UnsupportedError(
                f"Cannot run the query on Spark {own.version}, which does not take what it is written as: "
                f"{' '.join(str(error).split())[:200]}; run it on DuckDB",
                options=("engine",),
            ) from error
        raise engine_error(_with_suggestions(error, text, plans, session)) from error


def _arguments(parameters: Mapping[str, Any] | None) -> dict[str, Any] | list[Any] | None:
    """Values by name, or those of `?` by place."""
    if not parameters:
        return None
    return dict(parameters) if not all(name.isdecimal() for name in parameters) else list(parameters.values())


def _with_suggestions(
    error: AnalysisException, text: str, plans: Mapping[str, PlannedScan], session: SparkSession
) -> AnalysisException:
    """The error where the tables have all their columns: Spark suggests among those that it sees."""
    try:
        for name, plan in plans.items():
            fields = {f.name.casefold(): f for f in (*plan.columns, *plan.schema.fields)}
            empty = session.createDataFrame([], StructType([output_column(f) for f in fields.values()]))
            empty.createOrReplaceTempView(quoted(name))
        session.sql(text)
    except AnalysisException as better:
        return better
    except HarnessError:  # a type that Spark has nothing for
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
