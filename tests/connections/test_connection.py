"""SQL that uses tables by name: name resolution, planning, and fetching rows."""

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.errors import AmbiguousTableError, EngineError, MissingFileError, RequestError, TableNotFoundError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "region": "string", "at": "struct<x: long>"}


def rows(region: str, *ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "region": region, "at": {"x": i * 10}} for i in ids]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create `sales.orders` (Iceberg, three files of two rows, 5 deleted), `old.orders` (Delta), and `Days`."""
    directory = tmp_path_factory.mktemp("lake") / "lake"
    orders = IcebergTable.create(directory / "sales" / "orders", SCHEMA)
    files = [orders.write_data(rows("eu", i, i + 1)) for i in (1, 3, 5)]
    orders.append(*files)
    orders.append(orders.write_position_deletes([(files[2], 0)]))
    old = DeltaTable.create(directory / "old" / "orders", {"id": "long", "region": "string"})
    old.append(old.write_data([{"id": 1, "region": "us"}, {"id": 2, "region": "us"}]))
    days = DeltaTable.create(directory / "Days", {"id": "long"})
    days.append(days.write_data([{"id": 1}]))
    return directory


@pytest.fixture(scope="module")
def connection(warehouse: Path) -> Any:
    with harness.connect(str(warehouse)) as made:
        yield made


@pytest.fixture
def con(connection: harness.Connection) -> Any:
    with connection.cursor() as cursor:  # as fast as a new connection
        yield cursor


def described(name: str, type_: str) -> tuple[str | None, ...]:
    return (name, type_, "YES", None, None, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*), sum(id) FROM sales.orders", [(5, 16)]),
        ('SELECT count(*) FROM LAKE."Sales".ORDERS', [(5,)]),
        ("SELECT sales.orders.id FROM sales.orders WHERE sales.orders.id > 5", [(6,)]),
        ("SELECT sales.orders.at.x FROM sales.orders WHERE sales.orders.at.x = 40", [(40,)]),
        ("SELECT sales.orders FROM sales.orders WHERE id = 1", [({"id": 1, "region": "eu", "at": {"x": 10}},)]),
        (
            "SELECT sales.orders.region, o.region FROM sales.orders JOIN old.orders o USING (id) WHERE id = 1",
            [("eu", "us")],
        ),
        (
            "SELECT (SELECT max(id) FROM old.orders o WHERE o.id < sales.orders.id) FROM sales.orders WHERE id = 6",
            [(2,)],
        ),
        ("SELECT operation FROM sales.orders.snapshots ORDER BY committed_at", [("append",), ("delete",)]),
        ("SELECT count(*), max(f.record_count) FROM lake.sales.orders.files f, days.versions", [(8, 2)]),
        ("CREATE TEMP TABLE f AS SELECT file_path FROM lake.sales.orders.files; SELECT count(*) FROM f", [(4,)]),
        ("WITH days AS (SELECT 7 AS id) SELECT id FROM days", [(7,)]),
        ("SELECT ';', count(*) FROM old.orders", [(";", 2)]),
        ("DESCRIBE old.orders", [described("id", "BIGINT"), described("region", "VARCHAR")]),
        ("CREATE TEMP TABLE own AS SELECT 1 AS x; SHOW own", [described("x", "INTEGER")]),
        (" show LAKE.old.orders -- columns\n", 2),
        ("FROM (PIVOT old.orders ON region USING count(*)) ORDER BY id", [(1, 1), (2, 1)]),
        ("CREATE TEMP TABLE mine AS FROM old.orders; INSERT INTO mine SELECT id, 'x' FROM days; FROM mine", 3),
    ],
)
def test_names_refer_to_tables_of_the_warehouse(con, query, expected):
    found = con.execute(query).fetchall()
    assert (found if isinstance(expected, list) else len(found)) == expected


def test_conditions_skip_files_of_qualified_tables(con):
    ((name, plan),) = con.plans("SELECT id FROM sales.orders WHERE sales.orders.id > 4 AND orders.region = 'eu'")
    assert (name, plan.files.num_rows) == ("lake.sales.orders", 1)
    both = con.plans("FROM sales.orders a, sales.orders b WHERE a.id = 1")
    assert [plan.files.num_rows for _, plan in both] == [1, 3]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("FROM sales.ordrs", TableNotFoundError, "There is no table sales.ordrs; the nearest are sales.orders"),
        ("FROM sales.orders.versions", TableNotFoundError, r"tables of lake\.sales\.orders are snapshots, history"),
        ("FROM days.snapshots", TableNotFoundError, r"metadata tables of lake\.Days are versions, files"),
        ("FROM orders", TableNotFoundError, "There is no table orders; the nearest are old.orders, sales.orders"),
        (
            "SELECT orders.id FROM sales.orders, old.orders",
            RequestError,
            "orders.id may belong to two tables named orders",
        ),
        (
            "SELECT (SELECT max(id) FROM old.orders WHERE id < sales.orders.id) FROM sales.orders",
            RequestError,
            "sales.orders.id may belong to two tables named orders",
        ),
        ("CREATE VIEW v AS FROM sales.orders", RequestError, "Cannot create a view over lake.sales.orders"),
        ("INSERT INTO sales.orders SELECT 1", RequestError, "Cannot run INSERT with lake.sales.orders"),
        ("DELETE FROM sales.orders", RequestError, "Cannot run DELETE with lake.sales.orders"),
        ("CREATE TABLE sales.orders (a INT)", RequestError, "Cannot run CREATE with lake.sales.orders"),
        ("COPY sales.orders TO 'x.csv'", RequestError, "Cannot run COPY with lake.sales.orders"),
        ("PIVOT old.orders ON region USING count(*) ORDER BY id", RequestError, "Cannot parse the query as duckdb SQL"),
        ("SELECT 1; SELEC 2", RequestError, 'near "SELEC"'),
        (" ; -- nothing", RequestError, "it has no statement"),
        ("SELECT nope FROM sales.orders", EngineError, '"region"'),
        ("CREATE TABLE sales.new AS SELECT 1", EngineError, "sales"),
    ],
)
def test_what_cannot_be_run_is_refused(con, query, error, message):
    with pytest.raises(error, match=message):
        con.execute(query)


@pytest.mark.parametrize(("query", "word"), [("SHOW ALL TABLES", "SHOW"), ("CALL pragma_version()", "CALL")])
def test_a_statement_that_sqlglot_leaves_is_named_and_not_logged(caplog, query, word):
    with pytest.raises(RequestError, match=f"A query may only read, got {word}"):
        harness.sql(query)
    assert caplog.text == ""


def test_a_name_of_both_sides_is_ambiguous(con):
    con.register("days", pa.table({"id": pa.array([], pa.int64())}))
    with pytest.raises(AmbiguousTableError, match=r"Table days is both one of this connection and lake\.Days"):
        con.execute("FROM days")
    assert con.execute("SELECT count(*) FROM lake.days, temp.days").fetchall() == [(0,)]


def test_names_that_differ_in_case_alone(tmp_path):
    for name in ("Orders", "orders"):
        table = DeltaTable.create(tmp_path / "lake" / name, {"name": "string"})
        table.append(table.write_data([{"name": name}]))
    con = harness.connect(harness.open_warehouse(str(tmp_path / "lake")))
    assert con.execute("FROM Orders").fetchall() == [("Orders",)]
    assert con.execute('FROM "orders"').fetchall() == [("orders",)]
    with pytest.raises(AmbiguousTableError, match=r"Table ORDERS may be any of Orders, orders: use the exact spelling"):
        con.execute("FROM ORDERS")


def test_a_location_is_opened_at_each_use_and_a_table_is_one_version(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    con = harness.connect({"now": str(tmp_path / "t"), "past.first": harness.open_table(str(tmp_path / "t"))})
    count = "SELECT (SELECT count(*) FROM now), (SELECT count(*) FROM past.first)"
    assert con.execute(count).fetchone() == (1, 1)
    table.append(table.write_data([{"id": 2}]))
    assert con.execute(count).fetchone() == (2, 1)
    con.register("past.first", con.table("now").snapshot(0))
    assert con.execute(count).fetchone() == (2, 0)
    assert sorted(con.names()) == [("now",), ("past", "first")]
    con.unregister("now")
    with pytest.raises(TableNotFoundError, match=r"There is no table now; the nearest are past\.first"):
        con.execute(count)


def test_a_table_of_another_library_is_read_by_harness_at_its_version(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    opened = type("DeltaTable", (), {"__module__": "deltalake.table", "table_uri": str(tmp_path / "t")})()
    type(opened).version = lambda self: 0
    con = harness.connect({"old": opened})
    con.register("too", opened)
    assert con.execute("SELECT (SELECT count(*) FROM old), count(*) FROM too").fetchone() == (0, 0)


def test_objects_that_are_no_source_of_tables_are_refused():
    with pytest.raises(RequestError, match="Invalid option catalog, of type int: expected a catalog's name"):
        harness.connect(5)
    with pytest.raises(RequestError, match="Invalid table 't': expected a table, a snapshot or a location, got 5"):
        harness.connect({"t": 5})
    with pytest.raises(RequestError, match="Cannot register t: DuckDB cannot read an object of type int"):
        harness.connect().register("t", 5)


def test_the_database_api(con):
    cursor = con.cursor()
    cursor.execute("SELECT id, region FROM sales.orders WHERE id >= ? AND region = $2 ORDER BY id", [3, "eu"])
    assert [(name, str(type_)) for name, type_, *_ in cursor.description] == [("id", "BIGINT"), ("region", "VARCHAR")]
    assert cursor.rowcount == -1
    found = (cursor.fetchone(), cursor.fetchmany(), cursor.fetchmany(5), cursor.fetchone())
    assert found == ((3, "eu"), [(4, "eu")], [(6, "eu")], None)
    assert list(cursor.execute("SELECT id + $n FROM days", {"n": 2})) == [(3,)]
    con.execute("CREATE TABLE kept (id INT)").executemany("INSERT INTO kept VALUES (?)", [[1], [2]])
    con.begin().execute("DELETE FROM kept")
    con.rollback().commit()
    assert cursor.execute("SELECT count(*) FROM kept, days").fetchall() == [(2,)]
    cursor.close()
    assert con.execute("SELECT sum(id) FROM kept").fetchall() == [(3,)]


def test_rows_as_a_whole(con):
    query = "SELECT id, sum(id) AS total FROM sales.orders WHERE id < 3 GROUP BY id ORDER BY id"
    table = con.execute(query).arrow()
    assert table.schema.types == [pa.int64(), pa.decimal128(38, 0)]
    assert table.to_pydict() == {"id": [1, 2], "total": [Decimal(1), Decimal(2)]}
    assert con.arrow().num_rows == 0
    assert con.fetchall() == []
    assert con.execute(query).df()["id"].tolist() == [1, 2]
    assert con.execute(query).pl()["id"].to_list() == [1, 2]
    assert con.execute(query).to_batches().read_all().num_rows == 2
    assert con.execute(query).fetchone() == (1, Decimal(1))
    with pytest.raises(RequestError, match="some were fetched one by one"):
        con.arrow()
    assert con.execute("SELECT sum(id) FROM days WHERE id = ?", [1]).arrow().schema.types == [pa.decimal128(38, 0)]
    assert con.sql(query).fetchall() == [(1, Decimal(1)), (2, Decimal(2))]
    con.register("local", pa.table({"id": [1]}))
    assert con.sql("SELECT count(*) FROM local JOIN days USING (id)").fetchall() == [(1,)]


def test_rows_that_another_statement_took_the_place_of_are_no_rows(con):
    con.execute("SELECT range FROM range(100000)").fetchone()
    con.plans("FROM days")
    with pytest.raises(RequestError, match="Cannot fetch rows"):
        con.fetchone()


def test_reads_leave_nothing_but_for_relations(con):
    views = "SELECT count(*) FROM duckdb_views() WHERE NOT internal"
    con.execute("SELECT count(*) FROM sales.orders").fetchall()
    assert con.execute(views).fetchall() == [(0,)]
    relation = con.sql("SELECT id FROM sales.orders WHERE id > 4")
    con.execute("SELECT count(*) FROM old.orders").fetchall()
    assert relation.fetchall() == [(6,)]
    con.release()
    assert con.execute(views).fetchall() == [(0,)]


def test_a_file_removed_after_planning_a_table(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    con = harness.connect({"t": str(tmp_path / "t")})
    con.execute("SELECT id FROM t")
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(MissingFileError, match="it was removed after the table was planned"):
        con.fetchall()


def test_a_connection_shows_its_source_and_asks_nothing(tmp_path):
    table = DeltaTable.create(tmp_path / "lake" / "sales" / "orders", {"id": "long"})
    con = harness.connect(str(tmp_path / "lake"))
    assert repr(con) == "Connection('lake')"
    con.execute("USE sales")
    con.register("mine", str(table.directory))
    shutil.rmtree(tmp_path / "lake")
    assert repr(con) == "Connection('lake', 1 table by name, within='sales')"
    assert repr(harness.connect({"a": "nowhere/a", "b": "nowhere/b"})) == "Connection(2 tables by name)"
    assert repr(harness.connect()) == "Connection(all configured catalogs)"
