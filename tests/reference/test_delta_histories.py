"""Tables that Delta Lake writes, read by harness after every statement, at every version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta_comparing import DeltaPair
from delta_drawn import histories
from delta_histories import HISTORIES
from delta_history import History
from hypothesis import given, note
from reference_runs import drawn, params

pytestmark = pytest.mark.reference
BEFORE_A_MERGE = (
    "deletion-vectors",
    "change-data-feed",
    "log-compaction",
    "mapped-by-name",
    "partitions",
    "types",
)
"""Deletes, changes, logs, mapped columns, partitions, values. Row ids, checkpoints of v2 and widened columns wait."""


@pytest.mark.parametrize("history", params(HISTORIES, BEFORE_A_MERGE))
def test_delta_writes_and_harness_reads(
    history: History, delta_spark: Any, warehouse: Path, counted: Counter[str]
) -> None:
    location = warehouse / "they_write_delta" / history.name
    pair = DeltaPair(delta_spark, location, counted, history.columns, history.select)
    for statement in history.before:
        pair.run(statement)
    for statement in history.statements:
        pair.step(statement)
    absent = [pattern for pattern in history.proof if not any(location.glob(pattern))]
    assert not absent, "Delta Lake did not write what the history is about"
    versions = pair.compare_versions(history.oldest)
    if history.feed is not None:
        pair.compare_changes(history.feed, versions[-1])
    counted["Delta histories"] += 1


@pytest.mark.nightly
@drawn(4)
@given(statements=histories())
def test_delta_writes_drawn_histories_and_harness_reads(
    statements: list[str], delta_spark: Any, tmp_path_factory: pytest.TempPathFactory, counted: Counter[str]
) -> None:
    pair = DeltaPair(delta_spark, tmp_path_factory.mktemp("drawn") / "t", counted)
    for statement in statements:
        note(statement)
        pair.step(statement)
    pair.compare_versions()
    pair.counted["Delta histories, drawn"] += 1
