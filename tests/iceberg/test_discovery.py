"""Which metadata file of a table is current, and the physical paths of many recorded paths at once (iceberg 1.12)."""

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import AmbiguousTableError, CorruptFileError
from harness.metadata.iceberg.table import IcebergTable as OpenedTable
from harness.metadata.iceberg.table import load
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.paths import PathMap
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

A = "00001-aaaaaaaa-0000-0000-0000-000000000000.metadata.json"
B = "00001-bbbbbbbb-0000-0000-0000-000000000000.metadata.json"
C = "00002-cccccccc-0000-0000-0000-000000000000.metadata.json"
OLD = "00010-dddddddd-0000-0000-0000-000000000000.metadata.json"
TEMPORARY = "12345678-1234-1234-1234-123456789012.metadata.json"


def document(name: str = "", **changes: Any) -> dict[str, Any]:
    """Minimal metadata of a v1 table, with its file name as a property."""
    return {
        "format-version": 1,
        "location": "s3://bucket/db/t",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": []},
        "partition-spec": [],
        "properties": {"name": name},
    } | changes


def write(directory: Path, *names: str, hint: str | bytes | None = None, **changes: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        data = json.dumps(document(name, **changes)).encode()
        (directory / name).write_bytes(gzip.compress(data) if "gz" in name else data)
    if hint is not None:
        (directory / "version-hint.text").write_bytes(hint if isinstance(hint, bytes) else hint.encode())


def find(location: Path | str, **options: Any) -> OpenedTable:
    return load(str(location), Storage(), ReadOptions(**options))


def read_name(opened: OpenedTable) -> str:
    """The name of the file whose content was read."""
    assert opened.metadata_path.endswith("/" + opened.metadata.properties["name"])
    return opened.metadata.properties["name"]


@pytest.mark.parametrize(
    ("names", "hint", "expected"),
    [
        pytest.param(["v1.metadata.json"], " 1\r\n", "v1.metadata.json", id="1.3 blanks"),
        pytest.param(["v1.metadata.json"], b"\xef\xbb\xbf1", "v1.metadata.json", id="1.3 byte order mark"),
        pytest.param(["v2.metadata.json"], "v2", "v2.metadata.json", id="1.6 stem of a version"),
        (["v1.metadata.json", "v2.metadata.json", "v4.metadata.json"], "1", "v2.metadata.json"),
        pytest.param(["v1.metadata.json", "v2.gz.metadata.json"], "1", "v2.gz.metadata.json", id="1.3 lag to gzip"),
        pytest.param(["v1.gz.metadata.json"], "1", "v1.gz.metadata.json", id="1.3 gz before"),
        pytest.param(["v1.metadata.json.gz"], "1", "v1.metadata.json.gz", id="1.3 gz after"),
        pytest.param(["v1.gzip.metadata.json"], "1", "v1.gzip.metadata.json", id="1.7 gzip"),
        pytest.param(["v1.metadata.json", "v1.gz.metadata.json"], "1", "v1.metadata.json", id="1.3 plain first"),
        pytest.param([A, C], A, A, id="1.6 full name"),
        pytest.param(["final.gz.metadata.json"], "final", "final.gz.metadata.json", id="1.6 stem of gzip"),
        pytest.param(["2.metadata.json", A], "2", "2.metadata.json", id="1.6 number as a stem"),
        pytest.param(["v1.metadata.json", "v2.metadata.json"], " \n", "v2.metadata.json", id="1.4 empty hint"),
        pytest.param(["v9.metadata.json", "v10.gz.metadata.json"], None, "v10.gz.metadata.json", id="1.4 gzip"),
        pytest.param(["v1.metadata.json", TEMPORARY], None, "v1.metadata.json", id="1.4 left-over of a commit"),
    ],
)
@pytest.mark.parametrize("relative_path", ["table", "table/", "table/metadata", "table/metadata/"])
def test_find_metadata_in_a_directory(tmp_path, names, hint, expected, relative_path):
    write(tmp_path / "table" / "metadata", *names, hint=hint)
    (tmp_path / "table" / "metadata" / "notes.txt").write_text("not metadata")
    assert read_name(find(f"{tmp_path}/{relative_path}")) == expected


def test_catalog_names_need_permission_to_guess_1_5(tmp_path: Path) -> None:
    write(tmp_path / "metadata", A, C, OLD)
    with pytest.raises(AmbiguousTableError) as caught:
        find(tmp_path)
    assert str(caught.value) == (
        f"Cannot determine the current metadata file: there is no version hint, and '{OLD}' only has the highest "
        "number. Open the metadata file by its path, or pass allow_version_guess=True "
        f"[AmbiguousMetadata; table {tmp_path}, file {tmp_path}/metadata, rule iceberg 1.5]"
    )
    guessed = find(tmp_path, allow_version_guess=True)
    assert read_name(guessed) == OLD
    assert guessed.warnings == (f"Guessed that {OLD} is the current metadata file [iceberg 1.5]",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["v00009-a.metadata.json", "v00010-b.metadata.json"], "v00010-b.metadata.json"),
        (["v9-a.gz.metadata.json", "v10-b.metadata.json.gz"], "v10-b.metadata.json.gz"),
        ([A, "v00002-b.metadata.json"], "v00002-b.metadata.json"),
        (["v1700000000000-a.metadata.json"], "v1700000000000-a.metadata.json"),
    ],
)
def test_catalog_names_may_begin_with_a_letter_1_5(tmp_path: Path, names: list[str], expected: str) -> None:
    write(tmp_path / "metadata", *names)
    with pytest.raises(AmbiguousTableError, match="pass allow_version_guess=True"):
        find(tmp_path)
    assert read_name(find(tmp_path, allow_version_guess=True)) == expected


