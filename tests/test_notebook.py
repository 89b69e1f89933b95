"""Notebook output: table contents are escaped, and only the first rows of a table are read; and DataFrames."""

import re
import shutil
from decimal import Decimal
from html.parser import HTMLParser
from uuid import UUID

import pyarrow as pa
import pytest

import harness
from harness.errors import RequestError, UnknownColumnError, size_text
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

EVIL = "</pre><script>alert(1)</script><i a='\"&lt;\x1b\u202e"
TAGS = {"div", "p", "b", "ul", "li", "code", "table", "tr", "th", "td", "pre"}
DRAWN = {"svg", "g", "title", "text", "rect"}
DRAWN_WITH = {
    "class",
    "xmlns",
    "role",
    "aria-label",
    "x",
    "y",
    "width",
    "height",
    "fill",
    "fill-opacity",
    "font-family",
    "font-size",
    "text-anchor",
}


class Parsed(HTMLParser):
    """The elements and the text of an HTML fragment."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(fragment)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> list[harness.Table]:
    """One table of each format, with HTML in names, values, paths, and documentation."""
    place = tmp_path_factory.mktemp("shown") / EVIL.replace("/", "\\").replace("\x1b", "")
    ice = IcebergTable.create(place / "ice", {"id": "long", EVIL: "string"})
    ice.append(ice.write_data([{"id": 1, EVIL: EVIL}]))
    dlt = DeltaTable.create(place / "delta", {"id": "long", EVIL: "string"}, column_mapping="name")
    dlt.append(dlt.write_data([{"id": 2, EVIL: EVIL}]))
    return [harness.open_table(ice.location), harness.open_table(str(dlt.directory))]


def test_a_comparison_shows_its_first_rows():
    left, right = (pa.table({"id": range(100), "v": [value] * 100}) for value in "ab")
    found = harness.compare(left, right, keys=["id"])
    (frame,) = [dict(attrs)["srcdoc"] for tag, attrs in Parsed(found._repr_html_()).tags if tag == "iframe"]
    assert frame.count('<tbody class="difference') == 20
    assert "20 of 100 differing rows" in frame
    assert found.to_html().count('<tbody class="difference') == 100


def test_the_result_of_a_check_is_shown_in_a_line(tables):
    for table in tables:
        assert len(repr(table.check())) < len(table.location) + 100


def test_no_text_of_a_table_is_markup(tables):
    shown = [thing for t in tables for thing in (t, t.snapshot(), t.snapshot().plan(where="id > 0"))]
    shown += [t.metadata("files") for t in tables]
    shown += [t.trace("id > 0", missing=True) for t in tables]
    shown.append(harness.compare(*tables, engines=("duckdb", "duckdb"), keys=["id"]))
    for thing in shown:
        fragment = thing._repr_html_()
        parsed = Parsed(fragment)
        frames = [dict(attrs) for tag, attrs in parsed.tags if tag == "iframe"]
        assert {tag for tag, _ in parsed.tags} <= TAGS | DRAWN | ({"iframe", "details", "summary"} if frames else set())
        assert all(attrs == [] for tag, attrs in parsed.tags if tag not in {"iframe", "pre"} | DRAWN)
        texts = [dict(attrs) for tag, attrs in parsed.tags if tag == "pre"]
        assert all(attrs.keys() == {"tabindex", "style"} and attrs["tabindex"] == "0" for attrs in texts)
        assert all(attrs["style"].startswith("font-family: monospace;") for attrs in texts)
        assert {name for tag, attrs in parsed.tags if tag in DRAWN for name, _ in attrs} <= DRAWN_WITH
        assert all(frame["sandbox"] == "allow-scripts" for frame in frames)
        assert [frame["srcdoc"] for frame in frames] == ([thing.to_html()] if frames else [])
        assert parsed.open == []
        assert not {"\x1b", "\u202e"} & set(fragment)
        assert "script>alert(1)<" in parsed.text, type(thing)


def test_metadata_is_a_table_in_a_notebook_and_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    for number in range(41):
        t.append(t.write_data([{"id": number, "s": "NULL"}]))
    table = harness.open_table(str(t.directory))
    files = table.metadata("files")
    names, types, rule, *rows, note = str(files).splitlines()
    assert names.split()[:2] == ["path", "size"]
    assert types.split()[:2] == ["varchar", "bigint"]
    assert set(rule) == {"-", " "}
    assert note == "(40 of 41 rows; to_arrow() returns all)"
    assert max(map(len, rows)) <= 80
    html = files._repr_html_()
    assert "<th>num_records</th>" in html
    assert "<td><code>bigint</code></td>" in html
    assert html.count("<tr>") == 42
    assert "<td><code>NULL</code></td>" in html
    assert html.endswith("<p>(40 of 41 rows; to_arrow() returns all)</p>")

    found = table.snapshots()
    assert found == table._source.snapshots()
    lines = str(found).splitlines()
    assert lines[0].split() == ["id", "parent_id", "timestamp", "operation"]
    assert lines[2].split() == ["1", "0", "2023-11-14T22:13:21.000Z", "WRITE"]
    assert "<td>2023-11-14T22:13:21.000Z</td>" in found._repr_html_()


def test_a_table_shows_the_size_that_its_metadata_says(tmp_path):
    d = DeltaTable.create(tmp_path / "d", {"id": "long"})
    for number in (1, 2):
        d.append(d.write_data([{"id": number}]))
    text = Parsed(harness.open_table(str(d.directory))._repr_html_()).text
    assert "recorded files: 2" in text
    size = sum(file.stat().st_size for file in d.directory.glob("*.parquet"))
    assert f"recorded bytes: {size_text(size)}" in text
    assert "time: 2023-11-14T22:13:22.000Z" in text

    totals = {"total-records": "3610", "total-data-files": "12", "total-files-size": "many"}
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.commit(add=[t.write_data([{"id": 1}])], summary=totals)
    table = harness.open_table(t.location)
    shutil.rmtree(tmp_path / "t")  # the repr shows the metadata that was read before
    text = Parsed(table._repr_html_()).text
    assert "no rows to show: " in text
    assert "recorded files: 12recorded rows before deletes: 3,610" in text
    assert "recorded bytes" not in text


@pytest.fixture(scope="module")
def exact(tmp_path_factory) -> harness.Snapshot:
    """A snapshot with values that NumPy's types would round, and UUIDs at two levels."""
    columns = {"id": "long", "d": "decimal(38, 2)", "u": "uuid", "l": "list<uuid>"}
    t = IcebergTable.create(tmp_path_factory.mktemp("exact") / "t", columns)
    u = UUID(int=10)
    t.append(t.write_data([{"id": 2**60 + 1, "d": Decimal("1.50"), "u": u, "l": [u]}, {"id": None}]))
    return harness.open_table(t.location).snapshot()


