from __future__ import annotations

from pathlib import Path
from typing import Any

import on_oracle
import on_spark
import pytest

from harness.engines import union_arms
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture(autouse=True)
def _on_other_engines(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--on-spark"):
        on_spark.session = request.getfixturevalue("spark")
    on_oracle.asked = request.config.getoption("--on-oracle")


@pytest.fixture(params=["by scope", "by sequence number"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a table of a schema. Reads run under either lowering of equality deletes, whatever the table's size."""
    monkeypatch.setattr(union_arms, "joins_by_set", lambda plan: request.param == "by scope")
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **more)
