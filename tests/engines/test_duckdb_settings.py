"""Settings of a user's connection: a read returns the same rows as without them, or an error that names the setting.

All settings of DuckDB 2.0.1 were tried on 110 plans of scenarios, with one or two values each. Settings that are not
listed here changed no row.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import harness
from harness.engines.data_files import FileName
from harness.engines.footers import refusal
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

INSTANT = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
COLUMNS = {"id": "long", "b": "binary", "s": "string", "nested": "struct<b: binary>"}
ROW = {"id": 1, "b": b"\xff\x00", "s": "x", "nested": {"b": b"\xfe"}}


@pytest.fixture(params=["delta", "iceberg"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a table with two files. The first has a deleted row."""
    if request.param == "delta":
        delta = DeltaTable.create(tmp_path / "t", {**COLUMNS, "ts": "timestamp"})
        row = {**ROW, "ts": INSTANT}
        handle = delta.write_data([row, {**row, "id": 2}])
        delta.append(handle, delta.write_data([{**row, "id": 3}]))
        delta.delete_rows({handle: [1]})
        return str(delta.directory)
    iceberg = IcebergTable.create(tmp_path / "t", {**COLUMNS, "ts": "timestamptz"})
    row = {**ROW, "ts": INSTANT}
    iceberg.append(iceberg.write_data([row]), iceberg.write_data([{**row, "id": 3}]))
    return str(iceberg.store.directory)


def read(connection: duckdb.DuckDBPyConnection, location: str) -> list[Any]:
    harness.attach(connection, {"t": location})
    return connection.execute("SELECT id, b, s, nested, epoch_us(ts) FROM t ORDER BY id").fetchall()


def rows_of(location: str) -> list[Any]:
    micros = int(INSTANT.timestamp() * 1_000_000)
    return [(i, b"\xff\x00", "x", {"b": b"\xfe"}, micros) for i in (1, 3)]


@pytest.mark.parametrize(
    "setting",
    [
        "binary_as_string = true",
        "lock_configuration = true",
        "default_null_order = 'NULLS_FIRST'",
        "preserve_insertion_order = false",
        "threads = 1",
        "parquet_metadata_cache = true",
        "ieee_floating_point_ops = false",
        "integer_division = true",
        "default_collation = 'nocase'",
        "enable_external_file_cache = false",
        "arrow_large_buffer_size = true",
        "TimeZone = 'America/New_York'",
    ],
)
def test_settings_that_change_no_row(setting: str, location: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET {setting}")
    assert read(connection, location) == rows_of(location)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("enable_external_access = false", "enable_external_access = false"),
        ("disabled_filesystems = 'LocalFileSystem'", "disabled_filesystems = 'LocalFileSystem'"),
        ("Calendar = 'japanese'", "calendar 'japanese'"),
    ],
)
def test_settings_that_forbid_a_read_are_named(setting: str, message: str, location: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET {setting}")
    with pytest.raises(harness.RequestError, match=message):
        read(connection, location)


def test_a_table_in_an_allowed_directory_is_read(location: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SET allowed_directories = ['{location}']")
    connection.execute("SET enable_external_access = false")
    assert read(connection, location) == rows_of(location)


def test_settings_of_a_connection_of_harness(location: str) -> None:
    with harness.connect({"t": location}) as connection:
        connection.execute("SET binary_as_string = true")
        assert connection.execute("SELECT b FROM t WHERE id = 1").fetchall() == [(b"\xff\x00",)]
        connection.execute("SET enable_external_access = false")
        with pytest.raises(harness.RequestError, match="enable_external_access"):
            connection.execute("SELECT b FROM t").fetchall()


@pytest.mark.parametrize("failure", [duckdb.OutOfMemoryException, duckdb.InterruptException])
def test_a_limit_of_the_connection_is_no_damage_of_a_file(failure: type[duckdb.Error], location: str) -> None:
    plan = harness.open_table(location).snapshot().plan()
    (first, *_) = plan.files.to_pylist()
    file = FileName(first["path"], first["physical"])
    error = refusal(failure("the limit"), [file], plan.storage, table=location, doing="Cannot read it")
    assert type(error) is harness.EngineError
