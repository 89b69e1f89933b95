"""Tables that Delta Lake wrote (tests/reference/make_delta_tables.py): harness reads the rows that Delta Lake reads."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.testing.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "reference" / "delta"
TABLES = sorted(path.parent.name for path in PLACE.glob("*/expected.json"))


def _said(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """Rows as texts that can be sorted and compared, values that JSON has not as Python's text of them."""
    return sorted(json.dumps(dict(zip(columns, row, strict=True)), default=str) for row in rows)


def _read(name: str, read: dict[str, Any], engine: str) -> pa.Table:
    table = harness.open_table(str(PLACE / name / "table"))
    if (versions := read.get("changes")) is not None:
        return table.changes(*versions, columns=read["columns"]).to_arrow(engine=engine)
    return table.snapshot(version=read["version"]).to_arrow(columns=read["columns"], engine=engine)


def test_delta_reference_tables_are_there() -> None:
    assert len(TABLES) >= 7


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
@pytest.mark.parametrize("name", TABLES)
def test_delta_reference_table(name: str, engine: str) -> None:
    reads = json.loads((PLACE / name / "expected.json").read_text(encoding="utf-8"))
    for read in reads:
        rows = [list(row.values()) for row in _read(name, read, engine).to_pylist()]
        assert _said(read["columns"], rows) == _said(read["columns"], read["rows"]), f"{name} at {read}"
