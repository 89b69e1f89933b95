"""Filters from SQL text. DuckDB defines the meaning of a filter; planning must never conclude more."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_values import evaluate

from harness.errors import RequestError
from harness.metadata.filters import literal_comparison
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.predicate import Comparison, In, Op, Predicate, is_decided
from harness.metadata.filters.skipping import ColumnBounds, bound_array, may_match
from harness.metadata.model import schema as dt

DAY = 86_400_000_000
# Per column: its type, DuckDB's type, and pairs (SQL, internal value) for the rows.
COLUMNS: dict[str, tuple[dt.Type, str, list[tuple[str, Any]]]] = {
    "small": (dt.IntegerType(8), "TINYINT", [("-128", -128), ("0", 0), ("1", 1), ("2", 2), ("127", 127)]),
    "id": (dt.IntegerType(32), "INTEGER", [("-2147483648", -(2**31)), ("1", 1), ("2", 2), ("16777217", 16777217)]),
    "big": (
        dt.IntegerType(64),
        "BIGINT",
        [("1", 1), ("9007199254740992", 2**53), ("9007199254740993", 2**53 + 1), ("9223372036854775807", 2**63 - 1)],
    ),
    "f": (
        dt.FloatType(32),
        "FLOAT",
        [
            ("'nan'", math.nan),
            ("'-0.0'", -0.0),
            ("'0.1'", 0.10000000149011612),
            ("'0.5'", 0.5),
            ("'16777216'", 16777216.0),
            ("'inf'", math.inf),
        ],
    ),
    "d": (
        dt.FloatType(64),
        "DOUBLE",
        [("'nan'", math.nan), ("0.0", 0.0), ("'0.1'", 0.1), ("'-inf'", -math.inf), ("1", 1.0), ("'1e300'", 1e300)],
    ),
    "de": (
        dt.DecimalType(10, 2),
        "DECIMAL(10, 2)",
        [(x, Decimal(x)) for x in ("-1.01", "0.00", "1.00", "1.01", "99999999.99")],
    ),
    "wide": (
        dt.DecimalType(38, 10),
        "DECIMAL(38, 10)",
        [(x, Decimal(x)) for x in ("1.0000000000", "9007199254740993.0000000001")],
    ),
    "s": (
        dt.StringType(),
        "VARCHAR",
        [(f"'{x}'", x) for x in ("", "a", "ab", "a%", "Z", "é", "\U0001f600", "\uffff", "1")],
    ),
    "b": (
        dt.BinaryType(),
        "BLOB",
        [("''::BLOB", b""), ("'a'::BLOB", b"a"), ("'\\x80'::BLOB", b"\x80"), ("'\\xFF'::BLOB", b"\xff")],
    ),
    "u": (
        dt.UuidType(),
        "UUID",
        [
            ("'00000000-0000-0000-0000-000000000001'", bytes(15) + b"\1"),
            ("'f" + "f" * 7 + "-0000-0000-0000-000000000001'", b"\xff" * 4 + bytes(11) + b"\1"),
        ],
    ),
    "da": (dt.DateType(), "DATE", [("'1969-12-31'", -1), ("'2020-01-01'", 18262), ("'2020-01-02'", 18263)]),
    "ts": (
        dt.TimestampType(),
        "TIMESTAMP",
        [
            ("'1969-12-31 23:59:59.999999'", -1),
            ("'2020-01-01'", 18262 * DAY),
            ("'2020-01-01 10:00:00.000001'", 18262 * DAY + 36_000_000_001),
            ("'2020-01-02'", 18263 * DAY),
        ],
    ),
    "tz": (
        dt.TimestampType(utc=True),
        "TIMESTAMPTZ",
        [
            ("'2019-12-31 22:00:00Z'", 18262 * DAY - 7_200_000_000),
            ("'2020-01-01 00:00:00Z'", 18262 * DAY),
            ("'2020-01-02 10:00:00Z'", 18263 * DAY + 36_000_000_000),
        ],
    ),
    "tn": (
        dt.TimestampType("ns"),
        "TIMESTAMP_NS",
        [("'2020-01-01'", 18262 * DAY * 1000), ("'2020-01-01 00:00:00.000000001'", 18262 * DAY * 1000 + 1)],
    ),
    "tm": (
        dt.TimeType(),
        "TIME",
        [("'00:00:00'", 0), ("'10:00:00'", 36_000_000_000), ("'23:59:59.999999'", 86_399_999_999)],
    ),
    "bo": (dt.BooleanType(), "BOOLEAN", [("true", True), ("false", False)]),
}
SCHEMA = dt.Schema(
    fields=(
        *(dt.Field(id=i, name=name, type=c[0]) for i, (name, c) in enumerate(COLUMNS.items(), 1)),
        dt.Field(
            id=100,
            name="st",
            type=dt.StructType(
                (
                    dt.Field(id=101, name="x", type=dt.IntegerType(32)),
                    dt.Field(id=102, name="a.b", type=dt.StringType()),
                )
            ),
        ),
        dt.Field(id=103, name="l", type=dt.ListType(dt.Field(id=104, name="element", type=dt.IntegerType(32)))),
    )
)
TS = next(f for f in SCHEMA.fields if f.name == "ts")
ROWS = 1 + max(len(values) for _, _, values in COLUMNS.values())

LITERAL_TEXT = """
    0 1 2 -1 127 128 300 -128 16777216 16777217 2147483648 -2147483648 9007199254740992 9007199254740993
    9223372036854775807 9223372036854775808 100000000000000000000 0.1 0.5 1.0 1.5 -1.5 1.01 1.005 99999999.99
    100000000.00 16777217.0 9007199254740993.0 9007199254740993.0000000001 0.12345678901234567890
    123456789012345678901234567890.12345678 1. .5 1e0 5e-1 1e-1 1.6777217e7 9007199254740993e0 1e300 -1e300 1.01e0 '1'
    '2' '300' '1.5' '0.1' '0.5' '1.01' '1.005' 'nan' 'NaN' 'inf' '-inf' 'a' 'ab' '' 'é' '😀' '\\x80' '\\xFF' 'Z' 'true'
    'nan'::double 'nan'::float 'inf'::double 0.1::float 0.1::double 0.5::float 1::double '0.1'::float 1::bigint
    '1'::int 1.01::decimal(10,2) 1::decimal(38,10) '1.01'::decimal(4,2) '2020-01-01' '2020-01-01_10:00:00'
    '2020-01-01_10:00:00.000001' '2020-01-01T00:00:00Z' '2020-01-01_02:00:00+02' '2020-01-01_00:00:00.000000001'
    '2020-01-01_00:00:00.0000001' '2019-12-31_16:30:00-05:30' '2020-1-1' '0000-01-01' '20000-01-01' date_'2020-01-01'
    date_'1969-12-31' timestamp_'2020-01-01' timestamp_'2020-01-01_10:00:00' timestamptz_'2020-01-01_00:00:00+02'
    timestamptz_'2020-01-01' '2020-01-01'::date '2020-01-01'::date::timestamp '10:00:00' '10:00' '24:00:00'
    time_'10:00:00' time_'10:00:00.000001' '00000000-0000-0000-0000-000000000001'
    'FFFFFFFF-0000-0000-0000-000000000001'::uuid '00000000000000000000000000000001' 'a'::blob '\\xFF'::blob true false
    null (1) (-(1)) 1+1 (3-2) (2*(64-1)) -(127+1) 16777216+1 2147483647+1 2147483648-1 1::tinyint+1 1.5+1 '1'+1
    (date_'2019-12-18'+interval_14_day) date_'2020-01-31'-interval_'30_days' (date_'2019-12-31'+1) (1+date_'2019-12-31')
    date_'2020-01-02'-1 timestamp_'2019-12-31_23:00:00'+interval_11_hours (date_'2019-11-30'+interval_2_months)
    interval_(1)_year+date_'2019-01-01' date_'2019-12-31'+interval_1.5_day date_'2020-01-01'+interval_'1'_microsecond
    timestamptz_'2020-01-01'+interval_1_day date_'2020-01-01'-date_'2019-12-31' date_'9999-12-31'+1
    date_'0001-01-01'-interval_1_day date_'9999-12-31'+interval_1_year 2*interval_1_day+date_'2019-12-30'
