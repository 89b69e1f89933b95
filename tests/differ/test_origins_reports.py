"""Every report names a differing row's file, its position, and the delete that hides it on the other side."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.mark.parametrize("kind", ["position", "equality", "vector"])
@pytest.mark.parametrize("report", ["to_text", "to_json", "to_junit", "to_html"])
def test_the_delete_that_hides_a_row_is_named(tmp_path: Path, kind: str, report: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3 if kind == "vector" else 2)
    data = table.write_data([{"id": 10}, {"id": 20}, {"id": 30}])
    table.append(data)
    match kind:
        case "position":
            table.commit(add=[table.write_position_deletes([(data, 1)])])
        case "equality":
            table.commit(add=[table.write_equality_deletes(["id"], [{"id": 20}])])
        case _:
            table.commit(add=[*table.write_deletion_vectors({data: [1]})])
    opened = harness.open_table(str(tmp_path / "t"))
    before, after = (opened.snapshot(entry["id"]) for entry in opened.snapshots())
    found = harness.compare(before, after)
    ((origin,),) = [row.left_origins for row in found.rows]
    (deletes,) = origin.hidden_by
    assert (Path(origin.file).name, origin.position) == (Path(data.file).name, 1)
    assert "deletes" in deletes
    text = getattr(found, report)()
    assert Path(data.file).name in text
    assert Path(deletes).name in text
