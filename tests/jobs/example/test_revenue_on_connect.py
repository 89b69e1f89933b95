from __future__ import annotations

from decimal import Decimal

import pytest
from revenue import job
from test_revenue import MONDAY, ORDERS, REGIONS, TUESDAY

from harness.testing import SparkJob
from harness.testing.literals import literal

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def spark():
    """Return a session of Spark Connect, whose server is started in this process."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote("local[2]").getOrCreate()


def test_revenue_is_summed_by_day_and_region(spark, lake_table, assert_same_rows, tmp_path):
    regions = literal(REGIONS, format="delta", deletes=[1]).make(tmp_path / "regions")
    registered = SparkJob.on(spark, tables={"prod.db.orders": lake_table(ORDERS)})
    spark.conf.set("revenue.regions", regions)
    spark.conf.set("revenue.new_orders", str(tmp_path / "new"))
    job.main("2024-01-01")
    expected = [(MONDAY, "unknown", Decimal("10.00"), 1), (TUESDAY, "eu", Decimal("25.50"), 2)]
    assert_same_rows(registered.written("prod.db.revenue"), expected, keys=["day"])
    assert_same_rows(registered.written(str(tmp_path / "new")), [(4, "bob")])
