"""Filters on Spark. DuckDB decides what a filter means."""

import itertools
import math
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import harness
from harness.engines.duckdb.instance import connect
from harness.errors import UnsupportedError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.predicate import is_decided
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.types import schema_of

pytest.importorskip("pyspark")

from harness.engines.spark.transpile.filters import condition as spark_condition

DAY = 86_400_000_000
NAN, INF = math.nan, math.inf
# Each column's type, and its values from the first row on. Later rows are null.
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "id": ("int", [-(2**31), 1, 2, 16777217]),
    "small": ("int", [-128, 1, 127]),
    "big": ("long", [-(2**63), 1, 2**53 + 1]),
    "f": ("float", [NAN, -0.0, 0.1, 0.5, INF]),
    "d": ("double", [NAN, 0.0, -0.0, 0.1, -INF, 1.0]),
    "de": ("decimal(10, 2)", [Decimal(x) for x in ("-1.01", "0.00", "1.00", "1.01", "99999999.99")]),
    "s": ("string", ["", "a", "ab", "a%", "a\\b", "Z", "é", "\U0001f600", "\uffff"]),
    "b": ("binary", [b"", b"a", b"\x80", b"\xff"]),
    "u": ("uuid", [bytes(15) + b"\1", b"\xff" * 4 + bytes(11) + b"\1"]),
    "da": ("date", [-1, 18262, 18263]),
    "ts": ("timestamp", [-1, 18262 * DAY, 18262 * DAY + 36_000_000_001]),
    "tz": ("timestamptz", [18262 * DAY - 7_200_000_000, 18262 * DAY]),
    "tn": ("timestamp_ns", [18262 * DAY * 1000, 18262 * DAY * 1000 + 1]),
    "tm": ("time", [0, 36_000_000_000, 86_399_999_999]),
    "bo": ("boolean", [True, False]),
    "st": (
        "struct<x: int, a.b: string>",
        [{"x": 0, "a.b": "a0"}, {"x": 1, "a.b": "a1"}, {"x": None, "a.b": "a2"}, None],
    ),
    "l": ("list<int>", [[i] for i in range(10)]),
    "m": ("map<int, string>", [None, {1: "x"}, {2: "x"}]),
    "va": ("variant", [None, *({"metadata": b"\1\0\0", "value": b"\x09a" + digit} for digit in (b"1", b"2", b"3"))]),
    "fx": ("fixed[2]", [b"ab"]),
}
ROWS = 1 + max(len(values) for _, values in COLUMNS.values())
# The names of the columns on Spark, which no user could write.
NAMES = {name: f"{i} `.{name}" for i, name in enumerate(COLUMNS)}
SINGLE = list(COLUMNS)[:15]
SCHEMA = schema_of({name: type_ for name, (type_, _) in COLUMNS.items()})

