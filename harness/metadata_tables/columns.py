"""Columns of metadata tables, made of Python values or of other columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.model.arrow_values import array_of, from_numpy
from harness.model.schema import Field, OpaqueType, StructType, Type, UuidType, arrow_type

TIME = pa.timestamp("us", "UTC")
TEXTS = pa.map_(pa.string(), pa.string())


def table_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows as a table; times are in milliseconds since 1970-01-01 UTC, maps are lists of pairs."""
    found = list(rows)
    arrays = [_column([row[place] for row in found], field.type) for place, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A mapping as an item of a map of texts."""
    return [(str(key), str(value)) for key, value in values.items()]


def values_of(values: Sequence[Any], type_: Type) -> pa.Array:
    """Internal values (`harness.model.schema`) of a type that is not nested, as the Arrow type of its columns."""
    match type_:
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case OpaqueType():
            return array_of([None if value is None else str(value) for value in values], pa.string())
        case _:
            return array_of(values, arrow_type(type_))


def tuple_struct(fields: Sequence[Field]) -> StructType:
    """The type of a column of partition tuples. DuckDB has no two fields of one name: repeated ones get their id."""
    names = [field.name.casefold() for field in fields]
    return StructType(
        tuple(
            Field(id=f.id, name=f.name if names.count(name) == 1 else f"{f.name}_{f.id}", type=f.type)
            for f, name in zip(fields, names, strict=True)
        )
    )


def tuples_of(tuples: Sequence[Mapping[int, Any]], type_: StructType) -> pa.Array:
    """Partition tuples (internal values by field id) as structs; a field that a tuple has not is null."""
    arrays = [values_of([values.get(f.id) for values in tuples], f.type) for f in type_.fields]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(type_)))


def map_of(keys: Sequence[int], columns: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Maps from keys to the values of columns, row by row; a null is no entry, and no entries are no map.

    Args:
        keys: one for each column.
        columns: at least one.
        type_: of the maps.
    """
    size = len(columns[0])
    there = np.array([_valid(column) for column in columns], np.bool_).reshape(len(columns), size).T
    rows, places = np.nonzero(there)
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(there.sum(axis=1), out=offsets[1:])
    items = pa.concat_arrays(list(columns)).take(from_numpy(places * size + rows))
    found_keys = from_numpy(np.array(keys, np.int32)[places])
    entries = pa.StructArray.from_arrays([found_keys, items], fields=[type_.key_field, type_.item_field])
    validity = pa.py_buffer(np.packbits(there.any(axis=1), bitorder="little"))
    return pa.Array.from_buffers(type_, size, [validity, pa.py_buffer(offsets)], children=[entries])


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    bits = column.is_valid()
    found: npt.NDArray[np.bool_] = np.unpackbits(
        np.frombuffer(bits.buffers()[1], np.uint8), count=bits.offset + len(bits), bitorder="little"
    )[bits.offset :].astype(np.bool_)
    return found


def _column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if type_ == TIME:
        return array_of([None if value is None else value * 1000 for value in values], pa.int64()).cast(TIME)
    return array_of(values, type_)
