"""Column statistics of a data file: value, null and NaN counts and bounds by field id, as manifests carry them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.arrow_rebuild import elements_of
from harness.model.schema import Field, FloatType, ListType, MapType, StringType, StructType, VariantType
from harness.writing.iceberg.types import bound_bytes, stored


@dataclass(slots=True)
class Statistics:
    """Maps by field id; an id without an entry has no statistics. Bounds exclude nulls and NaN."""

    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


def statistics_of(
    table: pa.Table, fields: Sequence[Field], *, only: Collection[int] | None, bounds_length: int | None
) -> Statistics:
    """Statistics of the leaves of `fields`, whose columns stand at the same places in `table`.

    only: ids of the leaves wanted; None: all. bounds_length: cut longer string and binary bounds outward to this length
    (code points or bytes). Elements of lists and maps get counts of elements and no bounds (iceberg 3.4).
    """
    result = Statistics()
    for f in fields:
        index = table.schema.get_field_index(f.name)
        if index >= 0:
            column = table.column(index)
            chunk = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            _collect(result, f, chunk, only, bounds_length, place="plain")
    return result


def _collect(
    result: Statistics,
    f: Field,
    array: pa.Array,
    only: Collection[int] | None,
    length: int | None,
    *,
    place: Literal["plain", "repeated"],
) -> None:
    match f.type:
        case StructType(fields=fields):
            parts = dict(zip((p.name for p in array.type), array.flatten(), strict=True))
            for child in fields:
                if child.name in parts:
                    _collect(result, child, parts[child.name], only, length, place=place)
        case ListType(element=element):
            _collect(result, element, elements_of(array), only, length, place="repeated")
        case MapType(key=key, value=value):
            _collect(result, key, array.keys, only, length, place="repeated")
            _collect(result, value, array.items, only, length, place="repeated")
        case _ if only is None or f.id in only:
            _collect_leaf(result, f, array, length, place)
        case _:
            pass


def _collect_leaf(result: Statistics, f: Field, array: pa.Array, length: int | None, place: str) -> None:
    result.value_counts[f.id] = len(array)
    result.null_value_counts[f.id] = array.null_count
    if isinstance(f.type, FloatType):
        nan = pc.is_nan(array)
        result.nan_value_counts[f.id] = pc.sum(nan).as_py() or 0
        array = array.filter(pc.invert(nan))
    if place == "plain":
        _bounds(result, f, array.drop_null(), length)


def _bounds(result: Statistics, f: Field, array: pa.Array, length: int | None) -> None:
    if len(array) == 0 or isinstance(f.type, VariantType):
        return
    lower, upper = _extremes(array)
    if isinstance(f.type, FloatType):
        lower = -0.0 if lower == 0 else lower
        upper = math.fabs(upper) if upper == 0 else upper
    lower, upper = stored(f.type, lower), stored(f.type, upper)
    if length is not None and isinstance(lower, str | bytes) and not _is_fixed(f):
        lower, upper = lower[:length], _cut_upward(upper, length)
    for bounds, value in ((result.lower_bounds, lower), (result.upper_bounds, upper)):
        encoded = None if value is None else bound_bytes(f.type, value)
        if encoded is not None:
            bounds[f.id] = encoded


def _extremes(array: pa.Array) -> tuple[Any, Any]:
    """Least and greatest value as internal values; the array has no nulls and no NaN."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _extremes(array.storage)
    if pa.types.is_fixed_size_binary(kind):
        values = array.to_pylist()
        return min(values), max(values)
    both = pc.min_max(array)
    if pa.types.is_temporal(kind):
        return both["min"].value, both["max"].value
    return both["min"].as_py(), both["max"].as_py()


def _is_fixed(f: Field) -> bool:
    return not isinstance(f.type, StringType) and str(f.type) != "binary"


def _cut_upward(value: Any, length: int) -> Any:
    """The shortest successor of the first `length` units that is not below `value`; None if there is none."""
    if len(value) <= length:
        return value
    for end in range(length, 0, -1):
        last = value[end - 1]
        if isinstance(last, int) and last < 0xFF:
            return value[: end - 1] + bytes([last + 1])
        if isinstance(last, str) and ord(last) < 0x10FFFF:
            # The surrogates are no characters.
            return value[: end - 1] + ("\ue000" if last == "\ud7ff" else chr(ord(last) + 1))
    return None