"""
LITERALS = [literal.replace("_", " ") for literal in LITERAL_TEXT.split()]
EQUALITIES, ORDERS = ("=", "<>"), ("<", "<=", ">", ">=")
"""DuckDB compares two types by all operators of a line, or by none: it does not order booleans and numbers."""
OPERATORS = (*EQUALITIES, *ORDERS)


def make_reference() -> duckdb.DuckDBPyConnection:
    """A table whose row i has the i-th value of every column, or null if a column has fewer values."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    types = ", ".join(f'"{name}" {column[1]}' for name, column in COLUMNS.items())
    connection.execute(f'CREATE TABLE t(n INTEGER, {types}, st STRUCT(x INTEGER, "a.b" VARCHAR), l INTEGER[])')
    for i in range(ROWS):
        values = [column[2][i][0] if i < len(column[2]) else "NULL" for column in COLUMNS.values()]
        struct = "NULL" if i == 3 else f"{{'x': {'NULL' if i == 2 else i}, 'a.b': 'a{i}'}}"
        connection.execute(f"INSERT INTO t VALUES ({i}, {', '.join(values)}, {struct}, [{i}])")
    return connection


@cache
def accepted_pairs() -> list[tuple[str, str]]:
    """Columns and literals that DuckDB compares without an error."""
    pairs = []
    with make_reference() as connection:
        for column in COLUMNS:
            for literal in LITERALS:
                try:
                    connection.execute(f"SELECT {column} = {literal} FROM t").fetchall()
                except (duckdb.Error, UnicodeDecodeError):
                    continue
                pairs.append((column, literal))
    return pairs


