"""Differing rows, compared in memory and by hashes; expectations by hand and by counters of plain values."""

import math
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from comparing import difference_of, row
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty import ALL, SHARED, array

from harness.diff.by_hashes import differing_batches
from harness.diff.compare import compare
from harness.diff.exact import DifferingRow
from harness.diff.result import ComparisonResult, RowKind
from harness.diff.sides import Sums
from harness.errors import RequestError

LEFT, RIGHT, CHANGED = RowKind.ONLY_LEFT, RowKind.ONLY_RIGHT, RowKind.CHANGED


def table(*rows, names="abc", types=None):
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in types]
    kinds = types or [None] * len(columns)
    return pa.table({n: pa.array(list(c), t) for n, c, t in zip(names, columns, kinds, strict=False)})


def test_partners():
    left = table((1, "a", 1.0), (2, "b", 2.0), (9, "z", 9.0))
    right = table((2, "b", 2.5), (1, "", 1.0), (5, "q", 9.0))  # the last two share one column of three
    rows = difference_of(left, right, left.column_names, max_rows=9).rows
    assert [(r.left or r.right, r.differing, r.partner) for r in rows] == [
        (("1", "'a'", "1.0"), ("b",), 3),
        (("2", "'b'", "2.0"), ("c",), 4),
        (("9", "'z'", "9.0"), (), None),
        (("1", "''", "1.0"), ("b",), 0),
        (("2", "'b'", "2.5"), ("c",), 1),
        (("5", "'q'", "9.0"), (), None),
    ]


VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, math.inf]))
TEXTS = st.sampled_from([None, "", "a", "NaN", "-0.0"])
LISTS = st.one_of(st.none(), st.lists(st.sampled_from([None, 0.0, -0.0, math.nan]), max_size=2))
PLAIN_ROWS = st.lists(st.tuples(st.integers(0, 2), VALUES, TEXTS, LISTS), max_size=12)
TYPES = [pa.int8(), pa.float64(), pa.string(), pa.list_(pa.float64())]


