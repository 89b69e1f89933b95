"""Manifests: the data and delete files of a snapshot, one entry each, after inheritance from the manifest list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from harness.errors import InvalidTableError
from harness.metadata.files.avro_container import Container, WriterField, open_container
from harness.metadata.files.avro_decoding import BYTES, LONG, LONGS, TEXT, IntMap, Memo, Struct, Wanted, decode_error
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.iceberg.manifest_entries import (
    EntryReader,
    ManifestEntry,
    ManifestFile,
    encrypted,
)
from harness.metadata.iceberg.model import PartitionField, PartitionSpec, parse_header_spec
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import partition_types, partition_value
from harness.metadata.model.schema import Schema
from harness.storage.limits import DEFAULT, Limits
from harness.storage.records import dataclass

ALL: Final = "all"
Statistics: TypeAlias = Literal["all"] | AbstractSet[int] | None
"""Whose statistics to decode: `ALL` fields with column sizes, the given field ids, or None. Decoding costs time."""


def parse_manifest(
    data: bytes,
    manifest: ManifestFile,
    *,
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    statistics: Statistics = None,
    live_only: bool = True,
    limits: Limits = DEFAULT,
) -> Iterator[ManifestEntry]:
    """The entries of a manifest, in file order, after inheritance; `live_only` leaves out those of status deleted.

    specs: the table's, by id. schemas: where source columns of partition fields get their types; the first schema that
    has the column wins, so that of the read should come first and old ones last.
    Files of one partition share one `partition` mapping.

    Raises:
        CorruptFileError: damage, or a value that the format does not have; cause `CorruptManifest`.
        InvalidTableError: no spec (cause `MissingSpec`), no sequence number (cause `MissingSequenceNumber`).
        UnsupportedError: an unknown file format or codec. EncryptedTableError: the manifest or a file is encrypted.
        LimitError: the manifest asks for more than `limits` allow.
        All on iteration, which nothing of the manifest must survive.

    Source: iceberg 2.4-2.22.
    """
    yield from open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits).entries(
        statistics, live_only=live_only
    )


def open_manifest(
    data: bytes,
    manifest: ManifestFile,
    *,
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    limits: Limits = DEFAULT,
) -> ManifestReader:
    """The manifest in `data`, with its header read; arguments and errors as `parse_manifest`."""
    container = _open(data, manifest, limits)
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
    def is_v1(self) -> bool:
        """True if the manifest's own header says format version 1."""
        return self.container.text("format-version") == "1"

    @property
    def is_disputed(self) -> bool:
        """True if its own header says deletes, and the list data; each entry must decide it (iceberg 2.4).

        DuckDB 1.5's writer leaves the header's word to chance: one in twenty of its data manifests says deletes.
        """
        return not self.manifest.is_deletes and self.container.text("content") == "deletes"

    def entries(self, statistics: Statistics = None, *, live_only: bool = True) -> Iterator[ManifestEntry]:
        """The entries one by one, as `parse_manifest`."""
        known = {"is_v1": self.is_v1, "is_disputed": self.is_disputed}
        reader = EntryReader(self.manifest, self.spec, **known, live_only=live_only)
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


def spec_of(
    data: bytes, manifest: ManifestFile, *, specs: Mapping[int, PartitionSpec], limits: Limits = DEFAULT
) -> PartitionSpec:
    """The spec of a manifest's partition tuples: one of the table's, else the one in the header (iceberg 2.22).

    Raises:
        CorruptFileError: damage. EncryptedTableError: the manifest is encrypted.
        InvalidTableError: neither has the spec; cause `MissingSpec`.
        LimitError: the header asks for more than `limits` allow.
    """
    return _spec(_open(data, manifest, limits), manifest, specs)


def _open(data: bytes, manifest: ManifestFile, limits: Limits) -> Container:
    if manifest.key_metadata:
        raise encrypted(manifest.path, manifest.path)
    return open_container(data, file=manifest.path, limits=limits)


def _spec(container: Container, manifest: ManifestFile, specs: Mapping[int, PartitionSpec]) -> PartitionSpec:
    """The spec of the manifest's partition tuples: the table's, else the one in the header (iceberg 2.22)."""
    spec_id = manifest.spec_id if manifest.spec_id is not None else _header_spec_id(container)
    if spec_id in specs:
        return specs[spec_id]
    text = container.text("partition-spec")
    if text is None or container.text("partition-spec-id") not in (None, str(spec_id)):  # none, or another
        raise InvalidTableError(
            f"Cannot read manifest: the table has no partition spec {spec_id}, only {sorted(specs)}",
            cause="MissingSpec",
            file=container.file,
            rule="iceberg 2.22",
        )
    return parse_header_spec(text, spec_id, file=container.file)


def _header_spec_id(container: Container) -> int:
    """The header's spec id, 0 without one (iceberg 1.27)."""
    text = container.text("partition-spec-id")
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else 0


_DATA_FILE = Wanted(2, ("data_file",))
_PARTITION = Wanted(102, ("partition",))


def _wanted(convert: Callable[[list[Any]], Mapping[int, Any]], statistics: Statistics) -> tuple[Wanted, ...]:
    """The fields to decode of an entry, in the order in which `EntryReader` takes it apart."""
    file = (
        Wanted(134, ("content",), kinds=LONG),
        Wanted(100, ("file_path",), kinds=TEXT),
        Wanted(101, ("file_format",), Memo(_lower), TEXT),
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
        *_statistics_wanted(statistics),
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


def _statistics_wanted(statistics: Statistics) -> tuple[Wanted, ...]:
    """None, or one per statistic; column sizes, which no plan needs, only with all."""
    if statistics is None or len(statistics) == 0:
        return ()
    keep = None if statistics == ALL else frozenset(int(id_) for id_ in statistics)
    sizes = (Wanted(108, ("column_sizes",), IntMap(117, 118)),) if keep is None else ()
    return (*(Wanted(id_, (name,), IntMap(key, value, keep)) for name, id_, key, value in _STATISTICS), *sizes)


def _lower(text: str) -> str:
    return text.lower()


def _partition_converter(
    container: Container, spec: PartitionSpec, schemas: Sequence[Schema]
) -> Callable[[list[Any]], Mapping[int, Any]]:
    """A function from an encoded partition tuple, in the writer's order, to internal values by partition field id."""
    written = container.fields(_DATA_FILE, _PARTITION)
    types = partition_types(spec, schemas)
    nulls = {f.field_id: None for f in spec.fields}
    steps = [
        (position, f, partition_value(types[f.field_id], written[position].kind))
        for f, position in _positions(written, spec)
        if not isinstance(f.transform, Void)
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


def _positions(written: tuple[WriterField, ...], spec: PartitionSpec) -> list[tuple[PartitionField, int]]:
    """The places of the spec's fields: by id, never by name; by position if the writer gives no ids (iceberg 2.17)."""
    if all(f.id is None for f in written):
        return [(f, position) for position, f in enumerate(spec.fields[: len(written)])]
    by_id = {f.id: position for position, f in enumerate(written)}
    return [(f, by_id[f.field_id]) for f in spec.fields if f.field_id in by_id]
