"""The entries of many manifests, walked at once from guessed places; the walk proves the guess.

Nothing in a block says where its entries begin, but the paths of their files begin alike. So each entry is walked from
the end of its path, and the next entry up to its path. The guess is right only if all of them meet, from the start of
every block to its end. Else blocks are walked in step, see `walk`, where that costs less than entry by entry.
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
from harness.metadata.model.arrow_values import Places, array_of, distinct, from_numpy, scalar_of, to_numpy
from harness.metadata.plan.scan_plan import KEPT, Decisions
from harness.storage.limits import contained
from harness.storage.records import dataclass

_ENTRY_NS = 40_000
_ROUND_NS = 600_000
"""Measured costs of an entry on its own, and of a round, which takes the next entry of every block."""


@dataclass(frozen=True, slots=True)
class ManifestBlocks:
    """The plain blocks of a manifest: how many entries each has, and its bytes; None: too many to hold at once."""

    number: int
    reader: ManifestReader
    counts: tuple[int, ...]
    data: tuple[bytes, ...] | None

    @staticmethod
    def read(reader: ManifestReader, number: int) -> ManifestBlocks:
        """The blocks of a manifest. Raises as `Container.record_blocks`."""
        found: list[tuple[int, bytes]] = []
        size = 0
        for count, data in reader.container.record_blocks():
            found.append((count, data))
            size += len(data)
            if size > reader.container.limits.block_bytes:
                return ManifestBlocks(number, reader, (), None)
        return ManifestBlocks(number, reader, tuple(count for count, _ in found), tuple(data for _, data in found))

    @property
    def longest(self) -> int:
        """The most entries of a block."""
        return max(self.counts, default=0)

    def has_same_layout(self, other: ManifestBlocks) -> bool:
        """True if both are read by one schema, and the same is allowed in both."""
        facts = [(b.reader.schema, b.reader.manifest.is_deletes, b.reader.is_disputed) for b in (self, other)]
        return facts[0] == facts[1]


_BATCH_BYTES = 12 << 20


def batches(readers: Iterable[tuple[int, ManifestReader]]) -> Iterator[list[ManifestBlocks]]:
    """Manifests that are alike, as far as memory allows at once; those without blocks alone.

    readers: with a number each.
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
    """Walk over the entries of the manifests for which a walk together pays off.

    Returns:
        The walk, and the manifests that it covers; None if it pays off for none.

    Raises:
        Unsure: An entry is damaged or odd.
    """
    container = batch[0].reader.container
    if batch[0].data is None or container.limits.items < MAX_ITEMS:
        return None
    is_guessed = sum(sum(blocks.counts) for blocks in batch) >= MIN_GUESSED_ENTRIES
    chosen = manifests_for_lockstep(batch)
    steps = entry_steps(container.schema, slots) if is_guessed or chosen else None
    if steps is None:
        return None
    if is_guessed:
        found = _guess_offsets(_Lanes.concat(batch), *steps)
        if found is not None:
            return found, batch
    together = [blocks for blocks in batch if blocks.number in chosen]
    if not together:
        return None
    lanes = _Lanes.concat(together)
    walk, at = advance(lanes.varints, steps[0], lanes.starts, lanes.counts)
    if not np.array_equal(at, lanes.ends):
        raise UnusualEncoding
    return walk, together


def manifests_for_lockstep(batch: Sequence[ManifestBlocks]) -> frozenset[int]:
    """The manifests to decode in step, so that the whole costs least."""
    ordered = sorted(batch, key=lambda blocks_: blocks_.longest)
    total = sum(sum(blocks_.counts) for blocks_ in batch)
    best, chosen, done = total * _ENTRY_NS, 0, 0
    for place, blocks_ in enumerate(ordered, start=1):
        done += sum(blocks_.counts)
        cost = blocks_.longest * _ROUND_NS + (total - done) * _ENTRY_NS
        if cost <= best:
            best, chosen = cost, place
    return frozenset(blocks_.number for blocks_ in ordered[:chosen])


MIN_GUESSED_ENTRIES = 100
"""For fewer entries a guess costs more than it saves."""
_SAMPLED_BLOCKS = 64
_MIN_COMMON_BYTES = 4
"""Paths that have fewer bytes in common are not looked for."""
_MAX_TRIES = 4
_MAX_VARINT_BYTES = 5
_CHUNK = 1 << 13
"""Entries that are walked at a time: their bytes stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Blocks that lie in one buffer, one behind the other. counts: their entries. starts, ends: their places."""

    blocks: Sequence[bytes]
    counts: Places
    starts: Places
    ends: Places
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
    """The walk from guessed places; None: there is no guess, or it is wrong."""
    if around_path is None:
        return None
    try:
        paths = _find_paths(lanes, _common_text(lanes, whole))
        return None if paths is None else _verify_guess(lanes, paths, *around_path)
    except (UnusualEncoding, IndexError):
        return None


