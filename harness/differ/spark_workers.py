"""Hashes of a frame's rows by DuckDB on the executors: for sessions whose JVM cannot be reached, as with Spark Connect.

Slower than calls of Java, several times, and needs harness and DuckDB on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pyspark.sql import types as spark

from harness.differ.duckdb_hash import Value, row_hashes
from harness.differ.sides import Hashing
from harness.differ.storage_types import carried
from harness.engines.spark.executor_python import prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def hashed_by_duckdb(frame: DataFrame, schema: pa.Schema, hashing: Hashing, *, keep: bool) -> DataFrame:
    """The hashes of each row as bigints, and with `keep` the columns before them.

    schema: what the frame's columns stand for, by place.
    """
    prepare(frame.sparkSession)
    kept = list(frame.schema.fields) if keep else []
    fields = [*kept, *(spark.StructField(name, spark.LongType()) for name in hashing.names)]
    return frame.mapInArrow(_hasher(schema, hashing, len(kept)), spark.StructType(fields))


def _hasher(
    schema: pa.Schema, hashing: Hashing, kept: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def hash_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = duckdb.connect(config={"threads": 1})
        for batch in batches:
            columns = [*batch.columns[:kept], *_hashes(batch, schema, hashing, connection)]
            names = [*batch.schema.names[:kept], *hashing.names]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    return hash_batches


def _hashes(
    batch: pa.RecordBatch, schema: pa.Schema, hashing: Hashing, connection: duckdb.DuckDBPyConnection
) -> list[pa.Array]:
    """In the order of the rows: DuckDB keeps it in one thread."""
    rows = carried(pa.Table.from_batches([batch]))
    names = [f"c{i}" for i in range(rows.num_columns)]
    connection.register("batch", rows.rename_columns(names))
    relation = connection.table("batch")
    values = {
        name: Value(f"c{i}", relation.types[i], schema.field(i).type, hashing.form_of(name))
        for i, name in enumerate(schema.names)
        if name in hashing.columns
    }
    lanes: tuple[str, ...] = row_hashes([values[name] for name in hashing.columns])
    if hashing.keys:
        lanes = (*lanes, *row_hashes([values[name] for name in hashing.keys]))
    outputs = ", ".join(f"{text} AS {name}" for name, text in zip(hashing.names, lanes, strict=True))
    found = pa.table(relation.project(outputs)).combine_chunks()
    connection.unregister("batch")
    return [pa.array(column.combine_chunks()).view(pa.int64()) for column in found.columns]
