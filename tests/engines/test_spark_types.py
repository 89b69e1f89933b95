"""Every physical type of Parquet through both of Spark's readers, and the Spark types that harness gives out."""

from __future__ import annotations

import base64
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
