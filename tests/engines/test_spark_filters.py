"""Filters on Spark. DuckDB is the judge of what a filter means, and `evaluate` must not say otherwise."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UnsupportedError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.predicate import evaluate, is_decided
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    VariantType,
)

pytest.importorskip("pyspark")
from harness.queries.transpile.filters import condition as spark_condition

DAY = 86_400_000_000
NAN, INF = math.nan, math.inf
# Per column: its type, DuckDB's, Spark's, how rows are given to DuckDB, and their stored forms.
COLUMNS: dict[str, tuple[Type, str, str, list[tuple[str, Any]]]] = {
    "small": (IntegerType(8), "TINYINT", "tinyint", [("-128", -128), ("1", 1), ("127", 127)]),
    "id": (IntegerType(32), "INTEGER", "int", [("-2147483648", -(2**31)), ("1", 1), ("2", 2), ("16777217", 16777217)]),
    "big": (
        IntegerType(64),
        "BIGINT",
        "bigint",
        [("-9223372036854775808", -(2**63)), ("1", 1), ("9007199254740993", 2**53 + 1)],
    ),
    "f": (
        FloatType(32),
        "FLOAT",
        "float",
        [("'nan'", NAN), ("'-0.0'", -0.0), ("'0.1'", 0.10000000149011612), ("'0.5'", 0.5), ("'inf'", INF)],
    ),
    "d": (
        FloatType(64),
        "DOUBLE",
        "double",
        [("'nan'", NAN), ("0.0", 0.0), ("'-0.0'", -0.0), ("'0.1'", 0.1), ("'-inf'", -INF), ("1", 1.0)],
    ),
    "de": (
        DecimalType(10, 2),
        "DECIMAL(10, 2)",
        "decimal(10, 2)",
        [(x, Decimal(x)) for x in ("-1.01", "0.00", "1.00", "1.01", "99999999.99")],
    ),
    "s": (
        StringType(),
        "VARCHAR",
        "string",
        [(f"'{x}'", x) for x in ("", "a", "ab", "a%", "a\\b", "Z", "é", "\U0001f600", "\uffff")],
    ),
    "b": (
        BinaryType(),
        "BLOB",
        "binary",
        [("''::BLOB", b""), ("'a'::BLOB", b"a"), ("'\\x80'::BLOB", b"\x80"), ("'\\xFF'::BLOB", b"\xff")],
    ),
    "u": (
        UuidType(),
        "UUID",
        "string",
        [
            ("'00000000-0000-0000-0000-000000000001'", bytes(15) + b"\1"),
            ("'FFFFFFFF-0000-0000-0000-000000000001'", b"\xff" * 4 + bytes(11) + b"\1"),
        ],
    ),
    "da": (DateType(), "DATE", "date", [("'1969-12-31'", -1), ("'2020-01-01'", 18262), ("'2020-01-02'", 18263)]),
    "ts": (
        TimestampType(),
        "TIMESTAMP",
        "timestamp_ntz",
        [
            ("'1969-12-31 23:59:59.999999'", -1),
            ("'2020-01-01'", 18262 * DAY),
            ("'2020-01-01 10:00:00.000001'", 18262 * DAY + 36_000_000_001),
        ],
    ),
    "tz": (
        TimestampType(utc=True),
        "TIMESTAMPTZ",
        "timestamp",
        [("'2019-12-31 22:00:00Z'", 18262 * DAY - 7_200_000_000), ("'2020-01-01 00:00:00Z'", 18262 * DAY)],
    ),
    "tn": (
        TimestampType("ns"),
        "TIMESTAMP_NS",
        "bigint",
        [("'2020-01-01'", 18262 * DAY * 1000), ("'2020-01-01 00:00:00.000000001'", 18262 * DAY * 1000 + 1)],
    ),
    "tm": (
        TimeType(),
        "TIME",
        "bigint",
        [("'00:00:00'", 0), ("'10:00:00'", 36_000_000_000), ("'23:59:59.999999'", 86_399_999_999)],
    ),
    "bo": (BooleanType(), "BOOLEAN", "boolean", [("true", True), ("false", False)]),
}
ROWS = 1 + max(len(values) for *_, values in COLUMNS.values())
SCHEMA = Schema(
    fields=(
        *(Field(id=i, name=name, type=c[0]) for i, (name, c) in enumerate(COLUMNS.items(), 1)),
        Field(
            id=100,
            name="st",
            type=StructType(
                (Field(id=101, name="x", type=IntegerType(32)), Field(id=102, name="a.b", type=StringType()))
            ),
        ),
        Field(id=103, name="l", type=ListType(Field(id=104, name="element", type=IntegerType(32)))),
        Field(
            id=105,
            name="m",
            type=MapType(
                Field(id=106, name="key", type=IntegerType(32), required=True),
                Field(id=107, name="value", type=StringType()),
            ),
        ),
        Field(id=108, name="va", type=VariantType()),
        Field(id=109, name="fx", type=FixedType(2)),
    )
)
# The names that the columns have on Spark: nothing that a user could write.
NAMES = {f.name: f"{i} `.{f.name}" for i, f in enumerate(SCHEMA.fields)}

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
CONDITIONS = [
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s LIKE '%'",
    "s LIKE 'a_'",
    "s LIKE 'a\\_'",
    "s LIKE 'a\\b'",
    "s LIKE '%\\%'",
    "s LIKE 'a$%' ESCAPE '$'",
    "s NOT LIKE 'a$%' ESCAPE '$'",
    "s LIKE NULL",
    "starts_with(s, 'a')",
    "suffix(s, 'b')",
    "contains(s, '\\')",
    "s ^@ 'a'",
    "length(s) = 1",
    "s || 'x' = 'ax'",
    "s || NULL = 'ax'",
    "concat(s, NULL, 'x') = 'x'",
    "substring(s, 2, 1) = 'b'",
    "strpos(s, 'b') = 2",
    "isnan(f)",
    "NOT isnan(d)",
    "bo",
    "NOT bo",
    "bo IS TRUE",
    "bo IS NOT FALSE",
    "st.x >= 1.5",
    "st IS NULL",
    "st.\"a.b\" = 'a1'",
    "l[1] > 2",
    "l[-1] = 3",
    "l[2] IS NULL",
    "len(l) = 1",
    "len([e for e in l if e > id]) = 1",
    "regexp_matches(s, 'a')",
    "s ILIKE 'A%'",
    "round(d, 1) = 1",
    "m[1] = 'x'",
    "m IS NOT NULL",
    "va IS NULL",
    "va = '\"a1\"'",
    "va BETWEEN '\"a2\"' AND '\"a3\"'",
    "va NOT IN ('\"a1\"', '1')",
    "va LIKE '%2%' OR va = s",
    "id > small",
    "big + 1 > id",
    "big // 2 = 4503599627370496",
    "id % 2 = 1",
    "-(id % 2) = -1",
    "id / 2 = 0.5",
    "de * 2 = 2.02",
    "de + 0.005 > 1.01",
    "de / 3 < 0.34",
    "de::int = 1",
    "d::float < 0.5",
    "round(de, 1) = 1.0",
    "abs(de) = 1.01",
    "d > f",
    "f > d",
    "f < 0.1 + d",
    "coalesce(d, f) = 0.5",
    "greatest(id, big) = 1",
    "nullif(id, 1) = 2",
    "CASE WHEN id > 1 THEN s ELSE 'a' END = 'a'",
    "CASE id WHEN 1 THEN 1.5 WHEN 2 THEN 2 END > 1",
    "da + 1 = DATE '2020-01-02'",
    "da - DATE '2020-01-01' = 1",
    "year(ts) = 2020",
    "month(da) = 1 AND year(tz) = 2020",
    "extract(hour FROM ts) = 10",
    "date_trunc('month', ts) = '2020-01-01'",
    "date_trunc('week', tz) = '2019-12-30'",
    "ts::date = da",
    "ts = tz",
    "da < tz",
    "ts::date = '2020-01-01'",
    "date_diff('day', da, ts) = 1",
    "small::double < 1",
    "id IN (1, 2, NULL)",
    "d IN (0.0, 'nan')",
    "f NOT IN (0.1)",
    "tm BETWEEN '00:00:00' AND '10:00:00'",
    "u IN ('FFFFFFFF-0000-0000-0000-000000000001')",
    "u IS DISTINCT FROM '00000000-0000-0000-0000-000000000001'",
    "CASE WHEN s < 'b' THEN upper(s) END = 'A'",
    "TRUE",
    "NULL",
]


def judge() -> duckdb.DuckDBPyConnection:
    """A table whose row i has the i-th value of every column, null once these are used up."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    types = ", ".join(f'"{name}" {column[1]}' for name, column in COLUMNS.items())
    nested = 'st STRUCT(x INTEGER, "a.b" VARCHAR), l INTEGER[], m MAP(INTEGER, VARCHAR), va VARCHAR, fx BLOB'
    connection.execute(f"CREATE TABLE t(n INTEGER, {types}, {nested})")
    for i in range(ROWS):
        values = [column[3][i][0] if i < len(column[3]) else "NULL" for column in COLUMNS.values()]
        struct = "NULL" if i == 3 else f"{{'x': {'NULL' if i == 2 else i}, 'a.b': 'a{i}'}}"
        values += [struct, f"[{i}]", f"MAP {{{i}: 'x'}}" if i else "NULL"]
        values += [f"'\"a{i}\"'" if i else "NULL", "'ab'::BLOB"]
        connection.execute(f"INSERT INTO t VALUES ({i}, {', '.join(values)})")
    return connection


