"""Tables that Apache Iceberg wrote (tests/reference/make_iceberg_tables.py), moved since: harness reads its rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

import harness
from harness.testing.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "reference" / "iceberg"
TABLES = sorted(path.parent.name for path in PLACE.glob("*/expected.json"))


def _said(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """Rows as texts that can be sorted and compared, values that JSON has not as Python's text of them."""
    return sorted(json.dumps(dict(zip(columns, row, strict=True)), default=str) for row in rows)


def test_iceberg_reference_tables_are_there() -> None:
    assert {"deletion-vectors", "position-deletes"} <= set(TABLES)


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
@pytest.mark.parametrize("name", TABLES)
def test_iceberg_reference_table(name: str, engine: str) -> None:
    table = harness.open_table(str(PLACE / name / "table"))
    for read in json.loads((PLACE / name / "expected.json").read_text(encoding="utf-8")):
        found = table.snapshot(**read["at"]).to_arrow(columns=read["columns"], engine=engine)
        rows = [list(row.values()) for row in found.to_pylist()]
        assert _said(read["columns"], rows) == _said(read["columns"], read["rows"]), f"{name} at {read['at']}"