def test_a_tie_goes_to_the_only_newest_1_5(tmp_path: Path) -> None:
    write(tmp_path / "metadata", A, **{"last-updated-ms": 5})
    write(tmp_path / "metadata", B, **{"last-updated-ms": 4})
    assert read_name(find(tmp_path, allow_version_guess=True)) == A


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        pytest.param({"last-updated-ms": 5}, {"last-updated-ms": 5}, id="equal times"),
        pytest.param(
            {"last-updated-ms": 5},
            {"last-updated-ms": 4, "metadata-log": [{"timestamp-ms": 1, "metadata-file": f"s3://b/t/metadata/{A}"}]},
            id="newest is in the other's log",
        ),
    ],
)
def test_a_tie_that_cannot_be_settled_is_an_error_1_5(tmp_path: Path, of_a: Any, of_b: Any) -> None:
    write(tmp_path / "metadata", A, **of_a)
    write(tmp_path / "metadata", B, **of_b)
    with pytest.raises(AmbiguousTableError, match="several files have the highest number") as caught:
        find(tmp_path, allow_version_guess=True)
    assert caught.value.cause == "AmbiguousMetadata"


def test_a_tie_without_times_is_an_error_1_5(tmp_path: Path) -> None:
    write(tmp_path / "metadata", A, B, **{"last-updated-ms": None})
    with pytest.raises(CorruptFileError, match="has no 'last-updated-ms'"):
        find(tmp_path, allow_version_guess=True)


@pytest.mark.parametrize(
    "names",
    [["vfinal.metadata.json", A], ["vfinal.metadata.json"], ["v9.metadata.json", A], [TEMPORARY]],
    ids=["odd and numbered", "odd", "two schemes", "left-over only"],
)
def test_undecided_names_are_never_guessed_1_4(tmp_path: Path, names: list[str]) -> None:
    write(tmp_path / "metadata", *names)
    with pytest.raises(AmbiguousTableError, match="the file names do not decide"):
        find(tmp_path, allow_version_guess=True)


LOCATION = "s3://bucket/db/t"


def snapshots(manifest_list: str) -> dict[str, Any]:
    return {
        "current-snapshot-id": 1,
        "snapshots": [{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": manifest_list}],
    }


@pytest.mark.parametrize("has_manifest_list", [True, False], ids=["manifest list beside it", "lone metadata file"])
def test_metadata_directory_under_another_name_1_12(tmp_path: Path, has_manifest_list: bool) -> None:
    directory = tmp_path / "renamed"
    write(directory, "v1.metadata.json", **snapshots(f"{LOCATION}/metadata/snap.avro"))
    if has_manifest_list:
        (directory / "snap.avro").write_bytes(b"")
    expected = ((f"{LOCATION}/metadata", str(directory)),) if has_manifest_list else ()
    assert find(directory / "v1.metadata.json").path_map == PathMap(expected)


ODD = ("file:///lake/t/a", "FILE:/lake/t/b", "data/c", "./d", "./", "d/file:/e", "")


@pytest.mark.parametrize("location", ["/old/\ud800", "\udcff", "s3://b/\ud800/t", "hdfs://\ud800/t"], ids=ascii)
@pytest.mark.parametrize("key", ["location", "write.metadata.path", "write.data.path"])
def test_a_recorded_location_with_half_a_character(tmp_path: Path, location: str, key: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))

    def moved_table(document: dict[str, Any]) -> None:
        name = document["snapshots"][-1]["manifest-list"].rsplit("/", 1)[-1]
        document["snapshots"][-1]["manifest-list"] = f"{location}/metadata/{name}"
        document["location"] = location
        document["properties"] = {} if key == "location" else {key: f"{location}/metadata"}

    path = max((tmp_path / "t/metadata").glob("*.metadata.json"))
    document = json.loads(path.read_text())
    moved_table(document)
    path.write_text(json.dumps(document))
    # Data files keep their recorded paths, and none of these starts with the prefix that is not UTF-8.
    assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow().num_rows == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.parametrize("make", [IcebergTable, DeltaTable])
def test_a_table_in_a_directory_that_is_not_utf_8(tmp_path: Path, make: Any) -> None:
    table = make.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    shutil.copytree(tmp_path / "t", tmp_path / "moved\udcff")
    with pytest.raises(harness.MissingFileError, match="half a character"):
        harness.open_table(str(tmp_path / "moved\udcff")).snapshot().to_arrow()
