"""A query that Spark runs: `harness sql --engine spark`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from harness.cli.rows import Rows
from harness.differ.spark_types import logical
from harness.engines.spark.engine import conform
from harness.engines.spark.executor_python import engine_error
from harness.queries.sql import run_query


def run_on_spark(query: str, tables: Mapping[str, Any], dialect: str) -> Rows:
    """The rows of the query, which has run: Spark's driver hands them over as a whole.

    Raises:
        UnsupportedError: Spark might answer differently than DuckDB, or a column's type has no equal in Arrow.
        EngineError: Spark refuses the query, or fails on a row.
        HarnessError: see `harness.sql`.
    """
    frame = cast(DataFrame, run_query(query, tables, engine="spark", dialect=dialect))
    schema = pa.schema([logical(column) for column in frame.schema.fields])
    try:
        rows = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise engine_error(error) from error
    return Rows.of(conform(rows, schema))
