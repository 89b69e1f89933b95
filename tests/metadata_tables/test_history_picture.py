"""The history as a picture, and the changes of columns in it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import harness
from harness.metadata.model.drawing import Bar, Kind, as_svg, section
from harness.metadata.model.text_tables import cell_width
from harness.metadata.tables.history import drawn, history
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


def bar(label: str, added: int, removed: int, value: str, remark: str = "", *, is_rest: bool = False) -> Bar:
    parts = ((Kind.ADDED, added), (Kind.REMOVED, removed))
    return Bar(label=label, parts=parts, value=value, remark=remark, is_rest=is_rest)


def test_an_iceberg_table(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "int", "old": "string", "gone": "string"})
    first = t.append(t.write_data([{"id": i} for i in range(4)]))
    t.create_tag("v1", first)
    t.add_column("new", "string")
    t.drop_column("gone")
    t.rename_column("old", "named")
    t.widen_column("id", "long")
    t.append(*(t.write_data([{"id": 9}]) for _ in range(2)))
    none = {f"{word}-{kind}-deletes": "0" for word in ("added", "removed") for kind in ("position", "equality")}
    t.commit(operation="delete", summary={"deleted-records": "3", "deleted-data-files": "1", **none})
    found = harness.open_table(t.location).history()
    assert [entry["schema_changes"] for entry in found] == [
        *([], ["added new", "dropped gone", "renamed old to named", "retyped id"], [])
    ]
    picture = drawn(found, 3)
    assert picture.note == "3 snapshots, 2023-11-14 22:13:21 to 2023-11-14 22:13:28"  # each change takes a second
    assert picture.bars == (
        bar("2023-11-14 22:13:28 delete", 0, 3, "-3 rows", "ref main, files -1"),
        bar("2023-11-14 22:13:27 append", 2, 0, "+2 rows", f"{', '.join(found[1]['schema_changes'])}, files +2"),
        bar("2023-11-14 22:13:21 append", 4, 0, "+4 rows", "ref v1, files +1"),
    )
    assert drawn(found, 2).bars[1:] == (
        bar("2 earlier", 6, 0, "+6 rows", "4 changes of the schema, files +3", is_rest=True),
    )
    assert "<svg" in found._repr_html_()
    assert "schema_changes" in str(found)
    assert "ref v1" in harness.open_table(t.location)._repr_html_()


@pytest.mark.parametrize("mapping", [None, "name"])
def test_changes_of_a_delta_table(tmp_path, mapping):
    more = {} if mapping is None else {"column_mapping": mapping}
    t = DeltaTable.create(tmp_path / "t", {"id": "int", "old": "string"}, **more)
    t.add_column("new", "string")
    if mapping:
        t.rename_column("old", "named")
        t.drop_column("new")
        t.set_configuration({"a": "b"})  # which says the schema again
    t.append(t.write_data([{"id": 1}]))
    found = history(harness.open_table(str(t.directory)).source)[::-1]
    expected = (
        [[], ["added new"], ["renamed old to named"], ["dropped new"], [], []] if mapping else [[], ["added new"], []]
    )
    assert [entry["schema_changes"] for entry in found] == expected
    assert drawn(found[::-1], 9).bars[0] == bar(
        f"{len(found) - 1} 2023-11-14 22:13:2{len(found) - 1} WRITE", 1, 0, "+1 rows", "files +1"
    )


def test_a_schema_that_nobody_can_read_is_no_change(tmp_path):
    t = DeltaTable.create(tmp_path / "t", {"id": "int"})
    t.set_configuration({"a": "b"})
    t.edit_commit(
        1, lambda actions: [a["metaData"].update(schemaString='{"fields": 1}') for a in actions if "metaData" in a]
    )
    t.set_configuration({"a": None})
    entries = history(harness.open_table(str(t.directory)).source)
    assert [entry["schema_changes"] for entry in entries] == [[], [], []]


def entries_of(number: int, **more) -> list[dict]:
    """As many versions, the newest first; version n adds n rows in two files, and each third removes a row."""
    counts = {"files_added": 2, "files_removed": 0, "bytes_added": 0, "bytes_removed": 0, "schema_changes": []}
    return [
        {"id": n, "timestamp_ms": n * 60_000, "operation": "<script>", "rows_added": n, "rows_removed": int(n % 3 == 0)}
        | counts
        | more
        for n in reversed(range(number))
    ]


@pytest.mark.parametrize(("number", "bars"), [(1, 1), (12, 12), (30, 12), (10_000, 12)])
def test_the_newest_are_drawn_and_the_rest_is_one_bar(number, bars):
    picture = drawn(entries_of(number), 12)
    assert len(picture.bars) == bars
    assert sum(dict(each.parts)[Kind.ADDED] for each in picture.bars) == sum(range(number))
    assert sum(dict(each.parts)[Kind.REMOVED] for each in picture.bars) == (number + 2) // 3
    if number > bars:
        assert picture.bars[-1].label == f"{number - 11:,} earlier"
    for width in (80, 200):
        assert max(map(cell_width, section(picture, width))) <= width
    svg = as_svg(picture)
    assert len(ElementTree.fromstring(svg).findall("{*}g")) == bars
    assert "<script" not in svg
