"""One query on both engines: the same rows, names, and types, or a refusal that names the construct."""

import base64
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.engines.duckdb.instance import connect
from harness.errors import EngineError, RequestError, TableNotFoundError, UnsupportedError
from harness.writing.iceberg.builder import IcebergTable

T = {
    "id": "int",
    "k": "long",
    "s": "string",
    "de": "decimal(10, 2)",
    "d": "double",
    "f": "float",
    "da": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "bo": "boolean",
    "u": "uuid",
    "tm": "time",
    "b": "binary",
    "st": "struct<x: int, y: string>",
    "l": "list<int>",
    "m": "map<string, int>",
    "Na.me": "string",
}
DAY = 86_400_000_000
NOON = 18262 * DAY + DAY // 2
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "k": 10,
        "s": "a",
        "de": "1.10",
        "d": 0.5,
        "f": 0.5,
        "da": 18262,
        "ts": NOON,
        "tz": NOON,
        "bo": True,
        "u": "00000000-0000-0000-0000-00000000000a",
        "tm": 36_000_000_000,
        "b": b"\x00\xff",
        "st": {"x": 1, "y": "p"},
        "l": [1, 2],
        "m": {"a": 1},
        "Na.me": "n",
    },
    {"id": 2, "k": 10, "s": "b_c", "de": "2.25", "d": math.nan, "f": 0.1, "da": 18293, "ts": NOON + 1, "bo": False},
    {"id": 3, "k": 20, "s": None, "de": "-2.50", "d": -0.0, "f": None, "da": -1, "ts": -1, "tz": 0, "bo": None},
    {"id": 4, "k": 20, "s": "a\\b", "de": None, "d": math.inf, "f": 2.5, "l": [], "st": {"x": None, "y": "q"}},
    {
        "id": -7,
        "s": "B",
        "de": "0.00",
        "d": 2.5,
        "f": -2.5,
        "l": [5, None, 7],
        "u": "FFFFFFFF-0000-0000-0000-000000000000",
    },
    {"id": None, "k": 2**53 + 1, "s": "", "de": "99999999.99", "d": 1e10, "f": 1.0, "m": {}, "tm": 0, "b": b""},
]
U: list[dict[str, Any]] = [
    {"k": 10, "s": "x", "v": 1},
    {"k": 10, "s": "y", "v": 2},
    {"k": 30, "s": "z", "v": None},
    {"k": None, "s": None, "v": 4},
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, harness.Table]:
    directory = tmp_path_factory.mktemp("sql")
    t = IcebergTable.create(directory / "t", T, format_version=2)
    dead = {"id": 99, "k": 10, "s": "deleted"}
    files = (t.write_data([*ROWS[:3], dead]), t.write_data(ROWS[3:]))
    t.append(*files)
    t.append(t.write_position_deletes([(files[0], 3)]))
    u = IcebergTable.create(directory / "u", {"k": "long", "s": "string", "v": "int"}, format_version=2)
    u.append(u.write_data(U))
    return {name: harness.open_table(str(directory / name)) for name in ("t", "u")}


def both(query: str, tables: dict[str, harness.Table], spark: Any) -> tuple[pa.Table, pa.Table]:
    """Return the results of DuckDB and of Spark, in the types that Spark declares for its columns."""
    from harness.engines.column_values import conform
    from harness.engines.spark.engine import conform as conform_spark

    frame = harness.sql(query, tables, engine="spark", spark=spark)
    told = [
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(f.metadata["harness.arrow"]))).field(0) for f in frame.schema
    ]
    relation = harness.sql(query, tables, connection=connect())
    schema = pa.schema(told)
    assert relation.columns == frame.columns == schema.names
    # Arrow has no 128-bit integer and uses DECIMAL(38, 0).
    huge = {i for i, type_ in enumerate(relation.types) if str(type_) == "HUGEINT"}
    shown = [f"#{i + 1}::DECIMAL(38, 0)" if i in huge else f"#{i + 1}" for i in range(len(told))]
    return conform(pa.table(relation.project(", ".join(shown))), schema), conform_spark(frame.toArrow(), schema)


