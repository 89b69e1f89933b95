"""The parts of table metadata as values: partition specs, sort orders, snapshots (iceberg 1.18 to 1.21, 2.22, 4.2)."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import field

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.files.documents import Json, show
from harness.metadata.iceberg.transforms import Transform, UnknownTransform, Void, parse_transform
from harness.metadata.model.schema import Schema
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """A field of a partition spec.

    field_id: unique within the spec only: v1 specs may give one id several meanings (iceberg 1.19).
    source_id: the column that the transform reads; None for a transform of several columns.
    source_ids: all columns that the transform reads, at least one.
    transform: an `UnknownTransform` where it reads several columns (iceberg 1.20).
    """

    field_id: int
    source_id: int | None
    source_ids: tuple[int, ...]
    name: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A partition spec: the way from rows to partitions, under an id that manifests refer to."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """True if all files share one partition: no fields, or only void ones (iceberg 4.2)."""
        return all(isinstance(field.transform, Void) for field in self.fields)


class Direction(enum.Enum):
    """The directions of a sort field."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class NullOrder(enum.Enum):
    """The places of nulls in a sort field."""

    FIRST = "nulls-first"
    LAST = "nulls-last"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """A key of a sort order; sources and transform as in `PartitionField`."""

    source_id: int | None
    source_ids: tuple[int, ...]
    transform: Transform
    direction: Direction
    null_order: NullOrder


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An order of rows within files. Informative: reading never relies on it."""

    id: int
    fields: tuple[SortField, ...]


def parse_spec(document: Json) -> PartitionSpec:
    """A partition spec from one element of `partition-specs`.

    Raises InvalidTableError: a part is missing, field ids repeat, or only some fields have ids (iceberg 1.19).
    """
    return PartitionSpec(document.integer("spec-id", bits=32), parse_spec_fields(document.child("fields")))


def parse_spec_fields(fields: Json) -> tuple[PartitionField, ...]:
    """Partition fields from their list, numbered from 1000 where none has an id (1.19). Raises as `parse_spec`."""
    fields = fields.under("iceberg 1.19")
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
    """The spec of a manifest's own header, for a spec id that the table metadata lacks (iceberg 2.22).

    text: the header's `partition-spec`: a list of fields, or (as some writers put it) the object around them.

    Raises CorruptFileError: the text is no partition spec.
    """
    try:
        value = json.loads(text)
        fields = value.get("fields") if isinstance(value, dict) else value
        return PartitionSpec(spec_id, parse_spec_fields(Json(fields, file, ("partition-spec",))))
    except (ValueError, RecursionError, InvalidTableError) as error:
        raise CorruptFileError(
            f"Cannot parse the partition spec in the manifest's header: got {show(text)}, expected a list of fields",
            cause="CorruptManifest",
            file=file,
            field="partition-spec",
            rule="iceberg 2.22",
        ) from error


def parse_sort_order(document: Json) -> SortOrder:
    """A sort order from one element of `sort-orders`.

    Raises InvalidTableError: a part is missing or has an unknown value.
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
    """`source-ids`, or `source-id` as a list of one (iceberg 1.20)."""
    return item.integers("source-ids") or (item.integer("source-id", bits=32),)


def _transform(item: Json, sources: tuple[int, ...]) -> Transform:
    text = item.text("transform")
    return parse_transform(text) if len(sources) == 1 else UnknownTransform(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """The table's state after one commit.

    id, parent_id: snapshot ids; parent None: the first, or unknown.
    sequence_number: 0 for snapshots of v1.
    timestamp_ms: commit time, milliseconds since 1970-01-01 UTC.
    manifest_list: recorded path; None where `manifests` lists the manifests' paths instead (v1 only, iceberg 1.26).
    operation: `append`, `replace`, `overwrite`, `delete`; where missing, `overwrite` (iceberg 1.28).
    summary: as written, values as text; its numbers never drive results.
    schema_id: the table's schema at the commit; None: not recorded.
    first_row_id, added_rows: row lineage, v3 only.
    key_id: the encryption key of the manifest list; None: not encrypted.
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
    """The kinds of named references: a branch moves with commits."""

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
    """A change of the current snapshot: `snapshot_id` was it from `timestamp_ms` on (ms since 1970-01-01 UTC)."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """An earlier metadata file, as recorded; it may be deleted by now (iceberg 1.8)."""

    timestamp_ms: int
    file: RecordedPath


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """A blob of a statistics file: its type, its source, and its field ids."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of table statistics; informative (iceberg 1.29). Sizes in bytes, None if not recorded."""

    snapshot_id: int
    path: RecordedPath
    size: int | None = None
    footer_size: int | None = None
    blobs: tuple[BlobMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of statistics per partition; informative (iceberg 1.29). Size in bytes, None if not recorded."""

    snapshot_id: int
    path: RecordedPath
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """All that one metadata file says about its table. Mappings keep the order of the file.

    file: the metadata file, physical path. uuid: None where a v1 table, or a sloppy writer, gives none.
    location: the table's recorded root.
    last_updated_ms: milliseconds since 1970-01-01 UTC.
    schemas, specs, sort_orders, snapshots: by id. The unsorted order 0 is always there.
    default_spec_id, default_sort_order_id: for writers; may be missing in the mapping (a warning then).
    current_snapshot_id: None for a table without snapshot, which has no rows (iceberg 1.24).
    refs: branches and tags by name; `main` is there if and only if there is a current snapshot (iceberg 1.25).
    snapshot_log: history of `main`, in file order, which may be up to a minute out of time order (iceberg 1.34).
    next_row_id: v3 only.
    encryption_keys: their ids; harness unwraps none (iceberg 1.31).
    missing: required fields of the file that no read needs and that it lacks.
    ignored: parts that no read needs and that cannot be decoded, a sentence each.
    warnings: what is odd but harmless to a reader, with the rule; one sentence each. Among them are those two.
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
        """The schema that new reads and writes use; may be newer than the current snapshot's (iceberg 1.35)."""
        return self.schemas[self.current_schema_id]

    @property
    def current_snapshot(self) -> IcebergSnapshot | None:
        """The newest state of `main`; None for a table without snapshot."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]
