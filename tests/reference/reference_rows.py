"""Rows of a reference implementation beside harness's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import harness
from harness.conformance.recoding import recoded

ENGINES = ("duckdb", "oracle", "spark")


def assert_same_rows(
    location: str, at: Mapping[str, Any], expected: pa.Table, *, table: harness.Table | None = None
) -> int:
    """Every engine of harness gives the rows, and the names, of the reference; how many reads that were."""
    opened = harness.open_table(location) if table is None else table
    for engine in ENGINES:
        rows = opened.snapshot(**at).to_arrow(engine=engine)
        assert rows.schema.names == expected.schema.names, f"{engine} at {dict(at)}"
        theirs, _ = recoded(expected, rows.schema)
        found = harness.compare(theirs, rows)
        assert (found.only_left, found.only_right) == (0, 0), f"{engine} at {dict(at)}\n{found.to_text()}"
    return len(ENGINES)