def _common_text(lanes: _Lanes, step: Step) -> bytes:
    """The common beginning of the paths of the first entries of some blocks."""
    some = distinct(np.linspace(0, len(lanes.starts) - 1, _SAMPLED_BLOCKS).astype(np.int64))
    found, _ = advance(lanes.varints, step, lanes.starts[some], np.minimum(lanes.counts[some], 2))
    if PATH.name not in found.starts:
        return b""
    places = zip(found.starts[PATH.name].tolist(), found.ends[PATH.name].tolist(), strict=True)
    texts = [lanes.varints.data[start:end].tobytes() for start, end in places]
    first, last = min(texts), max(texts)  # what is between them in order begins as both do
    return bytes(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def _find_paths(lanes: _Lanes, text: bytes) -> Places | None:
    """The places of the paths; None: they are not as many as entries. Shorter texts are tried, by parts of the path."""
    for _ in range(_MAX_TRIES):
        if len(text) < _MIN_COMMON_BYTES:
            return None
        found = _occurrences(lanes, text)
        if found is not None:
            return found
        text = text[: text.rstrip(b"/").rfind(b"/") + 1]
    return None


def _occurrences(lanes: _Lanes, text: bytes) -> Places | None:
    found = []
    for block, count, start in zip(lanes.blocks, lanes.counts.tolist(), lanes.starts.tolist(), strict=True):
        pieces = block.split(text)
        if len(pieces) != count + 1:
            return None
        before = np.fromiter(map(len, pieces), np.int64, count)
        found.append(np.cumsum(before) + np.arange(count) * len(text) + start)
    return np.concatenate(found)


def _verify_guess(lanes: _Lanes, paths: Places, before: Step, behind: Step) -> FieldOffsets:
    """The walk over entries whose paths begin there. Raises Unsure or IndexError: they do not.

    before, behind: the steps around the path.
    """
    size, varints = len(paths), lanes.varints
    found = FieldOffsets(varints, size)
    ends = paths + _lengths_before(varints, paths)
    starts = np.full(size + 1, NOWHERE, dtype=np.int64)  # of the blocks, by their first entry, and the end of the last
    starts[np.cumsum(lanes.counts) - lanes.counts] = lanes.starts
    starts[size] = lanes.ends[-1]
    at = np.zeros(1, dtype=np.int64)
    for first in range(0, size, _CHUNK):
        entries = np.arange(first, min(first + _CHUNK, size))
        at = np.concatenate((at[-1:], behind(found, ends[entries], entries)))
        expected = starts[first : first + len(at)]
        length, path = varints.lengths(before(found, at[:-1], entries))
        if (
            ((expected != NOWHERE) & (expected != at)).any()
            or (path != paths[entries]).any()
            or (length != ends[entries] - path).any()
        ):
            raise UnusualEncoding
    if int(at[-1]) != int(lanes.ends[-1]):
        raise UnusualEncoding
    found.starts[PATH.name], found.ends[PATH.name] = paths, ends
    return found


def _lengths_before(varints: Varints, places: Places) -> Places:
    """The lengths whose numbers end right before the places, if a number is before them, too."""
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
    found: Places = values >> 1
    return found


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
"""Columns of `DataFiles.table`, before those of statistics."""

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
        pa.field("split_offsets", _LONGS),  # null: none, or an empty list; as the next
        pa.field("equality_ids", _LONGS),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)
"""Columns that no plan of data files needs."""


def statistic(name: str, field_id: int) -> str:
    """The column that holds a statistic, one of `COUNTS` or `BOUNDS` or `SIZES`, of a field."""
    return f"{name}.{field_id}"


