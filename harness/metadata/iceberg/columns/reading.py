"""Manifests to columns: many manifests walked in step, and those that are few or odd one by one.

Manifests with the same writer's schema go together, in batches that bound the memory. In step, the cost of a batch
grows with its longest block; entry by entry, with its entries. So manifests of a few long blocks go entry by entry
where that is cheaper. Either walk notes the same places, of which the same columns are made. What is wrong in a batch
is looked for once more in each of its manifests, so that the error names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, InvalidTableError
from harness.metadata.files.avro_container import decode_error
from harness.metadata.files.avro_values import DAMAGE, FieldError, reason
from harness.metadata.iceberg.columns.alone import is_long, map_decoder, walks_alone
from harness.metadata.iceberg.columns.entries import (
    COLUMNS,
    COUNTS,
    Blocks,
    DataFiles,
    FilteredFiles,
    Skip,
    SkippedDataFiles,
    batches,
    joined,
    schema_of,
    statistic,
    walked,
)
from harness.metadata.iceberg.columns.raw import (
    KeptManifests,
    Paths,
    Raw,
    byte_strings,
    counts,
    lists,
    live_entries,
    nothing_of,
    optional,
    raw_of,
    texts,
)
from harness.metadata.iceberg.columns.raw import joined as joined_raw
from harness.metadata.iceberg.columns.walk import PATH, Slot, Unsure, Walk
from harness.metadata.iceberg.manifests import (
    Content,
    ManifestEntry,
    ManifestFile,
    ManifestReader,
    Status,
    corrupt,
    inherited_sequence_number,
    open_manifest,
)
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.model.arrow_values import Mask, Places, array_of, from_numpy, scalar_of, to_numpy, without_rows
from harness.metadata.model.schema import Schema
from harness.metadata.plan.scan_plan import KEPT
from harness.storage.limits import DEFAULT, Limits, contained, refusal
from harness.storage.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """A manifest of several. number: its place in the list. size: its live entries."""

    number: int
    reader: ManifestReader
    size: int


def assembled(raw: Raw, parts: Sequence[Part], skip: Skip | None) -> FilteredFiles:
    """The files of some manifests. raw: those of all, in that order.

    Raises CorruptFileError, InvalidTableError: what an entry inherits is wrong or missing.
    """
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    codes, tuples = _partitions(raw, owner, parts)
    columns: dict[str, Any] = {
        "manifest": from_numpy(np.array([part.number for part in parts], dtype=np.int32)[owner]),
        "status": raw.table.column("status"),
        "sequence_number": from_numpy(_sequence_numbers(raw, owner, parts)),
        "format": raw.table.column("format"),
        "spec_id": from_numpy(
            _of_parts([part.reader.spec.id for part in parts], owner, "partition_spec_id", bits=32).astype(np.int32)
        ),
        "tuple": from_numpy(codes),
        "record_count": raw.table.column("record_count"),
        "size": raw.table.column("size"),
        "first_row_id": _row_ids(raw, owner, parts),
        **{statistic(name, key): pa.nulls(len(raw), pa.int64()) for name in COUNTS for key in raw.fields},
    }
    schema = pa.schema([field for field in schema_of(raw.fields) if field.name != "path"])
    arrays = [columns[name] if name in columns else raw.table.column(name) for name in schema.names]
    facts = DataFiles(pa.Table.from_arrays(arrays, schema=schema), (), tuples, raw.fields)
    return _filtered(facts, raw, skip)


def _filtered(files: DataFiles, raw: Raw, skip: Skip | None) -> FilteredFiles:
    """The files with their counts. Counts cost most, and are looked at only for files that bounds leave.

    files: still without paths.
    """
    verdicts = np.full(len(files), KEPT, dtype=np.int8) if skip is None else skip(files)
    kept = np.flatnonzero(verdicts == KEPT)
    counted = files.take(kept)
    table = counted.table
    for name in COUNTS if files.fields and len(kept) else ():
        for key, (values, known) in raw.counts(name, files.fields, kept).items():
            at = table.schema.get_field_index(statistic(name, key))
            table = table.set_column(at, table.schema.field(at), from_numpy(values, missing=~known))
    counted = DataFiles(table, (), files.tuples, files.fields)
    if skip is not None and files.fields:
        verdicts[kept] = again = skip(counted)
        counted, kept = counted.take(np.flatnonzero(again == KEPT)), kept[again == KEPT]
    dropped = np.flatnonzero(verdicts != KEPT)
    place = COLUMNS.get_field_index("path")
    paths = raw.paths  # and not all of what was decoded, for as long as somebody may ask
    table = counted.table.add_column(place, COLUMNS.field(place), _some(paths, kept))
    return FilteredFiles(
        DataFiles(table, (), files.tuples, files.fields),
        SkippedDataFiles.of(files.table, verdicts, cache(lambda: _some(paths, dropped))),
    )


def _some(paths: Paths, places: Places) -> pa.ChunkedArray:
    if not len(places):
        return pa.chunked_array([], pa.string())
    found = paths()
    return found if len(places) == len(found) else found.take(from_numpy(places))


def _of_parts(values: Sequence[int], owner: Places, name: str, *, bits: int = 64) -> Places:
    """A value of each entry's manifest. Raises CorruptFileError: one is beyond what its column holds."""
    for value in values:
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise corrupt(name, f"the list gives it {name} {value}, beyond {bits} bits", "2.2")
    found: Places = np.array(values, dtype=np.int64)[owner] if values else np.zeros(0, dtype=np.int64)
    return found


