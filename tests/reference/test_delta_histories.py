"""Tables that Delta Lake writes, read by harness after every statement, at every version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta_histories import HISTORIES, History
from reference_rows import assert_same_rows

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("history", HISTORIES, ids=[history.name for history in HISTORIES])
def test_delta_writes_and_harness_reads(
    history: History, delta_spark: Any, warehouse: Path, counted: Counter[str]
) -> None:
    location = str(warehouse / "they_write_delta" / history.name)
    table = f"delta.`{location}`"
    for statement in history.statements:
        delta_spark.sql(statement.format(t=table, path=location))
        counted["Delta statements"] += 1
        counted["Delta reads"] += assert_same_rows(location, {}, delta_spark.sql(f"SELECT * FROM {table}").toArrow())
    versions = [row.version for row in delta_spark.sql(f"DESCRIBE HISTORY {table}").select("version").collect()]
    for version in sorted(versions):
        if version < history.oldest:
            continue
        theirs = delta_spark.sql(f"SELECT * FROM {table} VERSION AS OF {version}").toArrow()
        counted["Delta reads"] += assert_same_rows(location, {"version": version}, theirs)
        counted["Delta versions"] += 1
    counted["Delta histories"] += 1
