"""Tells whether two texts are one to DuckDB: the guard against a query that sqlglot takes for another one."""

import duckdb
import pytest

import harness
from harness.engines.registry import duckdb_engine
from harness.errors import UnsupportedError
from harness.queries.inputs import planned
from harness.queries.rewrite import rewrite
from harness.queries.transpile import agreement, queries
from harness.queries.transpile.parser import parse
from harness.testing.writing.iceberg.builder import IcebergTable

ALIKE = [
    ("FROM t", "SELECT * FROM t"),
    ("SELECT a::INT FROM t, u", "SELECT CAST(a AS INTEGER) FROM t CROSS JOIN u"),
    ("SELECT a::TEXT, b::NUMERIC(9, 2), c::DECIMAL", "SELECT a::VARCHAR(7), b::DEC(9, 2), c::DECIMAL(18, 3)"),
    ("SELECT a IS NOT NULL, b IS NOT TRUE", "SELECT NOT a IS NULL, NOT b IS TRUE"),
    ("SELECT INTERVAL 1 DAY, INTERVAL '90 minutes'", "SELECT INTERVAL '1 days', INTERVAL '90' MINUTE"),
    ("SELECT extract(dow FROM a)", "SELECT extract(DAYOFWEEK FROM a)"),
    ("SELECT ARRAY[1, 2], position('a' IN b), @c", "SELECT [1, 2], strpos(b, 'a'), abs(c)"),
    ("SELECT list(a), a ** 2", "SELECT array_agg(a), power(a, 2)"),
    ("SELECT a FROM t ORDER BY a DESC", "SELECT a FROM t ORDER BY a DESC NULLS LAST"),
    ("SELECT a /* one */ FROM t -- two", "SELECT a FROM t"),
]
DIFFERENT = [
    ("SELECT a FROM t", "SELECT b FROM t", "a FROM"),
    ("SELECT a + b * c", "SELECT (a + b) * c", "b * c"),
    ("SELECT 1, a::INT", "SELECT 1, a::BIGINT", "INT"),
    ("SELECT 1, a::DECIMAL(18, 2)", "SELECT 1, a::DECIMAL", "DECIMAL"),
    ("SELECT INTERVAL 1 DAY", "SELECT INTERVAL 1 MONTH", "1 DAY"),
    ("SELECT INTERVAL '1.5 days'", "SELECT INTERVAL '1.5' DAY", "1.5"),
    ("SELECT min(a)", "SELECT max(a)", "min"),
    ("SELECT sum(a)", "SELECT sum(DISTINCT a)", "sum"),
    ("SELECT 'é', a FROM t", "SELECT 'é', b FROM t", "a FROM"),
    ("FROM t JOIN u ON a = b", "FROM t LEFT JOIN u ON a = b", "JOIN"),
    ("FROM t ORDER BY a", "FROM t ORDER BY a NULLS FIRST", "a"),
    ("FROM t LIMIT 1", "FROM t LIMIT 1 OFFSET 1", "FROM"),
    ("SELECT sum(a) OVER (ORDER BY b)", "SELECT sum(a) OVER (ORDER BY b ROWS UNBOUNDED PRECEDING)", "sum"),
    ("SELECT 1", "SELECT '1'", "1"),
    ("PIVOT t ON a USING sum(b)", "PIVOT t ON a USING sum(b)", "PIVOT"),  # no SELECT: DuckDB shows no tree
]


def misreading(one: str, other: str) -> agreement.Misreading | None:
    return agreement.misreading(*duckdb_engine().syntax_trees(one, other))


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_means_the_same_is_alike(one, other):
    assert misreading(one, other) is None
    assert misreading(other, one) is None


@pytest.mark.parametrize(("one", "other", "part"), DIFFERENT)
def test_what_does_not_is_shown(one, other, part):
    found = misreading(one, other)
    assert found is not None
    assert part in found.part(one)


def test_names_that_are_one_are_so_in_duckdbs_catalog():
    catalog = duckdb.connect()
    functions = dict(catalog.execute("SELECT DISTINCT function_name, alias_of FROM duckdb_functions()").fetchall())
    types = dict(catalog.execute("SELECT lower(type_name), lower(logical_type) FROM duckdb_types()").fetchall())
    # DuckDB 1.5 says of fewer functions which one they are; GROUPING_ID is a word of the parser.
    assert [name for name, first in agreement._FUNCTIONS.items() if functions.get(name) not in (first, None)] == []
    assert {name: types[name] for name in agreement._TYPES} == agreement._TYPES


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, harness.Table]:
    written = IcebergTable.create(
        tmp_path_factory.mktemp("syntax") / "t", {"i": "int", "s": "string"}, format_version=2
    )
    written.append(written.write_data([{"i": 1, "s": "a"}, {"i": 2, "s": "b"}]))
    return {"t": harness.open_table(written.location)}


def test_a_query_that_is_misread_is_refused_on_spark_at_its_place(tables, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setattr("harness.queries.transpile.queries.parse", lambda text: parse(text.replace("min(", "max(")))
    with pytest.raises(UnsupportedError) as error:
        harness.sql("SELECT s, min(i) FROM t GROUP BY s", engine="spark", **tables)
    assert error.value.message.startswith("Cannot run it on Spark: what begins with 'min(i) FROM t GROUP BY s' is not")


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ("FROM t JOIN t AS u NEAREST 1 BY DISTANCE abs(t.i - u.i)", "Cannot run NEAREST on"),
        ("FROM t, range(3) WITH ORDINALITY", "Cannot run ORDINALITY on"),
        ("SELECT s FROM t, LATERAL (SELECT t.i) AS l TABLESAMPLE 10%", "Cannot run SAMPLE on"),
    ],
)
def test_a_part_that_nothing_looks_at_is_refused_on_spark(tables, query, construct):
    pytest.importorskip("pyspark")
    with pytest.raises(UnsupportedError, match=construct):
        queries.query(query, {"t": {f.name: f.type for f in tables["t"].snapshot().schema.fields}})


@pytest.mark.parametrize(
    "shown",
    [
        "(SELECT max(i) FROM t)",
        "EXISTS (FROM t AS x WHERE x.i = t.i)",
        "t.i + (SELECT count(*) FROM T y, t WHERE y.i < t.i)",
        "i IN (SELECT i FROM t), (SELECT s FROM (SELECT (SELECT min(u.s) FROM t u, t) AS s FROM t LIMIT 1))",
        "EXISTS (TABLE t), ARRAY(SELECT s FROM t)",
        "(WITH c AS (FROM t) SELECT min(s) FROM c), i + 1, s || 'x', t",
        "* ~ 'i.*'",
    ],
)
def test_columns_without_a_name_are_called_as_duckdb_calls_them(tables, shown):
    query = f"SELECT * FROM (SELECT {shown} FROM t)"
    own = duckdb.connect()
    own.execute("CREATE TABLE t AS FROM (VALUES (1, 'a'), (2, 'b')) AS t(i, s)")
    names = own.sql(query).columns
    assert harness.sql(query, **tables).columns == names
    with harness.connect(tables) as connection:
        assert [name for name, *_ in connection.execute(query).description] == names
    rewritten = rewrite(query, {name: table.snapshot().schema for name, table in tables.items()})
    plans = {reference.view: planned(reference, tables["t"].snapshot()) for reference in rewritten.references}
    told = duckdb_engine().columns_of(rewritten.sql, plans, rewritten.originals)  # what Spark's columns are called
    assert [name for name, _ in told] == names
