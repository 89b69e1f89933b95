"""Reading of many manifests into columns, with the values that entries inherit.

Manifests with the same writer's schema are decoded together, in batches of bounded size. In lockstep, the cost of a
batch grows with its longest block; entry by entry, it grows with the number of entries. Manifests with a few long
blocks are therefore decoded entry by entry. Both decoders return the same offsets, and the same code builds columns
from them. If a batch fails, each of its manifests is decoded again separately, so that the error names the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, InvalidTableError
from harness.metadata.files.avro_container import decode_error
from harness.metadata.files.avro_values import DAMAGE, FieldError, error_reason
from harness.metadata.iceberg.columns.entries import (
    COLUMNS,
    COUNTS,
    SIZES,
    DataFiles,
    Extent,
    FilteredFiles,
    ManifestBlocks,
    Skip,
    SkippedDataFiles,
    batches,
    concat_files,
    lockstep_offsets,
    statistic,
)
from harness.metadata.iceberg.columns.lockstep import PATH, FieldOffsets, Slot, UnusualEncoding
from harness.metadata.iceberg.columns.sequential import is_long, map_decoder, sequential_offsets
from harness.metadata.iceberg.columns.stored import (
    ManifestCache,
    Paths,
    StoredEntries,
    byte_strings,
    concat_entries,
    live_entries,
    no_entries,
    stored_entries,
)
from harness.metadata.iceberg.manifests import (
    ManifestEntry,
    ManifestFile,
    ManifestReader,
    Status,
    corrupt,
    inherited_sequence_number,
    open_manifest,
)
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.model.arrow_values import Indices, Mask, array_of, empty_table, from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import Schema
from harness.metadata.plan.scan_plan import BY_PARTITION, KEPT
from harness.storage.limits import DEFAULT, Limits, contained, limit_error
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """One of several manifests whose entries are in one table.

    Attributes:
        number: The index of the manifest in the list.
        reader: The manifest with its header read.
        size: Number of its entries in the table.
    """

    number: int
    reader: ManifestReader
    size: int


def assemble(raw: StoredEntries, parts: Sequence[ManifestPart], skip: Skip | None) -> FilteredFiles:
    """Return the files of some manifests, with inherited values and the decisions of a filter.

    Args:
        raw: The entries of all parts, in the order of the parts.
        parts: The manifests.
        skip: The filter; None keeps all files.

    Raises:
        CorruptFileError: An inherited value is wrong.
        InvalidTableError: An inherited value is missing.
    """
    extent = raw.extent
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    codes, tuples = _partitions(raw, owner, parts)
    columns: dict[str, Any] = {
        "manifest": from_numpy(np.array([part.number for part in parts], dtype=np.int32)[owner]),
        "sequence_number": from_numpy(_sequence_numbers(raw, owner, parts)),
        "spec_id": from_numpy(
            _per_entry([part.reader.spec.id for part in parts], owner, "partition_spec_id", bits=32).astype(np.int32)
        ),
        "tuple": from_numpy(codes),
        "first_row_id": _row_ids(raw, owner, parts),
        **{statistic(name, key): pa.nulls(len(raw), pa.int64()) for name in extent.counts for key in extent.fields},
        **(_inherited_ids(raw, owner, parts) if extent.has_more else {}),
    }
    schema = pa.schema([field for field in extent.schema if field.name != "path"])
    arrays = [columns[name] if name in columns else raw.table.column(name) for name in schema.names]
    return _filter_files(DataFiles(pa.Table.from_arrays(arrays, schema=schema), (), tuples, extent.fields), raw, skip)


def _filter_files(files: DataFiles, raw: StoredEntries, skip: Skip | None) -> FilteredFiles:
    """Add the counts to files and apply the filter.

    Counts cost the most to decode, so they are decoded only for files that the filter keeps by their partition tuple.
    Bounds are not used before the counts are known, because counts that contradict the bounds make the bounds unusable.

    Args:
        files: The files without paths and counts.
        raw: Their stored entries.
        skip: The filter; None keeps all files.
    """
    without_statistics = replace(files, fields=())
    decisions = np.full(len(files), KEPT, dtype=np.int8) if skip is None else skip(without_statistics)
    places = np.flatnonzero(decisions != BY_PARTITION)
    with_counts = files.take(places)
    table = with_counts.table
    for name in raw.extent.counts if files.fields and len(places) else ():
        for key, (values, is_known) in raw.counts(name, files.fields, places).items():
            at = table.schema.get_field_index(statistic(name, key))
            table = table.set_column(at, table.schema.field(at), from_numpy(values, missing=~is_known))
    with_counts = DataFiles(table, (), files.tuples, files.fields)
    if skip is not None:
        decisions[places] = new_decisions = skip(with_counts)
        with_counts, places = with_counts.take(np.flatnonzero(new_decisions == KEPT)), places[new_decisions == KEPT]
    dropped = np.flatnonzero(decisions != KEPT)
    place = COLUMNS.get_field_index("path")
    paths = raw.paths  # keeps only the paths alive, not everything that was decoded
    table = with_counts.table.add_column(place, COLUMNS.field(place), _take_paths(paths, places))
    return FilteredFiles(
        DataFiles(table, (), files.tuples, files.fields),
        SkippedDataFiles.from_decisions(files.table, decisions, cache(lambda: _take_paths(paths, dropped))),
    )


def _take_paths(paths: Paths, places: Indices) -> pa.ChunkedArray:
    if not len(places):
        return pa.chunked_array([], pa.string())
    all_paths = paths()
    return all_paths if len(places) == len(all_paths) else all_paths.take(from_numpy(places))


def _per_entry(values: Sequence[int], owner: Indices, name: str, *, bits: int = 64) -> Indices:
    """Return, for each entry, the value of its manifest. Raises CorruptFileError if a value does not fit its column."""
    for value in values:
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise corrupt(name, f"the manifest list records its {name} as {value}, which exceeds {bits} bits", "2.2")
    column: Indices = np.array(values, dtype=np.int64)[owner] if values else np.zeros(0, dtype=np.int64)
    return column


def _numbers(raw: StoredEntries, name: str) -> tuple[Indices, Mask]:
    """Return the numbers in a column and a mask of the rows that have a number. Missing numbers are 0."""
    column = raw.table.column(name)
    if not column.null_count:
        return to_numpy(column), np.ones(len(column), dtype=np.bool_)
    return to_numpy(pc.fill_null(column, scalar_of(0, pa.int64()))), to_numpy(column.is_valid())


def _sequence_numbers(raw: StoredEntries, owner: Indices, parts: Sequence[ManifestPart]) -> Indices:
    """Return the data sequence numbers, inherited from the manifest if an entry has none (iceberg 2.9)."""
    values, has_number = _numbers(raw, "sequence_number")
    if has_number.all():
        return values
    status = to_numpy(raw.table.column("status"))
    of_manifest = _per_entry([part.reader.manifest.sequence_number for part in parts], owner, "sequence_number")
    is_v1 = _per_entry([part.reader.is_v1 for part in parts], owner, "format-version") == 1
    inherited, is_known = inherited_sequence_number(status, of_manifest, is_v1)
    lacks_number = ~(has_number | is_known)
    if lacks_number.any():
        place = int(np.argmax(lacks_number))
        path, kind = raw.paths()[place], Status(status[place]).name.lower()
        raise InvalidTableError(
            f"Cannot determine which deletes apply to {path}: its entry is {kind} and has no sequence number",
            cause="MissingSequenceNumber",
            field="sequence_number",
            rule="iceberg 2.9",
        )
    return np.where(has_number, values, inherited)


def _inherited_ids(raw: StoredEntries, owner: Indices, parts: Sequence[ManifestPart]) -> dict[str, pa.Array]:
    """Return snapshot ids and file sequence numbers, inherited from the manifest if an entry has none (iceberg 2.9).

    A number in the manifest list that does not fit 64 bits counts as unknown.
    """
    manifests = [part.reader.manifest for part in parts]
    added = [m.added_snapshot_id if is_long(m.added_snapshot_id) else None for m in manifests]
    sequence_numbers = [m.sequence_number if is_long(m.sequence_number) else None for m in manifests]
    status = to_numpy(raw.table.column("status"))
    of_manifest = np.array([number or 0 for number in sequence_numbers], dtype=np.int64)[owner]
    is_v1 = np.array([part.reader.is_v1 for part in parts], dtype=np.bool_)[owner]
    numbers, is_known = inherited_sequence_number(status, of_manifest, is_v1)
    is_known = is_known & np.array([number is not None for number in sequence_numbers], dtype=np.bool_)[owner]
    inherited = {
        "snapshot_id": array_of(added, pa.int64()).take(from_numpy(owner)),
        "file_sequence_number": from_numpy(numbers, missing=~is_known),
    }
    return {name: pc.coalesce(raw.table.column(name), values) for name, values in inherited.items()}


def _row_ids(raw: StoredEntries, owner: Indices, parts: Sequence[ManifestPart]) -> pa.Array:
    """Return the id of each file's first row, or null for a file without row ids.

    If the manifest assigns ids, files that record none are numbered consecutively (iceberg 2.11).
    """
    starts = [None if part.reader.manifest.is_deletes else part.reader.manifest.first_row_id for part in parts]
    if all(start is None for start in starts):
        return pa.nulls(len(raw), pa.int64())
    values, has_id = _numbers(raw, "first_row_id")
    assigns = np.array([start is not None for start in starts], dtype=np.bool_)[owner]
    assigned = assigns & ~has_id & (to_numpy(raw.table.column("status")) != Status.DELETED)
    rows, has_count = _numbers(raw, "record_count")
    if not has_count[assigned].all():
        path = raw.paths()[int(np.argmax(assigned & ~has_count))]
        raise corrupt("record_count", f"{path} has no record count, which row ids need", "2.11")
    rows = np.where(assigned, rows, 0)
    if float(rows.sum(dtype=np.float64)) + max(abs(start or 0) for start in starts) >= 2.0**62:
        return _long_row_ids(rows.tolist(), values.tolist(), has_id, assigns & (has_id | assigned), owner, starts)
    before = np.cumsum(rows) - rows
    # Numbering starts again in each manifest.
    first = np.searchsorted(owner, np.arange(len(parts)))
    base = np.array([before[i] if i < len(before) else 0 for i in first.tolist()], dtype=np.int64)
    manifest_start = np.array([start or 0 for start in starts], dtype=np.int64)[owner]
    ids = np.where(has_id, values, manifest_start + before - base[owner])
    return from_numpy(ids, missing=~(assigns & (has_id | assigned)))


def _long_row_ids(
    rows: list[int], values: list[int], has_id: Mask, is_valid: Mask, owner: Indices, starts: Sequence[int | None]
) -> pa.Array:
    """Return the result of `_row_ids` for row ids that may exceed 64 bits. An id that exceeds 64 bits becomes null."""
    ends = [start or 0 for start in starts]
    ids: list[int | None] = []
    for place, part in enumerate(owner.tolist()):
        id_ = values[place] if has_id[place] else ends[part]
        ends[part] += rows[place]
        ids.append(id_ if is_valid[place] and is_long(id_) else None)
    return array_of(ids, pa.int64())


def _partitions(
    raw: StoredEntries, owner: Indices, parts: Sequence[ManifestPart]
) -> tuple[npt.NDArray[np.int32], list[Mapping[int, Any]]]:
    """Return the index of each file's partition tuple, and the tuples. Equal bytes are decoded only once per spec."""
    if not len(raw):
        return np.zeros(0, dtype=np.int32), []
    encoded = raw.table.column("partition").combine_chunks()
    # Index 0 is the null tuple.
    contents = [None, *encoded.dictionary.to_pylist()]
    within = to_numpy(pc.fill_null(encoded.indices, scalar_of(-1, pa.int32()))).astype(np.int64) + 1
    ordinals = {spec: i for i, spec in enumerate(sorted({part.reader.spec.id for part in parts}))}
    pairs = np.array([ordinals[part.reader.spec.id] for part in parts])[owner] * len(contents) + within
    distinct_pairs, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    tuples: list[Mapping[int, Any]] = []
    decoders: dict[int, Callable[[bytes], Mapping[int, Any]]] = {}
    try:
        for pair, place in zip(distinct_pairs.tolist(), first.tolist(), strict=True):
            content, reader = contents[pair % len(contents)], parts[int(owner[place])].reader
            if content is None:
                tuples.append(reader.no_partition())
                continue
            if reader.spec.id not in decoders:
                decoders[reader.spec.id] = reader.partition_decoder()
            tuples.append(decoders[reader.spec.id](content))
    except DAMAGE as error:
        raise decode_error(FieldError(("data_file", "partition"), error_reason(error))) from error
    return codes.astype(np.int32), tuples


