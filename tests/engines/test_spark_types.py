"""The Spark types that harness reads and gives out, and those that Spark has none for."""

import base64
import struct
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions
from pyspark.sql import types as s

import harness
from harness.engines.column_values import PerFile
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.engine import conform
from harness.engines.spark.types import natural, shown, storage_type
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import STORED_STRUCT, PhysicalField


def test_what_is_inside_of_an_unknown_type_does_not_hinder() -> None:
    stored = PhysicalField(name="f", id=None, type=dt.OpaqueType("x"))
    parent = PhysicalField(name="s", id=None, type=STORED_STRUCT, children=(stored,))
    assert natural(parent) == s.StructField("s", s.StructType([s.StructField("f", s.BinaryType())]))


@pytest.mark.parametrize("type_", [dt.OpaqueType("quux"), dt.UnsignedType(8), dt.FloatType(16)], ids=str)
def test_types_that_never_leave(type_: Any) -> None:
    with pytest.raises(harness.UnsupportedError, match="leave the column out"):
        storage_type(type_)


def test_a_shown_column_says_its_exact_type() -> None:
    column = shown(dt.Field(id=1, name="a.b", type=dt.TimestampType("ns", utc=True), required=True))
    assert (column.name, column.dataType, column.nullable) == ("a.b", s.LongType(), True)
    exact = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(column.metadata["harness.arrow"])))
    assert exact == pa.schema([pa.field("a.b", pa.timestamp("ns", "UTC"), nullable=False)])


LIST = dt.ListType(dt.Field(id=2, name="element", type=dt.IntegerType(32)))


@pytest.mark.parametrize("type_", [LIST, dt.VariantType(), dt.UnknownType(), dt.StructType(())], ids=str)
def test_types_that_no_partition_has(type_: Any) -> None:
    with pytest.raises(harness.UnsupportedError, match="per-file constant"):
        ColumnTranslation(functions.col, FileConstants(1)).expression(PerFile((None,), type_))


BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 2)), pa.py_buffer(b"\xff\xfe")]
)
UNFIT: list[tuple[pa.Array, Any]] = [
    (pa.array([b"abcd"]), pa.binary(3)),
    (pa.array(["f79c3e09"]), pa.uuid()),
    (pa.array(["z" * 32]), pa.uuid()),
    (pa.array([2**40]), pa.int32()),
    (BAD_TEXT, pa.string()),
    (pa.ListArray.from_arrays([0, 1], BAD_TEXT), pa.list_(pa.string())),
]


@pytest.mark.parametrize(("array", "type_"), UNFIT, ids=[str(t) for _, t in UNFIT])
def test_what_does_not_fit_is_an_error(array: pa.Array, type_: Any) -> None:
    with pytest.raises(harness.EngineError, match="Cannot give column c out") as caught:
        conform(pa.table({"x": array}), pa.schema([pa.field("c", type_)]))
    assert caught.value.field == "c"
