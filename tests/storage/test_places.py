"""Canonical paths for comparison, including Windows paths with Windows' `os.path` and `os.name`."""

import json
import ntpath
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from harness.metadata.delta.paths import TableRoot, canonical_paths, path_keys
from harness.metadata.iceberg.metadata import default_prefixes, parse_metadata
from harness.storage.paths import CanonicalPath, PathMap, canonical_path, climbs, possible_targets
from harness.storage.stores import Storage


@pytest.mark.parametrize(
    ("path", "store", "within"),
    [
        pytest.param("/lake/orders", "file", "/lake/orders", id="plain"),
        pytest.param("file:/lake/orders", "file", "/lake/orders", id="file, one slash"),
        pytest.param("file:///lake/orders", "file", "/lake/orders", id="file, three slashes"),
        pytest.param("FILE://localhost/lake/orders/", "file", "/lake/orders", id="file, localhost"),
        pytest.param("file:////lake/orders", "file://lake", "/orders", id="file, four slashes: a share"),
        pytest.param("file://server/lake/orders", "file://server", "/lake/orders", id="file, another host"),
        pytest.param("///lake//orders/./x/..", "file", "/lake/orders", id="dot and empty segments"),
        pytest.param("/lake/%2e%2e/orders", "file", "/lake/%2e%2e/orders", id="no file system decodes"),
        pytest.param("/../..", "file", "", id="above the root"),
        pytest.param("s3://b/t/x", "s3://b", "/t/x", id="s3"),
        pytest.param("S3A://b/t/../x/", "s3://b", "/x", id="s3a, dot segments"),
        pytest.param("s3n://b", "s3://b", "", id="s3n, the bucket"),
        pytest.param("s3://b/t//x", "s3://b", "/t//x", id="empty segments are part of an object's name"),
        pytest.param("s3://b/../../c/x", "s3://b", "/c/x", id="a bucket is not left by dots"),
        pytest.param("gs://b/x", "gcs://b", "/x", id="gs"),
        pytest.param("gcs://b/x", "gcs://b", "/x", id="gcs"),
        pytest.param("abfs://c@a.dfs.core.windows.net/x", "abfs://c@a.core.windows.net", "/x", id="abfs"),
        pytest.param("abfss://c@a.dfs.core.windows.net/x", "abfs://c@a.core.windows.net", "/x", id="abfss"),
        pytest.param("wasbs://c@a.blob.core.windows.net/x", "abfs://c@a.core.windows.net", "/x", id="wasbs"),
        pytest.param("hdfs://nn:8020/x", "hdfs://nn:8020", "/x", id="a port is part of the host"),
        pytest.param("local:///etc/passwd", "local://", "/etc/passwd", id="a client's name for the local disk"),
    ],
)
def test_equal_locations_have_one_canonical_path(path, store, within):
    assert canonical_path(path, windows=False) == CanonicalPath(store, within)


@pytest.mark.parametrize(
    ("path", "store", "within"),
    [
        pytest.param(r"C:\lake\Orders", "file", "/c:/lake/orders", id="a drive"),
        pytest.param("c:/LAKE/orders/x/..", "file", "/c:/lake/orders", id="slashes"),
        pytest.param("file:///C:/lake/orders", "file", "/c:/lake/orders", id="file, three slashes"),
        pytest.param(r"\\?\C:\lake\orders", "file", "/c:/lake/orders", id="a long path"),
        pytest.param(r"\\server\share\orders", "file://server", "/share/orders", id="a share"),
        pytest.param(r"\\?\UNC\server\share\orders", "file://server", "/share/orders", id="a long path of a share"),
        pytest.param("file://server/share/orders", "file://server", "/share/orders", id="file, a share"),
        pytest.param("s3://B/T", "s3://B", "/T", id="objects keep their case"),
    ],
)
def test_paths_of_windows(path, store, within):
    assert canonical_path(path, windows=True) == CanonicalPath(store, within)


@pytest.mark.parametrize(
    ("path", "root", "inside"),
    [
        ("/lake/orders", "/lake/orders", True),
        ("/lake/orders/data/x", "/lake/orders/", True),
        ("/lake/orders-evil/x", "/lake/orders", False),
        ("/lake/orders/../secret", "/lake/orders", False),
        ("/lake", "/lake/orders", False),
        ("/etc/passwd", "/", True),
        ("s3a://b/t/x", "s3://b/t", True),
        ("s3://b/t-evil/x", "s3://b/t", False),
        ("s3://b-evil/t/x", "s3://b", False),
        ("s3://b/anything", "s3://b/", True),
        ("gs://b/t/x", "s3://b/t", False),
        ("/b/t/x", "s3://b/t", False),
        ("http://h/t/x", "https://h/t", False),
    ],
)
def test_containment(path, root, inside):
    assert canonical_path(path, windows=False).is_within(canonical_path(root, windows=False)) is inside


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("https://h/t/%2e%2e/%252e%252e/x", ["/t/%2e%2e/%252e%252e/x", "/x"]),
        ("https://h/t/..%2fx", ["/t/..%2fx", "/x"]),
        ("s3://b/t/p=a%2F..%2F..%2Fb/x", ["/t/p=a%2F..%2F..%2Fb/x"]),  # this is the object's name
    ],
)
def test_a_path_has_two_targets_in_stores_that_decode(path, expected):
    assert [form.path for form in possible_targets(path)] == expected


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("../x", True),
        ("data/%2e%2E/%2e%2e/x", True),
        ("data/%252e%252e/x", True),
        ("..%2fx", True),
        (r"..\x", True),
        ("/lake/t/../x", True),
        ("data/..x/y..", False),
        ("data/a%20b", False),
        ("data/...", False),
    ],
)
def test_climbing_paths(recorded, expected):
    assert climbs(recorded) is expected


def test_a_path_that_is_encoded_a_thousand_times_is_decoded_a_few():
    assert not climbs("%" + "25" * 50_000 + "2e")


@contextmanager
def windows() -> Iterator[None]:
    """Use Windows' names for a few calls only, because pytest needs this system's names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "name", "nt")
        patch.setattr(os, "path", ntpath)
        yield


@pytest.mark.parametrize(
    "recorded",
    [
        "part-0.parquet",
        "./part-0.parquet",
        "file:/C:/lake/t/part-0.parquet",
        "file:///C:/lake/t/part-0.parquet",
        "C:/lake/t/part-0.parquet",
        "part%2D0.parquet",
    ],
)
@pytest.mark.parametrize("location", ["C:\\lake\\t", "file:/C:/lake/t", "C:/lake/t/"])
def test_the_log_of_a_delta_table_names_files_of_the_drive(location: str, recorded: str) -> None:
    paths = pa.array([recorded])
    with windows():
        root = TableRoot.at(location)
        keys = path_keys(paths, root)
        found = canonical_paths(keys, root)
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
    """Iceberg 1.11: the recorded paths differ from the opened directory only because the table was moved."""
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