_BATCH_ROWS = 1 << 15


def read_data_files(
    manifests: Sequence[ManifestFile],
    *,
    read: Callable[[ManifestFile], bytes],
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    statistics: Iterable[int],
    skip: Skip | None = None,
    limits: Limits = DEFAULT,
    manifest_cache: ManifestCache | None = None,
) -> FilteredFiles:
    """Return the live data files of data manifests, in order.

    Args:
        manifests: The manifests.
        read: Returns the bytes of a manifest.
        specs: As for `harness.metadata.iceberg.manifests.open_manifest`.
        schemas: As for `open_manifest`.
        statistics: Ids of the fields whose statistics become columns.
        skip: The filter; None keeps all files.
        limits: As for `open_manifest`.
        manifest_cache: Cached manifests are not read again. None disables the cache.

    Raises:
        CorruptFileError: A manifest is damaged or has an invalid value (cause `CorruptManifest`).
        InvalidTableError: An entry has no sequence number (cause `MissingSequenceNumber`).
        UnsupportedError: A file format is unknown.
        EncryptedTableError: A file is encrypted.
        LimitError: A manifest exceeds its limits.
        HarnessError: As `open_manifest` raises.
    """
    extent = Extent(tuple(sorted(statistics)))

    def open_reader(data: bytes, manifest: ManifestFile) -> ManifestReader:
        with contained(file=manifest.path):
            return open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)

    def read_manifest(number: int) -> ManifestReader:
        manifest = manifests[number]
        data = read(manifest)
        if manifest_cache is not None:
            manifest_cache.note_size(manifest.path, len(data))
        return open_reader(data, manifest)

    cached = _CachedManifests(skip, read_manifest)

    def uncached() -> Iterator[tuple[int, ManifestReader]]:
        for number, manifest in enumerate(manifests):
            entry = None if manifest_cache is None else manifest_cache.get(manifest.path, extent.fields)
            if entry is None:
                yield number, read_manifest(number)
            else:
                header, raw = entry
                cached.add(ManifestPart(number, open_reader(header, manifest), len(raw)), raw)

    batch_files = [
        files for batch in batches(uncached()) for files in _decode_batch(batch, extent, skip, manifest_cache)
    ]
    cached.flush()
    return _with_manifest_paths([*batch_files, *cached.found], manifests, extent)


