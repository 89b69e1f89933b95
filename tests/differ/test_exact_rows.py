"""Row differences against hand-made expectations, and against counters of plain Python values."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
import pytest
from comparing import difference_of
from hypothesis import given
from hypothesis import strategies as st

from harness.differ.exact import DifferingRow
from harness.differ.result import RowDifference, RowKind
from harness.errors import RequestError

LEFT, RIGHT, CHANGED = RowKind.ONLY_LEFT, RowKind.ONLY_RIGHT, RowKind.CHANGED


def table(*rows, names="abc", types=None):
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in types]
    kinds = types or [None] * len(columns)
    return pa.table({n: pa.array(list(c), t) for n, c, t in zip(names, columns, kinds, strict=False)})


def found(left, right, **how):
    difference = difference_of(left, right, left.column_names, **{"max_rows": 100, **how})
    return [(r.kind, r.left or r.right, r.count) for r in difference.rows]


# -- as multisets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "texts"),
    [
        pytest.param(pa.array([""]), pa.array([None], pa.string()), ("''", "NULL"), id="empty text and null"),
        pytest.param(pa.array([0.0]), pa.array([-0.0]), ("0.0", "-0.0 (0x8000000000000000)"), id="zeros"),
        pytest.param(
            pa.array([math.nan]),
            pa.array([None], pa.float64()),
            ("NaN (0x7ff8000000000000)", "NULL"),
            id="NaN and null",
        ),
        pytest.param(
            pa.array([0.1], pa.float32()), pa.array([0.1]), ("0.1 (0x3dcccccd)", "0.1"), id="float and double"
        ),
        pytest.param(
            pa.array([0], pa.timestamp("us", "UTC")),
            pa.array([3_600_000_000], pa.timestamp("us", "Europe/Berlin")),
            ("1970-01-01 00:00:00.000000Z", "1970-01-01 01:00:00.000000Z"),
            id="shifted zone",
        ),
        pytest.param(pa.array([[1, 2]]), pa.array([[2, 1]]), ("[1, 2]", "[2, 1]"), id="order in lists"),
        pytest.param(pa.array([[None]]), pa.array([None], pa.list_(pa.null())), ("[NULL]", "NULL"), id="nested null"),
    ],
)
def test_different_values(left, right, texts):
    a, b = pa.table({"a": left}), pa.table({"a": right})
    assert found(a, b) == [(LEFT, (texts[0],), 1), (RIGHT, (texts[1],), 1)]


def test_partners():
    left = table((1, "a", 1.0), (2, "b", 2.0), (9, "z", 9.0))
    right = table((2, "b", 2.5), (1, "", 1.0), (5, "q", 9.0))  # the last two share one column of three
    rows = difference_of(left, right, left.column_names, max_rows=9).rows
    assert [(r.left or r.right, r.differing, r.partner) for r in rows] == [
        *((("1", "'a'", "1.0"), ("b",), 3), (("2", "'b'", "2.0"), ("c",), 4), (("9", "'z'", "9.0"), (), None)),
        *((("1", "''", "1.0"), ("b",), 0), (("2", "'b'", "2.5"), ("c",), 1), (("5", "'q'", "9.0"), (), None)),
    ]


VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, math.inf]))
TEXTS = st.sampled_from([None, "", "a", "NaN", "-0.0"])
LISTS = st.one_of(st.none(), st.lists(st.sampled_from([None, 0.0, -0.0, math.nan]), max_size=2))
ROWS = st.lists(st.tuples(st.integers(0, 2), VALUES, TEXTS, LISTS), max_size=12)
TYPES = [pa.int8(), pa.float64(), pa.string(), pa.list_(pa.float64())]


def plain(value):
    """A value by what it means, in a way that shares nothing with the code under test."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else ("float", value, math.copysign(1, value))
    return ("list", *map(plain, value)) if isinstance(value, list) else ("plain", value)


def arrow(rows):
    return table(*rows, names="abcd", types=TYPES)


@given(ROWS, ROWS)
def test_multiset_difference_is_that_of_counters(left, right):
    a, b = (Counter(tuple(map(plain, row)) for row in rows) for rows in (left, right))
    difference = difference_of(arrow(left), arrow(right), list("abcd"), max_rows=1_000)
    fewer = difference_of(arrow(left), arrow(right), list("abcd"), max_rows=2)
    assert sorted(fewer.differing, key=repr) == sorted(difference.differing, key=repr)
    for kind, rows, expected in ((LEFT, left, a - b), (RIGHT, right, b - a)):
        held = [
            (each.left if kind is LEFT else each.right, each.count) for each in fewer.differing if each.kind is kind
        ]
        assert {tuple(map(plain, rows[i])): count for i, count in held} == expected
    assert (difference.only_left, difference.only_right) == ((a - b).total(), (b - a).total())


# -- by keys ----------------------------------------------------------------------------------------------------------


def test_rows_are_paired_by_key():
    left = table((1, "a", 0.0), (2, "b", 1.0), (3, "c", 2.0), (None, "n", 1.0))
    right = table((None, "n", 2.0), (4, "d", 1.0), (1, None, -0.0), (2, "b", 1.0))
    difference = difference_of(left, right, ["a", "b", "c"], ["a"], max_rows=9)
    assert difference.rows == (
        RowDifference(
            kind=CHANGED, left=("NULL", "'n'", "1.0"), right=("NULL", "'n'", "2.0"), count=1, differing=("c",)
        ),
        RowDifference(
            kind=CHANGED,
            left=("1", "'a'", "0.0"),
            right=("1", "NULL", "-0.0 (0x8000000000000000)"),
            count=1,
            differing=("b", "c"),
        ),
        RowDifference(kind=LEFT, left=("3", "'c'", "2.0"), right=None),
        RowDifference(kind=RIGHT, left=None, right=("4", "'d'", "1.0")),
    )
    assert (difference.only_left, difference.only_right, difference.changed) == (1, 1, 2)
    rows = (DifferingRow(CHANGED, 3, 0), DifferingRow(CHANGED, 0, 2), DifferingRow(LEFT, 2, None))
    assert difference.differing == (*rows, DifferingRow(RIGHT, None, 1))


def test_duplicate_keys_are_refused():
    good, bad = table((1, "x"), (2, "x")), table((2, "x"), (2, "y"), (2, "z"), (3, "x"), (3, "x"))
    with pytest.raises(RequestError, match="the right side has 3 rows with a = 2, and 2 such keys in all"):
        difference_of(good, bad, ["a", "b"], ["a"], max_rows=9)
    with pytest.raises(RequestError, match="the left side has 2 rows with a = NULL, b = 'x'"):
        difference_of(table((None, "x"), (None, "x")), good, ["a", "b"], ["a", "b"], max_rows=9)
