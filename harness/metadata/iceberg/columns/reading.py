"""Data manifests to columns: many manifests decoded in step, and those that are odd entry by entry.

Manifests with the same writer's schema go together, in batches that bound the memory. In step, the cost of a batch
grows with its longest block; entry by entry, with its entries. So manifests of a few long blocks go entry by entry
where that is cheaper. Either way gives the same columns, and damage always gets the entry-wise decoder's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.iceberg.columns.entries import (
    COLUMNS,
    COUNTS,
    Blocks,
    DataFiles,
    FilteredFiles,
    Skip,
    SkippedDataFiles,
    batches,
    fitting,
    from_entries,
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
    numbers,
    raw_of,
)
from harness.metadata.iceberg.columns.raw import joined as joined_raw
from harness.metadata.iceberg.columns.walk import PATH, Slot, Unsure, Walk
from harness.metadata.iceberg.manifests import (
    ALL,
    ManifestFile,
    ManifestReader,
    Status,
    inherited_sequence_number,
    open_manifest,
)
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.model.arrow_values import Mask, Places, array_of, from_numpy, scalar_of, to_numpy, without_rows
from harness.metadata.model.schema import Schema
from harness.metadata.plan.scan_plan import KEPT
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A manifest of several. number: its place in the list. size: its live entries."""

    number: int
    reader: ManifestReader
    size: int


