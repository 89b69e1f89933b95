"""Scenario files: read strictly, written so that they read back equal; the table and the answers that come of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scenario_text import dump, write

from harness.errors import CorruptDeleteError, InvalidTableError, RequestError
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UuidType,
)
from harness.testing.conformance.judging import described
from harness.testing.scenarios import loading, model
from harness.testing.scenarios.building import build, expected_table
from harness.testing.scenarios.evidence import evidence_of
from harness.testing.scenarios.features import missing_features
from harness.testing.scenarios.iceberg.history import IcebergHistory
from harness.testing.scenarios.loading import find, load, parse
from harness.testing.scenarios.model import ExpectedError, ResolvedExpectation, ResolvedSelector
from harness.testing.scenarios.values import expanded, scenario_value, stored_value
from harness.testing.scenarios.verifying import read_with, verify
from harness.testing.writing.iceberg.types import parse_type

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
        ("yes", "yes"),
        ("on", "on"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o10", 8),
        ("0x10", 16),
        ("1e3", 1000.0),
        ("-.inf", -math.inf),
        ("~", None),
        ("", None),
        ("True", True),
        ("<<", "<<"),
        ("'1'", "1"),
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


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc: #-'\"é\n", max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@example(value={"a": -0.0, "b": "null", "c": "1e5", "d": " x", "e": "a: b", "f": "😀\x85﻿", "": [[]], "no": "0x1"})
@given(value=st.dictionaries(st.text("abc", min_size=1), _VALUES, min_size=1))
def test_written_yaml_reads_back_equal(value):
    assert repr(loading.parse_yaml(write(value), "here")) == repr(value)


def test_nan_is_written_so_that_it_reads_back():
    assert math.isnan(loading.parse_yaml(write({"a": math.nan}), "here")["a"])


def test_dump_writes_rows_one_below_the_other():
    lines = dump(load_text()).splitlines()
    assert "- append:" in lines
    assert "    rows:" in lines
    assert "    - [1, x]" in lines


def load_text():
    return parse(_TEXT, "case")


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


def test_find_takes_patterns_and_knows_where_the_files_are():
    names = [scenario.name for scenario in find("iceberg/deletes/null*")]
    assert "iceberg/deletes/null-keys" in names
    assert names == sorted(names)
    with pytest.raises(RequestError, match="No scenario matches 'nothing'"):
        find("nothing")


def test_load_names_a_missing_file(tmp_path):
    with pytest.raises(RequestError, match="Cannot read the scenario"):
        load(tmp_path / "none.yaml")


# -- values and rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "stored"),
    [
        ("date", "1969-12-31", -1),
        ("date", 5_000_000, 5_000_000),
        ("time", "00:00:01.5", 1_500_000),
        ("timestamp", "1970-01-01 00:00:00.000001", 1),
        ("timestamptz", "1970-01-01T02:00:00+02:00", 0),
        ("timestamptz", "1969-12-31 23:59:59.999999Z", -1),
        ("timestamp_ns", "1970-01-01 00:00:00.000000001", 1),
        ("double", 1, 1.0),
        ("fixed[2]", "00ff", b"\x00\xff"),
        ("uuid", "00000000-0000-0000-0000-000000000001", bytes(15) + b"\x01"),
        ("map<string, int>", {"a": 1}, [("a", 1)]),
        ("list<date>", ["1970-01-02", None], [1, None]),
    ],
)
def test_values_are_stored(text, value, stored):
    type_ = parse_type(text)[0]
    assert stored_value(type_, value) == stored
    assert stored_value(type_, scenario_value(type_, stored)) == stored


def test_decimals_keep_their_scale():
    stored = stored_value(DecimalType(5, 2), "-1.5")
    assert (str(stored), scenario_value(DecimalType(5, 2), stored)) == ("-1.50", "-1.50")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (IntegerType(32), True),
        (IntegerType(64), 1.0),
        (StringType(), 1),
        (DateType(), "yesterday"),
        (TimeType(), "1:00"),
        (TimestampType(), "2024-01-01 00:00:00Z"),
        (TimestampType(utc=True), "2024-01-01 00:00:00"),
        (TimestampType(), "2024-01-01 00:00:00.0000001"),
        (DecimalType(5, 2), 1.5),
        (DecimalType(5, 2), "1.555"),
        (FloatType(64), "1"),
        (FloatType(64), 2**53 + 1),
        (BinaryType(), "xyz"),
        (UuidType(), "1"),
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


def test_expected_rows_have_the_types_of_the_read():
    inner = StructType(
        (Field(id=3, name="n", type=IntegerType(32), required=True), Field(id=4, name="u", type=UuidType()))
    )
    pairs = MapType(Field(id=6, name="key", type=StringType(), required=True), Field(id=7, name="value", type=inner))
    fields = (
        Field(id=1, name="_file", type=StringType()),
        Field(id=2, name="s", type=inner),
        Field(id=5, name="m", type=pairs),
        Field(id=8, name="l", type=ListType(Field(id=9, name="element", type=inner))),
    )
    rows = expected_table(
        fields, [["a", None, None, None], {"s": {"n": 1}, "m": {"k": {"n": 2}}, "l": [None]}], {"a": "/x"}
    )
    rows.validate(full=True)
    assert rows.to_pylist() == [
        {"_file": "/x", "s": None, "m": None, "l": None},
        {"_file": None, "s": {"n": 1, "u": None}, "m": [("k", {"n": 2, "u": None})], "l": [None]},
    ]
    assert rows.schema.field("s").type.field("n") == pa.field("n", pa.int32(), nullable=False)


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


def test_columns_in_another_order_differ():
    left, right = pa.table({"a": [1], "b": [2]}), pa.table({"b": [2], "a": [1]})
    assert verify(_expects(left), lambda _: right) is not None


def test_a_wrong_expectation_is_found_out(tmp_path):
    built = build(_changed("rows: [[2, y]]\n", "rows: [[1, x], [2, y]]\n"), tmp_path)
    assert "1 row only on the left" in verify(built.expectations[0], read_with(built, "duckdb"))


def test_a_feature_that_does_not_occur_is_found_out(tmp_path):
    built = build(_changed("features: [position-delete]", "features: [v2, position-delete, tag, v3]"), tmp_path)
    assert missing_features(evidence_of(built)) == ("tag", "v3")


def test_an_iceberg_table_has_no_catalogs_answer(tmp_path):
    with pytest.raises(RequestError, match="Invalid 'catalog': it is for Delta tables"):
        build(_changed("rows: [[2, y]]\n", "{catalog: published, rows: [[2, y]]}\n"), tmp_path)


def test_dump_keeps_every_part_of_an_expectation():
    text = "{at: {timestamp: 5}, columns: [id], where: id > 1, open: why, types: {id: long}, rows: [[2]]}"
    scenario = _changed("rows: [[2, y]]\n", f"{text}\n")
    assert parse(dump(scenario), "case") == scenario
    assert parse(dump(replace(scenario, title="1")), "case").title == "1"


def test_a_way_to_say_at_and_an_operation_are_an_entry_each(tmp_path, monkeypatch):
    def before(history, label):
        commits = list(history.commits)
        return ResolvedSelector(snapshot_id=history.commits[commits[commits.index(label) - 1]])

    monkeypatch.setitem(
        model.WAYS, "before", model.Way("the label of the commit after it", (str,), before, ("iceberg",))
    )
    twice = model.Operation("FILE", lambda history, file, _: history.apply({"append": [file, {**file, "data": "d"}]}))
    monkeypatch.setattr(IcebergHistory, "operations", {**IcebergHistory.operations, "append-twice": twice})
    history = """history:
  - append: {files: [{data: a, rows: [[1, x]]}], as: one}
  - append: {files: [{data: b, rows: [[2, y]]}], as: two}
  - append-twice: {data: c, rows: [[3, z]]}
"""
    begin = _TEXT.index("history:")
    expect = "expect: [{at: {before: two}, rows: [[1, x]]}, {rows: [[1, x], [2, y], [3, z], [3, z]]}]"
    text = (_TEXT[:begin] + history + expect).replace("features: [position-delete]", "features: []")
    scenario = parse(text, "case")
    assert parse(dump(scenario), "case") == scenario
    built = build(scenario, tmp_path)
    assert [verify(each, read_with(built, "duckdb")) for each in built.expectations] == [None, None]
    assert described(built.expectations[0]) == f"all columns at snapshot_id {built.history.commits['one']}"


def test_a_result_is_demanded_unless_it_is_said_to_be_policy(tmp_path):
    text = "[{rows: [[2, y]]}, {error: CorruptDeleteError, policy: a limit}]"
    scenario = _changed("rows: [[2, y]]\n", f"{text}\n")
    assert parse(dump(scenario), "case") == scenario
    must, policy = build(scenario, tmp_path).expectations
    assert ((must.demand, must.policy), (policy.demand, policy.policy)) == (("must", None), ("policy", "a limit"))
