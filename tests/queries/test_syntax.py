"""Texts of queries: texts that are equal to DuckDB, texts that do not need sqlglot, and table names with a schema."""

import importlib.metadata
from collections.abc import Iterator

import duckdb
import pytest
from parsers import reads_all

import harness
from harness.engines.duckdb.relations import query_columns, syntax_trees
from harness.engines.spark.transpile import agreement, queries
from harness.engines.spark.transpile.parser import parse
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, StructType
from harness.queries.inputs import plan_reference
from harness.queries.plain import Rewritten, rewrite_plain
from harness.queries.rewrite import parse_statement, rewrite, rewrite_statement
from harness.writing.iceberg.builder import IcebergTable

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
    ("PIVOT t ON a USING sum(b)", "PIVOT t ON a USING sum(b)", "PIVOT"),  # no SELECT, so DuckDB shows no tree
]


def misreading(query: str, other: str) -> agreement.Misreading | None:
    return agreement.misreading(*syntax_trees(query, other))


@pytest.mark.parametrize(("query", "other"), ALIKE)
def test_equivalent_queries_have_no_misreading(query, other):
    assert misreading(query, other) is None
    assert misreading(other, query) is None


@pytest.mark.parametrize(("query", "other", "part"), DIFFERENT)
def test_the_differing_part_of_a_query_is_shown(query, other, part):
    found = misreading(query, other)
    assert found is not None
    assert part in found.part(query)


def test_aliases_match_the_catalog_of_duckdb():
    catalog = duckdb.connect()
    functions = dict(catalog.execute("SELECT DISTINCT function_name, alias_of FROM duckdb_functions()").fetchall())
    types = dict(catalog.execute("SELECT lower(type_name), lower(logical_type) FROM duckdb_types()").fetchall())
    # DuckDB 1.5 resolves fewer functions to one name. GROUPING_ID is a keyword of its parser.
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
    monkeypatch.setattr(
        "harness.engines.spark.transpile.queries.parse", lambda text: parse(text.replace("min(", "max("))
    )
    with pytest.raises(UnsupportedError) as error:
        harness.sql("SELECT s, min(i) FROM t GROUP BY s", tables, engine="spark")
    assert error.value.message.startswith(
        "Cannot run the query on Spark: Spark reads the part that begins with 'min(i) FROM t GROUP BY s' differently"
    )


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        pytest.param(
            "FROM t JOIN t AS u NEAREST 1 BY DISTANCE abs(t.i - u.i)", "Cannot run NEAREST on", marks=reads_all
        ),
        ("FROM t, range(3) WITH ORDINALITY", "Cannot run ORDINALITY on"),
        ("SELECT s FROM t, LATERAL (SELECT t.i) AS l TABLESAMPLE 10%", "Cannot run SAMPLE on"),
    ],
)
def test_unsupported_parts_of_a_query_are_refused_on_spark(tables, query, construct):
    pytest.importorskip("pyspark")
    with pytest.raises(UnsupportedError, match=construct):
        queries.query(query, {"t": {f.name: f.type for f in tables["t"].snapshot().schema.fields}})


@pytest.mark.parametrize(
    "items",
    [
        "(SELECT max(i) FROM t)",
        "EXISTS (FROM t AS x WHERE x.i = t.i)",
        "t.i + (SELECT count(*) FROM T y, t WHERE y.i < t.i)",
        "i IN (SELECT i FROM t), (SELECT s FROM (SELECT (SELECT min(u.s) FROM t u, t) AS s FROM t LIMIT 1))",
        pytest.param("EXISTS (TABLE t), ARRAY(SELECT s FROM t)", marks=reads_all),
        "(WITH c AS (FROM t) SELECT min(s) FROM c), i + 1, s || 'x', t",
        "* ~ 'i.*'",
    ],
)
def test_columns_without_a_name_are_called_as_duckdb_calls_them(tables, items):
    query = f"SELECT * FROM (SELECT {items} FROM t)"
    own = duckdb.connect()
    own.execute("CREATE TABLE t AS FROM (VALUES (1, 'a'), (2, 'b')) AS t(i, s)")
    names = own.sql(query).columns
    assert harness.sql(query, tables).columns == names
    with harness.connect(tables) as connection:
        assert [name for name, *_ in connection.execute(query).description] == names
    rewritten = rewrite(query, {name: table.snapshot().schema for name, table in tables.items()})
    plans = {reference.view: plan_reference(reference, tables["t"].snapshot()) for reference in rewritten.references}
    told = query_columns(rewritten.sql, plans, rewritten.originals)  # the names of Spark's columns
    assert [name for name, _ in told] == names


