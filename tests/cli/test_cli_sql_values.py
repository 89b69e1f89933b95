"""What DuckDB writes of a value is what Python says of it, for every type and its odd values."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from arrow_json import json_values

from harness.cli.query import run
from harness.cli.writers import RowFormat, csv_quotes, write_rows
from harness.errors import EngineError
from harness.metadata.filters import sqltext

ODD_TEXTS = [
    *("", " ", " a", "a ", "a b", "NULL", "null", '"', '""', "'", ",", "\n", "\r", "a\r\nb", "\t", "\\", "a\\b", "/"),
    *("\0", "a\0b", "\x1b[31m", "\x7f", "\x85", "a\x85", "\xa0a", "\u2003", "a\u3000", "\u200b", "\u202e", "\ufeff"),
    *("é", "日本", "\U0001f9ca", "\U000e0001", "{}", "[1]", '{"a": 1}', "\x1c", "\x0b"),
]
NUMBERS = ["0", "1", "-1", "9007199254740992", "9007199254740993", "-9007199254740992", "-9007199254740993"]
DAYS = ["1970-01-01", "0001-01-01", "0001-12-31 (BC)", "0044-03-15 (BC)", "12044-03-15 (BC)", "10183-09-21"]
TIMES = [
    *("1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 12:30:00.5", "2024-02-29 12:30:00.000010"),
    *("0001-01-01 00:00:00", "infinity", "-infinity"),
]
INTERVALS = [
    "0 days",
    "1 month",
    "-1 month 2 days",
    "25 hours",
    "-0.000001 seconds",
    "14 months -3.5 seconds",
    "1 year",
]
FLOATS = ["0", "-0.0", "0.1", "1e15", "1e16", "123456789012345680", "1e-4", "1e-5", "5e-324", "1.7976931348623157e308"]
BROAD = [*("nan", "inf", "-inf", "-nan"), *FLOATS]


def values(items: list[str], type_: str) -> str:
    texts = ", ".join(f"({sqltext.text(item)})" for item in items)
    return f"SELECT v::{type_} AS v FROM (VALUES {texts}, (NULL)) AS t(v)"


FRACTIONS = ["0.5", "-0.25", "0", "0.9999"]
NANOS = ["1970-01-01 00:00:00", "2024-01-01 00:00:00.000000010", "infinity", "-infinity"]
EARLY = "'0001-01-01 00:00:00.5' - INTERVAL (i) HOUR AS v FROM range(0, 9000000, 99999) AS t(i)"
QUERIES = {
    **{type_: values(NUMBERS, type_) for type_ in ("BIGINT", "HUGEINT", "DECIMAL(16,0)", "DECIMAL(38,0)", "DOUBLE")},
    **{type_: values(["0", "1", "127"], type_) for type_ in ("TINYINT", "UINTEGER", "DECIMAL(15,0)")},
    **{type_: values(FRACTIONS, type_) for type_ in ("DECIMAL(4,4)", "DECIMAL(38,37)", "DECIMAL(9,4)")},
    "BOOLEAN": values(["true", "false"], "BOOLEAN"),
    "UBIGINT": values(["9007199254740993", "0", "18446744073709551615"], "UBIGINT"),
    "FLOAT": values(["nan", "-inf", "0.1", "16777216", "1e8", "1e16", "3.4028235e38", "1e-45", "1e-5"], "FLOAT"),
    "floats": values(BROAD, "DOUBLE"),
    "random floats": "SELECT hash(i) * pow(10::DOUBLE, i % 600 - 300) AS v FROM range(2000) AS t(i)",
    "DATE": values([*DAYS, "infinity", "-infinity"], "DATE"),
    "TIMESTAMP": values([*TIMES, "294247-01-01 04:00:54.775806"], "TIMESTAMP"),
    "TIMESTAMPTZ": values(TIMES, "TIMESTAMPTZ"),
    "TIMESTAMP_S": values(TIMES, "TIMESTAMP_S"),
    "TIMESTAMP_MS": values(TIMES, "TIMESTAMP_MS"),
    "TIMESTAMP_NS": values(NANOS, "TIMESTAMP_NS"),
    "before year 1": f"SELECT TIMESTAMP {EARLY}",
    "instants before year 1": f"SELECT TIMESTAMPTZ {EARLY}",
    "TIME": values(["00:00:00", "23:59:59.999999", "12:30:00.5"], "TIME"),
    "TIME_NS": values(["00:00:00", "23:59:59.999999999", "12:30:00.5"], "TIME_NS"),
    "INTERVAL": values(INTERVALS, "INTERVAL"),
    "VARCHAR": values(ODD_TEXTS, "VARCHAR"),
    "ENUM": "SELECT unnest(['a,b', '', ' x', NULL])::ENUM('a,b', '', ' x') AS v",
    "JSON": values(["{}", '{"a": "\\u001b\u202e"}', "null", '""'], "JSON"),
    "BLOB": "SELECT unnest(['\\x00\\xFF'::BLOB, ''::BLOB, NULL]) AS v",
    "LIST": "SELECT unnest([[1, NULL], [], NULL, [9007199254740993]]) AS v",
    "ARRAY": "SELECT unnest([[1.5, NULL]::DOUBLE[2], NULL, ['nan'::DOUBLE, 2]::DOUBLE[2]]) AS v",
    "texts in lists": f"SELECT list(v ORDER BY v) AS v FROM ({values(ODD_TEXTS, 'VARCHAR')})",
    "lists in lists": "SELECT unnest([[[1], NULL, []], [[NULL]]]) AS v",
    "STRUCT": "SELECT unnest([{'a b': 1, 'c\"': ['x', NULL]}, {'a b': NULL, 'c\"': NULL}, NULL]) AS v",
    "MAP": "SELECT unnest([MAP {'k': [1.5::DECIMAL(4,2)], 'l': NULL}, MAP {}, NULL]) AS v",
    "maps in lists": "SELECT [MAP {1: {'d': DATE '2024-01-31', 'b': 'x'::BLOB}}, NULL] AS v",
    "UNION": "SELECT unnest([union_value(t := ' x'), NULL]) AS v",
    "UNION of lists": "SELECT union_value(t := [TIMESTAMP '2024-01-01 00:00:00']) AS v",
}


def written(query: str, row_format: RowFormat) -> str:
    stream = io.BytesIO()
    write_rows(run(query, {}), row_format, stream)
    return stream.getvalue().decode()


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_values_are_written_as_python_says(query):
    said = [value for batch in run(query, {}).as_arrow().batches() for value in json_values(batch.column(0))]
    document = json.loads(written(query, RowFormat.JSON))
    assert repr([row for (row,) in document["rows"]]) == repr(said)  # repr: 1 is not True, 0.0 is not -0.0
    lines = [json.loads(line) for line in written(query, RowFormat.JSONL).split("\n")[:-1]]
    assert repr([line["v"] for line in lines]) == repr(said)
    cells = written(query, RowFormat.CSV).removeprefix("v\n")
    if any(isinstance(value, dict | list) for value in said):
        rows = [json.loads(cell[0]) if cell else None for cell in csv.reader(io.StringIO(cells, newline=""))]
        assert repr(rows) == repr(said)
    else:
        texts = ["" if v is None else csv_quotes(v if isinstance(v, str) else json.dumps(v)) for v in said]
        assert cells == "".join(f"{text}\n" for text in texts)


def test_narrow_floats_read_back_the_same():
    query = "SELECT (hash(i) * pow(10::DOUBLE, i % 60 - 50))::FLOAT AS v FROM range(5000) AS t(i) ORDER BY v"
    said = [row for batch in run(query, {}).as_arrow().batches() for row in batch.column(0).to_pylist()]
    rows = json.loads(written(query, RowFormat.JSON))["rows"]
    assert [float(np.float32(row)) for (row,) in rows] == said


def test_what_is_unprintable_is_escaped_in_json_and_stays_in_csv():
    query = "SELECT 'a' || chr(8238) || chr(127) || chr(917505) || 'é' AS v"
    assert written(query, RowFormat.JSONL) == '{"v": "a\\u202e\\u007f\\udb40\\udc01é"}\n'
    assert written(query, RowFormat.CSV) == "v\na\u202e\x7f\U000e0001é\n"


def test_names_are_quoted_and_escaped():
    query = 'SELECT 1 AS "a,b", 2 AS " ", 3 AS """\u202e", \'x\' AS "#1"'
    assert written(query, RowFormat.CSV) == '"a,b"," ","""\u202e",#1\n1,2,3,x\n'
    assert written(query, RowFormat.JSONL) == '{"a,b": 1, " ": 2, "\\"\\u202e": 3, "#1": "x"}\n'


