"""Columns by field id through every change of a schema, on DuckDB (iceberg section 5)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import harness
from harness.engines.duckdb import scans
from harness.errors import SchemaMismatchError
from harness.testing.writing.iceberg.builder import IcebergTable

# -- nested ------------------------------------------------------------------------------------------------------------

"""Where a struct is: the column's type, the struct's path in it, how its value is written there, and how it is read."""


# -- promotions (5.12) -----------------------------------------------------------------------------------------------


# -- files without ids (5.6, 5.7) -------------------------------------------------------------------------------------


# -- many shapes at once ---------------------------------------------------------------------------------------------


def test_a_struct_that_duckdb_sees_flat_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"s": "struct<a:int,b:string>"})
    table.append(table.write_data([{"s": {"a": 1, "b": "x"}}], format="orc"))
    table.rename_column("s.b", "c")  # so that the struct is built anew
    seen = scans.exposed
    monkeypatch.setattr(scans, "exposed", lambda label, type_: dataclasses.replace(seen(label, type_), parts=()))
    with pytest.raises(SchemaMismatchError, match="Cannot read column 'a': DuckDB sees what holds it"):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
