"""The columns, ranges, partitions and files of differing rows, counted by hand, and their charts."""

import re
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pytest
from comparing import PLACED

import harness
from harness.diff.exact import Difference, DifferingRow
from harness.diff.reports.where import where_html, where_lines
from harness.diff.result import ColumnDifference, GroupDifference, RowKind, Spread
from harness.diff.spread import spread_by_key
from harness.metadata.model.text_tables import cell_width
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

LEFT = RowKind.ONLY_LEFT
EVIL = "</text><script>alert(1)</script>\x1b[31m\u202e&\"'"


def counts(spread: Spread | None) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of changed, only left and only right rows by place, without empty places."""
    assert spread is not None
    found = {" ".join(p.values): (p.changed, p.only_left, p.only_right) for p in spread.places}
    return {place: numbers for place, numbers in found.items() if any(numbers)}


def test_ranges_have_equal_width_between_the_keys_of_both_sides() -> None:
    left = pa.table({"id": range(100), "v": [0] * 100})
    right = pa.table({"id": [*range(10, 20), *range(25, 120)], "v": [1] * 3 + [0] * 102})
    found = harness.compare(left, right, keys=["id"])
    assert found.by_key is not None
    # 0 to 119 are 120 numbers: 20 ranges of 6
    assert [place.values[0] for place in found.by_key.places][:2] == ["0 to 5", "6 to 11"]
    assert (len(found.by_key.places), found.by_key.rows, found.by_key.is_whole) == (20, 38, True)
    assert counts(found.by_key) == {
        "0 to 5": (0, 6, 0),
        "6 to 11": (2, 4, 0),
        "12 to 17": (1, 0, 0),
        "18 to 23": (0, 4, 0),
        "24 to 29": (0, 1, 0),
        "96 to 101": (0, 0, 2),
        "102 to 107": (0, 0, 6),
        "108 to 113": (0, 0, 6),
        "114 to 119": (0, 0, 6),
    }


def only_left(keys: pa.Array | list[Any], among: pa.Array | None = None) -> Spread:
    """Return the rows of some keys, all of them only on the left.

    Args:
        keys: The keys of the rows.
        among: The keys of all rows. None means the same keys.
    """
    array = pa.array(keys)
    rows = tuple(DifferingRow(LEFT, i, None) for i in range(len(array)))
    tables = (pa.table({"k": array}), pa.table({"k": array[:0] if among is None else among.cast(array.type)}))
    return spread_by_key(Difference(differing=rows, only_left=len(rows)), tables, "k", is_whole=True)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([7], {"7": 1}),
        ([3, 3 + 10**30, None], None),
        ([1, 2, 4], {"1": 1, "2": 1, "4": 1}),
        ([0, 39], {"0 to 1": 1, "38 to 39": 1}),
        ([Decimal("0.00"), Decimal("0.39"), None], {"0.00 to 0.01": 1, "0.38 to 0.39": 1, "NULL": 1}),
        ([0.0, 10.0, -0.0, float("nan"), float("inf")], {"from 0": 2, "from 9.5": 1, "NaN": 1, "inf": 1}),
        ([-0.0, 20.0], {"from 0": 1, "from 19": 1}),
        ([1.5], {"from 1.5": 1}),
        (pa.array([-(2**63)], pa.timestamp("s")), {"from -292277022657-01-27 08:29:52": 1}),
        (pa.array([86_400_000 * 10**11], pa.date64()), {"+273792670-09-13": 1}),
        ([date(2024, 1, 1), date(2024, 2, 9)], {"2024-01-01 to 2024-01-02": 1, "2024-02-08 to 2024-02-09": 1}),
        (
            [datetime(2024, 1, 1, 5), datetime(2024, 2, 9, 7)],  # whole days
            {"from 2024-01-01 00:00:00": 1, "from 2024-02-08 00:00:00": 1},
        ),
        (
            pa.array([0, 39 * 3600], pa.timestamp("s", "Europe/Berlin")),
            {"from 1970-01-01 00:00:00Z": 1, "from 1970-01-02 14:00:00Z": 1},
        ),
        (pa.array([0, 5], pa.timestamp("ns")), {"from 1970-01-01 00:00:00": 2}),
        (["a", "c", None], {"'a'": 1, "'c'": 1, "NULL": 1}),
        ([f"{n:02}" for n in range(40)], {f"from '{n:02}'": 2 for n in range(0, 40, 2)}),
        ([True, False], {"false": 1, "true": 1}),
        (pa.array([None], pa.int64()), {"NULL": 1}),
    ],
    ids=str,
)
def test_every_type_has_ranges(keys: Any, expected: dict[str, int] | None) -> None:
    if expected is None:
        keys = pa.array([Decimal(key) if key else None for key in keys], pa.decimal256(40, 0))
        expected = {"3 to 50000000000000000000000000003": 1, "950000000000000000000000000004 to " + str(3 + 10**30): 1}
        expected["NULL"] = 1
    found = only_left(keys)
    assert {place: numbers[1] for place, numbers in counts(found).items()} == expected
    assert found.rows == len(keys)


@pytest.mark.parametrize("direct_rows", [50_000, 0], ids=["in-memory", "by-hashes"])
def test_a_composite_key_is_placed_by_its_first_column(direct_rows: int) -> None:
    left = pa.table({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2], "v": [1, 1, 1, 1]})
    right = pa.table({"a": [1, 2, 2, 3], "b": [1, 1, 2, 1], "v": [2, 2, 1, 1]})
    found = harness.compare(left, right, keys=["a", "b"], direct_rows=direct_rows)
    assert counts(found.by_key) == {"1": (1, 1, 0), "2": (1, 0, 0), "3": (0, 0, 1)}
    assert found.by_key is not None
    assert found.by_key.is_whole is (direct_rows > 0)


def test_files_are_counted_over_more_rows_than_are_shown(tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "v": "long"})
    a, b = (table.write_data([{"id": i, "v": 0} for i in range(start, start + 100)]) for start in (0, 100))
    table.append(a, b)
    c = table.write_data([{"id": i, "v": 1} for i in range(90, 120)] + [{"id": 200, "v": 0}])
    table.commit(
        add=[c, table.write_position_deletes([*((a, i) for i in range(90, 100)), *((b, i) for i in range(25))])]
    )
    opened = harness.open_table(str(tmp_path / "t"))
    before, after = (opened.snapshot(entry["id"]) for entry in opened.snapshots())
    for found in (harness.compare(before, after, keys=["id"], max_rows=most) for most in (1, 100)):
        # 30 rows changed: 10 of a and 20 of b were removed and are in c; 5 more of b were deleted, and one is new in c
        assert found.by_file is not None
        assert (found.by_file.rows, found.by_file.total) == (36, 3)
        assert [(*p.values, p.changed, p.only_left, p.only_right) for p in found.by_file.places] == [
            ("right", c.path, 30, 0, 1),
            ("left", b.path, 20, 5, 0),
            ("left", a.path, 10, 0, 0),
        ]
    text = found.to_text()
    assert f"below{Path(a.path).parent}" in "".join(text.split())
    assert re.search(rf"\n  {Path(b.path).name} .* 25  left: 20 changed, 5 only left\n", text)


@pytest.mark.parametrize("value", ["day=2024-01-01", "x" * 300, "世界" * 90, EVIL])
def test_no_line_is_wide_and_no_text_is_markup(value: str) -> None:
    place = GroupDifference(values=("left", value), changed=2, only_left=1)
    found = replace(
        PLACED,
        keys=(value,),
        grouped_by=(value, value),
        by_column=(ColumnDifference(column=value, rows=3),),
        by_group=(place, place),
        by_key=Spread(places=(GroupDifference(values=(value,), changed=1),) * 20, rows=20, total=20),
        by_file=Spread(places=(place,), rows=1, total=9),
    )
    for width in (60, 80, 200):
        for line in (*where_lines(found, width=width), *where_lines(PLACED, width=width)):
            assert cell_width(line) <= width, line
            assert line.isprintable()
    page = "".join(where_html(found))
    pictures = re.findall(r"<svg .*?</svg>", page)
    assert len(pictures) == 4
    for picture in pictures:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
        assert tags <= {"svg", "g", "title", "text", "rect"}
    assert "<script" not in page
    assert not {"\x1b", "\u202e"} & set(page)


ROWS = [{"id": i, "day": day, "v": i} for i, day in enumerate(["mon", "mon", "tue", "wed"])]
OTHER = pa.table({"id": [0, 1, 2, 3], "day": ["mon", "mon", "tue", "wed"], "v": [-1, -1, -1, 3]})
BY_DAY = {GroupDifference(values=("'mon'",), changed=2), GroupDifference(values=("'tue'",), changed=1)}


def iceberg(place: Path) -> harness.Table:
    spec = [("day", "identity"), ("id", "bucket[4]")]
    t = IcebergTable.create(place, {"id": "int", "day": "string", "v": "int"}, partition_spec=spec)
    t.append(*t.write_partitioned(ROWS))
    return harness.open_table(t.location)


def delta(place: Path) -> harness.Table:
    t = DeltaTable.create(place, {"id": "integer", "day": "string", "v": "integer"}, partition_columns=["day"])
    t.append(*t.write_partitioned(ROWS))
    return harness.open_table(str(place))


@pytest.mark.parametrize("direct_rows", [50_000, 0], ids=["in-memory", "by-hashes"])
@pytest.mark.parametrize("make", [iceberg, delta])
def test_partition_columns(tmp_path: Path, make: Any, direct_rows: int) -> None:
    sides = (make(tmp_path / "t"), duckdb.connect().from_arrow(OTHER))
    how = {"keys": ["id"], "direct_rows": direct_rows}
    for found in (harness.compare(*sides, **how), harness.compare(*sides[::-1], **how)):
        assert (found.grouped_by, set(found.by_group), found.groups) == (("day",), BY_DAY, 2)
    assert harness.compare(*sides, max_rows=0, **how).groups == 2
    assert harness.compare(sides[0], sides[0], **how).grouped_by == ()
    assert harness.compare(sides[0], OTHER.drop_columns(["day"]), **how).grouped_by == ()
