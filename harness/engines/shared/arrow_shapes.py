"""Stored values as Arrow arrays of another, announced type, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.arrow_rebuild import child_types, children_of, with_children
from harness.plan.projection import ColumnSource, Stored

Use: TypeAlias = "Mapping[int, Use] | None"
"""Which parts of a column are read, by place; None: all of it."""


def uses(sources: Iterable[ColumnSource]) -> dict[int, Use]:
    """Which parts of the columns of one level are read."""
    found: dict[int, Use] = {}
    for source in sources:
        if isinstance(source, Stored):
            whole = source.place in found or not source.parts
            found[source.place] = None if whole else uses(source.parts)
    return found


def reshaped(array: pa.Array, wanted: pa.DataType, use: Use) -> pa.Array:
    """The same values as `wanted`, whatever nested fields are called; parts that are not read become nulls.

    Times and timestamps become integers in their own unit where `wanted` is one; zone flags never change a value.

    Raises:
        pa.ArrowException: a value does not fit.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_nested(wanted):
        return _single(array, wanted)
    if pa.types.is_map(wanted) and use is not None:
        use = {0: None, **use}  # no map is without its keys
    pairs = zip(children_of(array), child_types(wanted), strict=True)
    return with_children(array, [_part(child, type_, use, i) for i, (child, type_) in enumerate(pairs)], wanted)


def _part(array: pa.Array, wanted: pa.DataType, use: Use, place: int) -> pa.Array:
    if use is None:
        return reshaped(array, wanted, None)
    return reshaped(array, wanted, use[place]) if place in use else pa.nulls(len(array), wanted)


def _single(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    stored = array.type
    if stored == wanted:
        return array
    if pa.types.is_timestamp(wanted):
        return _micros(array).view(wanted)
    if pa.types.is_integer(wanted) and (pa.types.is_time(stored) or pa.types.is_timestamp(stored)):
        return array.view(pa.int32() if pa.types.is_time32(stored) else pa.int64()).cast(wanted)
    if pa.types.is_float16(stored) and pa.types.is_binary(wanted):
        return array.view(pa.binary(2)).cast(wanted)
    return array.cast(wanted)


def _micros(array: pa.Array) -> pa.Array:
    """Instants or readings as int64 micros."""
    values = array.view(pa.int64())
    match array.type.unit:
        case "us":
            return values
        case "ms":
            return pc.multiply_checked(values, 1000)
        case other:
            raise pa.ArrowInvalid(f"a timestamp in {other} is not announced in micros")
