from __future__ import annotations

import io
import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli.query import run
from harness.cli.rows import QueryRows
from harness.cli.text_table import text_lines
from harness.cli.writers import RowFormat, write_rows
from harness.errors import RequestError

ROWS = pa.table({"id": pa.array([1, None, 30]), "name": ["a", "", None]})


def written(table: pa.Table, row_format: RowFormat) -> bytes:
    stream = io.BytesIO()
    write_rows(QueryRows.of(table), row_format, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("row_format", "expected"),
    [
        (RowFormat.TEXT, "  id  name\n----  ----\n   1  a\nNULL\n  30  NULL\n"),
        (RowFormat.CSV, 'id,name\n1,a\n,""\n30,\n'),
        (RowFormat.JSONL, '{"id": 1, "name": "a"}\n{"id": null, "name": ""}\n{"id": 30, "name": null}\n'),
        (
            RowFormat.JSON,
            '{"format": 1, "kind": "rows", "columns": [{"name": "id", "type": "int64"}, '
            '{"name": "name", "type": "string"}], "rows": [\n[1, "a"],\n[null, ""],\n[30, null]\n], "row_count": 3}\n',
        ),
    ],
    ids=lambda value: value.value if isinstance(value, RowFormat) else "",
)
def test_rows_as_text(row_format, expected):
    assert written(ROWS, row_format).decode() == expected


@pytest.mark.parametrize(
    ("row_format", "expected"),
    [
        (RowFormat.TEXT, "id  name\n--  ----\n"),
        (RowFormat.CSV, "id,name\n"),
        (RowFormat.JSONL, ""),
    ],
    ids=lambda value: value.value if isinstance(value, RowFormat) else "",
)
def test_no_rows_as_text(row_format, expected):
    assert written(ROWS.slice(0, 0), row_format).decode() == expected


def test_no_rows_as_json():
    document = json.loads(written(ROWS.slice(0, 0), RowFormat.JSON))
    assert (document["rows"], document["row_count"]) == ([], 0)


def test_rows_as_parquet():
    assert pq.read_table(io.BytesIO(written(ROWS, RowFormat.PARQUET))).equals(ROWS)


def test_rows_as_arrow():
    assert pa.ipc.open_stream(written(ROWS, RowFormat.ARROW)).read_all().equals(ROWS)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a,b", '"a,b"'),
        ('say "x"', '"say ""x"""'),
        ("two\nlines", '"two\nlines"'),
        (" padded", '" padded"'),
        ("", '""'),
        ("NULL", "NULL"),
    ],
)
def test_csv_quoting(text, cell):
    assert written(pa.table({"c": [text]}), RowFormat.CSV).decode() == f"c\n{cell}\n"


@pytest.mark.parametrize(
    ("max_rows", "shown", "last"),
    [
        (None, 100, ""),
        (100, 100, ""),
        (99, 99, "(99 of 100 rows; --max-rows all shows all)\n"),
        (1, 1, "(1 of 100 rows; --max-rows all shows all)\n"),
    ],
)
def test_text_says_how_many_rows_it_does_not_show(max_rows, shown, last):
    stream = io.BytesIO()
    write_rows(QueryRows.of(pa.table({"n": range(100)})), RowFormat.TEXT, stream, max_rows=max_rows)
    rows = "".join(f"{n:2}\n" for n in range(shown))
    # The width is that of what is shown.
    assert stream.getvalue().decode() == (" n\n--\n" + rows + last if shown > 10 else "n\n-\n0\n" + last)


def test_text_counts_rows_of_many_batches():
    stream = io.BytesIO()
    write_rows(run("SELECT range AS n FROM range(100_000)", {}), RowFormat.TEXT, stream)
    lines = stream.getvalue().decode().splitlines()
    assert (len(lines), lines[-1]) == (43, "(40 of 100,000 rows; --max-rows all shows all)")


