"""The way by hashes finds what the exact way finds: values that are easily confused, types that differ, many rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty import ALL, SHARED, array

from harness.differ.buckets import passes
from harness.differ.compare import compare
from harness.differ.hashing import NULL, SAMPLES
from harness.differ.result import ComparisonResult
from harness.differ.sides import Sums

pytestmark = pytest.mark.usefixtures("one_duckdb")
BY_HASHES, AS_THEY_ARE = 0, 50_000


def counts(found: ComparisonResult) -> tuple[int, ...]:
    sides = (found.left, found.right)
    assert [side.error for side in sides] == [None, None]
    return (*(side.rows for side in sides), found.only_left, found.only_right, found.changed)


def shown(found: ComparisonResult) -> set:
    return {(row.kind, row.left, row.right, row.count, row.differing) for row in found.rows}


def both_ways(left: object, right: object, **how: object) -> ComparisonResult:
    exact, hashed = (compare(left, right, few=few, **how) for few in (AS_THEY_ARE, BY_HASHES))
    assert counts(hashed) == counts(exact)
    assert shown(hashed) == shown(exact)
    assert hashed.schema == exact.schema
    assert hashed.truncated == exact.truncated
    return hashed


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_all_values_of_a_type_are_told_apart(values: pa.Array) -> None:
    repeated = pa.array([i for i in range(len(values)) for _ in range(i + 1)])  # no two values equally often
    many = pa.concat_arrays([values[i : i + 1] for i in repeated.to_pylist()])  # take has no views
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


def test_values_are_not_moved_between_columns_or_rows() -> None:
    left = pa.table({"a": ["x", "y", None], "b": [None, "y", "x"]})
    right = pa.table({"a": ["x", "x", None], "b": ["y", None, "y"]})
    assert both_ways(left, right).only_left == 2


def test_zeros_may_be_equal() -> None:
    left, right = pa.table({"a": [0.0], "l": [[0.0]]}), pa.table({"a": [-0.0], "l": [[-0.0]]})
    assert not both_ways(left, right).equal
    assert both_ways(left, right, signed_zeros="equal").equal


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
    """Each row picks its values; the last number picks those of all further columns."""
    places = {name: [row[min(i, 2)] for row in rows] for i, name in enumerate(COLUMNS)}
    return pa.table({name: ALL[name].take(pa.array(places[name], pa.int64())) for name in COLUMNS})


@given(left=ROWS, right=ROWS)
@settings(max_examples=10, derandomize=True)
def test_both_ways_agree(left: list, right: list) -> None:
    both_ways(table_of(left), table_of(right))


def test_passes_hold_no_more_than_they_may() -> None:
    left = {b: Sums(10, b, b) for b in range(10)}
    right = {b: Sums(10, b, b + (b != 4)) for b in range(9)}
    assert list(passes(left, right, 50)) == [(0, 1), (2, 3), (5, 6), (7, 8, 9)]
    assert list(passes(left, right, 1)) == [(b,) for b in range(10) if b != 4]
    assert list(passes(left, left, 1)) == []


MASK, MULTIPLIER = (1 << 64) - 1, 0xD6E8FEB86659FD93


def mix(word: int) -> int:
    word &= MASK
    for _ in range(2):
        word = (word ^ word >> 32) * MULTIPLIER & MASK
    return word ^ word >> 32


def of_bytes(value: bytes) -> int:
    word = 0xE17A1465 ^ (len(value) * 0xC6A4A7935BD1E995 & MASK)
    for start in range(0, len(value), 8):
        word = (word ^ int.from_bytes(value[start : start + 8], "little")) * MULTIPLIER & MASK
    return mix(word)


CASES = {
    "NULL::BIGINT": NULL,
    "CAST('-1' AS BIGINT)": mix(-1),
    "CAST('18446744073709551615' AS UBIGINT)": mix(-1),
    "CAST('12345678901234567890123' AS HUGEINT)": mix(12345678901234567890123) ^ mix(12345678901234567890123 >> 64),
    "CAST('-1.25' AS DECIMAL(18, 2))": mix(-125),
    "CAST('-1.25' AS DECIMAL(38, 2))": mix(-125) ^ mix(-1),
    **{"make_timestamp(-77)": mix(-77), "TIME '00:00:01'": mix(1_000_000), "''": of_bytes(b"")},
    "'01234567'": of_bytes(b"01234567"),
    "encode('012345678')": of_bytes(b"012345678"),
    "'0123456789abcdef0123456789abcdef-é漢'": of_bytes("0123456789abcdef0123456789abcdef-é漢".encode()),
}


@pytest.mark.parametrize(("value", "expected"), CASES.items(), ids=CASES)
def test_values_hash_as_defined(value: str, expected: int) -> None:
    assert f"hash({value})" in SAMPLES
    assert duckdb.sql(f"SELECT hash({value})").fetchall() == [(expected,)]
