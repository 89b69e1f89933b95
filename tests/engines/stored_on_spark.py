"""Small Parquet files read as Spark shows them, and as the columns that a table wants of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from harness.engines.column_values import column_values
from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.footers import read_footers
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.engine import conform
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead
from harness.engines.spark.types import natural
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field, arrow_field
from harness.metadata.plan.projection import ColumnLookup, ColumnSource, resolve
from harness.storage.stores import Storage


def write(path: Path, rows: pa.Table, **options: Any) -> str:
    """Writes a file as other writers do, without Arrow's own schema in it."""
    pq.write_table(rows, path, **{"store_schema": False, "version": "2.6", **options})
    return str(path)


def physical_schema(path: str) -> PhysicalSchema:
    """The columns of a file as stored."""
    return read_footers(DuckDBFiles(cursor(), Storage()), [FileName(path, path)], table="t")[path].schema


def disk_files(paths: Sequence[str]) -> list[DiskFile]:
    """Files as they are now."""
    return [DiskFile(path, Path(path).stat().st_size) for path in paths]


def stored_frame(spark: Any, path: str, *, vectorised: bool = True) -> DataFrame:
    """The stored columns in their natural Spark types, as `p0`, `p1`, …, in the private session."""
    gateway = Gateway.of(spark)
    gateway.session.conf.set("spark.sql.parquet.enableVectorizedReader", str(vectorised).lower())
    return gateway.planned_frame(
        PlannedRead(
            file_format="parquet",
            read_schema=StructType([natural(f) for f in physical_schema(path)]),
            files=disk_files([path]),
            constants=pa.table({"file": [0]}),
            positions=False,
        )
    )


def wanted_rows(
    spark: Any,
    path: str,
    fields: Sequence[Field],
    *,
    lookup: ColumnLookup = ColumnLookup.ICEBERG,
    constants: Mapping[int, Any] | None = None,
    legacy: frozenset[str] = frozenset(),
) -> pa.Table:
    """The fields of a table as the file gives them, in the user's session, in exact Arrow types.

    constants: partition values of the file by field id.
    """
    constants = constants or {}
    sources: tuple[ColumnSource, ...] = resolve(
        tuple(fields),
        physical_schema(path),
        name_mapping=None,
        partition_ids=frozenset(constants),
        file_path=path,
        table="t",
        lookup=lookup,
    )
    translation = ColumnTranslation(lambda place: F.col(f"p{place}"), FileConstants(1), legacy)
    values = column_values(fields, sources, [constants])
    columns = [translation.expression(value).alias(f"c{i}") for i, value in enumerate(values)]
    frame = Gateway.of(spark).expose(stored_frame(spark, path).select(*columns))
    return conform(frame.toArrow(), pa.schema([arrow_field(f) for f in fields]))


def plain(array: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Values, where dates, times and timestamps are their numbers, because Python's have ends."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_time32(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_temporal(array.type):
        return array.view(pa.int64()).to_pylist()
    return array.to_pylist()