@cache
def accepted(column: str) -> list[str]:
    return [literal for c, literal in accepted_pairs() if c == column]


@pytest.fixture(scope="module")
def reference() -> Iterator[duckdb.DuckDBPyConnection]:
    with make_reference() as connection:
        yield connection


def stored(row: int, field: dt.Field) -> Any:
    if field.id == 101:
        return None if row in (2, 3) else row
    if field.id == 102:
        return None if row == 3 else f"a{row}"
    values = COLUMNS[field.name][2]
    return values[row][1] if row < len(values) else None


def check(reference: duckdb.DuckDBPyConnection, *texts: str) -> list[Predicate]:
    """Compare planning with DuckDB for some expressions, and return their predicates; empty if DuckDB refuses them.

    Several expressions share one query, which keeps thousands of comparisons fast.
    """
    filters = [parse_filter(text, SCHEMA) for text in texts]
    asked = ", ".join(f"({text}), ({filter_.sql})" for text, filter_ in zip(texts, filters, strict=True))
    try:
        answers = reference.execute(f"SELECT {asked} FROM t ORDER BY n").fetchall()
    except (duckdb.Error, UnicodeDecodeError):
        return []
    for place, (text, filter_) in enumerate(zip(texts, filters, strict=True)):
        for row, answer in enumerate(answers):
            expected, rendered = answer[2 * place : 2 * place + 2]
            assert expected == rendered, f"{text} became {filter_.sql}"
            actual = evaluate(filter_.predicate, lambda field, row=row: stored(row, field))
            if is_decided(filter_.predicate):
                assert actual is expected, f"{text}: row {row}, {filter_.predicate}"
            elif expected:
                assert actual is True, f"{text}: row {row}, {filter_.predicate}"
    return [filter_.predicate for filter_ in filters]


@pytest.mark.parametrize("column", list(COLUMNS))
def test_every_comparison_means_what_duckdb_says(reference: duckdb.DuckDBPyConnection, column: str) -> None:
    decided = 0
    for literal in LITERALS:
        if literal not in accepted(column):
            assert not check(reference, f"{column} = {literal}", f"{column} < {literal}")
            continue
        equal = check(
            reference,
            *(f"{column} {operator} {literal}" for operator in EQUALITIES),
            f"{column} IS DISTINCT FROM {literal}",
            f"{column} IN ({literal}, NULL)",
        )
        assert equal
        ordered = check(reference, *(f"{column} {operator} {literal}" for operator in ORDERS), f"{literal} < {column}")
        decided += sum(map(is_decided, [*equal[:2], *ordered[:4]]))
    assert decided >= 10


@given(
    st.datetimes().map(lambda at: at.isoformat(" ")),
    st.integers(-40_000, 40_000),
    st.sampled_from(["SECOND", "minutes", "HOUR", "day", "Weeks", "MONTH", "quarters", "YEAR"]),
    st.booleans(),
)
def test_moments_are_moved_as_duckdb_moves_them(reference, start, count, unit, adds):
    text = f"TIMESTAMP '{start}' {'+' if adds else '-'} INTERVAL '{count}' {unit}"
    predicate = parse_filter(f"ts = {text}", SCHEMA).predicate
    ((moved,),) = reference.execute(f"SELECT epoch_us({text})").fetchall()
    if reference.execute(f"SELECT year({text}) BETWEEN 1 AND 9999").fetchall() == [(True,)]:
        assert predicate == Comparison(TS, Op.EQ, moved)
    else:
        assert not is_decided(predicate)


PERIODS = ["year", "quarter", "month", "weeks", "day", "hour", "minute", "second"]


