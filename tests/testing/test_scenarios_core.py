"""Scenario files: read strictly, written so that they read back equal; the table and the answers that come of them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from harness.errors import CorruptDeleteError, InvalidTableError, RequestError
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    UuidType,
)
from harness.testing.scenarios import loading
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import load, parse
from harness.testing.scenarios.model import ExpectedError, ResolvedExpectation, ResolvedSelector
from harness.testing.scenarios.values import expanded, stored_value
from harness.testing.scenarios.verifying import verify

_TEXT = """
title: A position delete
format: iceberg
clauses: [iceberg 4.4]
features: [position-delete]
table: {format-version: 2, schema: {id: long, name: string}}
history:
  - append: [{data: a, rows: [[1, x], [2, y]]}]
  - commit: {add: [{position-deletes: [[a, 0]]}], as: deleted}
expect:
  rows: [[2, y]]
"""


def _changed(old, new):
    assert old in _TEXT
    return parse(_TEXT.replace(old, new), "case")


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("yes", "yes"), ("on", "on"), ("2024-01-31", "2024-01-31"), ("12:30:45", "12:30:45"), ("1_000", "1_000")),
        *(("010", 10), ("0o10", 8), ("0x10", 16), ("1e3", 1000.0), ("-.inf", -math.inf), ("~", None), ("", None)),
        *(("True", True), ("<<", "<<"), ("'1'", "1")),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    read = loading.parse_yaml(f"a: {text}", "here")["a"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "'a' stands twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: &x 1\n? *x\n: 2", "aliases"),
        ("a: &x [*x]", "aliases"),
        ("a: [", "Cannot read here"),
        ("a: !!python/name:os.system x", "Cannot read here"),
    ],
)
def test_other_yaml_is_refused(text, words):
    with pytest.raises(RequestError, match=words):
        loading.parse_yaml(text, "here")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title: A position delete", "titel: x", "Missing key 'title' in case"),
        ("format: iceberg", "format: hudi", "expected iceberg or delta, got 'hudi'"),
        ("features: [position-delete]", "features: [levitation]", "Unknown feature 'levitation' in case"),
        ("features: [position-delete]", "features: [checkpoint-v1]", "feature 'checkpoint-v1' in case"),
        ("expect:\n", "more: 1\nexpect:\n", "Unknown key 'more' in case"),
        ("  rows: [[2, y]]\n", "  {rows: [[2, y]], error: CorruptDeleteError}\n", "either rows or error"),
        ("  rows: [[2, y]]\n", "  {columns: [id]}\n", "either rows or error"),
        ("  rows: [[2, y]]\n", "  {error: Oops}\n", "Unknown error 'Oops' in case, expectation 1"),
        ("  rows: [[2, y]]\n", "  {at: {when: 1}, rows: []}\n", "expected one of snapshot, ref"),
        ("  rows: [[2, y]]\n", "  {open: why, policy: why, rows: []}\n", "leaves open is no policy"),
        ("  rows: [[2, y]]\n", "  {rows: many}\n", "expected a list, got 'many'"),
    ],
)
def test_what_is_no_scenario_is_refused(old, new, words):
    with pytest.raises(RequestError, match=words.replace("(", r"\(")):
        _changed(old, new)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  - append:", "  - apend:", "case, history step 1: Unknown operation 'apend'"),
        ("as: deleted", "at: deleted", "case, history step 2: Unknown key 'at' in operation 'commit'"),
        ("as: deleted", "stage: 1", "key 'stage': expected true or false, got 1"),
        ("{data: a, rows", "{data: a, colour: red, rows", "Unknown key 'colour' in operation 'append', file 1"),
        ("[[a, 0]]", "[[b, 0]]", "Unknown file 'b' in operation 'commit', file 1: there are a"),
        ("[2, y]]}", "[2]]}", "expected a list of 2 values"),
        ("[2, y]]}", "[x, y]]}", "Invalid value 'x' for long"),
        ("[2, y]]}", "{nmae: x}]}", "No column 'nmae'"),
        ("format-version: 2", "format-version: two", "key 'format-version': expected a whole number, got 'two'"),
        ("rows: [[2, y]]\n", "{at: {snapshot: gone}, rows: []}\n", "expectation 1: Unknown commit 'gone'"),
        ("rows: [[2, y]]\n", "{columns: [nope], rows: []}\n", "expectation 1: Unknown column 'nope'"),
    ],
)
def test_errors_name_step_and_key(old, new, words, tmp_path):
    scenario = _changed(old, new)
    with pytest.raises(RequestError, match=words):
        build(scenario, tmp_path)


def test_load_names_a_missing_file(tmp_path):
    with pytest.raises(RequestError, match="Cannot read the scenario"):
        load(tmp_path / "none.yaml")


# -- values and rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *((IntegerType(32), True), (IntegerType(64), 1.0), (StringType(), 1), (DateType(), "yesterday")),
        (TimeType(), "1:00"),
        (TimestampType(), "2024-01-01 00:00:00Z"),
        (TimestampType(utc=True), "2024-01-01 00:00:00"),
        (TimestampType(), "2024-01-01 00:00:00.0000001"),
        *((DecimalType(5, 2), 1.5), (DecimalType(5, 2), "1.555"), (FloatType(64), "1"), (FloatType(64), 2**53 + 1)),
        *((BinaryType(), "xyz"), (UuidType(), "1")),
    ],
)
def test_values_of_other_types_are_refused(type_, value):
    with pytest.raises(RequestError, match="Invalid value"):
        stored_value(type_, value)


def test_rows_are_counted():
    rows = {"count": 6, "from": 10, "row": ["{i}", "n{i}", {"k": ["{i}"]}], "except": [11, [13, 15]]}
    assert expanded(rows, "rows") == [[10, "n10", {"k": [10]}], [12, "n12", {"k": [12]}]]
    with pytest.raises(RequestError, match="Unknown key 'step'"):
        expanded({**rows, "step": 2}, "rows")


# -- verdicts ---------------------------------------------------------------------------------------------------------


def _expects(expected, open_=None):
    return ResolvedExpectation(number=1, at=ResolvedSelector(), columns=None, where=None, expected=expected, open=open_)


def _rows(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def _raises(error):
    def read(_):
        raise error

    return read


@pytest.mark.parametrize(
    ("expectation", "read", "fault"),
    [
        (_expects(_rows(1, 2)), lambda _: _rows(2, 1), None),
        (_expects(_rows(1, 1)), lambda _: _rows(1), "1 row only on the left"),
        (_expects(_rows(1)), lambda _: pa.table({"a": pa.array([1], pa.int32())}), "int32"),
        (_expects(_rows(1)), _raises(CorruptDeleteError("x")), "CorruptDeleteError, where rows were expected: x"),
        (_expects(ExpectedError("InvalidTableError")), _raises(CorruptDeleteError("x")), None),
        (
            _expects(ExpectedError("CorruptDeleteError")),
            _raises(InvalidTableError("x")),
            "InvalidTableError, where CorruptDeleteError was expected: x",
        ),
        (
            _expects(ExpectedError("CorruptDeleteError", match="y")),
            _raises(CorruptDeleteError("x")),
            "CorruptDeleteError, where CorruptDeleteError 'y' was expected: x",
        ),
        (_expects(ExpectedError("CorruptDeleteError", cause="C")), _raises(CorruptDeleteError("x", cause="C")), None),
        (
            _expects(ExpectedError("CorruptDeleteError")),
            lambda _: _rows(),
            "0 rows, where CorruptDeleteError was expected",
        ),
        (_expects(_rows(1), "why"), lambda _: _rows(2), "open (why): "),
        (_expects(_rows(1), "why"), lambda _: _rows(1), None),
        (_expects(None, "why"), lambda _: _rows(1), None),
    ],
)
def test_the_fault_of_a_read(expectation, read, fault):
    found = verify(expectation, read)
    assert found is None if fault is None else fault in found


def test_an_iceberg_table_has_no_catalogs_answer(tmp_path):
    with pytest.raises(RequestError, match="Invalid 'catalog': it is for Delta tables"):
        build(_changed("rows: [[2, y]]\n", "{catalog: published, rows: [[2, y]]}\n"), tmp_path)
