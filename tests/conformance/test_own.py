"""Harness's own engines as readers under test."""

from __future__ import annotations

import shutil

import pytest

from harness.errors import OutsideTableError
from harness.testing.conformance.own import OwnReader, TableAt
from harness.testing.writing.delta.builder import DeltaTable


@pytest.mark.parametrize("name", ["duckdb", "oracle"])
def test_files_are_read_within_one_directory(tmp_path, name):
    table = DeltaTable.create(tmp_path / "tables" / "clone", {"id": "long"})
    data = table.write_data([{"id": 1}])
    (tmp_path / "tables" / "source").mkdir()
    moved = shutil.move(data.file, tmp_path / "tables" / "source")
    data.add["path"] = f"file://{moved}"
    table.append(data)
    at = TableAt(format="delta", location=str(table.directory))
    assert OwnReader(name, str(tmp_path / "tables")).read(at, columns=None, where=None).num_rows == 1
    with pytest.raises(OutsideTableError):
        OwnReader(name, str(table.directory)).read(at, columns=None, where=None)
