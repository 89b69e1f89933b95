"""Log entries of a Delta table with pseudonyms for partition values, and without texts that people or writers chose."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UnsupportedError
from harness.metadata.delta.actions import Metadata
from harness.metadata.delta.partition_values import parse_partition_value
from harness.metadata.model.schema import BinaryType, Field, StringType, TimestampType, UuidType
from harness.slices.anonymising.pseudonyms import Pseudonyms
from harness.writing.delta.log import LogState
from harness.writing.delta.types import JsonObject
from harness.writing.delta.values import json_text, partition_text

_FIELD = ("name", "type", "nullable")
_FIELD_METADATA = """
    delta.columnMapping.id delta.columnMapping.physicalName delta.columnMapping.nested.ids
    delta.typeChanges __CHAR_VARCHAR_TYPE_STRING parquet.field.id parquet.field.nested.ids
    """.split()  # noqa: SIM905  # a list would take a line for each
_PROPERTIES = frozenset(
    """
    delta.enableDeletionVectors delta.enableChangeDataFeed delta.appendOnly delta.columnMapping.mode
    delta.columnMapping.maxColumnId delta.checkpointInterval delta.checkpointPolicy delta.enableRowTracking
    delta.rowTrackingSuspended delta.rowTracking.materializedRowIdColumnName
    delta.rowTracking.materializedRowCommitVersionColumnName delta.enableInCommitTimestamps
    delta.inCommitTimestampEnablementVersion delta.inCommitTimestampEnablementTimestamp delta.enableTypeWidening
    delta.minReaderVersion delta.minWriterVersion delta.logRetentionDuration delta.deletedFileRetentionDuration
    delta.enableExpiredLogCleanup delta.dataSkippingNumIndexedCols delta.dataSkippingStatsColumns delta.isolationLevel
    delta.checkpoint.writeStatsAsJson delta.checkpoint.writeStatsAsStruct delta.enableIcebergCompatV1
    delta.enableIcebergCompatV2 delta.enableIcebergCompatV3 delta.targetFileSize delta.randomizeFilePrefixes
    delta.setTransactionRetentionDuration delta.tuneFileSizesForRewrites
    """.split()  # noqa: SIM905  # a list would take a line for each
)
"""Properties that are kept, because their values are modes, sizes, or names of columns."""
_DOMAINS = frozenset({"delta.clustering", "delta.rowTracking"})
_INFO = frozenset({"timestamp", "inCommitTimestamp", "isBlindAppend"})
_OPERATIONS = frozenset({"WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "CREATE TABLE", "STREAMING UPDATE"})


@dataclass(frozen=True, slots=True)
class DeltaMasking:
    """The replacement of values in the log of a slice.

    Attributes:
        metadata: The source's metadata.
        columns: The slice's columns.
        pseudonyms: The pseudonyms.
    """

    metadata: Metadata
    columns: tuple[Field, ...]
    pseudonyms: Pseudonyms

    def mask(self, state: LogState) -> list[str]:
        """Replace values and remove texts in the state of the table. Return a sentence for each kind of removal."""
        assert state.metadata is not None
        state.metadata = self._metadata(state.metadata)
        state.transactions = {
            name: {**txn, "appId": name}
            for app_id, txn in state.transactions.items()
            for name in (str(self.pseudonyms.pseudonym(StringType(), app_id)),)
        }
        state.domains = {name: domain for name, domain in state.domains.items() if name in _DOMAINS}
        names = sorted(self.metadata.configuration.keys() - state.metadata["configuration"].keys())
        notes = [f"Left out properties and constraints: {', '.join(names)}"] if names else []
        if "generationExpression" in self.metadata.schema_string:
            notes.append("Left out generation expressions: the pseudonyms do not satisfy them")
        return notes

    def _metadata(self, action: JsonObject) -> JsonObject:
        result = {k: v for k, v in action.items() if k in ("format", "partitionColumns", "createdTime")}
        schema = json.loads(action["schemaString"])
        configuration = {
            k: v for k, v in action["configuration"].items() if k in _PROPERTIES or k.startswith("delta.feature.")
        }
        try:
            id_ = uuid.UUID(action["id"])
        except ValueError:
            id_ = uuid.uuid5(uuid.NAMESPACE_OID, action["id"])
        result["id"] = str(uuid.UUID(bytes=self.pseudonyms.pseudonym(UuidType(), id_.bytes)))
        return {**result, "schemaString": json_text(_without_texts(schema)), "configuration": configuration}

    def partition_values(self, texts: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the anonymised partition values of a file.

        Raises:
            UnsupportedError: A value has no pseudonym.
            InvalidTableError: A value is not valid for its type.
        """
        partition_names = {name.casefold() for name in self.metadata.partition_columns}
        columns = {f.physical_name or f.name: f for f in self.columns if f.name.casefold() in partition_names}
        return {name: self._text(columns[name], text) for name, text in texts.items() if name in columns}

    def _text(self, column: Field, text: str | None) -> str | None:
        if isinstance(column.type, BinaryType) and text is not None:
            raise UnsupportedError(
                "Cannot anonymise a partition by bytes: pseudonyms of bytes cannot be stored as text in the log",
                field=column.name,
            )
        value = self.pseudonyms.pseudonym(column.type, parse_partition_value(text, column.type, column=column.name))
        result = partition_text(column.type, value)
        if result is not None and isinstance(column.type, TimestampType) and column.type.utc:
            return result.replace(" ", "T") + "Z"
        return result


def commit_info(info: Mapping[str, object]) -> JsonObject:
    """Return the time and operation of a commit, without its user, paths, and conditions."""
    numbers = {name: value for name, value in info.items() if name in _INFO and isinstance(value, bool | int)}
    operation = info.get("operation")
    return {**numbers, "operation": operation} if operation in _OPERATIONS else numbers


def _without_texts(type_: object) -> Any:
    """Return a type of a JSON schema without comments, defaults, and expressions."""
    if not isinstance(type_, dict):
        return type_
    parts = ("elementType", "keyType", "valueType")
    result = {k: _without_texts(v) if k in parts else v for k, v in type_.items()}
    if "fields" in result:
        result["fields"] = [
            {
                **{
                    name: _without_texts(field[name]) if name == "type" else field[name]
                    for name in _FIELD
                    if name in field
                },
                "metadata": {k: v for k, v in (field.get("metadata") or {}).items() if k in _FIELD_METADATA},
            }
            for field in result["fields"]
        ]
    return result
