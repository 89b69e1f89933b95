"""Statistics of a checkpoint that were read are not read again, and say what the checkpoint says now."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import CorruptFileError
from harness.metadata.delta import checkpoint_statistics
from harness.storage import stores
from harness.storage.decoded import DECODED
from harness.testing.writing.delta.builder import DeltaTable

FILTERS = (None, "id = 3", "name = 'n4'", "day < DATE '1970-01-04'", "id = 1 OR name LIKE 'n5%'", "id IS NULL")
READ: list[int] = []
"""How many files each reading of statistics was for."""


@pytest.fixture
def made(tmp_path, monkeypatch) -> DeltaTable:
    """Six files of one row, half of them of each partition, in a settled checkpoint; however few, they are kept."""
    monkeypatch.setattr(stores, "_SETTLED_NS", 0)
    monkeypatch.setattr(checkpoint_statistics, "FEWEST", 1)
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
    """As another process has it."""
    DECODED.clear()


def plans(folder: Path, cache_dir: str = "", filters: tuple[str | None, ...] = FILTERS) -> list[object]:
    found = []
    for where in filters:
        plan = harness.open_table(str(folder / "t"), cache_dir=cache_dir).snapshot().plan(where=where)
        counts = plan.files.column("record_count").to_pylist()
        found.append((plan.files.column("path").to_pylist(), counts, [*plan.skipped]))
    return found


def test_the_same_process_reads_statistics_of_a_column_once(made, tmp_path):
    first = plans(tmp_path)
    assert [len(paths) for paths, *_ in first] == [6, 1, 1, 3, 2, 0]  # type: ignore[misc]
    assert len(READ) == 4, "row counts, and each of three columns"
    assert (plans(tmp_path), len(READ)) == (first, 4)


def test_the_next_process_reads_them_from_the_directory(made, tmp_path):
    cache_dir = str(tmp_path / "cache")
    first = plans(tmp_path, cache_dir)
    forget()
    READ.clear()
    assert (plans(tmp_path, cache_dir), READ) == (first, [])
    forget()
    assert (plans(tmp_path), len(READ)) == (first, 4), "and only if it names the directory"


def test_what_is_known_of_some_files_says_nothing_of_others(made, tmp_path):
    expected = plans(tmp_path, filters=("id < 5",))
    forget()
    for where, read in (("part = 'a' AND id < 5", [3, 3]), ("id < 5", [6]), ("part = 'b' AND id < 5", [])):
        READ.clear()
        found = plans(tmp_path, filters=(where,))
        assert read == READ, where
        if where == "id < 5":
            assert found == expected


def test_files_that_commits_added_and_removed_since(made, tmp_path):
    plans(tmp_path, filters=("id > 3",))
    made.commit(add=[made.write_data([{"id": 9, "part": "a"}], partition={"part": "a"})], remove=[made.handles[4]])
    READ.clear()
    ((paths, counts, skipped),) = plans(tmp_path, filters=("id > 3",))  # type: ignore[misc]
    assert (set(paths), counts, len(skipped)) == ({made.handles[5].path, made.handles[6].path}, [1, 1], 4)
    assert READ == []


def test_statistics_that_cannot_be_read_are_not_kept(made, tmp_path, monkeypatch):
    def damaged(*_: Any) -> Any:
        raise CorruptFileError("Cannot read statistics", file="checkpoint")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_statistics, "_of_group", damaged)
        for _ in range(2):
            with pytest.warns(UserWarning, match="files are not skipped by them"):
                ((paths, *_),) = plans(tmp_path, filters=("id = 3",))  # type: ignore[misc]
            assert len(paths) == 6
    assert [len(paths) for paths, *_ in plans(tmp_path, filters=("id = 3",))] == [1]  # type: ignore[misc]


def test_columns_whose_values_no_array_holds_are_read_each_time(made, tmp_path):
    for _ in range(2):
        READ.clear()
        assert [len(paths) for paths, *_ in plans(tmp_path, filters=("price < 0.4",))] == [1]  # type: ignore[misc]
        assert READ[0] == 6
