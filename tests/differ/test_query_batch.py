"""What two engines give for one text of Spark's: own types pass by rules that are named."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from harness.differ.query_batch import QueryRun
from harness.differ.result import BatchOutcome, QueryFile


@pytest.mark.parametrize(("dialect", "outcome"), [("spark", BatchOutcome.EQUAL), ("duckdb", BatchOutcome.DIFFERENT)])
def test_types_of_sums_are_each_engines_own(monkeypatch, dialect: str, outcome: BatchOutcome) -> None:
    results = {0: pa.decimal128(19, 2), 1: pa.decimal128(38, 2)}

    def result(self: QueryRun, side: int, text: str, dialect: str) -> pa.Table:
        return pa.table({f"sum {side}" if self.dialect == "spark" else "s": pa.array([Decimal("1.50")], results[side])})

    monkeypatch.setattr(QueryRun, "_result", result)
    run = QueryRun(engines=("spark", "duckdb"), tables=({}, {}), dialect=dialect)
    entry = run.entry(QueryFile(name="q", text="SELECT sum(x) FROM t"))
    assert entry.outcome is outcome
    assert entry.document is not None
    assert [each["rule"] for each in entry.document["schema"]] == [None if dialect == "duckdb" else "decimal precision"]
