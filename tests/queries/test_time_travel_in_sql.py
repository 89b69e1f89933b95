"""Moments that queries name, on both engines; which rows a moment has is counted by hand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import RequestError, SnapshotNotFoundError
from harness.queries.rewrite import parse_statement
from harness.queries.time_travel import pin
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

ORDERS = ("orders",)


@pytest.mark.parametrize(
    ("clause", "moment", "after"),
    [
        ("AT (VERSION => 3)", "version 3", ' AS "orders" '),
        ("AT (VERSION => 3) o WHERE o.x", "version 3", "  o WHERE o.x"),
        ("o AT (VERSION => 3)", "version 3", " o "),
        ("FOR VERSION AS OF 'audit' o", "version audit", "  o"),
        ("VERSION AS OF 3, orders", "version 3", ' AS "orders" , orders'),
        ("TIMESTAMP AS OF '2024-06-01' WHERE x = 'a'", "timestamp 2024-06-01", " AS \"orders\"  WHERE x = 'a'"),
        ("AT (TIMESTAMP => DATE '1970-01-03' - INTERVAL 1 DAY)", "timestamp 86400000", ' AS "orders" '),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '1970-01-01 00:00:01' a", "timestamp 1000", "  a"),
    ],
)
def test_tables_at_moments_get_names_of_their_own(clause: str, moment: str, after: str) -> None:
    pinned = pin(parse_statement(f"FROM Orders {clause}"), lambda name: name[0].casefold() == "orders")
    assert pinned is not None
    assert pinned.query == f'FROM "Orders at {moment}"{after}'.replace('AS "orders"', 'AS "Orders"')
    assert [str(found) for _, found in pinned.moments.values()] == [moment]


@pytest.mark.parametrize("query", ["FROM other AT (VERSION => 3)", "SELECT x AS of FROM orders", "FROM orders version"])
def test_other_tables_keep_their_clauses(query: str) -> None:
    assert pin(parse_statement(query), lambda name: name == ORDERS) is None


@pytest.mark.parametrize(
    "query",
    [
        "FROM orders AT (VERSION => x)",
        "FROM orders AT (VERSION => 1.5)",
        "FROM orders BEFORE (VERSION => 3)",
        "FROM orders AT (TIMESTAMP => now())",
        "FROM orders TIMESTAMP AS OF 1700000000",
        "FROM orders AT (OFFSET => -60)",
    ],
)
def test_what_is_no_moment_is_refused(query: str) -> None:
    with pytest.raises(RequestError, match="Cannot read table orders"):
        pin(parse_statement(query), lambda name: name == ORDERS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tables of one, two and three rows, a commit each; the Iceberg table has a branch at the first."""
    place: Path = tmp_path_factory.mktemp("moments")
    iceberg = IcebergTable.create(place / "i", {"id": "long"})
    delta = DeltaTable.create(place / "d", {"id": "long"})
    for i in range(3):
        iceberg.append(iceberg.write_data([{"id": i}]))
        delta.append(delta.write_data([{"id": i}]))
    return {"i": harness.open_table(str(place / "i")), "d": str(place / "d")}


def moments_of(tables: dict[str, Any]) -> list[tuple[str, list[tuple[int, ...]]]]:
    first, second, _ = tables["i"].snapshots()
    time = second["timestamp_ms"]
    return [
        ("SELECT count(*) FROM d AT (VERSION => 1)", [(1,)]),
        ("SELECT count(*) FROM d VERSION AS OF '2' x WHERE x.id < 5", [(2,)]),
        (f"SELECT id FROM i VERSION AS OF {first['id']}", [(0,)]),
        ("SELECT count(*) FROM i FOR VERSION AS OF 'main'", [(3,)]),
        (f"SELECT count(*), max(i.id) FROM i AT (TIMESTAMP => {iso(time)})", [(2, 1)]),
        (f"SELECT id FROM i EXCEPT ALL SELECT id FROM i AT (VERSION => {second['id']})", [(2,)]),
    ]


def iso(milliseconds: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}'"


def test_moments_on_duckdb(tables: dict[str, Any]) -> None:
    for query, expected in moments_of(tables):
        assert harness.sql(query, **tables).fetchall() == expected, query
    connection = harness.connect(tables)
    assert connection.execute("SELECT count(*) FROM d AT (VERSION => 1)").fetchall() == [(1,)]
    with pytest.raises(SnapshotNotFoundError, match="branch or tag 'audit'"):
        harness.sql("FROM i VERSION AS OF 'audit'", **tables)
    with pytest.raises(RequestError, match="Table i is bound to one snapshot"):
        harness.sql("FROM i AT (VERSION => 1)", i=tables["i"].snapshot())


def test_moments_on_spark(tables: dict[str, Any], spark: Any) -> None:
    for query, expected in moments_of(tables):
        rows = harness.sql(query, engine="spark", spark=spark, **tables).collect()
        assert [tuple(row) for row in rows] == expected, query
