"""Slices of several tables keep their joins."""

from pathlib import Path

import pytest

import harness
from harness.cli import main
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

JOINED = """SELECT o.id, c.name, r.label FROM orders o LEFT JOIN customers c ON o.customer = c.id
LEFT JOIN regions r ON c.region = r.code ORDER BY ALL"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Orders of two formats away from their customers, whose regions are a third table; customer 2 is deleted."""
    orders = DeltaTable.create(tmp_path / "source/orders", {"id": "long", "customer": "int"})
    orders.append(orders.write_data([{"id": i, "customer": c} for i, c in enumerate([1, 2, 3, None, 9])]))
    customers = IcebergTable.create(tmp_path / "source/customers", {"id": "long", "name": "string", "region": "string"})
    rows = [{"id": i, "name": f"c{i}", "region": "it's" if i == 3 else "us"} for i in range(1, 7)]
    customers.append(file := customers.write_data(rows))
    customers.commit(add=[customers.write_position_deletes([(file, 1)])])
    regions = IcebergTable.create(tmp_path / "source/regions", {"code": "string", "label": "string"})
    regions.append(regions.write_data([{"code": c, "label": c.upper()} for c in ("us", "it's", "eu")]))
    return tmp_path / "source"


def joined(place: Path, where: str = "true") -> list[tuple]:
    tables = {name: str(place / name) for name in ("orders", "customers", "regions")}
    return harness.sql(f"SELECT * FROM ({JOINED}) WHERE {where}", **tables).fetchall()


def test_the_slices_join_as_their_sources_do(warehouse, tmp_path, capsys):
    steps = ["--follow", "orders.customer=customers.id", "--follow", "customers.region=regions.code"]
    command = ["pull", str(warehouse / "orders"), str(tmp_path / "slices"), "--where", "id > 0", "--exact", *steps]
    assert main(command) == 0
    assert joined(tmp_path / "slices") == joined(warehouse, "id > 0")
    ids = harness.open_table(tmp_path / "slices/customers").snapshot().to_arrow(columns=["id"])
    assert ids.to_pylist() == [{"id": 3}]
    plan = harness.open_table(tmp_path / "slices/customers").snapshot().plan()
    assert [len(v) for v in plan.load_positions([0]).values()] == [1]
    (region,) = harness.open_table(tmp_path / "slices/regions").snapshot().to_arrow().to_pylist()
    assert region == {"code": "it's", "label": "IT'S"}
    assert main(["pull", str(warehouse / "customers"), str(tmp_path / "slices/customers"), "--refresh"]) == 2
    assert "rows that another slice refers to; pull anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["customer=customers.id"], "Invalid --follow customer=customers.id"),
        (["regions.code=customers.region"], "nothing leads to regions"),
        (["orders.customer=customers.id", "customers.id=orders.id"], "the steps lead in a circle"),
        (["orders.customer=customers.nothing"], "nothing"),
        (["orders.customer=nowhere.id"], "there is no such directory"),
    ],
)
def test_steps_that_lead_nowhere_are_one_line(steps, message, warehouse, tmp_path, capsys):
    options = [part for step in steps for part in ("--follow", step)]
    assert main(["pull", str(warehouse / "orders"), str(tmp_path / "slices"), *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
