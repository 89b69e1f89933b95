"""Arrays of values that are easily confused: by type, one array of distinct values and a null."""

import uuid
from decimal import Decimal

import pyarrow as pa

MOST, LEAST = 2**63 - 1, -(2**63)
FLIPPED = bytearray(24)
FLIPPED[7] = FLIPPED[15] = 0x80  # the highest bit of two words; a hash that only folds words does not see it
SWAPPED = (1, 1 << 64)  # the same two words in reverse order
TIMES = [0, 1, -1, 1500, -1500, 10**15, None]


def array(values: list, type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_)


def nested(values: list, item: pa.DataType) -> pa.Array:
    return pa.array(values, pa.list_(pa.field("element", item)))


PEOPLE = pa.struct([pa.field("b", pa.int64()), pa.field("a", pa.string())])
WORDS = pa.map_(pa.string(), pa.int64())

SHARED = {
    "boolean": array([True, False, None], pa.bool_()),
    "int8": array([0, 1, -1, 127, -128, None], pa.int8()),
    "int16": array([0, 1, -1, 300, None], pa.int16()),
    "int32": array([0, 1, -1, 2**31 - 1, -(2**31), None], pa.int32()),
    "int64": array([0, 1, -1, MOST, LEAST, 1 << 32, None], pa.int64()),
    "float": array([0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e-45, None], pa.float32()),
    "double": array([0.0, -0.0, 1.5, float("nan"), float("inf"), 5e-324, 0.1, None], pa.float64()),
    "decimal-9": array([Decimal(t) for t in ("0.00", "-0.01", "0.01", "1234567.89")] + [None], pa.decimal128(9, 2)),
    "decimal-18": array([Decimal(t) for t in ("0.00", "-0.01", "9999999999999999.99")] + [None], pa.decimal128(18, 2)),
    "decimal-38": array(
        [Decimal(t) for t in ("0", "-1", "9" * 38, "-" + "9" * 38, *map(str, SWAPPED))] + [None], pa.decimal128(38, 0)
    ),
    "decimal-38-10": array(
        [Decimal(t) for t in ("0", "-0.0000000001", "0.0000000001", "9" * 28 + "." + "9" * 10)] + [None],
        pa.decimal128(38, 10),
    ),
    "text": array(["", "a", "A", "a\0", "abcdefgh", "abcdefghi", "é漢" * 9, "x", None], pa.string()),
    "bytes": array([b"", b"\0", b"\0\0", bytes(24), bytes(FLIPPED), b"x" * 7, b"x" * 8, None], pa.binary()),
    "date": array([0, -1, 1, 2932896, -719162, None], pa.date32()),
    "timestamp": array([0, 1, -1, 10**15, -(10**15), None], pa.timestamp("us")),
    "instant": array([0, 1, -1, 10**15, -(10**15), None], pa.timestamp("us", "UTC")),
    "list": nested([[], [None], [1], [1, 2], [2, 1], [1, 1], [None, None], None], pa.int64()),
    "list-of-lists": nested([[], [[]], [[], []], [[1]], [None], [[1], None], None], pa.list_(pa.int64())),
    "struct": array(
        [{"b": 1, "a": "x"}, {"b": None, "a": None}, {"b": None, "a": "x"}, {"b": 1, "a": None}, None], PEOPLE
    ),
    "map": array([[], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)], [("a", 2), ("b", 1)], None], WORDS),
    "list-of-structs": nested([[], [{"b": 1, "a": "x"}], [{"b": 1, "a": None}], [None], None], PEOPLE),
}
"""Types that Spark supports."""

UUIDS = [bytes(16), bytes(15) + b"\1", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes, b"\xff" * 16, None]

CARRIED = {
    "time": array([0, 1, 86_399_999_999, None], pa.time64("us")),
    "time-ns": array([0, 1, 1000, 86_399_999_999_999, None], pa.time64("ns")),
    "timestamp-ns": array([*TIMES, MOST], pa.timestamp("ns")),
    "instant-ns": array([*TIMES, MOST], pa.timestamp("ns", "UTC")),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), array(UUIDS, pa.binary(16))),
    "fixed": array(UUIDS, pa.binary(16)),
    "list-of-times": nested([[], [0], [1], None], pa.time64("us")),
}
"""Types that are stored as other types in DataFrames that harness makes."""

ARROW_ONLY = {
    "uint64": array([0, 1, 2**64 - 1, MOST, None], pa.uint64()),
    "half": array([0.0, 1.5, None], pa.float16()),
    "timestamp-s": array(TIMES, pa.timestamp("s")),
    "timestamp-ms": array(TIMES, pa.timestamp("ms")),
    "time-s": array([0, 1, 86_399, None], pa.time32("s")),
    "duration": array(TIMES, pa.duration("ns")),
    "date-ms": array([0, 86_400_000, -86_400_000, None], pa.date64()),
    "dictionary": array(["a", "", None, "b"], pa.string()).dictionary_encode(),
    "large": array(["a", "", None], pa.large_string()),
    "view": array([b"a", b"", None, b"x" * 20], pa.binary_view()),
    "large-list": array([[], [1], None], pa.large_list(pa.int64())),
    "fixed-list": array([[1, 2], [2, 1], None], pa.list_(pa.int64(), 2)),
    "nulls": array([None], pa.null()),
}

ALL = {**SHARED, **CARRIED, **ARROW_ONLY}
