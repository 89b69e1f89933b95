"""Executors read the schemas and row counts that Spark needs before the rows: the driver opens no data file."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import harness
from harness.engines.duckdb.instance import DuckDBFiles
from harness.engines.registry import find_engine
from harness.engines.spark import engine, file_opener
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import Gateway
from harness.metadata.plan.scan_plan import ScanPlan
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(params=["on a cluster", "in a local session"], autouse=True)
def opening_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the processes that open files. In a local session the executors are in the driver."""
    if request.param == "on a cluster":
        monkeypatch.setattr(Gateway, "is_local", False)
    return request.param


Rows = list[tuple[Any, ...]]
ROWS = [{"a": i, "b": f"b{i}"} for i in range(4)]
KINDS = {
    "iceberg/schema/rename-and-reorder",
    "iceberg/deletes/position-delete-of-own-commit",
    "iceberg/deletes/deletion-vector-of-own-commit",
    "iceberg/deletes/global-equality-delete",
    "iceberg/files/name-mapping",
    "iceberg/files/three-formats",
    "delta/column-mapping/rename-and-drop",
    "delta/deletion-vectors/relative",
    "delta/paths/glob-characters",
    "delta/schema/legacy-timestamps",
}
"""Scenarios with tables whose files are opened for different reasons."""


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> ScanPlan:
    (scenario,) = find(request.param)
    return plan_of(build(scenario, tmp_path).location)


def iceberg(folder: Path) -> IcebergTable:
    return IcebergTable.create(folder / "t", {"a": "long", "b": "string"})


def without_deletes(folder: Path) -> Path:
    table = iceberg(folder)
    table.append(table.write_data(ROWS[:2]), table.write_data(ROWS[2:]))
    table.rename_column("b", "c")
    return table.store.directory


@dataclass(frozen=True)
class Driver:
    """The files of a table that this process opened, by physical path."""

    opened: list[str]

    def opened_of(self, plan: ScanPlan) -> set[str]:
        own = {*plan.files["physical"].to_pylist(), *(d.physical for d in plan.equality_deletes)}
        return own.intersection(self.opened)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    opened: list[str] = []
    by_system, by_duckdb = os.open, DuckDBFiles.name

    def open_by_system(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(os.fspath(path))
        return by_system(path, *arguments, **options)

    def open_by_duckdb(files: DuckDBFiles, physical: str) -> str:
        opened.append(physical)
        return by_duckdb(files, physical)

    monkeypatch.setattr(os, "open", open_by_system)
    monkeypatch.setattr(DuckDBFiles, "name", open_by_duckdb)
    return Driver(opened)


def plan_of(location: Path) -> ScanPlan:
    return harness.open_table(str(location)).snapshot().plan()


def rows_of(frame: DataFrame) -> Rows:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("opening_place", ["on a cluster"], indirect=True)
def test_the_driver_opens_no_data_file(kind: ScanPlan, spark: Any, driver: Driver) -> None:
    frame = engine.dataframe(kind, spark)
    assert driver.opened_of(kind) == set()
    assert frame.count() == find_engine("duckdb").to_arrow(kind).num_rows > 0


def test_missing_files_fail_queries_that_read_them(kind: ScanPlan, spark: Any) -> None:
    paths = kind.files["physical"].to_pylist()
    for path in paths:
        Path(path).unlink()
    frame = engine.dataframe(kind, spark)
    assert len(frame.columns) == len(kind.columns)
    with pytest.raises(Exception, match="MissingFile") as caught:
        frame.count()
    error = engine_error(caught.value)
    assert isinstance(error, harness.MissingFileError)
    assert error.message.startswith("Cannot read a data file: it is missing")
    assert any(path in str(error.file) for path in paths)


@pytest.mark.parametrize(
    ("condition", "expected_rows"),
    [
        ("p = 1", [(1, 10), (1, 11)]),
        ("p IS NOT NULL AND p < 2", [(1, 10), (1, 11)]),
        ("v = 10 AND p = 1", [(1, 10)]),
        ("v = 10", None),  # a column that exists only in the files
        ("v IS NOT NULL", None),
        ("p = 2", None),
    ],
)
def test_a_missing_file_that_a_query_leaves_out(
    condition: str, expected_rows: Rows | None, tmp_path: Path, spark: Any
) -> None:
    table = DeltaTable.create(tmp_path / "t", {"p": "long", "v": "long"}, partition_columns=["p"])
    table.append(*table.write_partitioned([{"p": p, "v": 10 * p + i} for p in (1, 2) for i in (0, 1)]))
    Path(table.live_files[1].file).unlink()
    frame = engine.dataframe(plan_of(table.directory), spark).where(condition)
    if expected_rows is None:
        with pytest.raises(Exception, match="a data file: it is missing"):
            frame.collect()
    else:
        assert rows_of(frame) == expected_rows


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def scramble(file: Path) -> None:
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    content[-8 - length : -8] = b"\xff" * length
    file.write_bytes(content)


def encrypt(file: Path) -> None:
    file.write_bytes(b"PARE" + file.read_bytes()[4:-4] + b"PARE")


def become_a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [cut, scramble, encrypt, become_a_directory, lambda file: file.write_bytes(b"")])
def test_damage_is_reported_as_by_duckdb(damage: Callable[[Path], Any], tmp_path: Path, spark: Any) -> None:
    plan = plan_of(without_deletes(tmp_path))
    damage(Path(plan.files["physical"][1].as_py()))
    with pytest.raises(harness.HarnessError) as expected:
        find_engine("duckdb").to_arrow(plan)
    with pytest.raises(harness.HarnessError) as caught:
        engine.to_arrow(plan, spark)
    assert str(caught.value) == str(expected.value)