@pytest.mark.parametrize("column", ["ts", "tz", "tn", "da"])
@pytest.mark.parametrize("period", PERIODS)
def test_units_of_time_mean_what_duckdb_says(reference: duckdb.DuckDBPyConnection, column: str, period: str) -> None:
    moments = ["DATE '2020-01-01'", "DATE '2019-12-30'", "TIMESTAMP '2020-01-01 10:00:00'", "DATE '1969-10-01'", "NULL"]
    texts = [f"date_trunc('{period}', {column}) {op} {moment}" for op in OPERATORS for moment in moments]
    check(reference, *texts, f"date_trunc('{period}', {column}) BETWEEN DATE '2019-12-01' AND DATE '2020-01-01'")
    for year in ("1969", "2020", "2019+1", "0", "-5", "20000"):
        check(
            reference,
            *(f"year({column}) {op} {year}" for op in OPERATORS),
            f"NOT (extract(year FROM {column}) = {year})",
        )
    check(reference, f"year({column}) IN (1969, 2021)", f"year({column}) IS NULL")


def test_long_sums_are_read_in_one_go() -> None:
    ones = " + 1" * 150
    assert parse_filter(f"id = 1{ones}", SCHEMA).predicate == Comparison(SCHEMA.fields[1], Op.EQ, 151)
    predicate = parse_filter(f"da = DATE '2020-01-01'{ones}", SCHEMA).predicate
    assert isinstance(predicate, Comparison)
    assert predicate.value == 18262 + 150


FORMS = {
    # An expression of a column, and the literals to compare it with.
    "coalesce(id, 1)": ["1", "2", "5", "NULL", "'1'", "1.5"],
    "coalesce(s, 'ab')": ["'a'", "'ab'", "'zz'"],
    "ifnull(da, DATE '2020-01-01')": ["DATE '2020-01-01'", "DATE '2020-01-02'", "'2020-01-01'"],
    "coalesce(bo, false)": ["true", "false"],
    "nullif(id, 1)": ["1", "2", "NULL"],
    "nullif(s, 'a')": ["'a'", "'ab'"],
    "left(s, 1)": ["'a'", "'ab'", "''", "'A'", "NULL"],
    "left(s, -1)": ["'a'", "''"],
    "substr(s, 1, 2)": ["'a'", "'ab'", "'abc'", "'a%'"],
    "substring(s, 2, 1)": ["'b'", "'%'"],
    "strftime(da, '%Y')": ["'2020'", "'1969'", "'202'", "NULL"],
    "strftime(ts, '%Y-%m')": ["'2020-01'", "'1969-12'", "'2020-1'"],
    "strftime(ts, '%Y-%m-%d')": ["'2020-01-01'", "'2020-02-30'"],
    "date_part('year', da)": ["2020", "1969", "2020.5"],
    "datepart('YEARS', ts)": ["2020", "1969"],
    "date_part('month', da)": ["1", "12"],
    "CASE WHEN id = 1 THEN 'one' WHEN id > 1 THEN 'more' END": ["'one'", "'more'", "'x'", "NULL"],
    "CASE WHEN id = 1 THEN 1 ELSE 0 END": ["1", "0", "2", "true", "1.0"],
    "CASE s WHEN 'a' THEN 1 WHEN 'ab' THEN 2 WHEN NULL THEN 3 END": ["1", "2", "3"],
    "if(id = 1, DATE '2020-01-01', NULL)": ["DATE '2020-01-01'", "'2020-01-01'", "DATE '2021-01-01'"],
    "(id = 1)": ["true", "false"],
    "(big - 1)": ["1", "9007199254740992", "9223372036854775806", "1.5", "'0'", "NULL"],
    "id - -1": ["2", "3", "16777218", "99999999999999999999999999999999999999999"],
    "2 + small": ["-126", "3", "127", "128", "129"],
    "small - 3": ["-128", "-129", "-131", "0"],
    "(id, s)": ["(1, 'ab')", "(2, NULL)", "(NULL, NULL)", "(1, 'Z')"],
    "(small, id, s)": ["(0, 1, NULL)", "(127, NULL, 'é')"],
}


@pytest.mark.parametrize("form", FORMS)
def test_expressions_of_columns_mean_what_duckdb_says(reference: duckdb.DuckDBPyConnection, form: str) -> None:
    for literal in FORMS[form]:
        for operators in (EQUALITIES, ORDERS):
            check(reference, *(f"{form} {op} {literal}" for op in operators))
            check(reference, *(f"NOT ({form} {op} {literal})" for op in operators), f"{literal} {operators[0]} {form}")