@pytest.mark.parametrize("row_format", [RowFormat.CSV, RowFormat.JSON, RowFormat.JSONL])
def test_rows_of_many_batches_are_all_there_and_in_order(row_format):
    query = "SELECT range AS v FROM range(10000) ORDER BY hash(range) % 7, range"
    text = written(query, row_format)
    match row_format:
        case RowFormat.CSV:
            found = [int(line) for line in text.splitlines()[1:]]
        case RowFormat.JSON:
            document = json.loads(text)
            found = [row for (row,) in document["rows"]]
            assert document["row_count"] == 10_000
        case _:
            found = [json.loads(line)["v"] for line in text.splitlines()]
    assert found == [v for (v,) in run(query, {}).relation.fetchall()]


def test_an_error_on_one_of_the_first_rows_comes_before_anything_is_written():
    stream = io.BytesIO()
    with pytest.raises(EngineError, match=r"DuckDB cannot run the query: .*'x'"):
        write_rows(run("SELECT v::INT FROM (VALUES ('1'), ('x')) AS t(v)", {}), RowFormat.CSV, stream)
    assert stream.getvalue() == b""


def test_an_error_on_a_later_row_is_told_as_one():
    query = "SELECT CASE WHEN range = 2999999 THEN 'x' ELSE '1' END::INT AS v FROM range(3000000)"
    with pytest.raises(EngineError, match=r"DuckDB cannot run the query: .*'x'"):
        write_rows(run(query, {}), RowFormat.TEXT, io.BytesIO())
