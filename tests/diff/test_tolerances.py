"""Tolerances and exclusions, in memory and by hashes, and the counts by column and group."""

from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.diff.compare import compare
from harness.diff.result import ColumnDifference, ComparisonResult, SchemaKind
from harness.diff.tolerances import Measure, Tolerance
from harness.errors import RequestError


def both_ways(left: object, right: object, **how: object) -> ComparisonResult:
    """Compare in memory and by hashes, and return the result, which must be the same."""
    exact, hashed = (compare(left, right, direct_rows=direct_rows, **how) for direct_rows in (50_000, 0))
    for name in ("only_left", "only_right", "changed", "allowed", "schema", "rows", "equal"):
        assert getattr(hashed, name) == getattr(exact, name), name
    totals = [[(c.column, c.rows, c.allowed, c.largest, c.left_nulls) for c in x.by_column] for x in (exact, hashed)]
    assert totals[0] == totals[1]
    return hashed


@pytest.mark.parametrize(
    ("text", "tolerance", "printed"),
    [
        ("0.01", Tolerance(Decimal("0.01")), "0.01"),
        ("1e-9 relative", Tolerance(Decimal("1e-9"), Measure.RELATIVE), "1e-9 of the value"),
        ("0.1%", Tolerance(Decimal("0.001"), Measure.RELATIVE), "0.001 of the value"),
        ("4 ulps", Tolerance(Decimal(4), Measure.ULPS), "4 ulps"),
        ("500 ms", Tolerance(Decimal("0.5"), Measure.SECONDS), "0.5 s"),
        ("1 because of x", Tolerance(Decimal(1), reason="of x"), "1, because of x"),
    ],
)
def test_a_tolerance_is_read_and_printed(text: str, tolerance: Tolerance, printed: str) -> None:
    assert Tolerance.parse(text) == tolerance
    assert str(tolerance) == printed


@pytest.mark.parametrize("text", ["", "x", "-1", "1 mile", "nan", "1e9999", "0.1%%", "because x"])
def test_invalid_tolerances_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="Invalid tolerance"):
        Tolerance.parse(text)


MONEY, NAN, INF = pa.decimal128(10, 2), float("nan"), float("inf")
CLOSE = {
    "decimals-on-the-border": (MONEY, Decimal("1.00"), Decimal("1.01"), "0.01", True),
    "decimals-beyond": (MONEY, Decimal("1.00"), Decimal("1.02"), "0.019", False),
    "integers": (pa.int64(), 2**63 - 1, 2**63 - 3, "2", True),
    "decimals-relative": (MONEY, Decimal("100.00"), Decimal("101.00"), "1%", True),
    "floats": (pa.float64(), 1.0, 1.25, "0.25", True),
    "floats-beyond": (pa.float64(), 1.0, 1.25, "0.2", False),
    "ulps": (pa.float64(), 0.3, 0.1 + 0.2, "1 ulps", True),
    "ulps-across-zero": (pa.float64(), 5e-324, -5e-324, "2 ulps", True),
    "ulps-beyond": (pa.float64(), 1.0, 1.0000000000000009, "3 ulps", False),
    "signed-zeros": (pa.float64(), 0.0, -0.0, "0", True),
    "no-infinity-is-close": (pa.float64(), INF, 1e308, "100%", False),
    "no-nan-is-close": (pa.float64(), NAN, 1.0, "100%", False),
    "no-null-is-close": (pa.float64(), None, 0.0, "100%", False),
    "times": (pa.timestamp("us"), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 500), "500 us", True),
    "times-beyond": (pa.timestamp("us"), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 501), "500 us", False),
    "dates": (pa.date32(), date(2024, 1, 1), date(2024, 1, 2), "24 h", True),
}


def test_values_within_a_tolerance() -> None:
    left, right = (
        pa.table({"k": [1], **{name: pa.array([case[i]], case[0]) for name, case in CLOSE.items()}}) for i in (1, 2)
    )
    tolerances = {name: Tolerance.parse(text) for name, (*_, text, _) in CLOSE.items()}
    found = both_ways(left, right, keys=["k"], tolerance=tolerances)
    assert {each.column: each.rows == 0 for each in found.by_column} == {n: case[-1] for n, case in CLOSE.items()}
    assert found.relaxations[0] == "tolerance of decimals-on-the-border: 0.01"


def test_a_tolerance_hides_no_difference_of_another_column() -> None:
    left = pa.table({"k": [1, 2, 3], "v": [1.0, 1.0, 1.0], "w": ["a", "b", None]})
    right = pa.table({"k": [1, 2, 3], "v": [1.5, 1.5, 9.0], "w": ["a", "x", "c"]})
    found = both_ways(left, right, keys=["k"], tolerance={"v": Tolerance(Decimal("0.5"))})
    assert (found.changed, found.allowed) == (2, 1)
    assert found.by_column == (
        ColumnDifference(column="v", rows=1, allowed=2, largest="8.0", examples=(("1.0", "9.0"),)),
        ColumnDifference(column="w", rows=2, left_nulls=1, examples=found.by_column[1].examples),
    )
    assert set(found.by_column[1].examples) == {("'b'", "'x'"), ("NULL", "'c'")}


