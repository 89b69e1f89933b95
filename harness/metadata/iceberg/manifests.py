"""Manifest lists, headers of manifests, and manifest entries after inheritance from the list.

`harness.metadata.iceberg.columns` decodes the entries.
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
    open_container,
)
from harness.metadata.files.avro_schema import Node
from harness.metadata.files.avro_values import Tally, column_of
from harness.metadata.iceberg.model import PartitionSpec, parse_header_spec
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import partition_types, partition_value
from harness.metadata.model.schema import Schema
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A summary of the values of one partition field in a manifest.

    Attributes:
        contains_null: If False, no value is null.
        contains_nan: If False, no value is NaN; None if unknown.
        lower: Lower bound, encoded with the type of the transform's result. None if all values are null or the writer
            left it out.
        upper: Upper bound, as `lower`.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest of a snapshot, as the manifest list describes it.

    Attributes:
        path: Recorded path.
        length: Size in bytes, informative only (iceberg 2.3); None if not recorded.
        spec_id: Id of the partition spec. None if not recorded (a v1 snapshot with an inline list); the manifest's
            header then has it (iceberg 1.27).
        is_deletes: True if the entries are delete files.
        sequence_number: Sequence number of the commit that added the manifest; 0 in v1.
        min_sequence_number: Smallest data sequence number of the live files.
        added_snapshot_id: Snapshot that added the manifest; None if not recorded.
        added_files_count: Number of files of status added. In all counts, None means unknown and must be treated as
            "some".
        existing_files_count: Number of files of status existing.
        deleted_files_count: Number of files of status deleted.
        added_rows_count: Number of rows in added files.
        existing_rows_count: Number of rows in existing files.
        deleted_rows_count: Number of rows in deleted files.
        partitions: One summary per field of the spec, in order; None if unknown.
        first_row_id: First row id of the manifest; None if the files have no row ids.
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


# The order must match the unpacking in `_manifest_file`. Names are used only for fields without ids (iceberg 2.1).
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
    """Return the manifests of a snapshot, in the order of the list.

    Args:
        data: The bytes of the manifest list.
        file: The path of the list, for messages.
        limits: Bounds on the decoded items.

    Raises:
        CorruptFileError: The bytes are damaged, or a manifest has no path or spec id (iceberg 2.2).
        EncryptedTableError: The list or one of its manifests is encrypted (iceberg 2.19).
        LimitError: The list exceeds `limits`.
    """
    return ManifestListParser(limits).parse(data, file=file)


@dataclass(slots=True)
class ManifestListParser:
    """A parser of the manifest lists of many snapshots, which decodes an entry that they repeat only once."""

    limits: Limits
    _schema: bytes = b""
    _known: dict[bytes, tuple[bytes, ManifestFile]] = field(default_factory=dict)

    def parse(self, data: bytes, *, file: str) -> tuple[ManifestFile, ...]:
        """Return the manifests of a snapshot, as `parse_manifest_list`."""
        container = open_container(data, file=file, limits=self.limits)
        schema = container.metadata["avro.schema"]
        if schema != self._schema:
            self._schema, self._known = schema, {}
        return tuple(container.made_records(_WANTED, lambda row: _manifest_file(row, file), self._known))


def _manifest_file(row: list[Any], file: str) -> ManifestFile:
    path, spec_id, length, content, sequence_number, min_sequence_number, added_snapshot_id, *rest = row
    *raw_counts, partitions, key_metadata, first_row_id = rest
    counts = [None if count is None or count < 0 else count for count in raw_counts]  # a negative count means unknown
    for name, value in (("manifest_path", path), ("partition_spec_id", spec_id)):
        if value is None:
            raise corrupt(name, f"a manifest has no {name}", "2.2", file=file, what="manifest list")
    if content not in (None, 0, 1):
        reason = f"got content {content!r}, expected 0 (data) or 1 (deletes)"
        raise corrupt("content", reason, "2.2", file=file, what="manifest list")
    if key_metadata:
        raise encrypted(f"manifest {path}", file)
    summaries = None
    if partitions is not None:  # a summary without contains_null is read as "may contain nulls"
        summaries = tuple(FieldSummary(null is not False, *bounds) for null, *bounds in partitions)
    return ManifestFile(
        path=path,
        length=length,
        spec_id=spec_id,
        is_deletes=content == 1,
        sequence_number=sequence_number or 0,
        min_sequence_number=min_sequence_number or 0,
        added_snapshot_id=added_snapshot_id,
        added_files_count=counts[0],
        existing_files_count=counts[1],
        deleted_files_count=counts[2],
        added_rows_count=counts[3],
        existing_rows_count=counts[4],
        deleted_rows_count=counts[5],
        partitions=summaries,
        first_row_id=first_row_id,
    )


class Content(enum.IntEnum):
    """The kinds of files. The values are the format's (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class Status(enum.IntEnum):
    """How the commit of a manifest treated a file. The values are the format's (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data or delete file, with everything that its writer recorded about it.

    Attributes:
        content: The kind of the file.
        path: Recorded path.
        format: File format, in lower case.
        spec_id: Id of the partition spec.
        partition: Internal values by partition field id of the spec.
        record_count: Number of rows; None if unknown (iceberg 2.21).
        size: Size in bytes, informative only.
        column_sizes: Sizes in bytes by field id. All statistics are None if the manifest lacks them or they were not
            read.
        value_counts: Numbers of values by field id, with nulls and NaN.
        null_value_counts: Numbers of nulls by field id.
        nan_value_counts: Numbers of NaN by field id.
        lower_bounds: Encoded lower bounds by field id; `harness.metadata.iceberg.values.decode_bound` decodes them.
        upper_bounds: Encoded upper bounds by field id.
        split_offsets: Offsets at which the file can be split.
        equality_ids: Field ids of the keys of an equality delete file.
        sort_order_id: Id of the sort order of the rows.
        first_row_id: Row id of the first row.
        referenced_data_file: Recorded path of the only data file that a deletion vector or position delete file is for.
        content_offset: Offset of a deletion vector in the file.
        content_size: Size of a deletion vector in bytes.
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
    """A file in a manifest, with all inherited values resolved (iceberg 2.9, 2.11).

    Attributes:
        status: How the commit treated the file.
        snapshot_id: The snapshot that added or deleted the file.
        sequence_number: The data sequence number, which decides which deletes apply (iceberg 2.10).
        file_sequence_number: The sequence number of the commit that added the file.
        file: The file.
        manifest: Recorded path of the manifest.
    """

    status: Status
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    file: DataFile
    manifest: str


def inherited_sequence_number(status: Any, of_manifest: Any, is_v1: Any) -> tuple[Any, Any]:
    """Return the sequence number that a file without a recorded one inherits, and whether it is known (iceberg 2.9).

    Files that a v1 manifest carries over are older than all sequence numbers, so their number is 0. The arguments may
    be numbers or arrays of numbers.

    Args:
        status: Status of the entry.
        of_manifest: Sequence number of the manifest.
        is_v1: True for a manifest of format version 1.
    """
    inherits = (of_manifest == 0) | (status == Status.ADDED)
    return of_manifest * inherits, inherits | is_v1


FILE_FORMATS = frozenset({"parquet", "avro", "orc", "puffin"})
"""Formats of files that manifests list, in lower case. Only deletion vectors may be in puffin files (iceberg 2.20)."""


def corrupt(
    field_: str, reason: str, rule: str, *, file: str | None = None, what: str = "manifest"
) -> CorruptFileError:
    """Return the error for a manifest that breaks a rule of the format."""
    return CorruptFileError(
        f"Invalid {what}: {reason}", cause="CorruptManifest", file=file, field=field_, rule=f"iceberg {rule}"
    )


def encrypted(what: str, manifest: str | None = None) -> EncryptedTableError:
    """Return the error for an encrypted file."""
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
    """Read the header of the manifest in `data` (iceberg 2.4 to 2.22).

    Args:
        data: The bytes of the manifest.
        manifest: The description of the manifest in the list.
        specs: The partition specs of the table, by id.
        schemas: Schemas with the types of the source columns of partition fields. The first schema with the column
            is used, so the schema of the read comes first and old schemas last.
        limits: Bounds on the decoded items.

    Raises:
        CorruptFileError: The manifest is damaged (cause `CorruptManifest`).
        EncryptedTableError: The manifest is encrypted.
        InvalidTableError: Neither the table nor the header has the partition spec (cause `MissingSpec`).
        UnsupportedError: The codec is unknown.
        LimitError: The header exceeds `limits`.
    """
    container = open_container(data, file=manifest.path, limits=limits)
    spec = _spec(container, manifest, specs)
    return ManifestReader(manifest, container, spec, _partition_converter(container, spec, schemas))


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """A manifest with its header read. `spec` is the spec of its partition tuples."""

    manifest: ManifestFile
    container: Container
    spec: PartitionSpec
    _convert: Callable[[list[Any]], Mapping[int, Any]]

    @property
    def schema(self) -> bytes:
        """The writer's schema, as stored."""
        return self.container.metadata["avro.schema"]

    @property
    def is_v1(self) -> bool:
        """True if the manifest's own header has format version 1."""
        return self.container.text("format-version") == "1"

    @property
    def is_disputed(self) -> bool:
        """True if the header says deletes but the manifest list says data. Each entry then decides (iceberg 2.4).

        DuckDB 1.5 writes an arbitrary value into the header: one in twenty of its data manifests says deletes.
        """
        return not self.manifest.is_deletes and self.container.text("content") == "deletes"

    def partition_decoder(self) -> Callable[[bytes], Mapping[int, Any]]:
        """Return a function from the bytes of a partition tuple to `DataFile.partition`.

        Both the method and the function raise one of `harness.metadata.files.avro_values.DAMAGE` on invalid data.
        """
        node = _partition_node(self.container)
        if node is None:
            raise LookupError("no partition")
        column = column_of(node.value, Tally(self.container.limits, self.container.file))

        def partition(encoded: bytes) -> Mapping[int, Any]:
            if column.read(encoded, 0) != len(encoded):
                raise ValueError("a partition tuple has extra bytes")
            return self._convert(column.take()[0])

        return partition

    def no_partition(self) -> Mapping[int, Any]:
        """Return the partition of a file without a partition tuple."""
        return {f.field_id: None for f in self.spec.fields}


