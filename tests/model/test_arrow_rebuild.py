"""Nested Arrow arrays taken apart and put together again, by hand and by those who do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.metadata.model.arrow_values import (
    children_of,
    nested_type,
    offsets_of,
    with_children,
)

# -- arrays of every kind ----------------------------------------------------------------------------------------------

HIDDEN = 999
"""A value that no row shows."""


def ints(*values: int | None, type_: Any = None) -> pa.Array:
    return pa.array(values, type_ or pa.int64())


def offsets(*ends: int) -> pa.Array:
    return pa.array(ends, pa.int32())


def nulls(*flags: int) -> pa.Array:
    return pa.array([bool(flag) for flag in flags])


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([i]) * 16 for i in range(4)], pa.binary(16)))
ELEMENTS = ints(HIDDEN, 1, 2, HIDDEN, None, 3, HIDDEN)
LISTS = pa.ListArray.from_arrays(offsets(1, 3, 4, 4, 6), ELEMENTS, mask=nulls(0, 1, 0, 0))
"""[1, 2], null over an entry, [], [None, 3]; entries before and behind."""
STRUCTS = pa.StructArray.from_arrays([ints(1, HIDDEN, None), LISTS[:3]], names=["a", "l"], mask=nulls(0, 1, 0))
KEYS = pa.array(["-", "a", "b", "-", "a", "c", "-"])
ARRAYS: dict[str, tuple[pa.Array, list[Any]]] = {
    "list": (LISTS, [[1, 2], None, [], [None, 3]]),
    "large list": (
        pa.LargeListArray.from_arrays(offsets_of(LISTS), ELEMENTS, mask=nulls(0, 1, 0, 0)),
        [[1, 2], None, [], [None, 3]],
    ),
    "fixed-size list": (
        pa.FixedSizeListArray.from_arrays(ints(1, 2, HIDDEN, HIDDEN, None, 3), 2, mask=nulls(0, 1, 0)),
        [[1, 2], None, [None, 3]],
    ),
    "list view": (
        pa.ListViewArray.from_arrays(offsets(4, 3, 1), offsets(2, 1, 2), ELEMENTS, mask=nulls(0, 1, 0)),
        [[None, 3], None, [1, 2]],
    ),
    "map": (
        pa.MapArray.from_arrays(offsets(1, 3, 4, 4, 6), KEYS, ELEMENTS, mask=nulls(0, 1, 0, 0)),
        [[("a", 1), ("b", 2)], None, [], [("a", None), ("c", 3)]],
    ),
    "struct": (STRUCTS, [{"a": 1, "l": [1, 2]}, None, {"a": None, "l": []}]),
    "struct without fields": (pa.array([{}, None, {}], pa.struct([])), [{}, None, {}]),
    "list of structs": (
        pa.ListArray.from_arrays(offsets(0, 2, 3), STRUCTS, mask=nulls(0, 1)),
        [[{"a": 1, "l": [1, 2]}, None], None],
    ),
    "only null lists of structs of uuids": (
        pa.ListArray.from_arrays(offsets(0, 1, 1), pa.StructArray.from_arrays([UUIDS], ["u"]), mask=nulls(1, 1)),
        [None, None],
    ),
    "list of uuids": (
        pa.ListArray.from_arrays(offsets(1, 2, 3, 4), UUIDS, mask=nulls(0, 1, 0)),
        [[UUID(int=0x01010101010101010101010101010101)], None, [UUID(int=0x03030303030303030303030303030303)]],
    ),
    "list of dictionary values": (
        pa.ListArray.from_arrays(offsets(1, 3, 4), KEYS.dictionary_encode(), mask=nulls(0, 1)),
        [["a", "b"], None],
    ),
    "list of runs": (
        pa.ListArray.from_arrays(offsets(1, 3, 4), pc.run_end_encode(ints(7, 7, 8, 8)), mask=nulls(0, 1)),
        [[7, 8], None],
    ),
    "list of views": (
        pa.ListArray.from_arrays(offsets(1, 3, 4), KEYS.cast(pa.string_view()), mask=nulls(0, 1)),
        [["a", "b"], None],
    ),
    "no row": (LISTS[:0], []),
    "only nulls": (pa.nulls(2, pa.list_(pa.struct([("u", pa.uuid())]))), [None, None]),
}
cases = pytest.mark.parametrize(("array", "rows"), ARRAYS.values(), ids=ARRAYS)


def rebuilt(array: pa.Array, leaf: Callable[[pa.Array], pa.Array] = lambda leaf: leaf) -> pa.Array:
    """The array with every leaf changed."""
    if not pa.types.is_nested(array.type) or pa.types.is_run_end_encoded(array.type):
        return leaf(array)
    children = [rebuilt(child, leaf) for child in children_of(array)]
    return with_children(array, children, nested_type(array.type, [child.type for child in children]))


@cases
def test_unchanged_children_give_the_same_rows_of_every_slice(array: pa.Array, rows: list[Any]) -> None:
    assert array.to_pylist() == rows
    for start in range(len(rows) + 1):
        for stop in range(start, len(rows) + 1):
            again = rebuilt(array[start:stop])
            again.validate(full=True)
            assert again.to_pylist() == rows[start:stop]


# -- what is put together ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "children", "type_"),
    [
        pytest.param(LISTS, [ints(1, 2, 3)], pa.list_(pa.int64()), id="too few elements"),
        pytest.param(LISTS, [ints(1, 2, 3, 4, 5, 6)], pa.list_(pa.int64()), id="too many elements"),
        pytest.param(LISTS, [ints(1, 2, 3, 4)], pa.list_(pa.int32()), id="elements of another type"),
        pytest.param(LISTS, [ints(1, 2, 3, 4)], pa.list_(pa.int64(), 2), id="a list without offsets"),
        pytest.param(STRUCTS, [ints(1, 2), LISTS[:3]], STRUCTS.type, id="a field with too few values"),
        pytest.param(STRUCTS, [ints(1, 2, 3), ints(1, 2, 3)], STRUCTS.type, id="a field of another type"),
        pytest.param(
            ARRAYS["map"][0], [ints(1, 2, None, 4), ints(1, 2, 3, 4)], pa.map_(pa.int64(), pa.int64()), id="a null key"
        ),
    ],
)
def test_children_that_do_not_fit_are_an_error(array: pa.Array, children: list[pa.Array], type_: pa.DataType) -> None:
    with pytest.raises((pa.ArrowException, TypeError)):
        with_children(array, children, type_)


"""HIDDEN is none."""