def _numbers(raw: Raw, name: str) -> tuple[Places, Mask]:
    column = raw.table.column(name)
    return to_numpy(pc.fill_null(column, scalar_of(0, pa.int64()))), to_numpy(column.is_valid())


def _sequence_numbers(raw: Raw, owner: Places, parts: Sequence[Part]) -> Places:
    """Data sequence numbers, inherited where an entry has none (iceberg 2.9)."""
    values, stated = _numbers(raw, "sequence_number")
    if stated.all():
        return values
    status = to_numpy(raw.table.column("status"))
    of_manifest = _of_parts([part.reader.manifest.sequence_number for part in parts], owner, "sequence_number")
    is_v1 = _of_parts([part.reader.is_v1 for part in parts], owner, "format-version") == 1
    inherited, known = inherited_sequence_number(status, of_manifest, is_v1)
    wrong = ~(stated | known)
    if wrong.any():
        place = int(np.argmax(wrong))
        path, kind = raw.paths()[place], Status(status[place]).name.lower()
        raise InvalidTableError(
            f"Cannot tell which deletes apply to {path}: its entry is {kind} and has no sequence number",
            cause="MissingSequenceNumber",
            field="sequence_number",
            rule="iceberg 2.9",
        )
    return np.where(stated, values, inherited)


def _row_ids(raw: Raw, owner: Places, parts: Sequence[Part]) -> pa.Array:
    """Ids of first rows, where the manifest assigns them: files without one follow each other (iceberg 2.11)."""
    starts = [None if part.reader.manifest.is_deletes else part.reader.manifest.first_row_id for part in parts]
    if all(start is None for start in starts):
        return pa.nulls(len(raw), pa.int64())
    values, stated = _numbers(raw, "first_row_id")
    assigns = np.array([start is not None for start in starts], dtype=np.bool_)[owner]
    assigned = assigns & ~stated & (to_numpy(raw.table.column("status")) != Status.DELETED)
    rows, counted = _numbers(raw, "record_count")
    if not counted[assigned].all():
        path = raw.paths()[int(np.argmax(assigned & ~counted))]
        raise corrupt("record_count", f"{path} has no record count, which row ids need", "2.11")
    rows = np.where(assigned, rows, 0)
    if float(rows.sum(dtype=np.float64)) + max(abs(start or 0) for start in starts) >= 2.0**62:
        return _long_row_ids(rows.tolist(), values.tolist(), stated, assigns & (stated | assigned), owner, starts)
    before = np.cumsum(rows) - rows
    # Each manifest begins anew.
    first = np.searchsorted(owner, np.arange(len(parts)))
    base = np.array([before[i] if i < len(before) else 0 for i in first.tolist()], dtype=np.int64)
    begin = np.array([start or 0 for start in starts], dtype=np.int64)[owner]
    found = np.where(stated, values, begin + before - base[owner])
    return from_numpy(found, missing=~(assigns & (stated | assigned)))


