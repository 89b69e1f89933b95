"""The same plan by the oracle, for every test that reads one on DuckDB: only where pytest runs with `--on-oracle`."""

from __future__ import annotations

import on_spark
import pyarrow as pa
import pytest
from on_spark import comparable

from harness.engines import oracle
from harness.errors import EngineError, HarnessError
from harness.metadata.plan.scan_plan import ScanPlan

asked = False
"""Whether the oracle reads too."""


def to_arrow(plan: ScanPlan) -> pa.Table:
    """The plan's rows by DuckDB (and Spark); asserts that the oracle gives the same ones, or fails likewise."""
    if not asked or on_spark.limits:
        return on_spark.to_arrow(plan)
    try:
        rows = on_spark.to_arrow(plan)
    except HarnessError as error:
        fails_alike(plan, error)
        raise
    other = oracle.to_arrow(plan)
    assert other.schema == rows.schema
    assert comparable(other) == comparable(rows)
    return rows


def fails_alike(plan: ScanPlan, error: HarnessError) -> None:
    """Asserts that the oracle fails for the same reason as `error` tells.

    Where an engine itself failed, its error has no cause to compare; the oracle knows one.
    """
    is_vague = type(error) is EngineError
    with pytest.raises(HarnessError if is_vague else type(error)) as caught:
        oracle.to_arrow(plan)
    assert is_vague or caught.value.cause == error.cause