CONDITION_TEXT = """
    list_contains([1, 2], id); list_contains([1, NULL], id); NOT list_contains([1, NULL], id); id IN [1, NULL];
    id NOT IN [1, NULL]; list_contains(['a', 'Z'], s); list_contains([], id); list_contains([1.5, 2], id);
    id = ANY([1, 2]); id <> ANY([1, 2]); NOT id = ANY([1, NULL]); s = ANY(['a', NULL]); (id = 1) IS TRUE;
    (id = 1) IS NOT TRUE; (id = 1) IS FALSE; CASE WHEN id = 1 THEN true WHEN id = 2 THEN NULL ELSE false END;
    CASE WHEN id = 1 THEN true WHEN id = 2 THEN s = 'a' END; if(id = 1, s = 'ab', true); da >= make_date(2020, 1, 1);
    da = make_date(2020, 1, 1 + 1); d IN (1e0, '0.1'); s LIKE 'ab'; TRUE = id IS NOT DISTINCT FROM 0;
    TRUE = bo IS NOT DISTINCT FROM FALSE; id = 1 IS NOT NULL
"""


@pytest.mark.parametrize("text", [text.strip() for text in CONDITION_TEXT.split(";")])
def test_conditions_mean_what_duckdb_says(reference: duckdb.DuckDBPyConnection, text: str) -> None:
    assert check(reference, text)


MOVES = [
    "INTERVAL 1 DAY",
    "INTERVAL 1 MONTH",
    "INTERVAL 3 YEARS",
    "INTERVAL (-2) WEEKS",
    "INTERVAL 30 HOURS",
    "1",
    "-31",
]


@given(
    st.dates(datetime(1960, 1, 1).date(), datetime(2040, 1, 1).date()),
    st.integers(-35, 35),
    st.sampled_from(MOVES),
    st.sampled_from(["+", "-"]),
    st.sampled_from(["da", "ts", "tz"]),
)
def test_moved_columns_keep_the_rows_that_duckdb_keeps(reference, day, day_offset, move, sign, column):
    """The literal is the moved day or a few days away, as months differ in length and zones change their offset."""
    if column != "da" and not move.startswith("INTERVAL"):
        return
    literal = f"(CAST(DATE '{day}' {sign} {move} AS DATE) + {day_offset})"
    value = f"(SELECT CAST(DATE '{day}' AS {COLUMNS[column][1]}))"
    ((at,),) = reference.execute(f"SELECT CAST({literal} AS VARCHAR)").fetchall()
    types = {"da": 1, "ts": DAY, "tz": DAY}
    internal = (day - date(1970, 1, 1)).days * types[column]
    for op in OPERATORS:
        predicate = parse_filter(f"{column} {sign} {move} {op} DATE '{at}'", SCHEMA).predicate
        ((kept,),) = reference.execute(f"SELECT {value} {sign} {move} {op} DATE '{at}'").fetchall()
        assert not kept or evaluate(predicate, lambda field: internal) is True


@dataclass(frozen=True)
class Stats:
    """Recorded statistics of a column in one file; None is unknown."""

    lower: Any = None
    upper: Any = None
    null_count: int | None = None
    nan_count: int | None = None
    value_count: int | None = None


def is_kept(predicate: Predicate, stats_of: Callable[[dt.Field], Stats]) -> bool:
    def facts(field: dt.Field) -> ColumnBounds:
        stats = stats_of(field)
        return ColumnBounds.from_statistics(
            field.type,
            lower=bound_array([stats.lower], field.type),
            upper=bound_array([stats.upper], field.type),
            values=pa.array([stats.value_count], pa.int64()),
            nulls=pa.array([stats.null_count], pa.int64()),
            nans=pa.array([stats.nan_count], pa.int64()),
        )

    (kept,) = may_match(predicate, facts, 1).tolist()
    return bool(kept)


@pytest.mark.parametrize(
    ("text", "low", "high", "is_read"),
    [
        ("small + 1 = 6", 0, 4, False),
        ("small + 1 = 6", 0, 5, True),
        ("6 > 1 + small", 5, 126, False),
        ("small + 1 = 6", 6, 126, False),
        ("small + 1 = 6", 6, 127, True),  # 127 + 1 may overflow, which must raise an error
        ("small - 2 >= 5", -126, 6, False),
        ("small - 2 >= 5", -127, 6, True),
        ("small - 2 >= 5", None, 6, True),
        ("small + 1 IN (5, 9)", 5, 7, False),
        ("small + 1 BETWEEN 5 AND 9", 9, 12, False),
        ("NOT small + 1 = 6", 5, 5, True),
        ("small + 200 = 6", 0, 4, True),
        ("small - 1 = small", 0, 4, True),
        ("1 - small = 6", 0, 4, True),
    ],
)
def test_sums_skip_where_none_overflows(text: str, low: int | None, high: int, is_read: bool) -> None:
    predicate = parse_filter(text, SCHEMA).predicate
    assert is_kept(predicate, lambda field: Stats(low, high)) is is_read


