"""Spark's texts in DuckDB's dialect: what is certain, and what is refused."""

import duckdb
import pytest

from harness.errors import RequestError, UnsupportedError
from harness.queries.transpile.parser import to_duckdb

CERTAIN = {
    "SELECT k, sum(v) AS s FROM t GROUP BY k": [(1, 30), (2, None)],
    "SELECT count(*) FROM t WHERE `k` = 1 AND NOT v IS NULL": [(2,)],
    "SELECT name FROM t WHERE name LIKE \"a%\" OR name IN ('b')": [("ab",), ("b",)],
    "SELECT max(v) FROM t AS x JOIN (SELECT 1 AS j) AS y ON x.k = y.j": [(20,)],
    "WITH c AS (SELECT DISTINCT k FROM t) SELECT CASE WHEN k > 1 THEN 'big' ELSE 'small' END FROM c": [
        ("big",),
        ("small",),
    ],
    "SELECT k FROM t WHERE d >= DATE '2024-01-02' UNION ALL SELECT coalesce(v, -1) FROM t WHERE v <=> NULL": [
        (-1,),
        (2,),
    ],
    "SELECT length(name) || 'x' FROM t WHERE v BETWEEN 5 AND 15": [("2x",)],
}


@pytest.mark.parametrize(("query", "rows"), CERTAIN.items(), ids=CERTAIN)
def test_what_is_certain_runs_on_duckdb(query: str, rows: list) -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS FROM (VALUES (1, 10, 'ab', DATE '2024-01-01'), (1, 20, 'b', DATE '2024-01-01'), "
        "(2, NULL, 'c', DATE '2024-01-02')) t(k, v, name, d)"
    )
    assert sorted(connection.sql(to_duckdb(query)).fetchall(), key=str) == sorted(rows, key=str)


UNCERTAIN = {
    "SELECT v / 2 FROM t": "digits of a quotient",
    "SELECT avg(v) FROM t": "digits of an average",
    "SELECT CAST(v AS STRING) FROM t": "depends on types",
    "SELECT v FROM t ORDER BY v LIMIT 1": "comes first is open",
    r"SELECT 'a\nb' FROM t": "backslash",
    "SELECT 1e3": "its type is another",
    "SELECT concat(name, 'x') FROM t": "CONCAT",
    "SELECT upper(name) FROM t": "(?i)upper",
    "SELECT count(k, v) FROM t": "leaves out nulls",
    "SELECT k FROM t JOIN u USING (k)": "write the join with ON",
    "SELECT k FROM t LEFT SEMI JOIN u ON t.k = u.k": "write the join with ON",
    "SELECT * FROM t JOIN u ON t.k = u.k": "name them",
    "SELECT k + 1 AS v, count(*) FROM t GROUP BY v": "column or the alias",
    "SELECT k FROM t GROUP BY ROLLUP (k)": "ROLLUP",
    "SELECT sum(v) OVER (PARTITION BY k) FROM t": "not known",
    "SELECT k FROM t LATERAL VIEW explode(a) x AS y": "not known",
    "SELECT k FROM t VERSION AS OF 3": "not known",
    "SELECT k[0] FROM t": "not known",
    "INSERT INTO t SELECT 1": "not known",
}


@pytest.mark.parametrize(("query", "sentence"), UNCERTAIN.items(), ids=UNCERTAIN)
def test_what_is_not_certain_is_refused_with_its_reason(query: str, sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        to_duckdb(query)


def test_what_is_no_sql_is_refused() -> None:
    with pytest.raises(RequestError, match="Cannot parse the query as Spark's"):
        to_duckdb("SELECT FROM WHERE (")
