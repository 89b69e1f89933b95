"""Operations of scenarios: selectors become points of the table, and wrong operations are refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harness import open_table
from harness.errors import RequestError
from harness.testing.scenarios.delta.features import DELTA_FEATURES
from harness.testing.scenarios.delta.history import DeltaHistory
from harness.testing.scenarios.evidence import evidence_of
from harness.testing.scenarios.iceberg.history import IcebergHistory
from harness.testing.scenarios.model import (
    Built,
    Expectation,
    ResolvedExpectation,
    ResolvedSelector,
    Scenario,
    Selector,
)

TABLE: dict[str, Any] = {"schema": {"id": "long", "name": "string"}}
TWO_ROWS = {"append": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}]}


def built(directory: Path, operations: Iterable[dict[str, Any]], **table: Any) -> DeltaHistory:
    history = DeltaHistory(directory, {**TABLE, **table})
    for operation in operations:
        history.apply(operation)
    return history


def rows(history: DeltaHistory, **selector: Any) -> list[tuple[Any, ...]]:
    read = open_table(str(history.location)).snapshot(**selector).to_arrow()
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
    assert history.resolve(Selector("changes", (1, 2))) == ResolvedSelector(changes=(1, 2))
    assert rows(history, timestamp=5000) == [(1, "x")]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"appnd": []}, "Unknown operation 'appnd'"),
        ({"append": [], "remove": []}, "expected a mapping with one key"),
        ({"append": [{"data": "b", "row": [[1, "x"]]}]}, "Missing key 'rows'"),
        ({"append": [{"data": "b", "rows": [], "colour": 1}]}, "Unknown key 'colour'"),
        ({"append": [{"data": "b", "rows": [[1]]}]}, "expected a list of 2 values"),
        ({"append": [{"data": "a", "rows": []}]}, "there is a file 'a' already"),
        ({"remove": ["c"]}, "Unknown file 'c'"),
        ({"delete-rows": {"a": "0"}}, "expected a list"),
        ({"commit": {"add": [], "ad": []}}, "Unknown key 'ad'"),
        ({"rename-column": {"path": "nope", "to": "x"}}, "No column 'nope'"),
        ({"column-mapping": "names"}, "expected name or id"),
        ({"checkpoint": {"knd": "classic"}}, "Unknown key 'knd'"),
        ({"checkpoint": "v2-json"}, "v2Checkpoint"),
        ({"edit-commit": {"version": 7}}, "no version 7"),
        ({"edit-commit": {"version": 1, "set": {"9/add/path": "x"}}}, "leads nowhere"),
        ({"edit-commit": {"version": 1, "unset": ["1/add/nope"]}}, "Nothing to remove"),
        ({"stage": 7}, "there is no version 7"),
        ({"stage": {"version": 1, "uuid": "x"}}, "Unknown key 'uuid'"),
        ({"hold": "1"}, "expected a whole number"),
        ({"hold": 7}, "there is no version 7"),
        ({"break": {"delete": "b"}}, "No file 'b'"),
        ({"break": {"smash": "a"}}, "give one of delete"),
    ],
)
def test_what_cannot_be_of_a_delta_table_is_refused(tmp_path: Path, operation: dict[str, Any], message: str) -> None:
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


# A table with one file and nothing else: features that it has, whatever is declared.
_PLAIN = {"no-checkpoint"}


@pytest.mark.parametrize("name", sorted(DELTA_FEATURES))
def test_a_plain_table_shows_no_feature(tmp_path: Path, name: str) -> None:
    history = built(tmp_path, [TWO_ROWS])
    read = ResolvedExpectation(number=1, at=ResolvedSelector(), columns=None, where=None, expected=None)
    scenario = Scenario(
        name=name,
        path=None,
        title=name,
        format="delta",
        clauses=(),
        features=(),
        table=TABLE,
        history=(TWO_ROWS,),
        expectations=(Expectation(),),
    )
    table = Built(
        scenario=scenario, location=history.location, metadata_path=None, expectations=(read,), history=history
    )
    assert DELTA_FEATURES[name].proof(evidence_of(table)) is (name in _PLAIN)


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


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"break": {"delete": "nowhere"}}, "No file 'nowhere'"),
        ({"break": {"melt": "a"}}, "give one of delete, truncate, corrupt, copy, write, enclose"),
        ({"break": {"truncate": "a"}}, "Missing key 'to'"),
        ({"edit-manifest": {"of": "b"}}, "Unknown file 'b'"),
        ({"edit-manifest": {"of": "a", "drop-fields": ["nothing"]}}, "No Avro field nothing"),
        ({"edit-manifest-list": {"of": "second"}}, "Unknown commit 'second'"),
        ({"edit-metadata": {"set": {"snapshots/7/summary": 1}}}, "snapshots/7/summary"),
        ({"tag": {"name": "t", "at": "never"}}, "Unknown commit 'never'"),
        ({"expire": "never"}, "Unknown commit 'never'"),
        ({"expire": "first"}, "main points to it"),
        ({"commit": {"remove": ["b"]}}, "Unknown file 'b'"),
        ({"commit": {"as": "first"}}, "another commit has it"),
        ({"append": [{"data": "a", "rows": []}]}, "another file has it"),
        ({"append": [{"rows": []}]}, "expected one of the keys data"),
        ({"append": [{"data": "b", "rows": [], "schema": 4}]}, "Unknown schema 4"),
        ({"append": [{"data": "b", "rows": [], "partition": {"x": 1}}]}, "Unknown partition field 'x'"),
        ({"partition-spec": [["id"]]}, "expected \\[column, transform\\]"),
        ({"add-column": {"name": "n", "type": "int", "default": 1}}, "Unknown key 'default'"),
        ({"append": [], "commit": {}}, "a mapping with one key"),
    ],
)
def test_what_cannot_be_of_an_iceberg_table_is_refused(operation, words, tmp_path):
    history = _history(tmp_path)
    with pytest.raises(RequestError, match=words):
        history.apply(operation)
