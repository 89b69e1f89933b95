"""The picture of a plan: rows read, deleted and skipped, by partition or by file."""

from dataclasses import replace

import harness
from harness.metadata.model.drawing import Bar, BarKind
from harness.metadata.plan.layout import layout
from harness.metadata.plan.scan_plan import ScanPlan
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

WHERE = "p <> 'c' AND id < 5"


def bar(label: str, read: int, deleted: int, skipped: int, remark: str = "", unit: str = "rows") -> Bar:
    parts = ((BarKind.READ, read), (BarKind.DELETED, deleted), (BarKind.SKIPPED, skipped))
    return Bar(label=label, parts=parts, value=f"{read + deleted + skipped:,} {unit}", remark=remark)


def rows(part: str, *ids: int) -> list[dict]:
    return [{"id": i, "p": part} for i in ids]


def plan_of(table, where=None) -> ScanPlan:
    return harness.open_table(str(table)).snapshot().plan(where=where)


def test_deletes_and_skipped_files_of_an_iceberg_table(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    a, b1 = t.write_data(rows("a", 1, 2, 3, 4)), t.write_data(rows("b", 1, 2))
    t.append(a, b1, t.write_data(rows("b", 10, 11, 12, 13)), t.write_data(rows("c", *range(10))))
    t.commit(add=[t.write_position_deletes([(a, 2)]), t.write_equality_deletes(["id", "p"], rows("b", 1))])
    drawing = layout(plan_of(t.location))
    assert drawing.note == "3 partitions, 20 rows, 1 row deleted"
    assert drawing.bars == (
        bar("p='a'", 3, 1, 0, "25 % deleted"),
        bar("p='b'", 6, 0, 0, "equality deletes"),
        bar("p='c'", 10, 0, 0),
    )
    plan = plan_of(t.location, WHERE)
    drawing = layout(plan)
    assert drawing.note == "3 partitions, 20 rows, 14 rows skipped, 1 row deleted"
    assert drawing.bars == (
        bar("p='a'", 3, 1, 0, "25 % deleted"),
        bar("p='b'", 2, 0, 4, "equality deletes, 1 of 2 files skipped by statistics"),
        bar("p='c'", 0, 0, 10, "skipped by partition"),
    )
    text = plan.explain(width=100)
    assert "\n  p='b'  ███" in text
    assert text.index("layout: ") < text.index("\nread:\n")
    assert "<svg" in plan._repr_html_()


def test_an_unpartitioned_table_has_a_bar_per_file(tmp_path):
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "p": "string"})
    t.append(t.write_data(rows("x", 1, 2), path="one.parquet"), t.write_data(rows("x", 9), path="two.parquet"))
    drawing = layout(plan_of(t.directory, WHERE))
    assert drawing.note == "2 files, 3 rows, 1 row skipped"
    two = replace(bar("two.parquet", 0, 0, 1, "skipped by statistics"), value="1 row")
    assert drawing.bars == (bar("one.parquet", 2, 0, 0), two)
    empty = plan_of(DeltaTable.create(tmp_path / "empty", {"id": "long"}).directory)
    assert layout(empty).bars == ()
    assert "layout" not in empty.explain()
    assert "<svg" not in empty._repr_html_()
