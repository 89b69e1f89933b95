"""Every snapshot and every version of every table of the corpus: both engines give the same rows, or the same error."""

from __future__ import annotations

from typing import Any

import pytest
from canonical import canonical_table
from test_delta_corpus import delta_cases
from test_iceberg_corpus import Case, iceberg_cases

import harness

pytestmark = pytest.mark.corpus

NEWEST = 40  # of a long history, the snapshots that are read


@pytest.mark.parametrize("case", [*iceberg_cases(), *delta_cases()])
def test_engines_agree_at_every_snapshot(case: Case, spark: Any):
    try:
        table = harness.open_table(str(case.location))
        ids = [snapshot["id"] for snapshot in table.snapshots()][-NEWEST:]
    except harness.HarnessError:
        return  # no table; that this is so on every engine, the tests of the cases say
    differing = {}
    for snapshot_id in ids:
        duckdb, spark_ = (outcome(table, snapshot_id, engine) for engine in ("duckdb", "spark"))
        if duckdb != spark_:
            differing[snapshot_id] = (duckdb, spark_)
    assert differing == {}


def outcome(table: harness.Table, snapshot_id: int, engine: str) -> str:
    try:
        return canonical_table(table.snapshot(snapshot_id).to_arrow(engine=engine)).text()
    except harness.HarnessError as error:
        return f"{type(error).__name__} {error.cause}"
