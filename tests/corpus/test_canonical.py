"""The corpus' yardstick itself; these run with the default tests, without any corpus."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from canonical import canonical_table, canonical_values


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        pytest.param(pa.nulls(2), ["~", "~"], id="null"),
        pytest.param(pa.array([True, False, None]), ["true", "false", "~"], id="boolean"),
        pytest.param(pa.array([1, -5, None]), ["1", "-5", "~"], id="integer"),
        pytest.param(
            pa.array([Decimal("1.00"), Decimal("-0.50"), Decimal("100.00"), Decimal("0.00")]),
            ["1", "-0.5", "100", "0"],
            id="decimal",
        ),
        pytest.param(
            pa.array([0.1, -0.0, 1e20, math.nan, math.inf, -math.inf]),
            ["0.1", "-0.0", "1e+20", "nan", "inf", "-inf"],
            id="double",
        ),
        pytest.param(pa.array([0.1, 16777216.0, 1e-5], pa.float32()), ["0.1", "16777216.0", "1e-05"], id="float"),
        pytest.param(pa.array(['a"\n\x1f', "ä"]), ['"a\\"\\n\\u001f"', '"ä"'], id="string"),
        pytest.param(pa.array([b"\x00\xff", None]), ["x'00ff'", "~"], id="binary"),
        pytest.param(pa.array([-1, 10**6], pa.int32()).cast(pa.date32()), ["d-1", "d1000000"], id="date"),
        pytest.param(pa.array([-1, 5], pa.timestamp("us", "UTC")), ["ts-1", "ts5"], id="timestamp us"),
        pytest.param(pa.array([2], pa.timestamp("ms")), ["ts2000"], id="timestamp ms"),
        pytest.param(pa.array([-1, 2000], pa.timestamp("ns")), ["ts-1.999", "ts2"], id="timestamp ns"),
        pytest.param(pa.array([7], pa.time64("us")), ["t7"], id="time"),
        pytest.param(pa.array([7], pa.time32("ms")), ["t7000"], id="time ms"),
        pytest.param(pa.array([[1, None], None, []]), ["[1,~]", "~", "[]"], id="list"),
        pytest.param(pa.array([{"b": 1, "a": "x"}, None]), ['<a:"x",b:1>', "~"], id="struct by name"),
        pytest.param(
            pa.array([[("b", 2), ("a", None)], None], pa.map_(pa.string(), pa.int32())),
            ['{"a":~,"b":2}', "~"],
            id="map unordered",
        ),
        pytest.param(
            pa.array([[{"key": "b", "value": 2}, {"key": "a", "value": 1}]]), ['{"a":1,"b":2}'], id="list as map"
        ),
        pytest.param(
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16))),
            [f"x'{'00' * 16}'"],
            id="uuid",
        ),
        pytest.param(pa.array(["x", None]).dictionary_encode(), ['"x"', "~"], id="dictionary"),
        pytest.param(pa.array([[1], [2, 3], None]).slice(1), ["[2,3]", "~"], id="slice"),
    ],
)
def test_texts(array, expected):
    assert canonical_values(array) == expected


def test_rows_are_a_multiset_and_columns_go_by_name():
    one = canonical_table(pa.table({"b": [2, 1, 1], "a": ["x", "y", "y"]}))
    assert one.rows == ('"x"\x1f2', '"y"\x1f1', '"y"\x1f1')
    assert one == canonical_table(pa.table({"a": ["y", "x", "y"], "b": [1, 2, 1]}))
    assert one != canonical_table(pa.table({"a": ["y", "x"], "b": [1, 2]}))


def test_the_hash_is_of_names_and_rows():
    # sha256 of "a\n1\n2"
    assert canonical_table(pa.table({"a": [2, 1]})).hash() == "3154744a65aa4fd32f9e4b8f"


def test_a_null_and_its_sign_differ():
    assert canonical_values(pa.array(["~", None])) == ['"~"', "~"]
