"""Rows of a reference implementation beside harness's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import harness
from harness.testing.conformance.judging import recoded

ENGINES = ("duckdb", "oracle", "spark")


def assert_same_rows(
    location: str,
    at: Mapping[str, Any],
    expected: pa.Table,
    *,
    table: harness.Table | None = None,
    columns: Sequence[str] | None = None,
    engines: Sequence[str] = ENGINES,
) -> int:
    """Every engine of harness gives the rows, and the names, of the reference; how many reads that were."""
    opened = harness.open_table(location) if table is None else table
    for engine in engines:
        assert_same(expected, opened.snapshot(**at).to_arrow(columns=columns, engine=engine), f"{engine} at {dict(at)}")
    return len(engines)


def assert_same(expected: pa.Table, rows: pa.Table, read: str) -> None:
    """The reference's rows and harness's are the same, whatever Arrow types carry the values."""
    assert rows.schema.names == expected.schema.names, read
    theirs, _ = recoded(expected, rows.schema)
    found = harness.compare(theirs, rows)
    assert (found.only_left, found.only_right) == (0, 0), f"{read}\n{found.to_text()}"
