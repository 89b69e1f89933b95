"""Queries in Spark's dialect, run on Spark and translated to DuckDB: certain results and refusals."""

import duckdb
import pytest

from harness.engines.spark.transpile import queries
from harness.engines.spark.transpile.parser import to_duckdb
from harness.errors import RequestError, UnsupportedError
from harness.metadata.model.schema import DecimalType, FloatType, IntegerType

COLUMNS = {"id": IntegerType(64), "f": FloatType(64), "short": DecimalType(7, 2), "long": DecimalType(30, 2)}


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        pytest.param("sum(short)", "CAST(SUM(t0.`short`) AS DECIMAL(38, 2))", id="added-as-longs"),
        pytest.param("sum(long)", "SUM(CAST(t0.`long` AS DECIMAL(38, 2)))", id="no-ten-digits-left"),
        pytest.param(
            "avg(short)",
            "(CAST(CAST(SUM(t0.`short`) AS DECIMAL(38, 2)) AS DOUBLE) "
            "/ SUM(CASE WHEN (t0.`short`) IS NOT NULL THEN 1L END))",
            id="average-without-count",
        ),
    ],
)
def test_aggregates(expression: str, written: str) -> None:
    assert queries.query(f"SELECT {expression} AS c FROM t", {"t": COLUMNS}).sql.startswith(f"SELECT {written} AS c0")


@pytest.mark.parametrize(
    ("condition", "is_whole"),
    [
        pytest.param("f > 5", True, id="column"),
        pytest.param("(-f) > 5", True, id="sign"),
        pytest.param("f BETWEEN 1 AND 5", True, id="between"),
        pytest.param("id::DOUBLE > 5.5::DOUBLE", True, id="integer"),
        pytest.param("(SELECT f FROM t) > 5", True, id="subquery"),
        pytest.param("f * 2 > 5", False, id="product"),
        pytest.param("f + 1 BETWEEN 1 AND 5", False, id="between-of-a-sum"),
        pytest.param("short > 5.5::DOUBLE", False, id="decimal"),
        pytest.param("(SELECT avg(u.f) FROM t AS u WHERE u.id = t.id) > 5", False, id="aggregate"),
    ],
)
def test_only_floats_of_files_are_kept_from_their_statistics(condition: str, is_whole: bool) -> None:
    """Parquet's statistics do not count NaN, and Spark skips row groups by them."""
    assert ("NANVL" in queries.query(f"SELECT id FROM t WHERE {condition}", {"t": COLUMNS}).sql) is is_whole


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
def test_queries_with_certain_meaning_run_on_duckdb(query: str, rows: list) -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS FROM (VALUES (1, 10, 'ab', DATE '2024-01-01'), (1, 20, 'b', DATE '2024-01-01'), "
        "(2, NULL, 'c', DATE '2024-01-02')) t(k, v, name, d)"
    )
    assert sorted(connection.sql(to_duckdb(query)).fetchall(), key=str) == sorted(rows, key=str)


UNCERTAIN = {
    "SELECT v / 2 FROM t": "digits of a quotient",
    "SELECT avg(v) FROM t": "digits of an average",
    "SELECT CAST(v AS STRING) FROM t": "different values in a cast",
    "SELECT v FROM t ORDER BY v LIMIT 1": "each engine may return different rows",
    r"SELECT 'a\nb' FROM t": "backslash",
    "SELECT 1e3": "its type differs",
    "SELECT concat(name, 'x') FROM t": "CONCAT",
    "SELECT upper(name) FROM t": "(?i)upper",
    "SELECT count(k, v) FROM t": "skips nulls only in Spark",
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
def test_queries_with_uncertain_meaning_are_refused_with_the_reason(query: str, sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        to_duckdb(query)


def test_text_that_is_not_sql_is_refused() -> None:
    with pytest.raises(RequestError, match="Cannot parse the query as Spark's"):
        to_duckdb("SELECT FROM WHERE (")
