"""Manifest lists, the headers of manifests, and what an entry of a manifest is after inheritance from the list.

Entries are decoded by `harness.metadata.iceberg.columns`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError, InvalidTableError
from harness.metadata.files.avro_container import (
    BOOLEAN,
    BYTES,
    LONG,
    TEXT,
    Container,
    RequestedField,
    decode_error,
    open_container,
)
from harness.metadata.files.avro_schema import Node
from harness.metadata.files.avro_values import DAMAGE, Tally, column_of
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
    first_row_id: int | None = None


# The order is that in which `_manifest_file` takes a row apart. Names serve fields without ids only (iceberg 2.1).
_SUMMARY = (
    RequestedField(509, ("contains_null",), kinds=BOOLEAN),
    RequestedField(518, ("contains_nan",), kinds=BOOLEAN),
    RequestedField(510, ("lower_bound",), kinds=BYTES),
    RequestedField(511, ("upper_bound",), kinds=BYTES),
)
_WANTED = (
    RequestedField(500, ("manifest_path",), kinds=TEXT),
    RequestedField(502, ("partition_spec_id",), kinds=LONG),
    RequestedField(501, ("manifest_length",), kinds=LONG),
    RequestedField(517, ("content",), kinds=LONG),
    RequestedField(515, ("sequence_number",), kinds=LONG),
    RequestedField(516, ("min_sequence_number",), kinds=LONG),
    RequestedField(503, ("added_snapshot_id",), kinds=LONG),
    RequestedField(504, ("added_files_count", "added_data_files_count"), kinds=LONG),
    RequestedField(505, ("existing_files_count", "existing_data_files_count"), kinds=LONG),
    RequestedField(506, ("deleted_files_count", "deleted_data_files_count"), kinds=LONG),
    RequestedField(512, ("added_rows_count",), kinds=LONG),
    RequestedField(513, ("existing_rows_count",), kinds=LONG),
    RequestedField(514, ("deleted_rows_count",), kinds=LONG),
    RequestedField(507, ("partitions",), fields=_SUMMARY),
    RequestedField(519, ("key_metadata",), kinds=BYTES),
    RequestedField(520, ("first_row_id",), kinds=LONG),
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
            raise corrupt(name, f"a manifest has no {name}", "2.2", file=file, what="manifest list")
    if content not in (None, 0, 1):
        reason = f"got content {content!r}, expected 0 (data) or 1 (deletes)"
        raise corrupt("content", reason, "2.2", file=file, what="manifest list")
    if key_metadata:
        raise encrypted(f"manifest {path}", file)
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


def corrupt(
    field_: str, reason: str, rule: str, *, file: str | None = None, what: str = "manifest"
) -> CorruptFileError:
    """The error for a manifest that breaks a rule of the format."""
    return CorruptFileError(
        f"Invalid {what}: {reason}", cause="CorruptManifest", file=file, field=field_, rule=f"iceberg {rule}"
    )


def encrypted(what: str, manifest: str | None = None) -> EncryptedTableError:
    """The error for a file with a key."""
    return EncryptedTableError(
        f"Cannot read {what}: it is encrypted, and harness holds no keys",
        cause="EncryptedTable",
        file=manifest,
        field="key_metadata",
        rule="iceberg 2.19",
    )


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

    def partition_decoder(self) -> Callable[[bytes], Mapping[int, Any]]:
        """A function from the bytes of a partition tuple to `DataFile.partition`; raises ValueError and such."""
        node = _partition_node(self.container)
        if node is None:
            raise LookupError("no partition")
        column = column_of(node.value, Tally(self.container.limits, self.container.file))

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


def _partition_node(container: Container) -> Node | None:
    """The writer's type of partition tuples."""
    file = container.schema.field(2, "data_file")
    return None if file is None else file.field(102, "partition")


def _partition_converter(
    container: Container, spec: PartitionSpec, schemas: Sequence[Schema]
) -> Callable[[list[Any]], Mapping[int, Any]]:
    """A function from an encoded partition tuple, in the writer's order, to internal values by partition field id."""
    node = _partition_node(container)
    written = node.value if node is not None else Node(kind="record")
    types = partition_types(spec, schemas)
    nulls = {f.field_id: None for f in spec.fields}
    # By id, never by name; by position if the writer gives no ids (iceberg 2.17).
    places = {id_: place for place, id_ in enumerate(written.ids)}
    if all(id_ is None for id_ in written.ids):
        places = {f.field_id: place for place, f in enumerate(spec.fields[: len(written.children)])}
    steps = [
        (places[f.field_id], f, partition_value(types[f.field_id], written.children[places[f.field_id]].logical_kind))
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
