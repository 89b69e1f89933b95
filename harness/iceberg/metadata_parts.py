"""The leaves of table metadata from their JSON: snapshots, refs, log entries, statistics files, keys.

Each parser raises InvalidTableError, naming the place, for a part that is missing or of the wrong kind.
"""

from __future__ import annotations

import json

from harness.iceberg.json_doc import Json
from harness.iceberg.model import (
    BlobMetadata,
    EncryptionKey,
    MetadataLogEntry,
    PartitionStatisticsFile,
    RefType,
    Snapshot,
    SnapshotRef,
    StatisticsFile,
)


def parse_snapshot(item: Json) -> Snapshot:
    """One element of `snapshots` (iceberg 1.26, 1.28)."""
    manifest_list = item.optional_text("manifest-list")
    manifests = item.texts("manifests") if manifest_list is None and item.has("manifests") else None
    id_ = item.snapshot_id("snapshot-id")
    if manifest_list is None and manifests is None:
        raise item.error(f"Invalid snapshot {id_}: it has neither 'manifest-list' nor 'manifests'")
    summary = parse_texts(item.optional("summary"))
    return Snapshot(
        id=id_,
        parent_id=item.optional_snapshot_id("parent-snapshot-id"),
        sequence_number=item.optional_integer("sequence-number") or 0,
        timestamp_ms=item.integer("timestamp-ms"),
        manifest_list=manifest_list,
        manifests=manifests,
        operation=summary.get("operation", "overwrite"),
        summary=summary,
        schema_id=item.optional_integer("schema-id", bits=32),
        first_row_id=item.optional_integer("first-row-id"),
        added_rows=item.optional_integer("added-rows"),
        key_id=item.optional_text("key-id"),
    )


def parse_ref(item: Json) -> SnapshotRef:
    """One value of `refs` (iceberg 1.25, 1.37)."""
    return SnapshotRef(
        snapshot_id=item.snapshot_id("snapshot-id"),
        type=item.choice("type", RefType),
        min_snapshots_to_keep=item.optional_integer("min-snapshots-to-keep"),
        max_snapshot_age_ms=item.optional_integer("max-snapshot-age-ms"),
        max_ref_age_ms=item.optional_integer("max-ref-age-ms"),
    )


def parse_metadata_log_entry(item: Json) -> MetadataLogEntry:
    """One element of `metadata-log` (iceberg 1.8)."""
    return MetadataLogEntry(item.integer("timestamp-ms"), item.text("metadata-file"))


def parse_statistics_file(item: Json) -> StatisticsFile:
    """One element of `statistics` (iceberg 1.29)."""
    return StatisticsFile(
        snapshot_id=item.snapshot_id("snapshot-id"),
        path=item.text("statistics-path"),
        size=item.optional_integer("file-size-in-bytes"),
        footer_size=item.optional_integer("file-footer-size-in-bytes"),
        key_metadata=item.optional_text("key-metadata"),
        blobs=tuple(_blob(blob) for blob in item.elements("blob-metadata")),
    )


def _blob(item: Json) -> BlobMetadata:
    return BlobMetadata(
        type=item.text("type"),
        snapshot_id=item.snapshot_id("snapshot-id"),
        sequence_number=item.integer("sequence-number"),
        fields=item.integers("fields"),
        properties=parse_texts(item.optional("properties")),
    )


def parse_partition_statistics_file(item: Json) -> PartitionStatisticsFile:
    """One element of `partition-statistics` (iceberg 1.29)."""
    return PartitionStatisticsFile(
        snapshot_id=item.snapshot_id("snapshot-id"),
        path=item.text("statistics-path"),
        size=item.optional_integer("file-size-in-bytes"),
    )


def parse_encryption_key(item: Json) -> EncryptionKey:
    """One element of `encryption-keys` (iceberg 1.31)."""
    return EncryptionKey(
        key_id=item.text("key-id"),
        encrypted_key_metadata=item.optional_text("encrypted-key-metadata"),
        encrypted_by_id=item.optional_text("encrypted-by-id"),
        properties=parse_texts(item.optional("properties")),
    )


def parse_texts(document: Json | None) -> dict[str, str]:
    """A map of strings; other values as their JSON text, nulls left out (iceberg 1.28)."""
    if document is None:
        return {}
    return {
        key: value if type(value) is str else json.dumps(value)
        for key, value in document.object().items()
        if value is not None
    }