def read_files(readers: Sequence[ManifestReader], extent: Extent) -> DataFiles:
    """Return the entries of manifests of any kind, in order. Raises the errors of `read_data_files`."""
    batch_files = [files for batch in batches(enumerate(readers)) for files in _decode_batch(batch, extent, None, None)]
    return _with_manifest_paths(batch_files, [reader.manifest for reader in readers], extent).files


Choose: TypeAlias = Callable[[DataFiles], Sequence[int]]
"""Returns the row numbers of the entries to return. It may be called again for the same manifest if a batch fails."""


def read_entries(
    readers: Iterable[ManifestReader], *, live_only: bool = True, choose: Choose | None = None
) -> list[ManifestEntry]:
    """Return the entries of manifests as objects, in order, with inherited values and all statistics.

    Files of one manifest and one partition share one `partition` mapping. Raises the errors of `read_data_files`.

    Args:
        readers: The manifests.
        live_only: If True, leave out entries of status deleted.
        choose: Chooses the entries to return; None for all. It gets all entries of some manifests as columns.
    """
    extent = Extent(has_more=True, has_maps=True, live_only=live_only)
    return [entry for batch in batches(enumerate(readers)) for entry in _entries(batch, extent, choose)]


def _entries(batch: Sequence[ManifestBlocks], extent: Extent, choose: Choose | None) -> list[ManifestEntry]:
    """Return the chosen entries of manifests as objects. All manifests must have the same layout."""
    batch = [replace(blocks, number=place) for place, blocks in enumerate(batch)]
    reader = batch[0].reader
    files = _with_manifest_paths(
        _decode_batch(batch, extent, None, None), [blocks.reader.manifest for blocks in batch], extent
    ).files
    try:
        with _naming_manifest(reader.manifest):
            try:
                decoders = {slot.name: map_decoder(reader, slot) for slot in (*_STATISTICS, _SIZES)}
                table = files.table if choose is None else files.table.take(array_of(choose(files), pa.int64()))
                rows = table.to_pylist()
                maps = [{name: decode(row[name]) for name, decode in decoders.items()} for row in rows]
                return [files.entry(row, statistics) for row, statistics in zip(rows, maps, strict=True)]
            except DAMAGE as error:
                raise decode_error(error) from error
    except HarnessError:
        if len(batch) == 1:
            raise
        return [
            entry for blocks in batch for entry in _entries([blocks], extent, choose)
        ]  # the error then names the manifest


