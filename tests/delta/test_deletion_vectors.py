import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import CorruptDeleteError
from harness.metadata.deletes.delta_vectors import decode_inline, decode_stored, decode_z85, read_vectors
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.scan import vector_path
from harness.metadata.plan.deletes import InlineVector, StoredVector
from harness.storage.stores import Storage
from harness.writing.delta.files import bitmap_bytes, vector_file_bytes
from harness.writing.delta.files import z85 as encode_z85

ODD = "^-aqEH.-t@S}K{vb[*~^"
PORTABLE, NATIVE = 1681511377, 1681511376


def stored(path: str, *, length: int, record_count: int, offset: int = 1) -> StoredVector:
    return StoredVector(path=path, physical=path, format="bin", offset=offset, length=length, record_count=record_count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("abcd", "4 characters, expected a multiple of 5", id="length"),
        pytest.param("abcd~", "the character '~', which Z85 does not have", id="alphabet"),
        pytest.param("abcdé", "the character 'é', which Z85 does not have", id="not ASCII"),
        pytest.param("%nSc1", "the group '%nSc1', which is above 32 bits", id="overflow"),
    ],
)
def test_z85_refuses(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        decode_z85(text)


@pytest.mark.parametrize(
    ("kind", "text", "reason", "rule"),
    [
        ("u", "short", "path 'short' is shorter than 20 characters", "D2"),
        ("u", f"ab{ODD}", f"path 'ab{ODD}' has the character '~', which Z85 does not have", "D2"),
        ("p", "folder/v.bin", "path 'folder/v.bin' is relative, expected an absolute URI", "D3"),
    ],
)
def test_path_is_refused(kind, text, reason, rule):
    with pytest.raises(CorruptDeleteError) as caught:
        vector_path(kind, text, TableRoot.at("/t"))
    assert str(caught.value) == (
        f"Cannot read deletion vector: its {reason}. Restore the table [DeletionVectorError; rule delta {rule}]"
    )


DATA = bitmap_bytes([1, 2, 9], "portable")
BROKEN_INLINE = [
    pytest.param(encode_z85(DATA), len(DATA) - 5, 3, "delta D4", id="longer than declared"),
    pytest.param(encode_z85(DATA), len(DATA) + 4, 3, "delta D4", id="shorter than declared"),
    pytest.param("~" * 5, 4, 3, "delta D4", id="no Z85"),
    pytest.param(encode_z85(DATA), len(DATA), 2, "delta D9", id="cardinality"),
    pytest.param(encode_z85(DATA + b"\0\0\0\0"), len(DATA) + 4, 3, "delta D7", id="bytes after the end (D8)"),
    (encode_z85(struct.pack(">iii", NATIVE, 1, 100) + DATA[12:]), len(DATA), 3, "delta D7"),
    pytest.param(encode_z85(b"\1\2"), 2, 3, "delta D7", id="no magic"),
    pytest.param(encode_z85(struct.pack("<i", 1681511378) + DATA[4:]), len(DATA), 3, "delta D7", id="other magic"),
    pytest.param(
        encode_z85(struct.pack("<iQIIII", PORTABLE, 2, 1, 12346, 0, 0) + struct.pack("<III", 12346, 0, 0)),
        40,
        0,
        "delta D7",
        id="keys descend",
    ),
]


@pytest.mark.parametrize(("text", "size", "cardinality", "rule"), BROKEN_INLINE)
def test_broken_inline_vector(text, size, cardinality, rule):
    with pytest.raises(CorruptDeleteError) as caught:
        decode_inline(InlineVector(text=text, length=size, record_count=cardinality))
    assert (caught.value.rule, caught.value.cause) == (rule, "DeletionVectorError")


def frame(data: bytes = DATA, *, length: int | None = None, checksum: int | None = None) -> bytes:
    size = len(data) if length is None else length
    crc = zlib.crc32(data) if checksum is None else checksum
    return struct.pack(">i", size) + data + struct.pack(">I", crc)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        pytest.param(frame()[:-1], "delta D14", id="cut"),
        pytest.param(b"", "delta D14", id="nothing"),
        pytest.param(frame(length=len(DATA) - 1), "delta D5", id="another length"),
        pytest.param(frame(checksum=1), "delta D5", id="checksum"),
        pytest.param(frame(DATA[:-1] + b"\x08"), "delta D9", id="another bitmap"),
    ],
)
def test_broken_stored_vector(data, rule):
    size, cardinality = len(DATA), 3 if rule != "delta D9" else 2
    with pytest.raises(CorruptDeleteError) as caught:
        decode_stored(data, stored("", length=size, record_count=cardinality))
    assert caught.value.rule == rule


def vectors_file(path: Path, *positions: list[int], version: int = 1) -> list[StoredVector]:
    payloads = [bitmap_bytes(p, "portable") for p in positions]
    content, offsets = vector_file_bytes(payloads)
    path.write_bytes(bytes([version]) + content[1:])
    return [
        stored(str(path), length=len(data), record_count=len(p), offset=offset)
        for data, p, offset in zip(payloads, positions, offsets, strict=True)
    ]


def load(*vectors: StoredVector):
    """Read the vectors of one file."""
    targets = {i: f"f{i}" for i in range(len(vectors))}
    return read_vectors(Storage(), vectors[0].physical, dict(enumerate(vectors)), targets)


@pytest.mark.parametrize("wrong", [{"length": -8}, {"offset": -5}], ids=str)
def test_a_vector_at_an_invalid_position(tmp_path, wrong):
    (vector,) = vectors_file(tmp_path / "v.bin", [7])
    with pytest.raises(CorruptDeleteError, match="expected 0 or more"):
        load(replace(vector, **wrong))


@pytest.mark.parametrize(
    ("damage", "error", "rule"),
    [
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-3]), CorruptDeleteError, "delta D14", id="cut"),
        pytest.param(lambda path: path.write_bytes(b""), CorruptDeleteError, "delta D5", id="empty"),
        (lambda path: path.write_bytes(b"\2" + path.read_bytes()[1:]), CorruptDeleteError, "delta D5"),
    ],
)
def test_a_damaged_file(tmp_path, damage, error, rule):
    vectors = vectors_file(tmp_path / "v.bin", [1], [2])
    damage(tmp_path / "v.bin")
    with pytest.raises(error) as caught:
        load(*vectors)
    assert caught.value.rule == rule
    assert caught.value.file.startswith(str(tmp_path / "v.bin"))