def _spec(container: Container, manifest: ManifestFile, specs: Mapping[int, PartitionSpec]) -> PartitionSpec:
    """Return the spec of the manifest's partition tuples: from the table, or else from the header (iceberg 2.22)."""
    spec_id = manifest.spec_id
    if spec_id is None:  # the header has the spec id, or the id is 0 (iceberg 1.27)
        header_id = container.text("partition-spec-id") or ""
        spec_id = int(header_id) if re.fullmatch(r"[0-9]{1,18}", header_id) else 0
    if spec_id in specs:
        return specs[spec_id]
    text = container.text("partition-spec")
    # the header has no spec, or another one
    if text is None or container.text("partition-spec-id") not in (None, str(spec_id)):
        message = f"Cannot read manifest: the table has no partition spec {spec_id}, only {sorted(specs)}"
        raise InvalidTableError(message, cause="MissingSpec", file=container.file, rule="iceberg 2.22")
    return parse_header_spec(text, spec_id, file=container.file)


def _partition_node(container: Container) -> Node | None:
    """Return the writer's type of partition tuples."""
    file = container.schema.field(2, "data_file")
    return None if file is None else file.field(102, "partition")


def _partition_converter(
    container: Container, spec: PartitionSpec, schemas: Sequence[Schema]
) -> Callable[[list[Any]], Mapping[int, Any]]:
    """Return a function that converts a partition tuple in the writer's order to internal values by field id."""
    node = _partition_node(container)
    written = node.value if node is not None else Node(kind="record")
    types = partition_types(spec, schemas)
    nulls = {f.field_id: None for f in spec.fields}
    # By id, never by name; by position if the writer's schema has no ids (iceberg 2.17).
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
