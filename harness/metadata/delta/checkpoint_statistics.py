"""Lazily read statistics of checkpoints: only when a plan needs them, and only for the files that it needs.

Statistics are the largest part of a checkpoint. The bytes of the checkpoint are kept in memory, so statistics read
later come from the same file as the rest.
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
from harness.metadata.delta.checkpoint_files import (
    BATCH_ROWS,
    STATS_ROW,
    STATS_STRUCT,
    MemoryBudget,
    action_batches,
    struct_field_names,
)
from harness.metadata.delta.statistics import (
    FileStats,
    StatisticsBounds,
    StatisticsColumn,
    read_statistics,
    record_counts,
)
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.parquet import open_parquet
from harness.metadata.filters.skipping import ColumnBounds, bound_type
from harness.metadata.model.arrow_values import Indices, field_at, from_numpy, scalar_of, to_numpy, to_plain
from harness.storage.decoded import DECODED, Key
from harness.storage.limits import Limits, contained
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_SMALL_BATCH_ROWS = 8_192
"""The rows in a batch if few statistics of a row group are needed.

The texts of a batch of this size reuse the memory of the batch before. If most of the statistics are needed, larger
batches are faster, because more threads parse them.
"""
StructPath: TypeAlias = tuple[str, ...]
"""Field names, starting below `stats_parsed`."""


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """A Parquet file of a checkpoint.

    Attributes:
        file: The path of the file, for errors.
        data: The content of the file.
        first: The number of its first row, counting the rows of all parts.
        limits: The limits on memory.
    """

    file: str
    data: bytes = field(repr=False)
    first: int
    limits: Limits

    def tables(self, rows: Indices, structs: Sequence[StructPath]) -> Iterator[tuple[Indices, pa.Table]]:
        """Yield the statistics of some rows in pieces.

        A piece consists of indices into `rows`, and a table with the statistics of these rows.

        Args:
            rows: Row numbers in this file, ascending.
            structs: The fields of `stats_parsed` to read for files without a JSON text.

        Raises:
            CorruptFileError: The statistics are damaged.
            LimitError: The statistics take more memory than the limits allow.
        """
        budget = MemoryBudget.for_file(self.limits, self.file, len(self.data))
        try:
            with contained(file=self.file), open_parquet(pa.BufferReader(self.data)) as parquet:
                sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
                ends = np.searchsorted(rows, np.cumsum(sizes)).tolist()
                for group, bounds in enumerate(itertools.pairwise([0, *ends])):
                    if bounds[0] < bounds[1]:
                        yield from _group_tables(parquet, group, rows, bounds, structs, budget)
        except (pa.ArrowException, OSError, *DAMAGE) as error:
            message = f"Cannot read statistics in the checkpoint: {error}"
            raise CorruptFileError(message, cause="LogCorrupt", file=self.file, rule="delta L19") from error


def _group_tables(
    parquet: pq.ParquetFile,
    group: int,
    rows: Indices,
    bounds: tuple[int, int],
    structs: Sequence[StructPath],
    budget: MemoryBudget,
) -> Iterator[tuple[Indices, pa.Table]]:
    """Yield the statistics of rows in a row group. `bounds` are the start and end of these rows in `rows`."""
    fields = struct_field_names(parquet.schema_arrow, "add")
    parsed: pa.StructArray | None = None
    group_start: int | None = None
    # If the file has no statistics as text, count its rows by the path, which every action has.
    column = "stats" if "stats" in fields else "path"
    size = BATCH_ROWS if 4 * (bounds[1] - bounds[0]) > parquet.metadata.row_group(group).num_rows else _SMALL_BATCH_ROWS
    for start, actions in action_batches(parquet, "add", [column], groups=[group], size=size):
        group_start = start if group_start is None else group_start
        budget.spend(actions.nbytes)
        first, last = (bounds[0] + np.searchsorted(rows[slice(*bounds)], [start, start + len(actions)])).tolist()
        if first == last:
            continue
        part_rows = from_numpy(rows[first:last] - start)
        stats = field_at(actions.take(part_rows), ("stats",)) if "stats" in fields else None
        texts = pa.nulls(last - first, pa.string()) if stats is None else stats.cast(pa.string())
        columns = {"stats": texts}
        if texts.null_count and structs and STATS_STRUCT in fields:
            if parsed is None:
                parsed = _structs(parquet, group, structs)
                budget.spend(parsed.nbytes)
            columns[STATS_STRUCT] = parsed.take(from_numpy(rows[first:last] - group_start))
        table = pa.table(columns)
        table.validate(full=True)  # invalid UTF-8 would otherwise only fail when it is printed
        yield np.arange(first, last), table


def _structs(parquet: pq.ParquetFile, group: int, structs: Sequence[StructPath]) -> pa.StructArray:
    """Return `stats_parsed` of a row group, with the fields at the given paths."""
    if any("." in name for path in structs for name in path):  # pyarrow treats the dot as a path separator
        structs = [()]
    read = parquet.read_row_group(group, columns=[".".join(("add", STATS_STRUCT, *path)) for path in structs])
    structs_column = (
        field_at(to_plain(read.column("add").combine_chunks()), (STATS_STRUCT,)) if "add" in read.schema.names else None
    )
    return (
        pa.nulls(parquet.metadata.row_group(group).num_rows, pa.struct([]))
        if structs_column is None
        else structs_column
    )


MIN_CACHED_FILES = 10_000
"""The minimum number of files whose statistics are cached.

