"""Values of table metadata: partition specs, sort orders, snapshots, and more (iceberg 1.18 to 1.21, 2.22, 4.2)."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import field

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.files.documents import Json, short_repr
from harness.metadata.iceberg.transforms import Transform, UnknownTransform, Void, parse_transform
from harness.metadata.model.schema import Schema
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """A field of a partition spec.

    Attributes:
        field_id: Unique within the spec only. In v1, one id may have different meanings in different specs (iceberg
            1.19).
        source_id: The column that the transform reads; None if the transform reads several columns.
        source_ids: All columns that the transform reads, at least one.
        name: The name of the field.
        transform: An `UnknownTransform` if it reads several columns (iceberg 1.20).
    """

    field_id: int
    source_id: int | None
    source_ids: tuple[int, ...]
    name: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A partition spec: how rows are assigned to partitions. Manifests refer to it by id."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """True if all files share one partition because the spec has no fields or only void fields (iceberg 4.2)."""
        return all(isinstance(field.transform, Void) for field in self.fields)


class Direction(enum.Enum):
    """The directions of a sort field."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class NullOrder(enum.Enum):
    """The positions of nulls in a sort field."""

    FIRST = "nulls-first"
    LAST = "nulls-last"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """A key of a sort order. Sources and transform are as in `PartitionField`."""

    source_id: int | None
    source_ids: tuple[int, ...]
    transform: Transform
    direction: Direction
    null_order: NullOrder


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An order of rows within files. It is informative: reads never rely on it."""

    id: int
    fields: tuple[SortField, ...]


def parse_spec(document: Json) -> PartitionSpec:
    """Parse an element of `partition-specs`.

    Raises:
        InvalidTableError: A part is missing, field ids repeat, or only some fields have ids (iceberg 1.19).
    """
    return PartitionSpec(document.integer("spec-id", bits=32), parse_spec_fields(document.child("fields")))


def parse_spec_fields(fields: Json) -> tuple[PartitionField, ...]:
    """Parse a list of partition fields. If no field has an id, they are numbered from 1000 (iceberg 1.19).

    Raises the errors of `parse_spec`.
    """
    fields = fields.with_rule("iceberg 1.19")
    items = list(fields.items())
    with_id = sum(item.has("field-id") for item in items)
    if with_id not in (0, len(items)):
        raise fields.error(f"Invalid partition spec: {with_id} of {len(items)} fields have an id, expected all or none")
    parsed = []
    for index, item in enumerate(items):
        sources = _sources(item)
        field_ = PartitionField(
            field_id=FIRST_PARTITION_FIELD_ID + index if with_id == 0 else item.integer("field-id", bits=32),
            source_id=sources[0] if len(sources) == 1 else None,
            source_ids=sources,
            name=item.text("name"),
            transform=_transform(item, sources),
        )
        parsed.append(field_)
    ids = [field_.field_id for field_ in parsed]
    repeated = next((id_ for index, id_ in enumerate(ids) if id_ in ids[:index]), None)
    if repeated is not None:
        raise fields.error(f"Invalid partition spec: field id {repeated} occurs twice, expected unique ids")
    return tuple(parsed)


def parse_header_spec(text: str, spec_id: int, *, file: str) -> PartitionSpec:
    """Parse the spec in a manifest's own header, for a spec id that the table metadata lacks (iceberg 2.22).

    Args:
        text: The header's `partition-spec`: a list of fields, or, from some writers, the object around that list.
        spec_id: The id of the spec.
        file: The path of the manifest, for messages.

    Raises:
        CorruptFileError: The text is not a partition spec.
    """
    try:
        value = json.loads(text)
        fields = value.get("fields") if isinstance(value, dict) else value
        return PartitionSpec(spec_id, parse_spec_fields(Json(fields, file, ("partition-spec",))))
    except (ValueError, RecursionError, InvalidTableError) as error:
        raise CorruptFileError(
            f"Cannot parse the partition spec in the manifest's header: got {short_repr(text)}, expected a list",
            cause="CorruptManifest",
            file=file,
            field="partition-spec",
            rule="iceberg 2.22",
        ) from error


def parse_sort_order(document: Json) -> SortOrder:
    """Parse an element of `sort-orders`.

    Raises:
        InvalidTableError: A part is missing or has an unknown value.
    """
    fields = []
    for item in document.elements("fields"):
        sources = _sources(item)
        field_ = SortField(
            source_id=sources[0] if len(sources) == 1 else None,
            source_ids=sources,
            transform=_transform(item, sources),
            direction=item.choice("direction", Direction),
            null_order=item.choice("null-order", NullOrder),
        )
        fields.append(field_)
    return SortOrder(document.integer("order-id", bits=32), tuple(fields))


def _sources(item: Json) -> tuple[int, ...]:
    """Return `source-ids`, or `source-id` as a tuple of one (iceberg 1.20)."""
    return item.integers("source-ids") or (item.integer("source-id", bits=32),)


def _transform(item: Json, sources: tuple[int, ...]) -> Transform:
    text = item.text("transform")
    return parse_transform(text) if len(sources) == 1 else UnknownTransform(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """The state of the table after one commit.

    Attributes:
        id: The snapshot id.
        parent_id: The id of the parent snapshot; None if there is none or it is unknown.
        sequence_number: 0 for snapshots of v1.
        timestamp_ms: Commit time in milliseconds since 1970-01-01 UTC.
        manifest_list: Recorded path; None if `manifests` lists the paths of the manifests instead (v1 only, iceberg
            1.26).
        manifests: Recorded paths of the manifests, if there is no manifest list.
        operation: `append`, `replace`, `overwrite`, or `delete`; `overwrite` if not recorded (iceberg 1.28).
        summary: The summary as written, with values as text. Its numbers never affect results.
        schema_id: The schema of the table at the commit; None if not recorded.
        first_row_id: The first row id that the commit assigned, v3 only.
        added_rows: Number of row ids that the commit assigned, v3 only.
        key_id: The encryption key of the manifest list; None if it is not encrypted.
    """

    id: int
    parent_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int
    manifest_list: RecordedPath | None = None
    manifests: tuple[RecordedPath, ...] | None = None
    operation: str = "overwrite"
    summary: Mapping[str, str] = field(default_factory=dict, hash=False)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None


class RefType(enum.Enum):
    """The kinds of named references. A branch moves with commits, a tag does not."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """A branch or tag. The retention fields are for maintenance and have no effect on reads (iceberg 1.37)."""

    snapshot_id: int
    type: RefType
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A change of the current snapshot.

    Attributes:
        timestamp_ms: The time of the change in milliseconds since 1970-01-01 UTC.
        snapshot_id: The snapshot that became current.
    """

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """An earlier metadata file, by its recorded path. The file may have been deleted (iceberg 1.8)."""

    timestamp_ms: int
    file: RecordedPath


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """A blob of a statistics file, with its type, source snapshot, and field ids."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of table statistics, informative only (iceberg 1.29). Sizes are in bytes, None if not recorded."""

    snapshot_id: int
    path: RecordedPath
    size: int | None = None
    footer_size: int | None = None
    blobs: tuple[BlobMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of statistics per partition, informative only (iceberg 1.29).

    The size is in bytes, None if not recorded.
    """

    snapshot_id: int
    path: RecordedPath
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The content of one metadata file. Mappings keep the order of the file.

    Attributes:
        file: Physical path of the metadata file.
        format_version: 1, 2, or 3.
        uuid: None if the writer recorded none, for example in v1.
        location: Recorded root of the table.
        last_updated_ms: Milliseconds since 1970-01-01 UTC.
        last_sequence_number: 0 in v1.
        schemas: Schemas by id.
        current_schema_id: Id of the current schema.
        specs: Partition specs by id.
        default_spec_id: Spec for new files. It may be missing from `specs`, with a warning.
        sort_orders: Sort orders by id. The unsorted order 0 always exists.
        default_sort_order_id: Sort order for new files. It may be missing from `sort_orders`, with a warning.
        snapshots: Snapshots by id.
        current_snapshot_id: None if the table has no snapshot, and so no rows (iceberg 1.24).
        refs: Branches and tags by name. `main` exists if and only if there is a current snapshot (iceberg 1.25).
        snapshot_log: History of `main` in file order, which may be up to a minute out of time order (iceberg 1.34).
        metadata_log: Earlier metadata files.
        statistics: Files of table statistics.
        partition_statistics: Files of partition statistics.
        properties: Table properties.
        next_row_id: v3 only.
        encryption_keys: Ids of the encryption keys. harness cannot decrypt (iceberg 1.31).
        warnings: One sentence, with the rule, for each oddity that is harmless to readers, including `missing` and
            `ignored`.
        missing: Required fields that the file lacks, but that reads do not need.
        ignored: One sentence for each part that cannot be decoded, but that reads do not need.
    """

    file: str
    format_version: int
    uuid: str | None
    location: RecordedPath
    last_updated_ms: int | None
    last_sequence_number: int
    schemas: Mapping[int, Schema] = field(hash=False)
    current_schema_id: int
    specs: Mapping[int, PartitionSpec] = field(hash=False)
    default_spec_id: int
    sort_orders: Mapping[int, SortOrder] = field(hash=False)
    default_sort_order_id: int
    snapshots: Mapping[int, IcebergSnapshot] = field(hash=False)
    current_snapshot_id: int | None
    refs: Mapping[str, SnapshotRef] = field(hash=False)
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    statistics: tuple[StatisticsFile, ...]
    partition_statistics: tuple[PartitionStatisticsFile, ...]
    properties: Mapping[str, str] = field(hash=False)
    next_row_id: int | None
    encryption_keys: tuple[str, ...]
    warnings: tuple[str, ...]
    missing: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def current_schema(self) -> Schema:
        """The schema for new reads and writes. It may be newer than the current snapshot's schema (iceberg 1.35)."""
        return self.schemas[self.current_schema_id]

    @property
    def current_snapshot(self) -> IcebergSnapshot | None:
        """The newest state of `main`, or None if the table has no snapshot."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]