WIDE = pa.table({"id": [1234567890], "a": ["x" * 30], "b": ["日本" * 10], "c": ["short"]})


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            64,
            [
                "        id  a                      b                      c",
                "----------  ---------------------  ---------------------  -----",
                "1234567890  xxxxxxxxxxxxxxxxxxxx…  日本日本日本日本日本…  short",
            ],
        ),
        (
            30,
            [
                "        id  a",
                "----------  ------------------",
                "1234567890  xxxxxxxxxxxxxxxxx…",
                "(2 more columns: b, c)",
            ],
        ),
        (5, ["        id", "----------", "1234567890", "(3 m…"]),
    ],
)
def test_text_fits_a_terminal(width, expected):
    lines = "".join(text_lines(QueryRows.of(WIDE), width=width)).splitlines()
    assert lines == expected


FILES = pa.table(
    {
        "path": ["warehouse/orders/data/region=eu/00001.parquet"],
        "day": [date(2024, 3, 1)],
        "partition": ['{"region":"eu","day":19783}'],
        "metrics": ["m" * 300],
        "last": [True],
    }
)


def test_columns_are_left_out_before_texts_are_cut_short():
    lines = "".join(text_lines(QueryRows.of(FILES), width=100)).splitlines()
    assert lines[2:] == [
        'warehouse/orders/data/region=eu/00001.parquet  2024-03-01  {"region":"eu","day":19783}',
        "(2 more columns: metrics, last)",
    ]
    narrow = "".join(text_lines(QueryRows.of(FILES), width=40)).splitlines()
    assert narrow[2] == 'warehouse/or…  2024-03-01  {"region":"e…'


def test_null_is_not_the_text_of_this_name():
    cells = written(pa.table({"s": ["NULL", None, '"NULL"', "null"]}), RowFormat.TEXT).decode().split()
    assert cells[2:] == ['"NULL"', "NULL", '""NULL""', "null"]


def test_text_cannot_steer_a_terminal():
    assert written(pa.table({"c\x1b": ["\x1b[2Jx\r\n"]}), RowFormat.TEXT).decode() == (
        "c\\x1b\n------------\n\\x1b[2Jx\\r\\n\n"
    )


def test_text_aligns_wide_characters():
    assert written(pa.table({"c": ["日本", "x"], "d": ["1", "2"]}), RowFormat.TEXT).decode() == (
        "c     d\n----  -\n日本  1\nx     2\n"
    )


def test_jsonl_refuses_two_columns_of_one_name():
    with pytest.raises(RequestError) as caught:
        write_rows(run("SELECT 1 AS a, 2 AS a", {}), RowFormat.JSONL, io.BytesIO())
    assert str(caught.value) == (
        "Cannot write rows as jsonl: more than one column is named 'a'; rename it with AS [Request; field a]"
    )


def test_json_keeps_two_columns_of_one_name():
    stream = io.BytesIO()
    write_rows(run("SELECT 1 AS a, 2 AS a", {}), RowFormat.JSON, stream)
    assert json.loads(stream.getvalue())["rows"] == [[1, 2]]


def test_a_parquet_dictionary_does_not_hold_all_values_of_a_column():
    rows = 60_000  # 8 bytes each: a dictionary of them would take 480,000, and the places in it another 120,000
    content = written(pa.table({"n": range(rows)}), RowFormat.PARQUET)
    column = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0)
    assert column.total_uncompressed_size < 8 * rows * 1.1


def test_what_explain_gives_keeps_its_lines():
    plan = pa.table({"explain_key": ["physical_plan"], "explain_value": ["Scan\n  \x1b~1 row\n"]})
    assert written(plan, RowFormat.TEXT) == b"Scan\n  \\x1b~1 row\n"
    assert b'"physical_plan"' in written(plan, RowFormat.JSON)


def test_parquet_refuses_what_it_cannot_hold():
    table = pa.table({"n": [1], "i": pa.array([pa.MonthDayNano([1, 2, 3])])})
    with pytest.raises(RequestError) as caught:
        written(table, RowFormat.PARQUET)
    assert str(caught.value) == (
        "Cannot write rows as parquet: it cannot hold column 'i', of type month_day_nano_interval; cast it in the "
        "query, with CAST(... AS VARCHAR) [Request; field i]"
    )
