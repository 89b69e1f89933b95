"""Tables that break a rule, or ask for what is not read: one named error in one line, no rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    InvalidTableError,
    MissingFileError,
    TableNotFoundError,
    UnsupportedError,
)
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable, corrupt, truncate


@dataclass
class Broken:
    """A table with two data files, a position delete file (v2) or deletion vector (v3), and an equality delete."""

    t: IcebergTable
    data: DataFileHandle
    other: DataFileHandle
    positions: DataFileHandle
    equality: DataFileHandle

    @property
    def list_path(self) -> Path:
        return self.t.file_of(self.t.snapshots[-1]["manifest-list"])

    @property
    def manifest_paths(self) -> list[Path]:
        return [self.t.file_of(p) for p in self.t.manifests()]

    @property
    def metadata_directory(self) -> Path:
        return self.t.store.directory / "metadata"

    def entry(self, handle: DataFileHandle, **values: Any) -> None:
        """Change the `data_file` of a file that is committed."""
        self.t.edit_manifest(
            handle,
            lambda m: [r["data_file"].update(values) for r in m.records if r["data_file"]["file_path"] == handle.path],
        )

    def entries(self, handle: DataFileHandle, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the manifest entries of a file that is committed."""
        self.t.edit_manifest(
            handle, lambda m: [change(r) for r in m.records if r["data_file"]["file_path"] == handle.path]
        )

    def metadata(self, **values: Any) -> None:
        """Set keys of the metadata document; None takes a key away."""
        for key, value in values.items():
            name = key.replace("_", "-")
            self.t.edit_metadata(lambda d, n=name, v=value: d.pop(n) if v is None else d.update({n: v}))


def build(directory: Path, version: int) -> Broken:
    t = IcebergTable.create(directory, {"id": "long", "region": "string"}, format_version=version)
    data = t.write_data([{"id": i, "region": "eu"} for i in range(6)])
    other = t.write_data([{"id": i, "region": "us"} for i in range(6, 9)])
    t.append(data, other)
    if version == 3:
        (positions,) = t.write_deletion_vectors({data: [1, 3]})
    else:
        positions = t.write_position_deletes([(data, 1), (data, 3)])
    equality = t.write_equality_deletes(["id"], [{"id": 7}])
    t.commit(add=[positions, equality])
    return Broken(t, data, other, positions, equality)


def failure(location: str, **how: Any) -> harness.HarnessError:
    """What reading a table raises, by either way of reading it; it must be in one line and name the table."""
    with pytest.raises(harness.HarnessError) as caught:
        harness.open_table(location).snapshot().to_arrow(**how)
    with pytest.raises(type(caught.value)):
        harness.open_table(location).snapshot().to_duckdb(**how).fetchall()
    assert "\n" not in str(caught.value)
    return caught.value


# (case, format version, what breaks, error class, cause, file that must be named)
Case = tuple[str, int, Callable[[Broken], Any], type[harness.HarnessError], str, Callable[[Broken], str] | None]
DATA, POSITIONS, EQUALITY = (lambda b: b.data.path), (lambda b: b.positions.path), (lambda b: b.equality.path)
LIST, MANIFEST = (lambda b: b.list_path.name), (lambda b: b.manifest_paths[-1].name)
METADATA = lambda b: b.t.metadata_path.name  # noqa: E731

FILES: list[Case] = [
    ("empty data file", 2, lambda b: b.data.file.write_bytes(b""), MissingFileError, "MissingFile", DATA),
    (
        "encrypted footer",
        2,
        lambda b: b.data.file.write_bytes(b"PARE" + b"x" * 90 + b"PARE"),
        EncryptedTableError,
        "EncryptedTable",
        DATA,
    ),
    (
        "truncated position deletes",
        2,
        lambda b: truncate(b.positions.file, 30),
        CorruptFileError,
        "CorruptFile",
        POSITIONS,
    ),
    ("missing deletion vector", 3, lambda b: b.positions.file.unlink(), MissingFileError, "MissingFile", POSITIONS),
    ("truncated deletion vector", 3, lambda b: truncate(b.positions.file, 20), CorruptFileError, None, POSITIONS),
    (
        "deletion vector of a wrong CRC",
        3,
        lambda b: corrupt(b.positions.file, crc_place(b)),
        CorruptDeleteError,
        "CorruptDeletionVector",
        POSITIONS,
    ),
    ("missing equality deletes", 2, lambda b: b.equality.file.unlink(), MissingFileError, "MissingFile", EQUALITY),
    ("missing manifest list", 2, lambda b: b.list_path.unlink(), MissingFileError, "MissingFile", LIST),
    ("truncated manifest list", 2, lambda b: truncate(b.list_path, -30), CorruptFileError, "CorruptManifest", LIST),
    ("empty manifest list", 2, lambda b: b.list_path.write_bytes(b""), CorruptFileError, "CorruptManifest", LIST),
    ("missing manifest", 2, lambda b: b.manifest_paths[-1].unlink(), MissingFileError, "MissingFile", MANIFEST),
    (
        "manifest is text",
        2,
        lambda b: b.manifest_paths[-1].write_text("{}"),
        CorruptFileError,
        "CorruptManifest",
        MANIFEST,
    ),
]


