"""Where the entries of lists and maps begin and end."""

from __future__ import annotations

import pyarrow as pa


def offsets_of(array: pa.Array) -> pa.Array:
    """The offsets of a list or map array into all its entries, one more than it has rows.

    An array without rows need not have any by Arrow's format, and Spark's have none; pyarrow would give what happens to
    lie behind the buffer.
    """
    if len(array):
        return array.offsets
    return pa.array([0], pa.int64() if pa.types.is_large_list(array.type) else pa.int32())
