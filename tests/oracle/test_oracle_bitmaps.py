"""Deletion vectors decoded by hand, against what pyroaring and struct write."""

import struct
import zlib
from collections.abc import Iterable

import pytest
from pyroaring import BitMap, BitMap64

from harness.testing.oracle.bitmaps import delta_vector, puffin_vector

MAGIC = b"\xd1\xd3\x39\x64"


def puffin(positions: Iterable[int]) -> bytes:
    return framed_puffin(MAGIC + bytes(BitMap64(positions).serialize()))


def framed_puffin(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def delta(positions: Iterable[int]) -> bytes:
    body = struct.pack("<i", 1681511377) + bytes(BitMap64(positions).serialize())
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def native(*bitmaps: Iterable[int]) -> bytes:
    parts = [bytes(BitMap(bitmap).serialize()) for bitmap in bitmaps]
    body = struct.pack("<ii", 1681511376, len(parts)) + b"".join(struct.pack("<i", len(p)) + p for p in parts)
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


SETS = {
    "empty": set(),
    "one": {0},
    "array": {1, 5, 65535},
    "two containers": {1, 65536, 131071},
    "bitset": set(range(0, 20000, 2)),
    "above 2^32": {7, 2**32 + 7, 2**33},
    "4096 and 4097": set(range(0, 8192, 2)) | set(range(65536, 65536 + 8194, 2)),
}


@pytest.mark.parametrize("positions", SETS.values(), ids=SETS)
def test_vectors_of_both_formats(positions: set[int]) -> None:
    assert set(puffin_vector(puffin(positions))) == positions
    assert set(delta_vector(delta(positions))) == positions


def test_the_older_layout_counts_buckets() -> None:
    assert set(delta_vector(native({1, 2}, (), {3}))) == {1, 2, 2 * 2**32 + 3}


GOOD = puffin({1, 5, 9})
BROKEN = {
    "checksum": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "length": b"\0" + GOOD[:-1],
    "cut": GOOD[:20],
    "magic": framed_puffin(b"\0" + GOOD[5:-4]),
    "bytes after it": framed_puffin(GOOD[4:-4] + b"\0"),
    "cardinality": framed_puffin(GOOD[4:-4].replace(struct.pack("<HH", 0, 2), struct.pack("<HH", 0, 1), 1)),
    "out of order": framed_puffin(GOOD[4:-4].replace(struct.pack("<HHH", 1, 5, 9), struct.pack("<HHH", 1, 9, 5))),
    "key": framed_puffin(MAGIC + struct.pack("<QI", 1, 2**31 - 1) + bytes(BitMap({1}).serialize())),
    "same key twice": framed_puffin(MAGIC + struct.pack("<Q", 2) + (b"\0" * 4 + bytes(BitMap({1}).serialize())) * 2),
}


@pytest.mark.parametrize("blob", BROKEN.values(), ids=BROKEN)
def test_damage_is_refused(blob: bytes) -> None:
    assert set(puffin_vector(GOOD)) == {1, 5, 9}
    with pytest.raises(ValueError, match=r"\w"):
        puffin_vector(blob)
