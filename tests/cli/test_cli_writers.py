from __future__ import annotations

import io
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli.query import run
from harness.cli.writers import QueryRows, RowFormat, text_lines, write_rows
from harness.errors import RequestError

ODD = pa.table({"c": ["a,b", 'say "x"', "two\nlines", " padded", "", "NULL", None]})
CELLS = pa.table({"c": ["日本", "x"], "d\x1b": ["1", "2\r\n"]})
ROWS = pa.table({"id": pa.array([1, None, 30]), "name": ["a", "", None]})


def written(table: pa.Table, row_format: RowFormat) -> bytes:
    stream = io.BytesIO()
    write_rows(QueryRows.of(table), row_format, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("table", "row_format", "expected"),
    [
        (ROWS, RowFormat.TEXT, "    id  name\nbigint  varchar\n------  -------\n     1  a\n  NULL\n    30  NULL\n"),
        (ROWS, RowFormat.CSV, 'id,name\n1,a\n,""\n30,\n'),
        (ROWS, RowFormat.JSONL, '{"id": 1, "name": "a"}\n{"id": null, "name": ""}\n{"id": 30, "name": null}\n'),
        (
            *(ROWS, RowFormat.JSON),
            '{"format": 1, "kind": "rows", "columns": [{"name": "id", "type": "int64"}, '
            '{"name": "name", "type": "string"}], "rows": [\n[1, "a"],\n[null, ""],\n[30, null]\n], "row_count": 3}\n',
        ),
        (ROWS.slice(0, 0), RowFormat.TEXT, "    id  name\nbigint  varchar\n------  -------\n"),
        (ROWS.slice(0, 0), RowFormat.CSV, "id,name\n"),
        (ROWS.slice(0, 0), RowFormat.JSONL, ""),
        (ODD, RowFormat.CSV, 'c\n"a,b"\n"say ""x"""\n"two\nlines"\n" padded"\n""\nNULL\n\n'),
        (ODD[3:], RowFormat.TEXT, 'c\nvarchar\n-------\n padded\n\n"NULL"\nNULL\n'),
        (CELLS, RowFormat.TEXT, "c        d\\x1b\nvarchar  varchar\n-------  -------\n日本     1\nx        2\\r\\n\n"),
    ],
)
def test_rows_as_text(table, row_format, expected):
    assert written(table, row_format).decode() == expected


def test_rows_as_parquet():
    assert pq.read_table(io.BytesIO(written(ROWS, RowFormat.PARQUET))).equals(ROWS)


def test_rows_as_arrow():
    assert pa.ipc.open_stream(written(ROWS, RowFormat.ARROW)).read_all().equals(ROWS)


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
    rows = "".join(f"{n:6}\n" for n in range(shown))
    assert stream.getvalue().decode() == "     n\nbigint\n------\n" + rows + last


WIDE = pa.table(
    {
        "id": [1234567890, 5],
        "kind": ["k" * 16] * 2,
        "a": ["x" * 30, ""],
        "b": ["日本" * 30, None],
        "day": [date(2024, 3, 1), None],
        "c": [{"n": 1}, None],
    }
)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,  # three quarters of it are 60, which the texts of b have
            [
                "        id  a                               day         c",
                "    bigint  varchar                         date        struct",
                "----------  ------------------------------  ----------  -------",
                '1234567890  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  2024-03-01  {"n":1}',
                "         5                                  NULL        NULL",
                "(2 more columns: kind = kkkkkkkkkkkkkkkk, b)",
            ],
        ),
        (
            40,
            [
                "        id  day         c",
                "    bigint  date        struct",
                "----------  ----------  -------",
                '1234567890  2024-03-01  {"n":1}',
                "         5  NULL        NULL",
                "(3 more columns: kind =",
                "    kkkkkkkkkkkkkkkk, a, b)",
            ],
        ),
        (
            5,  # a number is whole
            [
                *("        id", "    bigint", "----------", "1234567890", "         5", "(5", "    more"),
                *(
                    "    columns:",
                    "    kind",
                    "    =",
                    "    kkkkkkkkkkkkkkkk,",
                    "    a,",
                    "    b,",
                    "    day,",
                    "    c)",
                ),
            ],
        ),
    ],
)
def test_text_fits_a_terminal(width, expected):
    lines = "".join(text_lines(QueryRows.of(WIDE), width=width)).splitlines()
    assert lines == expected


def test_texts_that_are_too_wide_for_any_line_are_cut():
    table = pa.table({"id": [1], "comment": ["日本" * 30], "path": ["s3://lake/orders/" + "x" * 60 + ".parquet"]})
    lines = "".join(text_lines(QueryRows.of(table), width=60)).splitlines()
    assert lines == [
        "    id  comment",
        "bigint  varchar",
        f"------  {'-' * 52}",
        f"     1  {'日本' * 12}日…",
        "(1 more column: path)",
    ]
    lines = "".join(text_lines(QueryRows.of(table.select(["path", "id"])), width=60)).splitlines()
    assert lines[3:] == [f"…{'x' * 43}.parquet       1", "(path: below s3://lake/orders)"]


def test_jsonl_refuses_two_columns_of_one_name():
    with pytest.raises(RequestError) as caught:
        write_rows(run("SELECT 1 AS a, 2 AS a", {}), RowFormat.JSONL, io.BytesIO())
    assert str(caught.value) == (
        "Cannot write rows as jsonl: more than one column is named 'a'; rename it with AS [Request; field a]"
    )


def test_a_parquet_dictionary_does_not_hold_all_values_of_a_column():
    rows = 60_000  # 8 bytes each: a dictionary of them would take 480,000, and the places in it another 120,000
    content = written(pa.table({"n": range(rows)}), RowFormat.PARQUET)
    column = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0)
    assert column.total_uncompressed_size < 8 * rows * 1.1


def test_parquet_refuses_what_it_cannot_hold():
    table = pa.table({"n": [1], "i": pa.array([pa.MonthDayNano([1, 2, 3])])})
    with pytest.raises(RequestError) as caught:
        written(table, RowFormat.PARQUET)
    assert str(caught.value) == (
        "Cannot write rows as parquet: it cannot hold column 'i', of type month_day_nano_interval; cast it in the "
        "query, with CAST(... AS VARCHAR) [Request; field i]"
    )