def _with_manifest_paths(
    parts: Sequence[FilteredFiles], manifests: Sequence[ManifestFile], extent: Extent
) -> FilteredFiles:
    """Return the files of all manifests as one `DataFiles`, with the paths of the manifests."""
    all_ = concat_files(
        parts or [FilteredFiles.split(DataFiles(empty_table(extent.schema), (), (), extent.fields), None)]
    )
    table = all_.files.table
    if not table.schema.equals(extent.schema):
        table = table.cast(extent.schema)
    files = replace(all_.files, table=table, manifests=[m.path for m in manifests], fields=extent.fields)
    return replace(all_, files=files)


@dataclass(slots=True)
class _CachedManifests:
    """Cached manifests, collected so that manifests with the same schema are assembled together.

    Attributes:
        skip: The filter; None keeps all files.
        open: Opens a manifest by its number.
        found: The files assembled so far.
        parts: Manifests that are not yet assembled.
        rows: Number of entries in `parts`.
    """

    skip: Skip | None
    open: Callable[[int], ManifestReader]
    found: list[FilteredFiles] = field(default_factory=list)
    parts: list[tuple[ManifestPart, StoredEntries]] = field(default_factory=list)
    rows: int = 0

    def add(self, part: ManifestPart, raw: StoredEntries) -> None:
        is_alike = not self.parts or part.reader.schema == self.parts[0][0].reader.schema
        if not is_alike or (self.parts and self.rows + len(raw) > _BATCH_ROWS):
            self.flush()
        self.parts.append((part, raw))
        self.rows += len(raw)

    def flush(self) -> None:
        """Assemble the manifests collected so far."""
        if not self.parts:
            return
        parts = [part for part, _ in self.parts]
        try:
            self.found.append(assemble(concat_entries([raw for _, raw in self.parts]), parts, self.skip))
        except HarnessError:
            extent = self.parts[0][1].extent
            self.found += [
                _decode_sequentially(ManifestBlocks.read(self.open(p.number), p.number), extent, self.skip)
                for p in parts
            ]
        self.parts.clear()
        self.rows = 0


