"""Constants on Spark: literals of every type, and per-file columns that come back as what went in."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import functions
from pyspark.sql import types as s
from stored_on_spark import disk_files, plain, write

import harness
from harness.engines.column_values import PerFile
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.engine import conform
from harness.engines.spark.gateway import Gateway, PlannedRead
from harness.engines.spark.types import storage_type
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    ListType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    arrow_field,
)

U = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
ENDS = (-(2**63), 2**63 - 1)
SINGLE: list[tuple[Type, Any, Any]] = [
    (BooleanType(), True, True),
    (BooleanType(), False, False),
    (IntegerType(8), -128, -128),
    (IntegerType(16), 32767, 32767),
    (IntegerType(32), -(2**31), -(2**31)),
    *[(IntegerType(64), end, end) for end in ENDS],
    (FloatType(32), 0.10000000149011612, 0.10000000149011612),
    (FloatType(32), 1.401298464324817e-45, 1.401298464324817e-45),
    (FloatType(32), -0.0, -0.0),
    *[(FloatType(64), v, v) for v in (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1)],
    (DecimalType(38, 10), Decimal("-" + "9" * 28 + ".0000000001"), Decimal("-" + "9" * 28 + ".0000000001")),
    (DecimalType(9, 2), Decimal("1E+2"), Decimal("100.00")),
    *[(DateType(), d, d) for d in (-1, -(2**31), 2**31 - 1, -719_163, -141_428)],
    (TimeType(), 86_399_999_999, 86_399_999_999),
    *[(TimestampType("us", utc=utc), t, t) for utc in (False, True) for t in (*ENDS, -1, -62_135_596_800_000_001)],
    *[(TimestampType("ns", utc=utc), t, t) for utc in (False, True) for t in (*ENDS, -1)],
    *[(StringType(), t, t) for t in ("", "a\0b", 'it\'s "ü" 🦆 \\ \n', "${x}", "NULL")],
    (UuidType(), U.bytes, U),
    (FixedType(3), b"\x00\xff'", b"\x00\xff'"),
    (BinaryType(), b"", b""),
    (BinaryType(), bytes(range(256)), bytes(range(256))),
    (GeometryType(), b"\x01", b"\x01"),
]


def field(id_: int, name: str, type_: Type) -> Field:
    return Field(id=id_, name=name, type=type_)


def integers(id_: int) -> ListType:
    return ListType(field(id_, "element", IntegerType(32)))


def test_per_file_constants_come_back(spark: Any, tmp_path: Any) -> None:
    types = list(dict.fromkeys(t for t, _, _ in SINGLE))
    values = [[next(v for t, v, _ in SINGLE if t == type_), None] for type_ in types]
    expected = [[next(e for t, _, e in SINGLE if t == type_), None] for type_ in types]
    constants = FileConstants(2)
    translation = ColumnTranslation(lambda place: functions.col(f"p{place}"), constants)
    columns = [translation.expression(PerFile(tuple(v), t)) for v, t in zip(values, types, strict=True)]
    paths = [write(tmp_path / f"{i}.parquet", pa.table({"i": [i]})) for i in range(2)]
    gateway = Gateway.of(spark)
    frame = gateway.planned_frame(
        PlannedRead(
            file_format="parquet",
            read_schema=s.StructType([s.StructField("i", s.LongType())]),
            files=disk_files(paths),
            constants=constants.table(),
        )
    )
    shown = frame.orderBy("p0").select(*[column.alias(f"c{i}") for i, column in enumerate(columns)])
    assert [f.dataType for f in shown.schema] == [storage_type(t) for t in types]
    schema = pa.schema([arrow_field(Field(id=1, name="v", type=t)) for t in types])
    got = [plain(c) for c in conform(gateway.expose(shown).toArrow(), schema).columns]
    assert [repr(v) for v in got] == [repr(v) for v in expected]


@pytest.mark.parametrize("type_", [integers(2), VariantType(), UnknownType(), StructType(())], ids=str)
def test_types_that_no_partition_has(type_: Type) -> None:
    with pytest.raises(harness.UnsupportedError, match="per-file constant"):
        ColumnTranslation(functions.col, FileConstants(1)).expression(PerFile((None,), type_))