def crc_place(b: Broken) -> int:
    return b.positions.data_file["content_offset"] + b.positions.data_file["content_size_in_bytes"] - 1


ENTRIES: list[Case] = [
    (
        "unknown delete format",
        2,
        lambda b: b.entry(b.equality, file_format="LANCE"),
        UnsupportedError,
        "UnsupportedFormat",
        EQUALITY,
    ),
    (
        "parquet said to be avro",
        2,
        lambda b: b.entry(b.data, file_format="AVRO"),
        CorruptFileError,
        "CorruptDataFile",
        DATA,
    ),
    (
        "parquet said to be orc",
        2,
        lambda b: b.entry(b.data, file_format="ORC"),
        CorruptFileError,
        "CorruptDataFile",
        DATA,
    ),
    (
        "existing entry without a sequence number",
        2,
        lambda b: b.entries(b.data, lambda r: r.update(status=0, sequence_number=None)),
        InvalidTableError,
        "MissingSequenceNumber",
        None,
    ),
    ("no equality ids", 2, lambda b: b.entry(b.equality, equality_ids=None), InvalidTableError, None, EQUALITY),
    (
        "deletion vector without an offset",
        3,
        lambda b: b.entry(b.positions, content_offset=None),
        InvalidTableError,
        None,
        POSITIONS,
    ),
    ("position beyond the file", 3, lambda b: b.entry(b.data, record_count=2), HarnessError, None, None),
    (
        "unknown partition spec",
        2,
        lambda b: b.t.edit_manifest_list(lambda m: [r.update(partition_spec_id=9) for r in m.records]),
        InvalidTableError,
        "MissingSpec",
        None,
    ),
    (
        "manifest list without paths",
        2,
        lambda b: b.t.edit_manifest_list(drop_paths),
        CorruptFileError,
        "CorruptManifest",
        LIST,
    ),
]


def drop_paths(m: Any) -> None:
    m.schema["fields"] = [f for f in m.schema["fields"] if f["field-id"] != 500]


DOCUMENTS: list[Case] = [
    ("no version", 2, lambda b: b.metadata(format_version=None), TableNotFoundError, None, METADATA),
    ("version is text", 2, lambda b: b.metadata(format_version="two"), InvalidTableError, None, METADATA),
    ("no JSON", 2, lambda b: b.t.metadata_path.write_text("not json"), InvalidTableError, None, METADATA),
    ("JSON but no table", 2, lambda b: b.t.metadata_path.write_text("[]"), TableNotFoundError, None, METADATA),
    ("cut JSON", 2, lambda b: truncate(b.t.metadata_path, 100), InvalidTableError, None, METADATA),
    (
        "current schema unknown",
        2,
        lambda b: b.metadata(current_schema_id=9),
        InvalidTableError,
        "MissingSchema",
        METADATA,
    ),
    ("no partition specs", 2, lambda b: b.metadata(partition_specs=None), InvalidTableError, "MissingSpec", METADATA),
    (
        "current snapshot unknown",
        2,
        lambda b: b.metadata(current_snapshot_id=9),
        HarnessError,
        "MissingSnapshot",
        METADATA,
    ),
    (
        "main is not the current snapshot",
        2,
        lambda b: b.t.edit_metadata(
            lambda d: d["refs"]["main"].update({"snapshot-id": d["snapshots"][0]["snapshot-id"]})
        ),
        InvalidTableError,
        None,
        METADATA,
    ),
    (
        "no manifest list",
        2,
        lambda b: b.t.edit_metadata(lambda d: d["snapshots"][-1].pop("manifest-list")),
        InvalidTableError,
        None,
        None,
    ),
    (
        "bad name mapping",
        2,
        lambda b: b.t.set_properties(**{"schema.name-mapping.default": "{"}),
        InvalidTableError,
        None,
        None,
    ),
    ("hint without its file", 2, lambda b: b.t.metadata_path.unlink(), TableNotFoundError, "MetadataNotFound", None),
]
CASES = [pytest.param(*case[1:], id=case[0]) for case in (*FILES, *ENTRIES, *DOCUMENTS)]


