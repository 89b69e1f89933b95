"""Rows, counts, and the schema of a table: the number of rows, the snapshot, and the opened files."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import HarnessError, MissingFileError, RequestError, SnapshotNotFoundError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

Written = tuple[str, list[Path]]


def iceberg(place: Path, version: int = 2) -> Written:
    """Write three files of four rows, with the ids 0 to 11."""
    table = IcebergTable.create(place / "t", {"id": "long", "s": "string"}, format_version=version)
    files = [table.write_data([{"id": i, "s": str(i % 2)} for i in range(n, n + 4)]) for n in (0, 4, 8)]
    for file in files:
        table.append(file)
    return table.location, [file.file for file in files]


def iceberg_v3(place: Path) -> Written:
    return iceberg(place, 3)


def delta(place: Path) -> Written:
    table = DeltaTable.create(place / "t", {"id": "long", "s": "string"})
    files = [table.write_data([{"id": i, "s": str(i % 2)} for i in range(n, n + 4)]) for n in (0, 4, 8)]
    for file in files:
        table.append(file)
    return str(table.directory), [file.file for file in files]


BOTH = pytest.mark.parametrize("write", [iceberg, iceberg_v3, delta])
READS: dict[str, Callable[[harness.Table, int], int]] = {
    "head": lambda table, n: len(table.head(n).fetchall()),
    "to_arrow": lambda table, n: table.to_arrow(limit=n).num_rows,
    "to_pandas": lambda table, n: len(table.to_pandas(limit=n)),
    "to_polars": lambda table, n: len(table.to_polars(limit=n)),
    "to_batches": lambda table, n: sum(batch.num_rows for batch in table.to_batches(limit=n)),
    "oracle": lambda table, n: table.to_arrow(limit=n, engine="oracle").num_rows,
}


@BOTH
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_limit_is_the_number_of_rows_read(write: Callable[[Path], Written], read: Any, tmp_path: Path) -> None:
    location, _ = write(tmp_path)
    table = harness.open_table(location)
    assert [read(table, n) for n in (0, 1, 5, 12, 13)] == [0, 1, 5, 12, 12]


@BOTH
@pytest.mark.parametrize("read", [read for name, read in READS.items() if name != "oracle"])
def test_a_limit_leaves_files_unopened(write: Callable[[Path], Written], read: Any, tmp_path: Path) -> None:
    location, files = write(tmp_path)
    live = [row["path"] for row in harness.open_table(location).snapshot().plan().files.to_pylist()]
    for file in files:
        if not live[0].endswith(file.name):
            file.unlink()
    table = harness.open_table(location)
    assert read(table, 4) == 4
    with pytest.raises(MissingFileError):
        read(table, 5)


def test_a_limit_holds_behind_deletes_columns_and_a_filter(tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    data = table.write_data([{"id": i, "s": str(i % 2)} for i in range(10)])
    table.append(data)
    table.commit(add=[table.write_position_deletes([(data, 0), (data, 1)])])
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 2}, {"id": 3}])])
    found = harness.open_table(table.location)
    assert sorted(found.head(3, columns=["id"], where="s = '0'").fetchall()) == [(4,), (6,), (8,)]
    rows = found.to_arrow(columns=["id"], where="s = '1'", limit=2)
    assert rows.column_names == ["id"]
    assert set(rows["id"].to_pylist()) < {5, 7, 9}
    assert found.count() == 6
    assert found.count(where="id > 6") == 3
    assert found.count(at=table.snapshots[0]["snapshot-id"]) == 10


def test_a_count_opens_no_file_if_row_ids_depend_on_the_recorded_count(tmp_path: Path) -> None:
    location, files = iceberg_v3(tmp_path)
    for file in files:
        file.unlink()
    assert harness.open_table(location).count() == 12
    for reads in (
        lambda: harness.open_table(location).count(where="id > 0"),
        lambda: harness.open_table(location, untrusted=True).count(),
    ):
        with pytest.raises(MissingFileError):
            reads()


def test_a_recorded_count_is_not_used_if_deletes_make_it_wrong(tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    data = table.write_data([{"id": i} for i in range(5)])
    table.append(data)
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}])])
    assert harness.open_table(table.location).count() == 4
    table.commit(add=table.write_deletion_vectors({data: [0, 4]}))
    assert harness.open_table(table.location).count() == 2


@BOTH
@pytest.mark.parametrize(("where", "count"), [("true", 12), ("1 < 2", 12), ("1 > 2", 0), ("NULL", 0)])
def test_a_filter_without_columns_keeps_all_rows_or_none(write, where: str, count: int, tmp_path: Path) -> None:
    table = harness.open_table(write(tmp_path)[0])
    assert table.count(where=where) == count
    assert table.to_arrow(columns=[], where=where).num_rows == count
    assert table.to_arrow(columns=["id"], where=where).num_rows == count


@pytest.mark.parametrize("at", ["1" * 20, "1" * 5_000, "snapshot=" + "1" * 5_000, "timestamp=" + "1" * 5_000])
def test_a_number_of_more_than_64_bits_is_not_a_time(at: str, tmp_path: Path) -> None:
    table = harness.open_table(delta(tmp_path)[0])
    with pytest.raises(RequestError, match="Invalid"):
        table.count(at=at)


def test_at_is_an_id_a_time_or_a_name(tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    first, second = (
        table.commit(add=[table.write_data([{"id": n}])], timestamp_ms=1_704_067_200_000 + n * 86_400_000)
        for n in range(2)
    )
    table.create_branch("audit", first)
    table.create_branch("2024-01", first)
    found = harness.open_table(table.location)
    firsts = [first, str(first), f"snapshot={first}", "2024-01-01", "2024-01-01T23:00:00Z", "timestamp=1704067200000"]
    firsts += [datetime(2024, 1, 1, 12, tzinfo=UTC), "audit", "ref=2024-01"]
    assert [found.count(at=at) for at in firsts] == [1] * len(firsts)
    assert [found.count(at=at) for at in (None, second, "main", "2024-01-02")] == [2] * 4
    for at, error in {"snapshot=x": RequestError, "2024-01": RequestError, "x": SnapshotNotFoundError}.items():
        with pytest.raises(error):
            found.head(at=at)
    versions = harness.open_table(delta(tmp_path / "d")[0])
    assert [versions.count(at=at) for at in (0, 1, "2", 3)] == [0, 4, 8, 12]


@pytest.mark.parametrize("number", [-1, True, 1.5, "3"])
def test_a_limit_is_a_number_of_rows(number: Any, tmp_path: Path) -> None:
    table = harness.open_table(delta(tmp_path)[0])
    for read in (table.head, lambda n: table.to_arrow(limit=n), lambda n: table.snapshot().to_batches(limit=n)):
        with pytest.raises(HarnessError, match=r"expected a number of rows, 0 or more"):
            read(number)


def test_a_schema_prints_one_line_per_field(tmp_path: Path) -> None:
    columns = {
        "id": "long not null",
        "price\n": "decimal(9, 2)",
        "place": "struct<city: string not null, at: struct<x: double>>",
        "tags": "list<string>",
        "by": "map<string, int not null>",
    }
    table = IcebergTable.create(tmp_path / "t", columns)
    text = """\
id         long           required
price\\n    decimal(9, 2)  nullable
place      struct         nullable
  city     string         required
  at       struct         nullable
    x      double         nullable
tags       list           nullable
  element  string         nullable
by         map            nullable
  key      string         required
  value    int            required"""
    schema = harness.open_table(table.location).schema
    assert (str(schema), repr(schema)) == (text, text)
