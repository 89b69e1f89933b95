"""Files that a store cuts where a reader does not notice: at the end of a line of a log, or of a block of Avro."""

from pathlib import Path

import pytest

import harness
from harness.storage.stores import Storage
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


def last_line(data: bytes) -> bytes:
    """The data without its last line."""
    return data[: data.rstrip(b"\n").rindex(b"\n") + 1]


def blocks(data: bytes) -> bytes:
    """An Avro file's header, which ends with the mark that all blocks end with."""
    return data[: data.index(data[-16:]) + 16]


def delta(folder: Path) -> str:
    table = DeltaTable.create(folder, {"id": "long"})
    table.commit(add=[table.write_data([{"id": 1}]), table.write_data([{"id": 2}])])
    return str(table.directory)


def iceberg(folder: Path) -> str:
    table = IcebergTable.create(folder, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    table.append(table.write_data([{"id": 2}]))
    return str(folder)


@pytest.mark.parametrize(
    ("make", "file", "cut"),
    [(delta, "00000000000000000001.json", last_line), (iceberg, "-m0.avro", blocks)],
    ids=["a Delta commit", "an Iceberg manifest"],
)
def test_a_file_that_its_storage_cuts_is_an_error(make, file, cut, tmp_path, monkeypatch):
    location = make(tmp_path / "t")
    assert sorted(harness.open_table(location).snapshot().to_arrow()["id"].to_pylist()) == [1, 2]
    original, cuts = Storage.read, []

    def read(storage, path, **more):
        data = original(storage, path, **more)
        if not path.endswith(file):
            return data
        cuts.append(path)
        return cut(data)

    monkeypatch.setattr(Storage, "read", read)
    with pytest.raises(harness.CorruptFileError, match="is cut short: its storage gives") as error:
        harness.open_table(location).snapshot().to_arrow()
    assert error.value.cause == "CutShort"
    assert cuts