def _sequential(batch: Sequence[ManifestBlocks], slots: tuple[Slot, ...]) -> Iterator[FieldOffsets]:
    """Yield the offsets of fields, which are found entry by entry.

    All blocks form one group if they are in memory. Otherwise, each block forms a group of its own.
    """
    reader = batch[0].reader
    groups: Iterable[Iterable[tuple[int, bytes]]]
    if batch[0].data is None:
        groups = ((block,) for block in reader.container.record_blocks())
    else:
        groups = ([pair for blocks in batch for pair in zip(blocks.counts, blocks.data or (), strict=True)],)
    return sequential_offsets(reader, slots, groups)


@contextmanager
def _naming_manifest(manifest: ManifestFile) -> Iterator[None]:
    """Add the path of the manifest to errors that the block raises."""
    try:
        with contained(file=manifest.path):
            yield
    except UnusualEncoding as error:
        raise limit_error("block_bytes", "a block of 2 GiB or more", file=manifest.path) from error
    except HarnessError as error:
        raise error.within(file=manifest.path) from error.__cause__


def _decode_sequentially(blocks: ManifestBlocks, extent: Extent, skip: Skip | None) -> FilteredFiles:
    reader = blocks.reader
    with _naming_manifest(reader.manifest):
        walks = _sequential([blocks], entry_slots(extent))
        raws = [stored_entries(offsets, _selected_entries(offsets, extent), extent, reader) for offsets in walks]
        raw = concat_entries(raws or [no_entries(extent)])
        return assemble(raw, [ManifestPart(blocks.number, reader, len(raw))], skip)


def _selected_entries(offsets: FieldOffsets, extent: Extent) -> Indices:
    live = live_entries(offsets)  # also checks all statuses
    return live if extent.live_only else np.arange(offsets.size)


