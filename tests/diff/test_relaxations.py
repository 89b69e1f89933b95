"""What a comparison lets pass, of rows in memory and by hashes alike; and what it says of columns and groups."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from harness.diff.compare import compare
from harness.diff.relaxations import ALL_TYPE_RULES, Measure, Relaxations, Tolerance, TypeRule
from harness.diff.result import ColumnDifference, ComparisonResult, SchemaKind
from harness.errors import RequestError


def both_ways(left: object, right: object, **how: object) -> ComparisonResult:
    """The comparison, which is the same in memory and by hashes."""
    exact, hashed = (compare(left, right, few=few, **how) for few in (50_000, 0))
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
def test_what_is_no_tolerance_is_refused(text: str) -> None:
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


def test_what_is_within_a_tolerance() -> None:
    left, right = (
        pa.table({"k": [1], **{name: pa.array([case[i]], case[0]) for name, case in CLOSE.items()}}) for i in (1, 2)
    )
    tolerances = {name: Tolerance.parse(text) for name, (*_, text, _) in CLOSE.items()}
    found = both_ways(left, right, keys=["k"], relaxations=Relaxations(tolerance=tolerances))
    assert {each.column: each.rows == 0 for each in found.by_column} == {n: case[-1] for n, case in CLOSE.items()}
    assert found.relaxations[0] == "tolerance of decimals-on-the-border: 0.01"


def test_a_tolerance_hides_no_difference_of_another_column() -> None:
    left = pa.table({"k": [1, 2, 3], "v": [1.0, 1.0, 1.0], "w": ["a", "b", None]})
    right = pa.table({"k": [1, 2, 3], "v": [1.5, 1.5, 9.0], "w": ["a", "x", "c"]})
    found = both_ways(left, right, keys=["k"], relaxations=Relaxations(tolerance={"v": Tolerance(Decimal("0.5"))}))
    assert (found.changed, found.allowed) == (2, 1)
    assert found.by_column == (
        ColumnDifference(column="v", rows=1, allowed=2, largest="8.0", examples=(("1.0", "9.0"),)),
        ColumnDifference(column="w", rows=2, left_nulls=1, examples=found.by_column[1].examples),
    )
    assert set(found.by_column[1].examples) == {("'b'", "'x'"), ("NULL", "'c'")}


TEXTS = ["Ab", "ΑΣ", " x ", "", "\tx", None]
FORMS = {
    "case": (Relaxations(ignore_case=True), ["aB", "ας", " X ", "", "\tX", None]),
    "trim": (Relaxations(trim=True), ["Ab ", "ΑΣ", "x", "  ", "\tx", None]),
    "null": (Relaxations(null_as=""), ["Ab", "ΑΣ", " x ", None, "\tx", ""]),
    "trimmed-to-null": (Relaxations(trim=True, null_as="x"), ["Ab", "ΑΣ", None, "", "\tx", "x "]),
}


@pytest.mark.parametrize(("relaxed", "other"), FORMS.values(), ids=FORMS)
def test_text_in_another_form(relaxed: Relaxations, other: list) -> None:
    left, right = (pa.table({"k": range(6), "t": pa.array(texts, pa.string())}) for texts in (TEXTS, other))
    found = both_ways(left, duckdb.connect().from_arrow(right), keys=["k"], relaxations=relaxed)
    assert found.equal
    assert found.relaxations
    assert not both_ways(left, right).equal


def test_differences_of_types_pass_by_rules_that_are_named() -> None:
    zone = pa.timestamp("us", "UTC")
    left = {"i": pa.array([1], pa.int32()), "d": pa.array([1]), "t": pa.array([5], zone), "s": pa.array(["1"])}
    right = {
        "i": pa.array([1], pa.uint64()),
        "d": pa.array([Decimal("1.0")]),
        "t": pa.array([5], pa.timestamp("us")),
        "s": pa.array([1]),
    }
    found = both_ways(pa.table(left), pa.table(right), relaxations=Relaxations(types=ALL_TYPE_RULES))
    rules = {each.column: each.rule for each in found.schema if each.kind is SchemaKind.RECONCILED}
    assert rules == {"i": "integer widths", "d": "decimal scale", "t": "timestamp zone"}
    assert [(each.column, each.kind) for each in found.schema if each.counts] == [("s", SchemaKind.INCOMPARABLE)]
    assert (found.only_left, found.only_right) == (0, 0)
    forbidden = Relaxations(types=ALL_TYPE_RULES - {TypeRule.ZONES})
    assert [each.column for each in compare(pa.table(left), pa.table(right), relaxations=forbidden).schema][-2:] == [
        "t",
        "s",
    ]


TENTH_AS_FLOAT = 0.100000001490116119384765625
"""The 32-bit float that is nearest to a tenth."""
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
    found = both_ways(*(sides[::-1] if is_turned else sides), relaxations=Relaxations(types=ALL_TYPE_RULES))
    assert found.equal is equal
    assert [each.rule for each in found.schema] == ["truth as number" if type_ == pa.bool_() else "nearest float"]
    assert not both_ways(*sides).equal


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (True, 1)])
def test_values_within_lists_are_not_converted(left: object, right: object) -> None:
    sides = (pa.table({"l": [[value]]}) for value in (left, right))
    found = compare(*sides, relaxations=Relaxations(types=ALL_TYPE_RULES))
    assert [each.kind for each in found.schema] == [SchemaKind.INCOMPARABLE]


def test_the_same_keys_are_sampled_on_both_sides() -> None:
    left = pa.table({"k": range(5000), "v": range(5000)})
    right = pa.table({"k": range(5000), "v": [-1] * 5000})
    found = compare(left, duckdb.connect().from_arrow(right), keys=["k"], sample_keys=40)
    assert (found.left.rows, found.right.rows, found.sampled) == (40, 40, 40)
    assert (found.changed, found.only_left, found.only_right) == (40, 0, 0)
    assert [row.left for row in found.rows] == [
        row.left for row in compare(left, right, keys=["k"], sample_keys=40).rows
    ]


ROWS = pa.table({"k": [1], "v": [1.0], "t": ["a"], "l": [[1.0]]})
WRONG = {
    "tolerance-without-keys": ({"tolerance": {"v": Tolerance(Decimal(1))}}, {}, "without keys"),
    "tolerance-of-a-key": ({"tolerance": {"k": Tolerance(Decimal(1))}}, {"keys": ["k"]}, "it is a key"),
    "tolerance-of-nothing": ({"tolerance": {"x": Tolerance(Decimal(1))}}, {"keys": ["k"]}, "a tolerance of 'x'"),
    "tolerance-of-text": ({"tolerance": {"t": Tolerance(Decimal(1))}}, {"keys": ["k"]}, "no numbers or times"),
    "tolerance-of-a-list": ({"tolerance": {"l": Tolerance(Decimal(1))}}, {"keys": ["k"]}, "no numbers or times"),
    "seconds-of-a-float": ({"tolerance": {"v": Tolerance.parse("1 s")}}, {"keys": ["k"]}, "expected an amount"),
    "excluded-key": ({"exclude": ("k",)}, {"keys": ["k"]}, "Cannot exclude 'k'"),
    "renamed-nothing": ({"rename": {"x": "k"}}, {}, "the left side has no such column"),
    "renamed-to-nothing": ({"rename": {"k": "x"}}, {}, "the right side has no such column"),
    "renamed-onto-another": ({"rename": {"t": "k"}}, {}, "has a column 't' too"),
    "sample-without-keys": ({}, {"sample_keys": 5}, "and keys"),
    "cast-of-nothing": ({"cast": {"x": "INT"}}, {}, "Cannot cast 'x': the left side has no such column"),
    "cast-to-nothing": ({"cast": {"v": "INTS"}}, {}, "Cannot cast 'v' to 'INTS': DuckDB has no such type"),
    "cast-to-a-misspelled-type": ({"cast": {"v": "strng"}}, {}, "did you mean 'STRING'"),
    "cast-of-a-list": ({"cast": {"l": "VARCHAR"}}, {}, "Cannot cast the left side's column 'l', of type list"),
    "excluded-cast": ({"cast": {"v": "INT"}, "exclude": ["V"], "ignore_name_case": True}, {}, "Cannot exclude 'V'"),
    "unknown-word": ({}, {"tolerances": {}}, "Unknown argument 'tolerances' of compare"),
    "keys-of-nothing": ({}, {"keys": ["x"]}, "Cannot pair rows by 'x': the left side has no such column"),
    "groups-by-nothing": ({}, {"group_by": ["x"]}, "groups by 'x'"),
}


@pytest.mark.parametrize(("relaxed", "how", "sentence"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant_is_refused(relaxed: dict, how: dict, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        compare(ROWS, ROWS.slice(0, 0), relaxations=Relaxations(**relaxed), **how)


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


def test_a_column_called_floats_has_its_own_tolerance() -> None:
    left, right = (pa.table({"k": [1], "floats": [value], "other": [value]}) for value in (1.0, 1.25))
    found = both_ways(left, right, keys=["k"], relaxations=Relaxations(tolerance={"floats": 1}))
    assert [(each.column, each.rows) for each in found.by_column] == [("floats", 0), ("other", 1)]
    assert found.relaxations == ("tolerance of floats: 1",)


def test_columns_are_paired_without_the_case_of_their_names(tmp_path: Path) -> None:
    left = pa.table({"Id": [1, 2], "Name": ["a", "b"], "Old": [1.0, 2.0], "x": [0, 0]})
    right = pa.table({"ID": [2, 1], "NAME": ["b", "c"], "new": [2.0, 1.5], "X": [1, 1]})
    relaxed = Relaxations(ignore_name_case=True, rename={"old": "NEW"}, exclude=["x"], tolerance={"OLD": 0.5})
    (tmp_path / "right.csv").write_text("ID,NAME,new,X\n2,b,2.0,1\n1,c,1.5,1\n")
    for side in (right, duckdb.connect().from_arrow(right), str(tmp_path / "right.csv")):
        found = both_ways(left, side, keys=["id"], relaxations=relaxed)
        assert (found.columns, found.keys, found.changed, found.allowed) == (("Id", "Name", "Old"), ("Id",), 1, 0)
        assert [(each.column, each.rows, each.allowed) for each in found.by_column] == [("Name", 1, 0), ("Old", 0, 1)]
        turned = both_ways(side, left, columns=["iD", "nAME"], relaxations=Relaxations(ignore_name_case=True))
        assert (turned.columns, turned.only_left) == (("ID", "NAME"), 1)
    assert "renamed: old" not in " ".join(found.relaxations)
    assert compare(left, right, keys=["Id"], columns=["Id"], ignore_name_case=True).equal


def test_names_that_differ_by_case_alone_are_refused() -> None:
    both = pa.table([[1], [2]], names=["a", "A"])
    with pytest.raises(RequestError, match="Cannot ignore the case of names: the right side has 'a' and 'A'"):
        compare(pa.table({"a": [1]}), both, ignore_name_case=True)


CASTS = {
    "text-to-integer": (pa.string(), ["1", " 2", None], "BIGINT", pa.int64(), [1, 2, None]),
    "integer-to-text": (pa.int32(), [1, None], "VARCHAR", pa.string(), ["1", None]),
    "double-to-decimal": (pa.float64(), [0.125, 2.0], "DECIMAL(9, 2)", pa.decimal128(9, 2), ["0.13", "2.00"]),
    "micros-to-text": (pa.timestamp("us"), [1], "VARCHAR", pa.string(), ["1970-01-01 00:00:00.000001"]),
    "zone-to-text": (pa.timestamp("ms", "Asia/Tokyo"), [1], "VARCHAR", pa.string(), ["1970-01-01 00:00:00.001"]),
    "nanos-to-micros": (pa.timestamp("ns"), [1000], "TIMESTAMP", pa.timestamp("us"), [1]),
    "time-to-text": (pa.time64("us"), [3_600_000_000], "VARCHAR", pa.string(), ["01:00:00"]),
    "seconds-of-a-day": (pa.time32("s"), [61], "VARCHAR", pa.string(), ["00:01:01"]),
    "date-to-zone": (pa.date32(), [1], "TIMESTAMPTZ", pa.timestamp("us", "UTC"), [86_400_000_000]),
    "zone-to-date": (pa.timestamp("us", "UTC"), [-1], "DATE", pa.date32(), [-1]),
}


@pytest.mark.parametrize(("type_", "values", "wanted", "cast", "expected"), CASTS.values(), ids=CASTS)
def test_columns_are_cast_before_they_are_compared(type_, values, wanted, cast, expected) -> None:
    left = pa.table({"k": range(len(values)), "V": pa.array(values, type_)})
    as_cast = [Decimal(each) for each in expected] if pa.types.is_decimal(cast) else expected
    right = pa.table({"k": range(len(values)), "V": pa.array(as_cast, cast)})
    found = both_ways(left, right, keys=["k"], relaxations=Relaxations(cast={"V": wanted}))
    assert found.equal
    assert found.schema == ()
    assert found.relaxations == (f"cast: V is {wanted} on both sides",)
    if not pa.types.is_temporal(type_) or pa.types.is_date32(type_):
        assert compare(duckdb.connect().from_arrow(left), right, cast={"V": wanted}).equal


def test_a_value_that_cannot_be_cast_is_said_with_its_column() -> None:
    left, right = pa.table({"v": ["1", "x"]}), pa.table({"v": [1, 2]})
    found = compare(left, right, cast={"v": "INTEGER"})
    assert found.outcomes_differ
    assert compare(left, pa.table({"v": ["y"]}), cast={"v": "INTEGER"}).failed
    assert "the left side's column 'v' has a value that is no INTEGER: x" in str(found.left.error)
    assert "no UUID: 1" in str(compare(right, right, cast={"v": "UUID"}).left.error)


def test_schemas_alone_are_compared() -> None:
    def fail() -> None:
        raise AssertionError("a row was read")

    source = duckdb.connect()
    source.create_function("fail", lambda _: fail(), ["INTEGER"], "INTEGER")
    left = source.sql("SELECT fail(1) AS a, 'x' AS b")
    found = compare(left, pa.table({"a": pa.array([5], pa.int32()), "b": ["y"]}), schema_only=True)
    assert found.equal
    assert found.to_text().startswith("equal: no difference of schema in 2 columns\n")
    assert (found.left.rows, found.right.rows) == (None, None)
    assert 'message="schemas alone were compared"' in found.to_junit()
    assert "<dt>rows" not in found.to_html()
    other = compare(left, pa.table({"a": ["1"], "c": [1]}), schema_only=True)
    assert [each.column for each in other.schema if each.counts] == ["a", "b", "c"]
    assert not other.equal
