"""That each row of a checkpoint in Parquet holds one action (delta L17).

Rows are counted one by one and not in sum: else a row of two actions would hide one that lost its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError
from harness.model.arrow_values import to_numpy

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class ActionRows:
    """How many actions each row of one file holds, as its columns are read."""

    def __init__(self, rows: int) -> None:
        self._held = np.zeros(rows, dtype=np.uint8)

    def note(self, start: int, values: pa.Array | pa.ChunkedArray) -> None:
        """`values` are the rows from `start` of a column of actions; null where there is none."""
        self._held[start : start + len(values)] += _valid(values)

    def check(self, parquet: pq.ParquetFile, file: str, *, others: list[str], batch_rows: int) -> None:
        """Refuses rows of two actions, and rows of none, not even in the columns `others`, whose actions are unknown.

        Raises:
            CorruptFileError: columns of the file are lost, or hold what belongs to other rows. Rule: delta L17.
        """
        several = int((self._held > 1).sum())
        if several:
            raise _unreadable(f"{several} of its {len(self._held)} rows hold more than one action", file)
        held = self._held > 0
        if others and not held.all():
            start = 0
            for batch in parquet.iter_batches(batch_size=batch_rows, columns=others):
                for values in batch.columns:
                    held[start : start + len(values)] |= _valid(values)
                start += batch.num_rows
        lost = len(held) - int(held.sum())
        if lost:
            raise _unreadable(f"{lost} of its {len(held)} rows hold no action, so columns of it are lost", file)


def _valid(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return to_numpy(pc.is_valid(values))


def _unreadable(reason: str, file: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read the checkpoint: {reason}", cause="LogCorrupt", file=file, rule="delta L17")
