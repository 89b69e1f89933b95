"""Actions of a slice's log as JSON, made from the parsed actions of the source, with the slice's paths."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from harness.metadata.delta.actions import DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol, Transaction
from harness.metadata.model.schema import Field, StructType
from harness.writing.delta.files import statistics_of, z85
from harness.writing.delta.types import JsonObject
from harness.writing.delta.values import encoded_path, json_text

_CATALOG = frozenset({"catalogManaged", "catalogOwned-preview"})


def protocol_json(protocol: Protocol) -> JsonObject:
    """Return the protocol action without the features of a catalog."""
    result: JsonObject = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    for name, features in (("readerFeatures", protocol.reader_features), ("writerFeatures", protocol.writer_features)):
        if features is not None:
            result[name] = [feature for feature in features if feature not in _CATALOG]
    return result


def is_managed(protocol: Protocol) -> bool:
    """Return whether the protocol has a feature of a catalog, which `protocol_json` leaves out."""
    return bool(_CATALOG & {*(protocol.reader_features or ()), *(protocol.writer_features or ())})


def metadata_json(metadata: Metadata) -> JsonObject:
    """Return the metaData action."""
    result: JsonObject = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider, "options": {}},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time_ms,
    }
    return {name: value for name, value in result.items() if value is not None}


def transaction_json(transaction: Transaction) -> JsonObject:
    """Return a txn action."""
    updated = transaction.last_updated_ms
    notes = {} if updated is None else {"lastUpdated": updated}
    return {"appId": transaction.app_id, "version": transaction.version, **notes}


def domain_json(domain: DomainMetadata) -> JsonObject:
    """Return a domainMetadata action."""
    return {"domain": domain.domain, "configuration": domain.configuration, "removed": domain.removed}


def add_json(
    row: Mapping[str, Any], target: str, size: int, vector: JsonObject | None, *, data_change: bool
) -> JsonObject:
    """Return the add action of a file.

    Args:
        row: The file's row of `FILES_STATE` or `ADDS`.
        target: Its path in the slice.
        size: Its size in bytes.
        vector: The descriptor of its deletion vector, or None.
        data_change: The value of `dataChange`.
    """
    result: JsonObject = {
        "path": encoded_path(target),
        "partitionValues": dict(row["partition_values"] or ()),
        "size": size,
        "modificationTime": row["modification_time"] or 0,
        "dataChange": data_change,
    }
    parsed = None if row["stats"] is not None else row.get("stats_parsed")
    if row["stats"] is not None:
        result["stats"] = row["stats"]
    elif parsed is not None and (plain := _json_statistics(parsed)).get("numRecords") is not None:
        result["stats"] = json_text(plain)
    return result | _present_values(row, _TRACKED, vector)


def without_statistics(add: JsonObject) -> JsonObject:
    """Return the add action without statistics. The row count stays if deletion vectors or row ids need it."""
    result = {name: value for name, value in add.items() if name != "stats"}
    if "stats" in add and ("deletionVector" in add or "baseRowId" in add):
        result["stats"] = json_text({"numRecords": json.loads(add["stats"]).get("numRecords")})
    return result


def remove_json(row: Mapping[str, Any], target: str, vector: JsonObject | None) -> JsonObject:
    """Return the remove action of a file, given its row of `REMOVES`."""
    result: JsonObject = {"path": encoded_path(target), "dataChange": row["data_change"]}
    if row["partition_values"] is not None:
        result["partitionValues"] = dict(row["partition_values"])
    return result | _present_values(row, _REMOVED | _TRACKED, vector)


_REMOVED = {"deletionTimestamp": "deletion_time", "extendedFileMetadata": "extended_file_metadata", "size": "size"}
_TRACKED = {"baseRowId": "base_row_id", "defaultRowCommitVersion": "default_row_commit_version"}


def _present_values(row: Mapping[str, object], names: Mapping[str, str], vector: JsonObject | None) -> JsonObject:
    """Return the values that are not null, by their names in the log, and the deletion vector."""
    result: JsonObject = {} if vector is None else {"deletionVector": vector}
    return result | {name: row[column] for name, column in names.items() if row[column] is not None}


def _json_statistics(struct: Mapping[str, object]) -> JsonObject:
    """Return a checkpoint's statistics without nulls, and without values that have no form in JSON statistics."""
    result: JsonObject = {}
    for name, value in struct.items():
        if isinstance(value, Mapping):
            result[name] = _json_statistics(value)
        elif isinstance(value, dt.datetime):
            # JSON statistics have milliseconds, and a truncated maximum would be too small
            if not value.microsecond % 1000:
                result[name] = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        elif isinstance(value, dt.date):
            result[name] = value.isoformat()
        elif isinstance(value, bool | int | str | Decimal) or (isinstance(value, float) and value - value == 0):
            result[name] = value
    return result


_BOUNDS_LENGTH = 32  # characters, as in Delta's own writers
_BOUNDS = ("minValues", "maxValues", "nullCount")


def file_statistics(values: pa.Table, fields: tuple[Field, ...]) -> JsonObject:
    """Return the statistics of a rewritten file with these values, under the physical names of its columns."""
    result = statistics_of(values, fields, _BOUNDS_LENGTH)
    return {name: _with_physical_names(part, fields) if name in _BOUNDS else part for name, part in result.items()}


def _with_physical_names(level: JsonObject, fields: tuple[Field, ...]) -> JsonObject:
    result: JsonObject = {}
    for f in fields:
        if f.name in level:
            value, name = level[f.name], f.physical_name or f.name
            result[name] = _with_physical_names(value, f.type.fields) if isinstance(f.type, StructType) else value
    return result


def vector_target(file: str) -> str:
    """Return the path in the slice of a deletion vector file, given its physical path in the source."""
    return f"deletion_vector_{vector_name(file)}.bin"


def copied_vector(vector: DeletionVectorDescriptor, file: str | None) -> JsonObject:
    """Return the descriptor of a deletion vector whose file was copied.

    Args:
        vector: The source's descriptor.
        file: The physical path of the vector's file, or None if the vector is inline in the log.
    """
    result: JsonObject = {"storageType": "i", "pathOrInlineDv": vector.path_or_inline}
    if file is not None:
        result = {"storageType": "u", "pathOrInlineDv": z85(vector_name(file).bytes)}
        if vector.offset is not None:
            result["offset"] = vector.offset
    return {**result, "sizeInBytes": vector.size, "cardinality": vector.cardinality}


def vector_name(file: str) -> uuid.UUID:
    """Return the id in the name of a deletion vector file. The same text always has the same id."""
    return uuid.uuid5(uuid.NAMESPACE_URL, file)
