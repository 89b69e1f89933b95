"""Time travel in queries, and conditions on the current time, on both engines. Expected rows are counted by hand."""

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from parsers import reads_all

import harness
from harness.errors import RequestError, SnapshotNotFoundError
from harness.metadata.model.schema import DateType, Field, Schema, TimestampType
from harness.queries.rewrite import parse_statement, rewrite
from harness.queries.time_travel import pin
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

ORDERS = ("orders",)


@pytest.mark.parametrize(
    ("clause", "moment", "after"),
    [
        ("AT (VERSION => 3)", "version 3", ' AS "orders" '),
        ("AT (VERSION => 3) o WHERE o.x", "version 3", "  o WHERE o.x"),
        pytest.param("o AT (VERSION => 3)", "version 3", " o ", marks=reads_all),
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
def test_invalid_moments_are_refused(query: str) -> None:
    with pytest.raises(RequestError, match="Cannot read table orders"):
        pin(parse_statement(query), lambda name: name == ORDERS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tables with one, two, and three rows after each commit. The Iceberg table has a branch at the first."""
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
    return f"TIMESTAMP '{datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S.%f}'"


def test_moments_on_duckdb(tables: dict[str, Any]) -> None:
    for query, expected in moments_of(tables):
        assert harness.sql(query, tables).fetchall() == expected, query
    connection = harness.connect(tables)
    assert connection.execute("SELECT count(*) FROM d AT (VERSION => 1)").fetchall() == [(1,)]
    with pytest.raises(SnapshotNotFoundError, match="branch or tag 'audit'"):
        harness.sql("FROM i VERSION AS OF 'audit'", tables)
    with pytest.raises(RequestError, match="Table i is bound to one snapshot"):
        harness.sql("FROM i AT (VERSION => 1)", {"i": tables["i"].snapshot()})


def test_moments_on_spark(tables: dict[str, Any], spark: Any) -> None:
    for query, expected in moments_of(tables):
        rows = harness.sql(query, tables, engine="spark", spark=spark).collect()
        assert [tuple(row) for row in rows] == expected, query


TABLES = {
    "t": Schema(
        fields=(
            Field(id=1, name="d", type=DateType()),
            Field(id=2, name="w", type=TimestampType()),
            Field(id=3, name="i", type=TimestampType(utc=True)),
        )
    )
}
NOON = datetime.datetime(2024, 3, 17, 12)


def where(condition: str) -> str | None:
    (reference,) = rewrite(f"FROM t WHERE {condition}", TABLES, now=lambda: NOON).references
    return None if reference.where is None else reference.where.sql


@pytest.mark.parametrize(
    ("condition", "column", "moment"),
    [
        ("d >= current_date - 30", "d", "2024-02-14 00:00:00"),
        ("today() - 30 < d", "d", "2024-02-14 00:00:00"),
        ("d = current_date()", "d", "2024-03-15 00:00:00"),
        ("d BETWEEN current_date - 7 AND current_date", "d", "2024-03-08 00:00:00"),
        ("w > now() - INTERVAL 36 HOUR", "w", "2024-03-14 00:00:00"),
        ("w > localtimestamp - INTERVAL '1 month'", "w", "2024-02-15 12:00:00"),
        ("w >= date_trunc('month', now())", "w", "2024-03-01 00:00:00"),
        ("i >= current_timestamp::DATE - INTERVAL 1 WEEK", "i", "2024-03-08 00:00:00"),
        ("i >= get_current_timestamp()", "i", "2024-03-15 12:00:00"),
    ],
)
def test_a_column_is_not_before_the_moment(condition: str, column: str, moment: str) -> None:
    assert where(condition) == f"(\"{column}\" >= CAST('{moment}' AS TIMESTAMP))"


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("d <= current_date - 30", id="moves-on"),
        pytest.param("NOT d >= current_date", id="not"),
        pytest.param("d <> current_date", id="other-than"),
        pytest.param("d BETWEEN SYMMETRIC current_date AND DATE '2024-01-01'", id="either-way"),
        pytest.param("d >= current_date OR random() < 0.5", id="or-anything"),
        pytest.param("d + 1 >= current_date", id="computed"),
        pytest.param("d >= current_date - (current_date - DATE '2024-01-01')::INT", id="twice"),
    ],
)
def test_conditions_that_can_become_false_are_not_used(condition: str) -> None:
    assert where(condition) is None


def test_a_connection_in_another_zone_has_the_rows_of_its_moment(tmp_path: Path) -> None:
    today = (datetime.datetime.now(datetime.UTC).date() - datetime.date(1970, 1, 1)).days
    table = IcebergTable.create(tmp_path, {"day": "date", "moment": "timestamptz"}, format_version=2)
    days = (today - 90, today - 3, today, today + 1)
    table.append(*(table.write_data([{"day": day, "moment": day * 86_400_000_000}]) for day in days))
    found = harness.open_table(str(tmp_path))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Pacific/Kiritimati'; BEGIN")
        for column, since in (("day", "current_date - 14"), ("moment", "now() - INTERVAL 14 DAY")):
            rows = harness.sql(f"SELECT 1 FROM t WHERE {column} > {since}", {"t": found}, connection=connection)
            assert len(rows.fetchall()) == 3
        harness.detach(connection)
