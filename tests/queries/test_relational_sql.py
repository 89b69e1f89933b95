"""Relational SQL like UNNEST and LATERAL, on both engines with the tables of a shop."""

import duckdb
import pytest
import shop
from test_sql_engines import check_same_rows

import harness
from harness.errors import UnsupportedError

QUERIES = {
    "unnest-of-a-source-of-that-name": "SELECT x.sku, x.x.qty, y FROM orders o CROSS JOIN UNNEST(o.items) x, "
    "LATERAL UNNEST([x.qty]) y",
    "unnest-with-ordinality": "SELECT event_id, x.* FROM events, UNNEST(scores) WITH ORDINALITY AS x",
    "unnest-of-an-outer-row": "SELECT order_id, (SELECT sum(i.qty) FROM (SELECT unnest(items) AS i)) AS s FROM orders "
    "WHERE EXISTS (FROM UNNEST(items) AS x(i) WHERE i.qty > 2) OR 'A1' IN (SELECT unnest(items).sku)",
    "unnest-in-select": "SELECT event_id, unnest(scores) AS s, s + 1 AS t FROM events WHERE event_id > 3 "
    "ORDER BY event_id DESC, s LIMIT 7",
    "unnest-structs": "SELECT unnest(address, recursive := true), unnest(address), unnest(tags) FROM customers",
    "unnest-lists-of-structs": "SELECT unnest(items, recursive := true), order_id FROM orders",
    "lateral": "SELECT c.name, o.n, p.total FROM customers c LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders o "
    "WHERE o.customer_id = c.customer_id) o ON o.n > 0, LATERAL (SELECT total FROM orders p WHERE "
    "p.customer_id = c.customer_id ORDER BY total DESC, order_id LIMIT 1) p",
    "series": "SELECT d::DATE, e.n, count(o.order_id) FROM generate_series(DATE '2023-12-01', DATE '2024-03-01', "
    "INTERVAL 1 MONTH) AS g(d) LEFT JOIN orders o ON date_trunc('month', o.ordered) = d, range(2) e(n) GROUP BY ALL",
    "recursive": "WITH RECURSIVE x(k) AS (SELECT 110), chain AS (SELECT order_id, 0 AS depth FROM orders WHERE "
    "order_id = 100 UNION ALL SELECT o.order_id, depth + 1::BIGINT FROM orders o, chain c, x WHERE o.order_id = "
    "c.order_id + 4 AND o.order_id < k) FROM chain",
    "recursive-beyond-spark's-limit": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 120) "
    "SELECT count(*), sum(n) FROM r",
    "stars": "SELECT o.* EXCLUDE (items) REPLACE (total * 2 AS total), c.* RENAME (name AS who), * LIKE 'cust%' "
    "FROM orders o JOIN customers c USING (customer_id)",
    "by-name": "SELECT order_id AS a, status AS s FROM orders UNION ALL BY NAME SELECT kind AS s, event_id AS A, "
    "value FROM events ORDER BY ALL LIMIT 40",
    "pivot": "SELECT * FROM (PIVOT (SELECT customer_id, status, total FROM orders) ON status IN ('paid', 'open') "
    "USING sum(total) AS s, count(*) AS n) JOIN (FROM orders PIVOT (max(total) FOR status IN ('paid', 'open') "
    "GROUP BY customer_id)) USING (customer_id)",
    "unpivot": "SELECT * FROM (SELECT order_id, total AS a, 1.5 AS b FROM orders) UNPIVOT INCLUDE NULLS (v FOR n IN "
    "(a, b)) UNION ALL FROM (UNPIVOT (SELECT order_id, total AS a, 1.5 AS b FROM orders) ON a, b INTO NAME n VALUE v)",
    "asof": "SELECT o.order_id, e.event_id, f.event_id FROM orders o ASOF LEFT JOIN events e ON o.customer_id = "
    'e.customer_id AND o.created >= e."at" ASOF JOIN events f ON f."at" > o.created',
    "cut-in-a-correlated-query": "SELECT order_id, (SELECT event_id + o.customer_id FROM events ORDER BY amount DESC "
    "NULLS LAST, event_id LIMIT 1 OFFSET 2), order_id IN (SELECT p.order_id FROM orders p WHERE p.customer_id = "
    "o.customer_id ORDER BY total DESC NULLS LAST, p.order_id LIMIT 2) FROM orders o",
    "outer-names-in-a-join": "SELECT customer_id, (SELECT max(name) FROM customers c JOIN orders o ON c.customer_id = "
    "o.customer_id AND o.order_id = e.event_id + 100 LEFT JOIN events f ON f.event_id = o.order_id WHERE total > 1), "
    "(SELECT o.order_id FROM customers c JOIN orders o ON c.customer_id = o.customer_id AND o.order_id = e.event_id + "
    "100) FROM events e WHERE event_id IN ((SELECT event_id FROM events WHERE amount > 2))",
    "queries-in-a-join": "SELECT order_id, name FROM orders o LEFT JOIN customers c ON c.customer_id = o.customer_id "
    "AND EXISTS (FROM events e JOIN orders p ON p.customer_id = e.customer_id AND p.order_id IN (SELECT order_id "
    "FROM orders) WHERE e.customer_id = o.customer_id AND amount > 40) AND c.customer_id IN (SELECT customer_id "
    "FROM events)",
    "characters": "SELECT city[1:2], city[2], city[-1], city[:-2], city[9], city[-9], city[0:2], city[3:2] "
    "FROM customers",
    "in-as-a-value": "SELECT order_id, status IN (SELECT segment FROM customers) AS a, (customer_id NOT IN (SELECT "
    "event_id FROM events)) IS NULL AS b, status IN (SELECT segment FROM customers c WHERE c.customer_id = "
    "o.customer_id) AS c FROM orders o",
    "in-as-a-condition": "SELECT order_id FROM orders WHERE (customer_id, status) NOT IN (SELECT customer_id, segment "
    "FROM customers) AND order_id IN (SELECT event_id + 100 FROM events) OR status IN (SELECT segment FROM customers)",
    "any-and-all-of-queries": "SELECT order_id, total > ALL (SELECT total FROM orders WHERE status = 'open') AS a, "
    "total < ANY (SELECT total FROM orders) AS b, total >= ANY (SELECT total FROM orders LIMIT 0) AS c, "
    "total <= ALL (SELECT total FROM orders WHERE order_id < 0) AS d, status <> ALL (SELECT status FROM orders) AS e, "
    "customer_id = ANY (SELECT customer_id FROM customers) AS f FROM orders",
    "range-of-intervals": "SELECT order_id, sum(total) OVER (PARTITION BY customer_id ORDER BY ordered RANGE BETWEEN "
    "INTERVAL 30 DAYS PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY created DESC NULLS FIRST RANGE BETWEEN "
    "INTERVAL '90 minutes' PRECEDING AND INTERVAL 5 DAYS FOLLOWING), count(*) OVER (ORDER BY ordered RANGE "
    "INTERVAL 1 MONTH PRECEDING) FROM orders",
    "unnest-beside-windows": "SELECT event_id AS e, unnest(scores) AS s, sum(event_id) OVER (ORDER BY kind RANGE "
    "UNBOUNDED PRECEDING) AS w FROM events QUALIFY rank() OVER (ORDER BY e) > 2 ORDER BY w DESC, e, s LIMIT 9",
    "unnest-of-groups": "SELECT DISTINCT unnest(list(status ORDER BY order_id)) AS s, count(*) AS n, unnest({'a': "
    "max(total), 'b': min(total)}) FROM orders GROUP BY customer_id ORDER BY n, s, 3 LIMIT 9",
    "lists-of-groups": "SELECT customer_id, list(status ORDER BY total DESC, order_id), array_agg(items ORDER BY "
    "order_id DESC) FILTER (total > 50), list(DISTINCT status ORDER BY status DESC NULLS FIRST), len(list(status)), "
    "list_sort(list(DISTINCT discount IS NULL)) FROM orders GROUP BY customer_id HAVING len(list(order_id)) > 2 "
    "ORDER BY len(list(total)) DESC, max(order_id) LIMIT 5",
    "chosen-of-groups": "SELECT first(status ORDER BY order_id), last(total ORDER BY discount NULLS FIRST, order_id), "
    "any_value(discount ORDER BY order_id DESC), arg_max(order_id, total, 3), arg_min(status, total, 4), "
    "max(total, 2), min(status, 3), quantile_disc(total, [0, 0.25, 1]), quantile_disc(status, 0.3), median(total), "
    "quantile_cont(order_id, [0.5, 1]), string_agg(DISTINCT status, '|' ORDER BY status DESC), "
    "count(DISTINCT (customer_id, status)) FROM orders GROUP BY ROLLUP (discount)",
    "lists-over-windows": "SELECT order_id, list(total ORDER BY order_id) FILTER (total > 9) OVER (PARTITION BY "
    "customer_id), "
    "string_agg(status, '-' ORDER BY order_id) OVER (PARTITION BY customer_id) FROM orders",
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
        pytest.param(
            "SELECT unnest(scores) AS s, sum(count(*)) OVER () FROM events GROUP BY s",
            "of both keys and",
            id="unnest-both",
            marks=pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="DuckDB 1.5 refuses it itself"),
        ),
        ("SELECT unnest(scores) IN (SELECT event_id FROM events), count(*) OVER () FROM events", "in an outer query"),
        pytest.param("SELECT list(kind) FROM events", "without an order", id="list-without-an-order"),
        pytest.param("SELECT any_value(kind) FROM events", "without an order", id="any-value"),
        pytest.param("SELECT string_agg(kind) FROM events", "add ORDER BY", id="string-agg-without-an-order"),
        pytest.param("SELECT list(DISTINCT value ORDER BY value) FROM events", "DISTINCT", id="distinct-floats"),
        pytest.param("SELECT quantile_disc(amount, -0.5) FROM events", "a quantile", id="quantile"),
        pytest.param("SELECT mode(value) FROM events", "of floats", id="mode"),
        pytest.param("SELECT histogram(kind) FROM events", "count(*)", id="histogram"),
        pytest.param("SELECT map()", "without types", id="map-of-nothing"),
        pytest.param("SELECT row_number() OVER () FROM events", "unordered window", id="no-order"),
        pytest.param(
            'SELECT count(*) OVER (ORDER BY "at" RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 1 DAY '
            "FOLLOWING) FROM events",
            "months on one side",
            id="months-and-days",
        ),
        ("SELECT sum(amount) OVER (ORDER BY kind GROUPS 1 PRECEDING) FROM events", "dense_rank"),
        ("SELECT sum(amount) OVER (ROWS 1 PRECEDING EXCLUDE TIES) FROM events", "EXCLUDE TIES"),
        pytest.param(
            "SELECT unnest(list(amount ORDER BY amount)) + 1, kind FROM events GROUP BY kind",
            "compute in an outer query",
            id="unnest-of-results-in-a-sum",
        ),
        ("SELECT unnest(list(amount ORDER BY amount)) AS u, u + 1 FROM events GROUP BY kind", "does not name a column"),
        ("SELECT *, unnest(scores), rank() OVER (ORDER BY event_id) FROM events", "name the columns"),
        pytest.param(
            "SELECT unnest(list(event_id ORDER BY event_id)) FROM events GROUP BY kind ORDER BY count(*)",
            "order by a column of the result",
            id="unnest-of-results-in-an-order",
        ),
        pytest.param("SELECT DISTINCT ON (kind) kind, amount FROM events", "add ORDER BY", id="distinct-on"),
        pytest.param("PIVOT orders ON status USING sum(total)", "name one column and its values", id="pivot"),
        pytest.param("SELECT COLUMNS(lambda c: length(c) > 4) FROM orders", "choice of columns", id="columns"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 3) FROM r", "write UNION ALL"),
        pytest.param(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT a.n + 1 FROM r a, r b WHERE a.n < 3) FROM r",
            "more than once",
            id="recursive-twice",
        ),
        pytest.param("SELECT (customer_id, kind) IN (SELECT 1, 'x') AS b FROM events", "as a value", id="tuple-in"),
        pytest.param("SELECT 1 FROM orders ASOF JOIN customers USING (customer_id)", "", id="asof-using"),
        pytest.param(
            "SELECT 1 FROM orders o JOIN customers c ON EXISTS (FROM events e WHERE e.customer_id = o.customer_id AND "
            "e.customer_id = c.customer_id)",
            "a subquery in a JOIN condition that uses both sides",
            id="query-about-a-join",
        ),
        pytest.param(
            "SELECT (SELECT count(*) FROM orders o JOIN customers c ON c.customer_id = e.customer_id RIGHT JOIN events "
            "f ON f.customer_id = o.customer_id) FROM events e",
            "a RIGHT JOIN after",
            id="right-join-behind",
        ),
        pytest.param(
            "SELECT 1 FROM orders o SEMI JOIN customers c ON order_id - c.customer_id IN (SELECT event_id FROM events)",
            "a subquery in a JOIN condition that uses both sides",
            id="query-in-a-semi-join",
            marks=pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="DuckDB 1.5 refuses it itself"),
        ),
        pytest.param("FROM range(1, 5, (SELECT 2))", "not a literal", id="range-by-a-step"),
    ],
)
def test_constructs_with_engine_specific_results_are_refused_by_name(tables, query, construct):
    pytest.importorskip("pyspark")
    with pytest.raises(UnsupportedError) as error:
        harness.sql(query, tables, engine="spark")
    assert construct in error.value.message
    assert "\n" not in str(error.value)


def test_functions_of_a_later_spark_are_refused_with_the_required_version(tables, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyspark.__version__", "4.0.3")
    query = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r"
    with pytest.raises(UnsupportedError, match=r"Cannot run WITH RECURSIVE on Spark 4\.0\.3: it requires Spark 4\.1"):
        harness.sql(query, tables, engine="spark")


def test_queries_that_spark_cannot_analyse_are_refused(tables, spark):
    query = (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT max(n) + 1 FROM r WHERE n < 4 GROUP BY n) SELECT n FROM r"
    )
    with pytest.raises(UnsupportedError, match=r"on Spark 4\.\d.*Invalid recursive reference"):
        harness.sql(query, tables, engine="spark", spark=spark)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT range(DATE '2024-01-31', DATE '2024-05-05', INTERVAL 1 MONTH)", "after the 28th"),
        pytest.param("SELECT mode(order_id) FROM orders", "several values are the most frequent", id="mode"),
    ],
)
def test_values_for_which_engines_differ_are_an_error(tables, spark, query, message):
    with pytest.raises(Exception, match=message):
        harness.sql(query, tables, engine="spark", spark=spark).collect()
