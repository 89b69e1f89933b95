from pathlib import Path

import pytest

import harness
from harness.metadata.catalogs.catalog import Catalog, walk
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Path:
    """Tables of both formats at several depths, and directories that resemble tables."""
    root = tmp_path_factory.mktemp("lake")
    for folder in ("top", "sales.db/orders", "eu/hr/people"):
        (root / folder).parent.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(root / folder, {"id": "long"})
        table.append(table.write_data([{"id": 1}]))
    table = IcebergTable.create(root / "sales.db" / "returns", {"id": "long"})
    table.append(table.write_data([{"id": 2}, {"id": 3}]))
    for folder in (".hidden", "_temporary", "sales.db/day=1", "eu/metadata", "eu/empty"):
        (root / folder).mkdir()
    (root / "sales.db" / "orders.csv").write_text("id\n1\n")
    return root


def test_tables_are_found_by_their_files(lake):
    warehouse = harness.open_warehouse(str(lake))
    assert isinstance(warehouse, Catalog)
    assert warehouse.name == lake.name
    assert warehouse.namespaces() == (("eu",), ("sales",))
    assert warehouse.namespaces(("eu",)) == (("eu", "empty"), ("eu", "hr"), ("eu", "metadata"))
    assert warehouse.tables() == (("top",),)
    assert warehouse.tables(("sales",)) == (("sales", "orders"), ("sales", "returns"))
    assert list(walk(warehouse)) == [("top",), ("eu", "hr", "people"), ("sales", "orders"), ("sales", "returns")]


@pytest.mark.parametrize(
    ("name", "table_format", "ids"),
    [("top", "delta", [1]), ("sales.returns", "iceberg", [2, 3]), ('"eu".hr.people', "delta", [1])],
)
def test_a_name_opens_the_table(lake, name, table_format, ids):
    table = harness.open_table(name, catalog=harness.open_warehouse(str(lake), name="lake"))
    assert (table.name, table.format) == (f"lake.{name.replace(chr(34), '')}", table_format)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == ids
    assert repr(table.snapshot()).startswith(f"Snapshot('{table.name}', format='{table_format}'")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sales.order", "catalog lake has no table sales.order; the nearest are sales.orders"),
        ("sale.orders", "catalog lake has no namespace sale; the nearest are sales"),
        ("eu.empty.orders", "catalog lake has no table eu.empty.orders; it has none"),
        ('sales."../top"', 'catalog lake has no table sales."../top"; the nearest are sales.orders, sales.returns'),
        ("..", "Invalid name"),
    ],
)
def test_missing_names_are_reported_with_similar_names(lake, name, message):
    with pytest.raises(harness.HarnessError) as raised:
        harness.open_table(name, catalog=harness.open_warehouse(str(lake), name="lake"))
    assert message in raised.value.message


def test_a_database_with_and_without_suffix_makes_a_name_ambiguous(tmp_path):
    for folder in ("sales/orders", "sales.db/orders"):
        (tmp_path / folder / "_delta_log").mkdir(parents=True)
    with pytest.raises(harness.AmbiguousTableError, match=r"sales\.orders is ambiguous: it may be"):
        harness.open_warehouse(str(tmp_path)).locate(("sales", "orders"))


@pytest.mark.parametrize("name", ["db.orders", "linked.orders"])
def test_a_linked_table_is_outside_the_warehouse(tmp_path, name):
    """The user named the warehouse, but the link was made by whoever filled it."""
    table = DeltaTable.create(tmp_path / "mine" / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (tmp_path / "lake" / "db").mkdir(parents=True)
    (tmp_path / "lake" / "db" / "orders").symlink_to(tmp_path / "mine" / "orders")
    (tmp_path / "lake" / "linked").symlink_to(tmp_path / "mine")
    warehouse = harness.open_warehouse(str(tmp_path / "lake"))
    for more in ({"outside": "refuse"}, {"untrusted": True}):
        with pytest.raises(harness.OutsideTableError, match="beyond the table's roots"):
            harness.open_table(name, catalog=warehouse, **more)
    with pytest.warns(harness.HarnessWarning, match=f"outside of the table are read, in {tmp_path}/lake/"):
        assert harness.open_table(name, catalog=warehouse).snapshot().to_arrow().num_rows == 1
    allowed = {"allowed_roots": [str(tmp_path / "mine")], "untrusted": True}
    assert harness.open_table(name, catalog=warehouse, **allowed).snapshot().to_arrow().num_rows == 1


@pytest.mark.parametrize(
    "links",
    [
        {"root": "/"},
        {"out": "../mine"},
        {"self": "."},
        {"db/up": ".."},
        {"alias": "db"},
        {"circle": "circle"},
        {"here": "there", "there": "here"},
        {"nothing": "gone"},
    ],
    ids=str,
)
def test_a_listing_follows_links_once_and_within_the_warehouse(tmp_path, links):
    for folder in ("lake/db/orders", "lake/top", "mine/foreign"):
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(tmp_path / folder, {"id": "long"})
    for name, target in links.items():
        (tmp_path / "lake" / name).symlink_to(target)
    warehouse = harness.open_warehouse(str(tmp_path / "lake"))
    assert list(walk(warehouse)) == [("top",), ("db", "orders")]


def test_a_link_to_a_table_in_the_warehouse_is_another_name(tmp_path):
    (tmp_path / "lake" / "db").mkdir(parents=True)
    DeltaTable.create(tmp_path / "lake" / "db" / "orders", {"id": "long"})
    (tmp_path / "lake" / "latest").symlink_to("db/orders")
    warehouse = harness.open_warehouse(str(tmp_path / "lake"))
    assert list(walk(warehouse)) == [("latest",), ("db", "orders")]
    assert warehouse.locate(("latest",)).format == "delta"
