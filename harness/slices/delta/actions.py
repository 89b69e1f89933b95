"""Actions of a slice as the log spells them: made of what harness read, under the slice's paths."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from harness.delta.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from harness.writing.delta.values import encoded_path, json_text

Json: TypeAlias = dict[str, Any]
_CATALOG = frozenset({"catalogManaged", "catalogOwned-preview"})


def protocol_json(protocol: Protocol) -> Json:
    """The protocol; a slice has no catalog that would manage it."""
    found: Json = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    for name, features in (("readerFeatures", protocol.reader_features), ("writerFeatures", protocol.writer_features)):
        if features is not None:
            found[name] = [feature for feature in features if feature not in _CATALOG]
    return found


def is_managed(protocol: Protocol) -> bool:
    """Whether the protocol names a catalog's feature, which `protocol_json` leaves out."""
    return bool(_CATALOG & {*(protocol.reader_features or ()), *(protocol.writer_features or ())})


def metadata_json(metadata: Metadata) -> Json:
    """The metaData action."""
    found: Json = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider, "options": {}},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time_ms,
    }
    return {name: value for name, value in found.items() if value is not None}


def transaction_json(transaction: Transaction) -> Json:
    """A txn action."""
    found: Json = {"appId": transaction.app_id, "version": transaction.version}
    if transaction.last_updated_ms is not None:
        found["lastUpdated"] = transaction.last_updated_ms
    return found


def domain_json(domain: DomainMetadata) -> Json:
    """A domainMetadata action."""
    return {"domain": domain.domain, "configuration": domain.configuration, "removed": domain.removed}


def add_json(row: Mapping[str, Any], target: str, size: int, vector: Json | None, *, data_change: bool) -> Json:
    """The add action of a file.

    row: of `FILES_STATE` or `ADDS`. target: its path in the slice. size: in bytes, as it is. vector: its descriptor.
    """
    found: Json = {
        "path": encoded_path(target),
        "partitionValues": dict(row["partition_values"] or ()),
        "size": size,
        "modificationTime": row["modification_time"] or 0,
        "dataChange": data_change,
    }
    stats = row["stats"] if row["stats"] is not None else parsed_statistics(row.get("stats_parsed"))
    if stats is not None:
        found["stats"] = stats
    return found | _shared(row, vector)


def remove_json(row: Mapping[str, Any], target: str, vector: Json | None) -> Json:
    """The remove action of a file; `row` is of `REMOVES`."""
    found: Json = {"path": encoded_path(target), "dataChange": row["data_change"]}
    if row["deletion_time"] is not None:
        found["deletionTimestamp"] = row["deletion_time"]
    if row["extended_file_metadata"] is not None:
        found["extendedFileMetadata"] = row["extended_file_metadata"]
    if row["partition_values"] is not None:
        found["partitionValues"] = dict(row["partition_values"])
    if row["size"] is not None:
        found["size"] = row["size"]
    return found | _shared(row, vector)


def _shared(row: Mapping[str, Any], vector: Json | None) -> Json:
    found: Json = {} if vector is None else {"deletionVector": vector}
    for name, column in (("baseRowId", "base_row_id"), ("defaultRowCommitVersion", "default_row_commit_version")):
        if row[column] is not None:
            found[name] = row[column]
    return found


def parsed_statistics(struct: Mapping[str, Any] | None) -> str | None:
    """The statistics that a checkpoint holds as a struct, as JSON text; None: there are none."""
    if struct is None:
        return None
    plain = _plain(struct)
    return json_text(plain) if plain.get("numRecords") is not None else None


def _plain(struct: Mapping[str, Any]) -> Json:
    """Nulls and what JSON statistics have no form for are left out."""
    found: Json = {}
    for name, value in struct.items():
        if isinstance(value, Mapping):
            found[name] = _plain(value)
        elif isinstance(value, dt.datetime):
            if not value.microsecond % 1000:  # statistics end at milliseconds, and a cut maximum would be below a value
                found[name] = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        elif isinstance(value, dt.date):
            found[name] = value.isoformat()
        elif isinstance(value, bool | int | str | Decimal) or (isinstance(value, float) and value - value == 0):
            found[name] = value
    return found