@pytest.fixture(scope="module")
def sides(spark):
    """The same rows on DuckDB and on Spark, there in the types that values travel in."""
    kinds = ", ".join(f"{_quoted(NAMES[name])} {column[2]}" for name, column in COLUMNS.items())
    nested = [
        f"{_quoted(NAMES['st'])} struct<x: int, `a.b`: string>",
        f"{_quoted(NAMES['l'])} array<int>",
        f"{_quoted(NAMES['m'])} map<int, string>",
        f"{_quoted(NAMES['va'])} string",
        f"{_quoted(NAMES['fx'])} binary",
    ]
    rows = []
    for i in range(ROWS):
        row = [_travelling(column, i) for column in COLUMNS.values()]
        struct = None if i == 3 else (None if i == 2 else i, f"a{i}")
        rows.append((i, *row, struct, [i], {i: "x"} if i else None, f'"a{i}"' if i else None, b"ab"))
    # A session beside the tests' own, which does not compile hundreds of conditions that are evaluated a dozen times.
    own = spark.newSession()
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    frame = own.createDataFrame(rows, f"n int, {', '.join([kinds, *nested])}").repartition(1).cache()
    with judge() as connection:
        yield connection, frame


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _travelling(column: tuple[Type, str, str, list[tuple[str, Any]]], row: int) -> Any:
    type_, _, kind, values = column
    value = values[row][1] if row < len(values) else None
    match type_:
        case _ if value is None:
            return None
        case UuidType():
            return str(pa.scalar(value, pa.uuid()).as_py())
        case DateType():
            return pa.scalar(value, pa.date32()).as_py()
        case TimestampType() if kind != "bigint":
            return pa.scalar(value, pa.timestamp("us", "UTC" if type_.utc else None)).as_py()
        case _:
            return value


