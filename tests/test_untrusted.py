"""Tables that are opened as untrusted: irregularities that are accepted in other tables raise an error."""

from pathlib import Path

import pytest

import harness
from harness.errors import HarnessWarning, InvalidTableError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def wrong_count(directory: Path) -> str:
    table = IcebergTable.create(directory, {"id": "long"})
    data = table.write_data([{"id": 1}, {"id": 2}])
    data.data_file["record_count"] = 3
    table.append(data)
    return "Recorded row counts of table .* are wrong"


def foreign_columns(directory: Path) -> str:
    table = IcebergTable.create(directory, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    table.edit_metadata(lambda metadata: metadata["schemas"][0]["fields"][0].update(id=7, required=False))
    return "has no column of the table's schema"


def wrong_checksum(directory: Path) -> str:
    table = DeltaTable.create(directory, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (directory / "_delta_log" / f"{table.version:020d}.crc").write_text('{"numFiles": 3}')
    return "records numFiles 3, the log has 1"


@pytest.mark.parametrize("build", [wrong_count, foreign_columns, wrong_checksum])
def test_a_wrong_statement_of_an_untrusted_table_is_an_error(tmp_path, build):
    said = build(tmp_path / "t")
    with pytest.raises(InvalidTableError, match=f"{said}.*; in an untrusted table, this is an error") as told:
        harness.open_table(str(tmp_path / "t"), untrusted=True).snapshot().to_arrow()
    assert told.value.cause == "Distrusted"


@pytest.mark.parametrize("build", [wrong_count, foreign_columns])
def test_a_wrong_statement_of_a_trusted_table_is_a_warning(tmp_path, build):
    said = build(tmp_path / "t")
    with pytest.warns(HarnessWarning, match=said):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


def wrong_bounds(directory: Path) -> None:
    """The metadata claims that the file's rows 1 and 2 are both 1."""
    table = IcebergTable.create(directory, {"id": "long"})
    data = table.write_data([{"id": 1}, {"id": 2}])
    data.data_file["upper_bounds"] = [{"key": 1, "value": (1).to_bytes(8, "little")}]
    table.append(data)


def wrong_statistics(directory: Path) -> None:
    table = DeltaTable.create(directory, {"id": "long"})
    data = table.write_data([{"id": 1}, {"id": 2}])
    data.add["stats"] = '{"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 1}, "nullCount": {"id": 0}}'
    table.append(data)


@pytest.mark.parametrize("prune", ["all", "files", "off"])
@pytest.mark.parametrize("build", [wrong_bounds, wrong_statistics])
def test_false_statistics_of_an_untrusted_table_lose_no_row(tmp_path, build, prune):
    build(tmp_path / "t")
    found = harness.open_table(str(tmp_path / "t"), untrusted=True, prune=prune).snapshot().to_arrow(where="id = 2")
    assert found["id"].to_pylist() == [2]
    trusted = harness.open_table(str(tmp_path / "t"), prune=prune).snapshot().to_arrow(where="id = 2")
    assert trusted.num_rows == (1 if prune == "off" else 0)  # with pruning, the rows of a trusted table are lost
