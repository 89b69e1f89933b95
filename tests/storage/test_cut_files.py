"""Files that a store truncates at a point that readers cannot detect: after a line of a log."""

from pathlib import Path

import pytest

import harness
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable


def last_line(data: bytes) -> bytes:
    """Return the data without its last line."""
    return data[: data.rstrip(b"\n").rindex(b"\n") + 1]


def delta(folder: Path) -> str:
    table = DeltaTable.create(folder, {"id": "long"})
    table.commit(add=[table.write_data([{"id": 1}]), table.write_data([{"id": 2}])])
    return str(table.directory)


def test_a_commit_that_its_storage_cuts_is_an_error(tmp_path, monkeypatch):
    location = delta(tmp_path / "t")
    assert sorted(harness.open_table(location).snapshot().to_arrow()["id"].to_pylist()) == [1, 2]
    original, cuts = Storage.read, []

    def read(storage, path, **more):
        data = original(storage, path, **more)
        if not path.endswith("00000000000000000001.json"):
            return data
        cuts.append(path)
        return last_line(data)

    monkeypatch.setattr(Storage, "read", read)
    with pytest.raises(harness.CorruptFileError, match="is cut short: its storage returned") as error:
        harness.open_table(location).snapshot().to_arrow()
    assert error.value.cause == "CutShort"
    assert cuts
