"""Tables of a catalog as views of a user's DuckDB connection."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import harness
from harness.connections.connection import plan_views
from harness.engines.duckdb.engine import attach
from harness.errors import AmbiguousTableError, EngineError, RequestError, TableNotFoundError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

VIEWS = "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary ORDER BY ALL"
TEMPORARY = "SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal"


def add_delta(place: Path, ids: list[int]) -> DeltaTable:
    table = DeltaTable.create(place, {"id": "long"})
    table.append(table.write_data([{"id": i} for i in ids]))
    return table


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create `sales.orders` (ids 1 to 4; 1 deleted by position, 4 by key), `eu.north.days` (7) and `top` (8)."""
    directory = tmp_path_factory.mktemp("lake")
    orders = IcebergTable.create(directory / "sales" / "orders", {"id": "long"})
    file = orders.write_data([{"id": i} for i in (1, 2, 3, 4)])
    orders.append(file)
    orders.append(orders.write_position_deletes([(file, 0)]))
    orders.append(orders.write_equality_deletes(["id"], [{"id": 4}]))
    add_delta(directory / "eu" / "north" / "days", [7])
    add_delta(directory / "top", [8])
    return directory


@pytest.fixture
def con() -> Any:
    with duckdb.connect() as connection:
        yield connection


def test_every_namespace_is_a_schema_and_deletes_are_applied(con, lake):
    assert set(harness.attach(con, str(lake))) == {"sales.orders", '"eu.north".days', "main.top"}
    assert con.execute("SELECT id FROM sales.orders ORDER BY id").fetchall() == [(2,), (3,)]
    assert con.execute('SELECT d.id, t.id FROM "eu.north".days d, top t').fetchall() == [(7, 8)]
    harness.attach(con, str(lake))  # attaching again replaces the views
    harness.detach(con)
    assert con.execute(VIEWS).fetchall() == []
    assert con.execute(TEMPORARY).fetchall() == [(0,)]
    assert con.execute("SELECT schema_name FROM duckdb_schemas() WHERE NOT internal").fetchall() in ([("main",)], [])


def test_detach_leaves_what_is_the_users(con, lake):
    con.execute("CREATE SCHEMA eu; CREATE SCHEMA sales; CREATE VIEW sales.mine AS SELECT 1 AS one")
    harness.attach(con, str(lake), tables=["sales.orders"])
    assert con.execute(VIEWS).fetchall() == [("sales", "mine"), ("sales", "orders")]
    harness.detach(con)
    assert con.execute("FROM sales.mine").fetchall() == [(1,)]
    assert con.execute(VIEWS).fetchall() == [("sales", "mine")]
    harness.detach(con)
    con.close()
    with pytest.raises(EngineError, match="Cannot detach"):
        harness.detach(con)


@pytest.mark.parametrize("statement", ["CREATE TABLE orders (id INT)", "CREATE VIEW ORDERS AS SELECT 1 AS id"])
def test_nothing_of_the_users_is_replaced(con, lake, statement):
    con.execute("CREATE SCHEMA sales; USE sales;" + statement + "; USE memory.main")
    with pytest.raises(RequestError, match=r"Cannot make the view sales\.orders: another object has this name"):
        harness.attach(con, str(lake), tables=["sales.orders"])
    harness.detach(con)
    con.execute("FROM sales.orders")


def test_a_name_that_there_is_not(con, lake):
    with pytest.raises(TableNotFoundError, match=r"There is no table sales\.order; the nearest are sales\.orders"):
        harness.attach(con, str(lake), tables=["sales.order"])
    with pytest.raises(AmbiguousTableError, match="Cannot make views of both T and t"):
        harness.attach(con, {"T": str(lake / "top"), "t": str(lake / "top")})
    assert con.execute(VIEWS).fetchall() == []


def test_a_view_stays_at_its_version_until_it_is_attached_again(con, tmp_path):
    table = add_delta(tmp_path / "t", [1])
    harness.attach(con, {"t": str(tmp_path / "t")})
    table.append(table.write_data([{"id": 2}]))
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
    harness.attach(con, {"t": str(tmp_path / "t")})
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_views_can_be_bound_to_a_cursor(con, lake):
    needed = attach(plan_views(str(lake), ["sales.orders"], {}), con)
    cursor = con.cursor()
    needed.bind(cursor)
    assert cursor.execute("SELECT count(*) FROM sales.orders").fetchall() == [(2,)]
