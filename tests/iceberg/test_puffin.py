"""Puffin frames and deletion vectors from bytes put together by hand."""

import json
import struct
import zlib

import pytest

from harness.errors import CorruptDeleteError
from harness.metadata.iceberg import position_deletes
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.storage.stores import Storage

# Positions 3, 5 and 9: one array container.
ROARING = struct.pack("<QIIIHHI3H", 1, 0, 12346, 1, 0, 2, 16, 3, 5, 9)


BODY = b"\xd1\xd3\x39\x64" + ROARING
VECTOR = struct.pack(">I", len(BODY)) + BODY + struct.pack(">I", zlib.crc32(BODY))


def framed(*blobs):
    payload = json.dumps({"blobs": [], "properties": {}}).encode()
    return b"PFA1" + b"".join(blobs) + b"PFA1" + payload + struct.pack("<iI", len(payload), 0) + b"PFA1"


def entry(offset=4, size=None):
    file = DataFile(
        content=Content.POSITION_DELETES, path="s3://t/dv.puffin", format="puffin", spec_id=0, partition={},
        record_count=3, size=1, referenced_data_file="a.parquet", content_offset=offset,
        content_size=len(VECTOR) if size is None else size,
    )  # fmt: skip
    return ManifestEntry(Status.ADDED, 1, 1, 1, file, "m.avro")


def opened(tmp_path, data):
    path = tmp_path / "dv.puffin"
    path.write_bytes(data)
    return position_deletes.open_puffin(Storage(), str(path), file="dv.puffin")


def test_read_deletion_vector_of_a_large_file(tmp_path):
    padding = bytes(1 << 19)
    file = opened(tmp_path, framed(padding, VECTOR))
    assert file.content is None
    found = position_deletes.read_deletion_vector(file, entry(offset=4 + len(padding)), data_record_count=10)
    assert list(found) == [3, 5, 9]


def test_a_vector_too_short_to_be_one_is_refused(tmp_path):
    file = opened(tmp_path, framed(VECTOR))
    with pytest.raises(CorruptDeleteError, match="it has 10 bytes, expected at least 20") as caught:
        position_deletes.read_deletion_vector(file, entry(size=10), data_record_count=10)
    assert (caught.value.rule, caught.value.file, caught.value.field) == ("iceberg 4.18", "dv.puffin", "a.parquet")


@pytest.mark.parametrize(("offset", "size"), [(0, 42), (-4, 42), (4, 1000), (4, -1), (None, 42)], ids=str)
def test_blob_outside_the_file_is_refused(tmp_path, offset, size):
    with pytest.raises(CorruptDeleteError) as caught:
        position_deletes.read_deletion_vector(
            opened(tmp_path, framed(VECTOR)), entry(offset, size), data_record_count=10
        )
    assert caught.value.rule == "iceberg 4.17"
