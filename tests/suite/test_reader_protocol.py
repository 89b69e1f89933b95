"""The protocol of readers: its schema, rows as JSON, filters as JSON, and complete programs that implement it."""

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import EngineError, UnsupportedError
from harness.metadata.model.schema import Schema
from harness.suite.json_rows import json_lines_table
from harness.suite.other_readers import spark_condition
from harness.suite.protocol import message_fault, predicate
from harness.suite.reader import TableAt
from harness.suite.readers import PROGRAMS as PROGRAMS_OF_OURS
from harness.suite.readers import ReaderOptions, open_engine
from harness.suite.workers import BROKEN_PROTOCOL
from harness.writing.iceberg.types import schema_of

PROGRAMS = Path(__file__).parent / "programs"
AT = {"format": "delta", "location": "/t", "metadata_path": None, "at": None}


@pytest.mark.parametrize(
    ("kind", "message", "wrong"),
    [
        ("hello request", {"op": "hello", "protocol": 1}, None),
        ("hello request", {"op": "hello", "protocol": 2}, "'protocol' of the request is 2, not 1"),
        ("hello answer", {"version": "1"}, None),
        ("hello answer", {"missing": "no module"}, None),
        ("hello answer", {"version": 1}, "'version' of the answer is 1, not string"),
        ("hello answer", {"version": "1", "ops": ["write"]}, 'item 1, is "write", not "read" or "count" or "changes"'),
        ("hello answer", {"version": "1", "row": "arrow"}, "a key 'row', which the protocol does not define"),
        ("hello answer", ["version"], 'the answer is ["version"], not object'),
        ("count request", {"id": 1, "op": "count", "table": AT, "where": None, "predicate": None}, None),
        (
            "count request",
            {
                "id": 1,
                "op": "count",
                "table": {**AT, "at": {"kind": "tag", "value": 1}},
                "where": None,
                "predicate": None,
            },
            "'kind' of 'at' of 'table' of the request is \"tag\"",
        ),
        ("count answer", {"id": 1, "count": 3}, None),
        ("count answer", {"id": 1, "count": True}, "'count' of the answer is true, not integer"),
        ("count answer", {"id": 1, "unsupported": "no"}, None),
        ("read answer", {"id": 1, "rows": "/r"}, None),
        ("read answer", {"id": 1, "error": "corrupt", "message": "why", "panic": False}, None),
        ("read answer", {"id": 1, "error": "corrupt"}, "the answer has no 'message'"),
        ("changes answer", {"rows": "/r"}, "the answer has no 'id'"),
    ],
)
def test_messages_are_held_to_the_schema(kind, message, wrong):
    found = message_fault(message, kind)
    assert found is None if wrong is None else wrong in str(found)


NO_ROWS = ["0", "null", "[]", '""', "false", '{"a": 1}\n[]']


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2}\n{"a": 1}', "has no 'b', which another row has"),
        *((text, "not an object with a key for each column") for text in NO_ROWS),
    ],
)
def test_only_objects_of_the_same_keys_are_rows(text, message):
    with pytest.raises(ValueError, match=message):
        json_lines_table(text, None)


def without_nulls(test):
    """Return the test of a column, restricted to rows that are not null.

    Iceberg's tests have two truth values and SQL's have three.
    """
    is_null = {"type": "is-null", "term": test.get("child", test)["term"]}
    return {"type": "and", "left": test, "right": {"type": "not", "child": is_null}}


def denied(kind, term, **value):
    return without_nulls({"type": "not", "child": {"type": kind, "term": term, **value}})


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, None),
        ("3 < id", {"type": "gt", "term": "id", "value": 3}),
        ("a.b = -1.5", {"type": "eq", "term": "a.b", "value": -1.5}),
        ("d >= DATE '2024-01-31'", {"type": "gt-eq", "term": "d", "value": "2024-01-31"}),
        ("x NOT IN ('a')", denied("in", "x", values=["a"])),
        ("x <> 'a'", without_nulls({"type": "not-eq", "term": "x", "value": "a"})),
        (
            "NOT (x = 1 AND NOT y = 2)",
            {"type": "or", "left": denied("eq", "x", value=1), "right": {"type": "eq", "term": "y", "value": 2}},
        ),
        (
            "NOT x BETWEEN 1 AND 2",
            {"type": "or", "left": denied("gt-eq", "x", value=1), "right": denied("lt-eq", "x", value=2)},
        ),
        ("x IS NOT NULL", {"type": "not", "child": {"type": "is-null", "term": "x"}}),
        (
            "x IS NULL OR flag = true",
            {
                "type": "or",
                "left": {"type": "is-null", "term": "x"},
                "right": {"type": "eq", "term": "flag", "value": True},
            },
        ),
        ("isnan(x)", {"type": "is-nan", "term": "x"}),
        ("s NOT LIKE 'a b%'", denied("starts-with", "s", value="a b")),
        ("NOT s NOT LIKE 'a%'", {"type": "starts-with", "term": "s", "value": "a"}),
        ("s LIKE 'a_b%'", None),
        ("s LIKE 'a%' ESCAPE '%'", None),
        ("x BETWEEN SYMMETRIC 2 AND 1", None),
        ("s LIKE 'ab'", None),
        ("b", None),
        ("a = b", None),
        ("t = TIMESTAMP '2024-01-31 00:00:00'", None),
        ("id + 1 = 2", None),
        ("d = 1.10", {"type": "eq", "term": "d", "value": 1.1}),
        ("d = 12345678901234567.89", None),  # it has more digits than a double
        ("f < 1e400", None),
    ],
)
def test_a_filter_is_converted_to_json_if_json_can_express_it(where, expected):
    assert predicate(where) == expected