ROWS = [
    {"id": 2**60 + 1, "d": Decimal("1.50"), "u": str(UUID(int=10)), "l": [str(UUID(int=10))]},
    {"id": None, "d": None, "u": None, "l": None},
]


def test_pandas_keeps_values(exact):
    pandas = pytest.importorskip("pandas")
    frame = exact.to_pandas()
    rows = [
        {name: list(v) if name == "l" and v is not pandas.NA and v is not None else v for name, v in row.items()}
        for row in frame.to_dict("records")
    ]
    rows = [{name: None if v is pandas.NA else v for name, v in row.items()} for row in rows]
    assert rows == ROWS
    assert list(exact.to_pandas(columns=["id"], where="id IS NOT NULL")["id"]) == [2**60 + 1]
    assert "1.50" in str(frame["d"])


def test_polars_keeps_values(exact):
    pytest.importorskip("polars")
    assert exact.to_polars().to_dicts() == ROWS


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_the_error_names_the_missing_package(exact, monkeypatch, package, method):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(RequestError, match=f"{package} is not installed; run pip install {package}"):
        getattr(exact, method)()


def test_ipython_shows_the_users_own_lines_and_the_error(tables, tmp_path):
    cell = compile(
        "def first(table):\n    return table.head(1, where='no = 1')\n\nfirst(table)", "<ipython-input-7>", "exec"
    )
    with pytest.raises(UnknownColumnError) as caught:
        exec(cell, {"table": tables[0]})
    here, *shown, last = caught.value._render_traceback_()
    assert re.fullmatch(rf"{re.escape(__file__)}, line \d+: exec\(cell, .*", here)
    assert [line.rpartition(":")[0] for line in shown] == [
        "cell, line 4",
        "cell, line 2",
    ]  # harness's own frames are left out
    assert last == f"UnknownColumnError: {caught.value}"