def _long_row_ids(
    rows: list[int], values: list[int], stated: Mask, has_id: Mask, owner: Places, starts: Sequence[int | None]
) -> pa.Array:
    """The same of numbers that may exceed a long, in which case they are unknown."""
    ends = [start or 0 for start in starts]
    found: list[int | None] = []
    for place, part in enumerate(owner.tolist()):
        id_ = values[place] if stated[place] else ends[part]
        ends[part] += rows[place]
        found.append(id_ if has_id[place] and is_long(id_) else None)
    return array_of(found, pa.int64())


def _partitions(
    raw: Raw, owner: Places, parts: Sequence[Part]
) -> tuple[npt.NDArray[np.int32], list[Mapping[int, Any]]]:
    """Per file the number of its partition tuple, and the tuples; equal bytes of one spec are decoded once."""
    if not len(raw):
        return np.zeros(0, dtype=np.int32), []
    encoded = raw.table.column("partition").combine_chunks()
    # A null tuple, too, is a tuple.
    contents = [None, *encoded.dictionary.to_pylist()]
    within = to_numpy(pc.fill_null(encoded.indices, scalar_of(-1, pa.int32()))).astype(np.int64) + 1
    ordinals = {spec: i for i, spec in enumerate(sorted({part.reader.spec.id for part in parts}))}
    pairs = np.array([ordinals[part.reader.spec.id] for part in parts])[owner] * len(contents) + within
    used, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    tuples: list[Mapping[int, Any]] = []
    decoders: dict[int, Callable[[bytes], Mapping[int, Any]]] = {}
    try:
        for pair, place in zip(used.tolist(), first.tolist(), strict=True):
            content, reader = contents[pair % len(contents)], parts[int(owner[place])].reader
            if reader.spec.id not in decoders:
                decoders[reader.spec.id] = reader.partition_decoder()
            tuples.append(reader.no_partition() if content is None else decoders[reader.spec.id](content))
    except DAMAGE as error:
        raise decode_error(FieldError(("data_file", "partition"), reason(error))) from error
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
    kept: KeptManifests | None = None,
) -> FilteredFiles:
    """The live data files of data manifests, in order.

    Args:
        read: the bytes of a manifest.
        specs, schemas, limits: as for `harness.metadata.iceberg.manifests.open_manifest`.
        statistics: ids of the fields whose statistics are wanted.
        skip: the verdicts on files; None: all are kept.
        kept: the cache of manifests, which are then not read; None: nothing is kept.

    Raises:
        CorruptFileError: damage, or a value that the format does not have; cause `CorruptManifest`.
        InvalidTableError: no sequence number; cause `MissingSequenceNumber`.
        UnsupportedError: an unknown file format. EncryptedTableError: a file is encrypted.
        LimitError: a manifest asks for more than its limits allow.
        Others as `open_manifest`.
    """
    fields = tuple(sorted(statistics))

    def opened(data: bytes, manifest: ManifestFile) -> ManifestReader:
        with contained(file=manifest.path):
            return open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)

    def asked(number: int) -> ManifestReader:
        manifest = manifests[number]
        data = read(manifest)
        if kept is not None:
            kept.note_size(manifest.path, len(data))
        return opened(data, manifest)

    known = _Known(fields, skip, asked)

    def unknown() -> Iterator[tuple[int, ManifestReader]]:
        for number, manifest in enumerate(manifests):
            entry = None if kept is None else kept.get(manifest.path, fields)
            if entry is None:
                yield number, asked(number)
            else:
                header, raw = entry
                known.add(Part(number, opened(header, manifest), len(raw)), raw)

    found = [files for batch in batches(unknown()) for files in decoded(batch, fields, skip, kept)]
    known.flush()
    return _named([*found, *known.found], manifests, fields)


