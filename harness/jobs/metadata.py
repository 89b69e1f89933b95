"""Metadata tables of a source, as rows of a job."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from harness.errors import RequestError
from harness.jobs.opened import FrameRows
from harness.snapshot import Snapshot
from harness.table import Table

DESCRIBE = "describe "
"""Before the names of what Delta's statements read: no metadata table's name has a blank."""
_MS = pa.timestamp("ms", "UTC")


def metadata_rows(name: str, table: Table, snapshot: Snapshot, metadata: str) -> FrameRows:
    """A metadata table of that name.

    Raises:
        RequestError: there is none, or it is one of Delta's statements on an Iceberg table.
        HarnessError: as `Snapshot.metadata`.
    """
    if not metadata.startswith(DESCRIBE):
        return _arrow_rows(name, snapshot.metadata(metadata))
    statement = metadata.removeprefix(DESCRIBE)
    if table.format != "delta":
        raise RequestError(
            f"Cannot DESCRIBE {statement.upper()} {name.rpartition('.')[0]}: it is an Iceberg table; read its metadata "
            "tables, such as history and snapshots"
        )
    return _arrow_rows(name, _detail(table) if statement == "detail" else snapshot.metadata("history"))


def _detail(table: Table) -> pa.Table:
    """What DESCRIBE DETAIL gives on Spark, in its columns; Delta, "Retrieve Delta table details"."""
    told = table.describe()
    protocol = told["protocol"]
    features = {*(protocol["reader_features"] or ()), *(protocol["writer_features"] or ())}
    texts = pa.list_(pa.string())
    columns: dict[str, tuple[object, pa.DataType]] = {
        "format": ("delta", pa.string()),
        "id": (told["uuid"], pa.string()),
        "name": (told["name"], pa.string()),
        "description": (told["description"], pa.string()),
        "location": (table.location, pa.string()),
        "createdAt": (told["created_time_ms"], _MS),
        "lastModified": (told["timestamp_ms"], _MS),
        "partitionColumns": (told["partition_columns"], texts),
        "clusteringColumns": ([], texts),
        "numFiles": (told["files"], pa.int64()),
        "sizeInBytes": (told["bytes"], pa.int64()),
        "properties": (list(told["properties"].items()), pa.map_(pa.string(), pa.string())),
        "minReaderVersion": (protocol["min_reader_version"], pa.int32()),
        "minWriterVersion": (protocol["min_writer_version"], pa.int32()),
        "tableFeatures": (sorted(features), texts),
    }
    return pa.table({name: pa.array([value], type_) for name, (value, type_) in columns.items()})


def _arrow_rows(name: str, rows: pa.Table) -> FrameRows:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema)
    assert isinstance(schema, StructType)
    return FrameRows(name=name, schema=schema, make=lambda spark: spark.createDataFrame(rows, schema))
