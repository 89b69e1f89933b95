"""Slices that lose rows or columns, with their deletes, statistics, row ids and joins."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.cli import main
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

ROWS = [{"id": i, "name": f"n{i}"} for i in range(6)]


def values(location: Path, *columns: str, where: str | None = None) -> list[tuple]:
    table = harness.open_table(location).snapshot().to_arrow(columns=columns or None, where=where)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_positions_of_deletes_follow_their_rows(tmp_path):
    """The row with id 4 is deleted at position 4. Without ids 0 to 2, its position is 1."""
    table = IcebergTable.create(tmp_path / "source", {"id": "long", "name": "string"}, format_version=3)
    file = table.write_data(ROWS)
    table.append(file)
    table.commit(add=table.write_deletion_vectors({file: [1, 4]}))
    harness.open_table(tmp_path / "source").pull(tmp_path / "slice", where="id > 2", exact=True)
    assert values(tmp_path / "slice", "id") == [(3,), (5,)]
    assert values(tmp_path / "slice", "id", "_row_id") == [(3, 3), (5, 5)]
    plan = harness.open_table(tmp_path / "slice").snapshot().plan()
    assert {k: list(v) for k, v in plan.load_positions([0]).items()} == {0: [1]}
    (entry,) = harness.open_table(tmp_path / "slice").metadata("data_files").to_arrow().to_pylist()
    assert (entry["record_count"], entry["file_format"]) == (3, "PARQUET")


VIEWED = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string_view(),
        "data": pa.binary_view(),
        "tags": pa.large_list(pa.string_view()),
        "kind": pa.dictionary(pa.int32(), pa.string()),
    }
)
"""The layout of columns in a writer's memory, and its file names: views in delta-rs, dictionaries in pandas."""


@pytest.mark.parametrize(
    "options",
    [{"where": "id > 2", "exact": True}, {"sample_rows": 3}, {"anonymise": "key"}],
    ids=lambda options: next(reversed(options)),
)
def test_the_arrow_layout_of_a_file_does_not_matter(options, tmp_path):
    rows = [{"id": i, "name": f"n{i}", "data": b"x", "tags": ["a", f"t{i}"], "kind": "z"} for i in range(6)]
    tags = {"type": "array", "elementType": "string", "containsNull": True}
    columns = {"id": "long", "name": "string", "data": "binary", "tags": tags, "kind": "string"}
    for name in ("plain", "viewed"):
        table = DeltaTable.create(tmp_path / name, columns, features=["deletionVectors"])
        file = table.write_data(rows)
        if name == "viewed":
            pq.write_table(pq.read_table(file.file).cast(VIEWED), file.file)
        table.append(file)
        table.delete(file, [1, 4])
        harness.open_table(tmp_path / name).pull(tmp_path / f"{name} slice", **options)
    pulled = values(tmp_path / "viewed slice")
    assert pulled == values(tmp_path / "plain slice") or "sample_rows" in options  # the path determines which rows
    assert len(pulled) == (2 if "exact" in options else 3 if "sample_rows" in options else 4)


def partitioned(place: Path) -> None:
    table = DeltaTable.create(place, {"id": "long", "day": "int"}, partition_columns=["day"])
    table.append(*table.write_partitioned([{"id": 1, "day": 1}]))


def equality(place: Path) -> None:
    table = IcebergTable.create(place, {"id": "long", "day": "int"})
    table.append(table.write_data([{"id": 1, "day": 1}, {"id": 2, "day": 2}]))
    table.commit(add=[table.write_equality_deletes(["day"], [{"day": 2}])])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (partitioned, ["--columns", "id"], "Cannot leave out column day: the table is partitioned by it"),
        (equality, ["--columns", "id"], "Cannot leave out column day: an equality delete needs it"),
        (equality, ["--sample-rows", "1", "--last", "2"], "Cannot pull 2 snapshots with --sample-rows"),
        (equality, ["--sample-rows", "0"], "Invalid --sample-rows 0"),
    ],
)
def test_columns_that_cannot_be_omitted_are_an_error_of_one_line(make, options, message, tmp_path, capsys):
    make(tmp_path / "source")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice"), *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (tmp_path / "slice").exists()
