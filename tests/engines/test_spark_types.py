"""Every physical type of Parquet through both of Spark's readers, and the Spark types that harness gives out."""

from __future__ import annotations

import base64
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from stored_on_spark import physical_schema, stored_frame, write

import harness
from harness.engines.duckdb.instance import connect
from harness.engines.spark.types import natural, shown, storage_type
from harness.metadata.model.file_schema import STORED_STRUCT, PhysicalField
from harness.metadata.model.schema import (
    Field,
    FloatType,
    OpaqueType,
    TimestampType,
    UnsignedType,
)

I64 = [-(2**63), 2**63 - 1]
UUID = b"0123456789abcdef"


def micros(values: list[Any], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


def uuids(values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))


NTZ, TZ, LONG, BINARY = s.TimestampNTZType(), s.TimestampType(), s.LongType(), s.BinaryType()
STORED: dict[str, tuple[pa.Array, s.DataType, list[Any]]] = {
    "boolean": (pa.array([True, False, None]), s.BooleanType(), [True, False, None]),
    "int8": (pa.array([-128, 127, None], pa.int8()), s.ByteType(), [-128, 127, None]),
    "int16": (pa.array([-32768, 32767, None], pa.int16()), s.ShortType(), [-32768, 32767, None]),
    "int32": (pa.array([-(2**31), 2**31 - 1, None], pa.int32()), s.IntegerType(), [-(2**31), 2**31 - 1, None]),
    "int64": (pa.array([*I64, None], pa.int64()), LONG, [*I64, None]),
    "uint8": (pa.array([0, 255, None], pa.uint8()), s.ShortType(), [0, 255, None]),
    "uint16": (pa.array([0, 65535, None], pa.uint16()), s.IntegerType(), [0, 65535, None]),
    "uint32": (pa.array([0, 2**32 - 1, None], pa.uint32()), LONG, [0, 2**32 - 1, None]),
    "uint64": (
        pa.array([0, 2**64 - 1, None], pa.uint64()),
        s.DecimalType(20, 0),
        [Decimal(0), Decimal(2**64 - 1), None],
    ),
    "half": (pa.array([1.5, None, -0.0], pa.float16()), BINARY, [b"\x00\x3e", None, b"\x00\x80"]),
    "float": (
        pa.array([1.5, None, 3.4028234663852886e38], pa.float32()),
        s.FloatType(),
        [1.5, None, 3.4028234663852886e38],
    ),
    "double": (pa.array([5e-324, None, float("inf")]), s.DoubleType(), [5e-324, None, float("inf")]),
    "date": (
        pa.array([-(2**31), -800_000, 2**31 - 1], pa.int32()).cast(pa.date32()),
        s.DateType(),
        [-(2**31), -800_000, 2**31 - 1],
    ),
    "time_ms": (pa.array([1, 86_399_999, None], pa.time32("ms")), s.IntegerType(), [1, 86_399_999, None]),
    "time_us": (pa.array([1, 86_399_999_999, None], pa.time64("us")), LONG, [1, 86_399_999_999, None]),
    "time_ns": (pa.array([1, 86_399_999_999_999, None], pa.time64("ns")), LONG, [1, 86_399_999_999_999, None]),
    "timestamp_ms": (micros([-1, -(10**14), None], "ms"), NTZ, [-1000, -(10**17), None]),
    "timestamp_us": (micros([*I64, None]), NTZ, [*I64, None]),
    "timestamp_ns": (micros([*I64, None], "ns"), LONG, [*I64, None]),
    "timestamptz_ms": (micros([-1, -(10**14), None], "ms", "UTC"), TZ, [-1000, -(10**17), None]),
    "timestamptz_us": (micros([*I64, None], "us", "UTC"), TZ, [*I64, None]),
    "timestamptz_ns": (micros([*I64, None], "ns", "UTC"), LONG, [*I64, None]),
    "string": (pa.array(["a\0ü🦆", "", None]), s.StringType(), ["a\0ü🦆", "", None]),
    "json": (
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "1"])),
        s.StringType(),
        ["{}", None, "1"],
    ),
    "binary": (pa.array([b"\xff\0", b"", None]), BINARY, [b"\xff\0", b"", None]),
    "uuid": (uuids([UUID, None, UUID]), BINARY, [UUID, None, UUID]),
    "fixed": (pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)), BINARY, [b"abc", None, b"\0\0\0"]),
    "unknown": (pa.nulls(3), s.IntegerType(), [None, None, None]),
    "list": (
        pa.array([[1, None], [], None], pa.list_(pa.field("any", pa.int32()))),
        s.ArrayType(s.IntegerType()),
        [[1, None], [], None],
    ),
    "list of lists": (pa.array([[[1], []], [None], None]), s.ArrayType(s.ArrayType(LONG)), [[[1], []], [None], None]),
    "map": (
        pa.array([[("a", b"x"), ("b", None)], [], None], pa.map_(pa.string(), pa.binary(1))),
        s.MapType(s.StringType(), BINARY),
        [[("a", b"x"), ("b", None)], [], None],
    ),
    "struct": (
        pa.array(
            [{"x": 1, "X": "u"}, {"x": None, "X": None}, None], pa.struct([("x", pa.uint8()), ("X", pa.string())])
        ),
        s.StructType([s.StructField("x", s.ShortType()), s.StructField("X", s.StringType())]),
        [{"x": 1, "X": "u"}, {"x": None, "X": None}, None],
    ),
    "list of structs": (
        pa.array([[{"t": 1}, None], [], None], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))),
        s.ArrayType(s.StructType([s.StructField("t", LONG)])),
        [[{"t": 1}, None], [], None],
    ),
}
DECIMALS = {f"decimal({p}, 2)": (p, Decimal((0, (9,) * p, -2))) for p in (4, 9, 10, 18, 19, 38)}
STORED |= {
    name: (
        pa.array([v, v.copy_negate(), None], pa.decimal128(p, 2)),
        s.DecimalType(p, 2),
        [v, v.copy_negate(), None],
    )
    for name, (p, v) in DECIMALS.items()
}


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize(
    ("sql", "type_", "expected"),
    [
        ("'x'::ENUM('x')", s.StringType(), "x"),
        ("INTERVAL 3 DAYS", s.BinaryType(), bytes([0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])),
        ("'POINT(1 2)'::GEOMETRY", s.BinaryType(), bytes.fromhex("0101000000000000000000f03f0000000000000040")),
        ("TIMETZ '10:00:00+01'", s.LongType(), 32_400_000_000),
        ("uuid() IS NULL", s.BooleanType(), False),
    ],
)
def test_types_that_duckdb_writes(
    spark: Any, tmp_path: Path, sql: str, type_: s.DataType, expected: Any, vectorised: bool
) -> None:
    path = str(tmp_path / "f.parquet")
    connect().execute(f"COPY (SELECT {sql} AS c) TO '{path}' (FORMAT parquet)")
    assert natural(physical_schema(path)[0]).dataType == type_
    assert stored_frame(spark, path, vectorised=vectorised).toArrow()["p0"].to_pylist() == [expected]


