"""Behavior that the builders of both formats share."""

from pathlib import Path

import pytest

from harness.errors import RequestError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.mark.parametrize("builder", [DeltaTable, IcebergTable])
def test_a_misspelled_type_gets_a_suggestion_when_rows_are_written(
    builder: type[DeltaTable | IcebergTable], tmp_path: Path
) -> None:
    table = builder.create(str(tmp_path / "t"), {"id": "strng"})
    with pytest.raises(RequestError, match="unknown type strng; did you mean string"):
        table.write_data([{"id": "a"}])