def stored(row: int, field: Field) -> Any:
    if field.id == 101:
        return None if row in (2, 3) else row
    if field.id == 102:
        return None if row == 3 else f"a{row}"
    if field.name not in COLUMNS:
        return None if (field.name, row) in (("st", 3), ("m", 0), ("va", 0)) else ()
    values = COLUMNS[field.name][3]
    return values[row][1] if row < len(values) else None


def check(sides, texts: list[str]) -> int:
    """Compares the three sides on every text that DuckDB accepts and Spark does not refuse; how many these were."""
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
        return 0
    answers = frame.selectExpr("n", *(f"{sql} AS c{i}" for i, (*_, sql) in enumerate(asked))).collect()
    for row in answers:
        for i, (text, filter_, expected, sql) in enumerate(asked):
            assert (row[f"c{i}"] is True) == (expected[row.n] is True), f"{text}: row {row.n}, {sql}"
            if is_decided(filter_.predicate):
                assert row[f"c{i}"] is expected[row.n], f"{text}: row {row.n}, {sql}"
                decided = evaluate(filter_.predicate, lambda field, row=row: stored(row.n, field))
                assert decided is expected[row.n], f"{text}: row {row.n}, {filter_.predicate}"
    return len(asked)


@pytest.mark.parametrize("column", list(COLUMNS))
def test_every_comparison_means_what_duckdb_says(sides, column):
    texts = [f"{column} {operator} {literal}" for literal in LITERALS for operator in OPERATORS]
    texts += [f"{column} {n}IN ({a}, {b})" for n in ("", "NOT ") for a, b in itertools.pairwise(LITERALS)]
    texts += [f"{column} IS {n}NULL" for n in ("", "NOT ")]
    assert check(sides, texts) >= 10


def test_every_condition_is_lowered_and_means_what_duckdb_says(sides):
    assert check(sides, CONDITIONS) == len(CONDITIONS)


