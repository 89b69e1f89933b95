"""Physical paths of many recorded ones at once: what the path map says of each (iceberg 1.12)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.iceberg.relocation import physical_paths
from harness.storage.paths import PathMap

RECORDED = (
    "s3://b/t/data/a",
    "s3://b/t",
    "s3://b/tx/a",
    "/lake/t/a",
    "/lake/t",
    "/lake/tt",
    "s3a://b/t/a",
    "\U0001f600://x",
)
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
