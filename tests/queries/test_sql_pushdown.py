"""Rewriting of queries over bound tables. DuckDB checks that the rewritten query returns the same rows."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsers import reads_all

from harness.errors import RequestError
from harness.metadata.model.schema import Field, FloatType, IntegerType, Schema, StringType, StructType
from harness.queries.plain import TableReference
from harness.queries.rewrite import rewrite


def schema(*names: str) -> Schema:
    return Schema(fields=tuple(Field(id=i, name=name, type=IntegerType(32)) for i, name in enumerate(names, 1)))


TABLES = {
    "t": schema("id", "x", "k"),
    "u": schema("id", "y", "k"),
    "Odd name": Schema(
        fields=(
            Field(id=1, name="Na me", type=StringType()),
            Field(id=2, name="s", type=StructType((Field(id=3, name="v", type=IntegerType(32)),))),
        )
    ),
    "w": Schema(
        fields=(
            Field(id=1, name="l", type=IntegerType(64)),
            Field(id=2, name="f", type=FloatType(64)),
            Field(id=3, name="g", type=FloatType(64)),
            Field(id=4, name="c", type=StringType()),
        )
    ),
}


def where(reference: TableReference) -> str | None:
    return None if reference.where is None else reference.where.sql


@pytest.mark.parametrize(
    ("query", "sql"),
    [
        pytest.param("SELECT t.x FROM t", 'SELECT t.x FROM "_harness_1_t" AS t', id="alias-is-kept"),
        pytest.param('FROM "Odd name"', 'FROM "_harness_1_Odd_name" AS "Odd name"', id="quoted"),
        pytest.param("FROM main.t, other", "FROM main.t, other", id="qualified-and-unknown"),
        pytest.param("WITH t AS (SELECT 1) FROM t", "WITH t AS (SELECT 1) FROM t", id="cte-hides"),
        ("WITH t AS (FROM t) FROM t", 'WITH t AS (FROM "_harness_1_t" AS t) FROM t'),
        ("WITH u AS (FROM t), t AS (FROM u) FROM t", 'WITH u AS (FROM "_harness_1_t" AS t), t AS (FROM u) FROM t'),
        pytest.param(
            "FROM t WHERE x IN (WITH t AS (SELECT 1) FROM t)",
            'FROM "_harness_1_t" AS t WHERE x IN (WITH t AS (SELECT 1) FROM t)',
            id="inner-cte-hides-inside-only",
        ),
        pytest.param("TABLE t;", 'TABLE "_harness_1_t"', id="table", marks=reads_all),
        pytest.param("DESCRIBE t", 'DESCRIBE "_harness_1_t"', id="describe"),
        pytest.param("EXPLAIN FROM t -- end", 'EXPLAIN FROM "_harness_1_t" AS t', id="explain"),
        pytest.param("FROM t WHERE 'a' ~ 't'", "FROM \"_harness_1_t\" AS t WHERE 'a' ~ 't'", id="text-is-kept"),
        pytest.param("FROM _harness_1_t, t", 'FROM _harness_1_t, "_harness_2_t" AS t', id="names-in-use"),
    ],
)
def test_tables_become_views(query: str, sql: str) -> None:
    assert rewrite(query, TABLES).sql == sql


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("FROM t WHERE id = 1 OR x = 2", ['("id" = 1 OR "x" = 2)'], id="or"),
        pytest.param("FROM t WHERE random() < 0.5 AND id = 1", ['("id" = 1)'], id="volatile"),
        pytest.param("FROM t WHERE id IN [1, 2]", ['("id" IN [1, 2])'], id="in-a-list"),
        pytest.param("FROM t WHERE id NOT IN [1, NULL]", [None], id="not-in-a-list"),  # null in a list is not unknown
        pytest.param("SELECT k FROM t GROUP BY k HAVING k = 1 AND sum(x) > 2", ['("k" = 1)'], id="having-of-a-key"),
        pytest.param("SELECT k FROM t GROUP BY CUBE (k, x) HAVING k = 1", [None], id="having-of-a-cube"),
        ("FROM t, u WHERE (x = 1 AND y = 2) OR (x = 3 AND y = 4)", ['("x" = 1 OR "x" = 3)', '("y" = 2 OR "y" = 4)']),
        pytest.param("FROM t, u WHERE (x = 1 AND y = 2) OR y = 4", [None, '("y" = 2 OR "y" = 4)'], id="a-part-of-one"),
        pytest.param("FROM (SELECT id AS a FROM t) s WHERE s.a = 1", ['("id" = 1)'], id="derived"),
        pytest.param("FROM (FROM t) AS s(a, b) WHERE a = 1 AND b = 2", ['("id" = 1) AND ("x" = 2)'], id="renamed"),
        pytest.param("FROM (SELECT id + 1 AS id FROM t) s WHERE s.id = 1", [None], id="derived-is-computed"),
        pytest.param("FROM (FROM t LIMIT 3) s WHERE s.id = 1", [None], id="derived-is-cut"),
        pytest.param("WITH c AS (FROM t) FROM c, c d WHERE c.id = 1", [None], id="cte-read-twice"),
        ("FROM (SELECT id FROM t UNION ALL SELECT y FROM u) s WHERE s.id = 1", ['("id" = 1)', '("y" = 1)']),
        ("FROM (SELECT id::BIGINT AS id FROM t UNION ALL SELECT y FROM u) s WHERE s.id = 1", [None, None]),
        ("""FROM (SELECT id FROM t UNION ALL SELECT "Na me" FROM "Odd name") s WHERE s.id = '1'""", [None, None]),
        ("SELECT * FROM t LEFT JOIN (FROM u) s ON t.id = s.id AND s.y = 1 WHERE s.k IS NULL", [None, '("y" = 1)']),
        pytest.param(
            "FROM t WHERE id BETWEEN 1200 AND 1200+11 AND x IN (1, 1+1)",
            ['("id" BETWEEN 1200 AND 1200 + 11) AND ("x" IN (1, 1 + 1))'],
            id="arithmetic-of-literals",
        ),
        pytest.param("FROM t WHERE id = 2147483647 + 1", [None], id="arithmetic-that-overflows"),
        pytest.param("FROM t, u WHERE id = 1 AND x = 2 AND y = 3", ['("x" = 2)', '("y" = 3)'], id="unqualified"),
        pytest.param("SELECT id AS x FROM t WHERE x = 1", [None], id="name-of-an-output"),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE x = 1 AND y IS NULL", ['("x" = 1)', None], id="left"),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE y = 1", [None, '("y" = 1)'], id="left-nulls-are-dropped"),
        pytest.param("FROM t FULL JOIN u USING (id) WHERE x = 1", ['("x" = 1)', None], id="full-becomes-left"),
        ("FROM t FULL JOIN u USING (id) WHERE x = 1 AND y = 1", ['("x" = 1)', '("y" = 1)']),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE y = 1 OR x = 1", [None, None], id="nulls-may-stay"),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE (y = 1) IS NOT TRUE", [None, None], id="nulls-are-asked-for"),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE y IS NOT NULL", [None, '(NOT "y" IS NULL)'], id="no-nulls"),
        pytest.param("FROM (FROM t) s TABLESAMPLE 50% WHERE s.id = 1", [None], id="derived-is-sampled"),
        pytest.param("FROM t LEFT JOIN u USING (id) WHERE coalesce(y, 1) = 1", [None, None], id="nulls-are-replaced"),
        pytest.param("FROM t, t b RIGHT JOIN u USING (id) WHERE t.x = 1", [None] * 3, id="nulls-behind-a-comma"),
        pytest.param("FROM t LEFT JOIN u ON x = 1 AND y = 1", [None, '("y" = 1)'], id="left-on"),
        pytest.param("FROM t ANTI JOIN u ON x = 1 AND y = 1", [None, '("y" = 1)'], id="anti-on"),
        ("FROM t a JOIN t b ON a.x = 1 FULL JOIN u ON b.x = 1", ['("x" = 1)', None, None]),
        ("FROM t a LEFT JOIN t b ON true JOIN u ON b.x = 1", [None, '("x" = 1)', None]),
        ("FROM t a LEFT JOIN t b ON true JOIN u ON b.x = 1 OR u.y = 1", [None, None, None]),
        pytest.param("FROM t JOIN u ON t.id = u.y WHERE t.id = 1", ['("id" = 1)', '("y" = 1)'], id="equal"),
        pytest.param(
            "FROM t a, t b, u WHERE a.id = b.x AND b.x = u.y AND u.y IN (1, 2)",
            ['("id" IN (1, 2))', '("x" IN (1, 2))', '("y" IN (1, 2))'],
            id="equal-by-a-chain",
        ),
        pytest.param("FROM t, u WHERE (t.id = u.y OR x = 1) AND u.y = 1", [None, '("y" = 1)'], id="maybe-equal"),
        pytest.param(
            'FROM "Odd name" o, t WHERE s.v = t.id AND o.s.v = x AND t.id = 1 AND x = 2',
            [None, '("id" = 1) AND ("x" = 2)'],
            id="equal-to-a-field",
        ),
        pytest.param("FROM t JOIN u USING (id) WHERE id = 1", ['("id" = 1)', '("id" = 1)'], id="using"),
        pytest.param("FROM t RIGHT JOIN u USING (id) WHERE id = 1", [None, None], id="using-right"),
        pytest.param("FROM t ANTI JOIN u ON t.id = y WHERE t.id = 1", ['("id" = 1)', '("y" = 1)'], id="equal-anti"),
        ("FROM t LEFT JOIN u ON t.id = y WHERE t.id = 1 AND y IS NULL", ['("id" = 1)', '("y" = 1)']),
        ("FROM t LEFT JOIN u ON t.id = y FULL JOIN t b ON true WHERE t.id IS NULL", [None] * 3),
        pytest.param("SELECT id AS a FROM t WHERE a = 1", ['("id" = 1)'], id="alias"),
        pytest.param("SELECT random() AS a FROM t WHERE a = 1", [None], id="alias-of-what-changes"),
        pytest.param("SELECT k AS a FROM t GROUP BY 1 HAVING a = 1", ['("k" = 1)'], id="alias-of-a-key-by-place"),
        pytest.param("SELECT max(k) AS a FROM t HAVING a = 1", [None], id="alias-of-an-aggregate"),
        pytest.param("FROM (SELECT k AS a FROM t GROUP BY 1) s WHERE a = 1", ['("k" = 1)'], id="derived-key-by-place"),
        ("FROM t WHERE (id, x) IN ((1, NULL), (3, 4))", ['("id" IN (1, 3) AND ("x" IN (4) OR "x" IS NULL))']),
        pytest.param("FROM t WHERE (id, x) IN ((1, x), (3, 4))", ['("id" IN (1, 3))'], id="what may be null"),
        pytest.param("FROM t WHERE (id, x) IN ((1, 2), (3, 4))", ['("id" IN (1, 3) AND "x" IN (2, 4))'], id="tuples"),
        ("WITH c AS (WITH d AS (FROM c) FROM d) FROM c, t WHERE t.id = 1", ['("id" = 1)']),
        pytest.param("FROM t ASOF JOIN u ON t.id >= u.id WHERE u.y = 1", [None, None], id="asof"),
        pytest.param(
            "FROM t JOIN u NEAREST 1 BY DISTANCE abs(t.id - u.y) WHERE u.y = 1 AND t.id = 2",
            [None, None],
            marks=reads_all,
        ),
        pytest.param("FROM t WHERE id = 1 USING SAMPLE 1", [None], id="sample-after"),
        pytest.param("FROM t AS a(x, id, k) WHERE id = 1", [None], id="renamed-columns"),
        ("FROM t, LATERAL (FROM u WHERE u.id = t.id AND u.y = 1) WHERE t.x = 1", ['("x" = 1)', '("y" = 1)']),
        ("FROM t WHERE NOT EXISTS (FROM u WHERE u.id = t.id AND y = 1 AND t.x = 2)", [None, '("y" = 1)']),
        pytest.param(
            'FROM "Odd name" o WHERE o.s.v = 1 AND s.v < 5 AND o."Na me" = \'a\'',
            ['(("s")."v" = 1) AND (("s")."v" < 5) AND ("Na me" = \'a\')'],
            id="struct",
        ),
    ],
)
def test_conditions_are_taken_only_where_sound(query: str, expected: list[str | None]) -> None:
    assert [where(r) for r in rewrite(query, TABLES).references] == expected


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT id FROM t", ("id",)),
        ("SELECT count(*) FROM t", ()),
        ("SELECT ID, _file FROM t ORDER BY k", ("id", "k", "_file")),
        ("SELECT id FROM t JOIN u USING (k)", ("id", "k")),
        ("SELECT * FROM t", None),
        ("FROM t", None),
        ("SELECT t FROM t", None),
        ("SELECT a FROM t a", None),
        ("SELECT COLUMNS('i.*') FROM t", None),
        ("SELECT id FROM t NATURAL JOIN other", None),
        ("SELECT id FROM t AS a(id)", None),
        ("SUMMARIZE t", None),
        ("PIVOT t ON x USING sum(k)", None),
    ],
)
def test_columns_are_all_that_may_be_used(query: str, columns: tuple[str, ...] | None) -> None:
    assert rewrite(query, TABLES).references[0].columns == columns


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("INSERT INTO t SELECT 1", "A query may only read, got INSERT."),
        ("CREATE TABLE a AS FROM t", "A query may only read, got CREATE."),
        ("SELECT 1 INTO a", "A query may only read, got INTO."),
        ("WITH a AS (DELETE FROM t RETURNING *) FROM a", "A query may only read, got DELETE."),
        ("SELECT 1; SELECT 2", "Expected one query, got 2 statements."),
        ("", "Expected one query, got 0 statements."),
        ("SELEC 1", 'Cannot parse the query: .*near "SELEC"'),
        ("FROM t AT (VERSION => 1)", "Table t is bound to one snapshot"),
    ],
)
def test_statements_that_are_not_queries_are_refused(query: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        rewrite(query, TABLES)


def test_a_name_that_may_be_two_tables_is_refused() -> None:
    tables = {"aB": schema("x"), "Ab": schema("x")}
    assert rewrite("FROM Ab", tables).references[0].table == "Ab"
    with pytest.raises(RequestError) as error:
        rewrite("FROM ab", tables)
    assert str(error.value) == "Table ab may be any of aB, Ab. Use the exact spelling. [Request]"


VALUES = "(1, 1, 1), (1, 2, NULL), (2, 1, 1), (2, NULL, 2), (3, 2, 2), (NULL, 1, 3), (3, 3, 1), (4, 2, 2)"


WIDE = (
    "(1, 1, 1, '1'), (3000000000, 3e9, 3e9, '3000000000'), (0, -0.0, 0.0, '00'), (2, 'nan', 'nan', '02'), "
    "(3, 3, 3, NULL)"
)


@pytest.fixture(scope="module")
def connection_with_tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS FROM (VALUES {VALUES}) v(id, x, k)")
        connection.execute(f"CREATE TABLE u AS SELECT id, y, k FROM (VALUES {VALUES}) v(y, id, k)")
        connection.execute("CREATE TABLE w (l BIGINT, f DOUBLE, g DOUBLE, c VARCHAR)")
        connection.execute(f"INSERT INTO w VALUES {WIDE}")
        yield connection


def conditions(names: list[str]) -> st.SearchStrategy[str]:
    column = st.sampled_from(names)
    leaf = st.one_of(
        st.builds(lambda c, o, v: f"{c} {o} {v}", column, st.sampled_from(["=", "<>", "<", ">="]), st.integers(1, 3)),
        st.builds(lambda c, n: f"{c} IS {n}NULL", column, st.sampled_from(["", "NOT "])),
        st.builds(lambda c, d: f"{c} = {d}", column, column),
        st.builds(lambda c: f"{c} IN (1, 3)", column),
    )
    whole = st.one_of(
        leaf, st.builds(lambda a, b: f"({a} OR {b})", leaf, leaf), st.builds(lambda a: f"NOT ({a})", leaf)
    )
    return st.lists(whole, min_size=1, max_size=2).map(" AND ".join)


# Each row is a query. `[a b]` are conditions on these columns. `[a = b; a b]` are conditions for ON, most of them with
# matching rows, because otherwise nothing would be filled with nulls. `<name>` is one of the queries with that name
# below.
TEMPLATES = """
SELECT * FROM t WHERE [id x k]
SELECT * FROM t <join> u ON [t.id = u.id; t.id t.x x u.id u.y y] WHERE [t.id t.x x u.id u.y y]
SELECT * FROM t a <join> t b ON [a.id = b.x; a.id a.k b.id b.x] <join> u ON <on abu> WHERE <abu>
SELECT * FROM t a, t b <join> u ON [b.id = u.id; b.id b.x u.id u.y y] WHERE <abu>
SELECT * FROM t <half> JOIN u ON [t.id = u.id; t.id t.x x u.id u.y y] WHERE [t.id t.x]
SELECT * FROM t WHERE <not> EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND [t.id t.x x u.id u.y y]) AND [t.id t.x x]
SELECT * FROM t WHERE id <not> IN (SELECT y FROM u WHERE [u.id y t.x]) OR [id x k]
SELECT id, x FROM t WHERE [id x k] <set> SELECT id, y FROM u WHERE [id y]
WITH t AS (SELECT * FROM t WHERE [id x k]) SELECT count(*), sum(x) FROM t JOIN u ON <tu> WHERE [t.id t.x x u.id u.y y]
SELECT k, count(*), (SELECT max(y) FROM u WHERE u.k = t.k AND [u.id y]) FROM t WHERE [id x k] GROUP BY k
SELECT * FROM <derived> d WHERE [d.id d.x d.k]
WITH d AS <derived> SELECT * FROM d WHERE [d.id d.x d.k]
WITH d AS <derived> SELECT * FROM d, d AS e WHERE [d.id d.x d.k]
SELECT * FROM <derived> d(x, id, k) WHERE [d.id d.x d.k]
SELECT * FROM <derived> d <join> u ON [d.id = u.id; d.id d.x d.k u.id u.y y] WHERE [d.id d.x d.k u.id u.y y]
SELECT k, count(*) FROM t GROUP BY k HAVING [k]
SELECT id, k, max(x) FROM t GROUP BY <keys> HAVING [id k]
SELECT * FROM t, u WHERE ([t.id x] AND [u.id y]) OR ([t.id x] AND [u.id y t.k])
SELECT * FROM t <join> u USING (id) WHERE [id t.id u.id x y]
SELECT * FROM t <join> u USING (id, k) <join> t b USING (k) WHERE [k t.k u.k b.k id y]
SELECT t.id AS a, y AS b, t.k FROM t <join> u ON [t.id = u.y; t.id t.x x u.id u.y y] WHERE [a b t.k t.id u.id]
SELECT id AS a, x, k AS c, max(k) AS m FROM t GROUP BY <shown> HAVING [a x c m]
SELECT * FROM t <join> w ON <wide equal> WHERE <wide equal> AND <wide>
SELECT * FROM t <join> w ON <wide equal> WHERE <wide> AND <wide>
SELECT * FROM (SELECT DISTINCT f::VARCHAR AS a, f FROM w) WHERE a = '0.0' AND f < 9
SELECT * FROM t SEMI JOIN u ON [t.id = u.y; t.id u.y] JOIN u b ON [t.id = b.y; t.id b.y] WHERE [t.id b.y]
"""
PARTS = """
abu: [a.id a.k b.id b.x u.id u.y y]
on abu: [b.id = u.id; a.id a.k b.id b.x u.id u.y y]
tu: [t.id = u.id; t.id u.y t.x u.id]
join: JOIN | LEFT JOIN | RIGHT JOIN | FULL JOIN
half: SEMI | ANTI
not: | NOT
set: UNION | UNION ALL | EXCEPT | INTERSECT
keys: ALL | id, k | ROLLUP (id, k)
shown: ALL | a, x, c | 1, 2, 3 | id, x, k | CUBE (1, 2, 3)
derived: (SELECT id, x, k FROM t) | (FROM t) | (SELECT DISTINCT x AS id, id AS x, k FROM t WHERE k > 1)
derived: (SELECT k AS id, max(x) AS x, k FROM t GROUP BY k) | (SELECT id, x, x + 1 AS k FROM t)
derived: (SELECT id, x, row_number() OVER (ORDER BY id) AS k FROM t) | (SELECT id, x, k FROM t ORDER BY ALL LIMIT 3)
derived: (SELECT t.id, u.y AS x, u.k FROM t LEFT JOIN u ON t.id = u.id)
derived: (SELECT id, x, k FROM t UNION ALL SELECT y, id, k FROM u)
derived: (SELECT id, x, k FROM t EXCEPT SELECT id, y, k FROM u)
derived: ((SELECT id, x, k FROM t ORDER BY ALL LIMIT 2) UNION (FROM t)) | (SELECT id, x, k FROM (FROM t WHERE x > 1) t)
derived: (SELECT id, x, (SELECT count(*) FROM u WHERE u.id = t.x) AS k FROM t)
wide equal: t.id = w.l | w.l = w.f | w.f = w.g | w.l = w.c | w.f = w.l AND t.x = w.l | true
wide: w.l = '1' | w.l IN (3000000000, 1) | t.id = '2' | t.id::BIGINT > 1 | t.id BETWEEN '1' AND '2' | w.f >= 0
wide: w.f::VARCHAR = '0.0' | w.g::VARCHAR = '-0.0' | isnan(w.g) | w.c = '02' | w.c::BIGINT > 1 | w.c IS NULL
"""
CHOICES: dict[str, list[str]] = {}
for row in PARTS.strip().splitlines():
    name, _, choices = row.partition(":")
    CHOICES.setdefault(name, []).extend(choice.strip() for choice in choices.split("|"))


@st.composite
def queries(draw: Any) -> str:
    """Draw a template and fill it, sometimes without its SELECT."""

    def filled(part: re.Match[str]) -> str:
        if part[1] is not None:
            return PART.sub(filled, draw(st.sampled_from(CHOICES[part[1]])))
        equal, _, names = part[2].rpartition(";")
        condition = draw(conditions(names.split()))
        return draw(st.sampled_from([equal, f"{equal} AND {condition}", condition])) if equal else condition

    query = PART.sub(filled, draw(st.sampled_from(TEMPLATES.strip().splitlines())))
    return query.replace("SELECT * FROM t", "FROM t") if draw(st.booleans()) else query


PART = re.compile(r"<([a-z ]+)>|\[(.*?)\]")


@given(query=queries())
def test_filtered_views_give_the_same_rows(connection_with_tables: duckdb.DuckDBPyConnection, query: str) -> None:
    try:
        expected = connection_with_tables.execute(query).fetchall()
    except duckdb.Error:
        return
    rewritten = rewrite(query, TABLES)
    for reference in rewritten.references:
        condition = "" if reference.where is None else f" WHERE {where(reference)}"
        columns = "*" if reference.columns is None else ", ".join(reference.columns) or "1"
        connection_with_tables.execute(
            f'CREATE OR REPLACE TEMP VIEW "{reference.view}" AS SELECT {columns} FROM {reference.table}{condition}'
        )
    actual = connection_with_tables.execute(rewritten.sql).fetchall()
    assert Counter(map(repr, actual)) == Counter(map(repr, expected)), rewritten
