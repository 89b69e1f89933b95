"""Rows as text and as files: all types with unusual values, tables that fit a terminal, and refusals."""

import csv
import datetime
import io
import json
import math
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from harness.cli.document import plain
from harness.cli.formats import RowFormat
from harness.cli.query import run
from harness.cli.writers import QueryRows, csv_quotes, text_lines, write_rows
from harness.errors import EngineError, RequestError
from harness.metadata.filters import sqltext

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, "9223372036854775808"),
        (True, True),
        (math.nan, "NaN"),
        (Decimal("1E+2"), "100"),
        (b"\xab", "AB"),
        (datetime.datetime(2024, 1, 31, 12, tzinfo=UTC), "2024-01-31T12:00:00Z"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        ({1: (None, {"x": [b"\x01"]})}, {"1": [None, {"x": ["01"]}]}),
    ],
)
def test_python_values_become_json(value, expected):
    assert repr(plain(value)) == repr(expected)


TEXTS = [
    "",
    " ",
    " a",
    "a ",
    "a b",
    "NULL",
    "null",
    '"',
    '""',
    "'",
    ",",
    "\n",
    "\r",
    "a\r\nb",
    "\t",
    "\\",
    "a\\b",
    "/",
    "\0",
    "a\0b",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "a\x85",
    "\xa0a",
    "\u2003",
    "a\u3000",
    "\u200b",
    "\u202e",
    "\ufeff",
    "é",
    "日本",
    "\U0001f9ca",
    "\U000e0001",
    "{}",
    "[1]",
    '{"a": 1}',
    "\x1c",
    "\x0b",
]
WHOLE = {"0": 0, "9007199254740992": 2**53, "9007199254740993": "9007199254740993", "-1": -1}
WHOLE |= {"-9007199254740992": -(2**53), "-9007199254740993": "-9007199254740993"}
SMALL = {"0": 0, "1": 1, "127": 127}
FRACTIONS = {"0.5": "0.5000", "-0.25": "-0.2500", "0": "0.0000", "0.9999": "0.9999"}
MANY = {"0.5": "0.5" + "0" * 36, "-0.25": "-0.25" + "0" * 35}
NO_NUMBERS = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": 0.0, "0.1": 0.1, "1e16": 1e16}
DOUBLES = NO_NUMBERS | {
    "-0.0": -0.0,
    "1e15": 1e15,
    "123456789012345680": 1.2345678901234568e17,
    "1e-4": 0.0001,
    "1e-5": 1e-05,
}
DOUBLES |= {"5e-324": 5e-324, "1.7976931348623157e308": 1.7976931348623157e308, "9007199254740993": 2.0**53}
FLOATS = NO_NUMBERS | {"16777216": 16777216.0, "1e8": 1e8, "3.4028235e38": 3.4028235e38, "1e-45": 1e-45, "1e-5": 1e-05}
DAYS = {"1970-01-01": "1970-01-01", "0001-12-31 (BC)": "0000-12-31", "0044-03-15 (BC)": "-043-03-15"}
DAYS |= {"12044-03-15 (BC)": "-12043-03-15", "10183-09-21": "10183-09-21", "infinity": "5881580-07-11"}
TIMES = {"1970-01-01 00:00:00": "1970-01-01T00:00:00", "0001-01-01 00:00:00": "0001-01-01T00:00:00"}
TO_MS = TIMES | {"2024-02-29 12:30:00.5": "2024-02-29T12:30:00.5", "-infinity": "-292275055-05-16T16:47:04.193"}
TO_US = TIMES | {
    "1969-12-31 23:59:59.999999": "1969-12-31T23:59:59.999999",
    "0012-08-05 (BC) 09:00:00": "-011-08-05T09:00:00",
}
TO_US |= {"2024-02-29 12:30:00.000010": "2024-02-29T12:30:00.00001", "infinity": "294247-01-10T04:00:54.775807"}
NANOS = {"2024-01-01 00:00:00.000000010": "2024-01-01T00:00:00.00000001", "infinity": "2262-04-11T23:47:16.854775807"}
CLOCK = {"00:00:00": "00:00:00", "23:59:59.999999": "23:59:59.999999", "12:30:00.5": "12:30:00.5"}
SPANS = {"0 days": "PT0S", "1 month": "P1M", "-1 month 2 days": "P-1M2D", "25 hours": "PT90000S", "1 year": "P12M"}
SPANS |= {"-0.000001 seconds": "PT-0.000001S", "14 months -3.5 seconds": "P14MT-3.5S"}
BY_TYPE = {
    **dict.fromkeys(("BIGINT", "HUGEINT", "DECIMAL(16,0)", "DECIMAL(38,0)"), WHOLE),
    **dict.fromkeys(("TINYINT", "UINTEGER", "DECIMAL(15,0)"), SMALL),
    "DECIMAL(4,4)": FRACTIONS,
    "DECIMAL(9,4)": FRACTIONS,
    "DECIMAL(38,37)": MANY,
    "BOOLEAN": {"true": True, "false": False},
    "UBIGINT": {"0": 0, "18446744073709551615": "18446744073709551615"},
    "FLOAT": FLOATS,
    "DOUBLE": DOUBLES,
    "DATE": DAYS,
    "TIMESTAMP": TO_US,
    "TIMESTAMP_MS": TO_MS,
    "TIMESTAMPTZ": {text: f"{moment}Z" for text, moment in TO_US.items()},
    "TIMESTAMP_S": TIMES | {"infinity": "292277026596-12-04T15:30:07"},
    "TIMESTAMP_NS": NANOS,
    "TIME": CLOCK,
    "TIME_NS": CLOCK | {"23:59:59.999999999": "23:59:59.999999999"},
    "INTERVAL": SPANS,
    "VARCHAR": {text: text for text in TEXTS},
    "JSON": {text: text for text in ("{}", '{"a": "\\u001b\u202e"}', "null", '""')},
    "ENUM('a,b', '', ' x')": {text: text for text in ("a,b", "", " x")},
}
NESTED = {
    r"['\x00\xFF'::BLOB, ''::BLOB, NULL]": ["00FF", "", None],
    "[[1, NULL], [], NULL, [9007199254740993]]": [[1, None], [], None, ["9007199254740993"]],
    "[[1.5, NULL]::DOUBLE[2], NULL, ['nan'::DOUBLE, 2]::DOUBLE[2]]": [[1.5, None], None, ["NaN", 2.0]],
    f"[[{', '.join(map(sqltext.text, TEXTS))}, NULL]]": [[*TEXTS, None]],
    "[[[1], NULL, []], [[NULL]]]": [[[1], None, []], [[None]]],
    "[{'a b': 1, 'c\"': ['x', NULL]}, {'a b': NULL, 'c\"': NULL}, NULL]": [
        {"a b": 1, 'c"': ["x", None]},
        {"a b": None, 'c"': None},
        None,
    ],
    "[MAP {'k': [1.5::DECIMAL(4,2)], 'l': NULL}, MAP {}, NULL]": [[["k", ["1.50"]], ["l", None]], [], None],
    "[[MAP {1: {'d': DATE '2024-01-31', 'b': 'x'::BLOB}}, NULL]]": [[[[1, {"d": "2024-01-31", "b": "78"}]], None]],
    "[union_value(t := ' x'), NULL]": [" x", None],
    "[union_value(t := [TIMESTAMP '2024-01-01 00:00:00'])]": [["2024-01-01T00:00:00"]],
}


