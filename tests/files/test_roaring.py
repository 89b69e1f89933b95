"""64-bit roaring bitmaps from bytes written by hand after the format's description."""

import struct

import numpy as np
import pytest
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError
from harness.metadata.files import roaring


def u16(*values):
    return struct.pack(f"<{len(values)}H", *values)


def u32(*values):
    return struct.pack(f"<{len(values)}I", *values)


def portable(*bitmaps):
    return struct.pack("<Q", len(bitmaps)) + b"".join(u32(key) + data for key, data in bitmaps)


# One array container under high bits 0: cookie, count, (high, cardinality - 1), offset 16, values.
ARRAY = u32(12346, 1) + u16(0, 2) + u32(16) + u16(3, 5, 9)
EMPTY = u32(12346, 0)
# Every even value below 10,000 under high bits 2: 5,000 values need a bitset.
EVEN_BITS = sum(1 << bit for bit in range(0, 10_000, 2)).to_bytes(8192, "little")
BITSET = u32(12346, 1) + u16(2, 4999) + u32(16) + EVEN_BITS
# Cookie 12347 with count - 1 above it, the flag that container 0 is runs, no offsets: runs 10..12 and 20..20.
RUNS = u32(12347) + b"\x01" + u16(0, 3) + u16(2, 10, 2, 20, 0)
# Cookie 12347 with an array and a run container, still too few for offsets.
MIXED = u32(12347 | 1 << 16) + b"\x02" + u16(0, 0, 1, 1) + u16(7) + u16(1, 65534, 1)
# Four containers with the run cookie have offsets: 4 + 1 + 16 + 16 = 37, then 6, 2 and 2 bytes further.
FOUR = u32(12347 | 3 << 16) + b"\x01" + u16(0, 1, 1, 0, 2, 0, 3, 0) + u32(37, 43, 45, 47) + u16(1, 4, 1) + u16(1, 2, 3)
BASE = 1 << 32


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(portable(), [], id="no bitmaps"),
        pytest.param(portable((0, EMPTY)), [], id="empty bitmap"),
        pytest.param(portable((0, ARRAY)), [3, 5, 9], id="array"),
        pytest.param(portable((0, BITSET)), list(range(131072, 141072, 2)), id="bitset"),
        pytest.param(portable((0, RUNS)), [10, 11, 12, 20], id="runs"),
        pytest.param(portable((0, MIXED)), [7, 131070, 131071], id="array and runs, no offsets"),
        pytest.param(portable((0, FOUR)), [4, 5, 65537, 131074, 196611], id="runs and arrays with offsets"),
        pytest.param(portable((1, ARRAY)), [BASE + 3, BASE + 5, BASE + 9], id="key 1"),
        (portable((0, RUNS), (7, ARRAY)), [10, 11, 12, 20, 7 * BASE + 3, 7 * BASE + 5, 7 * BASE + 9]),
        (portable((5, ARRAY), (0, RUNS)), [10, 11, 12, 20, 5 * BASE + 3, 5 * BASE + 5, 5 * BASE + 9]),
        pytest.param(portable((2**31 - 2, ARRAY)), [(2**31 - 2) * BASE + n for n in (3, 5, 9)], id="greatest key"),
    ],
)
def test_decode_portable_gives_positions(data, expected):
    assert list(roaring.decode_portable(data)) == expected
    assert list(roaring.decode_portable(memoryview(data))) == expected


CUT, KEYS = "the bitmap ends early", "the container keys of a bitmap do not ascend"
VALUES, RUNS_TEXT = "the values of an array container do not ascend", "the runs of a container"
MANY = "a bitmap declares 65537 containers, expected at most 65536"


