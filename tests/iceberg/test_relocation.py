"""Physical paths of many recorded ones at once: what the path map says of each (iceberg 1.12)."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.metadata.iceberg.source import physical_paths
from harness.storage.paths import PathMap
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

RECORDED = (
    "s3://b/t/data/a", "s3://b/t", "s3://b/tx/a", "/lake/t/a", "/lake/t", "/lake/tt", "s3a://b/t/a", "\U0001f600://x",
)  # fmt: skip
ODD = ("file:///lake/t/a", "FILE:/lake/t/b", "data/c", "./d", "./", "d/file:/e", "")


@pytest.mark.parametrize(
    "recorded", [RECORDED[:-1], RECORDED, (*RECORDED, *ODD), ()], ids=["plain", "text", "odd", "none"]
)
@pytest.mark.parametrize(
    "prefixes",
    [
        (),
        (("s3://b/t", "/here"),),
        (("s3://b/t/", "/here/"), ("s3://b", "/other")),
        (("s3://b", "/other"), ("s3://b/t", "/never"), ("/lake/t", "s3://c/t")),
        (("/lake", "relative/place"), ("file:///lake/t", "/never")),
        (("/", "/root"), ("", "/nothing"), ("s3://b/t", "/")),
        (("././d", "/here"), ("./data", "s3://b")),
    ],
    ids=["none", "one", "slashes", "first-wins", "relative", "root", "dots"],
)
def test_many_paths_are_mapped_as_each_of_them(prefixes, recorded):
    path_map = PathMap(prefixes, base="/start")
    found = physical_paths(path_map, pa.chunked_array([pa.array(recorded, pa.string())]))
    assert found.to_pylist() == [path_map.physical(path) for path in recorded]


@pytest.mark.parametrize("location", ["/old/\ud800", "\udcff", "s3://b/\ud800/t", "hdfs://\ud800/t"], ids=ascii)
@pytest.mark.parametrize("key", ["location", "write.metadata.path", "write.data.path"])
def test_a_recorded_location_with_half_a_character(tmp_path: Path, location: str, key: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))

    def moved(document: dict[str, Any]) -> None:
        name = document["snapshots"][-1]["manifest-list"].rsplit("/", 1)[-1]
        document["snapshots"][-1]["manifest-list"] = f"{location}/metadata/{name}"
        document["location"] = location
        document["properties"] = {} if key == "location" else {key: f"{location}/metadata"}

    path = max((tmp_path / "t/metadata").glob("*.metadata.json"))
    document = json.loads(path.read_text())
    moved(document)
    path.write_text(json.dumps(document))
    # Data files are recorded where they are, and no path of theirs begins with what is not UTF-8.
    assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow().num_rows == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.parametrize("make", [IcebergTable, DeltaTable])
def test_a_table_in_a_directory_that_is_not_utf_8(tmp_path: Path, make: Any) -> None:
    table = make.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    shutil.copytree(tmp_path / "t", tmp_path / "moved\udcff")
    with pytest.raises(harness.MissingFileError, match="half a character"):
        harness.open_table(str(tmp_path / "moved\udcff")).snapshot().to_arrow()
