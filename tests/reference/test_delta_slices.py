"""Slices of Delta tables, read by Delta Lake and appended to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reference_slices import check

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")]

BEFORE_A_MERGE = ["delta/deletion-vectors/shared-file", "delta/column-mapping/rename-and-drop"]
NIGHTLY = [
    "delta/deletion-vectors/absolute-path",
    "delta/deletion-vectors/inline",
    "delta/checkpoints/struct-statistics-only",
    "delta/column-mapping/id-mode-follows-ids",
    "delta/partitions/special-characters",
    "delta/paths/shallow-clone",
    "delta/row-tracking/materialised-ids",
    "delta/time-travel/in-commit-timestamps",
]


@pytest.mark.parametrize(
    "name", [*BEFORE_A_MERGE, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)]
)
def test_delta_reads_slices_and_appends_to_them(
    name: str, delta_spark: Any, tmp_path: Path, counted: Counter[str]
) -> None:
    check(name, tmp_path, delta_spark, "delta", counted)
