"""Arrow values built from Python and NumPy values, and nested arrays taken apart and rebuilt."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.engines.column_values import conform as duckdb_conform
from harness.engines.spark.arrow_worker import reshape
from harness.engines.spark.engine import conform as spark_conform
from harness.metadata.model.arrow_values import (
    array_of,
    children_of,
    from_numpy,
    nested_type,
    offsets_of,
    to_numpy,
    with_children,
)

_TEXTS = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("values", "type_", "error"),
    [
        (["\ud800"], pa.string(), UnicodeError),
        (["a", 1], pa.string(), TypeError),
        ([2**63], pa.int64(), OverflowError),
        ([2**31], pa.int32(), OverflowError),
        ([b"a", "a"], pa.binary(), TypeError),
        (["5"], pa.int64(), TypeError),
        ([1.0], pa.int64(), TypeError),
        ([True], pa.int64(), TypeError),
        ([1], pa.bool_(), TypeError),
        ([[("a", 1)]], _TEXTS, TypeError),
        ([[(None, "a")]], _TEXTS, ValueError),
    ],
)
def test_other_values_are_refused(values: list[object], type_: pa.DataType, error: type[Exception]) -> None:
    with pytest.raises(error):
        array_of(values, type_)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64, np.bool_])
def test_numpy_arrays_there_and_back(kind: type) -> None:
    values = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1], kind)
    made = from_numpy(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    for part in (made, made.slice(3, 5), made.slice(0, 0), pa.chunked_array([made, made.slice(9)])):
        assert to_numpy(part).tolist() == part.to_pylist()
        assert to_numpy(part).dtype == kind
    assert from_numpy(values, missing=values == 1).to_pylist() == [None if value else value for value in values]
    assert from_numpy(values[::2]).to_pylist() == values[::2].tolist()
    with pytest.raises(ValueError, match="null"):
        to_numpy(from_numpy(values, missing=values == 1))


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
ROWS = [[1, 2], None, [], [None, 3]]
THREE, FOUR = nulls(0, 1, 0), nulls(0, 1, 0, 0)


def listed(elements: pa.Array, *ends: int, mask: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets(*ends), elements, mask=mask)


MAPS = pa.MapArray.from_arrays(offsets(1, 3, 4, 4, 6), KEYS, ELEMENTS, mask=FOUR)
FIXED = pa.FixedSizeListArray.from_arrays(ints(1, 2, HIDDEN, HIDDEN, None, 3), 2, mask=THREE)
VIEWS = pa.ListViewArray.from_arrays(offsets(4, 3, 1), offsets(2, 1, 2), ELEMENTS, mask=THREE)
OF_UUIDS = pa.StructArray.from_arrays([UUIDS], ["u"])
ONE, THIRD = (UUID(bytes=bytes([i]) * 16) for i in (1, 3))
ARRAYS: dict[str, tuple[pa.Array, list[Any]]] = {
    "list": (LISTS, ROWS),
    "large list": (pa.LargeListArray.from_arrays(offsets_of(LISTS), ELEMENTS, mask=FOUR), ROWS),
    "fixed-size list": (FIXED, [[1, 2], None, [None, 3]]),
    "list view": (VIEWS, [[None, 3], None, [1, 2]]),
    "map": (MAPS, [[("a", 1), ("b", 2)], None, [], [("a", None), ("c", 3)]]),
    "struct": (STRUCTS, [{"a": 1, "l": [1, 2]}, None, {"a": None, "l": []}]),
    "struct without fields": (pa.array([{}, None, {}], pa.struct([])), [{}, None, {}]),
    "list of structs": (listed(STRUCTS, 0, 2, 3, mask=nulls(0, 1)), [[{"a": 1, "l": [1, 2]}, None], None]),
    "only null lists of structs of uuids": (listed(OF_UUIDS, 0, 1, 1, mask=nulls(1, 1)), [None, None]),
    "list of uuids": (listed(UUIDS, 1, 2, 3, 4, mask=THREE), [[ONE], None, [THIRD]]),
    "list of dictionary values": (listed(KEYS.dictionary_encode(), 1, 3, 4, mask=nulls(0, 1)), [["a", "b"], None]),
    "list of runs": (listed(pc.run_end_encode(ints(7, 7, 8, 8)), 1, 3, 4, mask=nulls(0, 1)), [[7, 8], None]),
    "list of views": (listed(KEYS.cast(pa.string_view()), 1, 3, 4, mask=nulls(0, 1)), [["a", "b"], None]),
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


def test_required_fields_of_null_structs_hold_nulls() -> None:
    type_ = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("l", pa.list_(pa.int64()))])
    found = with_children(STRUCTS, children_of(STRUCTS), type_)
    assert found.type == type_
    assert found.to_pylist() == STRUCTS.to_pylist()


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


def narrowed_by(conform: Callable[[pa.Table, pa.Schema], pa.Table]) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    return lambda array, requested_type: (
        conform(pa.table({"v": array}), pa.schema({"v": requested_type})).column("v").chunk(0)
    )


CALLERS = {
    "duckdb": narrowed_by(duckdb_conform),
    "spark": narrowed_by(spark_conform),
    "stored": lambda array, wanted: reshape(array, wanted, None),
}
BYTES = pa.int8()
"""HIDDEN is none."""
NARROW = {
    "list": pa.list_(BYTES),
    "map": pa.map_(pa.string(), BYTES),
    "struct": pa.struct([("a", BYTES), ("l", pa.list_(BYTES))]),
    "list of structs": pa.list_(pa.struct([("a", BYTES), ("l", pa.list_(BYTES))])),
}


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize("name", NARROW)
def test_values_outside_all_rows_need_not_fit(caller: Callable[..., pa.Array], name: str) -> None:
    array, rows = ARRAYS[name]
    for start in range(len(rows)):
        found = caller(array[start:], NARROW[name])
        found.validate(full=True)
        assert found.type == NARROW[name]
        assert found.to_pylist() == rows[start:]
