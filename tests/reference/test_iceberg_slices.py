"""Slices of Iceberg tables, read by Apache Iceberg and appended to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reference_slices import check

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")]

BEFORE_A_MERGE = ["iceberg/deletes/many-vectors-in-one-puffin", "iceberg/deletes/shared-position-delete-files"]
NIGHTLY = [
    "iceberg/deletes/stream-of-upserts",
    "iceberg/deletes/vector-replaces-position-deletes",
    "iceberg/metadata/row-lineage",
    "iceberg/metadata/v1-table",
    "iceberg/partitions/every-transform",
    "iceberg/schema/nested-evolution",
    "iceberg/time-travel/snapshots-and-schemas",
]


@pytest.mark.parametrize(
    "name", [*BEFORE_A_MERGE, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)]
)
def test_iceberg_reads_slices_and_appends_to_them(
    name: str, iceberg_spark: Any, tmp_path: Path, counted: Counter[str]
) -> None:
    check(name, tmp_path, iceberg_spark, "iceberg", counted)
