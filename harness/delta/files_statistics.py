"""Statistics of a version's files: those that replay has at hand, and those that are still in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.checkpoint_columns import Rows
from harness.delta.checkpoint_statistics import CheckpointStatistics, StructPath
from harness.delta.statistics import FileStats, Leaf, read_statistics, record_counts
from harness.delta.stats_structs import STATS_ROW, STATS_STRUCT
from harness.errors import CorruptFileError, warn
from harness.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.records import dataclass

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

    def read(self, wanted: Sequence[Leaf], places: Rows) -> Iterator[tuple[Rows, FileStats]]:
        """Row counts of files and bounds of the columns `wanted`, by the files' places, some at a time.

        places: ascending.

        Raises:
            CorruptFileError: as said. LimitError: statistics take more memory than the limits allow.
        """
        yield from self._read(wanted, places, lambda table: read_statistics(table, wanted))

    def record_counts(self, places: Rows | None = None) -> npt.NDArray[np.int64]:
        """Physical rows of some files, None: of all; -1 is unknown. Raises as `read`."""
        places = np.arange(self.files.num_rows) if places is None else places
        counts = np.full(self.files.num_rows, -1, dtype=np.int64)
        for found, statistics in self._read((), places, _counted):
            counts[found] = to_numpy(pc.fill_null(statistics.rows, scalar_of(-1, pa.int64())))
        return counts[places]

    def _read(
        self, wanted: Sequence[Leaf], places: Rows, parse: Callable[[pa.Table], FileStats]
    ) -> Iterator[tuple[Rows, FileStats]]:
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
        parsed: list[tuple[Rows, FileStats]] = []
        for found, table in self._still_there(self.later, rows, wanted):
            statistics = parse(pa.table({"stats": pa.nulls(len(found), pa.string())}) if table is None else table)
            arrays = None if kept is None or table is None else statistics.as_arrays(wanted)
            if arrays is None:
                kept = None
            else:
                parsed.append((rows[found], arrays))
            yield places[found], statistics if arrays is None else arrays
        if kept is not None:
            kept.put(wanted, parsed)

    def _at_hand(self, places: Rows) -> Iterator[tuple[Rows, pa.Table]]:
        known = self.files.select([name for name in ("stats", STATS_STRUCT) if name in self.files.column_names])
        for start in range(0, len(places), _SLICE_ROWS):
            part = places[start : start + _SLICE_ROWS]
            yield part, known.slice(start, len(part)) if len(places) == len(known) else known.take(from_numpy(part))

    def _still_there(
        self, later: CheckpointStatistics, rows: Rows, wanted: Sequence[Leaf]
    ) -> Iterator[tuple[Rows, pa.Table | None]]:
        """Places in `rows`, and what these have; None: it cannot be read."""
        missing = np.ones(len(rows), dtype=np.bool_)
        try:
            for found, table in later.tables(rows, _paths(wanted)):
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


def _paths(wanted: Sequence[Leaf]) -> list[StructPath]:
    kinds = ("minValues", "maxValues", "nullCount")
    return [("numRecords",), *((kind, *leaf.path) for leaf in wanted for kind in kinds)]
