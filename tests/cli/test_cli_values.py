from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from harness.cli.document import plain
from harness.metadata.model.text_tables import value_text

UTC = datetime.UTC


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