def of_type(type_: str, values: dict[str, object]) -> tuple[str, list]:
    texts = ", ".join(f"({sqltext.text(text)})" for text in values)
    return f"SELECT v::{type_} AS v FROM (VALUES {texts}, (NULL)) AS t(v)", [*values.values(), None]


def packed(rows: str | pa.Table, row_format: RowFormat) -> bytes:
    stream = io.BytesIO()
    write_rows(run(rows, {}) if isinstance(rows, str) else QueryRows.from_arrow(rows), row_format, stream)
    return stream.getvalue()


def written(rows: str | pa.Table, row_format: RowFormat) -> str:
    return packed(rows, row_format).decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        *(pytest.param(*of_type(type_, values), id=type_) for type_, values in BY_TYPE.items()),
        *((f"SELECT unnest({items}) AS v", expected) for items, expected in NESTED.items()),
    ],
)
def test_values_are_text_and_json(query, expected):
    document = json.loads(written(query, RowFormat.JSON))
    # repr, because 1 is not True and 0.0 is not -0.0
    assert repr([row for (row,) in document["rows"]]) == repr(expected)
    lines = [json.loads(line) for line in written(query, RowFormat.JSONL).split("\n")[:-1]]
    assert repr([line["v"] for line in lines]) == repr(expected)
    cells = written(query, RowFormat.CSV).removeprefix("v\n")
    if any(isinstance(value, dict | list) for value in expected):
        rows = [json.loads(cell[0]) if cell else None for cell in csv.reader(io.StringIO(cells, newline=""))]
        assert repr(rows) == repr(expected)
    else:
        texts = ["" if v is None else csv_quotes(v if isinstance(v, str) else json.dumps(v)) for v in expected]
        assert cells == "".join(f"{text}\n" for text in texts)


