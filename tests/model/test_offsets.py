"""Lists and maps without rows, which by Arrow's format need no offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from harness.differ.canonical import canonical_values
from harness.differ.storage_types import carried
from harness.engines.duckdb.conform import conform as duckdb_conform
from harness.engines.spark.conform import conform as spark_conform
from harness.model.arrow_rebuild import offsets_of

BEHIND = pa.py_buffer(b"\xff" * 64)
NO_OFFSETS = BEHIND.slice(0, 0)
"""What lies behind it is -1 as an offset."""
STRINGS = pa.array([], pa.string())
ENTRIES = pa.array([], pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())]))
LIST = pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, NO_OFFSETS], children=[STRINGS])
LARGE = pa.Array.from_buffers(pa.large_list(pa.string()), 0, [None, NO_OFFSETS], children=[STRINGS])
MAP = pa.Array.from_buffers(pa.map_(pa.string(), pa.int64()), 0, [None, NO_OFFSETS], children=[ENTRIES])


def inside(array: pa.Array) -> pa.Array:
    """One list without entries, of such arrays."""
    return pa.Array.from_buffers(pa.list_(array.type), 1, [None, pa.py_buffer(b"\0" * 8)], children=[array])


@pytest.mark.parametrize("array", [LIST, LARGE, MAP], ids=["list", "large list", "map"])
def test_there_is_one_offset(array: pa.Array) -> None:
    assert offsets_of(array).to_pylist() == [0]


def test_others_are_as_they_are() -> None:
    assert offsets_of(pa.array([["a"], ["b", "c"]])).to_pylist() == [0, 1, 3]


@pytest.mark.parametrize("array", [LIST, LARGE, MAP], ids=["list", "large list", "map"])
def test_they_have_no_canonical_values(array: pa.Array) -> None:
    assert canonical_values(array) == []
    assert canonical_values(inside(array)) == [()]


@pytest.mark.parametrize("conform", [duckdb_conform, spark_conform], ids=["duckdb", "spark"])
@pytest.mark.parametrize(
    ("array", "wanted"),
    [(LIST, pa.list_(pa.binary())), (MAP, pa.map_(pa.string(), pa.int32()))],
    ids=["list", "map"],
)
def test_results_of_engines_take_other_types(conform: Callable[..., Any], array: pa.Array, wanted: pa.DataType) -> None:
    rows = conform(pa.table({"v": inside(array)}), pa.schema({"v": pa.list_(wanted)}))
    assert rows.column("v").to_pylist() == [[]]
    assert rows.column("v").chunk(0).values.offsets.to_pylist() == [0]


def test_carriers_hold_no_entries() -> None:
    dates = pa.array([], pa.struct([pa.field("key", pa.date64(), nullable=False), pa.field("value", pa.date64())]))
    array = pa.Array.from_buffers(pa.map_(pa.date64(), pa.date64()), 0, [None, NO_OFFSETS], children=[dates])
    rows = carried(pa.table({"v": inside(array)}))
    assert rows.column(0).to_pylist() == [[]]