@pytest.mark.parametrize(("version", "damage", "error", "cause", "file"), CASES)
def test_bad_input(tmp_path, version, damage, error, cause, file):
    b = build(tmp_path / "t", version)
    named = None if file is None else file(b)
    damage(b)
    location = str(b.t.store.directory)
    caught = failure(location)
    assert isinstance(caught, error), repr(caught)
    assert cause is None or caught.cause == cause, str(caught)
    assert named is None or named in str(caught)
    assert location in str(caught)


@pytest.mark.parametrize("format", ["avro", "orc", "parquet"])
@pytest.mark.parametrize("size", [0, 4, 20, -1, -20])
def test_truncated_files_of_every_format(tmp_path, format, size):  # 7.6
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    f = t.write_data([{"id": i, "s": "x" * i} for i in range(100)], format=format)
    t.append(f)
    truncate(f.file, size)
    caught = failure(str(t.store.directory))
    assert isinstance(caught, harness.CorruptFileError | harness.MissingFileError), repr(caught)
    assert f.path in (caught.file or "")


def test_damaged_pages_are_one_error_of_harness(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    f = t.write_data([{"id": i, "s": f"text {i}"} for i in range(1000)])
    t.append(f)
    start = pq.read_metadata(f.file).row_group(0).column(1).data_page_offset
    for offset in range(start, start + 30):
        corrupt(f.file, offset)
    with pytest.raises(harness.HarnessError) as caught:
        harness.open_table(str(t.store.directory)).snapshot().to_arrow()
    assert "\n" not in str(caught.value)
    assert str(t.store.directory) in str(caught.value)


def test_a_whole_message(tmp_path):
    b = build(tmp_path / "t", 2)
    b.data.file.unlink()
    assert str(failure(str(b.t.store.directory))) == (
        "Cannot read a data file: it is missing or empty; restore it, or map its path with path_map "
        f"[MissingFile; table {b.t.store.directory}, snapshot {b.t.snapshot_id}, file {b.data.path}, rule iceberg 7.6]"
    )


def test_a_moved_file_is_named_by_both_paths(tmp_path):  # 1.12
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, recorded_location="s3://bucket/t")
    f = t.write_data([{"id": 1}])
    t.append(f)
    f.file.unlink()
    caught = failure(str(tmp_path / "t"))
    assert caught.file == f"{f.path} ({f.file})"


@pytest.mark.parametrize("version", [2, 3])
def test_a_broken_file_that_is_not_read_does_no_harm(tmp_path, version):  # planning skips it
    b = build(tmp_path / "t", version)
    b.other.file.unlink()
    rows = harness.open_table(str(b.t.store.directory)).snapshot().to_arrow(where="id < 3")
    assert sorted(rows["id"].to_pylist()) == [0, 2]


@pytest.mark.parametrize(
    ("how", "error", "part"),
    [
        ({"columns": ["regoin"]}, harness.UnknownColumnError, "region"),
        ({"where": "regoin = 'eu'"}, harness.UnknownColumnError, "region"),
        ({"where": "id ="}, harness.RequestError, "Cannot parse the filter"),
        ({"where": "1; DROP TABLE x"}, harness.RequestError, ""),
        ({"columns": ["id", "id"]}, harness.RequestError, "named twice"),
        ({"columns": "id"}, harness.RequestError, "list of names"),
    ],
    ids=str,
)
def test_bad_requests(tmp_path, how, error, part):
    b = build(tmp_path / "t", 2)
    caught = failure(str(b.t.store.directory), **how)
    assert isinstance(caught, error)
    assert part in str(caught)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 no PAR1", b"\0" * 64, b"Obj\x01", b"ORC"], ids=repr)
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_nonsense_in_place_of_a_file(tmp_path, format, content):
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    f = t.write_data([{"id": 1}], format=format)
    t.append(f)
    f.file.write_bytes(content)
    caught = failure(str(t.store.directory))
    assert f.path in (caught.file or "")
