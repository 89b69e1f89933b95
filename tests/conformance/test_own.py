"""Harness's own engines as readers under test."""

from __future__ import annotations

import shutil

import pytest

from harness.errors import OutsideTableError
from harness.testing.conformance.own import OwnReader
from harness.testing.scenarios.model import ResolvedExpectation, ResolvedSelector
from harness.testing.writing.delta.builder import DeltaTable

READ = ResolvedExpectation(number=1, at=ResolvedSelector(), columns=None, where=None, expected=None)


@pytest.mark.parametrize("name", ["duckdb", "oracle"])
def test_files_are_read_within_one_directory(tmp_path, name):
    table = DeltaTable.create(tmp_path / "tables" / "clone", {"id": "long"})
    data = table.write_data([{"id": 1}])
    (tmp_path / "tables" / "source").mkdir()
    moved = shutil.move(data.file, tmp_path / "tables" / "source")
    data.add["path"] = f"file://{moved}"
    table.append(data)
    location = str(table.directory)
    assert OwnReader(name, str(tmp_path / "tables")).answer(location, READ).num_rows == 1
    with pytest.raises(OutsideTableError):
        OwnReader(name, location).answer(location, READ)
