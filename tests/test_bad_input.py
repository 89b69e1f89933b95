"""Tables that break a rule or use an unsupported feature raise one error in one line and return no rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    EncryptedTableError,
    InvalidTableError,
    MissingFileError,
    TableNotFoundError,
)
from harness.writing.iceberg.builder import IcebergFile, IcebergTable, corrupt, truncate


def as_text(file: Path) -> None:
    """Overwrite a file with an empty JSON object of the same length."""
    file.write_text("{}".ljust(file.stat().st_size))


@dataclass
class Broken:
    """A table with two data files, a position delete file (v2) or deletion vector (v3), and an equality delete."""

    t: IcebergTable
    data: IcebergFile
    other: IcebergFile
    positions: IcebergFile
    equality: IcebergFile

    @property
    def list_path(self) -> Path:
        return self.t.file_of(self.t.snapshots[-1]["manifest-list"])

    @property
    def manifest_paths(self) -> list[Path]:
        return [self.t.file_of(p) for p in self.t.manifests()]

    def entry(self, handle: IcebergFile, **values: Any) -> None:
        """Change the `data_file` of a committed file."""
        self.t.edit_manifest(
            handle,
            lambda m: [r["data_file"].update(values) for r in m.records if r["data_file"]["file_path"] == handle.path],
        )


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
    """Return the error of reading a table, by either kind of read. It must be one line and name the table."""
    with pytest.raises(harness.HarnessError) as caught:
        harness.open_table(location).snapshot().to_arrow(**how)
    with pytest.raises(type(caught.value)):
        harness.open_table(location).snapshot().to_duckdb(**how).fetchall()
    assert "\n" not in str(caught.value)
    return caught.value


DATA, POSITIONS, EQUALITY = (lambda b: b.data.path), (lambda b: b.positions.path), (lambda b: b.equality.path)
LIST, MANIFEST = (lambda b: b.list_path.name), (lambda b: b.manifest_paths[-1].name)
METADATA = lambda b: b.t.metadata_path.name  # noqa: E731


def crc_place(b: Broken) -> int:
    return b.positions.data_file["content_offset"] + b.positions.data_file["content_size_in_bytes"] - 1


# The damage, for tables of version 2, or of version 3 for vectors: error class, cause, and the named file.
CASES = {
    "empty data file": (lambda b: b.data.file.write_bytes(b""), MissingFileError, "MissingFile", DATA),
    "encrypted footer": (lambda b: b.data.file.write_bytes(ENCRYPTED), EncryptedTableError, "EncryptedTable", DATA),
    "cut position deletes": (lambda b: truncate(b.positions.file, 30), CorruptFileError, "CorruptFile", POSITIONS),
    "missing vector": (lambda b: b.positions.file.unlink(), MissingFileError, "MissingFile", POSITIONS),
    "cut vector": (lambda b: truncate(b.positions.file, 20), CorruptFileError, "CorruptDeletionVector", POSITIONS),
    "vector of a wrong CRC": (
        lambda b: corrupt(b.positions.file, crc_place(b)),
        CorruptDeleteError,
        "CorruptDeletionVector",
        POSITIONS,
    ),
    "missing equality deletes": (lambda b: b.equality.file.unlink(), MissingFileError, "MissingFile", EQUALITY),
    "missing manifest list": (lambda b: b.list_path.unlink(), MissingFileError, "MissingFile", LIST),
    "cut manifest list": (lambda b: truncate(b.list_path, -30), CorruptFileError, "CorruptManifest", LIST),
    "empty manifest list": (lambda b: b.list_path.write_bytes(b""), CorruptFileError, "CorruptManifest", LIST),
    "missing manifest": (lambda b: b.manifest_paths[-1].unlink(), MissingFileError, "MissingFile", MANIFEST),
    "text manifest": (lambda b: as_text(b.manifest_paths[-1]), CorruptFileError, "CorruptManifest", MANIFEST),
    "cut manifest": (lambda b: truncate(b.manifest_paths[-1], -30), CorruptFileError, "CorruptManifest", MANIFEST),
    "said to be avro": (lambda b: b.entry(b.data, file_format="AVRO"), CorruptFileError, "CorruptDataFile", DATA),
    "said to be orc": (lambda b: b.entry(b.data, file_format="ORC"), CorruptFileError, "CorruptDataFile", DATA),
    "no JSON": (lambda b: b.t.metadata_path.write_text("not json"), CorruptFileError, "CorruptMetadata", METADATA),
    "JSON but no table": (lambda b: b.t.metadata_path.write_text("[]"), TableNotFoundError, "NotATable", METADATA),
    "bad name mapping": (
        lambda b: b.t.set_properties(**{"schema.name-mapping.default": "{"}),
        InvalidTableError,
        "InvalidTable",
        None,
    ),
    "hint without its file": (lambda b: b.t.metadata_path.unlink(), TableNotFoundError, "MetadataNotFound", None),
}
ENCRYPTED = b"PARE" + b"x" * 90 + b"PARE"


@pytest.mark.parametrize("case", CASES)
def test_bad_input(tmp_path, case):
    damage, error, cause, file = CASES[case]
    b = build(tmp_path / "t", 3 if "vector" in case else 2)
    named = None if file is None else file(b)
    damage(b)
    location = str(b.t.store.directory)
    caught = failure(location)
    assert isinstance(caught, error), repr(caught)
    assert caught.cause == cause, str(caught)
    assert named is None or named in str(caught)
    assert location in str(caught)


@pytest.mark.parametrize("format", ["avro", "orc", "parquet"])
@pytest.mark.parametrize(
    "damage", [0, 4, 20, -1, -20, b"", b"PAR1", b"PAR1 no PAR1", b"\0" * 64, b"Obj\x01", b"ORC"], ids=repr
)
def test_cut_files_and_nonsense_of_every_format(tmp_path, format, damage):  # 7.6
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    f = t.write_data([{"id": i, "s": "x" * i} for i in range(100)], format=format)
    t.append(f)
    truncate(f.file, damage) if isinstance(damage, int) else f.file.write_bytes(damage)
    caught = failure(str(t.store.directory))
    assert isinstance(caught, harness.CorruptFileError | harness.MissingFileError), repr(caught)
    assert f.path in (caught.file or "")


def test_a_whole_message(tmp_path):
    b = build(tmp_path / "t", 2)
    b.data.file.unlink()
    assert str(failure(str(b.t.store.directory))) == (
        "Cannot read a data file: it is missing or empty; restore it, or map its path with path_map "
        f"[MissingFile; table {b.t.store.directory}, snapshot {b.t.snapshot_id}, file {b.data.path}, rule iceberg 7.6]"
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_broken_file_that_is_not_read_does_no_harm(tmp_path, version):  # planning skips the file
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