def assembled(raw: Raw, parts: Sequence[Part], skip: Skip | None) -> FilteredFiles:
    """The live data files of some manifests. raw: those of all, in that order. Raises Unsure: an entry is odd."""
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    codes, tuples = _partitions(raw, owner, parts)
    columns: dict[str, Any] = {
        "manifest": from_numpy(_of_parts([part.number for part in parts], owner).astype(np.int32)),
        "status": raw.table.column("status"),
        "sequence_number": from_numpy(_sequence_numbers(raw, owner, parts)),
        "format": raw.table.column("format"),
        "spec_id": from_numpy(_of_parts([part.reader.spec.id for part in parts], owner, bits=32).astype(np.int32)),
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


def _of_parts(values: Sequence[int], owner: Places, *, bits: int = 64) -> Places:
    """A value of each entry's manifest. Raises Unsure: one is beyond what its column holds."""
    if any(not -(1 << bits - 1) <= value < 1 << bits - 1 for value in values):
        raise Unsure
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
    of_manifest = _of_parts([part.reader.manifest.sequence_number for part in parts], owner)
    is_v1 = _of_parts([part.reader.is_v1 for part in parts], owner) == 1
    inherited, known = inherited_sequence_number(status, of_manifest, is_v1)
    if not (stated | known).all():
        raise Unsure
    return np.where(stated, values, inherited)


def _row_ids(raw: Raw, owner: Places, parts: Sequence[Part]) -> pa.Array:
    """Ids of first rows, where the manifest assigns them: files without one follow each other (iceberg 2.11)."""
    starts = [part.reader.manifest.first_row_id for part in parts]
    if all(start is None for start in starts):
        return pa.nulls(len(raw), pa.int64())
    values, stated = _numbers(raw, "first_row_id")
    assigns = np.array([start is not None for start in starts], dtype=np.bool_)[owner]
    assigned = assigns & ~stated
    rows, counted = _numbers(raw, "record_count")
    if not counted[assigned].all() or float(rows[assigned].sum(dtype=np.float64)) >= 2.0**62:
        raise Unsure
    if any(start is not None and not 0 <= start < 1 << 62 for start in starts):
        raise Unsure
    before = np.cumsum(np.where(assigned, rows, 0)) - np.where(assigned, rows, 0)
    # Each manifest begins anew.
    first = np.searchsorted(owner, np.arange(len(parts)))
    base = np.array([before[i] if i < len(before) else 0 for i in first.tolist()], dtype=np.int64)
    begin = _of_parts([start or 0 for start in starts], owner)
    return from_numpy(np.where(stated, values, begin + before - base[owner]), missing=~assigns)


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
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise Unsure from error
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

    Raises as `open_manifest` and `ManifestReader.entries`.
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
        except Unsure:
            self.found += [_by_entry(self.open(p.number), self.fields, p.number, self.skip) for p in parts]
        self.parts.clear()
        self.rows = 0


def _by_entry(reader: ManifestReader, fields: tuple[int, ...], number: int, skip: Skip | None) -> FilteredFiles:
    with contained(file=reader.manifest.path):
        files = from_entries(reader.entries(frozenset(fields)), fields, manifest=number)
    return FilteredFiles.of(files, None if skip is None else skip(files))


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
    except Unsure:
        pass
    done = {blocks_.number for blocks_ in in_step}
    rest = (blocks_ for blocks_ in batch if blocks_.number not in done)
    return [*found, *(_by_entry(blocks_.reader, fields, blocks_.number, skip) for blocks_ in rest)]


def _in_step(
    found: Walk, batch: Sequence[Blocks], fields: tuple[int, ...], skip: Skip | None, kept: KeptManifests | None
) -> FilteredFiles:
    live = live_entries(found)
    raw = raw_of(found, live, fields)
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


def entry_slots(fields: tuple[int, ...]) -> tuple[Slot, ...]:
    """The slots of an entry that a plan needs, with the statistics of some fields."""
    file = (
        Slot(134, "content", "number"),
        PATH,
        Slot(101, "file_format", "text"),
        Slot(102, "partition", "record"),
        Slot(103, "record_count", "number"),
        Slot(104, "file_size_in_bytes", "number"),
        Slot(131, "key_metadata", "bytes"),
        Slot(142, "first_row_id", "number"),
    )
    maps = (
        Slot(109, "value_counts", "counts", pair=(119, 120)),
        Slot(110, "null_value_counts", "counts", pair=(121, 122)),
        Slot(137, "nan_value_counts", "counts", pair=(138, 139)),
        Slot(125, "lower_bounds", "bounds", pair=(126, 127), keys=fields),
        Slot(128, "upper_bounds", "bounds", pair=(129, 130), keys=fields),
    )
    return (
        Slot(0, "status", "number"),
        Slot(3, "sequence_number", "number"),
        Slot(2, "data_file", "record", fields=(*file, *(maps if fields else ()))),
    )


# For metadata tables: the facts of each entry that no plan needs, deleted ones too. They are not kept.


SIZES = "column_sizes"
_FACTS = pa.schema(
    [
        pa.field("status", pa.int32()),
        pa.field("snapshot_id", pa.int64()),  # inherited where the entry has none
        pa.field("file_sequence_number", pa.int64()),  # likewise
        pa.field("sort_order_id", pa.int32()),
        pa.field("split_offsets", pa.list_(pa.int64())),  # null: none, or an empty list
    ]
)


def recorded_schema(keys: Sequence[int]) -> pa.Schema:
    """The columns of `recorded`: after the facts, the sizes of some columns of the table, by field id."""
    return pa.schema([*_FACTS, *(pa.field(f"{SIZES}.{key}", pa.int64()) for key in keys)])


def recorded(readers: Iterable[tuple[int, ManifestReader]], keys: Sequence[int]) -> list[pa.Table]:
    """Per manifest all its entries, in order. Raises as `harness.metadata.iceberg.manifests.ManifestReader.entries`.

    Args:
        readers: manifests that are open, numbered.
        keys: ids of the fields whose sizes are wanted.
    """
    found: dict[int, pa.Table] = {}
    for batch in batches(readers):
        found |= _recorded_batch(batch, keys)
    return [found[number] for number in sorted(found)]


def live(table: pa.Table) -> pa.Table:
    """The entries of `recorded` that are not deleted."""
    status = to_numpy(table.column("status"))
    return table if (status != Status.DELETED).all() else table.filter(from_numpy(status != Status.DELETED))


def _recorded_batch(batch: Sequence[Blocks], keys: Sequence[int]) -> dict[int, pa.Table]:
    """The entries of a batch, by number of the manifest."""
    found: dict[int, pa.Table] = {}
    try:
        found_walk = walked(batch, _RECORDED)
        if found_walk is not None:
            walk, together = found_walk
            live_entries(walk)  # statuses are those that there are
            bounds = np.cumsum([0, *(sum(blocks_.counts) for blocks_ in together)]).tolist()
            for blocks_, (start, end) in zip(together, pairwise(bounds), strict=True):
                found[blocks_.number] = _of_walk(walk, np.arange(start, end), blocks_.reader, keys)
    except (Unsure, pa.ArrowInvalid, OverflowError):  # of ids in the list, too
        found = {}
    return found | {b.number: _recorded_by_entry(b.reader, keys) for b in batch if b.number not in found}


def _of_walk(found: Walk, places: Places, reader: ManifestReader, keys: Sequence[int]) -> pa.Table:
    def slot(name: str) -> tuple[Places, Mask]:
        values, stated = numbers(found, name)
        return values[places], stated[places]

    manifest = reader.manifest
    status, _ = slot("status")
    snapshots, has_snapshot = slot("snapshot_id")
    files, has_file = slot("file_sequence_number")
    inherited, is_known = inherited_sequence_number(status, manifest.sequence_number, reader.is_v1)
    order, has_order = slot("sort_order_id")
    sizes = counts(found, SIZES, keys, places)
    arrays = [
        from_numpy(status.astype(np.int32)),
        from_numpy(
            np.where(has_snapshot, snapshots, manifest.added_snapshot_id or 0),
            missing=~has_snapshot & np.full(len(places), manifest.added_snapshot_id is None),
        ),
        from_numpy(np.where(has_file, files, inherited), missing=~(has_file | is_known)),
        from_numpy(order, missing=~has_order).cast(pa.int32()),
        lists(found, "split_offsets", places),
        *(from_numpy(values, missing=~known) for values, known in (sizes[key] for key in keys)),
    ]
    return pa.Table.from_arrays(arrays, schema=recorded_schema(keys))


def _recorded_by_entry(reader: ManifestReader, keys: Sequence[int]) -> pa.Table:
    with contained(file=reader.manifest.path):
        entries = list(reader.entries(ALL, live_only=False))
    columns: Mapping[str, list[object]] = {
        "status": [int(entry.status) for entry in entries],
        "snapshot_id": [fitting(entry.snapshot_id) for entry in entries],
        "file_sequence_number": [fitting(entry.file_sequence_number) for entry in entries],
        "sort_order_id": [fitting(entry.file.sort_order_id, 32) for entry in entries],
        "split_offsets": [[fitting(i) for i in e.file.split_offsets or ()] or None for e in entries],
        **{f"{SIZES}.{key}": [fitting((e.file.column_sizes or {}).get(key)) for e in entries] for key in keys},
    }
    schema = recorded_schema(keys)
    return pa.Table.from_arrays([array_of(columns[f.name], f.type) for f in schema], schema=schema)


_RECORDED = (
    Slot(0, "status", "number"),
    Slot(1, "snapshot_id", "number"),
    Slot(4, "file_sequence_number", "number"),
    Slot(
        2,
        "data_file",
        "record",
        fields=(
            PATH,
            Slot(140, "sort_order_id", "number"),
            Slot(132, "split_offsets", "numbers"),
            Slot(108, SIZES, "counts", pair=(117, 118)),
        ),
    ),
)
