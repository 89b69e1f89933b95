"""A checkpoint that this process has decoded is not read again while it is what it was."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.storage import stores
from harness.storage.decoded import DECODED
from harness.storage.limits import Limits
from harness.storage.stores import Storage
from harness.testing.writing.delta.builder import DeltaTable


@pytest.fixture
def made(tmp_path, monkeypatch) -> DeltaTable:
    """A table of three files whose checkpoint, like all its files, counts as settled."""
    monkeypatch.setattr(stores, "_SETTLED_NS", 0)
    DECODED.clear()
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for i in range(3):
        table.append(table.write_data([{"id": i}]))
    return table


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The names of checkpoints and sidecars that are read from here on."""
    found: list[str] = []
    real = Storage.read

    def counted(self: Storage, path: str, **options: Any) -> bytes:
        if "_delta_log" in path and path.endswith(".parquet"):
            found.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(Storage, "read", counted)
    return found


def ids(folder: Path, **options: Any) -> list[int]:
    plan = harness.open_table(str(folder / "t"), **options).snapshot().plan(where="id < 2")
    return [plan.files.num_rows, len(plan.skipped)]


def test_the_next_table_that_is_opened_takes_the_checkpoint_as_it_is(made, read, tmp_path):
    made.checkpoint()
    assert (ids(tmp_path), len(read)) == ([2, 1], 1)
    assert (ids(tmp_path), len(read)) == ([2, 1], 1)
    made.append(made.write_data([{"id": 1}]))
    assert (ids(tmp_path), len(read)) == ([3, 1], 1), "commits after it are read"


def test_a_checkpoint_that_was_replaced_in_place_is_read_again(made, read, tmp_path):
    made.checkpoint()
    ids(tmp_path)
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes())
    assert (ids(tmp_path), len(read)) == ([2, 1], 2)


@pytest.mark.parametrize("options", [{"limits": Limits(rows=5)}, {"path_map": {"/elsewhere": "/here"}}])
def test_what_else_it_depends_on_tells_it_apart(made, read, tmp_path, options):
    made.checkpoint()
    ids(tmp_path)
    assert (ids(tmp_path, **options), len(read)) == ([2, 1], 2)


def test_a_checkpoint_of_a_strangers_is_read_each_time(made, read, tmp_path):
    made.checkpoint()
    for expected in (1, 2):
        assert (ids(tmp_path, untrusted=True), len(read), DECODED.size) == ([3, 0], expected, 0)  # none skipped


def test_a_checkpoint_with_sidecars_is_read_each_time(made, read, tmp_path):
    table = DeltaTable.create(tmp_path / "v2" / "t", {"id": "long"}, features=["v2Checkpoint"])
    for i in range(3):
        table.append(table.write_data([{"id": i}]))
    table.checkpoint("v2-parquet", sidecars=2)
    first = ids(tmp_path / "v2"), len(read)
    assert (first[0], first[1] > 2) == ([2, 1], True)
    assert (ids(tmp_path / "v2"), len(read), DECODED.size) == ([2, 1], 2 * first[1], 0)
