"""What Spark's columns stand for, as Arrow types."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from harness.differ.sides import incomparable
from harness.engines.spark.types import ARROW_METADATA

_PLAIN: Mapping[type[spark.DataType], pa.DataType] = {
    spark.NullType: pa.null(),
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}


def logical(column: spark.StructField) -> pa.Field:
    """The column as what it stands for: what harness says of its own columns, else Spark's type.

    Raises:
        UnsupportedError: its values cannot be compared.
    """
    said = (column.metadata or {}).get(ARROW_METADATA)
    if isinstance(said, str):
        exact = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said))).field(0)
        if _carries(column.dataType, exact.type):
            return exact.with_name(column.name)
    return pa.field(column.name, _type(column.dataType, column.name), column.nullable)


def _type(stored: spark.DataType, column: str) -> pa.DataType:
    match stored:
        case spark.DecimalType():
            return pa.decimal128(stored.precision, stored.scale)
        case spark.ArrayType():
            element = _type(stored.elementType, column)
            return pa.list_(pa.field("element", element, stored.containsNull))
        case spark.MapType():
            value = pa.field("value", _type(stored.valueType, column), stored.valueContainsNull)
            return pa.map_(_type(stored.keyType, column), value)
        case spark.StructType():
            return pa.struct([pa.field(f.name, _type(f.dataType, column), f.nullable) for f in stored.fields])
        case _ if type(stored) in _PLAIN:
            return _PLAIN[type(stored)]
        case _ if stored.typeName() == "time":
            precision: Any = getattr(stored, "precision", 6)
            return pa.time64("us" if precision <= 6 else "ns")
        case _:
            raise incomparable(f"Spark's column {column!r}", stored.simpleString(), column=column)


def _carries(stored: spark.DataType, exact: pa.DataType) -> bool:
    """Whether the type can be one of harness's: metadata outlives some casts."""
    kind = pa.types
    match stored:
        case spark.ArrayType():
            return bool(kind.is_list(exact)) and _carries(stored.elementType, exact.value_type)
        case spark.MapType():
            parts = (stored.keyType, "key_type"), (stored.valueType, "item_type")
            return bool(kind.is_map(exact)) and all(_carries(part, getattr(exact, name)) for part, name in parts)
        case spark.StructType():
            return (
                bool(kind.is_struct(exact))
                and stored.names == [field.name for field in exact]
                and all(_carries(f.dataType, exact.field(i).type) for i, f in enumerate(stored.fields))
            )
        case spark.LongType():
            return bool(kind.is_int64(exact) or kind.is_time(exact) or kind.is_timestamp(exact))
        case spark.StringType():
            return bool(kind.is_string(exact)) or isinstance(exact, pa.UuidType)
        case spark.BinaryType():
            return bool(kind.is_binary(exact) or kind.is_fixed_size_binary(exact))
        case _:
            return bool(_type(stored, "").equals(exact))