def test_names_in_double_quotes_are_names_for_spark_and_texts_stay():
    where = """"a""b" = 'he said "no"' AND "it's" > 'c''d' AND starts_with(e, '"')"""
    assert spark_condition(where) == """`a"b` = 'he said "no"' AND `it's` > 'c''d' AND startswith(e, '"')"""


@pytest.mark.parametrize(
    ("where", "type_", "expected_value"),
    [
        ("c", "boolean", {"type": "eq", "term": "c", "value": True}),
        ("c", "string", None),
        ("c < TIMESTAMP '1969-12-31 23:59:59.999999'", "timestamp", "1969-12-31T23:59:59.999999"),
        ("c < TIMESTAMP '1970-01-01 00:00:00'", "timestamp_ns", "1970-01-01T00:00:00.000000000"),
        ("c < TIMESTAMP '1970-01-01 00:00:00'", "timestamptz", None),
        ("c < TIMESTAMP '1970-01-01 00:00:00'", "date", None),
        ("c < TIMESTAMPTZ '1970-01-01 00:00:00Z'", "timestamptz", "1970-01-01T00:00:00.000000+00:00"),
        ("c < '1970-01-01 00:00:00'::VARCHAR", "timestamp", None),
        ("c < TIME '12:34:56.7'", "time", "12:34:56.700000"),
        ("c < '\\x00\\xFF'::BLOB", "binary", "00ff"),
        ("c < '\\x00a'::BLOB", "binary", None),
    ],
)
def test_a_filter_of_a_known_column_is_json_of_its_type(where, type_, expected_value):
    found = predicate(where, Schema(fields=schema_of({"c": type_}).fields))
    expected = (
        {"type": "lt", "term": "c", "value": expected_value} if isinstance(expected_value, str) else expected_value
    )
    assert found == expected


@pytest.fixture
def opened():
    with ExitStack() as resources:
        yield lambda command: open_engine(f"mine=exec:{command}", ReaderOptions(time_limit_s=60), resources)


def answering(tmp_path, **answers):
    """Write a program that answers `hello` and `read` with fixed answers."""
    path = tmp_path / "program.py"
    path.write_text(
        "import json, sys\n"
        f"answers = {answers!r}\n"
        "for line in sys.stdin:\n"
        "    print(answers[json.loads(line)['op']], flush=True)\n",
        "utf-8",
    )
    return f"{sys.executable} {path}"


READ = TableAt(format="delta", location="/t")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("{", "mine breaks the protocol: the answer is '{', not JSON", id="no-json"),
        pytest.param('{"id": 7, "rows": "x"}', "the answer has the id 7, expected 1", id="another-request"),
        pytest.param('{"id": 1, "row": "x"}', "mine breaks the protocol: ", id="unknown-key"),
        pytest.param('{"id": 1, "rows": "/no/such/file"}', "mine wrote no rows: Cannot read the rows", id="no-rows"),
    ],
)
def test_a_protocol_violation_is_not_an_answer_of_the_reader(opened, tmp_path, answer, message):
    worker = opened(answering(tmp_path, hello='{"version": "1"}', read=answer))
    with pytest.raises(EngineError, match=message.replace("{", r"\{")) as caught:
        worker.read(READ, columns=None, where=None)
    assert caught.value.cause == BROKEN_PROTOCOL


@pytest.mark.slow
def test_a_reader_gets_no_request_that_it_does_not_support(opened, tmp_path):
    worker = opened(answering(tmp_path, hello='{"version": "1", "filters": false, "ops": ["read"]}'))
    with pytest.raises(UnsupportedError, match="mine does not support filters"):
        worker.read(READ, columns=None, where="id = 1")
    with pytest.raises(UnsupportedError, match="mine does not support count"):
        worker.count(READ, where=None)
    with pytest.raises(UnsupportedError, match="mine does not support the option limit"):
        worker.read(READ, columns=None, where=None, options={"limit": 1})


