from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.engines import union_arms
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture(params=["by scope", "by sequence number"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a table of a schema. Reads run under either lowering of equality deletes, whatever the table's size."""
    monkeypatch.setattr(union_arms, "joins_by_set", lambda plan: request.param == "by scope")
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **more)
