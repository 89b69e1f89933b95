"""Tables that the reference implementations wrote, moved afterwards: harness reads the same rows as their writers.

The tables and their expected reads are in fixtures/interop, made by tests/interop/make_tables.py.
"""

import json
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.suite.scenarios.loading import fixtures_directory
from harness.suite.scenarios.model import ResolvedSelector

PLACE = fixtures_directory() / "interop"
TABLES = sorted(path.parent.relative_to(PLACE).as_posix() for path in PLACE.glob("*/*/expected.json"))


def read(table: harness.Table, selection: dict[str, Any], engine: str) -> pa.Table:
    """Read a version, snapshot or ref, or a range of changes."""
    if (versions := selection.get("changes")) is not None:
        return table.changes(*versions, columns=selection["columns"]).to_arrow(engine=engine)
    return table.snapshot(ResolvedSelector(**selection["at"]).moment).to_arrow(
        columns=selection["columns"], engine=engine
    )


def printed_rows(columns: list[str], rows: list[list[Any]]) -> list[str]:
    """Return rows as texts that can be sorted and compared. Values without a JSON form are printed by Python."""
    return sorted(json.dumps(dict(zip(columns, row, strict=True)), default=str) for row in rows)


def check(name: str, engine: str) -> None:
    """Check that every read of the writer returns the same rows in harness."""
    table = harness.open_table(str(PLACE / name / "table"))
    for wanted in json.loads((PLACE / name / "expected.json").read_text(encoding="utf-8")):
        rows = [list(row.values()) for row in read(table, wanted, engine).to_pylist()]
        assert printed_rows(wanted["columns"], rows) == printed_rows(wanted["columns"], wanted["rows"]), (
            f"{name} at {wanted}"
        )


@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
@pytest.mark.parametrize("name", TABLES)
def test_harness_reads_the_rows_that_the_writer_reads(name: str, engine: str) -> None:
    check(name, engine)


@pytest.mark.parametrize("name", TABLES)
def test_harness_on_spark_reads_the_rows_that_the_writer_reads(name: str, spark: Any) -> None:
    check(name, "spark")
