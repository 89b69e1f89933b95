"""The errors into which failures of engines during a query are translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import harness
from harness.engines.duckdb import failures
from harness.engines.duckdb import relations as engine
from harness.engines.duckdb.instance import cursor
from harness.engines.registry import find_engine
from harness.metadata.plan.scan_plan import ScanPlan
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def table(tmp_path: Path) -> tuple[ScanPlan, Path]:
    """Return a plan with two files, and the second of them."""
    made = IcebergTable.create(tmp_path / "t", {"a": "long"})
    handles = [made.write_data([{"a": i} for i in range(100)]) for _ in range(2)]
    made.append(*handles)
    plan = harness.open_table(str(made.store.directory)).snapshot().plan()
    return plan, Path(made.file_of(handles[1].path))


# A damaged page header, for which DuckDB names no file; and damaged page content, for which DuckDB names the file.
@pytest.mark.parametrize("reader", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)])
@pytest.mark.parametrize("damaged", [slice(4, 40), slice(60, 90)], ids=["header", "content"])
def test_a_page_that_is_damaged(table: tuple[ScanPlan, Path], damaged: slice, reader: str) -> None:  # iceberg 7.6
    plan, path = table
    content = bytearray(path.read_bytes())
    content[damaged] = b"\xff" * (damaged.stop - damaged.start)
    path.write_bytes(content)
    with pytest.raises(harness.CorruptFileError, match="it is damaged") as caught:
        find_engine(reader).to_arrow(plan)
    assert (caught.value.cause, caught.value.table, caught.value.file) == ("CorruptDataFile", plan.table, str(path))


def test_a_delete_file_is_named_as_duckdb_has_it(table):
    said = 'Invalid Input Error: Failed to read file "/d/deletes.parquet": ZSTD Decompression failure'
    error = failures.engine_error(duckdb.InvalidInputException(said), table[0])
    assert isinstance(error, harness.CorruptFileError)
    assert error.file == "/d/deletes.parquet"


def test_a_readable_file_is_not_reported(table):
    error = failures.engine_error(duckdb.Error("don't know what type: "), table[0])
    assert isinstance(error, harness.CorruptFileError)
    assert error.file is None


def test_other_failures_are_the_engines(table):
    error = failures.engine_error(duckdb.ConversionException("Conversion Error:\n  no number"), table[0])
    assert type(error) is harness.EngineError
    assert (error.message, error.table) == ("DuckDB failed: Conversion Error: no number", table[0].table)


class Vacuumed:
    """A connection that removes a file before its n-th statement."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, at: int, path: Path) -> None:
        self.connection, self.at, self.path, self.statements = connection, at, path, 0

    def itself(self) -> Vacuumed:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("sql", "execute"):
            self.statements += 1
            if self.statements == self.at:
                self.path.unlink()
        return getattr(self.connection, name)


def delta(folder: Path) -> tuple[harness.Snapshot, Path]:
    made = DeltaTable.create(folder / "d", {"id": "long", "day": "date"})
    file = made.write_data([{"id": 1}])
    made.append(file)
    return harness.open_table(str(folder / "d")).snapshot(), folder / "d" / file.path


def partitioned(folder: Path) -> tuple[harness.Snapshot, Path]:
    made = IcebergTable.create(folder / "i", {"id": "long"}, partition_spec=[("id", "identity")])
    file = made.write_data([{"id": 1}], partition={"id": 1})
    made.append(file)
    return harness.open_table(str(folder / "i")).snapshot(), Path(made.file_of(file.path))


@pytest.mark.parametrize("make", [delta, partitioned])
def test_a_file_removed_between_two_checks_is_missing(tmp_path, make, monkeypatch):
    snapshot, path = make(tmp_path)
    content, outcomes, at, statements = path.read_bytes(), [], 0, 0
    while at <= statements:  # one more than there are, so that no file is removed
        at += 1
        path.write_bytes(content)
        connection = Vacuumed(cursor(), at, path)
        monkeypatch.setattr(engine, "cursor", connection.itself)
        outcomes.append(outcome(snapshot, path.name))
        statements = connection.statements
    assert len(outcomes) > 2
    assert outcomes[-1] == 1
    assert set(outcomes) == {1, "MissingFile"}


def outcome(snapshot: harness.Snapshot, file: str) -> int | str | None:
    """Return the number of rows, or the cause of an error about the file."""
    try:
        return snapshot.to_arrow().num_rows
    except harness.HarnessError as error:
        return error.cause if file in str(error.file) else str(error)
