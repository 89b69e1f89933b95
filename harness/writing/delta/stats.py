"""Statistics of a data file as the `add` action carries them: the number of rows, bounds and null counts.

Spec: Delta, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.schema import Field, FloatType, StructType, UnknownType, VariantType
from harness.writing.delta.types import Json
from harness.writing.delta.values import statistics_text
from harness.writing.iceberg.types import stored

_ASCII_FILLER = "\x7f"
_FILLER = "\U0010ffff"


def statistics_of(table: pa.Table, fields: Sequence[Field], bounds_length: int) -> Json:
    """The statistics of a file with the columns of `fields`; a column that the table lacks has none."""
    lower: Json = {}
    upper: Json = {}
    nulls: Json = {}
    for f in fields:
        index = table.schema.get_field_index(f.name)
        if index >= 0:
            column = table.column(index)
            array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            _collect(f, array, (lower, upper, nulls), bounds_length)
    return {
        "numRecords": table.num_rows,
        "minValues": lower,
        "maxValues": upper,
        "nullCount": nulls,
        "tightBounds": True,
    }


def upper_bound(text: str, length: int) -> str:
    """A text of about `length` characters that is not below any text that starts like this one (delta F6)."""
    end = length
    while end < len(text) and text[end] == _FILLER:
        end += 1
    if end >= len(text):
        return text
    return text[:end] + (_ASCII_FILLER if text[end] < _ASCII_FILLER else _FILLER)


def _collect(f: Field, array: pa.Array, into: tuple[Json, Json, Json], length: int) -> None:
    lower, upper, nulls = into
    match f.type:
        case StructType(fields=fields):
            inner: tuple[Json, Json, Json] = ({}, {}, {})
            parts = dict(zip((p.name for p in array.type), array.flatten(), strict=True))
            for child in fields:
                if child.name in parts:
                    _collect(child, parts[child.name], inner, length)
            for level, found in zip(into, inner, strict=True):
                if found:
                    level[f.name] = found
        case UnknownType():
            pass
        case _:
            nulls[f.name] = array.null_count
            for level, bound in zip((lower, upper), _bounds(f, array.drop_null(), length), strict=True):
                if bound is not None:
                    level[f.name] = bound


def _bounds(f: Field, array: pa.Array, length: int) -> tuple[Any, Any]:
    kind = array.type
    if isinstance(f.type, FloatType):
        array = array.filter(pc.invert(pc.is_nan(array)))
    if len(array) == 0 or isinstance(f.type, VariantType) or pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return None, None
    both = pc.min_max(array)
    ends = [both[e].value if pa.types.is_temporal(kind) else both[e].as_py() for e in ("min", "max")]
    lower, upper = (statistics_text(f.type, stored(f.type, end)) for end in ends)
    if isinstance(lower, str) and pa.types.is_string(kind):
        return lower[:length], upper_bound(upper, length)
    return lower, upper
