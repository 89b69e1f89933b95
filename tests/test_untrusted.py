"""Tables that are opened as untrusted: what is only odd of others is an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import harness
from harness.errors import HarnessWarning, InvalidTableError, OutsideTableError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def wrong_count(directory: Path) -> str:
    table = IcebergTable.create(directory, {"id": "long"})
    data = table.write_data([{"id": 1}, {"id": 2}])
    data.data_file["record_count"] = 3
    table.append(data)
    return "Recorded row counts of table .* are wrong"


def strangers_columns(directory: Path) -> str:
    table = IcebergTable.create(directory, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    table.edit_metadata(lambda metadata: metadata["schemas"][0]["fields"][0].update(id=7, required=False))
    return "has no column of the table's schema"


def lying_checksum(directory: Path) -> str:
    table = DeltaTable.create(directory, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (directory / "_delta_log" / f"{table.version:020d}.crc").write_text('{"numFiles": 3}')
    return "says numFiles 3, the log says 1"


@pytest.mark.parametrize("build", [wrong_count, strangers_columns, lying_checksum])
def test_what_a_table_says_and_is_not_so_is_an_error(tmp_path, build):
    said = build(tmp_path / "t")
    with pytest.raises(InvalidTableError, match=f"{said}.*; of an untrusted table that is an error") as told:
        harness.open_table(str(tmp_path / "t"), untrusted=True).snapshot().to_arrow()
    assert told.value.cause == "Distrusted"


@pytest.mark.parametrize("build", [wrong_count, strangers_columns])
def test_of_other_tables_it_is_a_warning(tmp_path, build):
    said = build(tmp_path / "t")
    with pytest.warns(HarnessWarning, match=said):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


def test_files_outside_are_refused(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    data.add["path"] = (tmp_path / "elsewhere.parquet").as_uri()
    shutil.move(data.file, tmp_path / "elsewhere.parquet")
    table.append(data)
    with pytest.raises(OutsideTableError):
        harness.open_table(str(tmp_path / "t"), untrusted=True).snapshot().to_arrow()
    allowed = harness.open_table(str(tmp_path / "t"), untrusted=True, allowed_roots=[str(tmp_path)])
    assert allowed.snapshot().to_arrow().num_rows == 1
