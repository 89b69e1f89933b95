"""Canonical values: equal where the meaning is, and nowhere else; expectations by hand."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from harness.differ.canonical import canonical_values
from harness.errors import UnsupportedError

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
NS = 1_000_000_000


def huge(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        pytest.param(pa.array([None, None]), [None, None], id="nulls"),
        pytest.param(pa.array([True, None]), [True, None], id="boolean"),
        pytest.param(pa.array([-1, None], pa.int8()), [-1, None], id="integer"),
        pytest.param(pa.array([2**64 - 1], pa.uint64()), [2**64 - 1], id="unsigned"),
        pytest.param(pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), [Decimal("1.5"), None], id="decimal"),
        pytest.param(pa.array([Decimal("2.00")], pa.decimal128(9, 2)), [2], id="decimal equals integer"),
        pytest.param(pa.array(["é", "", None]), ["é".encode(), b"", None], id="text"),
        pytest.param(pa.array(["a"], pa.string_view()), [b"a"], id="text view"),
        pytest.param(pa.array([b"\xff"]).view(pa.string()), [b"\xff"], id="text that is not UTF-8"),
        pytest.param(pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"], id="dictionary"),
        pytest.param(
            pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, None])),
            [5, 5, None],
            id="runs",
        ),
        pytest.param(pa.array([b"\x00"], pa.binary(1)), [b"\x00"], id="fixed"),
        pytest.param(pa.array([b"a" * 16], pa.uuid()), [b"a" * 16], id="uuid"),
        pytest.param(
            pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), [True, False], id="bool8"
        ),
        pytest.param(
            pa.ExtensionArray.from_storage(HUGEINT, pa.array([huge(-3), None], pa.binary(16))), [-3, None], id="hugeint"
        ),
        pytest.param(pa.array([1, None], pa.date32()), [86_400_000_000_000, None], id="date"),
        pytest.param(pa.array([86_400_000], pa.date64()), [86_400_000_000_000], id="date of milliseconds"),
        pytest.param(pa.array([2**31 - 1], pa.date32()), [(2**31 - 1) * 86_400_000_000_000], id="last date"),
        pytest.param(pa.array([1], pa.time32("s")), [NS], id="time"),
        pytest.param(pa.array([1], pa.time64("ns")), [1], id="time of nanoseconds"),
        pytest.param(pa.array([1], pa.timestamp("us")), [1_000], id="timestamp"),
        pytest.param(pa.array([1, None], pa.timestamp("ms", "UTC")), [1_000_000, None], id="instant"),
        pytest.param(pa.array([2**62, None], pa.timestamp("us")), [2**62 * 1_000, None], id="far timestamp"),
        pytest.param(pa.array([-(2**62)], pa.timestamp("s", "UTC")), [-(2**62) * NS], id="far instant"),
        pytest.param(pa.array([1], pa.timestamp("ns")), [1], id="nanosecond"),
        pytest.param(pa.array([-1], pa.duration("ms")), [-1_000_000], id="duration"),
        pytest.param(pa.array([(1, 2, 3)], pa.month_day_nano_interval()), [(1, 2, 3)], id="interval"),
        pytest.param(pa.array([[1, None], None, []]), [(1, None), None, ()], id="list"),
        pytest.param(pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [(1, 2), None], id="fixed-size list"),
        pytest.param(pa.array([[1], None, [2]], pa.list_view(pa.int8())), [(1,), None, (2,)], id="list view"),
        pytest.param(pa.array([{"b": 1, "a": None}, None]), [(None, 1), None], id="struct by name"),
        pytest.param(pa.array([{}, None], pa.struct([])), [(), None], id="empty struct"),
        pytest.param(
            pa.array([[(2, "x"), (1, None)], None, [], [(3, "y")]], pa.map_(pa.int8(), pa.string())),
            [((1, None), (2, b"x")), None, (), ((3, b"y"),)],
            id="map by key",
        ),
    ],
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