@pytest.mark.parametrize(("type_", "widest"), [("FLOAT", 60), ("DOUBLE", 600)])
def test_floats_read_back_the_same(type_, widest):
    query = (
        f"SELECT (hash(i) * pow(10::DOUBLE, i % {widest} - {widest / 2 + 20}))::{type_} AS v FROM range(3000) AS t(i)"
    )
    narrow = np.float32 if type_ == "FLOAT" else np.float64
    rows = json.loads(written(f"{query} ORDER BY v", RowFormat.JSON))["rows"]
    assert [float(narrow(row)) for (row,) in rows] == [v for (v,) in run(f"{query} ORDER BY v", {}).relation.fetchall()]


def test_unprintable_characters_are_escaped_in_json_and_stay_in_csv():
    query = "SELECT 'a' || chr(8238) || chr(127) || chr(917505) || 'é' AS v"
    assert written(query, RowFormat.JSONL) == '{"v": "a\\u202e\\u007f\\udb40\\udc01é"}\n'
    assert written(query, RowFormat.CSV) == "v\na\u202e\x7f\U000e0001é\n"


def test_names_are_quoted_and_escaped():
    query = 'SELECT 1 AS "a,b", 2 AS " ", 3 AS """\u202e", \'x\' AS "#1"'
    assert written(query, RowFormat.CSV) == '"a,b"," ","""\u202e",#1\n1,2,3,x\n'
    assert written(query, RowFormat.JSONL) == '{"a,b": 1, " ": 2, "\\"\\u202e": 3, "#1": "x"}\n'


def test_an_error_on_one_of_the_first_rows_comes_before_anything_is_written():
    stream = io.BytesIO()
    with pytest.raises(EngineError, match=r"DuckDB cannot run the query: .*'x'"):
        write_rows(run("SELECT v::INT FROM (VALUES ('1'), ('x')) AS t(v)", {}), RowFormat.CSV, stream)
    assert stream.getvalue() == b""


ODD = pa.table({"c": ["a,b", 'say "x"', "two\nlines", " padded", "", "NULL", None]})
CELLS = pa.table({"c": ["日本", "x"], "d\x1b": ["1", "2\r\n"]})
ROWS = pa.table({"id": pa.array([1, None, 30]), "name": ["a", "", None]})