QUERIES = {
    "star": "SELECT * FROM t",
    "no-table": "SELECT 1 AS one, 'x' || 'y', NULL AS n",
    "quoted-names": 'SELECT "Na.me" AS "odd `name`", t."Na.me" FROM t AS t WHERE "na.ME" = \'n\'',
    "case-of-names": "SELECT ID, T.S FROM T",
    "average-of-nothing": "SELECT avg(de), sum(id), max(s), count(*), avg(k) FROM t WHERE id > 1000",
    "rounding-casts": "SELECT x::INT, y::INT, (y * 3)::INT FROM "
    "(SELECT de AS x, f AS y FROM t WHERE abs(de) < 3 OR abs(f) = 2.5)",
    "nan-compared": "SELECT id, d > 1, d = 'nan', isnan(d), f <= 0.1, d <> 2.5 FROM t",
    "nulls-first": "SELECT s FROM t ORDER BY s DESC NULLS FIRST, id",
    "text-literals": r"""SELECT 'it''s', 'a\nb', 'tab	', 'ü🦆', '"`', '\u0041' AS z FROM t""",
    "strings-as-values": "SELECT id FROM t WHERE da > '2020-01-01' OR ts = '1969-12-31 23:59:59.999999' OR id = '2'",
    "uuids": "SELECT u, u = '00000000-0000-0000-0000-00000000000A' FROM t "
    "WHERE u <> '00000000-0000-0000-0000-000000000001'",
    "times": "SELECT tm FROM t WHERE tm >= TIME '10:00:00' OR tm < '00:00:01'",
    "blobs": r"SELECT b FROM t WHERE b = '\x00\xFF'::BLOB OR b = ''",
    "timestamps": "SELECT ts, tz, ts = tz, ts < TIMESTAMP '2020-01-01 12:00:00.000001', "
    "tz >= TIMESTAMPTZ '2020-01-01 13:00:00+01' FROM t",
    "group-by-alias": "SELECT id % 2 AS odd, count(*) FROM t GROUP BY odd HAVING odd IS NOT NULL AND count(*) > 1",
    "group-by-nan": "SELECT count(*) AS n FROM t GROUP BY isnan(d), d > 1",
    "using-qualified": "SELECT x.k, u.k, k FROM (SELECT id, k FROM t) AS x FULL JOIN u USING (k)",
    "arithmetic-of-literals": "SELECT 2 * 3 - 1, DATE '2024-01-31' + INTERVAL 1 MONTH, DATE '2024-01-31' - 31 FROM t",
    "not-in-with-null": "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u)",
    "with-hides-a-table": "WITH u AS (SELECT id FROM t) SELECT * FROM u",
    "union-of-types": "SELECT id AS n FROM t UNION ALL SELECT v + 0.5 FROM u",
    "qualify": "SELECT k, id FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1 ORDER BY k",
    "rollup": "SELECT k, bo, grouping(k), grouping(k, bo), grouping_id(bo, k), count(*), sum(de) FROM t "
    "GROUP BY ROLLUP (k, bo) ORDER BY ALL",
    "grouping-sets": "SELECT k, bo, max(id) FROM t GROUP BY GROUPING SETS ((k, bo), (k), (), (k)) HAVING count(*) > 1",
    "rank-over-rollup": "SELECT k, bo, rank() OVER (PARTITION BY grouping(k) + grouping(bo) ORDER BY count(*) DESC, "
    "k, bo) FROM t GROUP BY ROLLUP (k, bo)",
    "huge-integers": "SELECT sum(id) + 1, sum(k) - sum(id), sum(id) * 3, sum(id) * 1.500, sum(id) - 0.25, -sum(id), "
    "sum(id) > 2, sum(id) = 1.0, sum(id)::DECIMAL(15, 4), id::HUGEINT, coalesce(sum(id), 1.5), sum(id) / 2 "
    "FROM t GROUP BY id",
    "wide-decimals": "SELECT sum(de) * 0.0001000000, sum(de) + 0.0000000001, sum(de) * de, "
    "sum(de) BETWEEN 0.9 * min(de) AND 1.1 * max(de) FROM t GROUP BY id, de",
    "shadowed-in-group-by": "SELECT k + 1 AS k, count(*) FROM t GROUP BY k",
    "shadowed-in-order-by": "SELECT -id AS id FROM t WHERE id < 9 ORDER BY id + 0",
    "named-windows": "SELECT id, sum(id) OVER w, max(id) OVER (v ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), "
    "row_number() OVER v FROM t WINDOW w AS (PARTITION BY k), v AS (w ORDER BY id)",
    "values-joined": "SELECT t.id, v.x, col1 FROM t JOIN (VALUES (1, 1.5), (2, 3), (3, NULL)) AS v(x) ON t.id = v.x",
    "values-in-with": "WITH v(a, b) AS (VALUES (1, DATE '2020-01-01'), (NULL, NULL)) SELECT b, a + 1 FROM v",
    "metadata-columns": "SELECT _pos, id FROM t WHERE _pos < 2",
    "comments": "SELECT id -- the id\nFROM t /* all of it */;",
}


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in QUERIES.items()])
def test_both_engines_give_the_same_rows(tables, spark, query):
    rows = check_same_rows(query, tables, spark)
    assert rows or query == QUERIES["not-in-with-null"]


