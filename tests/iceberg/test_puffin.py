"""Puffin frames and deletion vectors from bytes put together by hand."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from harness.errors import CorruptDeleteError, CorruptFileError, MissingFileError
from harness.metadata.iceberg import position_deletes
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.storage.stores import Storage

# Positions 3, 5 and 9: one array container.
ROARING = struct.pack("<QIIIHHI3H", 1, 0, 12346, 1, 0, 2, 16, 3, 5, 9)


def vector(bitmap=ROARING, *, magic=b"\xd1\xd3\x39\x64", length=None, crc=None):
    body = magic + bitmap
    length = len(body) if length is None else length
    return struct.pack(">I", length) + body + struct.pack(">I", zlib.crc32(body) if crc is None else crc)


def footer_json(blobs, **properties):
    return json.dumps({"blobs": blobs, "properties": properties}).encode()


def framed(*blobs, payload=None, flags=0, size=None):
    body = b"".join(blobs)
    payload = footer_json([]) if payload is None else payload
    size = len(payload) if size is None else size
    return b"PFA1" + body + b"PFA1" + payload + struct.pack("<iI", size, flags) + b"PFA1"


def entry(offset=4, size=None, count=3):
    file = DataFile(
        content=Content.POSITION_DELETES, path="s3://t/dv.puffin", format="puffin", spec_id=0, partition={},
        record_count=count, size=1, referenced_data_file="a.parquet", content_offset=offset,
        content_size=len(vector()) if size is None else size,
    )  # fmt: skip
    return ManifestEntry(Status.ADDED, 1, 1, 1, file, "m.avro")


def opened(tmp_path, data):
    path = tmp_path / "dv.puffin"
    path.write_bytes(data)
    return position_deletes.open_puffin(Storage(), str(path), file="dv.puffin")


def test_read_deletion_vector_of_a_large_file(tmp_path):
    padding = bytes(1 << 19)
    file = opened(tmp_path, framed(padding, vector()))
    assert file.content is None
    found = position_deletes.read_deletion_vector(file, entry(offset=4 + len(padding)), data_record_count=10)
    assert list(found) == [3, 5, 9]


@pytest.mark.parametrize(
    ("blob", "count", "rows", "reason", "rule"),
    [
        pytest.param(
            vector(length=5), 3, 10, "it declares 5 bytes, expected 38 for a blob of 46 bytes", "4.18", id="length"
        ),
        pytest.param(
            vector(magic=b"\x64\x39\xd3\xd1"),
            3,
            10,
            "its magic is 64 39 D3 D1, expected D1 D3 39 64",
            "4.18",
            id="magic",
        ),
        pytest.param(vector(crc=1), 3, 10, "its checksum is 00000001, computed", "4.18", id="checksum"),
        pytest.param(vector(ROARING + b"\0"), 3, 10, "1 bytes follow the last bitmap", "4.18", id="trailing byte"),
        pytest.param(vector()[:10], 3, 10, "it has 10 bytes, expected at least 20", "4.18", id="too short"),
        pytest.param(
            vector(), 2, 10, "it holds 3 positions, expected 2 as its manifest entry says", "4.19", id="cardinality"
        ),
        pytest.param(vector(), None, 10, "it holds 3 positions, expected None", "4.19", id="cardinality unknown"),
        pytest.param(
            vector(), 3, 9, "it deletes position 9 of a data file with 9 rows", "4.19", id="position beyond the end"
        ),
    ],
)
def test_read_deletion_vector_refuses(tmp_path, blob, count, rows, reason, rule):
    file = opened(tmp_path, framed(blob))
    with pytest.raises(CorruptDeleteError) as caught:
        position_deletes.read_deletion_vector(file, entry(size=len(blob), count=count), data_record_count=rows)
    error = caught.value
    assert error.message.startswith(f"Cannot decode deletion vector: {reason}")
    assert (error.cause, error.rule) == ("CorruptDeletionVector", f"iceberg {rule}")
    assert (error.file, error.field) == ("dv.puffin", "a.parquet")


@pytest.mark.parametrize(("offset", "size"), [(0, 42), (-4, 42), (4, 1000), (4, -1), (None, 42)], ids=str)
def test_blob_outside_the_file_is_refused(tmp_path, offset, size):
    with pytest.raises(CorruptDeleteError) as caught:
        position_deletes.read_deletion_vector(
            opened(tmp_path, framed(vector())), entry(offset, size), data_record_count=10
        )
    assert caught.value.rule == "iceberg 4.17"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(vector(), id="bare vector"),
        pytest.param(framed(vector())[:-1], id="cut at the end"),
        pytest.param(framed(vector())[1:], id="cut at the start"),
        pytest.param(b"", id="empty"),
        pytest.param(b"PFA1", id="magic only"),
    ],
)
def test_open_puffin_refuses_files_without_frame(tmp_path, data):
    with pytest.raises(CorruptFileError) as caught:
        opened(tmp_path, data)
    assert (caught.value.file, caught.value.rule) == ("dv.puffin", "iceberg 4.22")


def test_bare_vector_error_says_what_to_do(tmp_path):
    with pytest.raises(CorruptFileError) as caught:
        opened(tmp_path, vector())
    assert str(caught.value) == (
        f"Cannot read Puffin file: its 46 bytes begin with 00 00 00 26 and end with {vector()[-4:].hex(' ').upper()},"
        " expected 50 46 41 31 at both ends. Restore the file, or rewrite the delete with a current writer"
        " [CorruptDeletionVector; file dv.puffin, rule iceberg 4.22]"
    )


def test_open_puffin_of_a_missing_file(tmp_path):
    with pytest.raises(MissingFileError):
        position_deletes.open_puffin(Storage(), str(tmp_path / "none.puffin"))