_TYPES = {"id": IntegerType(64), "k": IntegerType(64), "s": StringType(), "Mixed": StringType(), "time": StringType()}
_FIELDS = [Field(id=i, name=name, type=type_, required=False) for i, (name, type_) in enumerate(_TYPES.items(), 1)]
_SCHEMA = Schema(fields=tuple(_FIELDS))
_TABLES = {"t": _SCHEMA, "Other": _SCHEMA}


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from t",
        "  select count ( * ) , sum( k )\n from t ; ",
        "select *, k from t limit 10",
        "select k from Other",
        "select t.k, id from t",
        "select x.k + 1, -id * (2 - k) % 3 from t as x",
        "select sum(k)::bigint n, -id::VARCHAR, (k :: double)::int % 2 from t",
        "select count(*) n, max(x.k) k from t x order by n",
        "select -k / 2 + (id % 3) * 1.5 n, s::varchar from t limit 4",
        "select k from t order by k limit 4",
        "select k from t group by k limit 4",
        "select s, count(distinct k) as n from t group by s order by n desc, s limit 3",
        "select mixed as k, upper(MIXED) from t order by 1",
        "select 'a b', 1.5, round(k, 2) from t",
        "select _file, _pos from t",
        "select k::decimal(9, 2) from t",
        'select "k" from t',
        "select time from t",
        "select k from t order by k nulls first",
        "select 1e3 from t",
        "select 'it''s', 'é' from t",
        "select 'é' n, k from t limit 2",
        "select k, from t",
        "select k as order from t",
        "select sum(k order by id) from t",
    ],
)
def test_plain_queries_become_what_sqlglot_makes_of_them(query: str) -> None:
    plain = rewrite_plain(query, _TABLES, prefix="p")
    assert plain is not None
    assert plain == rewrite(query, _TABLES, prefix="p")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "select",
        "select k from t where k = 1",
        "select k from t, Other",
        "select k from t join Other using (k)",
        "select k from t t2 (a, b, c, d, e)",
        "select k x.y from t",
        "select t2.k from t",
        "select t.k from t t2",
        "select k from T",
        "select k -- from t",
        "select k from t -- all",
        "select k /* ; */ from t",
        "select k from t at (version => 1)",
        'select k from "t"',
        "select k from main.t",
        "select k from t tablesample 10%",
        "select k from t limit 1 offset 1",
        "select k, count(*) from t group by all",
        "select k from t order by *",
        "select * exclude (k) from t",
        "select t.* from t",
        "select $1 from t",
        "select random() from t",
        "select k from t qualify row_number() = 1",
        "select unnest([k, id]) from t",
        "select t from t",
        "select unknown from t",
        "select columns(k) from t",
        "select sum(k) over () from t",
        "select sum(k) filter (k > 1) from t",
        "select distinct k from t",
        "select k from t order by all",
        "select k from t limit 10%",
        "select k from t; select k from t",
        "select k from t union select k from t",
        "select " + "(" * 100_000 + "k",
    ],
)
def test_others_are_left_to_sqlglot(query: str) -> None:
    assert rewrite_plain(query, _TABLES, prefix="p") is None


