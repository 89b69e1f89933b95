"""Manifests: the data and delete files of a snapshot, one entry each, after inheritance from the manifest list."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.iceberg.manifest_list import FieldSummary, ManifestFile

__all__ = ["Content", "DataFile", "FieldSummary", "ManifestEntry", "ManifestFile", "Status"]


class Content(enum.IntEnum):
    """What a file of the table holds; the values are the format's (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class Status(enum.IntEnum):
    """What a manifest's commit did to a file; the values are the format's (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data or delete file and what its writer recorded about it.

    path: as recorded. format: lower-case. partition: stored form by partition field id of `spec_id`.
    record_count: None is unknown (iceberg 2.21). size: bytes, informative only.
    column_sizes … upper_bounds: by field id; None where the manifest has none, or they were not asked for. Bounds are
        encoded; `harness.iceberg.values.decode_bound` decodes them.
    equality_ids: keys of an equality delete file.
    referenced_data_file, content_offset, content_size: of deletion vectors; the first also of position deletes.
    """

    content: Content
    path: str
    format: str
    spec_id: int
    partition: Mapping[int, Any] = field(hash=False)
    record_count: int | None
    size: int | None
    column_sizes: Mapping[int, int] | None = field(default=None, hash=False)
    value_counts: Mapping[int, int] | None = field(default=None, hash=False)
    null_value_counts: Mapping[int, int] | None = field(default=None, hash=False)
    nan_value_counts: Mapping[int, int] | None = field(default=None, hash=False)
    lower_bounds: Mapping[int, bytes] | None = field(default=None, hash=False)
    upper_bounds: Mapping[int, bytes] | None = field(default=None, hash=False)
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file in one manifest, with everything that it inherits (iceberg 2.9, 2.11).

    sequence_number: the data sequence number, which decides what deletes hit (iceberg 2.10).
    manifest: path of the manifest, as recorded.
    """

    status: Status
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    file: DataFile
    manifest: str
