"""Batches of manifests, and the table of the files that their entries list.

A block of a manifest does not record where its entries begin, but the paths of the files usually share a prefix. So
this module searches for that prefix and decodes all entries at once: each entry from the end of its path up to the path
of the next entry. The guess is right only if these pieces meet without a gap, from the start of each block to its end.
If they do not, the blocks are decoded in lockstep (see `lockstep`), unless decoding entry by entry is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.iceberg.columns.lockstep import (
    MAX_ITEMS,
    NOWHERE,
    PATH,
    FieldOffsets,
    Slot,
    Step,
    UnusualEncoding,
    Varints,
    advance,
    entry_steps,
)
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, ManifestReader, Status
from harness.metadata.model.arrow_values import Indices, array_of, distinct_values, from_numpy, scalar_of, to_numpy
from harness.metadata.plan.scan_plan import KEPT, Decisions
from harness.storage.limits import contained
from harness.storage.records import dataclass

_ENTRY_NS = 40_000
_ROUND_NS = 600_000
"""Measured costs, in nanoseconds, of decoding a single entry, and of one round, which decodes the next entry of every
block."""


@dataclass(frozen=True, slots=True)
class ManifestBlocks:
    """The uncompressed blocks of one manifest.

    Attributes:
        number: The index of the manifest in its list.
        reader: The manifest with its header read.
        counts: Number of entries in each block.
        data: The bytes of each block, or None if the blocks are too large to be held in memory together.
    """

    number: int
    reader: ManifestReader
    counts: tuple[int, ...]
    data: tuple[bytes, ...] | None

    @staticmethod
    def read(reader: ManifestReader, number: int) -> ManifestBlocks:
        """Return the blocks of a manifest. Raises the errors of `Container.record_blocks`."""
        blocks: list[tuple[int, bytes]] = []
        size = 0
        for count, data in reader.container.record_blocks():
            blocks.append((count, data))
            size += len(data)
            if size > reader.container.limits.block_bytes:
                return ManifestBlocks(number, reader, (), None)
        return ManifestBlocks(number, reader, tuple(count for count, _ in blocks), tuple(data for _, data in blocks))

    @property
    def longest(self) -> int:
        """The largest number of entries in a block."""
        return max(self.counts, default=0)

    def has_same_layout(self, other: ManifestBlocks) -> bool:
        """Return whether two manifests have the same schema and kind of files, so that one pass can read both."""
        facts = [(b.reader.schema, b.reader.manifest.is_deletes, b.reader.is_disputed) for b in (self, other)]
        return facts[0] == facts[1]


_BATCH_BYTES = 12 << 20


def batches(readers: Iterable[tuple[int, ManifestReader]]) -> Iterator[list[ManifestBlocks]]:
    """Yield groups of consecutive manifests with the same layout, as large as memory allows.

    A manifest whose blocks do not fit into memory forms its own group.

    Args:
        readers: Manifests, each with its number.
    """
    batch: list[ManifestBlocks] = []
    size = 0
    for number, reader in readers:
        with contained(file=reader.manifest.path):
            blocks = ManifestBlocks.read(reader, number)
        if blocks.data is None:
            yield [blocks]
            continue
        added = sum(map(len, blocks.data))
        if batch and (not blocks.has_same_layout(batch[0]) or size + added > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(blocks)
        size += added
    if batch:
        yield batch


def lockstep_offsets(
    batch: Sequence[ManifestBlocks], slots: tuple[Slot, ...]
) -> tuple[FieldOffsets, Sequence[ManifestBlocks]] | None:
    """Return the offsets of fields in the manifests that are cheaper to decode together.

    Returns:
        The offsets and the manifests that they cover, or None if decoding together is not cheaper for any manifest.

    Raises:
        UnusualEncoding: An entry is damaged or has an unusual encoding.
    """
    container = batch[0].reader.container
    if batch[0].data is None or container.limits.items < MAX_ITEMS:
        return None
    is_guessed = sum(sum(blocks.counts) for blocks in batch) >= MIN_GUESSED_ENTRIES
    selected = manifests_for_lockstep(batch)
    steps = entry_steps(container.schema, slots) if is_guessed or selected else None
    if steps is None:
        return None
    if is_guessed:
        offsets = _guess_offsets(_Lanes.concat(batch), *steps)
        if offsets is not None:
            return offsets, batch
    batch_in_step = [blocks for blocks in batch if blocks.number in selected]
    if not batch_in_step:
        return None
    lanes = _Lanes.concat(batch_in_step)
    walk, at = advance(lanes.varints, steps[0], lanes.starts, lanes.counts)
    if not np.array_equal(at, lanes.ends):
        raise UnusualEncoding
    return walk, batch_in_step


def manifests_for_lockstep(batch: Sequence[ManifestBlocks]) -> frozenset[int]:
    """Return the numbers of the manifests to decode in lockstep so that the whole batch costs least."""
    ordered = sorted(batch, key=lambda blocks_: blocks_.longest)
    total = sum(sum(blocks_.counts) for blocks_ in batch)
    best, selected, selected_entries = total * _ENTRY_NS, 0, 0
    for place, blocks_ in enumerate(ordered, start=1):
        selected_entries += sum(blocks_.counts)
        cost = blocks_.longest * _ROUND_NS + (total - selected_entries) * _ENTRY_NS
        if cost <= best:
            best, selected = cost, place
    return frozenset(blocks_.number for blocks_ in ordered[:selected])


MIN_GUESSED_ENTRIES = 100
"""A guess costs more than it saves for fewer entries."""
_SAMPLED_BLOCKS = 64
_MIN_COMMON_BYTES = 4
"""Shorter common prefixes of paths are not searched for."""
_MAX_TRIES = 4
_MAX_VARINT_BYTES = 5
_CHUNK = 1 << 13
"""Number of entries decoded at a time, chosen so that their bytes stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Blocks in one buffer, in order.

    Attributes:
        blocks: The bytes of each block.
        counts: Number of entries in each block.
        starts: Offset of the first byte of each block.
        ends: Offset after the last byte of each block.
        varints: The buffer, with an index of the numbers in it.
    """

    blocks: Sequence[bytes]
    counts: Indices
    starts: Indices
    ends: Indices
    varints: Varints

    @staticmethod
    def concat(batch: Sequence[ManifestBlocks]) -> _Lanes:
        data = [block for blocks in batch for block in blocks.data or ()]
        counts = np.array([count for blocks in batch for count in blocks.counts], dtype=np.int64)
        sizes = np.array([len(block) for block in data], dtype=np.int64)
        if (counts < 0).any() or (counts > sizes).any() or int(sizes.sum()) >= 1 << 31:
            raise UnusualEncoding
        ends = np.cumsum(sizes)
        return _Lanes(data, counts, ends - sizes, ends, Varints.index(data))


def _guess_offsets(lanes: _Lanes, whole: Step, around_path: tuple[Step, Step] | None) -> FieldOffsets | None:
    """Return the offsets of all fields, after guessing where the paths begin.

    The result is None if no guess is possible or the guess is wrong.
    """
    if around_path is None:
        return None
    try:
        paths = _find_paths(lanes, _common_text(lanes, whole))
        return None if paths is None else _verify_guess(lanes, paths, *around_path)
    except (UnusualEncoding, IndexError):
        return None


def _common_text(lanes: _Lanes, step: Step) -> bytes:
    """Return the common prefix of the paths of the first two entries in up to 64 blocks."""
    samples = distinct_values(np.linspace(0, len(lanes.starts) - 1, _SAMPLED_BLOCKS).astype(np.int64))
    offsets, _ = advance(lanes.varints, step, lanes.starts[samples], np.minimum(lanes.counts[samples], 2))
    if PATH.name not in offsets.starts:
        return b""
    places = zip(offsets.starts[PATH.name].tolist(), offsets.ends[PATH.name].tolist(), strict=True)
    texts = [lanes.varints.data[start:end].tobytes() for start, end in places]
    first, last = min(texts), max(texts)  # All texts between these two in sort order share their common prefix.
    return bytes(byte for byte, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def _find_paths(lanes: _Lanes, text: bytes) -> Indices | None:
    """Return the offset of each path, or None if the text does not occur exactly once per entry.

    If the counts differ, the search is repeated with the last directory cut off the text.
    """
    for _ in range(_MAX_TRIES):
        if len(text) < _MIN_COMMON_BYTES:
            return None
        offsets = _occurrences(lanes, text)
        if offsets is not None:
            return offsets
        text = text[: text.rstrip(b"/").rfind(b"/") + 1]
    return None


def _occurrences(lanes: _Lanes, text: bytes) -> Indices | None:
    offsets = []
    for block, count, start in zip(lanes.blocks, lanes.counts.tolist(), lanes.starts.tolist(), strict=True):
        pieces = block.split(text)
        if len(pieces) != count + 1:
            return None
        before = np.fromiter(map(len, pieces), np.int64, count)
        offsets.append(np.cumsum(before) + np.arange(count) * len(text) + start)
    return np.concatenate(offsets)


def _verify_guess(lanes: _Lanes, paths: Indices, before: Step, behind: Step) -> FieldOffsets:
    """Return the offsets of all fields, given the guessed offsets of the paths.

    Raises UnusualEncoding or IndexError if the guess is wrong.

    Args:
        lanes: The blocks.
        paths: The guessed offset of the path of each entry.
        before: The step over the fields before the path.
        behind: The step over the fields after the path.
    """
    size, varints = len(paths), lanes.varints
    offsets = FieldOffsets(varints, size)
    ends = paths + _lengths_before(varints, paths)
    # Offsets at which blocks begin, by their first entry, and the end of the last block.
    starts = np.full(size + 1, NOWHERE, dtype=np.int64)
    starts[np.cumsum(lanes.counts) - lanes.counts] = lanes.starts
    starts[size] = lanes.ends[-1]
    at = np.zeros(1, dtype=np.int64)
    for first in range(0, size, _CHUNK):
        entries = np.arange(first, min(first + _CHUNK, size))
        at = np.concatenate((at[-1:], behind(offsets, ends[entries], entries)))
        expected = starts[first : first + len(at)]
        length, path = varints.lengths(before(offsets, at[:-1], entries))
        if (
            ((expected != NOWHERE) & (expected != at)).any()
            or (path != paths[entries]).any()
            or (length != ends[entries] - path).any()
        ):
            raise UnusualEncoding
    if int(at[-1]) != int(lanes.ends[-1]):
        raise UnusualEncoding
    offsets.starts[PATH.name], offsets.ends[PATH.name] = paths, ends
    return offsets


def _lengths_before(varints: Varints, places: Indices) -> Indices:
    """Return the length that is encoded directly before each of the given offsets."""
    at = places - 1
    values = varints.data.take(at).astype(np.int64)
    more = np.ones(len(places), dtype=np.bool_)
    for _ in range(_MAX_VARINT_BYTES - 1):
        at = at - 1
        byte = varints.data.take(at)
        more &= byte >= 0x80
        if not more.any():
            break
        values = np.where(more, values << 7 | byte & 0x7F, values)
    lengths: Indices = values >> 1
    return lengths


COLUMNS = pa.schema(
    [
        pa.field("manifest", pa.int32(), nullable=False),  # index into DataFiles.manifests
        pa.field("status", pa.int8(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),  # data sequence number
        pa.field("path", pa.string(), nullable=False),  # as recorded
        pa.field("format", pa.string(), nullable=False),  # lower-case
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("tuple", pa.int32(), nullable=False),  # index into DataFiles.tuples
        pa.field("record_count", pa.int64()),  # null: unknown (iceberg 2.21)
        pa.field("size", pa.int64()),  # bytes, informative only
        pa.field("first_row_id", pa.int64()),
    ]
)
"""The columns of `DataFiles.table` that come before the statistics."""

SIZES = "column_sizes"
COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")
_LONGS = pa.list_(pa.int64())
MORE = pa.schema(
    [
        pa.field("snapshot_id", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("content", pa.int32()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("split_offsets", _LONGS),  # null: no list, or an empty one; also for the next column
        pa.field("equality_ids", _LONGS),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)
"""Columns that a plan of data files does not need."""


def statistic(name: str, field_id: int) -> str:
    """Return the name of the column for a statistic of a field. `name` is in `COUNTS`, `BOUNDS`, or `SIZES`."""
    return f"{name}.{field_id}"


@dataclass(frozen=True, slots=True)
class Extent:
    """The entries of manifests to read, and the fields to read of each entry.

    Attributes:
        fields: Ids of the fields whose statistics become columns, in order.
        has_more: If True, also read the columns of `MORE` and, with the statistics, the column sizes.
        has_maps: If True, read all statistics as encoded maps; `fields` is then empty.
        live_only: If True, leave out entries of status deleted.
    """

    fields: tuple[int, ...] = ()
    has_more: bool = False
    has_maps: bool = False
    live_only: bool = True

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the counts that become columns for each field in `fields`."""
        return (*COUNTS, SIZES) if self.has_more else COUNTS

    @property
    def maps(self) -> tuple[str, ...]:
        """The names of the maps that are read in encoded form."""
        return (*COUNTS, *BOUNDS, SIZES) if self.has_maps else ()

    @property
    def encoded(self) -> list[pa.Field]:
        """The names of the columns that contain encoded bytes."""
        names = [*(statistic(name, i) for i in self.fields for name in BOUNDS), *self.maps]
        return [pa.field(name, pa.binary()) for name in names]

    @property
    def schema(self) -> pa.Schema:
        """The columns of `DataFiles.table`."""
        counts = [pa.field(statistic(name, i), pa.int64()) for i in self.fields for name in self.counts]
        return pa.schema([*COLUMNS, *counts, *self.encoded, *(MORE if self.has_more else ())])


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files in the order of their manifests, usually live data files.

    Attributes:
        table: `COLUMNS`, then the statistics of each field in `fields` (int64 counts and encoded bounds, null if
            unknown), then any other columns of the `Extent` that was read.
        manifests: Recorded paths of the manifests.
        tuples: Partition tuples, as internal values by partition field id. Equal tuples may occur more than once.
        fields: Ids of the fields that have columns of statistics.
    """

    table: pa.Table
    manifests: Sequence[str]
    tuples: Sequence[Mapping[int, Any]]
    fields: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, places: npt.NDArray[np.int64]) -> DataFiles:
        """Return the files with the given row numbers, in that order."""
        table = self.table if len(places) == len(self) else self.table.take(from_numpy(places))
        return DataFiles(table, self.manifests, self.tuples, self.fields)

    def specs_of_tuples(self) -> list[int]:
        """Return the spec id of each of `tuples`; 0 for a tuple that no file has."""
        specs = np.zeros(len(self.tuples), dtype=np.int64)
        specs[to_numpy(self.table.column("tuple"))] = to_numpy(self.table.column("spec_id"))
        spec_ids: list[int] = specs.tolist()
        return spec_ids

    def entries(self, places: Sequence[int]) -> Iterable[ManifestEntry]:
        """Yield the files with the given row numbers as manifest entries, without snapshot ids, offsets, and sizes."""
        for row in self.table.take(array_of(places, pa.int64())).to_pylist():
            statistics: dict[str, Any] = {
                name: {i: row[statistic(name, i)] for i in self.fields if row[statistic(name, i)] is not None}
                for name in (*COUNTS, *BOUNDS)
            }
            yield self.entry(row, statistics)

    def entry(self, row: Mapping[str, Any], statistics: Mapping[str, Any]) -> ManifestEntry:
        """Return a row of `table` as an object. `statistics` holds its maps by name."""
        split_offsets, equality_ids = (row.get(name) for name in ("split_offsets", "equality_ids"))
        file = DataFile(
            content=Content(row.get("content", Content.DATA)),
            path=row["path"],
            format=row["format"],
            spec_id=row["spec_id"],
            partition=self.tuples[row["tuple"]],
            record_count=row["record_count"],
            size=row["size"],
            first_row_id=row["first_row_id"],
            split_offsets=None if split_offsets is None else tuple(split_offsets),
            equality_ids=None if equality_ids is None else tuple(equality_ids),
            sort_order_id=row.get("sort_order_id"),
            referenced_data_file=row.get("referenced_data_file"),
            content_offset=row.get("content_offset"),
            content_size=row.get("content_size_in_bytes"),
            **statistics,
        )
        return ManifestEntry(
            Status(row["status"]),
            row.get("snapshot_id"),
            row["sequence_number"],
            row.get("file_sequence_number"),
            file,
            self.manifests[row["manifest"]],
        )


def from_entries(entries: Iterable[ManifestEntry], fields: tuple[int, ...], *, manifest: int) -> DataFiles:
    """Return delete files as columns, so that their statistics can be compared with the statistics of data files.

    Args:
        entries: The delete files.
        fields: Ids of the fields whose statistics become columns.
        manifest: The value of the column `manifest` in every row.
    """
    rows, schema = [], Extent(fields).schema
    for place, entry in enumerate(entries):
        file = entry.file
        row: dict[str, Any] = {"manifest": manifest, "status": int(entry.status)}
        row["sequence_number"] = entry.sequence_number
        row |= {"path": file.path, "format": file.format, "spec_id": file.spec_id, "tuple": place}
        row |= {"record_count": file.record_count, "size": file.size, "first_row_id": file.first_row_id}
        for name in (*COUNTS, *BOUNDS):
            row |= {statistic(name, i): (getattr(file, name) or {}).get(i) for i in fields}
        rows.append((row, file.partition))
    arrays = [array_of([row[field.name] for row, _ in rows], field.type) for field in schema]
    return DataFiles(pa.Table.from_arrays(arrays, schema=schema), (), [tuple_ for _, tuple_ in rows], fields)


# Data files that a filter skips are dropped batch by batch: only a few of their columns stay in memory.


Skip: TypeAlias = Callable[[DataFiles], Decisions]
"""A filter, as a function that decides for each file whether it is read. A file with unknown statistics is never
skipped because of them."""

_SKIPPED_COLUMNS = ("manifest", "spec_id", "tuple", "record_count", "size")


@dataclass(frozen=True, slots=True)
class SkippedDataFiles:
    """Live data files that are not read.

    Attributes:
        table: The columns manifest, spec_id, tuple, record_count, and size, as in `DataFiles`, and the column decision.
        paths: Returns the recorded paths. They take most of the memory and are rarely needed.
    """

    table: pa.Table
    paths: Callable[[], pa.ChunkedArray]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @staticmethod
    def from_decisions(table: pa.Table, decisions: Decisions, paths: Callable[[], pa.ChunkedArray]) -> SkippedDataFiles:
        """Return the skipped files in a `DataFiles` table.

        Args:
            table: All files. It may lack the column of paths.
            decisions: The decision on each file of `table`.
            paths: Returns the paths of the skipped files.
        """
        dropped = np.flatnonzero(decisions != KEPT)
        skipped_columns = table.select(_SKIPPED_COLUMNS)
        skipped_columns = (
            skipped_columns if len(dropped) == len(decisions) else skipped_columns.take(from_numpy(dropped))
        )
        return SkippedDataFiles(skipped_columns.append_column("decision", from_numpy(decisions[dropped])), paths)


@dataclass(frozen=True, slots=True)
class FilteredFiles:
    """Live data files that a filter divided into files to read and skipped files.

    Attributes:
        files: The files to read.
        skipped: The other files.
    """

    files: DataFiles
    skipped: SkippedDataFiles

    @staticmethod
    def split(files: DataFiles, decisions: Decisions | None) -> FilteredFiles:
        """Divide files by the decision on each; None keeps all files."""
        decisions = np.full(len(files), KEPT, dtype=np.int8) if decisions is None else decisions
        skipped_paths = files.table.column("path").filter(from_numpy(decisions != KEPT))
        return FilteredFiles(
            files.take(np.flatnonzero(decisions == KEPT)),
            SkippedDataFiles.from_decisions(files.table, decisions, lambda: skipped_paths),
        )


def concat_files(parts: Sequence[FilteredFiles]) -> FilteredFiles:
    """Return the files of all parts in the order of their manifests, with all partition tuples in one list."""
    tuples: list[Mapping[int, Any]] = []
    tables: list[tuple[pa.Table, pa.Table]] = []
    for part in parts:
        tables.append((_shift_tuples(part.files.table, len(tuples)), _shift_tuples(part.skipped.table, len(tuples))))
        tuples += part.files.tuples
    files, skipped = (pa.concat_tables(part) for part in zip(*tables, strict=True))
    order, skipped_order = _manifest_order(files), _manifest_order(skipped)

    @cache
    def paths() -> pa.ChunkedArray:
        skipped_paths = pa.chunked_array([chunk for p in parts for chunk in p.skipped.paths().chunks], pa.string())
        return skipped_paths if skipped_order is None else skipped_paths.take(skipped_order)

    return FilteredFiles(
        DataFiles(files if order is None else files.take(order), (), tuples, parts[0].files.fields),
        SkippedDataFiles(skipped if skipped_order is None else skipped.take(skipped_order), paths),
    )


def _manifest_order(table: pa.Table) -> pa.Array | None:
    """Return the row numbers that sort files by manifest, or None if the files already are in that order."""
    numbers = to_numpy(table.column("manifest"))
    return None if (numbers[1:] >= numbers[:-1]).all() else from_numpy(np.argsort(numbers, kind="stable"))


def _shift_tuples(table: pa.Table, by: int) -> pa.Table:
    """Return the table with `by` added to the indexes of partition tuples."""
    if not by:
        return table
    place = table.schema.get_field_index("tuple")
    numbers = pc.add(table.column("tuple"), scalar_of(by, pa.int32()))
    return table.set_column(place, table.schema.field(place), numbers)
