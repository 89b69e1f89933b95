"""Entries of manifests, and what they inherit from the manifest list."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError, InvalidTableError, UnsupportedError
from harness.iceberg.manifest_list import ManifestFile
from harness.iceberg.specs import PartitionSpec
from harness.records import dataclass


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

    path: as recorded. format: lower-case. partition: internal values by partition field id of `spec_id`.
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


FILE_FORMATS = frozenset({"parquet", "avro", "orc", "puffin"})
"""Formats of files that manifests list, lower-case; puffin for deletion vectors only (iceberg 2.20)."""

_CONTENTS: dict[int | None, Content] = {None: Content.DATA, **{int(content): content for content in Content}}
_STATUSES = {int(status): status for status in Status}
_NO_STATISTICS: list[Any] = [None] * 6


class EntryReader:
    """Turns decoded rows of one manifest into entries; must see all of them, in order, for row ids (iceberg 2.11)."""

    def __init__(
        self, manifest: ManifestFile, spec: PartitionSpec, *, is_v1: bool, is_disputed: bool, live_only: bool
    ) -> None:
        """For one manifest. is_v1: its header says format version 1. is_disputed: it says deletes, the list data."""
        self._manifest = manifest
        self._path = manifest.path
        self._spec_id = spec.id
        self._nulls = {f.field_id: None for f in spec.fields}
        self._is_v1 = is_v1
        self._is_disputed = is_disputed
        self._live_only = live_only
        self._next_row_id = None if manifest.is_deletes else manifest.first_row_id

    def entry(self, row: list[Any]) -> ManifestEntry | None:
        """The entry of a row, in the order that `parse_manifest` asks for; None if it is to be left out."""
        status_number, snapshot_id, sequence_number, file_sequence_number, file = row
        status = _STATUSES.get(status_number)
        if status is None:
            raise corrupt(self._path, "status", f"got {status_number!r}, expected 0, 1 or 2", "2.6")
        if status is Status.DELETED and self._live_only:
            return None
        if file is None:
            raise corrupt(self._path, "data_file", "an entry has no data file", "2.6")
        if sequence_number is None:
            sequence_number = self._inherited(status)
            if sequence_number is None:
                raise self._no_sequence_number(status, file[1])
        return ManifestEntry(
            status,
            self._manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            sequence_number,
            self._inherited(status) if file_sequence_number is None else file_sequence_number,
            self._file(status, file),
            self._path,
        )

    def _inherited(self, status: Status) -> int | None:
        """The sequence number of a file that records none; None: it cannot be known (iceberg 2.9)."""
        if self._manifest.sequence_number == 0 or status is Status.ADDED:
            return self._manifest.sequence_number
        # Files that a v1 manifest carries on are older than all sequence numbers.
        return 0 if self._is_v1 else None

    def _no_sequence_number(self, status: Status, path: str | None) -> InvalidTableError:
        return InvalidTableError(
            f"Cannot tell which deletes apply to {path}: its entry is {status.name.lower()} and has no sequence number",
            cause="MissingSequenceNumber",
            file=self._path,
            field="sequence_number",
            rule="iceberg 2.9",
        )

    def _file(self, status: Status, row: list[Any]) -> DataFile:
        (content_number, path, format_, partition, record_count, size, key_metadata, split_offsets) = row[:8]
        (equality_ids, sort_order_id, row_id, referenced, content_offset, content_size, *statistics) = row[8:]
        if path is None:
            raise corrupt(self._path, "file_path", "an entry has no file path", "2.7")
        content = self._content(content_number, path)
        self._check_format(content, format_, path)
        if key_metadata:
            raise encrypted(path, self._path)
        if record_count is not None and record_count < 0:
            record_count = None
        values, nulls, nans, lower, upper, sizes = (*statistics, *_NO_STATISTICS[len(statistics) :])
        return DataFile(
            content=content,
            path=path,
            format=format_,
            spec_id=self._spec_id,
            partition=self._nulls if partition is None else partition,
            record_count=record_count,
            size=size,
            column_sizes=sizes,
            value_counts=values,
            null_value_counts=nulls,
            nan_value_counts=nans,
            lower_bounds=lower,
            upper_bounds=upper,
            split_offsets=None if split_offsets is None else tuple(split_offsets),
            equality_ids=None if equality_ids is None else tuple(equality_ids),
            sort_order_id=sort_order_id,
            first_row_id=None if self._next_row_id is None else self._row_id(status, row_id, record_count, path),
            referenced_data_file=referenced,
            content_offset=content_offset,
            content_size=content_size,
        )

    def _content(self, number: int | None, path: str) -> Content:
        content = _CONTENTS.get(number)
        if content is None:
            raise corrupt(self._path, "content", f"{path} has content {number!r}, expected 0, 1 or 2", "2.7")
        if number is None and self._is_disputed:
            message = f"it says that it holds deletes, the list says data, and the entry of {path} says neither"
            raise corrupt(self._path, "content", message, "2.4")
        if (content is Content.DATA) is self._manifest.is_deletes:
            kind = "delete" if self._manifest.is_deletes else "data"
            raise corrupt(self._path, "content", f"{path} has content {number!r} in a {kind} manifest", "2.20")
        return content

    def _check_format(self, content: Content, format_: str | None, path: str) -> None:
        if format_ is None:
            raise corrupt(self._path, "file_format", f"{path} has no file format", "2.7")
        if format_ not in FILE_FORMATS or (format_ == "puffin" and content is not Content.POSITION_DELETES):
            raise UnsupportedError(
                f"Cannot read {path}: format {format_!r} is not supported for {content.name.lower().replace('_', ' ')}",
                cause="UnsupportedFormat",
                file=self._path,
                field="file_format",
                rule="iceberg 2.20",
            )

    def _row_id(self, status: Status, explicit: int | None, record_count: int | None, path: str) -> int | None:
        """The id of the file's first row, where the manifest assigns them (iceberg 2.11)."""
        if explicit is not None or status is Status.DELETED or self._next_row_id is None:
            return explicit
        assigned = self._next_row_id
        if record_count is None:
            raise corrupt(self._path, "record_count", f"{path} has no record count, which row ids need", "2.11")
        self._next_row_id = assigned + record_count
        return assigned


def corrupt(file: str, field_: str, reason: str, rule: str) -> CorruptFileError:
    """The error for a manifest, called `file`, that breaks a rule of the format."""
    return CorruptFileError(
        f"Invalid manifest: {reason}", cause="CorruptManifest", file=file, field=field_, rule=f"iceberg {rule}"
    )


def encrypted(path: str, manifest: str) -> EncryptedTableError:
    """The error for an encrypted file at `path`."""
    return EncryptedTableError(
        f"Cannot read {path}: it is encrypted, and harness holds no keys",
        cause="EncryptedTable",
        file=manifest,
        field="key_metadata",
        rule="iceberg 2.19",
    )
