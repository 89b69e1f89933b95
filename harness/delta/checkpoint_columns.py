"""Columns of checkpoints in Parquet: parts of structs, batch by batch, and the memory that they may take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.commits import FIELDS
from harness.limits import Limits
from harness.model.arrow_rebuild import plain
from harness.model.arrow_values import to_numpy
from harness.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Rows = npt.NDArray[np.int64]

BATCH_ROWS = 32_768


@dataclass(slots=True)
class Room:
    """The memory that the columns of one file may take. most: bytes."""

    limits: Limits
    file: str
    most: int
    taken: int = 0

    @staticmethod
    def of(limits: Limits, file: str, size: int) -> Room:
        """The memory for the columns of a file of `size` bytes."""
        return Room(limits, file, 100 * size + limits.spare_bytes)

    def take(self, size: int) -> None:
        """Takes so many bytes. Raises LimitError if there are not so many left."""
        self.taken += size
        self.limits.check("spare_bytes", self.taken, "bytes of columns", file=self.file, allowed=self.most)

    def empty(self) -> None:
        """All of it is free again."""
        self.taken = 0


def children(schema: pa.Schema, name: str) -> frozenset[str]:
    """The names of the fields of the struct `name`; none if there is no such struct."""
    index = schema.get_field_index(name)
    if index < 0 or not pa.types.is_struct(schema.field(index).type):
        return frozenset()
    return frozenset(child.name for child in schema.field(index).type)


def leaves_of(columns: Iterable[str]) -> list[str]:
    """The paths in an action of columns of `ADDS` or `REMOVES`."""
    return [".".join(FIELDS[name]) for name in columns if name in FIELDS]


def batches(
    parquet: pq.ParquetFile,
    action: str,
    leaves: Iterable[str],
    *,
    groups: list[int] | None = None,
    size: int = BATCH_ROWS,
) -> Iterator[tuple[int, pa.StructArray]]:
    """The structs of column `action` with only the fields at `leaves`, and the row that each batch starts with.

    They are in plain layouts, whatever the file's writer had in memory.

    groups: of rows, ascending; None: all. size: the most rows of a batch.
    """
    if action not in parquet.schema_arrow.names:
        return
    columns = [f"{action}.{leaf}" for leaf in leaves]
    sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
    firsts = np.cumsum([0, *sizes]).tolist()
    for wanted in [None] if groups is None else [[group] for group in groups]:
        start = 0 if wanted is None else firsts[wanted[0]]
        for batch in parquet.iter_batches(batch_size=size, columns=columns, row_groups=wanted):
            yield start, plain(batch.column(action))
            start += batch.num_rows


def held(actions: pa.StructArray) -> pa.StructArray:
    """Those that are not null."""
    return actions.filter(pc.is_valid(actions)) if actions.null_count else actions


def rows_held(start: int, actions: pa.StructArray) -> Rows:
    """The rows of those, if `actions` start with the row `start`."""
    return start + np.flatnonzero(to_numpy(pc.is_valid(actions)))


def child(parent: pa.Array, place: tuple[str, ...]) -> pa.Array | None:
    """The field of a struct at a path; None: it has no such field."""
    value: Any = parent
    for name in place:
        index = value.type.get_field_index(name) if pa.types.is_struct(value.type) else -1
        if index < 0:
            return None
        value = pc.struct_field(value, index)
    return value
