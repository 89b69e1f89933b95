"""Operations of Iceberg histories: what they do to the builder's table, and what they refuse."""

from __future__ import annotations

import pytest

from harness.errors import RequestError
from harness.metadata.model.schema import Field, IntegerType, StructType
from harness.testing.scenarios.iceberg.history import IcebergHistory
from harness.testing.scenarios.model import Selector

_APPEND = {"append": {"files": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}], "as": "first"}}


def _history(tmp_path, *operations, **table):
    history = IcebergHistory(tmp_path, {"schema": {"id": "long", "name": "string"}, **table})
    for operation in (_APPEND, *operations):
        history.apply(operation)
    return history


def _entry(history, label):
    key = history.files[label].key
    entries = (e for m in history.table.manifests().values() for e in m.records)
    return next(e for e in entries if (e["data_file"]["file_path"], e["data_file"].get("content_offset")) == key)


def test_labels_of_vectors(tmp_path):
    files = [{"data": "b", "rows": [[3, "z"]]}, {"deletion-vectors": {"a": [0], "b": [0]}, "label": "dv"}]
    history = _history(tmp_path, {"commit": {"add": files}}, **{"format-version": 3})
    assert list(history.files) == ["a", "b", "dv.a", "dv.b"]
    assert history.files["dv.b"].data_file["referenced_data_file"] == history.files["b"].path


def test_set_changes_bounds_and_counts_by_column(tmp_path):
    changes = {"lower_bounds": {"id": -1, "name": None}, "null_value_counts": {"name": 9}, "record_count": 5}
    file = {"data": "b", "rows": [[3, "z"]], "set": {**changes, "upper_bounds": {"id": {"bytes": "ff"}}}}
    data_file = _entry(_history(tmp_path, {"append": [file]}), "b")["data_file"]
    assert data_file["lower_bounds"] == [{"key": 1, "value": b"\xff" * 8}]
    assert {"key": 1, "value": b"\xff"} in data_file["upper_bounds"]
    assert {"key": 2, "value": 9} in data_file["null_value_counts"]
    assert data_file["record_count"] == 5


def test_selectors_become_ids(tmp_path):
    history = _history(tmp_path)
    snapshot = history.table.snapshots[0]
    assert history.resolve(Selector("snapshot", "first")).snapshot_id == snapshot["snapshot-id"]
    assert history.resolve(Selector("timestamp", "first")).timestamp_ms == snapshot["timestamp-ms"]
    assert history.resolve(Selector("ref", "main")).arguments() == {"ref": "main"}
    with pytest.raises(RequestError, match="Iceberg tables have snapshot, ref, timestamp"):
        history.resolve(Selector("version", 1))


def test_the_partition_column_holds_the_fields_of_all_specs(tmp_path):
    history = _history(tmp_path, {"partition-spec": [["id", "bucket[4]"]]})
    assert history.metadata_field("_partition").type == StructType(
        (Field(id=1000, name="id_bucket", type=IntegerType(32)),)
    )
    assert history.metadata_field("_nothing") is None


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