def _named(found: Sequence[FilteredFiles], manifests: Sequence[ManifestFile], fields: tuple[int, ...]) -> FilteredFiles:
    schema = schema_of(fields)
    nothing = FilteredFiles.of(DataFiles(without_rows(schema), (), (), fields), None)
    all_ = joined([nothing, *found])
    files = replace(all_.files, table=all_.files.table.cast(schema), manifests=[m.path for m in manifests])
    return replace(all_, files=files)


@dataclass(slots=True)
class _Known:
    """Manifests of the cache, put together by schema. open: reads one, by its number. rows: of `parts`."""

    fields: tuple[int, ...]
    skip: Skip | None
    open: Callable[[int], ManifestReader]
    found: list[FilteredFiles] = field(default_factory=list)
    parts: list[tuple[Part, Raw]] = field(default_factory=list)
    rows: int = 0

    def add(self, part: Part, raw: Raw) -> None:
        is_alike = not self.parts or part.reader.schema == self.parts[0][0].reader.schema
        if not is_alike or (self.parts and self.rows + len(raw) > _BATCH_ROWS):
            self.flush()
        self.parts.append((part, raw))
        self.rows += len(raw)

    def flush(self) -> None:
        """Makes columns of the manifests so far."""
        if not self.parts:
            return
        parts = [part for part, _ in self.parts]
        try:
            self.found.append(assembled(joined_raw([raw for _, raw in self.parts]), parts, self.skip))
        except HarnessError:
            self.found += [_by_entry(Blocks.of(self.open(p.number), p.number), self.fields, self.skip) for p in parts]
        self.parts.clear()
        self.rows = 0


def _alone(blocks: Blocks, slots: tuple[Slot, ...]) -> Iterator[Walk]:
    """The walks over the blocks of one manifest, entry by entry."""
    reader = blocks.reader
    held = None if blocks.data is None else zip(blocks.counts, blocks.data, strict=True)
    return walks_alone(reader, slots, reader.container.record_blocks() if held is None else held)


@contextmanager
def _naming(manifest: ManifestFile) -> Iterator[None]:
    """Name the manifest in errors."""
    try:
        with contained(file=manifest.path):
            yield
    except Unsure as error:
        raise refusal("block_bytes", "a block of 2 GiB or more", file=manifest.path) from error
    except HarnessError as error:
        raise error.within(file=manifest.path) from error.__cause__


def _by_entry(blocks: Blocks, fields: tuple[int, ...], skip: Skip | None) -> FilteredFiles:
    reader = blocks.reader
    with _naming(reader.manifest):
        walks = _alone(blocks, entry_slots(fields))
        raws = [raw_of(found, live_entries(found), fields, reader) for found in walks]
        raw = joined_raw(raws or [nothing_of(fields)])
        return assembled(raw, [Part(blocks.number, reader, len(raw))], skip)


def decoded(
    batch: Sequence[Blocks], fields: tuple[int, ...], skip: Skip | None, kept: KeptManifests | None
) -> list[FilteredFiles]:
    """The files of a batch of manifests with the same schema."""
    in_step: Sequence[Blocks] = ()
    found: list[FilteredFiles] = []
    try:
        together = walked(batch, entry_slots(fields))
        if together is not None:
            found, in_step = [_in_step(*together, fields, skip, kept)], together[1]
    except (Unsure, HarnessError):
        pass
    done = {blocks_.number for blocks_ in in_step}
    rest = (blocks_ for blocks_ in batch if blocks_.number not in done)
    return [*found, *(_by_entry(blocks_, fields, skip) for blocks_ in rest)]


def _in_step(
    found: Walk, batch: Sequence[Blocks], fields: tuple[int, ...], skip: Skip | None, kept: KeptManifests | None
) -> FilteredFiles:
    live = live_entries(found)
    raw = raw_of(found, live, fields, batch[0].reader)
    entries = np.cumsum([0, *(sum(blocks_.counts) for blocks_ in batch)])
    starts = np.searchsorted(live, entries).tolist()
    parts = [
        Part(blocks_.number, blocks_.reader, end - start)
        for blocks_, (start, end) in zip(batch, pairwise(starts), strict=True)
    ]
    filtered = assembled(raw, parts, skip)
    if kept is not None:
        maps = {name: byte_strings(found, name, live) for name in COUNTS}  # without how many items they have
        for part, start in zip(parts, starts, strict=False):
            container = part.reader.container
            kept.put(
                part.reader.manifest.path,
                container.data[: container.end],
                raw.slice(start, part.size),
                {name: values.slice(start, part.size) for name, values in maps.items()},
            )
    return filtered


