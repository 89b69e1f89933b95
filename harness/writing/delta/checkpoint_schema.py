"""The columns of a Parquet checkpoint as Arrow types, and JSON actions as rows of them.

Spec: Delta, "Checkpoint Schema".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from harness.model.schema import (
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    arrow_type,
)
from harness.writing.delta.types import Json
from harness.writing.delta.values import partition_value, statistics_value

_TEXT = pa.string()
_MAP = pa.map_(_TEXT, _TEXT)
_VECTOR = pa.struct(
    {
        "storageType": _TEXT,
        "pathOrInlineDv": _TEXT,
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
        "maxRowIndex": pa.int64(),
    }
)
_ROW_TRACKING = {"baseRowId": pa.int64(), "defaultRowCommitVersion": pa.int64()}
ACTION_FIELDS: dict[str, pa.StructType] = {
    "txn": pa.struct({"appId": _TEXT, "version": pa.int64(), "lastUpdated": pa.int64()}),
    "add": pa.struct(
        {
            "path": _TEXT,
            "partitionValues": _MAP,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "tags": _MAP,
            "deletionVector": _VECTOR,
            **_ROW_TRACKING,
            "clusteringProvider": _TEXT,
            "stats": _TEXT,
        }
    ),
    "remove": pa.struct(
        {
            "path": _TEXT,
            "deletionTimestamp": pa.int64(),
            "dataChange": pa.bool_(),
            "extendedFileMetadata": pa.bool_(),
            "partitionValues": _MAP,
            "size": pa.int64(),
            "tags": _MAP,
            "deletionVector": _VECTOR,
            **_ROW_TRACKING,
        }
    ),
    "metaData": pa.struct(
        {
            "id": _TEXT,
            "name": _TEXT,
            "description": _TEXT,
            "format": pa.struct({"provider": _TEXT, "options": _MAP}),
            "schemaString": _TEXT,
            "partitionColumns": pa.list_(_TEXT),
            "configuration": _MAP,
            "createdTime": pa.int64(),
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(_TEXT),
            "writerFeatures": pa.list_(_TEXT),
        }
    ),
    "domainMetadata": pa.struct({"domain": _TEXT, "configuration": _TEXT, "removed": pa.bool_()}),
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _MAP}),
    "sidecar": pa.struct({"path": _TEXT, "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": _MAP}),
}


def with_parsed_columns(add: pa.StructType, parsed: Mapping[str, pa.StructType], *, stats: bool) -> pa.StructType:
    """The `add` column with these more, and without `stats` if it is not wanted."""
    kept = [f for f in add if stats or f.name != "stats"]
    return pa.struct([*kept, *(pa.field(name, type_) for name, type_ in parsed.items())])


def parsed_statistics_type(schema: Schema, partition: Sequence[Field]) -> pa.StructType:
    """The type of `stats_parsed`: bounds of the columns whose types have them, null counts of all (delta F5, F10)."""
    places = {f.id for f in partition}
    fields = [f for f in schema.fields if f.id not in places]
    bounds = _bounds_type(fields)
    nulls = _nulls_type(fields)
    parts = [("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)]
    present = [pa.field(name, type_) for name, type_ in parts if type_ is not None]
    return pa.struct([pa.field("numRecords", pa.int64()), *present, pa.field("tightBounds", pa.bool_())])


def parsed_partition_type(partition: Sequence[Field]) -> pa.StructType:
    """The type of `partitionValues_parsed`: the partition columns under their physical names."""
    return pa.struct([pa.field(f.physical_name or f.name, arrow_type(f.type)) for f in partition])


def parsed_statistics(text: str | None, schema: Schema) -> Json | None:
    """The row of `stats_parsed` for the text of `stats`."""
    if text is None:
        return None
    stats = json.loads(text, parse_float=Decimal)
    struct = StructType(schema.fields)
    for part in ("minValues", "maxValues"):
        if part in stats:
            stats[part] = statistics_value(struct, stats[part])
    return dict(stats)


def parsed_partition_values(values: Mapping[str, str | None], partition: Sequence[Field]) -> Json:
    """The row of `partitionValues_parsed` for the texts of `partitionValues`."""
    names = {f.physical_name or f.name: f.type for f in partition}
    return {name: partition_value(type_, values.get(name)) for name, type_ in names.items()}


def fitted(schema: pa.Schema, action: Json) -> Json:
    """A JSON action as a row: maps become pairs, what the schema lacks is left out."""
    return {f.name: _fitted(f.type, action.get(f.name)) for f in schema}


def _fitted(type_: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {f.name: _fitted(f.type, value.get(f.name)) for f in type_}
    if pa.types.is_map(type_):
        return list(value.items())
    return value


def _bounds_type(fields: Sequence[Field]) -> pa.StructType | None:
    found = []
    for f in fields:
        kind = _bounds_type(f.type.fields) if isinstance(f.type, StructType) else _bound_type(f.type)
        if kind is not None:
            found.append(pa.field(f.physical_name or f.name, kind))
    return pa.struct(found) if found else None


def _bound_type(type_: Type) -> pa.DataType | None:
    match type_:
        case IntegerType() | FloatType() | DecimalType() | DateType() | TimestampType() | StringType():
            return arrow_type(type_)
        case _:
            return None


def _nulls_type(fields: Sequence[Field]) -> pa.StructType | None:
    found = []
    for f in fields:
        match f.type:
            case StructType(fields=inner):
                kind = _nulls_type(inner)
            case UnknownType():
                kind = None
            case _:
                kind = pa.int64()
        if kind is not None:
            found.append(pa.field(f.physical_name or f.name, kind))
    return pa.struct(found) if found else None
