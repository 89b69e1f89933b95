"""What two engines give for one text of Spark's: own types pass by rules that are named."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from harness.differ.opening import Query
from harness.differ.query_batch import QueryRun
from harness.differ.result import BatchOutcome, QueryFile


@pytest.mark.parametrize(("dialect", "outcome"), [("spark", BatchOutcome.EQUAL), ("duckdb", BatchOutcome.DIFFERENT)])
def test_types_of_sums_are_each_engines_own(monkeypatch, dialect: str, outcome: BatchOutcome) -> None:
    results = {"spark": pa.decimal128(19, 2), "duckdb": pa.decimal128(38, 2)}

    def result(self: Query, engine: str, spark: object) -> pa.Table:
        name = f"sum on {engine}" if dialect == "spark" else "s"
        return pa.table({name: pa.array([Decimal("1.50")], results[engine])})

    monkeypatch.setattr(Query, "run", result)
    run = QueryRun(engines=("spark", "duckdb"), tables=({}, {}), dialect=dialect)
    entry = run.entry(QueryFile(name="q", text="SELECT sum(x) FROM t"))
    assert entry.outcome is outcome
    assert entry.document is not None
    assert [each["rule"] for each in entry.document["schema"]] == [None if dialect == "duckdb" else "decimal precision"]