_STATISTICS = (
    Slot(109, "value_counts", "counts", pair=(119, 120)),
    Slot(110, "null_value_counts", "counts", pair=(121, 122)),
    Slot(137, "nan_value_counts", "counts", pair=(138, 139)),
    Slot(125, "lower_bounds", "bounds", pair=(126, 127)),
    Slot(128, "upper_bounds", "bounds", pair=(129, 130)),
)


def entry_slots(fields: tuple[int, ...]) -> tuple[Slot, ...]:
    """The slots of an entry that a plan needs, with the statistics of some fields."""
    file = (
        Slot(134, "content", "number", is_strict=True),
        PATH,
        Slot(101, "file_format", "text"),
        Slot(102, "partition", "encoded"),
        Slot(103, "record_count", "number"),
        Slot(104, "file_size_in_bytes", "number"),
        Slot(131, "key_metadata", "bytes"),
        Slot(142, "first_row_id", "number"),
    )
    maps = [replace(slot, keys=fields if slot.kind == "bounds" else ()) for slot in _STATISTICS]
    return (
        Slot(0, "status", "number", is_strict=True),
        Slot(3, "sequence_number", "number", is_strict=True),
        Slot(2, "data_file", "encoded", fields=(*file, *(maps if fields else ()))),
    )


# What no plan needs: the other facts of entries, for metadata tables, and entries as objects. They are not kept.


