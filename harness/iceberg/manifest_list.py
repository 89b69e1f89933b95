"""Manifest lists: the manifests of a snapshot, with what can be known of each without opening it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What a manifest's partition tuples have in one partition field. Bounds are encoded by the transform's result.

    contains_nan: None is unknown. lower, upper: None where there is no non-null value, or none was written.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest of a snapshot, as its list describes it.

    path: as recorded. length: bytes, informative only (iceberg 2.3); None: not recorded.
    spec_id: None: not recorded (a v1 snapshot with an inline list), the manifest's header says it (iceberg 1.27).
    is_deletes: whether its entries are delete files.
    counts: None is unknown and must be taken as "some".
    partitions: one summary per field of the spec, in order; None: unknown.
    key_metadata: None or non-empty; a manifest with it is encrypted.
    first_row_id: None: the files have no row ids.
    """

    path: str
    length: int | None = None
    spec_id: int | None = None
    is_deletes: bool = False
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None
