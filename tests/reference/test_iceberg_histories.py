"""Tables that Apache Iceberg's Spark runtime writes, read by harness after every statement, at every snapshot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from iceberg_comparing import Compared
from iceberg_drawn import histories
from iceberg_histories import HISTORIES
from iceberg_history import History, Step, Written
from reference_runs import drawn, params

pytestmark = pytest.mark.reference
BEFORE_A_MERGE = (
    "merge-on-read-v2",
    "merge-on-read-v3",
    "partitioned-deletes",
    "upgrade-lineage",
    "equality-deletes-v2",
    "nested-columns",
    "partition-evolution-v2",
    "types",
    "avro-files-v3",
)
"""One of each kind: deletes of either form, row ids, evolved schemas and partitions, values, a format of files."""


@pytest.mark.parametrize("history", params(HISTORIES, BEFORE_A_MERGE))
def test_iceberg_writes_and_harness_reads(
    history: History, iceberg_spark: Any, warehouse: Path, counted: Counter[str]
) -> None:
    written = Written(iceberg_spark, warehouse, "they_write", history.name.replace("-", "_"))
    compared = Compared(written, counted, columns=history.columns, texts=history.texts)
    for step in history.steps:
        written.run(step)
        compared.current()
    compared.every_snapshot()
    compared.every_ref()
    compared.every_moment()
    counted["Iceberg statements"] += written.statements
    counted["Iceberg snapshots"] += len(written.snapshots)
    counted["Iceberg histories"] += 1


@pytest.mark.nightly
@drawn(6)
@given(statements=histories())
def test_iceberg_writes_drawn_histories(
    iceberg_spark: Any, warehouse: Path, counted: Counter[str], statements: tuple[Step, ...]
) -> None:
    counted["Iceberg histories drawn"] += 1
    written = Written(iceberg_spark, warehouse, "drawn", f"drawn_{counted['Iceberg histories drawn']}")
    compared = Compared(written, counted)
    for statement in statements:
        written.run(statement)
        note(str(statement))
        compared.current()
    compared.every_snapshot()
    compared.every_ref()
    counted["Iceberg statements"] += written.statements
    counted["Iceberg snapshots"] += len(written.snapshots)
