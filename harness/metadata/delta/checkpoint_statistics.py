"""Statistics in checkpoints, which are most of them: read once a plan asks, and for those files only that it needs.

The checkpoint is held as it is stored, so that what is read later is of the file that gave the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, warn
from harness.metadata.delta.checkpoint_files import BATCH_ROWS, STATS_ROW, STATS_STRUCT, Room, batches, children
from harness.metadata.delta.statistics import (
    FileStats,
    Leaf,
    StatisticsBounds,
    read_statistics,
    record_counts,
)
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.parquet import open_parquet
from harness.metadata.filters.skipping import ColumnBounds, bound_type
from harness.metadata.model.arrow_values import Places, field_at, from_numpy, plain, scalar_of, to_numpy
from harness.storage.decoded import DECODED, Key
from harness.storage.limits import Limits, contained
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_FEW_ROWS = 8_192
"""Texts of so many files take the memory of those before them, which is not returned and asked for again. Where most
of them are parsed, larger batches are parsed by more threads."""
StructPath: TypeAlias = tuple[str, ...]
"""Names of fields, from `stats_parsed` down."""


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """A Parquet file of a checkpoint. first: the number of its first row among the rows of all parts."""

    file: str
    data: bytes = field(repr=False)
    first: int
    limits: Limits

    def tables(self, rows: Places, structs: Sequence[StructPath]) -> Iterator[tuple[Places, pa.Table]]:
        """Statistics of some rows, ascending and counted in this file: places in `rows`, and what they have.

        structs: what of `stats_parsed` to read where a file has no text.

        Raises CorruptFileError: they are damaged. LimitError: they take more memory than the limits allow.
        """
        room = Room.of(self.limits, self.file, len(self.data))
        try:
            with contained(file=self.file), open_parquet(pa.BufferReader(self.data)) as parquet:
                sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
                ends = np.searchsorted(rows, np.cumsum(sizes)).tolist()
                for group, bounds in enumerate(itertools.pairwise([0, *ends])):
                    if bounds[0] < bounds[1]:
                        yield from _of_group(parquet, group, rows, bounds, structs, room)
        except (pa.ArrowException, OSError, *DAMAGE) as error:
            message = f"Cannot read statistics in the checkpoint: {error}"
            raise CorruptFileError(message, cause="LogCorrupt", file=self.file, rule="delta L19") from error


def _of_group(
    parquet: pq.ParquetFile,
    group: int,
    rows: Places,
    bounds: tuple[int, int],
    structs: Sequence[StructPath],
    room: Room,
) -> Iterator[tuple[Places, pa.Table]]:
    """Statistics of the rows of a row group. bounds: from where to where in `rows` these are."""
    fields = children(parquet.schema_arrow, "add")
    parsed: pa.StructArray | None = None
    begin: int | None = None
    # A file without the text is gone through by its paths, which every action has.
    column = "stats" if "stats" in fields else "path"
    size = BATCH_ROWS if 4 * (bounds[1] - bounds[0]) > parquet.metadata.row_group(group).num_rows else _FEW_ROWS
    for start, actions in batches(parquet, "add", [column], groups=[group], size=size):
        begin = start if begin is None else begin
        room.take(actions.nbytes)
        first, last = (bounds[0] + np.searchsorted(rows[slice(*bounds)], [start, start + len(actions)])).tolist()
        if first == last:
            continue
        own = from_numpy(rows[first:last] - start)
        stats = field_at(actions.take(own), ("stats",)) if "stats" in fields else None
        texts = pa.nulls(last - first, pa.string()) if stats is None else stats.cast(pa.string())
        columns = {"stats": texts}
        if texts.null_count and structs and STATS_STRUCT in fields:
            if parsed is None:
                parsed = _structs(parquet, group, structs)
                room.take(parsed.nbytes)
            columns[STATS_STRUCT] = parsed.take(from_numpy(rows[first:last] - begin))
        table = pa.table(columns)
        table.validate(full=True)  # text that is no UTF-8 would show only where it is printed
        yield np.arange(first, last), table


def _structs(parquet: pq.ParquetFile, group: int, structs: Sequence[StructPath]) -> pa.StructArray:
    """`stats_parsed` of a row group, with the fields at some paths."""
    if any("." in name for path in structs for name in path):  # which pyarrow takes for a path
        structs = [()]
    read = parquet.read_row_group(group, columns=[".".join(("add", STATS_STRUCT, *path)) for path in structs])
    found = (
        field_at(plain(read.column("add").combine_chunks()), (STATS_STRUCT,)) if "add" in read.schema.names else None
    )
    return pa.nulls(parquet.metadata.row_group(group).num_rows, pa.struct([])) if found is None else found


# Statistics as columns, once they were read: to parse their texts takes two thirds of the time of planning a filter.


FEWEST = 10_000
"""Texts of fewer files are parsed in less time than it takes to keep what they say."""
_COUNTS = pa.schema([pa.field("count", pa.int64())])


@dataclass(frozen=True, slots=True)
class _Known:
    """Known statistics of some rows of a checkpoint. rows: ascending."""

    rows: Places
    table: pa.Table

    @property
    def size(self) -> int:
        return int(self.table.nbytes) + self.rows.nbytes


@dataclass(frozen=True, slots=True)
class KeptStatistics:
    """The statistics that were read of one version of a checkpoint."""

    checkpoint: Key

    def get(self, wanted: Sequence[Leaf], rows: Places) -> FileStats | None:
        """The statistics of rows of the checkpoint, in their order; None: not all of them are known."""
        columns: dict[int, StatisticsBounds] = {}
        for leaf in wanted:
            found = self._get(_name(leaf), rows)
            if found is None:
                return None
            columns[leaf.field.id] = StatisticsBounds(*(column.combine_chunks() for column in found.columns))
        counts = self._get("counts", rows)
        return None if counts is None else FileStats(counts.column(0).combine_chunks(), columns)

    def put(self, wanted: Sequence[Leaf], parts: Sequence[tuple[Places, FileStats]]) -> None:
        """Keeps statistics of rows of the checkpoint, in place of those that were known; but not few."""
        if sum(len(rows) for rows, _ in parts) < FEWEST:
            return
        rows = np.concatenate([rows for rows, _ in parts])
        order = np.argsort(rows, kind="stable")
        tables = {"counts": [pa.table([found.rows], schema=_COUNTS) for _, found in parts]}
        for leaf in wanted:
            own = [found.columns[leaf.field.id] for _, found in parts]
            tables[_name(leaf)] = [pa.table([b.lower, b.upper, b.nulls], schema=_bounds(leaf)) for b in own]
        for what, pieces in tables.items():
            if self._get(what, rows) is None:  # else more may be known
                table = pa.concat_tables(pieces).combine_chunks()
                self._put(what, rows[order], table if (order[1:] > order[:-1]).all() else table.take(from_numpy(order)))

    def _get(self, what: str, rows: Places) -> pa.Table | None:
        found = DECODED.get(self._key(what), _Known)
        if found is None or not len(found.rows):
            return None
        places = np.minimum(np.searchsorted(found.rows, rows), len(found.rows) - 1)
        if (found.rows[places] != rows).any():
            return None
        return found.table if len(rows) == len(found.rows) else found.table.take(from_numpy(places))

    def _put(self, what: str, rows: Places, table: pa.Table) -> None:
        DECODED.put(self._key(what), _Known(rows, table))

    def _key(self, what: str) -> Key:
        of = self.checkpoint
        return Key(f"statistics of a checkpoint: {what}", of.path, of.size, of.token)


def _name(leaf: Leaf) -> str:
    return f"bounds of {leaf.path} as {leaf.field.type}"


def _bounds(leaf: Leaf) -> pa.Schema:
    type_ = bound_type(leaf.field.type) or pa.null()
    return pa.schema([("lower", type_), ("upper", type_), ("nulls", pa.int64())])


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """The statistics of all files of a checkpoint, by the number of their rows. kept: what was read of them before."""

    parts: tuple[CheckpointPart, ...]
    kept: KeptStatistics | None = None

    def tables(self, rows: Places, structs: Sequence[StructPath]) -> Iterator[tuple[Places, pa.Table]]:
        """The statistics of rows of all parts, as `CheckpointPart.tables` gives them."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        firsts = [part.first for part in self.parts]
        ends = [*np.searchsorted(ascending, firsts[1:]).tolist(), len(rows)]
        start = 0
        for part, end in zip(self.parts, ends, strict=True):
            for places, table in part.tables(ascending[start:end] - part.first, structs) if end > start else ():
                yield order[start + places], table
            start = end


