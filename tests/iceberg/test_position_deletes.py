"""Position deletes in three formats, and vectors in Puffin files, by data file; differently spelled paths."""

import io
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    HarnessWarning,
    InvalidTableError,
    UnsupportedError,
)
from harness.metadata.deletes import puffin
from harness.metadata.plan.deletes import StoredVector
from harness.metadata.planned_scan import with_storage
from harness.storage.stores import Storage
from harness.writing.iceberg.builder import IcebergTable

A, C = "s3://t/data/a.parquet", "s3://t/data/c.parquet"
PATH_ID, POS_ID = 2147483546, 2147483545


def with_ids(table, *ids):
    fields = [f.with_metadata({"PARQUET:field_id": str(i)}) for f, i in zip(table.schema, ids, strict=True)]
    return table.cast(pa.schema(fields))


def rows(*pairs):
    paths, positions = zip(*pairs, strict=True)
    return pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def load(tmp_path, content, file_format="parquet"):
    """Read one delete file, s3://t/d, whose bytes are in `tmp_path`."""
    (tmp_path / "d").write_bytes(content)
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    table.append(data)
    table.append(table.write_position_deletes([(data, 0)]))
    plan = harness.open_table(tmp_path / "t").snapshot().plan()
    (delete,) = plan.position_deletes.files
    delete = replace(delete, path="s3://t/d", physical=f"{tmp_path}/d", format=file_format)
    plan = replace(plan, table="s3://t", position_deletes=replace(plan.position_deletes, files=(delete,)))
    with_storage(plan, Storage()).load_positions([0])


ODD, UNREAD = "Position delete file has ", "Cannot read position delete file: "


def columns(paths, positions):
    return parquet(pa.table({"file_path": paths, "pos": positions}))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (parquet(rows((A, None))), CorruptDeleteError, f"{ODD}1 rows without pos"),
        (parquet(rows((None, 1), (A, 2))), CorruptDeleteError, f"{ODD}1 rows without file_path"),
        (parquet(rows((C, -5), (A, 1))), CorruptDeleteError, f"{ODD}position -5"),  # for another data file
        (parquet(rows((A, 1)).drop_columns("pos")), CorruptFileError, f"{UNREAD}0 columns are pos by name"),
        (
            parquet(with_ids(rows((A, 1)), PATH_ID, 1)),
            CorruptFileError,
            f"{UNREAD}0 columns are pos by field id {POS_ID}",
        ),
        (columns([A], [1.0]), CorruptDeleteError, f"{ODD}positions of type double"),
        (columns([b"\xff"], [1]), CorruptDeleteError, f"{ODD}paths of type binary, expected UTF-8 text"),
        (
            columns(pa.array([6], pa.uint64()), [1]),
            CorruptDeleteError,
            f"{ODD}paths of type uint64, expected UTF-8 text",
        ),
        (
            columns(pa.array([], pa.float64()), pa.array([], pa.int64())),
            CorruptDeleteError,
            f"{ODD}paths of type double, expected UTF-8 text",
        ),
        (parquet(rows((A, 1)))[:-20], CorruptFileError, UNREAD),
        (b"", CorruptFileError, UNREAD),
        (parquet(rows((A, 1)))[:-4] + b"PARE", EncryptedTableError, f"{UNREAD}it is encrypted"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, content, error, message):
    with pytest.raises(HarnessError) as caught:
        load(tmp_path, content)
    assert type(caught.value) is error
    assert caught.value.message.startswith(message)
    assert caught.value.file == f"s3://t/d ({tmp_path}/d)"
    assert caught.value.table == "s3://t"
    assert caught.value.rule is not None


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, b"x", "lance")
    assert (
        caught.value.message == "Cannot read position delete file: its format is lance, expected parquet, avro or orc"
    )


AUTHORITIES = ["hdfs://host:8020", "s3a://bucket", "file:", "file://"]
KINDS = ["position deletes", "position deletes for one file", "deletion vector"]


def make(folder: Path, authority: str, kind: str) -> tuple[str, str]:
    """A table of three rows. The second row is deleted under another spelling of its file's path.

    Returns the location and the path of the delete file.
    """
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
def test_a_stray_delete_is_reported_and_a_path_map_applies_it(tmp_path: Path, authority: str, kind: str) -> None:
    location, delete = make(tmp_path, authority, kind)
    with pytest.warns(HarnessWarning) as caught:
        assert ids(harness.open_table(location)) == [1, 2, 3]
    (sentence,) = [str(warning.message) for warning in caught]
    assert f"Position delete file {delete} deletes no row" in sentence
    option = f"{{'{authority}{location}': '{location}'}}"
    assert sentence.endswith(f"pass path_map={option}")
    assert ids(harness.open_table(location, path_map={authority + location: location})) == [1, 3]
    with pytest.warns(HarnessWarning, match="deletes no row"):
        assert ids(harness.open_table(location, path_map={"hdfs://elsewhere/x": location})) == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stray_delete_in_an_untrusted_table_is_an_error(tmp_path: Path, kind: str) -> None:
    location, _ = make(tmp_path, "hdfs://host:8020", kind)
    table = harness.open_table(location, untrusted=True)
    with pytest.raises(InvalidTableError, match="deletes no row"):
        ids(table)


# Positions 3, 5 and 9: one array container.
ROARING = struct.pack("<QIIIHHI3H", 1, 0, 12346, 1, 0, 2, 16, 3, 5, 9)


BODY = b"\xd1\xd3\x39\x64" + ROARING
VECTOR = struct.pack(">I", len(BODY)) + BODY + struct.pack(">I", zlib.crc32(BODY))


def framed(*blobs):
    payload = json.dumps({"blobs": [], "properties": {}}).encode()
    return b"PFA1" + b"".join(blobs) + b"PFA1" + payload + struct.pack("<iI", len(payload), 0) + b"PFA1"


def vector(offset=4, size=None):
    length = len(VECTOR) if size is None else size
    path = "s3://t/dv.puffin"
    return StoredVector(path=path, physical=path, format="puffin", offset=offset, length=length, record_count=3)


def opened(tmp_path, data):
    path = tmp_path / "dv.puffin"
    path.write_bytes(data)
    return puffin.open_puffin(Storage(), str(path), file="dv.puffin")


def read(file, *place, **more):
    return puffin.read_deletion_vector(file, vector(*place, **more), target="a.parquet", data_record_count=10)


def test_read_deletion_vector_of_a_large_file(tmp_path):
    padding = bytes(1 << 19)
    file = opened(tmp_path, framed(padding, VECTOR))
    assert file.content is None
    found = read(file, offset=4 + len(padding))
    assert list(found) == [3, 5, 9]


def test_a_vector_too_short_to_be_one_is_refused(tmp_path):
    file = opened(tmp_path, framed(VECTOR))
    with pytest.raises(CorruptDeleteError, match="it has 10 bytes, expected at least 20") as caught:
        read(file, size=10)
    assert (caught.value.rule, caught.value.file, caught.value.field) == ("iceberg 4.18", "dv.puffin", "a.parquet")


@pytest.mark.parametrize(("offset", "size"), [(0, 42), (-4, 42), (4, 1000), (4, -1)], ids=str)
def test_blob_outside_the_file_is_refused(tmp_path, offset, size):
    with pytest.raises(CorruptDeleteError) as caught:
        read(opened(tmp_path, framed(VECTOR)), offset, size)
    assert caught.value.rule == "iceberg 4.17"
