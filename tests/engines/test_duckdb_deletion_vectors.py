"""Deletion vectors end to end: which applies, and what is refused (iceberg 4.3, 4.5, 4.17 to 4.21, trap T11)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from harness.errors import HarnessError
from harness.table import open_table
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable
from harness.testing.writing.iceberg.files import Blob, write_puffin

MAGIC = b"\xd1\xd3\x39\x64"


@pytest.fixture
def t(tmp_path: Path) -> IcebergTable:
    return IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)


def data(t: IcebergTable, first: int = 0, count: int = 10) -> DataFileHandle:
    return t.write_data([{"id": i} for i in range(first, first + count)])


def alive(t: IcebergTable, **more: Any) -> list[int]:
    arrow = open_table(t.location, **more).snapshot().to_arrow(columns=["id"])
    return sorted(arrow.column(0).to_pylist())


def blob(bitmap: bytes) -> bytes:
    content = MAGIC + bitmap
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def bitmap_of(positions: Iterable[int]) -> bytes:
    return bytes(BitMap64(positions).serialize())


def replaced(vector: DataFileHandle, content: bytes, *, cardinality: int) -> DataFileHandle:
    """The vector with these bytes for its blob, behind a stale one, in a file whose footer lists neither right."""
    footer = {"type": "deletion-vector-v1", "fields": [1], "snapshot-id": -1, "sequence-number": -1, "properties": {}}
    stale = blob(bitmap_of([0, 1, 2]))
    _, (offset, size) = write_puffin(vector.file, [Blob(stale, footer), Blob(content, footer)])
    vector.data_file.update(content_offset=offset, content_size_in_bytes=size, record_count=cardinality)
    return vector


@pytest.mark.parametrize("dead", [[], [0, 9], list(range(2, 8))], ids=["none", "two", "range"])
def test_only_the_bytes_that_the_entry_names_count(t: IcebergTable, dead: list[int]) -> None:
    """iceberg 4.17, 4.19: not the blob before them; a vector without positions is legal."""
    f = data(t)
    t.append(f)
    (vector,) = t.write_deletion_vectors({f: [0]})
    t.commit(add=[replaced(vector, blob(bitmap_of(dead)), cardinality=len(dead))])
    assert alive(t) == [i for i in range(10) if i not in dead]


def edited(change: Callable[[bytes], bytes], *, cardinality: int = 2) -> Callable[[DataFileHandle], Any]:
    return lambda vector: replaced(vector, change(blob(bitmap_of([1, 2]))), cardinality=cardinality)


def entry(**changes: Any) -> Callable[[DataFileHandle], Any]:
    return lambda vector: vector.data_file.update(changes)


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda b: b[:at] + bytes([b[at] ^ 1]) + b[at:][1:]


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (edited(flipped(0)), "iceberg 4.18"),
        (edited(flipped(4)), "iceberg 4.18"),
        (edited(flipped(20)), "iceberg 4.18"),
        (edited(flipped(-1)), "iceberg 4.18"),
        (edited(lambda b: b[:-5]), "iceberg 4.18"),
        (edited(lambda _: blob(bitmap_of([1, 2]) + b"\0")), "iceberg 4.18"),
        (edited(lambda b: b, cardinality=3), "iceberg 4.19"),
        (edited(lambda _: blob(bitmap_of([1, 10]))), "iceberg 4.19"),
        (edited(lambda _: blob(bitmap_of([1, 2**32]))), "iceberg 4.19"),
        (entry(content_offset=10**6), "iceberg 4.17"),
        (entry(content_size_in_bytes=None), "iceberg 4.17"),
        (entry(content_offset=None), "iceberg 4.17"),
        (entry(referenced_data_file=None), "iceberg 4.17"),
    ],
    ids=[
        "length",
        "magic",
        "bitmap",
        "checksum",
        "cut",
        "trailing byte",
        "cardinality",
        "beyond the file",
        "key 1",
        "offset beyond the file",
        "no size",
        "no offset",
        "no data file",
    ],
)
def test_refused(t: IcebergTable, damage: Callable[[DataFileHandle], Any], rule: str) -> None:
    """iceberg 4.10, T11: a vector that is not right in every bit is never taken for one."""
    f = data(t)
    t.append(f)
    (vector,) = t.write_deletion_vectors({f: [1, 2]})
    damage(vector)
    t.commit(add=[vector])
    with pytest.raises(HarnessError) as caught:
        alive(t)
    assert (caught.value.cause, caught.value.rule) == ("CorruptDeletionVector", rule)
    assert str(caught.value.file).startswith(vector.path)
    assert caught.value.table == t.location


def test_a_vector_of_another_partition_is_refused(tmp_path: Path) -> None:
    """iceberg 4.3; the flag `lenient_delete_partition` applies it."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3, partition_spec=[("id", "identity")])
    f = t.write_data([{"id": 1}, {"id": 1}])
    t.append(f)
    (vector,) = t.write_deletion_vectors({f: [0]})
    vector.data_file["partition"] = {"id": 2}
    t.commit(add=[vector])
    assert alive(t, lenient_delete_partition=True) == [1]
    with pytest.raises(HarnessError) as caught:
        alive(t)
    assert (caught.value.cause, caught.value.rule) == ("DeletePartitionMismatch", "iceberg 4.3")


def test_a_vector_in_a_v2_table_is_refused(tmp_path: Path) -> None:
    """iceberg 4.17."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    f = data(t)
    t.append(f)
    t.commit(add=t.write_deletion_vectors({f: [1]}))
    t.edit_metadata(lambda doc: doc.update({"format-version": 2}))
    with pytest.raises(HarnessError) as caught:
        alive(t)
    assert (caught.value.cause, caught.value.rule) == ("CorruptDeletionVector", "iceberg 4.17")


@pytest.mark.parametrize("recorded", [9, 11], ids=["fewer", "more"])
def test_positions_need_the_recorded_row_count(t: IcebergTable, recorded: int) -> None:
    """iceberg 7.2: positions in a file of another length than recorded are somebody else's rows."""
    f = data(t)
    f.data_file["record_count"] = recorded
    t.append(f)
    t.commit(add=t.write_deletion_vectors({f: [1]}))
    with pytest.raises(HarnessError) as caught:
        alive(t)
    assert (caught.value.rule, caught.value.file) == ("iceberg 7.2", f.path)
