"""Stored partition columns against partition tuples (iceberg 5.3)."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.testing.writing.iceberg.builder import IcebergTable

CASES = [
    pytest.param("string", "eu", "us", id="string"),
    pytest.param("int", 7, 8, id="int"),
    pytest.param("long", -1, 1, id="long"),
    pytest.param("date", date(2024, 1, 1), date(2024, 1, 2), id="date"),
    pytest.param("decimal(9, 2)", Decimal("1.50"), Decimal("1.51"), id="decimal"),
    pytest.param("boolean", False, True, id="boolean"),
    pytest.param("double", 0.5, 0.25, id="double"),
    pytest.param("string", None, "us", id="null-tuple"),
    pytest.param("string", "eu", None, id="null-column"),
]


def table_of(folder: Path, type_: str, stored: Any, recorded: Any) -> harness.Table:
    """One file that stores `stored` in its partition column, recorded under the partition `recorded`."""
    table = IcebergTable.create(folder / "t", {"id": "long", "part": type_}, partition_spec=[("part", "identity")])
    table.append(table.write_data([{"id": 1, "part": stored}], partition={"part": recorded}))
    return harness.open_table(str(folder / "t"))


@pytest.mark.parametrize(("type_", "recorded", "stored"), CASES)
def test_contradiction_is_refused(tmp_path: Path, type_: str, recorded: Any, stored: Any) -> None:
    table = table_of(tmp_path, type_, stored, recorded)
    with pytest.raises(harness.SchemaMismatchError, match="Cannot read column 'part'") as caught:
        table.snapshot().to_arrow()
    assert (caught.value.cause, caught.value.field, caught.value.rule) == (
        "PartitionValueConflict",
        "part",
        "iceberg 5.3",
    )
    assert table.snapshot().to_arrow(columns=["id"]).to_pydict() == {"id": [1]}  # a read without the column is safe


@pytest.mark.parametrize(
    ("type_", "value"), [(case.values[0], case.values[1]) for case in CASES] + [("double", float("nan"))]
)
def test_agreement_is_read(tmp_path: Path, type_: str, value: Any) -> None:
    rows = table_of(tmp_path, type_, value, value).snapshot().to_arrow().to_pylist()
    assert len(rows) == 1
    assert rows[0]["part"] == value or value != value
