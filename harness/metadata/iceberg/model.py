"""The parts of table metadata as values. `metadata` parses them and re-exports them; import them from there."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, replace

from harness.metadata.iceberg.specs import PartitionSpec, SortOrder
from harness.metadata.model.schema import Schema
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
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
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    operation: str = "overwrite"
    summary: Mapping[str, str] = field(default_factory=dict, hash=False)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None


class RefType(enum.Enum):
    """Whether a named reference moves with commits."""

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
    """From `timestamp_ms` on (milliseconds since 1970-01-01 UTC), `snapshot_id` was the table's current snapshot."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """An earlier metadata file, as recorded; it may be deleted by now (iceberg 1.8)."""

    timestamp_ms: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """One blob of a statistics file: its type, what it was computed from, and for which field ids."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of table statistics; informative (iceberg 1.29). Sizes in bytes, None if not recorded."""

    snapshot_id: int
    path: str
    size: int | None = None
    footer_size: int | None = None
    key_metadata: str | None = field(default=None, repr=False)
    blobs: tuple[BlobMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of statistics per partition; informative (iceberg 1.29). Size in bytes, None if not recorded."""

    snapshot_id: int
    path: str
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey:
    """A wrapped key of an encrypted table; harness unwraps none (iceberg 1.31)."""

    key_id: str
    encrypted_key_metadata: str | None = field(default=None, repr=False)
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """All that one metadata file says about its table. Mappings keep the order of the file.

    file: the metadata file, physical path.
    format_version: 1, 2 or 3.
    uuid: None where a v1 table, or a sloppy writer, gives none.
    location: the table's recorded root.
    last_updated_ms: milliseconds since 1970-01-01 UTC.
    schemas, specs, sort_orders, snapshots: by id. The unsorted order 0 is always there.
    default_spec_id, default_sort_order_id: for writers; may be missing in the mapping (a warning then).
    current_snapshot_id: None for a table without snapshot, which has no rows (iceberg 1.24).
    refs: branches and tags by name; `main` is there if and only if there is a current snapshot (iceberg 1.25).
    snapshot_log: history of `main`, in file order, which may be up to a minute out of time order (iceberg 1.34).
    next_row_id: v3 only.
    warnings: what is odd but harmless to a reader, with the rule; one sentence each.
    """

    file: str
    format_version: int
    uuid: str | None
    location: str
    last_updated_ms: int | None
    last_column_id: int | None
    last_sequence_number: int
    schemas: Mapping[int, Schema] = field(hash=False)
    current_schema_id: int
    specs: Mapping[int, PartitionSpec] = field(hash=False)
    default_spec_id: int
    last_partition_id: int
    sort_orders: Mapping[int, SortOrder] = field(hash=False)
    default_sort_order_id: int
    snapshots: Mapping[int, Snapshot] = field(hash=False)
    current_snapshot_id: int | None
    refs: Mapping[str, SnapshotRef] = field(hash=False)
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    statistics: tuple[StatisticsFile, ...]
    partition_statistics: tuple[PartitionStatisticsFile, ...]
    properties: Mapping[str, str] = field(hash=False)
    next_row_id: int | None
    encryption_keys: tuple[EncryptionKey, ...]
    warnings: tuple[str, ...]

    @property
    def current_schema(self) -> Schema:
        """The schema that new reads and writes use; may be newer than the current snapshot's (iceberg 1.35)."""
        return self.schemas[self.current_schema_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The newest state of `main`; None for a table without snapshot."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]

    def with_warnings(self, warnings: tuple[str, ...]) -> TableMetadata:
        """The same metadata with these warnings."""
        return replace(self, warnings=warnings)
