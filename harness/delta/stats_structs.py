"""Statistics as structs: checkpoints of different ages store different fields, one table of files holds them all.

A field that the files store in types that cannot be united without loss is left out: no statistics are always right.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from harness.delta.actions import FILES_STATE
from harness.model.arrow_rebuild import children_of, with_children
from harness.model.arrow_values import without_rows

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
