"""A PyIceberg catalog over SQLite, which needs no server: names and errors."""

from pathlib import Path

import pyarrow as pa
import pytest

import harness
from harness.cli import main
from harness.testing import SparkJob

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external


@pytest.fixture
def prod(tmp_path, configure) -> Path:
    """The catalog `prod` with `sales.orders` (three snapshots) and `sales.eu.returns`."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/prod.db"
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    catalog.create_namespace("sales.eu")
    rows = pa.table({"id": [1, 2, 3], "region": ["eu", "us", None]})
    orders = catalog.create_table("sales.orders", schema=rows.schema)
    orders.append(rows)
    orders.append(rows)
    orders.delete("id = 2")
    catalog.create_table("sales.eu.returns", schema=rows.schema)
    catalog.engine.dispose()
    configure("prod", {"uri": uri})
    return tmp_path


def ids(table: harness.Table | harness.Snapshot) -> list[int]:
    snapshot = table.snapshot() if isinstance(table, harness.Table) else table
    return sorted(snapshot.to_arrow()["id"].to_pylist())


def test_a_name_opens_the_table(prod):
    table = harness.open_table("prod.sales.orders")
    assert (table.name, ids(table)) == ("prod.sales.orders", [1, 1, 3, 3])
    assert ids(harness.open_table("sales.orders", catalog="prod")) == [1, 1, 3, 3]
    assert ids(harness.open_table("Prod.sales.orders")) == [1, 1, 3, 3]
    assert ids(harness.open_table("prod.sales.eu.returns")) == []
    assert harness.sql("SELECT count(*) FROM o", {"o": "prod.sales.orders"}).fetchall() == [(4,)]


def test_metadata_is_read_by_harness_alone(prod, monkeypatch):
    from pyiceberg.serializers import FromInputFile

    monkeypatch.setattr(FromInputFile, "table_metadata", lambda *_: pytest.fail("PyIceberg reads metadata"))
    assert ids(harness.open_table("prod.sales.orders")) == [1, 1, 3, 3]


def test_queries_write_nothing(prod):
    before = (prod / "prod.db").read_bytes()
    harness.open_table("prod.sales.orders").snapshot().to_arrow()
    assert main(["list", "prod", "--recursive"]) == 0
    assert (prod / "prod.db").read_bytes() == before


def test_a_path_has_priority_over_a_name(prod):
    from harness.writing.delta.builder import DeltaTable

    table = DeltaTable.create(prod / "prod.sales.orders", {"id": "long"})
    table.append(table.write_data([{"id": 7}]))
    assert ids(harness.open_table("prod.sales.orders")) == [7]
    assert ids(harness.open_table("sales.orders", catalog="prod")) == [1, 1, 3, 3]


def test_list_names_catalogs_and_no_secret(prod, configure, capfd):
    configure("dev", {"uri": "http://user:secret@host", "credential": "id:secret"})
    assert main(["list"]) == 0
    out = capfd.readouterr().out
    assert "prod" in out
    assert "dev" in out
    assert "secret" not in out


def test_a_name_in_two_catalogs_is_ambiguous(prod, configure):
    assert ids(harness.open_table("sales.orders")) == [1, 1, 3, 3]
    copy = prod / "copy.db"
    # Each catalog in a database has its own names.
    import sqlite3

    copy.write_bytes((prod / "prod.db").read_bytes())
    with sqlite3.connect(copy) as database:
        database.execute("UPDATE iceberg_tables SET catalog_name = 'dev'")
    database.close()
    configure("dev", {"uri": f"sqlite:///{copy}"})
    with pytest.raises(harness.AmbiguousTableError, match=r"write .*prod\.sales\.orders"):
        harness.open_table("sales.orders")
    configure("dev", {"uri": "http://127.0.0.1:9"})
    with pytest.raises(harness.StorageError, match=r"Cannot reach catalog dev at http://127\.0\.0\.1:9"):
        harness.open_table("sales.orders")
    configure("dev", {"uri": "ftp://x"})
    wrong = r"whether catalog dev has sales\.orders: Cannot query catalog dev: its configuration is wrong"
    with harness.connect() as con, pytest.raises(harness.RequestError, match=wrong):
        con.execute("FROM sales.orders")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"uri": "http://127.0.0.1:9"}, "Cannot reach catalog dev at http://127.0.0.1:9"),
        ({"uri": "thrift://127.0.0.1:9"}, "Cannot reach catalog dev at thrift://127.0.0.1:9"),
        ({"uri": "sqlite:///none.db"}, "there is no file none.db; check PYICEBERG_CATALOG__DEV__URI"),
        ({"uri": "ftp://x"}, "configuration is wrong"),
        ({"type": "glue"}, "configuration is wrong (You must specify a region.)"),
    ],
)
def test_the_error_about_an_unavailable_catalog_is_one_line(configure, properties, message):
    configure("dev", properties)
    with pytest.raises(harness.HarnessError) as raised:
        harness.open_table("dev.sales.orders")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("prod")
def test_a_job_uses_names_of_the_catalog(harness_spark):
    spark = harness.spark_session(catalog="prod")
    for name in ("prod.sales.orders", "sales.orders"):
        assert sorted(row.id for row in spark.table(name).collect()) == [1, 1, 3, 3]
    assert spark.table("prod.sales.eu.returns").count() == 0
    assert spark.sql("SELECT count(*) AS n FROM prod.sales.orders.snapshots").first().n == 3
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("prod.sales.order").count()
    registered = SparkJob.on(harness_spark, catalog="prod")
    assert harness_spark.table("prod.sales.orders").count() == 4
    registered.close()