leaves = st.one_of(
    st.sampled_from(CONDITIONS),
    st.builds(
        lambda c, o, x: f"{c} {o} {x}",
        st.sampled_from(list(COLUMNS)),
        st.sampled_from(OPERATORS),
        st.sampled_from(LITERALS),
    ),
    st.builds(
        lambda c, n, x, y: f"{c} {n}BETWEEN {x} AND {y}",
        st.sampled_from(list(COLUMNS)),
        st.sampled_from(["", "NOT "]),
        st.sampled_from(LITERALS),
        st.sampled_from(LITERALS),
    ),
    st.builds(
        lambda a, o, b: f"{a} {o} {b}",
        st.sampled_from(list(COLUMNS)),
        st.sampled_from(OPERATORS),
        st.sampled_from(list(COLUMNS)),
    ),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda x: f"NOT ({x})", inner),
        st.builds(lambda x, y: f"({x}) AND ({y})", inner, inner),
        st.builds(lambda x, y, z: f"{x} OR ({y}) OR ({z})", inner, inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=8, derandomize=True, database=None)
@given(texts=st.lists(expressions, min_size=60, max_size=60))
def test_compound_filters_mean_what_duckdb_says(sides, texts):
    check(sides, texts)


@pytest.mark.parametrize(
    ("where", "construct"),
    [
        pytest.param("s ~ 'a'", "a ~ b", id="regular-expression"),
        pytest.param("s LIKE s", "LIKE with a pattern that is no literal", id="like-pattern"),
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
def test_what_might_differ_is_refused_by_name(where, construct):
    filter_ = parse_filter(where, SCHEMA)
    with pytest.raises(UnsupportedError) as error:
        spark_condition(filter_, {**NAMES, "_partition": "p"})
    assert construct in error.value.message


def test_text_beyond_ascii_is_an_error_where_case_rules_differ(sides):
    # DuckDB makes 'É', and of 'ß' another letter than Java does: no answer is better than one of two.
    _, frame = sides
    condition = spark_condition(parse_filter("upper(s) = 'É'", SCHEMA), NAMES)
    with pytest.raises(Exception, match="letters beyond ASCII"):
        frame.where(condition).collect()


@pytest.mark.parametrize(
    "where",
    ["d > 1", "d >= 0.5", "d <> 0.25", "d = 0", "d < 0", "d <= -0.0", "d NOT IN (0.25)", "isnan(d)", "d IN (0, 7)"],
)
@pytest.mark.parametrize("dictionary", [True, False])
def test_statistics_of_files_do_not_lose_nan_or_minus_zero(spark, tmp_path, where, dictionary):
    # Writers leave NaN out of the statistics of a row group, and a dictionary has -0.0 but not 0.0.
    for i, values in enumerate(([0.25, 0.25, NAN], [-0.0, -0.0], [0.0], [NAN])):
        pq.write_table(pa.table({"d": values}), tmp_path / f"{i}.parquet", use_dictionary=dictionary)
    schema = Schema(fields=(Field(id=1, name="d", type=FloatType(64)),))
    filter_ = parse_filter(where, schema)
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT d FROM (VALUES (0.25::DOUBLE), (0.25), ('nan'), ('-0.0'), ('-0.0'), (0), ('nan')) v(d) "
            f"WHERE {where}"
        )
        expected = sorted(repr(d) for (d,) in rows.fetchall())
    frame = spark.read.parquet(str(tmp_path))
    assert sorted(repr(r.d) for r in frame.where(spark_condition(filter_, {"d": "d"})).collect()) == expected


def test_conditions_on_plain_columns_reach_the_parquet_scan(spark, tmp_path):
    pq.write_table(pa.table({"c0": [1, 2], "c1": ["a", "b"], "c2": [0.5, 1.5]}), tmp_path / "0.parquet")
    schema = Schema(
        fields=(
            Field(id=1, name="id", type=IntegerType(64)),
            Field(id=2, name="s", type=StringType()),
            Field(id=3, name="d", type=FloatType(64)),
        )
    )
    filter_ = parse_filter("id >= 2 AND s LIKE 'b%' AND d < 2.5 AND id IN (1, 2)", schema)
    own = spark.newSession()
    own.conf.set("spark.sql.maxMetadataStringLength", "2000")
    frame = own.read.parquet(str(tmp_path)).where(spark_condition(filter_, {"id": "c0", "s": "c1", "d": "c2"}))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    for pushed in ("GreaterThanOrEqual(c0,2)", "StringStartsWith(c1,b)", "LessThan(c2,2.5)", "In(c0, [1,2])"):
        assert pushed in plan
    assert frame.count() == 1