def test_differences_of_types_pass_by_rules_that_are_named() -> None:
    zone = pa.timestamp("us", "UTC")
    left = {"i": pa.array([1], pa.int32()), "d": pa.array([1]), "t": pa.array([5], zone), "s": pa.array(["1"])}
    right = {
        "i": pa.array([1], pa.uint64()),
        "d": pa.array([Decimal("1.0")]),
        "t": pa.array([5], pa.timestamp("us")),
        "s": pa.array([1]),
    }
    found = both_ways(pa.table(left), pa.table(right), types="by_value")
    rules = {each.column: each.rule for each in found.schema if each.kind is SchemaKind.RECONCILED}
    assert rules == {"i": "integer widths", "d": "decimal scale", "t": "timestamp zone"}
    assert [(each.column, each.kind) for each in found.schema if each.counts] == [("s", SchemaKind.INCOMPARABLE)]
    assert (found.only_left, found.only_right) == (0, 0)
    exact = both_ways(pa.table(left), pa.table(right), types="exact")
    assert [each.column for each in exact.schema if each.counts] == ["i", "d", "t", "s"]


TENTH_AS_FLOAT = 0.100000001490116119384765625
"""The 32-bit float nearest to 0.1."""
ROUNDED = {
    "decimal-and-double": (pa.decimal128(9, 2), Decimal("0.10"), pa.float64(), 0.1, True),
    "decimal-and-float": (pa.decimal128(9, 2), Decimal("0.10"), pa.float32(), TENTH_AS_FLOAT, True),
    "not-the-double": (pa.decimal128(9, 2), Decimal("0.10"), pa.float64(), TENTH_AS_FLOAT, False),
    "decimal-of-many-digits": (pa.decimal128(38, 20), Decimal("0.1" + "0" * 18 + "1"), pa.float64(), 0.1, True),
    "a-cast-would-be-off": (pa.decimal128(38, 20), Decimal("1.00000000000000011102"), pa.float64(), 1.0, True),
    "the-next": (pa.decimal128(38, 20), Decimal("1.00000000000000011103"), pa.float64(), 1.0 + 2**-52, True),
    "integer": (pa.int64(), 2**53 + 1, pa.float64(), 2.0**53, True),
    "unsigned": (pa.uint64(), 2**64 - 1, pa.float64(), 2.0**64, True),
    "nan": (pa.int32(), 0, pa.float64(), NAN, False),
    "null": (pa.int32(), None, pa.float64(), None, True),
    "negative-zero": (pa.int32(), 0, pa.float64(), -0.0, False),
    "true": (pa.bool_(), True, pa.int64(), 1, True),
    "false": (pa.bool_(), False, pa.uint8(), 0, True),
    "truth-is-one": (pa.bool_(), True, pa.int64(), 2, False),
    "no-truth": (pa.bool_(), None, pa.int64(), 0, False),
}


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("case", ROUNDED.values(), ids=list(ROUNDED))
def test_values_are_converted_beside_others(case: tuple, is_turned: bool) -> None:
    type_, number, other, float_, equal = case
    sides = (pa.table({"v": pa.array([number], type_)}), pa.table({"v": pa.array([float_], other)}))
    found = both_ways(*(sides[::-1] if is_turned else sides), types="by_value")
    assert found.equal is equal
    assert [each.rule for each in found.schema] == ["truth as number" if type_ == pa.bool_() else "nearest float"]
    assert not both_ways(*sides).equal


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (True, 1)])
def test_values_within_lists_are_not_converted(left: object, right: object) -> None:
    sides = (pa.table({"l": [[value]]}) for value in (left, right))
    found = compare(*sides, types="by_value")
    assert [each.kind for each in found.schema] == [SchemaKind.INCOMPARABLE]


ROWS = pa.table({"k": [1], "v": [1.0], "t": ["a"], "l": [[1.0]]})
WRONG = {
    "tolerance-of-a-key": ({"tolerance": {"k": Tolerance(Decimal(1))}, "keys": ["k"]}, "it is a key"),
    "tolerance-of-nothing": ({"tolerance": {"x": Tolerance(Decimal(1))}, "keys": ["k"]}, "a tolerance of 'x'"),
    "tolerance-of-text": ({"tolerance": {"t": Tolerance(Decimal(1))}, "keys": ["k"]}, "not numbers or times"),
    "tolerance-of-a-list": ({"tolerance": {"l": Tolerance(Decimal(1))}, "keys": ["k"]}, "not numbers or times"),
    "seconds-of-a-float": ({"tolerance": {"v": Tolerance.parse("1 s")}, "keys": ["k"]}, "expected an amount"),
    "excluded-key": ({"exclude": ("k",), "keys": ["k"]}, "Cannot exclude 'k'"),
    "keys-of-nothing": ({"keys": ["x"]}, "Cannot pair rows by 'x': the left side has no such column"),
    "types": ({"types": "nearly"}, "Invalid types 'nearly': expected exact or by_value"),
}


