"""UNNEST, LATERAL and what else is relational, on both engines over the tables of a shop."""

from __future__ import annotations

import pytest
import shop
from test_sql_engines import check_same_rows

import harness
from harness.errors import UnsupportedError

QUERIES = {
    "unnest-in-from": "SELECT order_id, i.sku, i.qty FROM orders, UNNEST(items) AS x(i)",
    "unnest-of-a-source-of-that-name": "SELECT x.sku, x.x.qty, y FROM orders o CROSS JOIN UNNEST(o.items) x, "
    "LATERAL UNNEST([x.qty]) y",
    "unnest-left": "SELECT event_id, s FROM events LEFT JOIN UNNEST(scores) AS x(s) ON s > 1",
    "unnest-with-ordinality": "SELECT event_id, x.* FROM events, UNNEST(scores) WITH ORDINALITY AS x",
    "unnest-first": "SELECT * FROM unnest([1, 2, 3]) AS x",
    "unnest-of-an-outer-row": "SELECT order_id, (SELECT sum(i.qty) FROM (SELECT unnest(items) AS i)) AS s FROM orders "
    "WHERE EXISTS (FROM UNNEST(items) AS x(i) WHERE i.qty > 2) OR 'A1' IN (SELECT unnest(items).sku)",
    "unnest-in-select": "SELECT event_id, unnest(scores) AS s, s + 1 AS t FROM events WHERE event_id > 3 "
    "ORDER BY event_id DESC, s LIMIT 7",
    "unnest-side-by-side": "SELECT event_id, unnest(scores) * 2, unnest(payload.path), unnest(scores) FROM events",
    "unnest-structs": "SELECT unnest(address, recursive := true), unnest(address), unnest(tags) FROM customers",
    "unnest-lists-of-structs": "SELECT unnest(items, recursive := true), order_id FROM orders",
    "unnest-grouped": "SELECT unnest(tags) AS tag, count(*) FROM customers GROUP BY tag ORDER BY ALL",
    "lateral": "SELECT c.name, o.n, p.total FROM customers c LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders o "
    "WHERE o.customer_id = c.customer_id) o ON o.n > 0, LATERAL (SELECT total FROM orders p WHERE "
    "p.customer_id = c.customer_id ORDER BY total DESC, order_id LIMIT 1) p",
    "lateral-without-the-word": "SELECT e.event_id, a.x, b.y FROM events e, (SELECT e.amount * 2 AS x) a, "
    "(SELECT a.x + e.event_id AS y) b",
    "series": "SELECT d::DATE, e.n, count(o.order_id) FROM generate_series(DATE '2023-12-01', DATE '2024-03-01', "
    "INTERVAL 1 MONTH) AS g(d) LEFT JOIN orders o ON date_trunc('month', o.ordered) = d, range(2) e(n) GROUP BY ALL",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, harness.Table]:
    return shop.tables(tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in QUERIES.items()])
def test_both_engines_give_the_same_rows(tables, spark, query):
    check_same_rows(query, tables, spark)


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        pytest.param("SELECT unnest(NULL)", "unnest of unknown", id="unnest-of-null"),
        pytest.param("SELECT unnest([[1], [2]], recursive := true)", "recursive unnest", id="unnest-deep"),
        pytest.param("SELECT unnest([[1], [2]], max_depth := 2)", "this unnest", id="unnest-max-depth"),
        pytest.param("SELECT unnest(scores), sum(amount) OVER () FROM events", "beside a window", id="unnest-over"),
        pytest.param("SELECT unnest(list(event_id)) FROM events", "of what is grouped", id="unnest-of-an-aggregate"),
        pytest.param("SELECT count(*), unnest(scores) FROM events GROUP BY scores", "grouped", id="unnest-of-a-key"),
        pytest.param("FROM range(1, 5, (SELECT 2))", "no literal", id="range-by-a-step"),
    ],
)
def test_what_might_differ_is_refused_by_name(tables, query, construct):
    pytest.importorskip("pyspark")
    with pytest.raises(UnsupportedError) as error:
        harness.sql(query, engine="spark", **tables)
    assert construct in error.value.message
    assert "\n" not in str(error.value)


def test_months_from_behind_the_28th_are_an_error(tables, spark):
    query = "SELECT range(DATE '2024-01-31', DATE '2024-05-05', INTERVAL 1 MONTH)"
    with pytest.raises(Exception, match="behind the 28th"):
        harness.sql(query, engine="spark", spark=spark, **tables).collect()