def _decode_batch(
    batch: Sequence[ManifestBlocks], extent: Extent, skip: Skip | None, manifest_cache: ManifestCache | None
) -> list[FilteredFiles]:
    """Return the files of a batch of manifests with the same layout."""
    in_step: Sequence[ManifestBlocks] = ()
    batch_files: list[FilteredFiles] = []
    try:
        lockstep = lockstep_offsets(batch, entry_slots(extent))
        if lockstep is not None:
            batch_files, in_step = [_assemble_batch(*lockstep, extent, skip, manifest_cache)], lockstep[1]
    except (UnusualEncoding, HarnessError):
        pass
    numbers_in_step = {blocks_.number for blocks_ in in_step}
    remaining = [blocks_ for blocks_ in batch if blocks_.number not in numbers_in_step]
    if len(remaining) > 1:
        try:
            (offsets,) = _sequential(remaining, entry_slots(extent))
            return [*batch_files, _assemble_batch(offsets, remaining, extent, skip, None)]
        except (UnusualEncoding, HarnessError):  # the error would not name a manifest
            pass
    return [*batch_files, *(_decode_sequentially(blocks_, extent, skip) for blocks_ in remaining)]


def _assemble_batch(
    offsets: FieldOffsets,
    batch: Sequence[ManifestBlocks],
    extent: Extent,
    skip: Skip | None,
    manifest_cache: ManifestCache | None,
) -> FilteredFiles:
    places = _selected_entries(offsets, extent)
    raw = stored_entries(offsets, places, extent, batch[0].reader)
    entries = np.cumsum([0, *(sum(blocks_.counts) for blocks_ in batch)])
    starts = np.searchsorted(places, entries).tolist()
    parts = [
        ManifestPart(blocks_.number, blocks_.reader, end - start)
        for blocks_, (start, end) in zip(batch, pairwise(starts), strict=True)
    ]
    filtered = assemble(raw, parts, skip)
    if manifest_cache is not None:
        maps = {name: byte_strings(offsets, name, places) for name in COUNTS}  # without their number of items
        for part, start in zip(parts, starts, strict=False):
            container = part.reader.container
            manifest_cache.put(
                part.reader.manifest.path,
                container.data[: container.end],
                raw.slice(start, part.size),
                {name: values.slice(start, part.size) for name, values in maps.items()},
            )
    return filtered


_FILE = (
    Slot(134, "content", "number", is_strict=True),
    PATH,
    Slot(101, "file_format", "text"),
    Slot(102, "partition", "encoded"),
    Slot(103, "record_count", "number"),
    Slot(104, "file_size_in_bytes", "number"),
    Slot(131, "key_metadata", "bytes"),
    Slot(142, "first_row_id", "number"),
)
_STATISTICS = (
    Slot(109, "value_counts", "counts", pair=(119, 120)),
    Slot(110, "null_value_counts", "counts", pair=(121, 122)),
    Slot(137, "nan_value_counts", "counts", pair=(138, 139)),
    Slot(125, "lower_bounds", "bounds", pair=(126, 127)),
    Slot(128, "upper_bounds", "bounds", pair=(129, 130)),
)
_SIZES = Slot(108, SIZES, "counts", pair=(117, 118))
_MORE_OF_ENTRY = (Slot(1, "snapshot_id", "number"), Slot(4, "file_sequence_number", "number"))
_MORE_OF_FILE = (
    Slot(140, "sort_order_id", "number"),
    Slot(132, "split_offsets", "numbers"),
    Slot(135, "equality_ids", "numbers"),
    Slot(143, "referenced_data_file", "text"),
    Slot(144, "content_offset", "number"),
    Slot(145, "content_size_in_bytes", "number"),
)


@cache
def entry_slots(extent: Extent) -> tuple[Slot, ...]:
    """Return the slots that must be found in each entry to read `extent`."""
    maps: tuple[Slot, ...] = (*_STATISTICS, _SIZES) if extent.has_more else _STATISTICS
    if extent.has_maps:
        maps = tuple(replace(slot, kind="encoded") for slot in maps)
    elif extent.fields:
        maps = tuple(replace(slot, keys=extent.fields) for slot in maps)
    else:
        maps = ()
    of_entry, of_file = (_MORE_OF_ENTRY, _MORE_OF_FILE) if extent.has_more else ((), ())
    return (
        Slot(0, "status", "number", is_strict=True),
        Slot(3, "sequence_number", "number", is_strict=True),
        *of_entry,
        Slot(2, "data_file", "encoded", fields=(*_FILE, *of_file, *maps)),
    )