def test_footers_that_differ(tmp_path: Path, spark: Any) -> None:
    """Footers of one table differ in columns, types, codecs, metadata, and row groups; a task has several files."""
    table = iceberg(tmp_path)
    handles = []
    for i in range(70):
        handle = table.write_data([{"a": i, "b": "x"}])
        file = table.file_of(handle.path)
        rows = pq.read_table(file)
        match i % 7:
            case 0:
                rows = rows.append_column("other", pa.array([i]))
            case 1:
                rows = rows.select([1, 0])
            case 2:
                rows = rows.replace_schema_metadata({"k" * 200: "v" * 100_000, "": ""})
            case 3:
                rows = rows.set_column(0, rows.schema.field(0).with_type(pa.int32()), rows["a"].cast(pa.int32()))
            case _:
                pass
        pq.write_table(rows, file, compression="brotli" if i % 7 == 4 else "zstd", row_group_size=1)
        handles.append(handle)
    table.append(*handles)
    assert rows_of(engine.dataframe(plan_of(table.store.directory), spark)) == [(i, "x") for i in range(70)]


@pytest.mark.parametrize("opening_place", ["on a cluster"], indirect=True)
def test_footers_cross_in_rounds(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A footer longer than its file's share of a round is sent in a later round.

    A footer that is too long is refused.
    """
    table = iceberg(tmp_path)
    handles = [table.write_data([{"a": i, "b": "x"}]) for i in range(8)]
    for handle in handles[2:5]:
        file = table.file_of(handle.path)
        pq.write_table(pq.read_table(file).replace_schema_metadata({"k": "v" * 20_000}), file)
    table.append(*handles)
    plan = plan_of(table.store.directory)
    monkeypatch.setattr(file_opener, "ROUND_FILES", 3)
    monkeypatch.setattr(file_opener, "ROUND_BYTES", 30_000)
    assert rows_of(engine.dataframe(plan, spark)) == [(i, "x") for i in range(8)]
    monkeypatch.setattr(file_opener, "MOST_BYTES", 10_000)
    with pytest.raises(harness.CorruptFileError, match=r"it claims \d+ bytes; restore the file") as caught:
        engine.to_arrow(plan, spark)
    assert str(caught.value.file) in {str(handle.path) for handle in handles[2:5]}


def test_orc_needs_no_python_on_executors(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "name": "string"})
    rows = [{"id": i, "name": f"n{i}"} for i in range(3)]
    table.append(table.write_data(rows, format="orc"))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    frame = engine.dataframe(plan_of(table.store.directory), spark)
    assert rows_of(frame) == [(i, f"n{i}") for i in range(3)]
    assert frame.count() == 3
    table.append(table.write_data(rows, format="avro"))
    with pytest.raises(harness.EngineError, match="they have no Python '/nowhere/python'; set an existing Python"):
        engine.dataframe(plan_of(table.store.directory), spark)
