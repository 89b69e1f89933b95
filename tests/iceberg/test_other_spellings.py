"""Position deletes that name a data file by another scheme or authority (iceberg 1.14): told, joined by word only."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import HarnessWarning, InvalidTableError
from harness.testing.writing.iceberg.builder import IcebergTable

AUTHORITIES = ["hdfs://host:8020", "s3a://bucket", "file:", "file://"]
KINDS = ["position deletes", "position deletes for one file", "deletion vector"]


def make(folder: Path, authority: str, kind: str) -> tuple[str, str]:
    """A table of three rows, the second of which is dead by another name of its file; location and delete file."""
    table = IcebergTable.create(folder / "t", {"id": "long"}, format_version=3 if kind == "deletion vector" else 2)
    data = table.write_data([{"id": 1}, {"id": 2}, {"id": 3}])
    table.append(data)
    other = authority + data.path
    match kind:
        case "position deletes":
            delete = table.write_position_deletes([(other, 1)])
        case "position deletes for one file":
            delete = table.write_position_deletes([(other, 1)], referenced=other)
        case _:
            (delete,) = table.write_deletion_vectors({data: [1]})
            delete.data_file["referenced_data_file"] = other
    table.append(delete)
    return str(folder / "t"), delete.path


def ids(read: harness.Table, **more: Any) -> list[int]:
    return sorted(read.snapshot().to_arrow(**more)["id"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("authority", AUTHORITIES)
def test_it_is_told_and_joined_by_a_path_map(tmp_path: Path, authority: str, kind: str) -> None:
    location, delete = make(tmp_path, authority, kind)
    with pytest.warns(HarnessWarning) as told:
        assert ids(harness.open_table(location)) == [1, 2, 3]
    (sentence,) = [str(warning.message) for warning in told]
    assert f"Position delete file {delete} deletes no row" in sentence
    option = f"{{'{authority}{location}': '{location}'}}"
    assert sentence.endswith(f"say path_map={option}")
    assert ids(harness.open_table(location, path_map={authority + location: location})) == [1, 3]
    with pytest.warns(HarnessWarning, match="deletes no row"):
        assert ids(harness.open_table(location, path_map={"hdfs://elsewhere/x": location})) == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_untrusted_table_it_is_an_error(tmp_path: Path, kind: str) -> None:
    location, _ = make(tmp_path, "hdfs://host:8020", kind)
    table = harness.open_table(location, untrusted=True)
    with pytest.raises(InvalidTableError, match="deletes no row"):
        ids(table)
