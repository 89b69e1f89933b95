"""Tables that other libraries opened, of which there is only the shape here."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


def shaped(module: str, kind: str, /, **members: Any) -> Any:
    """An object of a class that is called so."""
    return type(kind, (SimpleNamespace,), {"__module__": module})(**members)


@pytest.fixture
def of_deltalake(tmp_path) -> Any:
    """A table of three versions, after the first; the second has a row, the third another one."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in (1, 2):
        table.append(table.write_data([{"id": number}]))
    return shaped(
        "deltalake.table", "DeltaTable", table_uri=f"file://{tmp_path}/t/", version=lambda: 1, _storage_options=None
    )


@pytest.fixture
def of_pyiceberg(tmp_path) -> Any:
    """A table at the metadata of its first snapshot, of two."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    first = max(
        (tmp_path / "t" / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    table.append(table.write_data([{"id": 2}]))
    return shaped(
        "pyiceberg.table",
        "Table",
        name=lambda: ("sales", "orders"),
        catalog=SimpleNamespace(name="prod", properties={}),
        metadata=SimpleNamespace(location=str(tmp_path / "t"), properties={}),
        metadata_location=str(first),
        io=SimpleNamespace(properties={}),
    )


@pytest.mark.parametrize(("given", "name"), [("of_deltalake", "deltalake.t"), ("of_pyiceberg", "prod.sales.orders")])
def test_a_table_is_read_at_the_version_that_it_is_at(request, given, name):
    given = request.getfixturevalue(given)
    table = harness.open_table(given)
    assert table.name == name
    assert table.snapshot().to_arrow()["id"].to_pylist() == [1]
    assert harness.sql("SELECT sum(id) FROM t", t=given).fetchall() == [(1,)]
    assert harness.compare(given, pa.table({"id": pa.array([1], pa.int64())})).equal
    assert not harness.compare(pa.table({"id": pa.array([2], pa.int64())}), (given, "oracle")).equal


def test_what_is_no_table_is_refused():
    with pytest.raises(harness.RequestError, match=r"object of type int: expected a location, a name, or a table of P"):
        harness.open_table(3)
