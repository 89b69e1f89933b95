"""Mutators of Delta checkpoints and Parquet data: changed values, types, columns, and rows in valid files."""

import io
from collections.abc import Callable
from random import Random
from typing import Any

import drawn_values
import mutate_json
import pyarrow as pa
import pyarrow.parquet as pq

_MOST_ROW_GROUPS = 1000
"""Writing more row groups takes longer than a mutant may take."""


def rewritten(data: bytes, rng: Random) -> bytes:
    """Apply one or two changes to the file's table."""
    table = pq.read_table(io.BytesIO(data), partitioning=None)
    for _ in range(rng.choice((1, 1, 2))):
        table = rng.choice(_CHANGES)(table, rng)
    out = io.BytesIO()
    codec = rng.choice(("snappy", "snappy", "none", "zstd", "gzip"))
    size = rng.choice((None, None, 1, 3))
    if size is not None:
        size = max(size, table.num_rows // _MOST_ROW_GROUPS)
    pq.write_table(table, out, compression=codec, row_group_size=size)
    return out.getvalue()


def _value(table: pa.Table, rng: Random) -> pa.Table:
    """Change one value somewhere below a column to another value of the same type."""
    place = rng.randrange(table.num_columns)
    values = table.column(place).to_pylist(maps_as_pydicts=None)
    filled = [i for i, value in enumerate(values) if value is not None]
    row = rng.choice(filled) if filled else rng.randrange(len(values))
    field = table.schema.field(place)
    values[row] = _changed(values[row], field.type, rng)
    return table.set_column(place, field.with_nullable(True), pa.array(values, field.type))


def _changed(value: Any, type_: pa.DataType, rng: Random) -> Any:
    """Return another value of the type, often null."""
    if rng.random() < 0.15:
        return None
    if pa.types.is_struct(type_):
        field = type_.field(rng.randrange(type_.num_fields))
        fields = [f for f in type_ if value is not None and value.get(f.name) is not None]
        field = rng.choice(fields) if fields and rng.random() < 0.8 else field
        return {**(value or {}), field.name: _changed((value or {}).get(field.name), field.type, rng)}
    if pa.types.is_map(type_):
        pairs = list(value or [])
        return rng.choice((pairs[1:], pairs + pairs, [*pairs, (drawn_values.text(rng), drawn_values.text(rng))]))
    if pa.types.is_list(type_):
        items = list(value or [])
        return rng.choice((items[1:], items + items, [*items, _changed(None, type_.value_type, rng)]))
    return _scalar(value, type_, rng)


def _scalar(value: Any, type_: pa.DataType, rng: Random) -> Any:
    if pa.types.is_boolean(type_):
        return not value
    if pa.types.is_integer(type_):
        return drawn_values.integer(rng, value or 0) % 2 ** (type_.bit_width - 1)
    if pa.types.is_floating(type_):
        return rng.choice((0.0, -0.0, float("nan"), float("inf"), -(value or 1.0)))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        if value is not None and value[:1] in ("{", "[") and rng.random() < 0.7:
            return mutate_json.document(value.encode(), rng).decode()
        return drawn_values.text(rng, value or "").encode("utf-8", "replace").decode()
    if pa.types.is_binary(type_):
        return drawn_values.blob(rng, value or b"")
    return None


_TYPES = (
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint64(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("ns", "UTC"),
    pa.decimal128(38, 18),
    pa.list_(pa.string()),
    pa.map_(pa.string(), pa.string()),
    pa.struct([("a", pa.int32())]),
    pa.struct([("key", pa.int64()), ("value", pa.string())]),
)


def _inside(
    table: pa.Table, rng: Random, change: Callable[[pa.Array, pa.Field], list[tuple[pa.Array, Any]]]
) -> pa.Table:
    """Return the table with a column, or a child of one, replaced by the one or none that `change` returns."""
    place = rng.randrange(table.num_columns)
    field, column = table.schema.field(place), table.column(place).combine_chunks()
    if pa.types.is_struct(field.type) and field.type.num_fields > 1 and rng.random() < 0.85:
        inner = rng.randrange(field.type.num_fields)
        parts = [(column.field(i), field.type.field(i)) for i in range(field.type.num_fields)]
        parts[inner : inner + 1] = change(*parts[inner])
        arrays, fields = zip(*parts, strict=True)
        column = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
        return table.set_column(place, field.with_type(column.type).with_nullable(True), column)
    for array, changed in change(column, field):
        return table.set_column(place, changed, array)
    return table.remove_column(place) if table.num_columns > 1 else table


def _retyped(table: pa.Table, rng: Random) -> pa.Table:
    """Change the type of a column or of a child, with nulls for values that do not fit."""

    def retyped(array: pa.Array, field: pa.Field) -> list[tuple[pa.Array, pa.Field]]:
        type_ = rng.choice(_TYPES)
        try:
            array = array.cast(type_, safe=False)
        except pa.ArrowException:
            array = pa.nulls(len(array), type_)
        return [(array, field.with_type(type_).with_nullable(True))]

    return _inside(table, rng, retyped)


def _renamed(table: pa.Table, rng: Random) -> pa.Table:
    """Rename or remove a column or a child of one."""

    def renamed(array: pa.Array, field: pa.Field) -> list[tuple[pa.Array, pa.Field]]:
        name = rng.choice((field.name.swapcase(), f"{field.name}_", "add", "path", "", field.name[:-1]))
        return [] if rng.random() < 0.5 else [(array, field.with_name(name))]

    return _inside(table, rng, renamed)


def _rows(table: pa.Table, rng: Random) -> pa.Table:
    """Remove, repeat, or reorder rows."""
    places = list(range(table.num_rows))
    match rng.randrange(3):
        case 0 if places:
            del places[rng.randrange(len(places))]
        case 1 if places:
            places.insert(rng.randrange(len(places)), rng.choice(places))
        case _:
            rng.shuffle(places)
    return table.take(pa.array(places, pa.int64()))


def _column(table: pa.Table, rng: Random) -> pa.Table:
    """Add an empty column, or repeat an existing one."""
    place = rng.randrange(table.num_columns)
    if rng.random() < 0.5:
        return table.append_column("unknown", pa.nulls(table.num_rows, pa.int32()))
    return table.append_column(table.schema.field(place), table.column(place))


_CHANGES: tuple[Callable[[pa.Table, Random], pa.Table], ...] = (
    _value,
    _value,
    _value,
    _value,
    _retyped,
    _renamed,
    _rows,
    _column,
)
