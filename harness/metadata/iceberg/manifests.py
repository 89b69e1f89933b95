"""Manifests: the data and delete files of a snapshot, one entry each, after inheritance from the manifest list."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from typing import Any, Final, Literal, TypeAlias

from harness.errors import CorruptFileError, EncryptedTableError, InvalidTableError, UnsupportedError
from harness.metadata.files.avro_container import Container, open_container
from harness.metadata.files.avro_decoding import (
    BOOLEAN,
    BYTES,
    LONG,
    LONGS,
    TEXT,
    IntMap,
    ListOf,
    Memo,
    Struct,
    Wanted,
    decode_error,
)
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.iceberg.model import PartitionSpec, parse_header_spec
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import partition_types, partition_value
from harness.metadata.model.schema import Schema
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The values of one partition field in a manifest's tuples. Bounds are encoded by the transform's result.

    contains_nan: None is unknown. lower, upper: None where there is no non-null value, or none was written.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest of a snapshot, as its list describes it.

    path: as recorded. length: bytes, informative only (iceberg 2.3); None: not recorded.
    spec_id: None: not recorded (a v1 snapshot with an inline list), the manifest's header says it (iceberg 1.27).
    is_deletes: whether its entries are delete files.
    counts: None is unknown and must be taken as "some".
    partitions: one summary per field of the spec, in order; None: unknown.
    key_metadata: None or non-empty; a manifest with it is encrypted.
    first_row_id: None: the files have no row ids.
    """

    path: RecordedPath
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


# The order is that in which `_manifest_file` takes a row apart. Names serve fields without ids only (iceberg 2.1).
_SUMMARY = (
    Wanted(509, ("contains_null",), kinds=BOOLEAN),
    Wanted(518, ("contains_nan",), kinds=BOOLEAN),
    Wanted(510, ("lower_bound",), kinds=BYTES),
    Wanted(511, ("upper_bound",), kinds=BYTES),
)
_WANTED = (
    Wanted(500, ("manifest_path",), kinds=TEXT),
    Wanted(502, ("partition_spec_id",), kinds=LONG),
    Wanted(501, ("manifest_length",), kinds=LONG),
    Wanted(517, ("content",), kinds=LONG),
    Wanted(515, ("sequence_number",), kinds=LONG),
    Wanted(516, ("min_sequence_number",), kinds=LONG),
    Wanted(503, ("added_snapshot_id",), kinds=LONG),
    Wanted(504, ("added_files_count", "added_data_files_count"), kinds=LONG),
    Wanted(505, ("existing_files_count", "existing_data_files_count"), kinds=LONG),
    Wanted(506, ("deleted_files_count", "deleted_data_files_count"), kinds=LONG),
    Wanted(512, ("added_rows_count",), kinds=LONG),
    Wanted(513, ("existing_rows_count",), kinds=LONG),
    Wanted(514, ("deleted_rows_count",), kinds=LONG),
    Wanted(507, ("partitions",), ListOf(_SUMMARY)),
    Wanted(519, ("key_metadata",), kinds=BYTES),
    Wanted(520, ("first_row_id",), kinds=LONG),
)