Parsing the texts of fewer files is faster than caching the result. For many files, parsing takes two thirds of the time
of planning a filter.
"""
_COUNTS = pa.schema([pa.field("count", pa.int64())])


@dataclass(frozen=True, slots=True)
class _CachedRows:
    """Cached statistics of some rows of a checkpoint.

    Attributes:
        rows: The row numbers, ascending.
        table: The statistics of these rows.
    """

    rows: Indices
    table: pa.Table

    @property
    def size(self) -> int:
        return int(self.table.nbytes) + self.rows.nbytes


@dataclass(frozen=True, slots=True)
class CachedStatistics:
    """The cache of statistics that were read from one version of a checkpoint.

    Attributes:
        checkpoint: The cache key of the checkpoint.
    """

    checkpoint: Key

    def get(self, leaf_columns: Sequence[StatisticsColumn], rows: Indices) -> FileStats | None:
        """Return the statistics of checkpoint rows in the given order, or None if some of them are not cached."""
        columns: dict[int, StatisticsBounds] = {}
        for leaf in leaf_columns:
            cached = self._get(_bounds_name(leaf), rows)
            if cached is None:
                return None
            columns[leaf.field.id] = StatisticsBounds(*(column.combine_chunks() for column in cached.columns))
        counts = self._get("counts", rows)
        return None if counts is None else FileStats(counts.column(0).combine_chunks(), columns)

    def put(self, leaf_columns: Sequence[StatisticsColumn], parts: Sequence[tuple[Indices, FileStats]]) -> None:
        """Cache statistics of checkpoint rows, replacing cached ones. Statistics of few files are not cached."""
        if sum(len(rows) for rows, _ in parts) < MIN_CACHED_FILES:
            return
        rows = np.concatenate([rows for rows, _ in parts])
        order = np.argsort(rows, kind="stable")
        tables = {"counts": [pa.table([statistics.rows], schema=_COUNTS) for _, statistics in parts]}
        for leaf in leaf_columns:
            bounds = [statistics.columns[leaf.field.id] for _, statistics in parts]
            tables[_bounds_name(leaf)] = [
                pa.table([b.lower, b.upper, b.nulls], schema=_bounds_schema(leaf)) for b in bounds
            ]
        for name, pieces in tables.items():
            if self._get(name, rows) is None:  # otherwise the cache may hold more rows
                table = pa.concat_tables(pieces).combine_chunks()
                self._put(name, rows[order], table if (order[1:] > order[:-1]).all() else table.take(from_numpy(order)))

    def _get(self, name: str, rows: Indices) -> pa.Table | None:
        cached = DECODED.get(self._key(name), _CachedRows)
        if cached is None or not len(cached.rows):
            return None
        indices = np.minimum(np.searchsorted(cached.rows, rows), len(cached.rows) - 1)
        if (cached.rows[indices] != rows).any():
            return None
        return cached.table if len(rows) == len(cached.rows) else cached.table.take(from_numpy(indices))

    def _put(self, name: str, rows: Indices, table: pa.Table) -> None:
        DECODED.put(self._key(name), _CachedRows(rows, table))

    def _key(self, name: str) -> Key:
        key = self.checkpoint
        return Key(f"statistics of a checkpoint: {name}", key.path, key.size, key.token)


def _bounds_name(leaf: StatisticsColumn) -> str:
    return f"bounds of {leaf.path} as {leaf.field.type}"


def _bounds_schema(leaf: StatisticsColumn) -> pa.Schema:
    type_ = bound_type(leaf.field.type) or pa.null()
    return pa.schema([("lower", type_), ("upper", type_), ("nulls", pa.int64())])


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """The statistics of all files of a checkpoint, addressed by row number.

    Attributes:
        parts: The Parquet files of the checkpoint.
        cache: The cache of statistics. None: statistics are not cached.
    """

    parts: tuple[CheckpointPart, ...]
    cache: CachedStatistics | None = None

    def tables(self, rows: Indices, structs: Sequence[StructPath]) -> Iterator[tuple[Indices, pa.Table]]:
        """Yield the statistics of rows in any part, as `CheckpointPart.tables` does. The rows may be in any order."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        firsts = [part.first for part in self.parts]
        ends = [*np.searchsorted(ascending, firsts[1:]).tolist(), len(rows)]
        start = 0
        for part, end in zip(self.parts, ends, strict=True):
            for indices, table in part.tables(ascending[start:end] - part.first, structs) if end > start else ():
                yield order[start + indices], table
            start = end


STATISTICS_COLUMNS = ("stats", STATS_STRUCT, STATS_ROW)
"""The columns of `State.files` that hold statistics or refer to them."""
_SLICE_ROWS = 1 << 15