@given(st.data())
def test_a_long_list_keeps_the_files_that_hold_a_value(data: st.DataObject) -> None:
    """iceberg 3.25."""
    name, values = data.draw(
        st.sampled_from(
            [
                ("id", st.integers(-(2**31), 2**31 - 1)),
                ("s", st.text("abé\U0001f600", max_size=6)),
                ("d", st.floats(allow_nan=False)),
                ("de", st.decimals(-9999, 9999, places=2)),
            ]
        )
    )
    listed = sorted(data.draw(st.lists(values, min_size=4, max_size=12, unique=True)))
    column = next(f for f in SCHEMA.fields if f.name == name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literal_comparison, "IN_LIMIT", 4)
        covered = literal_comparison.covering_ranges(column, listed)
    for value in listed:
        assert evaluate(covered, lambda field, value=value: value) is True
    low, high = sorted(data.draw(st.tuples(values, values)))
    if any(low <= value <= high for value in listed):
        assert is_kept(covered, lambda field: Stats(low, high))


def test_a_long_list_skips_between_its_widest_gaps() -> None:
    numbers = [n for start in (0, 1000, 5000) for n in range(start, start + 100)]
    predicate = parse_filter(f"id IN ({', '.join(map(str, numbers))})", SCHEMA).predicate
    may = [is_kept(predicate, lambda f, low=low: Stats(low, low + 50)) for low in range(0, 6000, 100)]
    assert [100 * place for place, keeps in enumerate(may) if keeps] == [0, 1000, 5000]
    twice = parse_filter(f"id IN ({', '.join(['1', '2'] * 200)})", SCHEMA).predicate
    assert twice == In(SCHEMA.fields[1], (1, 2))
    nans = parse_filter(f"d IN ('nan'::DOUBLE, {', '.join(f'{n}::DOUBLE' for n in range(300))})", SCHEMA).predicate
    for value, expected in ((math.nan, True), (7.0, True), (7.5, False), (None, None)):
        assert evaluate(nans, lambda field, value=value: value) is expected


@pytest.mark.parametrize("column", ["ts", "tz", "tn", "da", "id", "small", "big", "s", "d"])
@pytest.mark.parametrize("type_", ["date", "bigint", "int", "varchar", "double", "timestamp", "timestamptz"])
def test_casts_of_columns(reference: duckdb.DuckDBPyConnection, column: str, type_: str) -> None:
    for literal in ("'2020-01-01'", "date '2020-01-01'", "timestamp '2020-01-01 10:00:00'", "1", "1.5", "'1'", "300"):
        for operators in (EQUALITIES, ORDERS):
            check(reference, *(f"{column}::{type_} {operator} {literal}" for operator in operators))


pairs = st.deferred(lambda: st.sampled_from(accepted_pairs()))
negations = st.sampled_from(["", "NOT "])
LEAF_TEXT = """
    s LIKE 'a%'; s NOT LIKE 'a%'; s LIKE 'ab'; s LIKE '%'; s NOT LIKE '%'; s LIKE 'a_'; s LIKE 'a\\%'; s LIKE NULL;
    s LIKE 'a$%' ESCAPE '$'; s ILIKE 'A%'; starts_with(s, 'a'); prefix(s, '\U0001f600'); s ^@ 'a'; s ~ 'a'; isnan(f);
    NOT isnan(d); bo; NOT bo; bo IS TRUE; bo IS NOT FALSE; st.x >= 1.5; st.x IS NOT DISTINCT FROM NULL;
    upper(s) = 'A'; id > small; TRUE; NULL; l[1] > 2; len([e for e in l if e > id]) = 1
"""
leaves = st.one_of(
    st.builds(lambda pair, o: f"{pair[0]} {o} {pair[1]}", pairs, st.sampled_from(OPERATORS)),
    st.sampled_from(list(COLUMNS)).flatmap(
        lambda c: st.builds(
            lambda n, xs: f"{c} {n}IN ({', '.join(xs)})",
            negations,
            st.lists(st.sampled_from(accepted(c)), min_size=1, max_size=3),
        )
    ),
    st.sampled_from(list(COLUMNS)).flatmap(
        lambda c: st.builds(
            lambda n, x, y: f"{c} {n}BETWEEN {x} AND {y}",
            negations,
            st.sampled_from(accepted(c)),
            st.sampled_from(accepted(c)),
        )
    ),
    st.builds(lambda c, n: f"{c} IS {n}NULL", st.sampled_from([*COLUMNS, "st.x", 'st."a.b"']), negations),
    st.sampled_from([text.strip() for text in LEAF_TEXT.split(";")]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda x: f"NOT ({x})", inner),
        st.builds(lambda x, y: f"({x}) AND ({y})", inner, inner),
        st.builds(lambda x, y, z: f"{x} OR ({y}) OR ({z})", inner, inner, inner),
    ),
    max_leaves=6,
)


