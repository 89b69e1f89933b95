"""Arrays made of Python values and NumPy arrays are what pyarrow makes of them, and valid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from harness.metadata.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy

_TEXTS = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a", None, "", "é\U0001f9ca"], pa.string()),
        *((["plain", "ascii"], pa.string()), ([None], pa.string()), ([], pa.string())),
        ([1, None, -(2**63), 2**63 - 1], pa.int64()),
        *(([], pa.int64()), ([1, -1], pa.int32()), ([1, None, -128], pa.int8())),
        ([b"a", None, b"", b"\xff\x00"], pa.binary()),
        ([], pa.binary()),
        ([True, None, False, True, True, False, True, True, True], pa.bool_()),
        ([[("a", "b"), ("c", None)], None, [], [("", "d")]], _TEXTS),
        *(([], _TEXTS), ([None], _TEXTS), ([1.5, None], pa.float64())),
        ([{"x": 1}], pa.struct([("x", pa.int64())])),
    ],
    ids=str,
)
def test_python_values(values: list[object], type_: pa.DataType) -> None:
    made = array_of(values, type_)
    made.validate(full=True)
    assert made.equals(pa.array(values, type_))
    assert made.null_count == values.count(None)
    assert [scalar_of(value, type_) for value in values] == list(pa.array(values, type_))


@pytest.mark.parametrize(
    ("values", "type_", "error"),
    [
        (["\ud800"], pa.string(), UnicodeError),
        (["a", 1], pa.string(), TypeError),
        ([2**63], pa.int64(), OverflowError),
        ([2**31], pa.int32(), OverflowError),
        ([b"a", "a"], pa.binary(), TypeError),
        *((["5"], pa.int64(), TypeError), ([1.0], pa.int64(), TypeError), ([True], pa.int64(), TypeError)),
        *(([1], pa.bool_(), TypeError), ([[("a", 1)]], _TEXTS, TypeError)),
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
