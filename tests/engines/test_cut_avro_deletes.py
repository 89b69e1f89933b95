"""Delete files in Avro that lost whole blocks: they look whole, and only the recorded row count tells (iceberg 7.2)."""

from __future__ import annotations

import shutil

import pytest

import harness
from harness.engines.oracle import read_apart
from harness.testing.writing.iceberg.builder import IcebergTable

ROWS = [{"id": i} for i in range(4)]


def cut_deletes(directory, kind):
    """A table of four rows, two of which are deleted by an Avro file that is replaced by one that deletes one."""
    table = IcebergTable.create(directory, {"id": "long"}, format_version=2)
    data = table.write_data(ROWS)
    table.append(data)
    if kind == "equality":
        whole, part = (table.write_equality_deletes(["id"], ROWS[:n], format="avro") for n in (2, 1))
    else:
        whole, part = (table.write_position_deletes([(data, i) for i in range(n)], format="avro") for n in (2, 1))
    table.commit(add=[whole])
    shutil.copyfile(part.file, whole.file)
    return str(directory), whole.file.name


@pytest.mark.parametrize("kind", ["equality", "position"])
@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_a_delete_file_that_lost_rows_is_refused(tmp_path, kind, engine):
    location, name = cut_deletes(tmp_path / "t", kind)
    with pytest.raises((harness.CorruptFileError, harness.CorruptDeleteError), match=f"has 1 rows.*says 2.*{name}"):
        harness.open_table(location).snapshot().to_arrow(engine=engine)


def test_the_oracle_refuses_one_too(tmp_path):
    location, _ = cut_deletes(tmp_path / "t", "position")
    with pytest.raises(harness.CorruptFileError, match="has 1 rows, the metadata says 2"):
        read_apart(location)
