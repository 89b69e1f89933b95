from __future__ import annotations

from dataclasses import replace

import pytest
from comparing import ALL, CHANGED, CUT, EQUAL, FAILED, KEYED, OUTCOME, UNKEYED, with_value

from harness.differ.reports.text import to_text
from harness.differ.result import ColumnDifference, GroupDifference, RowDifference, RowKind

SIDES = """\
left   orders  duckdb 2.0.0, lake/orders, snapshot 4  1,000 rows
right  orders  spark 4.3.0, lake/orders, snapshot 4     999 rows
"""


def test_a_changed_row_is_one_line_with_both_values_of_what_differs():
    assert to_text(KEYED) == (
        "different: 1 row changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema\n"
        "\n" + SIDES + "compared 3 columns: id, region, total; rows paired by id\n"
        "\n"
        "schema\n"
        "     column   left           right\n"
        "  !  total    decimal(10,2)  decimal(12,2)  different type\n"
        "  !  channel  string         -              only on the left\n"
        "     id       not null       nullable       different nullability (does not count)\n"
        "\n"
        "rows (4 of 4 shown)\n"
        "        id  region       total\n"
        "  ~     7   'eu' → 'us'  1.50\n"
        "        left: data/1.parquet, row 6\n"
        "        right: data/1.parquet, row 6\n"
        "  - 2x  9   'eu'         2.00\n"
        "        left: data/1.parquet, row 8, hidden on the right by data/3-deletes.parquet\n"
        "        left: data/2.parquet, row 0\n"
        "  +     11  NULL         NULL\n"
    )


def test_without_keys_alike_rows_face_each_other():
    assert to_text(UNKEYED) == (
        "different: 3 rows only on the left, 2 rows only on the right\n"
        "\n" + SIDES + "compared 3 columns: id, region, total\n"
        "\n"
        "rows (5 of 5 shown)\n"
        "        id  region  total\n"
        "  -     7   'eu'    1.50\n"
        "  +     7   'us'    1.50\n"
        "            ^^^^\n"
        "        left: data/1.parquet, row 6\n"
        "        right: data/1.parquet, row 6\n"
        "  - 2x  9   'eu'    2.00\n"
        "        left: data/1.parquet, row 8, hidden on the right by data/3-deletes.parquet\n"
        "        left: data/2.parquet, row 0\n"
        "  +     11  NULL    NULL\n"
    )


def test_what_is_left_out_is_said_and_the_counts_stay_exact():
    lines = to_text(CUT).splitlines()
    assert lines[0].startswith("different: 1,234 rows changed, 2 rows only on the left")
    assert "rows (4 of 1,237 shown)" in lines
    assert lines[-1] == "1,233 more differing rows not shown; the counts above are exact"


def test_a_side_that_failed_says_why():
    text = to_text(OUTCOME)
    assert text.startswith("different outcome: the left side gave 1,000 rows, the right side failed with EngineError\n")
    assert text.endswith("right failed: EngineError: Cannot run the plan: executor lost [Engine; table lake/orders]\n")
    both = to_text(FAILED)
    assert both.startswith("could not compare: both sides failed\n")
    assert "left failed: CorruptFileError: Cannot read file: it is torn" in both
    assert "right failed: EngineError: Cannot run the plan: executor lost" in both


def test_wide_rows_are_lists_of_columns():
    names = tuple(f"column_{number}" for number in range(30))
    left = tuple(f"'value {number}'" for number in range(30))
    right = (*left[:17], "'other'", *left[18:])
    rows = (
        replace(CHANGED, left=left, right=right, differing=("column_17",), left_origins=(), right_origins=()),
        RowDifference(kind=RowKind.ONLY_RIGHT, left=None, right=right, count=3),
    )
    wide = replace(KEYED, columns=names, keys=("column_0",), rows=rows, schema=(), only_left=0, only_right=3)
    assert (
        "  1. changed\n"
        "        column     - left      + right\n"
        "        column_0   'value 0'   'value 0'\n"
        "     !  column_17  'value 17'  'other'\n"
        "     28 equal columns left out\n"
        "  2. only on the right, 3 times\n"
        "       column     + right\n"
        "       column_0   'value 0'\n"
    ) in to_text(wide)


def test_long_values_are_cut_where_they_agree():
    left, right = "a" * 500 + "LEFT" + "z" * 500, "a" * 500 + "RIGHT" + "z" * 500
    row = replace(CHANGED, left=("7", left, "1.50"), right=("7", right, "1.50"))
    text = to_text(replace(KEYED, rows=(row,), only_left=0, only_right=0))
    assert f"…{'a' * 14}LEFT{'z' * 40}…" in text
    assert f"…{'a' * 14}RIGHT{'z' * 39}…" in text
    assert "values longer than 60 characters are cut (…); the JSON report shows more of them" in text
    assert max(map(len, text.splitlines())) < 160


def test_a_printed_comparison_is_its_verdict_and_its_sides():
    assert str(CUT) == (
        "different: 1,234 rows changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema"
        "\n  left: orders, duckdb 2.0.0, lake/orders, snapshot 4, gave 1,000 rows"
        "\n  right: orders, spark 4.3.0, lake/orders, snapshot 4, gave 999 rows\n  all of it: .to_text()"
    )
    assert str(OUTCOME).splitlines()[2].endswith(", failed with EngineError")
    assert repr(EQUAL) == "ComparisonResult(equal: no difference in 1,000 rows)"


@pytest.mark.parametrize("name", ALL)
def test_lines_end_without_blanks(name):
    assert all(line == line.rstrip() for line in to_text(ALL[name]).split("\n"))


@pytest.mark.parametrize("value", ["\x1b[31m", "a\r\nb", "\x00", "\ud800", "\u202e", "\x85\u2028"], ids=ascii)
def test_no_value_steers_the_terminal(value):
    text = to_text(with_value(value))
    text.encode("utf-8")
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert text.count("\n") == to_text(with_value("v")).count("\n")


def test_columns_and_groups_come_before_rows():
    found = replace(
        KEYED,
        relaxations=("tolerance of total: 0.01",),
        allowed=3,
        by_column=(
            ColumnDifference(column="region", rows=1, right_nulls=1, examples=(("'eu'", "NULL"),)),
            ColumnDifference(column="total", rows=1200, allowed=3, largest="0.50", examples=(("1.50", "2.00"),)),
        ),
        grouped_by=("day",),
        by_group=(GroupDifference(values=("2024-06-01",), changed=3, only_right=1),),
        groups=2,
    )
    text = to_text(found)
    assert (
        "by day: all 4 differing rows, 1 more not shown\n"
        "  2024-06-01  ████████████████████████████░░░░░░░░░░  4  3 changed, 1 only right\n"
        "  █ changed  ░ only on the right\n"
        "\n"
        "columns (2 of 3 differ)\n" in to_text(found, 80)
    )
    assert "let pass\n  tolerance of total: 0.01\n  3 rows within tolerances, which is no difference\n" in text
    assert (
        "columns (2 of 3 differ)\n"
        "   column   rows  within tolerance  largest difference  null right  examples\n"
        "   total   1,200                 3                0.50              1.50 → 2.00\n"
        "   region      1                                                 1  'eu' → NULL\n"
        "\nrows (" in text
    )
