"""The picture of a plan: rows read, deleted and skipped, by partition or by file."""

from dataclasses import replace
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import harness
from harness.metadata.model.drawing import Bar, Kind, as_html, as_svg, section
from harness.metadata.model.schema import DateType
from harness.metadata.model.text_tables import cell_width
from harness.metadata.plan.deletes import PositionDeleteFile, PositionDeletes, PositionFiles
from harness.metadata.plan.layout import layout
from harness.metadata.plan.scan_plan import FILES, Partition, ScanPlan
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

WHERE = "p <> 'c' AND id < 5"


def bar(label: str, read: int, deleted: int, skipped: int, remark: str = "", unit: str = "rows") -> Bar:
    parts = ((Kind.READ, read), (Kind.DELETED, deleted), (Kind.SKIPPED, skipped))
    return Bar(label=label, parts=parts, value=f"{read + deleted + skipped:,} {unit}", remark=remark)


def rows(part: str, *ids: int) -> list[dict]:
    return [{"id": i, "p": part} for i in ids]


def of(table, where=None) -> ScanPlan:
    return harness.open_table(str(table)).snapshot().plan(where=where)


def test_deletes_and_skipped_files_of_an_iceberg_table(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    a, b1 = t.write_data(rows("a", 1, 2, 3, 4)), t.write_data(rows("b", 1, 2))
    t.append(a, b1, t.write_data(rows("b", 10, 11, 12, 13)), t.write_data(rows("c", *range(10))))
    t.commit(add=[t.write_position_deletes([(a, 2)]), t.write_equality_deletes(["id", "p"], rows("b", 1))])
    drawing = layout(of(t.location))
    assert drawing.note == "3 partitions, 20 rows, 1 row deleted"
    assert drawing.bars == (
        bar("p='a'", 3, 1, 0, "25 % deleted"),
        bar("p='b'", 6, 0, 0, "equality deletes"),
        bar("p='c'", 10, 0, 0),
    )
    plan = of(t.location, WHERE)
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
    drawing = layout(of(t.directory, WHERE))
    assert drawing.note == "2 files, 3 rows, 1 row skipped"
    two = replace(bar("two.parquet", 0, 0, 1, "skipped by statistics"), value="1 row")
    assert drawing.bars == (bar("one.parquet", 2, 0, 0), two)
    empty = of(DeltaTable.create(tmp_path / "empty", {"id": "long"}).directory)
    assert layout(empty).bars == ()
    assert "layout" not in empty.explain()
    assert "<svg" not in empty._repr_html_()


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> ScanPlan:
    return of(DeltaTable.create(tmp_path_factory.mktemp("layout") / "t", {"id": "long"}).directory)


def of_partitions(empty: ScanPlan, counts: list[int | None], *, names=None, positions=None) -> ScanPlan:
    """A plan with a file in each of as many partitions, which are days unless they are named."""
    number = len(counts)
    constant = {"format": "parquet", "spec_id": 0, "delete_set": 0}
    columns = {name: [value] * number for name, value in constant.items()} | {
        "path": [f"f{i}" for i in range(number)],
        "physical": [f"f{i}" for i in range(number)],
        "record_count": counts,
        "size": [1 << 20] * number,
        "partition": list(range(number)),
        "sequence_number": [None] * number,
        "first_row_id": [None] * number,
        "commit_version": [None] * number,
        "positions": positions or [None] * number,
    }
    types = {} if names else {1: DateType()}
    values = names or range(19_723, 19_723 + number)  # 2024-01-01
    partitions = tuple(
        Partition(spec_id=0, values={1: value}, constants={}, names={1: "day"}, types=types) for value in values
    )
    files = pa.table({name: columns[name] for name in FILES.names}, schema=FILES)
    return replace(empty, files=files, partitions=partitions)


@pytest.mark.parametrize(("number", "drawn"), [(1, 1), (12, 12), (13, 12), (30, 12), (10_000, 12)])
def test_the_largest_are_drawn_and_the_rest_is_one_bar(empty, number, drawn):
    drawing = layout(of_partitions(empty, [100 + i for i in range(number)][::-1]))  # the first days are the largest
    assert len(drawing.bars) == drawn
    assert drawing.bars[0].label == "day=2024-01-01"
    assert sum(each.size for each in drawing.bars) == sum(range(100, 100 + number))
    if number > drawn:
        rest = drawing.bars[-1]
        assert rest.label == f"{number - 11:,} more partitions"
        assert rest.size == sum(range(100, 100 + number - 11))
    for width in (80, 200):
        lines = section(drawing, width)
        assert len(lines) == drawn + 2
        assert max(map(cell_width, lines)) <= width
    assert len(ElementTree.fromstring(as_svg(drawing)).findall("{*}g")) == drawn


def test_deletes_that_lie_in_several_partitions_are_told_and_not_drawn(empty):
    deletes = PositionDeletes(
        files=tuple(
            PositionDeleteFile(path=p, physical=p, format="parquet", sequence_number=1, partition=0, record_count=count)
            for p, count in (("d", 5), ("e", 300), ("f", None))
        ),
        sets=tuple(PositionFiles((number,)) for number in range(3)),
    )
    plan = of_partitions(empty, [10, 10, 10, 10], positions=[0, 0, 1, 2])
    drawing = layout(replace(plan, position_deletes=deletes))
    assert [each.remark for each in drawing.bars] == [
        "position deletes",
        "position deletes",
        "100 % deleted",
        "position deletes",  # no more than all
    ]
    assert drawing.bars[2].parts[:2] == ((Kind.READ, 0), (Kind.DELETED, 10))


def test_numbers_are_ordered_and_lies_drawn(empty):
    plan = of_partitions(empty, [2**63 - 1, -5, 2**62], names=[10, 9, "<script>\x1b"])
    drawing = layout(plan)
    assert [each.label for each in drawing.bars] == ["day=9", "day=10", r"day='<script>\x1b'"]
    assert [each.size for each in drawing.bars] == [0, 2**53, 2**53]
    assert "<script" not in as_html(drawing)
    assert ElementTree.fromstring(as_svg(drawing)) is not None