LITERAL_TEXT = r"""
    0 1 2 -1 127 128 -128 16777217 2147483648 9007199254740993 -9223372036854775808 100000000000000000000 0.1
    0.5 1.0 1.5 1.01 1.005 -0.0 16777217.0 0.12345678901234567890 1e0 1e-1 1e300 '1' '0.5' '1.01' 'nan' 'inf'
    'nan'::double 'nan'::float 0.1::float 0.1::double '1'::int 1.01::decimal(10,2) 'a' 'ab' '' 'é' '😀' 'a\b'
    '\xFF' 'a'::blob '\xff'::blob '2020-01-01' '2020-01-01_10:00:00.000001' '2020-01-01T00:00:00Z'
    '2020-01-01_00:00:00.000000001' date_'2020-01-01' timestamp_'2020-01-01_10:00:00'
    timestamptz_'2020-01-01_00:00:00+02' '10:00:00' time_'10:00:00' 'FFFFFFFF-0000-0000-0000-000000000001'
    '00000000-0000-0000-0000-000000000001'::uuid true null
"""
LITERALS = [literal.replace("_", " ") for literal in LITERAL_TEXT.split()]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
EQUALITY = ("=", "<>", "IS DISTINCT FROM")
"""The supported operators for UUIDs on Spark. UUIDs cannot be ordered there."""
LITERALS_OF = {
    "id": "0 1 2 -1 127 128 -128 16777217 2147483648 1.5 -0.0 '1' null",
    "small": "0 1 2 -1 127 128 -128 16777217 2147483648 1.5 -0.0 '1' null",
    "big": "0 1 -1 9007199254740993 -9223372036854775808 1.5 '1' null",
    "f": "0.5 0.1 1.0 1 1e0 'nan' 'inf' 'nan'::float null",
    "d": "0.5 0.1 1.0 1 1e0 1e300 'nan' 'inf' 'nan'::double 0.1::double null",
    "de": "0 1 0.1 1.0 1.01 1.005 '1.01' 1.01::decimal(10,2) null",
    "s": r"'a' 'ab' '' 'é' '😀' 'a\b' null",
    "b": r"'a' 'a'::blob '\xff'::blob null",
    "u": "'FFFFFFFF-0000-0000-0000-000000000001' '00000000-0000-0000-0000-000000000001'::uuid null",
    "da": "'2020-01-01' date_'2020-01-01' null",
    "ts": "'2020-01-01' '2020-01-01_10:00:00.000001' timestamp_'2020-01-01_10:00:00' null",
    "tz": "'2020-01-01T00:00:00Z' timestamptz_'2020-01-01_00:00:00+02' null",
    "tn": "'2020-01-01' '2020-01-01_00:00:00.000000001' timestamp_'2020-01-01_10:00:00' null",
    "tm": "'10:00:00' time_'10:00:00' null",
    "bo": "true null",
}
"""Literals that each column must be comparable with on Spark. Spark may refuse other comparisons."""
CONDITION_TEXT = r"""
    s LIKE 'a%'; s NOT LIKE 'a%'; s LIKE '%'; s LIKE 'a_'; s LIKE 'a\_'; s LIKE 'a\b'; s LIKE '%\%'
    s LIKE 'a$%' ESCAPE '$'; s NOT LIKE 'a$%' ESCAPE '$'; s LIKE NULL; starts_with(s, 'a'); suffix(s, 'b')
    contains(s, '\'); s ^@ 'a'; length(s) = 1; s || 'x' = 'ax'; s || NULL = 'ax'; concat(s, NULL, 'x') = 'x'
    substring(s, 2, 1) = 'b'; strpos(s, 'b') = 2; isnan(f); NOT isnan(d); bo; NOT bo; bo IS TRUE; bo IS NOT FALSE
    st.x >= 1.5; st IS NULL; st."a.b" = 'a1'; l[1] > 2; l[-1] = 3; l[2] IS NULL; len(l) = 1
    len([e for e in l if e > id]) = 1; regexp_matches(s, 'a'); s ILIKE 'A%'; round(d, 1) = 1; m[1] = 'x'
    m IS NOT NULL; va IS NULL; va = '"a1"'; va BETWEEN '"a2"' AND '"a3"'; va NOT IN ('"a1"', '1')
    va LIKE '%2%' OR va = s; id > small; big + 1 > id; big // 2 = 4503599627370496; id % 2 = 1; -(id % 2) = -1
    id / 2 = 0.5; de * 2 = 2.02; de + 0.005 > 1.01; de / 3 < 0.34; de::int = 1; d::float < 0.5; round(de, 1) = 1.0
    abs(de) = 1.01; d > f; f > d; f < 0.1 + d; coalesce(d, f) = 0.5; greatest(id, big) = 1; nullif(id, 1) = 2
    CASE WHEN id > 1 THEN s ELSE 'a' END = 'a'; CASE id WHEN 1 THEN 1.5 WHEN 2 THEN 2 END > 1
    da + 1 = DATE '2020-01-02'; da - DATE '2020-01-01' = 1; year(ts) = 2020; month(da) = 1 AND year(tz) = 2020
    extract(hour FROM ts) = 10; date_trunc('month', ts) = '2020-01-01'; date_trunc('week', tz) = '2019-12-30'
    ts::date = da; ts = tz; da < tz; ts::date = '2020-01-01'; date_diff('day', da, ts) = 1; small::double < 1
    id IN (1, 2, NULL); d IN (0.0, 'nan'); f NOT IN (0.1); tm BETWEEN '00:00:00' AND '10:00:00'
    u IN ('FFFFFFFF-0000-0000-0000-000000000001'); u IS DISTINCT FROM '00000000-0000-0000-0000-000000000001'
    CASE WHEN s < 'b' THEN upper(s) END = 'A'; TRUE; NULL
"""
CONDITIONS = [text.strip() for line in CONDITION_TEXT.strip().splitlines() for text in line.split(";")]


@pytest.fixture(scope="module")
def sides(tmp_path_factory, spark):
    """Return the same rows on DuckDB and on Spark, on Spark in storage types."""
    table = IcebergTable.create(
        tmp_path_factory.mktemp("filters") / "t",
        {"n": "int", **{name: type_ for name, (type_, _) in COLUMNS.items()}},
        format_version=3,
    )
    given = {name: [*values, *[None] * (ROWS - len(values))] for name, (_, values) in COLUMNS.items()}
    table.append(table.write_data([{"n": i, **{name: given[name][i] for name in given}} for i in range(ROWS)]))
    snapshot = harness.open_table(table.location).snapshot()
    # A session next to the tests' own. It does not compile the hundreds of conditions, which run only a dozen times.
    own = spark.newSession()
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    with connect() as connection:
        snapshot.to_duckdb(connection, name="t")
        yield connection, snapshot.to_spark(own).toDF("n", *NAMES.values()).repartition(1).cache()


