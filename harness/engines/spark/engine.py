"""Runs lowered plans on a Spark session, the user's or one of harness's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from harness.engines.shared.names import refuse_same_names
from harness.engines.spark.conform import conform
from harness.engines.spark.connect import reader_of
from harness.engines.spark.lowering import lower, without_call_sites
from harness.engines.spark.session import spark_session
from harness.engines.spark.types import shown
from harness.engines.spark.worker_errors import engine_error
from harness.errors import HarnessError
from harness.model.schema import arrow_field
from harness.plan.scan_plan import ScanPlan


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
    """All rows of a plan, in the exact types of its columns (`harness.model.schema.arrow_type`); row order is open.

    Raises:
        HarnessError: as for `dataframe`.
        EngineError: Spark failed while it ran the query.
    """
    own = spark_session() if spark is None else spark
    with _about(plan):
        frame = lower(replace(plan, bounds=None), reader_of(own))  # no filter comes later
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