@given(text=expressions)
def test_compound_filters_mean_what_duckdb_says(reference: duckdb.DuckDBPyConnection, text: str) -> None:
    check(reference, text)


def stats_of(field: dt.Field, rows: list[int], missing: frozenset[str]) -> Stats:
    values = [stored(row, field) for row in rows]
    nans = [v for v in values if isinstance(v, float) and math.isnan(v)]
    plain = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    lower, upper = (min(plain), max(plain)) if plain else (None, None)
    if isinstance(lower, str | bytes):
        cut = lower[:1]
        lower, upper = cut, upper if len(upper) < 2 else None
    everything = {
        "lower": lower,
        "upper": upper,
        "null_count": values.count(None),
        "nan_count": len(nans) if isinstance(field.type, dt.FloatType) else None,
        "value_count": len(values),
    }
    return Stats(**{k: None if k in missing else v for k, v in everything.items()})


@pytest.mark.parametrize(
    ("text", "stats", "is_read"),
    [
        # Lower and upper bound, counts of nulls, of NaN and of values. NaN is above all numbers (iceberg 3.21, T15).
        ("d > 3", (3.0, 3.0, 0, None, 3), True),
        ("d > 3", (3.0, 3.0, 0, 0, 3), False),
        ("d < 5", (None, None, 1, 2, 3), False),
        ("d > 5", (None, None, 1, 2, 3), True),
        ("d = 'nan'::DOUBLE", (3.0, 3.0, 0, 0, 3), False),
        ("d <> 'nan'::DOUBLE", (3.0, 3.0, 0, 0, 3), True),
        ("d = 5", (1.0, math.nan, 0, 0, 3), True),  # a bound that is NaN is ignored
        ("d = 0", (-0.0, -0.0, 0, 0, 3), True),
        ("NOT isnan(d)", (None, None, 1, 2, 3), False),
        ("id = 10", (9, 5), True),  # iceberg 3.25
        ("id = 10", ("5", "9"), True),  # iceberg 3.23
        ("id = 10", (None, None, 0, None, 0), True),  # iceberg T12
        ("id = 10", (None, None, 4, None, 3), True),
        ("id NOT IN (5, 6)", (5, 5), False),
        ("s NOT LIKE 'ab%'", ("abx", "abz"), False),
        ("s NOT LIKE 'abc%'", ("ab", "abd"), True),  # iceberg T16
        (f"s <> '{'a' * 15}'", ("a" * 15, "a" * 15), False),
        (f"s <> '{'a' * 16}'", ("a" * 16, "a" * 16), True),  # the bound may be truncated (iceberg 3.20)
        ("u < 'ffffffff-0000-0000-0000-000000000001'", (b"\xff" * 16, b"\xff" * 16), True),  # iceberg 3.3
    ],
)
def test_statistics_skip_what_cannot_match(text, stats, is_read):
    predicate = parse_filter(text, SCHEMA).predicate
    assert is_kept(predicate, lambda field: Stats(*stats)) is is_read


@given(
    text=expressions,
    rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4),
    missing=st.frozensets(st.sampled_from(["lower", "upper", "null_count", "nan_count", "value_count"])),
)
def test_pruning_keeps_every_file_with_a_matching_row(reference, text, rows, missing):
    try:
        hit = reference.execute(f"SELECT n FROM t WHERE n IN ({', '.join(map(str, rows))}) AND ({text})").fetchall()
    except (duckdb.Error, UnicodeDecodeError):
        return
    if hit:
        predicate = parse_filter(text, SCHEMA).predicate
        assert is_kept(predicate, lambda field: stats_of(field, rows, missing)), (predicate, hit)


