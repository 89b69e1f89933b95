"""Checkpoints and statistics that this process has decoded are not read again unless they changed."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import CorruptFileError
from harness.metadata.delta import checkpoint_statistics
from harness.storage.decoded import DECODED
from harness.storage.limits import Limits
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable

FILTERS = (None, "id = 3", "name = 'n4'", "day < DATE '1970-01-04'", "id = 1 OR name LIKE 'n5%'", "id IS NULL")
READ: list[int] = []
"""The number of files in each read of statistics."""


@pytest.fixture
def six_files(tmp_path, monkeypatch, clock_ahead) -> DeltaTable:
    """A table of six files of one row each, in two partitions and a settled checkpoint.

    The minimum number of cached files is lowered, so that its statistics are cached.
    """
    monkeypatch.setattr(checkpoint_statistics, "MIN_CACHED_FILES", 1)
    real = checkpoint_statistics.CheckpointPart.tables

    def counted(self: Any, rows: Any, structs: Any) -> Any:
        READ.append(len(rows))
        return real(self, rows, structs)

    monkeypatch.setattr(checkpoint_statistics.CheckpointPart, "tables", counted)
    forget()
    schema = {"id": "long", "name": "string", "day": "date", "price": "double", "part": "string"}
    table = DeltaTable.create(tmp_path / "t", schema, partition_columns=["part"])
    for i in range(6):
        row = {"id": i, "name": f"n{i}", "day": i, "price": i / 2, "part": "ab"[i % 2]}
        table.append(table.write_data([row], partition={"part": row["part"]}))
    table.checkpoint()
    READ.clear()
    return table


def forget() -> None:
    """Clear the cache, as in another process."""
    DECODED.clear()


def plans(folder: Path, filters: tuple[str | None, ...] = FILTERS) -> list[object]:
    found = []
    for where in filters:
        plan = harness.open_table(str(folder / "t")).snapshot().plan(where=where)
        counts = plan.files.column("record_count").to_pylist()
        found.append((plan.files.column("path").to_pylist(), counts, plan.skipped.to_pylist()))
    return found


def test_the_same_process_reads_statistics_of_a_column_once(six_files, tmp_path):
    first = plans(tmp_path)
    assert [len(paths) for paths, *_ in first] == [6, 1, 1, 3, 2, 0]  # type: ignore[misc]
    assert len(READ) == 4, "row counts, and each of three columns"
    assert (plans(tmp_path), len(READ)) == (first, 4)


def test_statistics_of_some_files_do_not_apply_to_others(six_files, tmp_path):
    expected = plans(tmp_path, filters=("id < 5",))
    forget()
    for where, read in (("part = 'a' AND id < 5", [3, 3]), ("id < 5", [6]), ("part = 'b' AND id < 5", [])):
        READ.clear()
        found = plans(tmp_path, filters=(where,))
        assert read == READ, where
        if where == "id < 5":
            assert found == expected


def test_files_that_commits_added_and_removed_since(six_files, tmp_path):
    plans(tmp_path, filters=("id > 3",))
    six_files.commit(
        add=[six_files.write_data([{"id": 9, "part": "a"}], partition={"part": "a"})], remove=[six_files.handles[4]]
    )
    READ.clear()
    ((paths, counts, skipped),) = plans(tmp_path, filters=("id > 3",))  # type: ignore[misc]
    assert (set(paths), counts, len(skipped)) == ({six_files.handles[5].path, six_files.handles[6].path}, [1, 1], 4)
    assert READ == []


def test_statistics_that_cannot_be_read_are_not_cached(six_files, tmp_path, monkeypatch):
    def damaged(*_: Any) -> Any:
        raise CorruptFileError("Cannot read statistics", file="checkpoint")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_statistics.CheckpointPart, "tables", damaged)
        for _ in range(2):
            with pytest.warns(UserWarning, match="no file is skipped by these statistics"):
                ((paths, *_),) = plans(tmp_path, filters=("id = 3",))  # type: ignore[misc]
            assert len(paths) == 6
    assert [len(paths) for paths, *_ in plans(tmp_path, filters=("id = 3",))] == [1]  # type: ignore[misc]


def test_columns_of_every_type_are_read_once(six_files, tmp_path):
    for read in ([6], []):
        READ.clear()
        assert [len(paths) for paths, *_ in plans(tmp_path, filters=("price < 0.4",))] == [1]  # type: ignore[misc]
        assert read == READ


@pytest.fixture
def three_files(tmp_path, clock_ahead) -> DeltaTable:
    """A table of three files whose checkpoint, like all its files, counts as settled."""
    DECODED.clear()
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for i in range(3):
        table.append(table.write_data([{"id": i}]))
    return table


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The names of checkpoints and sidecars that are read from now on."""
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


def test_the_next_opened_table_reuses_the_checkpoint(three_files, read, tmp_path):
    three_files.checkpoint()
    assert (ids(tmp_path), len(read)) == ([2, 1], 1)
    assert (ids(tmp_path), len(read)) == ([2, 1], 1)
    three_files.append(three_files.write_data([{"id": 1}]))
    assert (ids(tmp_path), len(read)) == ([3, 1], 1), "commits after it are read"


def test_a_checkpoint_that_was_replaced_in_place_is_read_again(three_files, read, tmp_path):
    three_files.checkpoint()
    ids(tmp_path)
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes())
    assert (ids(tmp_path), len(read)) == ([2, 1], 2)


@pytest.mark.parametrize("options", [{"limits": Limits(rows=5)}, {"path_map": {"/elsewhere": "/here"}}])
def test_the_cache_key_has_everything_that_the_content_depends_on(three_files, read, tmp_path, options):
    three_files.checkpoint()
    ids(tmp_path)
    assert (ids(tmp_path, **options), len(read)) == ([2, 1], 2)


def test_a_checkpoint_of_an_untrusted_table_is_read_each_time(three_files, read, tmp_path):
    three_files.checkpoint()
    for expected in (1, 2):
        assert (ids(tmp_path, untrusted=True), len(read), DECODED.size) == ([3, 0], expected, 0)  # no file is skipped


def test_a_checkpoint_with_sidecars_is_read_each_time(three_files, read, tmp_path):
    table = DeltaTable.create(tmp_path / "v2" / "t", {"id": "long"}, features=["v2Checkpoint"])
    for i in range(3):
        table.append(table.write_data([{"id": i}]))
    table.checkpoint("v2-parquet", sidecars=2)
    first = ids(tmp_path / "v2"), len(read)
    assert (first[0], first[1] > 2) == ([2, 1], True)
    assert (ids(tmp_path / "v2"), len(read), DECODED.size) == ([2, 1], 2 * first[1], 0)
