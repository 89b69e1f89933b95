"""The elements of lists, of every layout and type that Arrow has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def elements_of(array: pa.Array) -> pa.Array:
    """The elements of the lists that are not null, in order, whatever slice of a larger array they are."""
    try:
        return array.flatten()
    except pa.ArrowNotImplementedError:  # Arrow 26 has no builder for extension types below structs and lists
        return _spans(array)


def _spans(array: pa.Array) -> pa.Array:
    values, lengths = array.values, pc.list_value_length(array).to_pylist()
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = [(array.offset + i) * size for i in range(len(array))]
    else:
        starts = array.offsets.to_pylist()
    spans = [values[start : start + n] for start, n in zip(starts, lengths, strict=False) if n is not None]
    return pa.concat_arrays([values[:0], *spans])
