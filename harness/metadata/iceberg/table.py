"""An opened Iceberg table: its metadata, where its files are, and the facts that `harness info` shows."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime
from typing import Any, Literal

from harness.errors import HarnessError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.discovery import find_metadata
from harness.metadata.iceberg.metadata import Snapshot, TableMetadata
from harness.metadata.iceberg.scan import plan_scan
from harness.metadata.iceberg.snapshots import Selection, select
from harness.metadata.iceberg.source import ScanSource
from harness.metadata.model.schema import Field, Schema, children
from harness.metadata.model.times import timestamp_ms
from harness.metadata.plan.read_options import ReadOptions
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.paths import shown
from harness.storage.records import dataclass
from harness.storage.stores import Storage


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """One version of the metadata of one table.

    location: as the user gave it.
    metadata_path: the metadata file that was read.
    """

    location: str = field(repr=False)
    metadata_path: str = field(repr=False)
    source: ScanSource = field(repr=False)
    warnings: tuple[str, ...] = ()
    format: Literal["iceberg"] = field(default="iceberg", init=False)

    @property
    def metadata(self) -> TableMetadata:
        """All that the metadata file says."""
        return self.source.metadata

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schemas[self.metadata.current_schema_id]

    @property
    def current(self) -> Snapshot | None:
        """The current snapshot; None: the table has none."""
        return self.metadata.current_snapshot

    def select(self, snapshot_id: int | None, timestamp: int | str | datetime | None, ref: str | None) -> Selection:
        """The asked snapshot and its schema (iceberg 1.32 to 1.37).

        Raises:
            RequestError: several selectors, or a text that is no time.
            SnapshotNotFoundError, InvalidTableError, EncryptedTableError: as for
            `harness.metadata.iceberg.snapshots.select`.
        """
        try:
            at = None if timestamp is None else timestamp_ms(timestamp)
            return select(self.metadata, snapshot_id=snapshot_id, timestamp_ms=at, ref=ref)
        except HarnessError as error:
            raise error.within(table=self.location) from error.__cause__

    def newest(self) -> int | None:
        """The id of the current snapshot in the metadata that is current now; None: it has none.

        Raises:
            HarnessError: as for `harness.metadata.iceberg.discovery.find_metadata`.
        """
        found = find_metadata(self.location, self.source.storage, allow_version_guess=True)
        return None if found.metadata.current_snapshot is None else found.metadata.current_snapshot.id

    def plan(self, selection: Selection, columns: tuple[str, ...] | None, where: str | Filter | None) -> ScanPlan:
        """The plan of a read, see `harness.metadata.iceberg.scan.plan_scan`."""
        return plan_scan(self.source, selection, columns=columns, where=where)

    def snapshots(self) -> list[dict[str, Any]]:
        """The table's snapshots in the order of the metadata, as plain values."""
        return [_snapshot(snapshot) for snapshot in self.metadata.snapshots.values()]

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""
        return {
            name: {
                "snapshot_id": ref.snapshot_id,
                "type": ref.type.value,
                "min_snapshots_to_keep": ref.min_snapshots_to_keep,
                "max_snapshot_age_ms": ref.max_snapshot_age_ms,
                "max_ref_age_ms": ref.max_ref_age_ms,
            }
            for name, ref in self.metadata.refs.items()
        }

    def describe(self) -> dict[str, Any]:
        """What the metadata says, as plain values: for `harness info`."""
        metadata = self.metadata
        return {
            "format": self.format,
            "format_version": metadata.format_version,
            "uuid": metadata.uuid,
            "location": shown(metadata.location),
            "metadata_file": shown(self.metadata_path),
            "last_updated_ms": metadata.last_updated_ms,
            "last_sequence_number": metadata.last_sequence_number,
            "next_row_id": metadata.next_row_id,
            "current_snapshot_id": metadata.current_snapshot_id,
            "current_schema_id": metadata.current_schema_id,
            "schemas": [
                {"id": schema.id, "fields": [_field(f) for f in schema.fields]} for schema in metadata.schemas.values()
            ],
            "default_spec_id": metadata.default_spec_id,
            "partition_specs": [
                {
                    "id": spec.id,
                    "fields": [
                        {
                            "id": f.field_id,
                            "name": f.name,
                            "source_ids": list(f.source_ids),
                            "transform": str(f.transform),
                        }
                        for f in spec.fields
                    ],
                }
                for spec in metadata.specs.values()
            ],
            "default_sort_order_id": metadata.default_sort_order_id,
            "sort_orders": [
                {
                    "id": order.id,
                    "fields": [
                        {
                            "source_ids": list(f.source_ids),
                            "transform": str(f.transform),
                            "direction": f.direction.value,
                            "null_order": f.null_order.value,
                        }
                        for f in order.fields
                    ],
                }
                for order in metadata.sort_orders.values()
            ],
            "snapshots": self.snapshots(),
            "refs": self.refs(),
            "snapshot_log": [
                {"timestamp_ms": e.timestamp_ms, "snapshot_id": e.snapshot_id} for e in metadata.snapshot_log
            ],
            "metadata_log": [{"timestamp_ms": e.timestamp_ms, "file": e.file} for e in metadata.metadata_log],
            "statistics": [
                {
                    "snapshot_id": s.snapshot_id,
                    "path": s.path,
                    "size": s.size,
                    "footer_size": s.footer_size,
                    "blobs": [
                        {
                            "type": b.type,
                            "snapshot_id": b.snapshot_id,
                            "sequence_number": b.sequence_number,
                            "fields": list(b.fields),
                            "properties": dict(b.properties),
                        }
                        for b in s.blobs
                    ],
                }
                for s in metadata.statistics
            ],
            "partition_statistics": [
                {"snapshot_id": s.snapshot_id, "path": s.path, "size": s.size} for s in metadata.partition_statistics
            ],
            "properties": dict(metadata.properties),
            "warnings": list(self.warnings),
        }


def load(location: str, storage: Storage, options: ReadOptions) -> IcebergTable:
    """The Iceberg table at a location, see `harness.table.open_table` for the options.

    Raises:
        TableNotFoundError, InvalidTableError, UnsupportedError: as for
        `harness.metadata.iceberg.discovery.find_metadata`.
    """
    found = find_metadata(location, storage, allow_version_guess=options.allow_version_guess, path_map=options.path_map)
    source = ScanSource(
        location=location,
        metadata=found.metadata,
        storage=found.storage,
        options=replace(options, path_map=found.path_map),
    )
    return IcebergTable(location, found.path, source, found.warnings)


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "parent_id": snapshot.parent_id,
        "sequence_number": snapshot.sequence_number,
        "timestamp_ms": snapshot.timestamp_ms,
        "operation": snapshot.operation,
        "schema_id": snapshot.schema_id,
        "first_row_id": snapshot.first_row_id,
        "added_rows": snapshot.added_rows,
        "manifest_list": snapshot.manifest_list,
        "summary": dict(snapshot.summary),
    }


def _field(field_: Field) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": field_.id,
        "name": field_.name,
        "type": str(field_.type),
        "required": field_.required,
    }
    if field_.initial_default is not None:
        described["initial_default"] = field_.initial_default
    if field_.doc is not None:
        described["doc"] = field_.doc
    parts = children(field_.type)
    return described | ({"fields": [_field(part) for part in parts]} if parts else {})
