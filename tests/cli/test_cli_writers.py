from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli.writers import RowFormat, write_rows
from harness.errors import RequestError

ROWS = pa.table({"id": pa.array([1, None, 30]), "name": ["a", "", None]})


def written(table: pa.Table, row_format: RowFormat) -> bytes:
    stream = io.BytesIO()
    write_rows(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2)), row_format, stream)
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


def test_text_cannot_steer_a_terminal():
    assert written(pa.table({"c\x1b": ["\x1b[2Jx\r\n"]}), RowFormat.TEXT).decode() == (
        "c\\x1b\n------------\n\\x1b[2Jx\\r\\n\n"
    )


def test_text_aligns_wide_characters():
    assert written(pa.table({"c": ["日本", "x"], "d": ["1", "2"]}), RowFormat.TEXT).decode() == (
        "c     d\n----  -\n日本  1\nx     2\n"
    )


def test_jsonl_refuses_two_columns_of_one_name():
    table = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(RequestError) as caught:
        written(table, RowFormat.JSONL)
    assert str(caught.value) == (
        "Cannot write rows as jsonl: more than one column is named 'a'; rename it with AS [Request; field a]"
    )


def test_json_keeps_two_columns_of_one_name():
    table = pa.table([[1], [2]], names=["a", "a"])
    assert json.loads(written(table, RowFormat.JSON))["rows"] == [[1, 2]]


def test_parquet_refuses_what_it_cannot_hold():
    table = pa.table({"n": [1], "i": pa.array([pa.MonthDayNano([1, 2, 3])])})
    with pytest.raises(RequestError) as caught:
        written(table, RowFormat.PARQUET)
    assert str(caught.value) == (
        "Cannot write rows as parquet: it cannot hold column 'i', of type month_day_nano_interval; cast it in the "
        "query, with CAST(... AS VARCHAR) [Request; field i]"
    )