def compared(sides, texts: list[str]) -> set[str]:
    """Compare both sides on every text that DuckDB accepts and Spark does not refuse. Return these texts."""
    connection, frame = sides
    asked = []
    for text in texts:
        filter_ = parse_filter(text, SCHEMA)
        try:
            expected = [v for (v,) in connection.execute(f"SELECT {filter_.sql} FROM t ORDER BY n").fetchall()]
            asked.append((text, filter_, expected, spark_condition(filter_, NAMES)))
        except (duckdb.Error, UnsupportedError, UnicodeDecodeError):
            continue
    if not asked:
        return set()
    for row in frame.selectExpr("n", *(f"{sql} AS c{i}" for i, (*_, sql) in enumerate(asked))).collect():
        for i, (text, filter_, expected, sql) in enumerate(asked):
            assert (row[f"c{i}"] is True) == (expected[row.n] is True), f"{text}: row {row.n}, {sql}"
            if is_decided(filter_.predicate):
                assert row[f"c{i}"] is expected[row.n], f"{text}: row {row.n}, {sql}"
    return {text for text, *_ in asked}


@pytest.mark.parametrize("column", SINGLE)
def test_every_comparison_means_what_duckdb_says(sides, column):
    texts = [f"{column} {operator} {literal}" for literal in LITERALS for operator in OPERATORS]
    texts += [f"{column} {n}IN ({a}, {b})" for n in ("", "NOT ") for a, b in itertools.pairwise(LITERALS)]
    texts += [f"{column} IS {n}NULL" for n in ("", "NOT ")]
    required = {
        f"{column} {operator} {literal}"
        for literal in LITERALS_OF[column].split()
        for operator in (EQUALITY if column == "u" else OPERATORS)
    }
    assert {text.replace("_", " ") for text in required} - compared(sides, texts) == set()


def test_every_condition_is_lowered_and_means_what_duckdb_says(sides):
    assert compared(sides, CONDITIONS) == set(CONDITIONS)


@pytest.mark.parametrize(
    ("where", "construct"),
    [
        pytest.param("s ~ 'a'", "a ~ b", id="regular-expression"),
        pytest.param("s LIKE s", "LIKE with a pattern that is not a literal", id="like-pattern"),
        pytest.param("u > '00000000-0000-0000-0000-000000000001'", "an order of uuid", id="uuid-order"),
        pytest.param("tm + INTERVAL 1 HOUR > '10:00:00'", "time + interval", id="time-arithmetic"),
        pytest.param("tm::varchar = '10:00:00'", "a cast from time to string", id="time-as-text"),
        pytest.param("tn > ts", "> of types timestamp_ns, timestamp", id="nanoseconds-and-micros"),
        pytest.param("year(tn) = 2020", "year of timestamp_ns", id="parts-of-nanoseconds"),
        pytest.param("d::varchar = '1'", "a cast from double to string", id="float-as-text"),
        pytest.param("b || b = b", "|| of binary, binary", id="bytes-concatenated"),
        pytest.param("va = 1", "= of types string, int", id="variant-and-number"),
        pytest.param("l = [1]", "a comparison of list<int>", id="list"),
        pytest.param("random() < 0.5", "random()", id="volatile"),
        pytest.param("soundex(s) = 'a'", "soundex()", id="any-other-function"),
        pytest.param("big * 9223372036854775807.12345678 > 1", "which may need more than 38 digits", id="wide-decimal"),
        pytest.param("d > 0.12345678901234567890 + d", "0.12345678901234567890", id="long-decimal"),
        pytest.param("_partition.p = 1", "field p of struct<>", id="field-of-a-metadata-column"),
    ],
)
def test_constructs_with_engine_specific_results_are_refused_by_name(where, construct):
    filter_ = parse_filter(where, SCHEMA)
    with pytest.raises(UnsupportedError) as error:
        spark_condition(filter_, {**NAMES, "_partition": "p"})
    assert construct in error.value.message


def test_non_ascii_text_is_an_error_if_case_rules_differ(sides):
    # For 'É' and 'ß' DuckDB and Java return different letters, so the call is an error.
    _, frame = sides
    condition = spark_condition(parse_filter("upper(s) = 'É'", SCHEMA), NAMES)
    with pytest.raises(Exception, match="of some non-ASCII letters differs"):
        frame.where(condition).collect()