def check_same_rows(query: str, tables: dict[str, harness.Table], spark: Any) -> int:
    """Fail if the engines differ, and return the number of rows."""
    by_duckdb, by_spark = both(query, tables, spark)
    assert by_spark.schema == by_duckdb.schema
    expected, actual = _rows(by_duckdb), _rows(by_spark)
    if "ORDER BY" not in query.rsplit(")", 1)[-1]:
        expected, actual = sorted(expected), sorted(actual)
    assert actual == expected
    return len(expected)


def _rows(table: pa.Table) -> list[tuple[str, ...]]:
    columns = [[repr(value) for value in _plain(column)] for column in table.columns]
    return list(zip(*columns, strict=True))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Convert values so that equal values have equal texts. Maps have no order."""
    if pa.types.is_map(column.type):
        return [None if value is None else sorted(value) for value in column.to_pylist()]
    return column.to_pylist()


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        pytest.param("SELECT d::VARCHAR FROM t", "a cast from double to string", id="float-as-text"),
        pytest.param("SELECT ts - ts FROM t", "of type INTERVAL", id="timestamps-subtracted"),
        pytest.param("SELECT d // 2 FROM t", "// of double and int", id="whole-division-of-doubles"),
        pytest.param("SELECT f / 2 FROM t", "a division of 32-bit floats", id="division-of-floats"),
        pytest.param("SELECT de * 1.00000000000000000000000000001 FROM t", "more than 38 digits", id="wide-decimals"),
        pytest.param("SELECT median(d) OVER () FROM t", "as a window function", id="median-over"),
        pytest.param("SELECT count(DISTINCT id) OVER () FROM t", "DISTINCT in a window", id="distinct-over"),
        pytest.param("SELECT sum(d)::HUGEINT FROM t", "a cast from double to hugeint", id="double-as-hugeint"),
        pytest.param("SELECT de AS id FROM t QUALIFY sum(id) OVER () > 1", "both a column", id="shadowed-in-qualify"),
        pytest.param("SELECT min(u) FROM t", "an order of uuid", id="min-of-uuids"),
        pytest.param("SELECT rank(ORDER BY s) OVER (ORDER BY id) FROM t", "rank()", id="rank-by-its-own-order"),
        pytest.param("SELECT id FROM t ORDER BY u", "an order of uuid", id="order-of-uuids"),
        pytest.param("SELECT l = l FROM t", "a comparison of list<int>", id="lists-compared"),
        pytest.param("SELECT v FROM u UNION SELECT s FROM u", "UNION of types int, string", id="union-of-types"),
        pytest.param("SELECT * FROM t POSITIONAL JOIN u", "a POSITIONAL JOIN", id="positional-join"),
        pytest.param("SELECT id FROM t USING SAMPLE 2", "Cannot run SAMPLE on", id="sample"),
        pytest.param("SELECT id FROM t LIMIT 50%", "this LIMIT", id="limit-percent"),
        pytest.param("DESCRIBE t", 'in DESCRIBE "t": its rows may differ', id="describe"),
        pytest.param("SELECT 1e400 FROM t", "Cannot run this on Spark", id="literal"),
        pytest.param("SELECT s -> 1 FROM t", "in s -> '$[1]': its rows may differ", id="path"),
        pytest.param("SELECT random() FROM t", "random()", id="volatile"),
        pytest.param("SELECT now()", "", id="now"),
    ],
)
def test_constructs_with_engine_specific_results_are_refused_by_name(tables, query, construct):
    # The query is refused before a Spark session is needed.
    pytest.importorskip("pyspark")
    with pytest.raises(UnsupportedError) as error:
        harness.sql(query, tables, engine="spark")
    assert construct in error.value.message
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT k * 4611686018427387904 FROM t WHERE id = 1", id="bigint"),
        pytest.param("SELECT id::TINYINT * 100::TINYINT FROM t WHERE id = 4", id="tinyint"),
        pytest.param("SELECT k::INT FROM t WHERE id IS NULL", id="cast"),
        pytest.param("SELECT d::INT FROM t WHERE id = 4", id="infinity-as-int"),
        pytest.param("SELECT s::INT FROM t WHERE s = 'a'", id="text-as-int"),
        pytest.param("SELECT (SELECT v FROM u) AS v", id="scalar-subquery-of-several-rows"),
    ],
)
def test_queries_that_fail_on_duckdb_fail_on_spark(tables, spark, query):
    with pytest.raises(duckdb.Error):
        harness.sql(query, tables, connection=connect()).fetchall()
    with pytest.raises(Exception):  # noqa: B017, PT011 -- Spark's own, or a refusal
        harness.sql(query, tables, engine="spark", spark=spark).collect()


@pytest.mark.parametrize(
    "query", ["SELECT nothing FROM t", "SELECT id FROM missing", "SELECT sum(s) FROM t", "SELECT id, count(*) FROM t"]
)
def test_queries_that_duckdb_cannot_bind_are_refused_on_both(tables, query):
    pytest.importorskip("pyspark")
    for engine in ("duckdb", "spark"):
        with pytest.raises((EngineError, TableNotFoundError)):
            harness.sql(query, tables, engine=engine)


def test_sparks_own_dialect_is_run_as_it_is_written(tables, spark):
    query = "SELECT `s`, size(l) AS n, s RLIKE '^a' AS r, count(1) FROM T WHERE id = '1' GROUP BY ALL -- end"
    frame = harness.sql(query, tables, engine="spark", dialect="spark", spark=spark)
    assert frame.columns == ["s", "n", "r", "count(1)"]
    assert [tuple(row) for row in frame.collect()] == [("a", 2, True, 1)]


def test_sparks_dialect_runs_on_duckdb_too(tables):
    relation = harness.sql("SELECT `id` FROM t WHERE `Na.me` = 'n'", tables, dialect="spark")
    assert relation.fetchall() == [(1,)]


def test_the_users_session_is_neither_changed_nor_seen(tables, spark):
    own = spark.newSession()
    for key, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.caseSensitive": "true",
        "spark.sql.shuffle.partitions": "3",
    }.items():
        own.conf.set(key, value)
    own.sql("SELECT 7 AS id").createOrReplaceTempView("t")
    before = own.conf.getAll
    query = "SELECT ID, k // 3, hour(tz), 1 / 2 FROM t WHERE id = 1"
    frame = harness.sql(query, tables, engine="spark", spark=own)
    assert frame.sparkSession is own
    assert [tuple(row) for row in frame.collect()] == [(1, 3, 12, 0.5)]
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|zero"):
        harness.sql("SELECT id % 0 FROM t", tables, engine="spark", spark=own).collect()
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        harness.sql("SELECT sum(k + 9223372036854775000) FROM t", tables, engine="spark", spark=own).collect()
    assert own.conf.getAll == before
    assert [t.name for t in own.catalog.listTables()] == ["t"]
    assert own.sql("SELECT id FROM t").collect()[0].id == 7
    with pytest.raises(UnsupportedError, match="Cannot read mine on Spark"):
        transpiled_only("SELECT * FROM mine")


def transpiled_only(query: str) -> Any:
    from harness.engines.spark.transpile import queries

    return queries.query(query, {})


def test_conditions_of_the_query_reach_planning(tables, spark):
    frame = harness.sql("SELECT s FROM t WHERE k = 10", tables, engine="spark", spark=spark)
    assert len(frame.inputFiles()) == 1
    assert sorted(row.s for row in frame.collect()) == ["a", "b_c"]


def test_errors_name_types_that_spark_lacks(tables, spark):
    frame = harness.sql("SELECT max(tm) AS latest, u FROM t GROUP BY u", tables, engine="spark", spark=spark)
    told = [
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(f.metadata["harness.arrow"]))).field(0) for f in frame.schema
    ]
    assert [(f.name, f.type) for f in told] == [("latest", pa.time64("us")), ("u", pa.uuid())]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"engine": "sparkle"}, r"Unknown engine 'sparkle': did you mean spark", id="unknown-engine"),
        pytest.param({"spark": object()}, r"Cannot use a Spark session on duckdb", id="spark-on-duckdb"),
        ({"engine": "spark", "connection": duckdb.connect()}, r"Cannot use a DuckDB connection on spark"),
    ],
)
def test_arguments_that_do_not_belong_together(tables, arguments, message):
    with pytest.raises(RequestError, match=message):
        harness.sql("SELECT 1", tables, **arguments)
