"""Actions of a slice as the log spells them: made of what harness read, under the slice's paths."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from harness.metadata.delta.actions import DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol, Transaction
from harness.metadata.model.schema import Field, StructType
from harness.testing.writing.delta.files import statistics_of, write_vectors, z85
from harness.testing.writing.delta.values import encoded_path, json_text
from harness.tools.slices.delta.contents import DeltaContents
from harness.tools.slices.place import SliceNames, SlicePlace, writing
from harness.tools.slices.rewriting import Settled, ordinals

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
    """True if the protocol names a catalog's feature, which `protocol_json` leaves out."""
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
    parsed = None if row["stats"] is not None else row.get("stats_parsed")
    if row["stats"] is not None:
        found["stats"] = row["stats"]
    elif parsed is not None and (plain := _plain(parsed)).get("numRecords") is not None:
        found["stats"] = json_text(plain)
    return found | _shared(row, vector)


def remove_json(row: Mapping[str, Any], target: str, vector: Json | None) -> Json:
    """The remove action of a file; `row` is of `REMOVES`."""
    found: Json = {"path": encoded_path(target), "dataChange": row["data_change"]}
    if row["partition_values"] is not None:
        found["partitionValues"] = dict(row["partition_values"])
    return found | _known(row, _REMOVED) | _shared(row, vector)


_REMOVED = {"deletionTimestamp": "deletion_time", "extendedFileMetadata": "extended_file_metadata", "size": "size"}
_TRACKED = {"baseRowId": "base_row_id", "defaultRowCommitVersion": "default_row_commit_version"}


def _shared(row: Mapping[str, Any], vector: Json | None) -> Json:
    return {**({} if vector is None else {"deletionVector": vector}), **_known(row, _TRACKED)}


def _known(row: Mapping[str, Any], names: Mapping[str, str]) -> Json:
    """The columns that are not null, by the names of the log."""
    return {name: row[column] for name, column in names.items() if row[column] is not None}


def _plain(struct: Mapping[str, Any]) -> Json:
    """The statistics of a checkpoint's struct, without nulls and values that JSON statistics have no form for."""
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


# Statistics of a data file that was written anew, under the names that the file has.


_BOUNDS_LENGTH = 32  # characters, as Delta's own writers cut bounds
_BOUNDS = ("minValues", "maxValues", "nullCount")


def file_statistics(values: pa.Table, fields: tuple[Field, ...]) -> Json:
    """The statistics of a file with these values; `fields` name the columns as the table does."""
    found = statistics_of(values, fields, _BOUNDS_LENGTH)
    return {name: _physical(part, fields) if name in _BOUNDS else part for name, part in found.items()}


def _physical(level: Json, fields: tuple[Field, ...]) -> Json:
    """The same under physical names."""
    by_name = {f.name: f for f in fields}
    return {by_name[name].physical_name or name: _inner(by_name[name], value) for name, value in level.items()}


def _inner(field: Field, value: Any) -> Any:
    return _physical(value, field.type.fields) if isinstance(field.type, StructType) else value


# Deletion vectors of a slice: files of them copied under names that descriptors spell, or written anew.


def vector_target(file: str) -> str:
    """The name in the slice of a file of vectors, by its physical path; always the same for one file."""
    return f"deletion_vector_{_id(file)}.bin"


def copied_vector(vector: DeletionVectorDescriptor, file: str | None) -> Json:
    """The descriptor of a vector whose file was copied; `file`: its physical path, None for one in the log."""
    found: Json = {"storageType": "i", "pathOrInlineDv": vector.path_or_inline}
    if file is not None:
        found = {"storageType": "u", "pathOrInlineDv": z85(_id(file).bytes)}
        if vector.offset is not None:
            found["offset"] = vector.offset
    return {**found, "sizeInBytes": vector.size, "cardinality": vector.cardinality}


def _id(file: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, file)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of files that lost rows, by the physical path of the data file and the id of the old vector."""

    known: Mapping[tuple[str, str], Json]

    @staticmethod
    def written(
        contents: DeltaContents, settled: Mapping[str, Settled], place: SlicePlace, names: SliceNames, *, compact: bool
    ) -> Vectors:
        """Writes those that delete a row of the slice, into one file. compact: none of them does."""
        if compact:
            return Vectors({})
        vectors = {
            (row["physical"], vector.unique_id)
            for row in contents.adds()
            if (vector := DeletionVectorDescriptor.of(row)) is not None
        }
        dead = {}
        for version, plan in contents.plans.items():
            places = ordinals(plan)
            here = {row[0]: row for row in contents.live_vectors(version) if row in vectors}
            wanted = [places[path] for path in here if path in places]
            loaded = plan.load_positions(wanted)
            for path, key in here.items():
                positions = loaded.get(places[path]) if path in places else None
                if positions and path in settled and (moved := settled[path].moved(positions)):
                    dead[key] = moved
        if not dead:
            return Vectors({})
        with writing(place.directory):
            name = _id(f"vectors of a slice {names.refreshed}")
            described = write_vectors(place.directory, name, 0, dead.values())
        return Vectors(dict(zip(dead, described, strict=True)))

    def of(self, path: str, vector: DeletionVectorDescriptor) -> Json | None:
        """The descriptor of the data file's vector in the slice; None: it deletes none of its rows."""
        return self.known.get((path, vector.unique_id))
