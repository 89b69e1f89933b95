"""Reports of one comparison as text, JSON, JUnit and HTML; a browser has the page in test_html_in_chromium.py."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from comparing import ALL, CHANGED, CUT, EQUAL, FAILED, KEYED, LEFT, OUTCOME, PLACED, UNKEYED, with_value

from harness.diff.reports.documents import to_json, to_junit
from harness.diff.reports.html import MOST_ROWS, to_html
from harness.diff.reports.text import to_text
from harness.diff.result import ColumnDifference, GroupDifference, ReportProvenance, RowDifference, RowKind

NASTY = ["\x00", "\x1b[31m", "\ufffe", "\ud800", "]]>", "<a b='c'>&amp;\"", "a\r\nb\tc", "\u202e", "\x85\u2028", "é日"]
NASTY += ['a"b\\', "</script><img src=x onerror=alert(1)>", "'\" onmouseover=alert(1) x='"]
SIDES = """\
left   orders  duckdb 2.0.0, lake/orders, snapshot 4  1,000 rows
right  orders  spark 4.3.0, lake/orders, snapshot 4     999 rows
"""
TEXT = f"""\
different: 1 row changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema

{SIDES}compared 3 columns: id, region, total; rows paired by id

schema
     column   left           right
  !  total    decimal(10,2)  decimal(12,2)  different type
  !  channel  string         -              only on the left
     id       not null       nullable       different nullability (does not count)

rows (4 of 4 shown)
        id  region       total
  ~     7   'eu' → 'us'  1.50
        left: data/1.parquet, row 6
        right: data/1.parquet, row 6
  - 2x  9   'eu'         2.00
        left: data/1.parquet, row 8, hidden on the right by data/3-deletes.parquet
        left: data/2.parquet, row 0
  +     11  NULL         NULL
"""
TEXT_WITHOUT_KEYS = f"""\
different: 3 rows only on the left, 2 rows only on the right

{SIDES}compared 3 columns: id, region, total

rows (5 of 5 shown)
        id  region  total
  -     7   'eu'    1.50
  +     7   'us'    1.50
            ^^^^
        left: data/1.parquet, row 6
        right: data/1.parquet, row 6
  - 2x  9   'eu'    2.00
        left: data/1.parquet, row 8, hidden on the right by data/3-deletes.parquet
        left: data/2.parquet, row 0
  +     11  NULL    NULL
"""
WIDE = """\
  1. changed
        column     - left      + right
        column_0   'value 0'   'value 0'
     !  column_17  'value 17'  'other'
     28 equal columns left out
  2. only on the right, 3 times
       column     + right
       column_0   'value 0'
