"""Rows as internal values as an Arrow table in the exact types of a plan's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from harness.model.schema import (
    DateType,
    Field,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    arrow_type,
)


def table_of(rows: Sequence[Sequence[Any]], columns: Sequence[Field]) -> pa.Table:
    """The table of `rows`, whose values are in the order of `columns`.

    Every field may be null, at every level: tables hold nulls in required columns (iceberg 5.13).
    """
    if not columns:
        return pa.table({"rows": pa.nulls(len(rows))}).select([])
    arrays = [_array([row[i] for row in rows], f.type) for i, f in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[f.name for f in columns])


def _array(values: list[Any], type_: Type) -> pa.Array:
    match type_:
        case StructType(fields=fields):
            return _structs(values, fields)
        case ListType(element=element):
            offsets, items = _flat(values)
            kind = pa.list_(pa.field("element", _nullable(element.type)))
            return pa.ListArray.from_arrays(offsets, _array(items, element.type), type=kind)
        case MapType(key=key, value=value):
            offsets, pairs = _flat(values)
            keys, items = _array([k for k, _ in pairs], key.type), _array([v for _, v in pairs], value.type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=_nullable(type_))
        case DateType():
            return pa.array(values, pa.int32()).view(pa.date32())
        case TimeType() | TimestampType():
            return pa.array(values, pa.int64()).view(arrow_type(type_))
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case _:
            return pa.array(values, arrow_type(type_))


def _structs(values: list[Any], fields: tuple[Field, ...]) -> pa.Array:
    kinds = [pa.field(f.name, _nullable(f.type)) for f in fields]
    parts = [_array([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
    mask = pa.array([v is None for v in values], pa.bool_())
    if not fields:
        return pa.array([None if v is None else {} for v in values], pa.struct([]))
    return pa.StructArray.from_arrays(parts, fields=kinds, mask=mask)


def _flat(values: list[Any]) -> tuple[pa.Array, list[Any]]:
    """Where each list starts, null where it is null, and the items of all."""
    offsets: list[int | None] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        items.extend(value or ())
    return pa.array([*offsets, len(items)], pa.int32()), items


def _nullable(type_: Type) -> pa.DataType:
    """The Arrow type with fields that may be null."""
    match type_:
        case StructType(fields=fields):
            return pa.struct([pa.field(f.name, _nullable(f.type)) for f in fields])
        case ListType(element=element):
            return pa.list_(pa.field("element", _nullable(element.type)))
        case MapType(key=key, value=value):
            return pa.map_(_nullable(key.type), _nullable(value.type))
        case _:
            return arrow_type(type_)
