"""The oracle returns the same rows or the same error as harness, although it plans separately and skips no file."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.errors import EngineError, RequestError, UnknownColumnError
from harness.suite import oracle
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.model import ResolvedSelector
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def both(location: str | Path, *, columns: list[str] | None = None, where: str | None = None, **selector: Any) -> Any:
    """Return the rows of both readers, sorted."""
    snapshot = harness.open_table(str(location)).snapshot(ResolvedSelector(**selector).moment)
    own = snapshot.to_arrow(columns=columns, where=where)
    other = read_with_oracle(str(location), columns=columns, where=where, **selector)
    assert other.schema == own.schema
    assert in_order(other) == in_order(own)
    return in_order(other)


def in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def ids(rows: list[tuple[Any, ...]]) -> list[Any]:
    return sorted(row[0] for row in rows)


def test_a_filter_skips_no_file(tmp_path):
    table = iceberg(tmp_path / "t", partition_spec=[("part", "identity")])
    table.append(*table.write_partitioned([{"id": 1, "part": "x"}, {"id": 2, "part": "y"}]))
    assert both(tmp_path / "t", where="part = 'x'") == [(1, "x")]
    next((tmp_path / "t" / "data").rglob("*y*/*.parquet")).unlink()
    assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(where="part = 'x'").num_rows == 1
    with pytest.raises(harness.errors.MissingFileError):
        read_with_oracle(str(tmp_path / "t"), where="part = 'x'")


def iceberg(directory: Path, **options: Any) -> IcebergTable:
    return IcebergTable.create(directory, {"id": "long", "part": "string"}, **options)


def several_position_deletes(directory: Path) -> None:
    table = iceberg(directory)
    a, b = (table.write_data([{"id": i, "part": "p"} for i in range(start, start + 4)]) for start in (0, 4))
    table.append(a, b)
    table.append(table.write_position_deletes([(b, 3), (a, 0)]), table.write_position_deletes([(a, 0), (a, 2)]))


def equality_delete_by_partition(directory: Path) -> None:
    table = iceberg(directory, partition_spec=[("part", "identity")])
    table.append(*table.write_partitioned([{"id": i, "part": part} for i in (1, 2) for part in ("x", "y", None)]))
    table.append(table.write_equality_deletes(["id"], [{"id": 1}], partition={"part": None}))
    table.append(*table.write_partitioned([{"id": 1, "part": None}]))


def replaced_vector(directory: Path) -> None:
    table = iceberg(directory, format_version=3)
    data = table.write_data([{"id": i, "part": "p"} for i in range(6)])
    table.append(data)
    first = table.write_deletion_vectors({data: [1]})
    table.append(*first)
    table.commit(add=table.write_deletion_vectors({data: [1, 5]}), remove=first)


def evolved_columns(directory: Path) -> None:
    table = iceberg(directory, format_version=3)
    table.append(table.write_data([{"id": 1, "part": "old"}]))
    table.rename_column("part", "kind")
    table.add_column("note", "string", initial_default="none")
    table.append(table.write_data([{"id": 2, "kind": "new", "note": None}]))


def delta_with_vectors(directory: Path) -> None:
    table = DeltaTable.create(
        directory, {"id": "long", "part": "string"}, partition_columns=["part"], features=["deletionVectors"]
    )
    a = table.write_data([{"id": i, "part": "a b%"} for i in range(4)])
    b = table.write_data([{"id": i, "part": None} for i in range(4, 8)])
    table.append(a, b)
    table.delete(a, [0])
    table.delete(a, [3])
    table.remove(b)
    table.append(b)


TABLES: list[tuple[Callable[[Path], None], list[Any]]] = [
    (several_position_deletes, [1, 3, 4, 5, 6]),
    (equality_delete_by_partition, [1, 1, 1, 2, 2, 2]),
    (replaced_vector, [0, 2, 3, 4]),
    (evolved_columns, [1, 2]),
    (delta_with_vectors, [1, 2, 4, 5, 6, 7]),
]


@pytest.mark.parametrize(("build", "expected"), TABLES, ids=[build.__name__ for build, _ in TABLES])
def test_rows(build, expected, tmp_path):
    build(tmp_path / "t")
    assert ids(both(tmp_path / "t")) == expected
    assert ids(both(tmp_path / "t", columns=["id", "_file", "_pos"], where="id >= 2")) == [i for i in expected if i > 1]


def test_row_ids_and_partitions(tmp_path):
    table = iceberg(tmp_path / "t", format_version=3, partition_spec=[("part", "identity")])
    table.append(*table.write_partitioned([{"id": i, "part": "xy"[i % 2]} for i in range(4)]))
    rows = both(tmp_path / "t", columns=["_row_id", "_last_updated_sequence_number", "_partition", "_spec_id"])
    assert ids(rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["classic", "v2-parquet", "v2-json"])
def test_a_log_that_begins_with_a_checkpoint(kind, tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"}, features=["v2Checkpoint"])
    table.append(table.write_data([{"id": 1}]))
    table.checkpoint(kind)
    table.append(table.write_data([{"id": 2}]))
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    assert both(tmp_path / "t") == [(1,), (2,)]
    assert both(tmp_path / "t", version=1) == [(1,)]
    with pytest.raises(harness.errors.SnapshotNotFoundError):
        read_with_oracle(str(tmp_path / "t"), version=0)


@pytest.mark.parametrize(
    "hint",
    [
        '{"version": 1, "numOfAddFiles": 7, "numOfAddFiles": 7}',
        '{"version": 1, "numOfAddFiles": 7, "a": %s1}' % ("[" * 9999),
    ],
)
def test_counts_of_a_hint_that_is_not_sound(hint, tmp_path):  # delta L6
    t = DeltaTable.create(tmp_path / "t", {"id": "long"})
    t.commit(add=[t.write_data([{"id": 1}])])
    t.checkpoint()
    t.expire_log(1)
    t.write_last_checkpoint(hint)
    assert ids(both(tmp_path / "t")) == [1]


def test_a_version_at_a_time(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in (1, 2):
        table.append(table.write_data([{"id": number}]))
    for version, second in ((0, 1000), (1, 1000), (2, 2000)):  # version 1 counts as a millisecond after version 0
        os.utime(tmp_path / "t" / "_delta_log" / f"{version:020}.json", (second, second))
    assert both(tmp_path / "t", timestamp_ms=1_000_000) == []
    assert both(tmp_path / "t", timestamp_ms=1_999_999) == [(1,)]
    with pytest.raises(harness.errors.SnapshotNotFoundError):
        read_with_oracle(str(tmp_path / "t"), timestamp_ms=2_000_001)


def missing_commit(directory: Path) -> None:
    table = DeltaTable.create(directory, {"id": "long"})
    for number in (1, 2):
        table.append(table.write_data([{"id": number}]))
    (directory / "_delta_log" / f"{1:020}.json").unlink()


def missing_manifest_list(directory: Path) -> None:
    several_position_deletes(directory)
    for path in (directory / "metadata").glob("snap-*.avro"):
        path.unlink()


def avro_deletes_that_lost_rows(directory: Path) -> None:
    table = iceberg(directory)
    table.append(table.write_data([{"id": 1, "part": "p"}]))
    keys = table.write_equality_deletes(["id"], [{"id": 1}], format="avro")
    keys.data_file["record_count"] = 2
    table.append(keys)


def half_written_commit(directory: Path) -> None:
    missing_commit(directory)
    (directory / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path": "x"')


def no_table(directory: Path) -> None:
    directory.mkdir()


BROKEN = [missing_commit, missing_manifest_list, avro_deletes_that_lost_rows, half_written_commit, no_table]


@pytest.mark.parametrize("build", BROKEN)
def test_errors_are_of_one_class(build, tmp_path):
    build(tmp_path / "t")
    with pytest.raises(harness.HarnessError) as own:
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
    with pytest.raises(harness.HarnessError) as other:
        read_with_oracle(str(tmp_path / "t"))
    assert type(other.value) is type(own.value)


def test_the_oracle_is_small_enough_to_review_and_lists_its_modules():
    modules = {file.stem: file.read_text("utf-8") for file in Path(oracle.__file__).parent.glob("*.py")}
    # The reads of both formats need 5,000 lines, and the changes between Iceberg snapshots the others.
    assert sum(text.count("\n") for text in modules.values()) <= 5_400
    listed = re.findall(r"(?:^|  )([a-z_]+)  +\w", oracle.__doc__, re.MULTILINE)
    assert set(listed) == modules.keys() - {"__init__"}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 1 OR part IS NULL; -- one of two", [1, 3]),
        ("part <> 'x'", [2]),  # unknown drops the row
        ("_pos > 0 AND PART IS DISTINCT FROM 'x'", [2, 3]),
        ("id % 2", [1, 3]),
    ],
)
def test_the_oracle_filters_as_duckdb_does(tmp_path: Path, where: str, expected: list[int]) -> None:
    table = iceberg(tmp_path / "t")
    table.append(table.write_data([{"id": 1, "part": "x"}, {"id": 2, "part": "y"}, {"id": 3, "part": None}]))
    assert (
        ids([tuple(row.values()) for row in read_with_oracle(str(tmp_path / "t"), where=where).to_pylist()]) == expected
    )


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("CAST(part AS INTEGER) = 1", EngineError),
        ("count(*) > 1", RequestError),
        ("nosuch = 1", UnknownColumnError),
    ],
)
def test_a_filter_that_fails_is_an_error_of_the_oracle(tmp_path: Path, where: str, error: type[Exception]) -> None:
    table = iceberg(tmp_path / "t")
    table.append(table.write_data([{"id": 1, "part": "1"}, {"id": 2, "part": "y"}]))
    with pytest.raises(error):
        read_with_oracle(str(tmp_path / "t"), where=where)