"""


def test_text() -> None:
    assert to_text(KEYED) == TEXT
    assert to_text(UNKEYED) == TEXT_WITHOUT_KEYS
    lines = to_text(CUT).splitlines()
    assert "rows (4 of 1,237 shown)" in lines
    assert lines[-1] == "1,233 more differing rows not shown; the counts above are exact"
    both = to_text(FAILED)
    assert both.startswith("could not compare: both sides failed\n")
    assert "left failed: CorruptFileError: Cannot read file: it is torn" in both
    assert both.endswith("right failed: EngineError: Cannot run the plan: executor lost [Engine; table lake/orders]\n")


def test_wide_rows_are_lists_of_columns_in_text() -> None:
    left = tuple(f"'value {number}'" for number in range(30))
    right = (*left[:17], "'other'", *left[18:])
    rows = (
        replace(CHANGED, left=left, right=right, differing=("column_17",), left_origins=(), right_origins=()),
        RowDifference(kind=RowKind.ONLY_RIGHT, left=None, right=right, count=3),
    )
    names = tuple(f"column_{number}" for number in range(30))
    wide = replace(KEYED, columns=names, keys=("column_0",), rows=rows, schema=(), only_left=0, only_right=3)
    assert WIDE in to_text(wide)


def test_long_values_are_cut_in_text_where_they_agree() -> None:
    left, right = "a" * 500 + "LEFT" + "z" * 500, "a" * 500 + "RIGHT" + "z" * 500
    row = replace(CHANGED, left=("7", left, "1.50"), right=("7", right, "1.50"))
    text = to_text(replace(KEYED, rows=(row,), only_left=0, only_right=0))
    assert f"…{'a' * 14}LEFT{'z' * 40}…" in text
    assert f"…{'a' * 14}RIGHT{'z' * 39}…" in text
    assert "values longer than 60 characters are cut (…); the JSON report shows more of them" in text


def test_columns_and_groups_come_before_rows_in_text() -> None:
    by_column = (
        ColumnDifference(column="region", rows=1, right_nulls=1, examples=(("'eu'", "NULL"),)),
        ColumnDifference(column="total", rows=1200, allowed=3, largest="0.50", examples=(("1.50", "2.00"),)),
    )
    by_group = (GroupDifference(values=("2024-06-01",), changed=3, only_right=1),)
    found = replace(KEYED, relaxations=("tolerance of total: 0.01",), allowed=3, by_column=by_column)
    found = replace(found, grouped_by=("day",), by_group=by_group, groups=2)
    assert (
        "by day: all 4 differing rows, 1 more not shown\n"
        "  2024-06-01  ████████████████████████████░░░░░░░░░░  4  3 changed, 1 only right\n"
        "  █ changed  ░ only on the right\n\ncolumns (2 of 3 differ)\n"
    ) in to_text(found, 80)
    assert "not counted as differences\n  tolerance of total: 0.01\n  3 rows within tolerances\n" in to_text(found)
    assert (
        "columns (2 of 3 differ)\n"
        "   column   rows  within tolerance  largest difference  null right  examples\n"
        "   total   1,200                 3                0.50              1.50 → 2.00\n"
        "   region      1                                                 1  'eu' → NULL\n\nrows ("
    ) in to_text(found)
    assert "\ncolumns (60 of 3 differ; the 40 with most rows)\n" in to_text(PLACED)


def test_a_printed_comparison_is_its_verdict_and_its_sides() -> None:
    assert str(CUT) == (
        "different: 1,234 rows changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema"
        "\n  left: orders, duckdb 2.0.0, lake/orders, snapshot 4, returned 1,000 rows"
        "\n  right: orders, spark 4.3.0, lake/orders, snapshot 4, returned 999 rows\n  full report: .to_text()"
    )
    assert str(OUTCOME).splitlines()[2].endswith(", failed with EngineError")
    assert repr(EQUAL) == "ComparisonResult(equal: no difference in 1,000 rows)"


def row(kind: str, left: list[str] | None, right: list[str] | None, *origins: tuple, count: int = 1, **more) -> dict:
    said = [{"file": f"data/{file}.parquet", "position": at, "hidden_by": by} for file, at, by in origins]
    plain = {"differing": [], "partner": None, "left_origins": said, "right_origins": []}
    plain |= {"parts": [], "has_more_parts": False}
    return {"kind": kind, "count": count, "left": left, "right": right, **plain, **more}


def test_json() -> None:
    document = json.loads(to_json(KEYED))
    side = {"name": "orders", "table": "lake/orders", "snapshot": 4, "error": None}
    total, channel, id_ = (
        {"column": column, "kind": kind, "left": left, "right": right, "rule": None, "counts": kind != "nullable"}
        for column, kind, left, right in (
            ("total", "type", "decimal(10,2)", "decimal(12,2)"),
            ("channel", "only_left", "string", None),
            ("id", "nullable", "not null", "nullable"),
        )
    )
    changed = row("changed", ["7", "'eu'", "1.50"], ["7", "'us'", "1.50"], (1, 6, []), differing=["region"])
    gone = row("only_left", ["9", "'eu'", "2.00"], None, (1, 8, ["data/3-deletes.parquet"]), (2, 0, []), count=2)
    rows = [changed | {"right_origins": changed["left_origins"]}, gone, row("only_right", None, ["11", "NULL", "NULL"])]
    assert document == {
        "format": 1,
        "kind": "comparison",
        "verdict": "different",
        "made": None,
        "schema": [total, channel, id_],
        "summary": "1 row changed, 2 rows only on the left, 1 row only on the right, 2 columns of different schema",
        "left": side | {"engine": "duckdb 2.0.0", "rows": 1000},
        "right": side | {"engine": "spark 4.3.0", "rows": 999},
        "columns": ["id", "region", "total"],
        "keys": ["id"],
        "rows": rows,
        "only_left": 2,
        "only_right": 1,
        "changed": 1,
        "truncated": False,
        "allowed": 0,
        "relaxations": [],
        "schema_only": False,
        "by_column": [],
        "grouped_by": [],
        "groups": 0,
        "by_group": [],
        "by_key": None,
        "by_file": None,
    }
    failed = json.loads(to_json(replace(OUTCOME, left=replace(LEFT, snapshot=2**53 + 1))))
    assert (failed["verdict"], failed["left"]["snapshot"]) == ("different outcome", "9007199254740993")
    message = "Cannot run the plan: executor lost [Engine; table lake/orders]"
    assert failed["right"]["error"] == {"class": "EngineError", "cause": "Engine", "rule": None, "message": message}


def suite(comparison) -> ElementTree.Element:
    (only,) = ElementTree.fromstring(to_junit(comparison).encode("utf-8"))
    return only


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("equal", ["passed", "passed", "passed"]),
        ("keyed", ["passed", "failure", "failure"]),
        ("unkeyed", ["passed", "passed", "failure"]),
        ("outcome", ["failure", "skipped", "skipped"]),
        ("failed", ["error", "skipped", "skipped"]),
    ],
)
def test_junit(name: str, expected: list[str]) -> None:
    cases = list(suite(ALL[name]).iter("testcase"))
    assert [case.get("name") for case in cases] == ["outcome", "schema", "rows"]
    assert [case[0].tag if len(case) else "passed" for case in cases] == expected
    problems = [child for case in cases for child in case if child.tag != "skipped"]
    assert all(problem.text == "\n" + to_text(ALL[name]) for problem in problems)
    properties = {each.get("name"): each.get("value") for each in suite(OUTCOME).iter("property")}
    assert (properties["left.engine"], properties["left.snapshot"]) == ("duckdb 2.0.0", "4")
    assert "left.error" not in properties
    assert properties["right.error"] == "Cannot run the plan: executor lost [Engine; table lake/orders]"


class Page(HTMLParser):
    """Tags in order, open ones as a stack, and the text outside of style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[str]]] = []
        self.stack: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, sorted(name for name, _ in attrs)))
        self.stack += [tag] if tag not in ("meta", "input") else []

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += "" if {"style", "script"} & set(self.stack) else data


