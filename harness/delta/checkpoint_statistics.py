"""Statistics in checkpoints, which are most of them: read once a plan asks, and for those files only that it needs.

The checkpoint is held as it is stored, so that what is read later is of the file that gave the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from harness.delta.checkpoint_columns import BATCH_ROWS, Room, Rows, batches, child, children
from harness.delta.stats_structs import STATS_STRUCT
from harness.errors import CorruptFileError
from harness.files.arrow_parquet import open_parquet
from harness.files.avro_numbers import DAMAGE
from harness.limits import Limits, contained
from harness.model.arrow_rebuild import plain
from harness.model.arrow_values import from_numpy
from harness.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from harness.delta.kept_statistics import KeptStatistics


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

    def tables(self, rows: Rows, structs: Sequence[StructPath]) -> Iterator[tuple[Rows, pa.Table]]:
        """Statistics of some rows, ascending and counted in this file: places in `rows`, and what they have.

        structs: what of `stats_parsed` to read where a file has no text.

        Raises:
            CorruptFileError: they are damaged. LimitError: they take more memory than the limits allow.
        """
        room = Room.of(self.limits, self.file, len(self.data))
        try:
            with contained(file=self.file), open_parquet(pa.BufferReader(self.data)) as parquet:
                for group, bounds in _groups(parquet, rows):
                    yield from _of_group(parquet, group, rows, bounds, structs, room)
        except (pa.ArrowException, OSError, *DAMAGE) as error:
            raise CorruptFileError(
                f"Cannot read statistics in the checkpoint: {error}",
                cause="LogCorrupt",
                file=self.file,
                rule="delta L19",
            ) from error


def _groups(parquet: pq.ParquetFile, rows: Rows) -> Iterator[tuple[int, tuple[int, int]]]:
    """The row groups that hold any of the rows, and from where to where in `rows` these are."""
    sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
    ends = np.searchsorted(rows, np.cumsum(sizes)).tolist()
    for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield group, (start, end)


def _of_group(
    parquet: pq.ParquetFile, group: int, rows: Rows, bounds: tuple[int, int], structs: Sequence[StructPath], room: Room
) -> Iterator[tuple[Rows, pa.Table]]:
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
        stats = child(actions.take(own), ("stats",)) if "stats" in fields else None
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
    found = child(plain(read.column("add").combine_chunks()), (STATS_STRUCT,)) if "add" in read.schema.names else None
    return pa.nulls(parquet.metadata.row_group(group).num_rows, pa.struct([])) if found is None else found


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """The statistics of all files of a checkpoint, by the number of their rows. kept: what was read of them before."""

    parts: tuple[CheckpointPart, ...]
    kept: KeptStatistics | None = None

    def tables(self, rows: Rows, structs: Sequence[StructPath]) -> Iterator[tuple[Rows, pa.Table]]:
        """As `CheckpointPart.tables`, of rows of all parts."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        firsts = [part.first for part in self.parts]
        ends = [*np.searchsorted(ascending, firsts[1:]).tolist(), len(rows)]
        start = 0
        for part, end in zip(self.parts, ends, strict=True):
            for places, table in part.tables(ascending[start:end] - part.first, structs) if end > start else ():
                yield order[start + places], table
            start = end
