"""Columns by field id through every change of a schema, on DuckDB (iceberg section 5)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reading import arrow, rows

import harness
from harness.engines.duckdb import scans
from harness.errors import SchemaMismatchError
from harness.metadata.model.schema import Field, Schema, StringType
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., IcebergTable]:
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 3, **more})


# -- nested ------------------------------------------------------------------------------------------------------------

"""Where a struct is: the column's type, the struct's path in it, how its value is written there, and how it is read."""


# -- promotions (5.12) -----------------------------------------------------------------------------------------------


def test_date_out_of_the_range_of_nanos_is_an_error(make):  # 5.12
    t = make({"id": "long", "v": "date"})
    t.append(t.write_data([{"id": 1, "v": dt.date(3000, 1, 1)}]))
    t.widen_column("v", "timestamp_ns")
    with pytest.raises(harness.HarnessError):
        arrow(t)


def test_micros_out_of_the_range_of_nanos_are_an_error(make):  # 6.10
    t = make({"id": "long", "v": "timestamp"})
    t.append(t.write_data([{"id": 1, "v": dt.datetime(3000, 1, 1)}]))
    t.widen_column("v", "timestamp_ns")
    with pytest.raises(harness.HarnessError):
        arrow(t)


# -- files without ids (5.6, 5.7) -------------------------------------------------------------------------------------


def mapped(t: IcebergTable, mapping: list[dict[str, Any]]) -> None:
    t.set_properties(**{"schema.name-mapping.default": json.dumps(mapping)})


def test_id_less_columns_beside_columns_with_ids_are_invisible(make):  # 5.6
    t = make({"id": "long", "a": "string"})
    mapped(t, [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["a"]}])
    t.append(t.write_data(pa.table({"id": pa.array([1], pa.int64()), "b": ["x"]}), names={"a": "zzz"}))
    assert rows(t) == [(1, None)]


def test_files_with_and_without_ids_of_one_layout_do_not_share_a_scan(make):  # 11.4
    t = make({"id": "long", "a": "string"})
    mapped(t, [{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["id"]}])
    plain = pa.table({"id": pa.array([1], pa.int64()), "a": ["x"]})
    t.append(t.write_data(plain))
    t.append(t.write_data(pa.table({"id": ["y"], "a": pa.array([2], pa.int64())}), field_ids=False, statistics=[]))
    assert rows(t) == [(1, "x"), (2, "y")]


# -- many shapes at once ---------------------------------------------------------------------------------------------


def test_a_user_field_may_use_any_id(make):  # 5.7: id 0 is a valid id
    t = make(Schema(fields=(Field(id=0, name="z", type=StringType()), Field(id=1000, name="y", type=StringType()))))
    t.append(t.write_data([{"z": "a", "y": "b"}]))
    t.rename_column("z", "q")
    assert rows(t) == [("a", "b")]


def test_a_struct_that_duckdb_sees_flat_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"s": "struct<a:int,b:string>"})
    table.append(table.write_data([{"s": {"a": 1, "b": "x"}}], format="orc"))
    table.rename_column("s.b", "c")  # so that the struct is built anew
    seen = scans.exposed
    monkeypatch.setattr(scans, "exposed", lambda label, type_: dataclasses.replace(seen(label, type_), parts=()))
    with pytest.raises(SchemaMismatchError, match="Cannot read column 'a': DuckDB sees what holds it"):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