@dataclass(frozen=True, slots=True)
class Extent:
    """The entries of manifests that are read, and how much of each.

    fields: Ids of the fields whose statistics are columns, in order.
    has_more: Also the columns of `MORE`, and column sizes with the statistics.
    has_maps: Also all statistics, as encoded maps; then without `fields`.
    live_only: Without entries of status deleted.
    """

    fields: tuple[int, ...] = ()
    has_more: bool = False
    has_maps: bool = False
    live_only: bool = True

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the counts of fields."""
        return (*COUNTS, SIZES) if self.has_more else COUNTS

    @property
    def maps(self) -> tuple[str, ...]:
        """The names of the encoded maps."""
        return (*COUNTS, *BOUNDS, SIZES) if self.has_maps else ()

    @property
    def encoded(self) -> list[pa.Field]:
        """The columns of bytes as the manifest has them."""
        names = [*(statistic(name, i) for i in self.fields for name in BOUNDS), *self.maps]
        return [pa.field(name, pa.binary()) for name in names]

    @property
    def schema(self) -> pa.Schema:
        """The columns of `DataFiles.table`."""
        counts = [pa.field(statistic(name, i), pa.int64()) for i in self.fields for name in self.counts]
        return pa.schema([*COLUMNS, *counts, *self.encoded, *(MORE if self.has_more else ())])


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files in the order of their manifests: as a rule those of data, and live ones.

    table: `COLUMNS`, then for each of `fields` its statistics, int64 counts and encoded bounds, null where unknown, and
        whatever else the `Extent` of the read has.
    tuples: partition tuples, as internal values by partition field id; equal ones may be there twice.
    """

    table: pa.Table
    manifests: Sequence[str]
    tuples: Sequence[Mapping[int, Any]]
    fields: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, places: npt.NDArray[np.int64]) -> DataFiles:
        """Some of the files, in this order."""
        table = self.table if len(places) == len(self) else self.table.take(from_numpy(places))
        return DataFiles(table, self.manifests, self.tuples, self.fields)

    def specs_of_tuples(self) -> list[int]:
        """The spec id of each of `tuples`; 0 for one that no file has."""
        specs = np.zeros(len(self.tuples), dtype=np.int64)
        specs[to_numpy(self.table.column("tuple"))] = to_numpy(self.table.column("spec_id"))
        found: list[int] = specs.tolist()
        return found

    def entries(self, places: Sequence[int]) -> Iterable[ManifestEntry]:
        """Some of the files as entries, in this order, without snapshots, offsets and sizes, which no plan needs."""
        for row in self.table.take(array_of(places, pa.int64())).to_pylist():
            statistics: dict[str, Any] = {
                name: {i: row[statistic(name, i)] for i in self.fields if row[statistic(name, i)] is not None}
                for name in (*COUNTS, *BOUNDS)
            }
            yield self.entry(row, statistics)

    def entry(self, row: Mapping[str, Any], statistics: Mapping[str, Any]) -> ManifestEntry:
        """A row of `table` as an object. statistics: its maps by name."""
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
    """Return delete files, which are objects first, as columns, so that their statistics compare with those of data.

    Args:
        entries: The files.
        fields: Ids of the fields whose statistics are wanted.
        manifest: The number that stands for the manifests of all.
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


# Data files that a filter skips go at once, batch by batch: few facts of them stay.


Skip: TypeAlias = Callable[[DataFiles], Decisions]
"""Verdicts on files. Unknown statistics keep a file. They never skip one."""

_SKIPPED_COLUMNS = ("manifest", "spec_id", "tuple", "record_count", "size")


@dataclass(frozen=True, slots=True)
class SkippedDataFiles:
    """Live data files that are not read.

    table: the columns manifest, spec_id, tuple, record_count and size, as in `DataFiles`, and the decision.
    paths: as recorded. They are most of a file's facts, and seldom asked for.
    """

    table: pa.Table
    paths: Callable[[], pa.ChunkedArray]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @staticmethod
    def from_decisions(table: pa.Table, decisions: Decisions, paths: Callable[[], pa.ChunkedArray]) -> SkippedDataFiles:
        """The files of a `DataFiles` table that are not kept. paths: theirs, which the table may lack."""
        dropped = np.flatnonzero(decisions != KEPT)
        shown = table.select(_SKIPPED_COLUMNS)
        shown = shown if len(dropped) == len(decisions) else shown.take(from_numpy(dropped))
        return SkippedDataFiles(shown.append_column("decision", from_numpy(decisions[dropped])), paths)


@dataclass(frozen=True, slots=True)
class FilteredFiles:
    """Live data files, told apart by a filter. files: to read."""

    files: DataFiles
    skipped: SkippedDataFiles

    @staticmethod
    def split(files: DataFiles, decisions: Decisions | None) -> FilteredFiles:
        """decisions: on each of `files`; None keeps all."""
        decisions = np.full(len(files), KEPT, dtype=np.int8) if decisions is None else decisions
        left = files.table.column("path").filter(from_numpy(decisions != KEPT))
        return FilteredFiles(
            files.take(np.flatnonzero(decisions == KEPT)),
            SkippedDataFiles.from_decisions(files.table, decisions, lambda: left),
        )


def concat_files(parts: Sequence[FilteredFiles]) -> FilteredFiles:
    """The files of all parts in the order of their manifests, with all partition tuples in one list."""
    tuples: list[Mapping[int, Any]] = []
    tables: list[tuple[pa.Table, pa.Table]] = []
    for part in parts:
        tables.append((_shift_tuples(part.files.table, len(tuples)), _shift_tuples(part.skipped.table, len(tuples))))
        tuples += part.files.tuples
    files, skipped = (pa.concat_tables(part) for part in zip(*tables, strict=True))
    order, order_left = _manifest_order(files), _manifest_order(skipped)

    @cache
    def paths() -> pa.ChunkedArray:
        found = pa.chunked_array([chunk for p in parts for chunk in p.skipped.paths().chunks], pa.string())
        return found if order_left is None else found.take(order_left)

    return FilteredFiles(
        DataFiles(files if order is None else files.take(order), (), tuples, parts[0].files.fields),
        SkippedDataFiles(skipped if order_left is None else skipped.take(order_left), paths),
    )


def _manifest_order(table: pa.Table) -> pa.Array | None:
    """The places of files in the order of manifests; None: they are in that order."""
    numbers = to_numpy(table.column("manifest"))
    return None if (numbers[1:] >= numbers[:-1]).all() else from_numpy(np.argsort(numbers, kind="stable"))


def _shift_tuples(table: pa.Table, by: int) -> pa.Table:
    """The same files, with higher numbers of tuples."""
    if not by:
        return table
    place = table.schema.get_field_index("tuple")
    numbers = pc.add(table.column("tuple"), scalar_of(by, pa.int32()))
    return table.set_column(place, table.schema.field(place), numbers)