@pytest.mark.slow
def test_options_reach_a_reader_that_takes_them(opened, tmp_path):
    """The reader answers with the keys and the options of the request, as a row of JSON."""
    path = tmp_path / "echo.py"
    path.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    answer = {'version': '1', 'rows': 'jsonl', 'options': ['limit', 'union']}\n"
        "    if asked['op'] == 'read':\n"
        "        row = {'keys': len(asked), 'options': json.dumps(asked.get('options'))}\n"
        "        open(asked['output'], 'w').write(json.dumps(row))\n"
        "        answer = {'id': asked['id'], 'rows': asked['output']}\n"
        "    print(json.dumps(answer), flush=True)\n",
        "utf-8",
    )
    worker = opened(f"{sys.executable} {path}")
    part = {"at": None, "where": "id = 1", "predicate": predicate("id = 1")}

    def answer(**options):  # a column of an unknown type is JSON text
        (row,) = worker.read(READ, columns=None, where=None, **options).to_pylist()
        return json.loads(row["keys"]), json.loads(json.loads(row["options"]))

    assert answer(options={"limit": 3, "union": [part]}) == (8, {"limit": 3, "union": [part]})
    assert answer() == (7, None)
    request = {"id": 1, "op": "read", "table": AT, "columns": None, "where": None, "predicate": None, "output": "/o"}
    assert message_fault({**request, "options": {"limit": 3, "union": [part]}}, "read request") is None
    assert "has a key 'rows'" in str(message_fault({**request, "options": {"rows": 3}}, "read request"))


def run(capsys, program, *scenarios):
    """Return the outcomes of a program by scenario."""
    main(["scenarios", "run", *scenarios, "--engines", f"mine=exec:{program}", "--format", "json", "--exit-zero"])
    document = json.loads(capsys.readouterr().out)
    return {case["scenario"]: case["outcome"] for case in document["cases"]}


def built(name, program="reader"):
    """Return the program that `nox -s readers -- native` built for a reader."""
    path = Path(os.environ.get("HARNESS_READERS", PROGRAMS.parents[2] / ".nox/readers"), name, program)
    if not path.is_file():
        pytest.skip(f"{path} is not built: nox -s readers -- native")
    return path


SIMPLE = {
    "python": {
        "delta/log/ten-and-more-versions": "PASS",
        "delta/log/gap-refused": "UNSUPPORTED",
        "delta/log/missing-data-file-refused": "PASS",  # correct: it cannot open the file
    },
    "go": {
        "iceberg/deletes/null-keys": "UNSUPPORTED",  # its filtered read is declined
        "iceberg/deletes/duplicate-rows": "PASS",
        "iceberg/deletes/vector-of-wrong-magic": "PASS",  # correct: it refuses the vector
    },
}
READ_BY_ALL = {
    "iceberg": ("iceberg/deletes/key-not-projected", "iceberg/time-travel/filter-in-old-schema"),
    "delta": ("delta/skipping/null-counts", "delta/time-travel/by-version"),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", SIMPLE)
def test_the_reader_of_the_page_reads_tables(capsys, language):
    program = built("iceberg-go", "simple") if language == "go" else f"{sys.executable} {PROGRAMS / 'simple.py'}"
    assert run(capsys, program, *SIMPLE[language]) == SIMPLE[language]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS_OF_OURS)
def test_a_built_program_reads_tables_with_filters_and_time_travel(capsys, name):
    scenarios = READ_BY_ALL["delta" if name.startswith("delta") else "iceberg"]
    assert set(run(capsys, built(name), *scenarios).values()) == {"PASS"}


DECIMALS = """
title: A commit that was cut off is an error
format: delta
clauses: [delta L24]
features: [broken]
table: {schema: {id: long, total: "decimal(9, 2)"}}
history:
  - append: [{data: a, rows: [[1, '1.50']]}]
  - append: [{data: b, rows: [[2, '2.50']]}]
  - break: {truncate: commit 2, to: -40}
expect: {error: CorruptFileError}
"""
PARSING = """
import json, pathlib, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"version": "1", "rows": "jsonl"}
    if asked["op"] == "read":
        answer = {"id": asked["id"], "rows": asked["output"]}
        try:
            for commit in pathlib.Path(asked["table"]["location"], "_delta_log").glob("*.json"):
                [json.loads(action) for action in commit.read_text("utf-8").splitlines()]
            rows = [{"id": 1, "total": "1.50"}, {"id": 2, "total": "2.50"}]
            pathlib.Path(asked["output"]).write_text("\\n".join(map(json.dumps, rows)), "utf-8")
        except ValueError as error:
            answer = {"id": asked["id"], "error": "corrupt", "message": str(error)}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.slow
def test_a_reader_with_json_rows_may_refuse_broken_tables(capsys, tmp_path):
    """Its rows of the intact copy are converted with the types of that table, like its rows of every other table."""
    (tmp_path / "broken.yaml").write_text(DECIMALS, "utf-8")
    (tmp_path / "parsing.py").write_text(PARSING, "utf-8")
    found = run(capsys, f"{sys.executable} {tmp_path / 'parsing.py'}", str(tmp_path / "broken.yaml"))
    assert found == {"broken": "PASS"}
