"""Paths of Windows, simulated: `os.path` is `ntpath`, `os.name` is `nt`. No file is opened."""

import json
import ntpath
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from harness.metadata.delta.paths import TableRoot, canonical_of, keys_of
from harness.metadata.iceberg.metadata import parse_metadata
from harness.metadata.iceberg.source import default_prefixes
from harness.storage.paths import PathMap
from harness.storage.stores import Storage


@contextmanager
def windows() -> Iterator[None]:
    """The system's own names, for a few calls: pytest itself needs those of this system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "name", "nt")
        patch.setattr(os, "path", ntpath)
        yield


@pytest.mark.parametrize(
    "recorded",
    [
        *("part-0.parquet", "./part-0.parquet", "file:/C:/lake/t/part-0.parquet", "file:///C:/lake/t/part-0.parquet"),
        *("C:/lake/t/part-0.parquet", "part%2D0.parquet"),
    ],
)
@pytest.mark.parametrize("location", ["C:\\lake\\t", "file:/C:/lake/t", "C:/lake/t/"])
def test_the_log_of_a_delta_table_names_files_of_the_drive(location: str, recorded: str) -> None:
    paths = pa.array([recorded])
    with windows():
        root = TableRoot.of(location)
        keys = keys_of(paths, root)
        found = canonical_of(keys, root)
    assert root.path == "C:/lake/t"
    assert keys.to_pylist() == ["part-0.parquet"]
    assert found.to_pylist() == ["C:/lake/t/part-0.parquet"]


@pytest.mark.parametrize(
    ("location", "manifest_list", "file", "expected"),
    [
        ("C:\\old\\t", "C:\\old\\t\\metadata\\s.avro", "C:\\old\\t\\data\\f", "C:/new/t/data/f"),
        ("C:\\old\\t", "C:\\old\\t/metadata/s.avro", "C:\\old\\t/data/f", "C:/new/t/data/f"),
        ("file:/C:/old/t", "file:/C:/old/t/metadata/s.avro", "file:///C:/old/t/data/f", "C:/new/t/data/f"),
        ("C:\\new\\t", "C:\\new\\t\\metadata\\s.avro", "C:\\new\\t\\data\\f", "C:/new/t/data/f"),
        ("s3://b/t", "s3://b/t/metadata/s.avro", "s3://b/t/data/f", "C:/new/t/data/f"),
    ],
    ids=["backslashes", "mixed", "URI", "not moved", "from a store"],
)
def test_a_moved_iceberg_table_is_known(location: str, manifest_list: str, file: str, expected: str) -> None:
    """Iceberg 1.11: recorded paths and the directory that was opened differ by the move alone."""
    document = {
        "format-version": 1,
        "location": location,
        "last-updated-ms": 0,
        "last-column-id": 1,
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "partition-spec": [],
        "current-snapshot-id": 1,
        "snapshots": [{"snapshot-id": 1, "timestamp-ms": 0, "manifest-list": manifest_list}],
    }
    with windows():
        metadata = parse_metadata(json.dumps(document).encode(), file="C:\\new\\t\\metadata\\v1.metadata.json")
        found = PathMap(default_prefixes(metadata, Storage())).physical(file)
    assert found == expected
