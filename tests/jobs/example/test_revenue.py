from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from revenue import job

from harness.testing.literals import literal

MONDAY, TUESDAY = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
ORDERS = """
    format: iceberg
    table: {format-version: 2, schema: {id: long, customer: string, day: date, total: "decimal(9,2)"}}
    history:
      - append:
          - data: a
            rows: [[1, ann, 2024-01-01, "10.00"], [2, bob, 2024-01-02, "20.00"], [3, eve, 2024-01-02, "1.00"]]
      - commit: {add: [{position-deletes: [[a, 2]]}, {data: b, rows: [[4, bob, 2024-01-02, "5.50"]]}]}
    """
REGIONS = [{"customer": "bob", "region": "eu"}, {"customer": "ann", "region": "us"}]


@pytest.fixture
def spark(harness_job, tmp_path):
    harness_job.add({"prod.db.orders": ORDERS, "regions": literal(REGIONS, format="delta", deletes=[1])})
    harness_job.spark.conf.set("revenue.regions", str(tmp_path / "regions"))
    harness_job.spark.conf.set("revenue.new_orders", str(tmp_path / "new"))
    return harness_job.spark


def test_revenue_is_summed_by_day_and_region(harness_job, spark, assert_same_rows, tmp_path):
    job.main("2024-01-01")
    expected = [(MONDAY, "unknown", Decimal("10.00"), 1), (TUESDAY, "eu", Decimal("25.50"), 2)]
    assert_same_rows(harness_job.written("prod.db.revenue"), expected, keys=["day"])
    assert harness_job.writes("prod.db.revenue")[0].mode == "overwritePartitions"
    assert_same_rows(harness_job.written(str(tmp_path / "new")), [(4, "bob")])