def parse_manifest_list(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, in the list's order. `file` is the list's path, for messages.

    Raises:
        CorruptFileError: the bytes are damaged, or a manifest's path or spec id is missing (iceberg 2.2).
        EncryptedTableError: the list, or a manifest in it, is encrypted (iceberg 2.19).
        LimitError: it asks for more than `limits` allow.
    """
    container = open_container(data, file=file, limits=limits)
    try:
        return tuple(_manifest_file(row, file) for row in container.records(_WANTED))
    except DAMAGE as error:  # a field of another type than it must have
        raise decode_error(error, file=file) from error


def _manifest_file(row: list[Any], file: str) -> ManifestFile:
    path, spec_id, length, content, sequence_number, min_sequence_number, added_snapshot_id, *rest = row
    *counts, partitions, key_metadata, first_row_id = rest
    known = [None if count is None or count < 0 else count for count in counts]  # negative: the writer does not know
    for name, value in (("manifest_path", path), ("partition_spec_id", spec_id)):
        if value is None:
            raise corrupt(file, name, f"a manifest has no {name}", "2.2", what="manifest list")
    if content not in (None, 0, 1):
        reason = f"got content {content!r}, expected 0 (data) or 1 (deletes)"
        raise corrupt(file, "content", reason, "2.2", what="manifest list")
    if key_metadata:
        raise _encrypted(f"manifest {path}", file)
    summaries = None
    if partitions is not None:  # one without contains_null is read as "may contain nulls"
        summaries = tuple(FieldSummary(null is not False, *bounds) for null, *bounds in partitions)
    return ManifestFile(
        path=path,
        length=length,
        spec_id=spec_id,
        is_deletes=content == 1,
        sequence_number=sequence_number or 0,
        min_sequence_number=min_sequence_number or 0,
        added_snapshot_id=added_snapshot_id,
        added_files_count=known[0],
        existing_files_count=known[1],
        deleted_files_count=known[2],
        added_rows_count=known[3],
        existing_rows_count=known[4],
        deleted_rows_count=known[5],
        partitions=summaries,
        first_row_id=first_row_id,
    )


class Content(enum.IntEnum):
    """The kinds of files; the values are the format's (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class Status(enum.IntEnum):
    """The ways a manifest's commit treats a file; the values are the format's (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data or delete file and what its writer recorded about it.

    path: as recorded. format: lower-case. partition: internal values by partition field id of `spec_id`.
    record_count: None is unknown (iceberg 2.21). size: bytes, informative only.
    column_sizes … upper_bounds: by field id; None where the manifest has none, or they were not asked for. Bounds are
        encoded; `harness.metadata.iceberg.values.decode_bound` decodes them.
    equality_ids: keys of an equality delete file.
    referenced_data_file, content_offset, content_size: of deletion vectors; the first also of position deletes.
    """

    content: Content
    path: RecordedPath
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
    referenced_data_file: RecordedPath | None = None
    content_offset: int | None = None
    content_size: int | None = None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest, with everything that it inherits (iceberg 2.9, 2.11).

    sequence_number: the data sequence number, which decides what deletes hit (iceberg 2.10).
    manifest: path of the manifest, as recorded.
    """

    status: Status
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    file: DataFile
    manifest: str


def inherited_sequence_number(status: Any, of_manifest: Any, is_v1: Any) -> tuple[Any, Any]:
    """The sequence number of a file that records none, and whether it can be known (iceberg 2.9).

    Takes numbers, or arrays of them. Files that a v1 manifest carries on are older than all sequence numbers.
    """
    inherits = (of_manifest == 0) | (status == Status.ADDED)
    return of_manifest * inherits, inherits | is_v1


FILE_FORMATS = frozenset({"parquet", "avro", "orc", "puffin"})
"""Formats of files that manifests list, lower-case; puffin for deletion vectors only (iceberg 2.20)."""

_CONTENTS: dict[int | None, Content] = {None: Content.DATA, **{int(content): content for content in Content}}
_STATUSES = {int(status): status for status in Status}
_NO_STATISTICS: list[Any] = [None] * 6


class _EntryReader:
    """Turns decoded rows of one manifest into entries; must see all of them, in order, for row ids (iceberg 2.11)."""

    def __init__(self, reader: ManifestReader, *, live_only: bool) -> None:
        self._manifest = reader.manifest
        self._path = reader.manifest.path
        self._spec_id = reader.spec.id
        self._nulls = reader.no_partition()
        self._is_v1, self._is_disputed = reader.is_v1, reader.is_disputed
        self._live_only = live_only
        self._next_row_id = None if reader.manifest.is_deletes else reader.manifest.first_row_id

    def entry(self, row: list[Any]) -> ManifestEntry | None:
        """The entry of a row, in the order of `_wanted`; None if it is to be left out."""
        status_number, snapshot_id, sequence_number, file_sequence_number, file = row
        status = _STATUSES.get(status_number)
        if status is None:
            raise corrupt(self._path, "status", f"got {status_number!r}, expected 0, 1 or 2", "2.6")
        if status is Status.DELETED and self._live_only:
            return None
        if file is None:
            raise corrupt(self._path, "data_file", "an entry has no data file", "2.6")
        number, is_known = inherited_sequence_number(status, self._manifest.sequence_number, self._is_v1)
        inherited = number if is_known else None
        if sequence_number is None:
            sequence_number = inherited
            if sequence_number is None:
                kind = status.name.lower()
                raise InvalidTableError(
                    f"Cannot tell which deletes apply to {file[1]}: its entry is {kind} and has no sequence number",
                    cause="MissingSequenceNumber",
                    file=self._path,
                    field="sequence_number",
                    rule="iceberg 2.9",
                )
        return ManifestEntry(
            status,
            self._manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            sequence_number,
            inherited if file_sequence_number is None else file_sequence_number,
            self._file(status, file),
            self._path,
        )

    def _file(self, status: Status, row: list[Any]) -> DataFile:
        (content_number, path, format_, partition, record_count, size, key_metadata, split_offsets) = row[:8]
        (equality_ids, sort_order_id, row_id, referenced, content_offset, content_size, *statistics) = row[8:]
        if path is None:
            raise corrupt(self._path, "file_path", "an entry has no file path", "2.7")
        content = self._content(content_number, path)
        self._check_format(content, format_, path)
        if key_metadata:
            raise _encrypted(path, self._path)
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


def corrupt(file: str, field_: str, reason: str, rule: str, *, what: str = "manifest") -> CorruptFileError:
    """The error for a manifest, called `file`, that breaks a rule of the format."""
    return CorruptFileError(
        f"Invalid {what}: {reason}", cause="CorruptManifest", file=file, field=field_, rule=f"iceberg {rule}"
    )


def _encrypted(what: str, manifest: str) -> EncryptedTableError:
    return EncryptedTableError(
        f"Cannot read {what}: it is encrypted, and harness holds no keys",
        cause="EncryptedTable",
        file=manifest,
        field="key_metadata",
        rule="iceberg 2.19",
    )


ALL: Final = "all"
StatisticsFields: TypeAlias = Literal["all"] | AbstractSet[int] | None
"""Whose statistics to decode: `ALL` fields with column sizes, the given field ids, or None. Decoding costs time."""


def open_manifest(
    data: bytes,
    manifest: ManifestFile,
    *,
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    limits: Limits = DEFAULT,
) -> ManifestReader:
    """The manifest in `data`, with its header read (iceberg 2.4 to 2.22).

    specs: the table's, by id. schemas: where source columns of partition fields get their types; the first schema that
    has the column wins, so that of the read should come first and old ones last.

    Raises:
        CorruptFileError: damage; cause `CorruptManifest`. EncryptedTableError: the manifest is encrypted.
        InvalidTableError: neither table nor header has the spec; cause `MissingSpec`.
        UnsupportedError: an unknown codec. LimitError: the header asks for more than `limits` allow.
    """
    if manifest.key_metadata:
        raise _encrypted(manifest.path, manifest.path)
    container = open_container(data, file=manifest.path, limits=limits)
    spec = _spec(container, manifest, specs)
    return ManifestReader(manifest, container, spec, _partition_converter(container, spec, schemas))


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """A manifest whose header is read. spec: of its partition tuples."""

    manifest: ManifestFile
    container: Container
    spec: PartitionSpec
    _convert: Callable[[list[Any]], Mapping[int, Any]]

    @property
    def schema(self) -> bytes:
        """The writer's schema, as it is written."""
        return self.container.metadata["avro.schema"]

    @property
    def is_v1(self) -> bool:
        """True if the manifest's own header says format version 1."""
        return self.container.text("format-version") == "1"

    @property
    def is_disputed(self) -> bool:
        """True if its own header says deletes, and the list data; each entry must decide it (iceberg 2.4).

        DuckDB 1.5's writer leaves the header's word to chance: one in twenty of its data manifests says deletes.
        """
        return not self.manifest.is_deletes and self.container.text("content") == "deletes"

    def entries(self, statistics: StatisticsFields = None, *, live_only: bool = True) -> Iterator[ManifestEntry]:
        """The entries, in file order, after inheritance; `live_only` leaves out those of status deleted.

        Files of one partition share one `partition` mapping.

        Raises:
            CorruptFileError: damage, or a value that the format does not have; cause `CorruptManifest`.
            InvalidTableError: no sequence number; cause `MissingSequenceNumber`.
            UnsupportedError: an unknown file format. EncryptedTableError: a file is encrypted.
            LimitError: the manifest asks for more than its limits allow.
            All on iteration, which nothing of the manifest must survive.
        """
        reader = _EntryReader(self, live_only=live_only)
        try:
            yield from filter(None, map(reader.entry, self.container.records(_wanted(self._convert, statistics))))
        except DAMAGE as error:  # a field of another type than it must have
            raise decode_error(error, file=self.manifest.path) from error

    def partition_decoder(self) -> Callable[[bytes], Mapping[int, Any]]:
        """A function from the bytes of a partition tuple to `DataFile.partition`; raises ValueError and such."""
        column = self.container.column(_DATA_FILE, _PARTITION)

        def partition(encoded: bytes) -> Mapping[int, Any]:
            if column.read(encoded, 0) != len(encoded):
                raise ValueError("a partition tuple has a rest")
            return self._convert(column.take()[0])

        return partition

    def no_partition(self) -> Mapping[int, Any]:
        """The tuple of a file that has none."""
        return {f.field_id: None for f in self.spec.fields}


def _spec(container: Container, manifest: ManifestFile, specs: Mapping[int, PartitionSpec]) -> PartitionSpec:
    """The spec of the manifest's partition tuples: the table's, else the one in the header (iceberg 2.22)."""
    spec_id = manifest.spec_id
    if spec_id is None:  # the header says it, or it is 0 (iceberg 1.27)
        stated = container.text("partition-spec-id") or ""
        spec_id = int(stated) if re.fullmatch(r"[0-9]{1,18}", stated) else 0
    if spec_id in specs:
        return specs[spec_id]
    text = container.text("partition-spec")
    if text is None or container.text("partition-spec-id") not in (None, str(spec_id)):  # none, or another
        message = f"Cannot read manifest: the table has no partition spec {spec_id}, only {sorted(specs)}"
        raise InvalidTableError(message, cause="MissingSpec", file=container.file, rule="iceberg 2.22")
    return parse_header_spec(text, spec_id, file=container.file)


_DATA_FILE = Wanted(2, ("data_file",))
_PARTITION = Wanted(102, ("partition",))


def _wanted(convert: Callable[[list[Any]], Mapping[int, Any]], statistics: StatisticsFields) -> tuple[Wanted, ...]:
    """The fields to decode of an entry, in the order in which `_EntryReader` takes it apart.

    Statistics cost most of the time, so none or those of some columns; column sizes, which no plan needs, with all.
    """
    some: tuple[Wanted, ...] = ()
    if statistics:
        keep = None if statistics == ALL else frozenset(int(id_) for id_ in statistics)
        some = tuple(Wanted(id_, (name,), IntMap(key, value, keep)) for name, id_, key, value in _STATISTICS)
        some += (Wanted(108, ("column_sizes",), IntMap(117, 118)),) if keep is None else ()
    file = (
        Wanted(134, ("content",), kinds=LONG),
        Wanted(100, ("file_path",), kinds=TEXT),
        Wanted(101, ("file_format",), Memo(str.lower), TEXT),
        replace(_PARTITION, shape=Memo(convert)),
        Wanted(103, ("record_count",), kinds=LONG),
        Wanted(104, ("file_size_in_bytes",), kinds=LONG),
        Wanted(131, ("key_metadata",), kinds=BYTES),
        Wanted(132, ("split_offsets",)),
        Wanted(135, ("equality_ids",), kinds=LONGS),
        Wanted(140, ("sort_order_id",)),
        Wanted(142, ("first_row_id",), kinds=LONG),
        Wanted(143, ("referenced_data_file",), kinds=TEXT),
        Wanted(144, ("content_offset",), kinds=LONG),
        Wanted(145, ("content_size_in_bytes",), kinds=LONG),
        *some,
    )
    return (
        Wanted(0, ("status",), kinds=LONG),
        Wanted(1, ("snapshot_id",), kinds=LONG),
        Wanted(3, ("sequence_number",), kinds=LONG),
        Wanted(4, ("file_sequence_number",), kinds=LONG),
        replace(_DATA_FILE, shape=Struct(file)),
    )


_STATISTICS = (
    ("value_counts", 109, 119, 120),
    ("null_value_counts", 110, 121, 122),
    ("nan_value_counts", 137, 138, 139),
    ("lower_bounds", 125, 126, 127),
    ("upper_bounds", 128, 129, 130),
)


def _partition_converter(
    container: Container, spec: PartitionSpec, schemas: Sequence[Schema]
) -> Callable[[list[Any]], Mapping[int, Any]]:
    """A function from an encoded partition tuple, in the writer's order, to internal values by partition field id."""
    written = container.fields(_DATA_FILE, _PARTITION)
    types = partition_types(spec, schemas)
    nulls = {f.field_id: None for f in spec.fields}
    # By id, never by name; by position if the writer gives no ids (iceberg 2.17).
    places = {f.id: place for place, f in enumerate(written)}
    if all(f.id is None for f in written):
        places = {f.field_id: place for place, f in enumerate(spec.fields[: len(written)])}
    steps = [
        (places[f.field_id], f, partition_value(types[f.field_id], written[places[f.field_id]].kind))
        for f in spec.fields
        if f.field_id in places and not isinstance(f.transform, Void)
    ]

    def convert(values: list[Any]) -> Mapping[int, Any]:
        partition: dict[int, Any] = dict(nulls)
        for position, partition_field, to_stored in steps:
            try:
                partition[partition_field.field_id] = to_stored(values[position])
            except ValueError as error:
                raise ValueError(f"partition field {partition_field.name!r}: {error}") from error
        return partition

    return convert
