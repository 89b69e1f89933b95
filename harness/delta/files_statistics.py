"""Statistics of a version's files: those that replay has at hand, and those that are still in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.checkpoint_columns import Rows
from harness.delta.checkpoint_statistics import CheckpointStatistics, StructPath
from harness.delta.statistics import Leaf, record_counts
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

    def slices(self, wanted: Sequence[Leaf], places: Rows | None = None) -> Iterator[tuple[Rows, pa.Table]]:
        """Statistics of files by their places, some at a time, as `harness.delta.statistics` takes them apart.

        Args:
            wanted: the columns to read, besides row counts, where statistics are structs.
            places: ascending; None: all.

        Raises:
            CorruptFileError: as said. LimitError: statistics take more memory than the limits allow.
        """
        places = np.arange(self.files.num_rows) if places is None else places
        if self.later is None:
            yield from self._at_hand(places)
            return
        column = self.files.column(STATS_ROW)
        rows = to_numpy(pc.fill_null(column, scalar_of(-1, pa.int64())))[places]
        yield from self._at_hand(places[rows < 0])
        yield from self._still_there(self.later, places[rows >= 0], rows[rows >= 0], wanted)

    def record_counts(self, places: Rows | None = None) -> npt.NDArray[np.int64]:
        """Physical rows of some files, None: of all; -1 is unknown."""
        places = np.arange(self.files.num_rows) if places is None else places
        counts = np.full(self.files.num_rows, -1, dtype=np.int64)
        for found, table in self.slices((), places):
            counts[found] = record_counts(table)
        return counts[places]

    def _at_hand(self, places: Rows) -> Iterator[tuple[Rows, pa.Table]]:
        known = self.files.select([name for name in ("stats", STATS_STRUCT) if name in self.files.column_names])
        for start in range(0, len(places), _SLICE_ROWS):
            part = places[start : start + _SLICE_ROWS]
            yield part, known.slice(start, len(part)) if len(places) == len(known) else known.take(from_numpy(part))

    def _still_there(
        self, later: CheckpointStatistics, places: Rows, rows: Rows, wanted: Sequence[Leaf]
    ) -> Iterator[tuple[Rows, pa.Table]]:
        missing = np.ones(len(places), dtype=np.bool_)
        try:
            for found, table in later.tables(rows, _paths(wanted)):
                missing[found] = False
                yield places[found], table
        except CorruptFileError as error:
            if self.strict:
                raise
            warn(f"Table {self.table}: {error.message}; files are not skipped by them ({error.file})")
            rest = places[missing]
            yield rest, pa.table({"stats": pa.nulls(len(rest), pa.string())})


def _paths(wanted: Sequence[Leaf]) -> list[StructPath]:
    kinds = ("minValues", "maxValues", "nullCount")
    return [("numRecords",), *((kind, *leaf.path) for leaf in wanted for kind in kinds)]
