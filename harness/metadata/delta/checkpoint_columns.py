"""Columns of checkpoints in Parquet: parts of structs, batch by batch, and the memory that they may take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.delta.actions import FILES_STATE
from harness.metadata.delta.commits import FIELDS
from harness.metadata.model.arrow_values import children_of, plain, to_numpy, with_children, without_rows
from harness.storage.limits import Limits
from harness.storage.records import dataclass

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


# Statistics as structs: checkpoints of different ages store different fields, one table of files holds them all.
#
# A field that the files store in types that cannot be united without loss is left out: no statistics are always right.


STATS_STRUCT = "stats_parsed"
STATS_ROW = "stats_row"
"""The row of a checkpoint that has a file's statistics, where these are not read yet; null: they are in `stats`."""


def concat_files(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of `FILES_STATE`, some of them with `stats_parsed` or `stats_row`, as one; null where one has not."""
    if any(STATS_ROW in table.schema.names for table in tables):
        schema = FILES_STATE.append(pa.field(STATS_ROW, pa.int64()))
        return pa.concat_tables([without_rows(schema), *(_with_row(table) for table in tables)])
    types = [table.schema.field(STATS_STRUCT).type for table in tables if STATS_STRUCT in table.schema.names]
    if not types:
        return pa.concat_tables([without_rows(FILES_STATE), *tables])
    united = types[0]
    for type_ in types[1:]:
        united = united if type_ == united else _united(united, type_) or pa.struct([])
    schema = FILES_STATE.append(pa.field(STATS_STRUCT, united))
    return pa.concat_tables([without_rows(schema), *(_with_struct(table, schema) for table in tables)])


def _with_row(table: pa.Table) -> pa.Table:
    if STATS_ROW in table.schema.names:
        return table
    return table.append_column(STATS_ROW, pa.nulls(table.num_rows, pa.int64()))


def _united(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """A type that holds the values of both; None: there is none."""
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        names = [child.name for child in left]
        names += [child.name for child in right if child.name not in names]
        fields = [(name, _united_child(left, right, name)) for name in names]
        return pa.struct([(name, type_) for name, type_ in fields if type_ is not None])
    if pa.types.is_signed_integer(left) and pa.types.is_signed_integer(right):
        return left if left.bit_width > right.bit_width else right
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return left if left.bit_width > right.bit_width else right
    return None


def _united_child(left: pa.StructType, right: pa.StructType, name: str) -> pa.DataType | None:
    at, other = left.get_all_field_indices(name), right.get_all_field_indices(name)
    if len(at) > 1 or len(other) > 1:
        return None
    if not at or not other:
        return left.field(at[0]).type if at else right.field(other[0]).type
    return _united(left.field(at[0]).type, right.field(other[0]).type)


def _with_struct(table: pa.Table, schema: pa.Schema) -> pa.Table:
    target = schema.field(STATS_STRUCT).type
    if STATS_STRUCT not in table.schema.names:
        return table.append_column(STATS_STRUCT, pa.nulls(table.num_rows, target))
    chunks = [_conform(chunk, target) for chunk in table.column(STATS_STRUCT).chunks]
    return table.set_column(table.schema.get_field_index(STATS_STRUCT), STATS_STRUCT, pa.chunked_array(chunks, target))


def _conform(values: pa.Array, target: pa.DataType) -> pa.Array:
    """`values` with the fields of `target`, which is `_united` with their type."""
    if values.type == target:
        return values
    if not pa.types.is_struct(target):
        return values.cast(target)
    stored, children = children_of(values), []
    for child in target:
        index = values.type.get_field_index(child.name)
        children.append(pa.nulls(len(values), child.type) if index < 0 else _conform(stored[index], child.type))
    return with_children(values, children, target)