_INT = IntegerType(32)
_S = StructType((Field(id=9, name="v", type=_INT),))
SCHEMA = Schema(fields=(Field(id=1, name="id", type=_INT), Field(id=2, name="s", type=_S)))
NAMES = {("a", "t"): "a.t", ("b", "t"): "b.t", ("memory", "a", "t"): "a.t", ("a", "u"): "a.u"}


def rewritten(query: str) -> Rewritten:
    statement = parse_statement(query)
    return rewrite_statement(statement, NAMES, dict.fromkeys(NAMES.values(), SCHEMA), prefix="_v")


def test_conditions_on_qualified_columns_reach_planning() -> None:
    query = "SELECT 1 FROM a.t JOIN b.t ON a.t.id = b.t.id WHERE a.t.id > 1 AND b.t.s.v = 2 AND memory.a.t.id < 9"
    first, second = (reference.where for reference in rewritten(query).references)
    assert first.predicate == parse_filter("id > 1 AND id < 9", SCHEMA).predicate
    assert second.predicate == parse_filter("id > 1 AND s.v = 2 AND id < 9", SCHEMA).predicate


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.id FROM a.t, b.t",
        "SELECT t FROM a.t JOIN b.t USING (id)",
        "SELECT a.t.id FROM a.t, (SELECT 1 AS id) AS t WHERE t.id = 1",
        "SELECT (SELECT max(b.t.id) FROM b.t WHERE b.t.id < a.t.id) FROM a.t",
    ],
)
def test_a_column_that_may_be_of_two_tables_is_refused(query: str) -> None:
    with pytest.raises(RequestError, match="may belong to two tables named t"):
        rewritten(query)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA a; CREATE SCHEMA b")
        for table, first in (("a.t", 0), ("b.t", 2), ("a.u", 1)):
            connection.execute(
                f"CREATE TABLE {table} AS SELECT range::INT AS id, {{v: range}} AS s FROM range({first}, 4)"
            )
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.t.id, b.t.s.v FROM a.t JOIN b.t ON a.t.id = b.t.id WHERE a.t.id < 3",
        "SELECT a.t.id FROM a.t WHERE EXISTS (FROM a.u WHERE a.u.id = a.t.id AND a.t.s.v <> 2)",
        "SELECT a.t.id FROM a.t UNION ALL SELECT b.t.id FROM b.t",
        "SELECT x.id, a.t.id FROM a.t AS x, a.t WHERE x.id = a.t.id + 1",
        "SELECT (SELECT max(a.t.id) FROM a.t WHERE a.t.id < 2), a.t.id FROM a.t",
        "WITH t AS (SELECT a.t.id + 10 AS id FROM a.t) SELECT t.id FROM t",
        "SELECT a.t.id, n.m FROM a.t, LATERAL (SELECT a.t.id * 2 AS m) n",
        "SELECT a.t.s.v, count(*) FROM a.t GROUP BY a.t.s.v HAVING min(a.t.id) > 1 ORDER BY a.t.s.v DESC",
        "SELECT memory.a.t.id FROM a.t ORDER BY memory.a.t.id",
    ],
)
def test_the_rows_are_those_that_duckdb_gives_without_rewriting(database, query) -> None:
    found = rewritten(query)
    for reference in found.references:
        where = "" if reference.where is None else f" WHERE {reference.where.sql}"
        database.execute(f'CREATE OR REPLACE TEMP VIEW "{reference.view}" AS FROM {reference.table}{where}')
    expected = database.sql(query)
    assert sorted(database.sql(found.sql).fetchall()) == sorted(expected.fetchall())


def test_an_older_sqlglot_is_named_where_it_cannot_read_a_query(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "30.8.0")
    with pytest.raises(RequestError, match=r"sqlglot 30\.8\.0 is installed; 30\.30 can parse more"):
        harness.sql("SELECT FROM WHERE")
