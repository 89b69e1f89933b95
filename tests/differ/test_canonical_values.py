"""Canonical values: equal where the meaning is, and nowhere else; expectations by hand."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from harness.differ.canonical import NAN_TOKEN, NEGATIVE_ZERO, canonical_values
from harness.errors import UnsupportedError

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
NS = 1_000_000_000
DAY = 86_400 * NS


def huge(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)


ENTRIES = pa.map_(pa.int8(), pa.string())
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, None]))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([None, None]), [None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(9, 2)), [Decimal("1.5"), 2, None]),
        (pa.array(["é", "", "NaN", None]), ["é".encode(), b"", b"NaN", None]),
        (pa.array([b"\xff"]).view(pa.string()), [b"\xff"]),  # text that is not UTF-8
        (pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
        (RUNS, [5, 5, None]),
        (pa.array([b"a" * 16], pa.uuid()), [b"a" * 16]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), [True, False]),
        (pa.ExtensionArray.from_storage(HUGEINT, pa.array([huge(-3), None], pa.binary(16))), [-3, None]),
        (pa.array([1, 2**31 - 1, None], pa.date32()), [DAY, (2**31 - 1) * DAY, None]),
        (pa.array([86_400_000], pa.date64()), [DAY]),
        (pa.array([1], pa.time32("s")), [NS]),
        (pa.array([1, 2**62, None], pa.timestamp("us")), [1_000, 2**62 * 1_000, None]),
        (pa.array([-(2**62)], pa.timestamp("s", "UTC")), [-(2**62) * NS]),
        (pa.array([-1], pa.duration("ms")), [-1_000_000]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), [(1, 2, 3)]),
        (pa.array([[1, None], None, []]), [(1, None), None, ()]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [(1, 2), None]),
        (pa.array([[1], None, [2]], pa.list_view(pa.int8())), [(1,), None, (2,)]),
        (pa.array([{"b": 1, "a": None}, None]), [(None, 1), None]),
        (pa.array([{}, None], pa.struct([])), [(), None]),
        (pa.array([[(2, "x"), (1, None)], None, []], ENTRIES), [((1, None), (2, b"x")), None, ()]),
        (pa.array([0.0, -0.0, float("nan"), 1.5, None]), [0.0, NEGATIVE_ZERO, NAN_TOKEN, 1.5, None]),
        (pa.array([0.1, -0.0], pa.float32()), [float(np.float32(0.1)), NEGATIVE_ZERO]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values(array, expected):
    assert canonical_values(array) == expected
    assert list(map(hash, canonical_values(array))) == list(map(hash, expected))
    for start in range(len(array) + 1):
        assert canonical_values(array.slice(start)) == expected[start:]
    assert canonical_values(pa.chunked_array([array.slice(1), array.slice(0, 1)])) == expected[1:] + expected[:1]


def test_unions_have_no_canonical_value():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(UnsupportedError, match="Cannot compare values of type sparse_union"):
        canonical_values(union)