def test_names_as_stored(spark: Any, tmp_path: Path) -> None:
    names = ["a", "A", "a.b", "`", " ", "", "p1", "_metadata", "ü"]
    table = pa.table([pa.array([dict.fromkeys(names, i)]) for i in range(len(names))], names=names)
    path = write(tmp_path / "f.parquet", table)
    assert [natural(f).name for f in physical_schema(path)] == names
    rows = stored_frame(spark, path).toArrow()
    assert [c.to_pylist() for c in rows.columns[: len(names)]] == [[dict.fromkeys(names, i)] for i in range(len(names))]


def test_what_is_inside_of_an_unknown_type_does_not_hinder() -> None:
    stored = PhysicalField(name="f", id=None, type=OpaqueType("x"))
    parent = PhysicalField(name="s", id=None, type=STORED_STRUCT, children=(stored,))
    assert natural(parent) == s.StructField("s", s.StructType([s.StructField("f", s.BinaryType())]))


@pytest.mark.parametrize("type_", [OpaqueType("quux"), UnsignedType(8), FloatType(16)], ids=str)
def test_types_that_never_leave(type_: Any) -> None:
    with pytest.raises(harness.UnsupportedError, match="leave the column out"):
        storage_type(type_)


def test_a_shown_column_says_its_exact_type() -> None:
    column = shown(Field(id=1, name="a.b", type=TimestampType("ns", utc=True), required=True))
    assert (column.name, column.dataType, column.nullable) == ("a.b", s.LongType(), True)
    exact = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(column.metadata["harness.arrow"])))
    assert exact == pa.schema([pa.field("a.b", pa.timestamp("ns", "UTC"), nullable=False)])