@pytest.mark.parametrize(("how", "sentence"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant_is_refused(how: dict, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        compare(ROWS, ROWS.slice(0, 0), **how)


def test_a_tolerance_of_floats_is_for_all_of_them_but_named_ones() -> None:
    left = pa.table({"k": [1.0], "a": [1.0], "b": pa.array([1.0], pa.float32()), "c": [1.0], "n": [1]})
    right = pa.table({"k": [1.0], "a": [1.25], "b": pa.array([1.25], pa.float32()), "c": [1.25], "n": [2]})
    found = compare(left, right, keys=["k"], tolerance={"floats": 0.5, "c": "0.1"})
    assert {each.column: (each.rows, each.allowed) for each in found.by_column} == {
        "a": (0, 1),
        "b": (0, 1),
        "c": (1, 0),
        "n": (1, 0),
    }
    assert found.relaxations == ("tolerance of all floats: 0.5", "tolerance of c: 0.1")


@pytest.mark.parametrize("floats", [{"v": 0.5}, {"floats": 0.5}], ids=["column", "floats"])
def test_rows_without_keys_are_paired_by_their_other_columns(floats: dict) -> None:
    left = pa.table({"g": ["a", "a", "b"], "v": [1.0, 2.0, 3.0]})
    right = pa.table({"g": ["b", "a", "a"], "v": [3.25, 2.25, 1.25]})
    found = both_ways(left, right, tolerance=floats)
    assert (found.equal, found.allowed, found.keys) == (True, 3, ("g", "place among equal rows"))
    assert len(found.relaxations) == 1
    assert both_ways(left, left, tolerance=floats).relaxations == ()
    assert both_ways(left, pa.table({"g": ["a", "a", "b"], "v": [1.0, 2.0, 4.0]}), tolerance=floats).changed == 1
    fewer = both_ways(left, right.slice(1), tolerance=floats)
    assert (fewer.only_left, fewer.only_right) == (3, 2)
    (line,) = fewer.relaxations
    assert "not applied: without keys" in line


def test_many_rows_are_paired_by_keys_alone() -> None:
    numbers = pa.array(range(2_000_001), pa.float64())
    left, right = pa.table({"v": numbers}), pa.table({"v": pc.add(numbers, 0.25)})
    with pytest.raises(RequestError, match="without keys for more than 2,000,000 rows: pass keys"):
        compare(left, right, tolerance={"v": 0.5}, max_rows=0)


def test_a_tolerance_of_a_converted_column_is_one_of_floats() -> None:
    left, right = pa.table({"k": [1, 2], "v": [10, 20]}), pa.table({"k": [1, 2], "v": [10.25, 21.0]})
    for how in ({"keys": ["k"]}, {}):
        found = both_ways(left, right, types="by_value", tolerance={"v": "0.5"}, **how)
        assert (found.changed, found.allowed) == (1, 1)


def test_a_column_called_floats_has_its_own_tolerance() -> None:
    left, right = (pa.table({"k": [1], "floats": [value], "other": [value]}) for value in (1.0, 1.25))
    found = both_ways(left, right, keys=["k"], tolerance={"floats": 1})
    assert [(each.column, each.rows) for each in found.by_column] == [("floats", 0), ("other", 1)]
    assert found.relaxations == ("tolerance of floats: 1",)


def test_schemas_alone_are_compared() -> None:
    def fail() -> None:
        raise AssertionError("a row was read")

    source = duckdb.connect()
    source.create_function("fail", lambda _: fail(), ["INTEGER"], "INTEGER")
    left = source.sql("SELECT fail(1) AS a, 'x' AS b")
    found = compare(left, pa.table({"a": pa.array([5], pa.int32()), "b": ["y"]}), schema_only=True)
    assert found.equal
    assert found.to_text().startswith("equal: no schema difference in 2 columns\n")
    assert (found.left.rows, found.right.rows) == (None, None)
    assert 'message="schemas alone were compared"' in found.to_junit()
    assert "<dt>rows" not in found.to_html()
    other = compare(left, pa.table({"a": ["1"], "c": [1]}), schema_only=True)
    assert [each.column for each in other.schema if each.counts] == ["a", "b", "c"]
    assert not other.equal
