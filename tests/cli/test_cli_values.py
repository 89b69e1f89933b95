from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from arrow_json import json_values

from harness.cli.document import plain
from harness.metadata.model.text_tables import value_text

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        pytest.param(pa.array([None, None], pa.null()), [None, None], id="null"),
        pytest.param(pa.array([True, None, False]), [True, None, False], id="boolean"),
        pytest.param(
            pa.array([2**53, 2**53 + 1, -(2**53), -(2**53) - 1]),
            [2**53, "9007199254740993", -(2**53), "-9007199254740993"],
            id="integers outside 2^53 are text",
        ),
        pytest.param(
            pa.array([0.1, math.nan, math.inf, -math.inf, -0.0, None]),
            [0.1, "NaN", "Infinity", "-Infinity", -0.0, None],
            id="double",
        ),
        pytest.param(pa.array([0.1, 3.4028235e38, 1e-45], pa.float32()), [0.1, 3.4028235e38, 1e-45], id="float"),
        pytest.param(pa.array([Decimal("1.50"), Decimal("0E-2"), None]), ["1.50", "0.00", None], id="decimal"),
        pytest.param(
            pa.array([Decimal(7), Decimal(2**53 + 1), None], pa.decimal128(38, 0)),
            [7, "9007199254740993", None],
            id="decimal without a fraction",
        ),
        pytest.param(
            pa.array([Decimal("0.0000000001")], pa.decimal128(38, 10)), ["0.0000000001"], id="decimal without exponent"
        ),
        pytest.param(pa.array(["", "ä\n", None]), ["", "ä\n", None], id="string"),
        pytest.param(pa.array([b"\x00\xff", b"", None]), ["00FF", "", None], id="binary"),
        pytest.param(pa.array([b"\x00\xff"], pa.binary(2)), ["00FF"], id="fixed"),
        pytest.param(
            pa.array([0, 19753, -719163, 3_000_000, None], pa.int32()).cast(pa.date32()),
            ["1970-01-01", "2024-01-31", "0000-12-31", "10183-09-21", None],
            id="date, also outside the years of datetime",
        ),
        pytest.param(
            pa.array([0, 1, 500_000, -1], pa.timestamp("us")),
            [
                "1970-01-01T00:00:00",
                "1970-01-01T00:00:00.000001",
                "1970-01-01T00:00:00.5",
                "1969-12-31T23:59:59.999999",
            ],
            id="timestamp",
        ),
        pytest.param(pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"], id="timestamp ns"),
        pytest.param(
            pa.array([0], pa.timestamp("us", "Europe/Berlin")), ["1970-01-01T00:00:00Z"], id="instants are shown in UTC"
        ),
        pytest.param(pa.array([45_000_500_000], pa.time64("us")), ["12:30:00.5"], id="time"),
        pytest.param(pa.array([1500], pa.duration("ms")), ["PT1.5S"], id="duration"),
        pytest.param(
            pa.array([pa.MonthDayNano([1, 2, 3_500_000_000]), pa.MonthDayNano([0, 0, 0])]),
            ["P1M2DT3.5S", "PT0S"],
            id="interval",
        ),
        pytest.param(pa.array([[1, None], None, []]), [[1, None], None, []], id="list"),
        pytest.param(
            pa.array([{"a": 1, "b": b"\x01"}, None, {"a": None, "b": None}]),
            [{"a": 1, "b": "01"}, None, {"a": None, "b": None}],
            id="struct",
        ),
        pytest.param(
            pa.array([[(1, "x"), (2, None)], None], pa.map_(pa.int32(), pa.string())),
            [[[1, "x"], [2, None]], None],
            id="map",
        ),
        pytest.param(pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"], id="enum"),
        pytest.param(
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16))),
            ["00010203-0405-0607-0809-0a0b0c0d0e0f", None],
            id="uuid",
        ),
    ],
)
def test_arrow_values_become_json(array, expected):
    values = json_values(array)
    assert repr(values) == repr(expected)  # repr: 1 is not True, 0.0 is not -0.0
    json.dumps(values, allow_nan=False)


def test_a_slice_of_nested_values_is_that_slice():
    array = pa.array([{"a": [1]}, {"a": [2, 3]}, None, {"a": None}]).slice(1, 3)
    assert json_values(array) == [{"a": [2, 3]}, None, {"a": None}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, "9223372036854775808"),
        (True, True),
        (math.nan, "NaN"),
        (Decimal("1E+2"), "100"),
        (b"\xab", "AB"),
        (datetime.datetime(2024, 1, 31, 12, tzinfo=UTC), "2024-01-31T12:00:00Z"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        ({1: (None, {"x": [b"\x01"]})}, {"1": [None, {"x": ["01"]}]}),
    ],
)
def test_python_values_become_json(value, expected):
    assert repr(plain(value)) == repr(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((None, "-"), ("x\x1b", "x\\x1b"), (1, "1"), (True, "true"), (0.5, "0.5"), ([], "-"), ({}, "-")),
        ({"a": ["ä", None], "b": {}}, "a=ä, -, b=-"),
        ([["a"], 1], '[["a"],1]'),
    ],
)
def test_values_stand_on_a_line(value, expected):
    assert value_text("any", value) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        *(("n", "2000000"), ("bytes", "1.9 MiB"), ("added_bytes", "1.9 MiB"), ("bytes_added", "1.9 MiB")),
        *(("last_updated_ms", "1970-01-01T00:33:20.000Z"), ("max_age_ms", "2000000"), ("kilobytes", "2000000")),
    ],
)
def test_times_and_sizes_are_for_people(key, expected):
    assert value_text(key, 2_000_000) == expected
