"""Operations of Iceberg histories: what they do to the builder's table, and what they refuse."""

from __future__ import annotations

import pytest

from harness.errors import RequestError
from harness.testing.scenarios.iceberg.history import IcebergHistory
from harness.testing.scenarios.model import Selector

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
def test_what_cannot_be_is_refused(operation, words, tmp_path):
    history = _history(tmp_path)
    with pytest.raises(RequestError, match=words):
        history.apply(operation)
