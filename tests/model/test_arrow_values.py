"""Arrays made of Python values and NumPy arrays are what pyarrow makes of them, and valid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from harness.metadata.model.arrow_values import array_of, from_numpy, to_numpy

_TEXTS = pa.map_(pa.string(), pa.string())


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
