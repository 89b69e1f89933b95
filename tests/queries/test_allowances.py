"""Which result columns may differ in their last bits, and by how much."""

import itertools

import pytest

from harness.metadata.model.schema import DateType, DecimalType, Field, FloatType, IntegerType, Schema
from harness.queries.allowances import AVERAGE, CANCELLED, LIBRARY, ORDER, allowances

TYPES = {"k": IntegerType(32), "d": FloatType(64), "p": DecimalType(7, 2), "day": DateType()}
TABLES = {"t": Schema(fields=tuple(Field(id=i, name=n, type=t) for i, (n, t) in enumerate(TYPES.items(), 1)))}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("SELECT mean(d), avg(p), mean(p) FROM t", {0: ORDER, 1: AVERAGE, 2: AVERAGE}, id="averages"),
        pytest.param("SELECT avg(d), sum(d), max(d), sum(p), sum(p) / 2 FROM t", {0: ORDER, 1: ORDER}, id="sums"),
        pytest.param("SELECT sum(p * d), sum(p / 2), sum(d::DECIMAL(9, 2)) FROM t", {0: ORDER, 1: ORDER}, id="made"),
        pytest.param("SELECT stddev_samp(k), corr(k, p), regr_slope(k, p) FROM t", dict.fromkeys(range(3), ORDER)),
        pytest.param("SELECT 100 * avg(p), avg(p) / avg(k), -avg(p) FROM t", dict.fromkeys(range(3), AVERAGE)),
        pytest.param("SELECT max(p) - avg(p), avg(p) + 1 FROM t", dict.fromkeys(range(2), CANCELLED), id="differences"),
        pytest.param("SELECT round(avg(p), 1), avg(p)::INT, avg(p) > 2, count(d) FROM t", {}, id="rounded"),
        pytest.param("SELECT avg(p) OVER (PARTITION BY k), sum(avg(p)) OVER () FROM t", {0: AVERAGE, 1: ORDER}),
        ("SELECT avg(p) FILTER (WHERE k > 1) AS a, sum(p) OVER w FROM t WINDOW w AS (ORDER BY k)", {0: AVERAGE}),
        pytest.param("SELECT CASE WHEN avg(d) > 0 THEN k ELSE avg(p) END FROM t", {0: AVERAGE}, id="case"),
        pytest.param("SELECT coalesce(avg(p), 0), (SELECT avg(d) FROM t) FROM t", {0: AVERAGE, 1: ORDER}, id="scalar"),
        pytest.param("WITH a AS (SELECT k, avg(p) AS m FROM t GROUP BY k) SELECT max(m), k FROM a", {0: AVERAGE}),
        pytest.param("SELECT * FROM (SELECT 1 AS one, avg(p) AS m FROM t)", {1: AVERAGE}, id="star"),
        pytest.param("SELECT 1, sum(d) FROM t UNION ALL SELECT avg(p), 2 FROM t", {0: AVERAGE, 1: ORDER}, id="union"),
        pytest.param(
            "WITH RECURSIVE r(n, v) AS (SELECT 1, avg(p) FROM t UNION ALL SELECT n + 1, v FROM r WHERE n < 3) FROM r",
            {1: AVERAGE},
            id="recursive",
        ),
        pytest.param("SELECT ln(d), p ** 2, 2 * sin(k), d * 2 FROM t", dict.fromkeys(range(3), LIBRARY), id="library"),
        pytest.param("SELECT d, p, k / 2, day FROM t WHERE d > (SELECT avg(d) FROM t)", {}, id="read"),
        pytest.param("SELEC", {}, id="no-query"),
    ],
)
def test_columns_with_an_allowance(query, expected):
    assert allowances(query, TABLES) == expected


def test_queries_in_queries_are_read_once_each():
    names = [f"c{i}" for i in range(40)]
    layers = ", ".join(f"{b} AS (SELECT {a}.v + {a}.v + {a}.v AS v FROM {a})" for a, b in itertools.pairwise(names))
    assert allowances(f"WITH c0 AS (SELECT avg(p) AS v FROM t), {layers} SELECT v FROM c39", TABLES) == {0: CANCELLED}