@dataclass(frozen=True, slots=True)
class FilesStatistics:
    """The statistics of the files in `State.files`.

    Attributes:
        files: The files. Statistics that have been read are in their columns.
        in_checkpoint: The statistics of the files with a `stats_row`. None: no file has one.
        table: The location of the table, for messages.
        strict: True if damaged statistics raise an error. Otherwise they are treated as unknown, with a warning.
    """

    files: pa.Table
    in_checkpoint: CheckpointStatistics | None
    table: str
    strict: bool = False

    def read(self, leaf_columns: Sequence[StatisticsColumn], indices: Indices) -> Iterator[tuple[Indices, FileStats]]:
        """Yield row counts and column bounds of files in pieces, each with the indices of its files.

        Args:
            leaf_columns: The columns.
            indices: The indices of the files, ascending.

        Raises:
            CorruptFileError: The statistics are damaged, if `strict`.
            LimitError: The statistics take more memory than the limits allow.
        """
        yield from self._read(leaf_columns, indices, lambda table: read_statistics(table, leaf_columns))

    def bounds(self, leaf_columns: Sequence[StatisticsColumn], indices: Indices) -> Mapping[int, ColumnBounds]:
        """Return the bounds of columns in some files by field id, or an empty mapping if there are none.

        Raises:
            CorruptFileError, LimitError: As for `read`.
        """
        parts = list(self.read(leaf_columns, indices)) if leaf_columns else []
        if not parts:
            return {}
        order = np.argsort(np.concatenate([part_indices for part_indices, _ in parts]))
        columns = {leaf.field.id: [read.bounds(leaf.field) for _, read in parts] for leaf in leaf_columns}
        return {
            id_: ColumnBounds.concat([part for part in column if part is not None]).take(order)
            for id_, column in columns.items()
        }

    def record_counts(self, indices: Indices) -> npt.NDArray[np.int64]:
        """Return the number of physical rows of some files, with -1 for unknown.

        Raises:
            CorruptFileError, LimitError: As for `read`.
        """
        counts = np.full(self.files.num_rows, -1, dtype=np.int64)
        for part_indices, statistics in self._read((), indices, _count_rows):
            counts[part_indices] = to_numpy(pc.fill_null(statistics.rows, scalar_of(-1, pa.int64())))
        return counts[indices]

    def _read(
        self, leaf_columns: Sequence[StatisticsColumn], indices: Indices, parse: Callable[[pa.Table], FileStats]
    ) -> Iterator[tuple[Indices, FileStats]]:
        if self.in_checkpoint is None:
            yield from ((part_indices, parse(table)) for part_indices, table in self._loaded_tables(indices))
            return
        column = self.files.column(STATS_ROW)
        rows = to_numpy(pc.fill_null(column, scalar_of(-1, pa.int64())))[indices]
        yield from ((part_indices, parse(table)) for part_indices, table in self._loaded_tables(indices[rows < 0]))
        indices, rows = indices[rows >= 0], rows[rows >= 0]
        cache = self.in_checkpoint.cache
        cached = None if cache is None else cache.get(leaf_columns, rows)
        if cached is not None:
            yield indices, cached
            return
        parsed: list[tuple[Indices, FileStats]] = []
        for part_indices, table in self._checkpoint_tables(self.in_checkpoint, rows, leaf_columns):
            statistics = parse(
                pa.table({"stats": pa.nulls(len(part_indices), pa.string())}) if table is None else table
            )
            cache = None if table is None else cache
            if cache is not None:
                parsed.append((rows[part_indices], statistics))
            yield indices[part_indices], statistics
        if cache is not None:
            cache.put(leaf_columns, parsed)

    def _loaded_tables(self, indices: Indices) -> Iterator[tuple[Indices, pa.Table]]:
        statistics = self.files.select([name for name in ("stats", STATS_STRUCT) if name in self.files.column_names])
        for start in range(0, len(indices), _SLICE_ROWS):
            part = indices[start : start + _SLICE_ROWS]
            yield (
                part,
                statistics.slice(start, len(part))
                if len(indices) == len(statistics)
                else statistics.take(from_numpy(part)),
            )

    def _checkpoint_tables(
        self, later: CheckpointStatistics, rows: Indices, leaf_columns: Sequence[StatisticsColumn]
    ) -> Iterator[tuple[Indices, pa.Table | None]]:
        """Yield indices into `rows`, and the statistics of these rows, or None if they cannot be read."""
        missing = np.ones(len(rows), dtype=np.bool_)
        kinds = ("minValues", "maxValues", "nullCount")
        structs = [("numRecords",), *((kind, *leaf.path) for leaf in leaf_columns for kind in kinds)]
        try:
            for part_indices, table in later.tables(rows, structs):
                missing[part_indices] = False
                yield part_indices, table
        except CorruptFileError as error:
            if self.strict:
                raise
            warn(f"Table {self.table}: {error.message}; no file is skipped by these statistics ({error.file})")
            yield np.flatnonzero(missing), None


def _count_rows(files: pa.Table) -> FileStats:
    counts = record_counts(files)
    return FileStats(from_numpy(counts, missing=counts < 0), {})