def words(comparison) -> str:
    return " ".join(Page(to_html(comparison)).text.split())


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_from_anywhere(name: str) -> None:
    page = Page(to_html(ALL[name]))
    attributes = {key for _, names in page.tags for key in names}
    assert attributes.isdisjoint({"src", "href", "srcset", "action", "data", "style", "onclick", "onerror"})
    assert (page.stack, "url(" in to_html(ALL[name]), "@import" in to_html(ALL[name])) == ([], False, False)
    assert "default-src 'none'" in to_html(ALL[name])


def test_html() -> None:
    shown = words(
        replace(KEYED, made=ReportProvenance(at="2026-01-02T03:04:05Z", version="1.2", command="harness diff '<a>' b"))
    )
    assert "Differences found 1 row changed, 2 rows only on the left, 1 row only on the right" in shown
    assert "harness 1.2, 2026-01-02T03:04:05Z: harness diff '<a>' b" in shown
    assert "data/1.parquet, row 8, hidden on the right by data/3-deletes.parquet" in shown
    assert "similar, not equal" in words(UNKEYED)
    assert "Could not compare both sides failed" in words(FAILED)
    rows = tuple(replace(CHANGED, left=(str(n), "a", "1"), right=(str(n), "b", "1")) for n in range(MOST_ROWS + 1))
    shown = words(replace(KEYED, rows=rows, changed=MOST_ROWS + 1, only_left=0, only_right=0))
    assert "5,000 of 5,001 differing rows are in this report. A page ends at 5,000;" in shown
    assert "--output rows.json, has as many as --max-rows (max_rows in Python)" in shown
    assert (" 4999 " in shown, " 5000 " in shown) == (True, False)


@pytest.mark.parametrize("value", NASTY, ids=ascii)
def test_no_value_is_more_than_a_value(value: str) -> None:
    found = with_value(value)
    text, page = to_text(found), Page(to_html(found))
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert text.count("\n") == to_text(with_value("v")).count("\n")
    assert json.loads(to_json(found))["rows"][0]["left"] == ["1", value]
    assert next(suite(found).iter("failure")).text == "\n" + text
    assert page.tags == Page(to_html(with_value("v"))).tags
    assert not value.isprintable() or value in page.text
    for report in (text, to_json(found), to_html(found)):
        report.encode("utf-8")
