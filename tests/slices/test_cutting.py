"""Slices that lose rows or columns: which, and what becomes of deletes, statistics, row ids and joins."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.cli import main
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

ROWS = [{"id": i, "name": f"n{i}"} for i in range(6)]


def values(location: Path, *columns: str, where: str | None = None) -> list[tuple]:
    table = harness.open_table(location).snapshot().to_arrow(columns=columns or None, where=where)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_positions_of_deletes_follow_their_rows(tmp_path):
    """Of ids 0 to 5, id 4 is deleted at position 4; without ids 0 to 2 it stands at position 1."""
    table = IcebergTable.create(tmp_path / "source", {"id": "long", "name": "string"}, format_version=3)
    file = table.write_data(ROWS)
    table.append(file)
    table.commit(add=table.write_deletion_vectors({file: [1, 4]}))
    harness.pull(tmp_path / "source", tmp_path / "slice", where="id > 2", exact=True)
    assert values(tmp_path / "slice", "id") == [(3,), (5,)]
    assert values(tmp_path / "slice", "id", "_row_id") == [(3, 3), (5, 5)]
    plan = harness.open_table(tmp_path / "slice").snapshot().plan()
    assert {k: list(v) for k, v in plan.load_positions([0]).items()} == {0: [1]}
    (entry,) = harness.open_table(tmp_path / "slice").metadata("data_files").to_arrow().to_pylist()
    assert (entry["record_count"], entry["file_format"]) == (3, "PARQUET")


VIEWED = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string_view(),
        "data": pa.binary_view(),
        "tags": pa.large_list(pa.string_view()),
        "kind": pa.dictionary(pa.int32(), pa.string()),
    }
)
"""The layout that a writer had in memory, and its file names: views in delta-rs, dictionaries in pandas."""


@pytest.mark.parametrize(
    "options",
    [{"where": "id > 2", "exact": True}, {"sample_rows": 3}, {"anonymise": "key"}, {"compact": True}],
    ids=lambda options: next(reversed(options)),
)
def test_what_layout_a_writer_had_in_memory_does_not_matter(options, tmp_path):
    rows = [{"id": i, "name": f"n{i}", "data": b"x", "tags": ["a", f"t{i}"], "kind": "z"} for i in range(6)]
    tags = {"type": "array", "elementType": "string", "containsNull": True}
    columns = {"id": "long", "name": "string", "data": "binary", "tags": tags, "kind": "string"}
    for name in ("plain", "viewed"):
        table = DeltaTable.create(tmp_path / name, columns, features=["deletionVectors"])
        file = table.write_data(rows)
        if name == "viewed":
            pq.write_table(pq.read_table(file.file).cast(VIEWED), file.file)
        table.append(file)
        table.delete(file, [1, 4])
        harness.pull(tmp_path / name, tmp_path / f"{name} slice", **options)
    pulled = values(tmp_path / "viewed slice")
    assert pulled == values(tmp_path / "plain slice") or "sample_rows" in options  # which rows, depends on the path
    assert len(pulled) == (2 if "exact" in options else 3 if "sample_rows" in options else 4)


def partitioned(place: Path) -> None:
    table = DeltaTable.create(place, {"id": "long", "day": "int"}, partition_columns=["day"])
    table.append(*table.write_partitioned([{"id": 1, "day": 1}]))


def equality(place: Path) -> None:
    table = IcebergTable.create(place, {"id": "long", "day": "int"})
    table.append(table.write_data([{"id": 1, "day": 1}, {"id": 2, "day": 2}]))
    table.commit(add=[table.write_equality_deletes(["day"], [{"day": 2}])])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (partitioned, ["--columns", "id"], "Cannot leave out column day: the table is partitioned by it"),
        (equality, ["--columns", "id"], "Cannot leave out column day: an equality delete needs it"),
        (equality, ["--compact", "--last", "2"], "Cannot pull 2 snapshots with --compact"),
        (equality, ["--sample-rows", "0"], "Invalid --sample-rows 0"),
    ],
)
def test_what_cannot_be_left_out_is_said_in_one_line(make, options, message, tmp_path, capsys):
    make(tmp_path / "source")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice"), *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (tmp_path / "slice").exists()


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
    return harness.sql(f"SELECT * FROM ({JOINED}) WHERE {where}", tables).fetchall()


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