def of_runs(cardinality, *runs):
    """A container of runs whose header declares this many values minus one."""
    return portable((0, u32(12347) + b"\x01" + u16(0, cardinality) + u16(len(runs) // 2, *runs)))


def of_two(first, second):
    return portable((0, u32(12346, 2) + u16(first, 0, second, 0) + u32(24, 26) + u16(1, 1)))


DAMAGED = {
    "no bytes": (b"", f"{CUT}, after 0 bytes"),
    "count cut": (b"\0" * 7, f"{CUT}, after 7 bytes"),
    "count": (struct.pack("<Q", 1 << 60), "it declares 1152921504606846976 bitmaps, more than its 8 bytes"),
    "trailing byte": (portable((0, ARRAY)) + b"\0", "1 bytes follow the last bitmap"),
    "array cut": (portable((0, ARRAY))[:-1], CUT),
    "bitset cut": (portable((0, BITSET))[:-1], CUT),
    "runs cut": (portable((0, RUNS))[:-1], CUT),
    "header cut": (portable((0, u32(12346, 9) + u16(0, 0))), CUT),
    "duplicate key": (portable((3, ARRAY), (3, RUNS)), "two bitmaps have the same key"),
    "key too large": (portable((2**31 - 1, ARRAY)), "key 2147483647 is too large, expected below 2147483647"),
    "unknown cookie": (portable((0, u32(12345, 1))), "a bitmap starts with cookie 12345, expected 12346 or 12347"),
    "too many containers": (portable((0, u32(12346, 65537))), MANY),
    "container keys descend": (of_two(1, 0), KEYS),
    "container key repeated": (of_two(1, 1), KEYS),
    "wrong offset": (portable((0, ARRAY.replace(u32(16), u32(17)))), "the container offsets of a bitmap are wrong"),
    "array not sorted": (portable((0, ARRAY[:-6] + u16(3, 9, 5))), VALUES),
    "array value repeated": (portable((0, ARRAY[:-6] + u16(3, 3, 5))), VALUES),
    "bitset": (portable((0, BITSET.replace(u16(4999), u16(4998), 1))), "a bitset container holds 5000 values, 4999"),
    "run cardinality": (of_runs(4, 10, 2, 20, 0), "a run container holds 4 values, 5 declared"),
    "runs overlap": (of_runs(3, 10, 2, 12, 0), "the runs of a container overlap"),
    "runs descend": (of_runs(3, 20, 0, 10, 2), "the runs of a container overlap"),
    "run leaves the container": (of_runs(1, 65535, 1), RUNS_TEXT),
    "no runs": (of_runs(0), RUNS_TEXT),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_decode_portable_refuses_damage(data, reason):
    with pytest.raises(CorruptDeleteError) as caught:
        roaring.decode_portable(data, rule="iceberg 4.18")
    assert caught.value.message.startswith(f"Cannot decode deletion vector: {reason}")
    assert (caught.value.cause, caught.value.rule) == ("CorruptDeletionVector", "iceberg 4.18")


def test_decode_portable_refuses_descending_keys_where_the_format_does():
    with pytest.raises(CorruptDeleteError, match="the keys of its bitmaps do not ascend"):
        roaring.decode_portable(portable((5, ARRAY), (0, RUNS)), key_order="ascending")
    assert len(roaring.decode_portable(portable((0, RUNS), (5, ARRAY)), key_order="ascending")) == 7


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(u32(1, len(ARRAY) + 1) + ARRAY + b"\0", id="length too long"),
        pytest.param(u32(1, len(ARRAY)) + ARRAY + b"\0", id="trailing byte"),
        pytest.param(struct.pack("<i", -1) + ARRAY, id="negative count"),
        pytest.param(b"\1", id="cut"),
    ],
)
def test_decode_native_refuses_damage(data):
    with pytest.raises(CorruptDeleteError):
        roaring.decode_native(data)


@pytest.mark.parametrize(
    "positions",
    [
        pytest.param([], id="none"),
        pytest.param([0], id="first"),
        pytest.param([9, 3, 3, 5], id="unsorted with duplicates"),
        pytest.param(range(4096), id="largest array"),
        pytest.param(range(4097), id="smallest bitset"),
        pytest.param(range(65530, 131080), id="three containers, one full"),
        pytest.param([5, BASE + 5, 3 * BASE, 3 * BASE + 65536], id="several keys"),
    ],
)
def test_from_positions_contains_all_positions(positions):
    array = np.array(positions, dtype=np.int64)
    bitmap = roaring.from_positions(array)
    assert bitmap == BitMap64(sorted(set(positions)))
    assert roaring.to_positions(bitmap).tolist() == sorted(set(positions))
    assert roaring.decode_portable(bitmap.serialize()) == bitmap