# The shape of the result.

NAMES = dt.Schema(
    fields=(
        dt.Field(id=1, name="id", type=dt.IntegerType(64)),
        dt.Field(id=2, name="ID", type=dt.IntegerType(64)),
        dt.Field(id=3, name="Name", type=dt.StringType()),
        dt.Field(id=4, name='odd "name" 😀', type=dt.StringType()),
        dt.Field(id=5, name="t", type=dt.StructType((dt.Field(id=6, name="x", type=dt.IntegerType(32)),))),
        dt.Field(id=7, name="x", type=dt.DateType()),
        dt.Field(id=8, name="_file", type=dt.StringType()),
        dt.Field(id=9, name="a.b", type=dt.StringType()),
        dt.Field(id=10, name="", type=dt.StringType()),
    )
)


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        pytest.param("id = 1", '"id" = 1', ["id"], id="exact"),
        pytest.param("ID = 1 and id=2", '"ID" = 1 and "id"=2', ["id", "ID"], id="exact-case"),
        pytest.param("NAME = 'x'", "\"Name\" = 'x'", ["Name"], id="only-insensitive-match"),
        ('"odd ""name"" 😀" > \'😀\' or id=1', '"odd ""name"" 😀" > \'😀\' or "id"=1', ["id", 'odd "name" 😀']),
        pytest.param("t.x = 1", '("t")."x" = 1', ["t"], id="struct-before-table"),
        pytest.param("T.Name = 'a'", "\"Name\" = 'a'", ["Name"], id="table-prefix"),
        pytest.param("t.t.x = 1", '("t")."x" = 1', ["t"], id="table-and-struct"),
        pytest.param("_file = 'a' and _pos < 5", '"_file" = \'a\' and "_pos" < 5', ["_file", "_pos"], id="metadata"),
        pytest.param("_partition.day = 1", '("_partition")."day" = 1', ["_partition"], id="partition"),
        pytest.param("\"a.b\" = 'c'", "\"a.b\" = 'c'", ["a.b"], id="dot-in-name"),
        pytest.param("\"\" = 'c'", "\"\" = 'c'", [""], id="empty-name"),
        pytest.param("name.upper() = 'A' ; -- end", "\"Name\".upper() = 'A'", ["Name"], id="method-and-comment"),
        pytest.param("Name ~ 'a' -- b\n or false", "\"Name\" ~ 'a' -- b\n or false", ["Name"], id="text-is-kept"),
        ("len([e for e in [1] if e > id]) = 1", 'len([e for e in [1] if e > "id"]) = 1', ["id"]),
        ("list_filter([1], lambda x: x > id) = []", 'list_filter([1], lambda x: x > "id") = []', ["id"]),
    ],
)
def test_names_are_bound_and_quoted(text: str, sql: str, columns: list[str]) -> None:
    filter_ = parse_filter(text, NAMES, table="t")
    assert (filter_.sql, [f.name for f in filter_.columns]) == (sql, columns)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The filter is empty"),
        (" ; ", "The filter is empty"),
        ("id =", "Cannot parse the filter as duckdb SQL"),
        ("id = 1 GROUP BY id", "Cannot parse the filter as duckdb SQL"),
        ("id = 1) OR (id = 2", "Cannot parse the filter as duckdb SQL"),
        ("id = 'a", "Cannot parse the filter as duckdb SQL"),
        ("id = 1; DROP TABLE t", "The filter must be one boolean expression|Cannot parse the filter"),
        ("id IN (SELECT 1)", "got a subquery"),
        ("EXISTS (SELECT 1)", "got a subquery"),
        ("id = ANY (SELECT 1)", "got a subquery"),
        ("sum(id) > 1", "got the aggregate SUM"),
        ("count(*) > 1", "got the aggregate COUNT"),
        ("row_number() OVER () = 1", "got a window function"),
        ("id = ?", "got a parameter"),
        ("id = $1", "got a parameter"),
        ("COLUMNS(*) > 1", "got a star"),
        ("not " * 5000 + "id = 1", "nested too deeply"),
    ],
)
def test_a_filter_must_be_a_condition_on_one_row(text: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        parse_filter(text, NAMES)


def test_long_lists_of_alternatives_are_read() -> None:
    text = " OR ".join(f"id = {i}" for i in range(3000))
    predicate = parse_filter(text, NAMES).predicate
    assert evaluate(predicate, lambda _: 2999) is True
    assert evaluate(predicate, lambda _: 3000) is False
