"""What DuckDB writes of a value, for every type and its odd values."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from harness.cli.query import run
from harness.cli.writers import RowFormat, csv_quotes, write_rows
from harness.errors import EngineError
from harness.metadata.filters import sqltext

TEXTS = [
    *("", " ", " a", "a ", "a b", "NULL", "null", '"', '""', "'", ",", "\n", "\r", "a\r\nb", "\t", "\\", "a\\b", "/"),
    *("\0", "a\0b", "\x1b[31m", "\x7f", "\x85", "a\x85", "\xa0a", "\u2003", "a\u3000", "\u200b", "\u202e", "\ufeff"),
    *("é", "日本", "\U0001f9ca", "\U000e0001", "{}", "[1]", '{"a": 1}', "\x1c", "\x0b"),
]
WHOLE = {"0": 0, "9007199254740992": 2**53, "9007199254740993": "9007199254740993", "-1": -1}
WHOLE |= {"-9007199254740992": -(2**53), "-9007199254740993": "-9007199254740993"}
SMALL = {"0": 0, "1": 1, "127": 127}
FRACTIONS = {"0.5": "0.5000", "-0.25": "-0.2500", "0": "0.0000", "0.9999": "0.9999"}
MANY = {"0.5": "0.5" + "0" * 36, "-0.25": "-0.25" + "0" * 35}
ODD = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": 0.0, "0.1": 0.1, "1e16": 1e16}
DOUBLES = ODD | {"-0.0": -0.0, "1e15": 1e15, "123456789012345680": 1.2345678901234568e17, "1e-4": 0.0001, "1e-5": 1e-05}
DOUBLES |= {"5e-324": 5e-324, "1.7976931348623157e308": 1.7976931348623157e308, "9007199254740993": 2.0**53}
FLOATS = ODD | {"16777216": 16777216.0, "1e8": 1e8, "3.4028235e38": 3.4028235e38, "1e-45": 1e-45, "1e-5": 1e-05}
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
    **{"DECIMAL(4,4)": FRACTIONS, "DECIMAL(9,4)": FRACTIONS, "DECIMAL(38,37)": MANY},
    "BOOLEAN": {"true": True, "false": False},
    "UBIGINT": {"0": 0, "18446744073709551615": "18446744073709551615"},
    **{"FLOAT": FLOATS, "DOUBLE": DOUBLES, "DATE": DAYS, "TIMESTAMP": TO_US, "TIMESTAMP_MS": TO_MS},
    "TIMESTAMPTZ": {text: f"{moment}Z" for text, moment in TO_US.items()},
    "TIMESTAMP_S": TIMES | {"infinity": "292277026596-12-04T15:30:07"},
    "TIMESTAMP_NS": NANOS,
    **{"TIME": CLOCK, "TIME_NS": CLOCK | {"23:59:59.999999999": "23:59:59.999999999"}, "INTERVAL": SPANS},
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
        *({"a b": 1, 'c"': ["x", None]}, {"a b": None, 'c"': None}, None)
    ],
    "[MAP {'k': [1.5::DECIMAL(4,2)], 'l': NULL}, MAP {}, NULL]": [[["k", ["1.50"]], ["l", None]], [], None],
    "[[MAP {1: {'d': DATE '2024-01-31', 'b': 'x'::BLOB}}, NULL]]": [[[[1, {"d": "2024-01-31", "b": "78"}]], None]],
    "[union_value(t := ' x'), NULL]": [" x", None],
    "[union_value(t := [TIMESTAMP '2024-01-01 00:00:00'])]": [["2024-01-01T00:00:00"]],
}


def of_type(type_: str, values: dict[str, object]) -> tuple[str, list]:
    texts = ", ".join(f"({sqltext.text(text)})" for text in values)
    return f"SELECT v::{type_} AS v FROM (VALUES {texts}, (NULL)) AS t(v)", [*values.values(), None]


def written(query: str, row_format: RowFormat) -> str:
    stream = io.BytesIO()
    write_rows(run(query, {}), row_format, stream)
    return stream.getvalue().decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        *(pytest.param(*of_type(type_, values), id=type_) for type_, values in BY_TYPE.items()),
        *((f"SELECT unnest({items}) AS v", expected) for items, expected in NESTED.items()),
    ],
)
def test_values_are_text_and_json(query, expected):
    document = json.loads(written(query, RowFormat.JSON))
    assert repr([row for (row,) in document["rows"]]) == repr(expected)  # repr: 1 is not True, 0.0 is not -0.0
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


def test_what_is_unprintable_is_escaped_in_json_and_stays_in_csv():
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
