from pathlib import Path
from typing import Any

import pytest

from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Return a function that creates a table with a schema."""
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 3, **more})
