"""Tables that Apache Iceberg's Spark runtime writes, read by harness after every statement, at every snapshot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from iceberg_histories import HISTORIES, History
from reference_rows import assert_same_rows

import harness

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning"),  # PySpark 4.1's toArrow leaves them open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("history", HISTORIES, ids=[history.name for history in HISTORIES])
def test_iceberg_writes_and_harness_reads(
    history: History, iceberg_spark: Any, warehouse: Path, counted: Counter[str]
) -> None:
    name = history.name.replace("-", "_")
    location, table = str(warehouse / "they_write" / name), f"ice.they_write.{name}"
    seen: set[int] = set()
    for statement in history.statements:
        iceberg_spark.sql(statement.format(t=table, name=f"they_write.{name}"))
        counted["Iceberg statements"] += 1
        counted["Iceberg reads"] += assert_same_rows(location, {}, iceberg_spark.table(table).toArrow())
        seen.update(snapshot_ids(iceberg_spark, table))
    for snapshot in snapshot_ids(iceberg_spark, table):
        counted["Iceberg reads"] += compare_version(iceberg_spark, table, location, snapshot)
    for ref in harness.open_table(location).refs():
        theirs = iceberg_spark.sql(f"SELECT * FROM {table} VERSION AS OF '{ref}'").toArrow()
        counted["Iceberg reads"] += assert_same_rows(location, {"ref": ref}, theirs)
    counted["Iceberg snapshots"] += len(seen)
    counted["Iceberg histories"] += 1


def snapshot_ids(spark: Any, table: str) -> list[int]:
    """The snapshots that the table still has."""
    return [row.snapshot_id for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()]


def compare_version(spark: Any, table: str, location: str, snapshot: int) -> int:
    """Compares one snapshot; how many reads that were."""
    theirs = spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}").toArrow()
    return assert_same_rows(location, {"snapshot_id": snapshot}, theirs)
