"""Scenario files: strict parsing, their tables, snapshots and expectations, and invalid files."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness import open_table
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
from harness.suite.scenarios import loading
from harness.suite.scenarios.building import build
from harness.suite.scenarios.delta.features import DELTA_FEATURES
from harness.suite.scenarios.delta.history import DeltaHistory
from harness.suite.scenarios.evidence import collect_evidence
from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.suite.scenarios.loading import from_mapping, load, parse
from harness.suite.scenarios.model import (
    ExpectedError,
    ResolvedChanges,
    ResolvedExpectation,
    ResolvedSelector,
    Selector,
)
from harness.suite.scenarios.values import expand_rows, parse_value
from harness.suite.scenarios.verifying import verify

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
        ("a: 1\na: 2", "'a' occurs twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: &x 1\n? *x\n: 2", "aliases"),
        ("a: &x [*x]", "aliases"),
        ("a: [", "Cannot read here"),
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
        ("  rows: [[2, y]]\n", "  {open: why, policy: why, rows: []}\n", "leaves open cannot be a policy"),
        ("  rows: [[2, y]]\n", "  {rows: many}\n", "expected a list, got 'many'"),
    ],
)
def test_invalid_scenarios_are_refused(old, new, words):
    with pytest.raises(RequestError, match=words.replace("(", r"\(")):
        _changed(old, new)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  - append:", "  - apend:", "case, history step 1: Unknown operation 'apend'"),
        ("as: deleted", "at: deleted", "case, history step 2: Unknown key 'at' in operation 'commit'"),
        ("as: deleted", "stage: 1", "key 'stage': expected true or false, got 1"),
        ("{data: a, rows", "{data: a, colour: red, rows", "Unknown key 'colour' in operation 'append', file 1"),
        ("[[a, 0]]", "[[b, 0]]", "Unknown file 'b' in operation 'commit', file 1: known are a"),
        ("[2, y]]}", "[2]]}", "expected a list of 2 values"),
        ("[2, y]]}", "[x, y]]}", "Invalid value 'x' for long"),
        ("[2, y]]}", "{nmae: x}]}", "Unknown column 'nmae'"),
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
        parse_value(type_, value)


def test_rows_are_counted():
    rows = {"count": 6, "from": 10, "row": ["{i}", "n{i}", {"k": ["{i}"]}], "except": [11, [13, 15]]}
    assert expand_rows(rows, "rows") == [[10, "n10", {"k": [10]}], [12, "n12", {"k": [12]}]]
    assert expand_rows({"count": 3, "from": 1, "step": 2, "row": "{i}"}, "rows") == [1, 3, 5]
    with pytest.raises(RequestError, match="Unknown key 'by'"):
        expand_rows({**rows, "by": 2}, "rows")


def _expects(expected, open_=None):
    return ResolvedExpectation(number=1, at=ResolvedSelector(), columns=None, where=None, expected=expected, open=open_)


CORRUPT = _expects(ExpectedError("CorruptDeleteError"))


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
        (_expects(_rows(1)), _raises(CorruptDeleteError("x")), "rows were expected, got CorruptDeleteError: x"),
        (_expects(ExpectedError("InvalidTableError")), _raises(CorruptDeleteError("x")), None),
        (CORRUPT, _raises(InvalidTableError("x")), "CorruptDeleteError was expected, got InvalidTableError: x"),
        (
            _expects(ExpectedError("CorruptDeleteError", match="y")),
            _raises(CorruptDeleteError("x")),
            "CorruptDeleteError 'y' was expected, got CorruptDeleteError: x",
        ),
        (_expects(ExpectedError("CorruptDeleteError", cause="C")), _raises(CorruptDeleteError("x", cause="C")), None),
        (CORRUPT, lambda _: _rows(), "CorruptDeleteError was expected, got 0 rows"),
        (_expects(_rows(1), "why"), lambda _: _rows(2), "open (why): "),
        (_expects(_rows(1), "why"), lambda _: _rows(1), None),
        (_expects(None, "why"), lambda _: _rows(1), None),
    ],
)
def test_the_fault_of_a_read(expectation, read, fault):
    found = verify(expectation, read)
    assert found is None if fault is None else fault in found


def test_an_iceberg_table_has_no_catalogs_answer(tmp_path):
    with pytest.raises(RequestError, match="Invalid 'catalog': only Delta tables have it"):
        build(_changed("rows: [[2, y]]\n", "{catalog: published, rows: [[2, y]]}\n"), tmp_path)


TABLE: dict[str, Any] = {"schema": {"id": "long", "name": "string"}}
TWO_ROWS = {"append": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}]}


def built(directory: Path, operations: Iterable[dict[str, Any]], **table: Any) -> DeltaHistory:
    history = DeltaHistory(directory, {**TABLE, **table})
    for operation in operations:
        history.apply(operation)
    return history


def rows(history: DeltaHistory, at: Any = None) -> list[tuple[Any, ...]]:
    read = open_table(str(history.location)).snapshot(at).to_arrow()
    return sorted(tuple(row.values()) for row in read.to_pylist())


def test_selectors_resolve_labels_to_versions_and_times(tmp_path: Path) -> None:
    history = built(
        tmp_path,
        [
            {"append": {"files": [{"data": "a", "rows": [[1, "x"]]}], "as": "first", "timestamp": 5000}},
            {"remove": ["a"]},
        ],
        timestamp=1000,
    )
    assert history.resolve(Selector("snapshot", "first")) == ResolvedSelector(version=1)
    assert history.resolve(Selector("timestamp", "first")) == ResolvedSelector(timestamp_ms=5000)
    versions = ResolvedChanges(from_=1, to=2, from_inclusive=True)
    assert history.resolve(Selector("changes", (1, 2))) == ResolvedSelector(changes=versions)
    assert rows(history, "timestamp=5000") == [(1, "x")]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"append": [], "remove": []}, "expected a mapping with one key"),
        ({"append": [{"data": "b", "row": [[1, "x"]]}]}, "Missing key 'rows'"),
        ({"append": [{"data": "a", "rows": []}]}, "a file 'a' already exists"),
        ({"remove": ["c"]}, "Unknown file 'c'"),
        ({"delete-rows": {"a": "0"}}, "expected a list"),
        ({"commit": {"add": [], "ad": []}}, "Unknown key 'ad'"),
        ({"rename-column": {"path": "nope", "to": "x"}}, "No column 'nope'"),
        ({"column-mapping": "names"}, "expected name or id"),
        ({"checkpoint": "v2-json"}, "v2Checkpoint"),
        ({"edit-commit": {"version": 7}}, "no version 7"),
        ({"edit-commit": {"version": 1, "set": {"9/add/path": "x"}}}, "does not exist"),
        ({"edit-commit": {"version": 1, "unset": ["1/add/nope"]}}, "Nothing to remove"),
        ({"stage": {"version": 1, "uuid": "x"}}, "Unknown key 'uuid'"),
        ({"hold": "1"}, "expected a whole number"),
        ({"hold": 7}, "there is no version 7"),
        ({"break": {"delete": "b"}}, "No file 'b'"),
        ({"break": {"smash": "a"}}, "expected one of delete"),
    ],
)
def test_invalid_operations_on_a_delta_table_are_refused(
    tmp_path: Path, operation: dict[str, Any], message: str
) -> None:
    history = built(tmp_path, [TWO_ROWS])
    with pytest.raises(RequestError, match=message):
        history.apply(operation)


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ("unpublished", "expected a mapping"),
        ({"ratified": [1]}, "Missing key 'max-version'"),
        ({"max-version": 1, "ratified": [1]}, "version 1 was neither staged nor held"),
        ({"max-version": 1, "ratified": [True]}, "expected a whole number"),
        ({"max-version": 1, "names": []}, "Unknown key 'names'"),
    ],
)
def test_a_catalog_that_cannot_be_is_refused(tmp_path: Path, catalog: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        built(tmp_path, [TWO_ROWS]).opening(catalog)


# A table with one file has only a few features, whatever the scenario declares.
_PLAIN = {"no-checkpoint"}


@pytest.mark.parametrize("name", sorted(DELTA_FEATURES))
def test_a_plain_table_shows_no_feature(tmp_path: Path, name: str) -> None:
    told = {"title": name, "format": "delta", "clauses": [], "table": TABLE, "history": [TWO_ROWS]}
    table = build(from_mapping({**told, "expect": {"rows": [[1, "x"], [2, "y"]]}}, name), tmp_path)
    assert DELTA_FEATURES[name].proof(collect_evidence(table)) is (name in _PLAIN)


_APPEND = {"append": {"files": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}], "as": "first"}}


def _history(tmp_path, *operations, **table):
    history = IcebergHistory(tmp_path, {"schema": {"id": "long", "name": "string"}, **table})
    for operation in (_APPEND, *operations):
        history.apply(operation)
    return history


def test_selectors_become_ids(tmp_path):
    history = _history(tmp_path)
    snapshot = history.table.snapshots[0]
    assert history.resolve(Selector("snapshot", "first")).snapshot_id == snapshot["snapshot-id"]
    assert history.resolve(Selector("timestamp", "first")).timestamp_ms == snapshot["timestamp-ms"]
    assert history.resolve(Selector("ref", "main")).arguments() == {"ref": "main"}
    with pytest.raises(RequestError, match="Iceberg tables have snapshot, ref, timestamp"):
        history.resolve(Selector("version", 1))
    written = {"from": "first", "to": {"ref": "main"}, "from-inclusive": True, "mode": "net", "keys": ["id"]}
    changes = ResolvedChanges(from_=snapshot["snapshot-id"], to="main", from_inclusive=True, mode="net", keys=("id",))
    assert history.resolve(Selector("changes", written)) == ResolvedSelector(changes=changes)
    assert history.resolve(Selector("changes", {"from": 7})) == ResolvedSelector(changes=ResolvedChanges(from_=7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((1, 2), "expected a mapping"),
        ({"from": "nosuch"}, "nosuch"),
        ({"from": True}, "expected a label, a snapshot id, or a mapping, got True"),
        ({"from": {"snapshot": 1}}, "Missing key 'ref'"),
        ({"mode": "all"}, "expected appends or changelog or net or updates, got 'all'"),
        ({"until": "first"}, "Unknown key 'until'"),
    ],
)
def test_invalid_ranges_of_changes_are_errors(tmp_path, changes, message):
    with pytest.raises(RequestError, match=message):
        _history(tmp_path).resolve(Selector("changes", changes))


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"break": {"melt": "a"}}, "expected one of delete, truncate, corrupt, copy, write, enclose"),
        ({"break": {"truncate": "a"}}, "Missing key 'to'"),
        ({"break": {"delete": "nowhere"}}, "No file 'nowhere'"),
        ({"edit-manifest": {"of": "b"}}, "Unknown file 'b'"),
        ({"edit-manifest": {"of": "a", "drop-fields": ["nothing"]}}, "No Avro field nothing"),
        ({"edit-manifest-list": {"of": "second"}}, "Unknown commit 'second'"),
        ({"edit-metadata": {"set": {"snapshots/7/summary": 1}}}, "snapshots/7/summary"),
        ({"tag": {"name": "t", "at": "never"}}, "Unknown commit 'never'"),
        ({"expire": "never"}, "Unknown commit 'never'"),
        ({"expire": "first"}, "main points to it"),
        ({"commit": {"as": "first"}}, "another commit has it"),
        ({"append": [{"data": "a", "rows": []}]}, "another file has it"),
        ({"append": [{"rows": []}]}, "expected one of the keys data"),
        ({"append": [{"data": "b", "rows": [], "schema": 4}]}, "Unknown schema 4"),
        ({"append": [{"data": "b", "rows": [], "partition": {"x": 1}}]}, "Unknown partition field 'x'"),
        ({"partition-spec": [["id"]]}, "expected \\[column, transform\\]"),
        ({"add-column": {"name": "n", "type": "int", "default": 1}}, "Unknown key 'default'"),
    ],
)
def test_invalid_operations_on_an_iceberg_table_are_refused(operation, words, tmp_path):
    history = _history(tmp_path)
    with pytest.raises(RequestError, match=words):
        history.apply(operation)