def plain(value):
    """Return a value in a form that shares no code with the code under test."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else ("float", value, math.copysign(1, value))
    return ("list", *map(plain, value)) if isinstance(value, list) else ("plain", value)


def arrow(rows):
    return table(*rows, names="abcd", types=TYPES)


@given(PLAIN_ROWS, PLAIN_ROWS)
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


def test_rows_are_paired_by_key():
    left = table((1, "a", 0.0), (2, "b", 1.0), (3, "c", 2.0), (None, "n", 1.0))
    right = table((None, "n", 2.0), (4, "d", 1.0), (1, None, -0.0), (2, "b", 1.0))
    difference = difference_of(left, right, ["a", "b", "c"], ["a"], max_rows=9)
    zeros = (("1", "'a'", "0.0"), ("1", "NULL", "-0.0 (0x8000000000000000)"))
    assert difference.rows == (
        row(CHANGED, ("NULL", "'n'", "1.0"), ("NULL", "'n'", "2.0"), differing=("c",)),
        row(CHANGED, *zeros, differing=("b", "c")),
        row(LEFT, ("3", "'c'", "2.0"), None),
        row(RIGHT, None, ("4", "'d'", "1.0")),
    )
    assert (difference.only_left, difference.only_right, difference.changed) == (1, 1, 2)
    rows = (DifferingRow(CHANGED, 3, 0), DifferingRow(CHANGED, 0, 2), DifferingRow(LEFT, 2, None))
    assert difference.differing == (*rows, DifferingRow(RIGHT, None, 1))


def test_duplicate_keys_are_refused():
    good, bad = table((1, "x"), (2, "x")), table((2, "x"), (2, "y"), (2, "z"), (3, "x"), (3, "x"))
    with pytest.raises(RequestError, match="the right side has 3 rows with a = 2, and 2 keys occur several times"):
        difference_of(good, bad, ["a", "b"], ["a"], max_rows=9)
    with pytest.raises(RequestError, match="the left side has 2 rows with a = NULL, b = 'x'"):
        difference_of(table((None, "x"), (None, "x")), good, ["a", "b"], ["a", "b"], max_rows=9)


BY_HASHES, AS_THEY_ARE = 0, 50_000


def counts(comparison: ComparisonResult) -> tuple[int, ...]:
    sides = (comparison.left, comparison.right)
    assert [side.error for side in sides] == [None, None]
    return (*(side.rows for side in sides), comparison.only_left, comparison.only_right, comparison.changed)


def printed_differences(comparison: ComparisonResult) -> set:
    return {(row.kind, row.left, row.right, row.count, row.differing) for row in comparison.rows}


def both_ways(left: object, right: object, **how: object) -> ComparisonResult:
    exact, hashed = (compare(left, right, direct_rows=direct_rows, **how) for direct_rows in (AS_THEY_ARE, BY_HASHES))
    assert counts(hashed) == counts(exact)
    assert printed_differences(hashed) == printed_differences(exact)
    assert hashed.schema == exact.schema
    assert hashed.truncated == exact.truncated
    return hashed


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_all_values_of_a_type_are_distinct(values: pa.Array) -> None:
    repeated = pa.array([i for i in range(len(values)) for _ in range(i + 1)])  # no two values occur equally often
    many = pa.concat_arrays([values[i : i + 1] for i in repeated.to_pylist()])  # `take` does not support views
    found = both_ways(pa.table({"v": many}), pa.table({"v": values[:0]}))
    assert sorted(row.count for row in found.rows) == list(range(1, len(values) + 1))


@pytest.mark.parametrize("values", SHARED.values(), ids=SHARED)
def test_duckdb_and_arrow_hash_alike(values: pa.Array) -> None:
    rows = pa.table({"v": values})
    assert both_ways(rows, duckdb.connect().from_arrow(rows)).equal


CROSSED = {
    "int32-int64": (pa.int32(), pa.int64(), [1, -1, None]),
    "int64-decimal": (pa.int64(), pa.decimal128(20, 2), [1, -1, 10**15, None]),
    "int32-narrow-decimal": (pa.int32(), pa.decimal128(9, 2), [1, -1, None]),
    "uint64-int64": (pa.uint64(), pa.int64(), [1, 2**63 - 1, None]),
    "decimals": (pa.decimal128(9, 2), pa.decimal128(38, 10), [1, -1, None]),
    "decimals-too-wide-for-one-scale": (pa.decimal128(38, 0), pa.decimal128(38, 30), [0, 1, -1, None]),
    "float-double": (pa.float32(), pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "time-units": (pa.time32("ms"), pa.time64("ns"), None),
    "timestamp-units": (pa.timestamp("us"), pa.timestamp("ns"), None),
    "instant-units": (pa.timestamp("s", "UTC"), pa.timestamp("ns", "Europe/Berlin"), None),
    "dates": (pa.date32(), pa.date64(), None),
    "text": (pa.string(), pa.large_string(), ["", "a", None]),
    "bytes": (pa.binary(), pa.binary(2), [b"ab", b"\0\0", None]),
    "nulls": (pa.null(), pa.string(), [None, None]),
}


@pytest.mark.parametrize(("first", "second", "values"), CROSSED.values(), ids=CROSSED)
def test_equal_values_of_two_types_hash_alike(first: pa.DataType, second: pa.DataType, values: list | None) -> None:
    if values is None:
        left = array([0, 1, -1, None], pa.int32() if first.bit_width == 32 else pa.int64()).cast(first)
        right = left.cast(pa.timestamp("us")).cast(second) if pa.types.is_date32(first) else left.cast(second)
    else:
        left, right = array(values, first), array(values, second)
    found = both_ways(pa.table({"v": left}), pa.table({"v": right}))
    assert (found.only_left, found.only_right) == (0, 0)
    fewer = both_ways(pa.table({"v": left}), pa.table({"v": right[1:]}))
    assert (fewer.only_left, fewer.only_right) == (1, 0)


def test_a_finer_unit_is_not_rounded() -> None:
    left = pa.table({"t": array([1, -1], pa.timestamp("us"))})
    right = pa.table({"t": array([1001, -1000], pa.timestamp("ns"))})
    found = both_ways(left, right)
    assert (found.only_left, found.only_right) == (1, 1)


def test_signed_zeros_differ() -> None:
    left, right = pa.table({"a": [0.0], "l": [[0.0]]}), pa.table({"a": [-0.0], "l": [[-0.0]]})
    assert not both_ways(left, right).equal


def test_fields_go_by_name_and_maps_without_order() -> None:
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    turned = pa.struct([("b", pa.string()), ("a", pa.int64())])
    entries = pa.map_(pa.string(), pa.int64())
    left = pa.table({"s": array([{"a": 1, "b": "x"}], struct), "m": array([[("a", 1), ("b", 2)]], entries)})
    right = pa.table({"s": array([{"a": 1, "b": "x"}], turned), "m": array([[("b", 2), ("a", 1)]], entries)})
    assert both_ways(left, right).only_left == 0


COLUMNS = ("int64", "double", "text", "decimal-38-10", "list", "struct", "map", "instant", "uuid")
ROWS = st.lists(st.tuples(*[st.integers(0, len(ALL[name]) - 1) for name in COLUMNS[:2]], st.integers(0, 3)), max_size=8)


def table_of(rows: list[tuple[int, ...]]) -> pa.Table:
    """Return a table whose rows select their values. The last number selects the values of further columns."""
    places = {name: [row[min(i, 2)] for row in rows] for i, name in enumerate(COLUMNS)}
    return pa.table({name: ALL[name].take(pa.array(places[name], pa.int64())) for name in COLUMNS})


@given(left=ROWS, right=ROWS)
@settings(max_examples=10, derandomize=True)
def test_both_ways_agree(left: list, right: list) -> None:
    both_ways(table_of(left), table_of(right))


def test_passes_hold_no_more_than_they_may() -> None:
    left = {b: Sums(10, b, b) for b in range(10)}
    right = {b: Sums(10, b, b + (b != 4)) for b in range(9)}
    assert list(differing_batches(left, right, 50)) == [(0, 1), (2, 3), (5, 6), (7, 8, 9)]
    assert list(differing_batches(left, right, 1)) == [(b,) for b in range(10) if b != 4]
    assert list(differing_batches(left, left, 1)) == []