@pytest.mark.parametrize(
    ("table", "row_format", "expected"),
    [
        (ROWS, RowFormat.TEXT, "    id  name\nbigint  varchar\n------  -------\n     1  a\n  NULL\n    30  NULL\n"),
        (ROWS, RowFormat.CSV, 'id,name\n1,a\n,""\n30,\n'),
        (ROWS, RowFormat.JSONL, '{"id": 1, "name": "a"}\n{"id": null, "name": ""}\n{"id": 30, "name": null}\n'),
        (
            ROWS,
            RowFormat.JSON,
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
    assert written(table, row_format) == expected


def test_rows_as_parquet_and_arrow():
    assert pq.read_table(io.BytesIO(packed(ROWS, RowFormat.PARQUET))).equals(ROWS)
    assert pa.ipc.open_file(packed(ROWS, RowFormat.ARROW)).read_all().equals(ROWS)
    assert pa.ipc.open_stream(packed(ROWS, RowFormat.ARROWS)).read_all().equals(ROWS)


@pytest.mark.parametrize(
    ("max_rows", "visible_rows", "last"),
    [
        (None, 100, ""),
        (100, 100, ""),
        (99, 99, "(99 of 100 rows; --max-rows all shows all)\n"),
        (1, 1, "(1 of 100 rows; --max-rows all shows all)\n"),
    ],
)
def test_text_says_how_many_rows_it_does_not_show(max_rows, visible_rows, last):
    stream = io.BytesIO()
    write_rows(QueryRows.from_arrow(pa.table({"n": range(100)})), RowFormat.TEXT, stream, max_rows=max_rows)
    rows = "".join(f"{n:6}\n" for n in range(visible_rows))
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


FITTING = """\
        id  a                               day         c
    bigint  varchar                         date        struct
----------  ------------------------------  ----------  -------
1234567890  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  2024-03-01  {"n":1}
         5                                  NULL        NULL
(2 more columns: kind = kkkkkkkkkkkkkkkk, b)
"""


def test_text_fits_a_terminal():
    # b gets three quarters of the width, 60
    assert "".join(text_lines(QueryRows.from_arrow(WIDE), width=80)) == FITTING
    narrow = "".join(text_lines(QueryRows.from_arrow(WIDE), width=5)).split()
    assert narrow[:5] == ["id", "bigint", "----------", "1234567890", "5"]  # a number is never cut
    assert narrow[5:] == ["(5", "more", "columns:", "kind", "=", "kkkkkkkkkkkkkkkk,", "a,", "b,", "day,", "c)"]


def test_texts_that_are_too_wide_for_any_line_are_cut():
    table = pa.table({"id": [1], "comment": ["日本" * 30], "path": ["s3://lake/orders/" + "x" * 60 + ".parquet"]})
    lines = "".join(text_lines(QueryRows.from_arrow(table), width=60)).splitlines()
    assert lines == [
        "    id  comment",
        "bigint  varchar",
        f"------  {'-' * 52}",
        f"     1  {'日本' * 12}日…",
        "(1 more column: path)",
    ]
    lines = "".join(text_lines(QueryRows.from_arrow(table.select(["path", "id"])), width=60)).splitlines()
    assert lines[3:] == [f"…{'x' * 43}.parquet       1", "(path: below s3://lake/orders)"]


def test_jsonl_refuses_two_columns_of_one_name():
    with pytest.raises(RequestError) as caught:
        write_rows(run("SELECT 1 AS a, 2 AS a", {}), RowFormat.JSONL, io.BytesIO())
    assert str(caught.value) == (
        "Cannot write rows as jsonl: more than one column is named 'a'; rename it with AS [Request; field a]"
    )


def test_parquet_refuses_what_it_cannot_hold():
    table = pa.table({"n": [1], "i": pa.array([pa.MonthDayNano([1, 2, 3])])})
    with pytest.raises(RequestError) as caught:
        packed(table, RowFormat.PARQUET)
    assert str(caught.value) == (
        "Cannot write rows as parquet: the format cannot contain column 'i', of type month_day_nano_interval; "
        "cast it in the query, with CAST(... AS VARCHAR) [Request; field i]"
    )


def test_a_struct_of_many_fields_as_json(capsys):
    """Each of 60 fields is a struct, and one of them is null."""
    fields = [f"'f{i}': {{'n': {i}, 't': 'x\"{i}', 'l': [{{'u': {i}.5}}, NULL]}}" for i in range(59)]
    text = f"SELECT {{{', '.join(fields)}, 'f59': CAST(NULL AS STRUCT(n INTEGER))}} AS s"
    assert main(["sql", text, "--format", "jsonl"]) == 0
    wanted = {f"f{i}": {"n": i, "t": f'x"{i}', "l": [{"u": f"{i}.5"}, None]} for i in range(59)} | {"f59": None}
    assert json.loads(capsys.readouterr().out) == {"s": wanted}