SIZES = "column_sizes"
_NUMBERS = pa.list_(pa.int64())
_MORE = pa.schema(
    [
        pa.field("status", pa.int32()),
        pa.field("snapshot_id", pa.int64()),  # inherited where the entry has none
        pa.field("file_sequence_number", pa.int64()),  # likewise
        pa.field("content", pa.int32()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("split_offsets", _NUMBERS),  # null: none, or an empty list; as the next
        pa.field("equality_ids", _NUMBERS),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)
_MORE_SLOTS = (
    Slot(140, "sort_order_id", "number"),
    Slot(132, "split_offsets", "numbers"),
    Slot(135, "equality_ids", "numbers"),
    Slot(143, "referenced_data_file", "text"),
    Slot(144, "content_offset", "number"),
    Slot(145, "content_size_in_bytes", "number"),
)
_SIZES_SLOT = Slot(108, SIZES, "counts", pair=(117, 118))


def _all_slots(*maps: Slot) -> tuple[Slot, ...]:
    status, sequence_number, file = entry_slots(())
    more = (Slot(1, "snapshot_id", "number"), Slot(4, "file_sequence_number", "number"))
    return (status, sequence_number, *more, replace(file, fields=(*file.fields, *_MORE_SLOTS, *maps)))


def _each(blocks: Blocks, slots: tuple[Slot, ...], columns: Callable[[Walk], T]) -> list[T]:
    """The columns of one manifest, from one walk or several. Raises as `read_data_files`."""
    with _naming(blocks.reader.manifest):
        try:
            together = walked([blocks], slots)
            if together is not None:
                return [columns(together[0])]
        except Unsure:
            pass
        return list(map(columns, _alone(blocks, slots)))


def _more(found: Walk, places: Places, reader: ManifestReader) -> pa.Table:
    manifest = reader.manifest
    status, snapshots, files = (
        optional(found, name, places) for name in ("status", "snapshot_id", "file_sequence_number")
    )
    of_manifest = manifest.sequence_number if is_long(manifest.sequence_number) else None
    inherited, known = inherited_sequence_number(to_numpy(status), of_manifest or 0, reader.is_v1)
    known &= of_manifest is not None
    added = manifest.added_snapshot_id if is_long(manifest.added_snapshot_id) else None
    arrays = [
        status.cast(pa.int32()),
        snapshots if added is None else pc.fill_null(snapshots, scalar_of(added, pa.int64())),
        pc.coalesce(files, from_numpy(inherited, missing=~known)),
        pc.fill_null(optional(found, "content", places), scalar_of(0, pa.int64())).cast(pa.int32()),
        optional(found, "sort_order_id", places).cast(pa.int32(), safe=False),
        lists(found, "split_offsets", places),
        lists(found, "equality_ids", places),
        texts(found, "referenced_data_file", places),
        optional(found, "content_offset", places),
        optional(found, "content_size_in_bytes", places),
    ]
    return pa.Table.from_arrays(arrays, schema=_MORE)


def recorded_schema(keys: Sequence[int]) -> pa.Schema:
    """The columns of `recorded`: after the facts, the sizes of some columns of the table, by field id."""
    return pa.schema([*_MORE, *(pa.field(f"{SIZES}.{key}", pa.int64()) for key in keys)])


def recorded(readers: Iterable[tuple[int, ManifestReader]], keys: Sequence[int]) -> list[pa.Table]:
    """Per manifest all its entries, in order, deleted ones too. Raises as `read_data_files`.

    Args:
        readers: manifests that are open, numbered.
        keys: ids of the fields whose sizes are wanted.
    """
    schema = recorded_schema(keys)
    found = []
    for number, reader in readers:

        def columns(walk: Walk, reader: ManifestReader = reader) -> pa.Table:
            live_entries(walk)  # statuses are those that there are
            places = np.arange(walk.size)
            sizes = counts(walk, SIZES, keys, places)
            known = [from_numpy(values, missing=~stated) for values, stated in (sizes[key] for key in keys)]
            return pa.Table.from_arrays([*_more(walk, places, reader).columns, *known], schema=schema)

        blocks = Blocks.of(reader, number)
        found.append(pa.concat_tables([without_rows(schema), *_each(blocks, _all_slots(_SIZES_SLOT), columns)]))
    return found


def live(table: pa.Table) -> pa.Table:
    """The entries of `recorded` that are not deleted."""
    status = to_numpy(table.column("status"))
    return table if (status != Status.DELETED).all() else table.filter(from_numpy(status != Status.DELETED))


_MAP_SLOTS = tuple(replace(slot, kind="encoded") for slot in (*_STATISTICS, _SIZES_SLOT))


def read_entries(reader: ManifestReader, *, live_only: bool = True) -> list[ManifestEntry]:
    """The entries of a manifest as objects, in file order, after inheritance, with all their statistics.

    Files of one partition share one `partition` mapping. Raises as `read_data_files`.

    Args:
        reader: The manifest.
        live_only: Leave out entries of status deleted.
    """
    names = [slot.name for slot in _MAP_SLOTS]

    def columns(found: Walk) -> tuple[Raw, pa.Table, list[pa.Array]]:
        live = live_entries(found)
        places = live if live_only else np.arange(found.size)
        maps = [byte_strings(found, name, places) for name in names]
        return raw_of(found, places, (), reader), _more(found, places, reader), maps

    with _naming(reader.manifest):
        blocks = Blocks.of(reader, 0)
        parts = _each(blocks, _all_slots(*_MAP_SLOTS), columns)
        raw = joined_raw([raw for raw, _, _ in parts] or [nothing_of(())])
        files = assembled(raw, [Part(0, reader, len(raw))], None).files
        decoders = [map_decoder(reader, slot) for slot in _MAP_SLOTS]
        facts = files.table.to_pylist()
        more = [row for _, table, _ in parts for row in table.to_pylist()]
        maps = [row for _, _, part in parts for row in zip(*(column.to_pylist() for column in part), strict=True)]
        entries = []
        for fact, other, encoded in zip(facts, more, maps, strict=True):
            statistics = [decode(data) for decode, data in zip(decoders, encoded, strict=True)]
            file = files.file(fact, Content(other["content"]), dict(zip(names, statistics, strict=True)), other)
            entries.append(
                ManifestEntry(
                    Status(fact["status"]),
                    other["snapshot_id"],
                    fact["sequence_number"],
                    other["file_sequence_number"],
                    file,
                    reader.manifest.path,
                )
            )
    return entries