# Statistics of a version's files: those that replay has at hand, and those that are still in a checkpoint.


COLUMNS = ("stats", STATS_STRUCT, STATS_ROW)
"""The columns of `State.files` that say something of statistics."""
_SLICE_ROWS = 1 << 15


@dataclass(frozen=True, slots=True)
class FilesStatistics:
    """The statistics of the files of `State.files`, `later` those with a `stats_row`.

    table: its location, for messages. strict: damaged statistics are an error; else they say nothing, with a warning.
    """

    files: pa.Table
    later: CheckpointStatistics | None
    table: str
    strict: bool = False

    def read(self, wanted: Sequence[Leaf], places: Places) -> Iterator[tuple[Places, FileStats]]:
        """Row counts of files and bounds of the columns `wanted`, by the files' places, some at a time.

        places: ascending.

        Raises CorruptFileError: as said. LimitError: statistics take more memory than the limits allow.
        """
        yield from self._read(wanted, places, lambda table: read_statistics(table, wanted))

    def bounds(self, wanted: Sequence[Leaf], places: Places) -> Mapping[int, ColumnBounds]:
        """The bounds of the columns `wanted` in some files, by field id; empty where none are. Raises as `read`."""
        parts = list(self.read(wanted, places)) if wanted else []
        if not parts:
            return {}
        order = np.argsort(np.concatenate([found for found, _ in parts]))
        columns = {leaf.field.id: [read.bounds(leaf.field) for _, read in parts] for leaf in wanted}
        return {
            id_: ColumnBounds.concat([part for part in column if part is not None]).take(order)
            for id_, column in columns.items()
        }

    def record_counts(self, places: Places) -> npt.NDArray[np.int64]:
        """Physical rows of some files; -1 is unknown. Raises as `read`."""
        counts = np.full(self.files.num_rows, -1, dtype=np.int64)
        for found, statistics in self._read((), places, _counted):
            counts[found] = to_numpy(pc.fill_null(statistics.rows, scalar_of(-1, pa.int64())))
        return counts[places]

    def _read(
        self, wanted: Sequence[Leaf], places: Places, parse: Callable[[pa.Table], FileStats]
    ) -> Iterator[tuple[Places, FileStats]]:
        if self.later is None:
            yield from ((found, parse(table)) for found, table in self._at_hand(places))
            return
        column = self.files.column(STATS_ROW)
        rows = to_numpy(pc.fill_null(column, scalar_of(-1, pa.int64())))[places]
        yield from ((found, parse(table)) for found, table in self._at_hand(places[rows < 0]))
        places, rows = places[rows >= 0], rows[rows >= 0]
        kept = self.later.kept
        known = None if kept is None else kept.get(wanted, rows)
        if known is not None:
            yield places, known
            return
        parsed: list[tuple[Places, FileStats]] = []
        for found, table in self._still_there(self.later, rows, wanted):
            statistics = parse(pa.table({"stats": pa.nulls(len(found), pa.string())}) if table is None else table)
            kept = None if table is None else kept
            if kept is not None:
                parsed.append((rows[found], statistics))
            yield places[found], statistics
        if kept is not None:
            kept.put(wanted, parsed)

    def _at_hand(self, places: Places) -> Iterator[tuple[Places, pa.Table]]:
        known = self.files.select([name for name in ("stats", STATS_STRUCT) if name in self.files.column_names])
        for start in range(0, len(places), _SLICE_ROWS):
            part = places[start : start + _SLICE_ROWS]
            yield part, known.slice(start, len(part)) if len(places) == len(known) else known.take(from_numpy(part))

    def _still_there(
        self, later: CheckpointStatistics, rows: Places, wanted: Sequence[Leaf]
    ) -> Iterator[tuple[Places, pa.Table | None]]:
        """Places in `rows`, and what these have; None: it cannot be read."""
        missing = np.ones(len(rows), dtype=np.bool_)
        kinds = ("minValues", "maxValues", "nullCount")
        structs = [("numRecords",), *((kind, *leaf.path) for leaf in wanted for kind in kinds)]
        try:
            for found, table in later.tables(rows, structs):
                missing[found] = False
                yield found, table
        except CorruptFileError as error:
            if self.strict:
                raise
            warn(f"Table {self.table}: {error.message}; files are not skipped by them ({error.file})")
            yield np.flatnonzero(missing), None


def _counted(files: pa.Table) -> FileStats:
    counts = record_counts(files)
    return FileStats(from_numpy(counts, missing=counts < 0), {})
