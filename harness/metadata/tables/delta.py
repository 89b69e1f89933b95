"""Metadata tables of a Delta log: versions as in DESCRIBE HISTORY, and the files and partitions of a version."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import json_text
from harness.metadata.delta.scan import DeltaSnapshot
from harness.metadata.delta.statistics import record_counts
from harness.metadata.delta.table import DeltaTable
from harness.metadata.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import StructType
from harness.metadata.tables.reading import (
    FLAG,
    LONG,
    TEXT,
    TEXTS,
    TIME,
    MetadataTable,
    partition_column,
    schema_of,
    table_of,
    tuple_struct,
    tuples_of,
)

_VERSIONS = schema_of(
    version=LONG,
    timestamp=TIME,
    userId=TEXT,
    userName=TEXT,
    operation=TEXT,
    operationParameters=TEXTS,
    job=TEXTS,
    notebook=TEXTS,
    clusterId=TEXT,
    readVersion=LONG,
    isolationLevel=TEXT,
    isBlindAppend=FLAG,
    operationMetrics=TEXTS,
    userMetadata=TEXT,
    engineInfo=TEXT,
)


def table(opened: DeltaTable, snapshot: DeltaSnapshot, kind: str) -> MetadataTable:
    """Return the metadata table called `kind`.

    `files` and `partitions` describe the version. All other metadata tables describe the whole table.
    """
    type_ = tuple_struct(snapshot.columns.partition_columns)
    if kind == "files":
        schema = schema_of(
            path=TEXT,
            **partition_column(type_),
            size=LONG,
            modification_time=TIME,
            num_records=LONG,
            stats=TEXT,
            deletion_vector_storage_type=TEXT,
            deleted_rows=LONG,
            base_row_id=LONG,
            default_row_commit_version=LONG,
        )
        return MetadataTable(schema, lambda _: _files(snapshot, schema, type_))
    if kind == "partitions":
        counts = ("record_count", "file_count", "total_data_file_size_in_bytes", "deleted_rows")
        schema = schema_of(**partition_column(type_), **dict.fromkeys(counts, LONG))
        return MetadataTable(schema, lambda _: _partitions(snapshot, schema, type_))
    return MetadataTable(_VERSIONS, lambda _: _versions(opened))


def _versions(table: DeltaTable) -> pa.Table:
    """Return the readable versions, newest first. Values of a commit that have the wrong type are null."""
    snapshots = reversed(table.snapshots())
    commit_fields = [f for f in _VERSIONS if f.name not in ("version", "timestamp")]
    rows = [
        (e["id"], e["timestamp_ms"], *(_commit_value(e["commit_info"].get(f.name), f.type) for f in commit_fields))
        for e in snapshots
    ]
    return table_of(_VERSIONS, rows)


def _files(snapshot: DeltaSnapshot, schema: pa.Schema, partition: StructType | None) -> pa.Table:
    """Return the live files of a version."""
    files = snapshot.state.files
    counts = record_counts(files)
    has_vector = pc.is_valid(files.column("dv_storage_type"))
    arrays = {
        **{name: files.column(name) for name in ("path", "size", "stats", "base_row_id", "default_row_commit_version")},
        "modification_time": pc.multiply(files.column("modification_time"), scalar_of(1000, pa.int64())).cast(TIME),
        "num_records": from_numpy(counts, missing=counts < 0),
        "deletion_vector_storage_type": files.column("dv_storage_type"),
        "deleted_rows": pc.if_else(has_vector, files.column("dv_cardinality"), scalar_of(0, pa.int64())),
    }
    if partition is not None:
        tuples = snapshot.partitions
        arrays["partition"] = tuples_of(tuples.tuples, partition).take(from_numpy(tuples.indexes))
    return pa.table([arrays[name] for name in schema.names], schema=schema)


def _partitions(snapshot: DeltaSnapshot, schema: pa.Schema, partition: StructType | None) -> pa.Table:
    """Return a row for each partition with live files. Row counts include rows that deletion vectors delete."""
    files, tuples = snapshot.state.files, snapshot.partitions
    counts = np.maximum(record_counts(files), 0)
    deleted = to_numpy(files.column("dv_cardinality").fill_null(0)).astype(np.int64)
    arrays = [] if partition is None else [tuples_of(tuples.tuples, partition)]
    for values in (counts, np.ones(len(counts), np.int64), to_numpy(files.column("size")), deleted):
        total = np.zeros(len(tuples.tuples), np.int64)
        np.add.at(total, tuples.indexes, values)
        arrays.append(from_numpy(total))
    return pa.Table.from_arrays(arrays, schema=schema)


def _commit_value(value: object, type_: pa.DataType) -> object:
    """Return a value of a commit, or None if it has the wrong type.

    Writers other than Spark record mappings with values that are not texts. Such values are converted to JSON.
    """
    if type_ == TEXTS and isinstance(value, Mapping):
        return [
            (key, item if item is None or isinstance(item, str) else json_text(item)) for key, item in value.items()
        ]
    python = {pa.string(): str, pa.bool_(): bool, pa.int64(): int}.get(type_)
    is_small = type(value) is not int or abs(value) < 1 << 63
    return value if type(value) is python and is_small else None
