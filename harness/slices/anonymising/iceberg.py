"""Metadata of an Iceberg table with pseudonyms for partition values and defaults, without texts that hold values."""

from __future__ import annotations

import copy
import datetime
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import UnsupportedError
from harness.metadata.files.documents import Json
from harness.metadata.iceberg.manifests import ManifestEntry
from harness.metadata.iceberg.model import PartitionField, TableMetadata
from harness.metadata.iceberg.transforms import Day, Hour, Identity, Month, Truncate, Void, Year, apply, is_defined
from harness.metadata.iceberg.types import parse_default, parse_type
from harness.metadata.iceberg.values import source_type
from harness.metadata.model import schema as dt
from harness.slices.anonymising.pseudonyms import Pseudonyms
from harness.writing.iceberg.types import default_json

_DOCUMENT = """
    format-version table-uuid location last-sequence-number last-updated-ms last-column-id schemas schema
    current-schema-id partition-specs partition-spec default-spec-id last-partition-id properties current-snapshot-id
    snapshots snapshot-log metadata-log sort-orders default-sort-order-id refs next-row-id
    """.split()  # noqa: SIM905  # a list would take a line for each
_SNAPSHOT = """
    snapshot-id parent-snapshot-id sequence-number timestamp-ms manifest-list manifests summary schema-id first-row-id
    added-rows
    """.split()  # noqa: SIM905  # a list would take a line for each
_FIELD = ("id", "name", "required", "type", "initial-default", "write-default")
_COUNTS = ("added-", "deleted-", "removed-", "total-")
_PROPERTIES = frozenset(
    """
    schema.name-mapping.default write.format.default write.delete.format.default write.delete.mode write.update.mode
    write.merge.mode write.distribution-mode write.target-file-size-bytes write.delete.target-file-size-bytes
    write.parquet.compression-codec write.parquet.row-group-size-bytes write.parquet.page-size-bytes
    write.metadata.compression-codec write.metadata.delete-after-commit.enabled write.metadata.previous-versions-max
    write.metadata.metrics.default write.delete.granularity gc.enabled commit.retry.num-retries
    history.expire.max-snapshot-age-ms history.expire.min-snapshots-to-keep
    """.split()  # noqa: SIM905  # a list would take a line for each
)
"""Properties that are kept, because their values are modes, sizes, or names of columns."""
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class IcebergMasking:
    """The replacement of values in a table's metadata: partition values, defaults, and texts.

    Attributes:
        metadata: The source's metadata.
        schema: The schema of the pulled snapshot.
        pseudonyms: The pseudonyms.
    """

    metadata: TableMetadata
    schema: dt.Schema
    pseudonyms: Pseudonyms

    def entry(self, entry: ManifestEntry) -> ManifestEntry:
        """Return a manifest entry with the partition of the pseudonyms. The file is no longer marked as sorted.

        Raises:
            UnsupportedError: Rows of one partition would be in several partitions.
        """
        spec = self.metadata.specs[entry.file.spec_id]
        partition = {f.field_id: self._partition(f, entry.file.partition.get(f.field_id)) for f in spec.fields}
        file = replace(entry.file, partition=partition, sort_order_id=None)
        return replace(entry, file=replace(file, column_sizes=None, lower_bounds=None, upper_bounds=None))

    def _partition(self, field: PartitionField, value: object) -> object:
        transform = field.transform
        if value is None or isinstance(transform, Void):
            return None
        source = source_type(field, (self.schema, *self.metadata.schemas.values()))
        if source is None or not is_defined(transform, source) or not _keeps_partitions(field, source):
            raise UnsupportedError(
                f"Cannot anonymise: the partition field {field.name}, {transform}, would split rows of one partition; "
                "only identity, time transforms, and truncation of texts and to powers of ten are supported",
                table=self.metadata.location,
                field=field.name,
            )
        applied = apply(transform, source)
        example = _example(field, source, value)
        if applied(example) != value:
            return value  # Java's overflow puts values next to the smallest number into this partition; they stay
        return applied(self.pseudonyms.pseudonym(source, example))

    def document(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table's metadata with pseudonyms for defaults, and without texts that people or writers chose."""
        document = {name: copy.deepcopy(value) for name, value in source.items() if name in _DOCUMENT}
        for schema in (*(document.get("schemas") or ()), *([document["schema"]] if "schema" in document else ())):
            self._fields(schema)
        if "table-uuid" in document:
            table_uuid = uuid.UUID(str(document["table-uuid"]))
            document["table-uuid"] = str(uuid.UUID(bytes=self.pseudonyms.pseudonym(dt.UuidType(), table_uuid.bytes)))
        document["properties"] = {k: v for k, v in (document.get("properties") or {}).items() if k in _PROPERTIES}
        document["snapshots"] = [
            {name: _summary(value) if name == "summary" else value for name, value in raw.items() if name in _SNAPSHOT}
            for raw in document.get("snapshots") or ()
        ]
        return document

    def _fields(self, struct: dict[str, Any]) -> None:
        struct["fields"] = [{k: v for k, v in field.items() if k in _FIELD} for field in struct["fields"]]
        for field in struct["fields"]:
            for name in ("initial-default", "write-default"):
                if field.get(name) is not None:
                    type_ = parse_type(Json(field["type"]))
                    value = parse_default(Json(field[name]), type_)
                    field[name] = default_json(type_, self.pseudonyms.pseudonym(type_, value))
            self._nested(field["type"])

    def _nested(self, type_: object) -> None:
        if isinstance(type_, dict):
            if "fields" in type_:
                self._fields(type_)
            for part in ("element", "key", "value"):
                self._nested(type_.get(part))


def _summary(summary: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the operation and the counts of a snapshot summary, without other texts."""
    if summary is None:
        return None
    operation = summary.get("operation")
    safe_operation = operation if operation in ("append", "replace", "delete") else "overwrite"
    counts = {k: v for k, v in summary.items() if k.startswith(_COUNTS) and v.isascii() and v.isdigit()}
    return {"operation": safe_operation, **counts}


def _keeps_partitions(field: PartitionField, source: dt.Type) -> bool:
    match field.transform, source:
        case Identity() | Year() | Month() | Day() | Hour(), _:
            return True
        case Truncate(), dt.StringType() | dt.BinaryType():
            return True
        case Truncate(width=width), dt.IntegerType() | dt.DecimalType():
            return set(str(width)[1:]) <= {"0"} and str(width)[0] == "1"
        case _:
            return False


def _example(field: PartitionField, source: dt.Type, value: dt.CellValue) -> dt.CellValue:
    """Return a column value that the transform maps to the given partition value."""
    match field.transform:
        case Year():
            days, hours = _first_day(1970 + value, 1), 0
        case Month():
            days, hours = _first_day(1970 + value // 12, value % 12 + 1), 0
        case Day():
            days, hours = value, 0
        case Hour():
            days, hours = divmod(value, 24)
        case _:
            return value
    if isinstance(source, dt.DateType):
        return days
    assert isinstance(source, dt.TimestampType)
    return (days * 24 + hours) * 3600 * _PER_SECOND[source.unit]


def _first_day(year: int, month: int) -> int:
    if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
        raise UnsupportedError(f"Cannot anonymise: year {year} is beyond the calendar (1 to 9999)")
    return (datetime.date(year, month, 1) - datetime.date(1970, 1, 1)).days
