"""Expected rows as an Arrow table in the exact types that a read gives (`harness.model.schema.arrow_field`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from harness.errors import RequestError
from harness.model.schema import (
    Field,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
    UuidType,
    arrow_field,
    arrow_type,
)
from harness.testing.scenarios.values import stored_struct


def expected_table(fields: Sequence[Field], rows: Sequence[Any], labels: Mapping[str, str]) -> pa.Table:
    """The rows, in order.

    fields: the columns of the read. rows: lists in their order or mappings by name, values as a scenario writes them
    (see `values`); a name that is missing is null. labels: recorded paths by label; `_file` is given by label.

    Raises:
        RequestError: a row does not have the columns, or a value does not fit its type.
    """
    columns = tuple(fields)
    records = [stored_struct(columns, row) for row in rows]
    for f in columns:
        if f.name == "_file":
            for record in records:
                record[f.id] = labels.get(record.get(f.id, ""), record.get(f.id))
    arrays = [arrow_array(f.type, [record.get(f.id) for record in records]) for f in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(f) for f in columns]))


def arrow_array(type_: Type, values: list[Any]) -> pa.Array:
    """Values as internal values as an array of `arrow_type`.

    Raises:
        RequestError: a value does not fit, or one of an always-null type is not null.
    """
    target = arrow_type(type_)
    match type_:
        case StructType(fields=fields):
            parts = [arrow_array(f.type, [None if v is None else v.get(f.id) for v in values]) for f in fields]
            mask = pa.array([v is None for v in values], pa.bool_())
            # Nulls of a null struct's required fields are nobody's, but Arrow would refuse them.
            loose = [pa.field(f.name, arrow_type(f.type)) for f in fields]
            built = pa.StructArray.from_arrays(parts, fields=loose, mask=mask)
            return pa.Array.from_buffers(target, len(built), built.buffers()[:1], children=parts)
        case ListType(element=element):
            items = [item for v in values if v is not None for item in v]
            return pa.ListArray.from_arrays(_offsets(values), arrow_array(element.type, items), type=target)
        case MapType(key=key, value=value):
            pairs = [pair for v in values if v is not None for pair in v]
            keys, items = arrow_array(key.type, [k for k, _ in pairs]), arrow_array(value.type, [v for _, v in pairs])
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target)
        case UuidType():
            return pa.ExtensionArray.from_storage(target, pa.array(values, pa.binary(16)))
        case UnknownType() if any(v is not None for v in values):
            raise RequestError(f"Invalid expected value for {type_}: such columns are always null")
        case _:
            try:
                return pa.array(values, target)
            except (pa.ArrowException, TypeError, ValueError) as exc:
                raise RequestError(f"Invalid expected value for {type_}: {exc}") from exc


def _offsets(values: list[Any]) -> pa.Array:
    """Offsets of lists; a null among them makes its list null."""
    places: list[int | None] = []
    total = 0
    for value in values:
        places.append(None if value is None else total)
        total += 0 if value is None else len(value)
    return pa.array([*places, total], pa.int32())
