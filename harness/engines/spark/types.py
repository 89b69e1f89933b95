"""Spark types of columns, as harness returns them and as Spark reads them from files.

Spark lacks some logical types. Values of these types are represented in *storage types*: times as bigint microseconds,
timestamps in nanoseconds as bigint nanoseconds, a UUID as lower-case text, fixed and geo types as binary, variants as
JSON text, and the unknown type as int nulls.
"""

from __future__ import annotations

import base64

import pyarrow as pa
from pyspark.sql import types as spark

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField

ARROW_METADATA = "harness.arrow"
"""The metadata key under which an output column stores its exact Arrow type, see `output_column`."""

_INTEGERS = {8: spark.ByteType, 16: spark.ShortType, 32: spark.IntegerType, 64: spark.LongType}


def quote_name(name: str) -> str:
    """Quote a name for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def storage_type(type_: dt.Type) -> spark.DataType:
    """Return the Spark type that the engine uses for values of a type. Everything in it is nullable.

    Raises:
        UnsupportedError: The type is not known (iceberg 1.22), or exists in files only.
    """
    match type_:
        case dt.BooleanType():
            return spark.BooleanType()
        case dt.IntegerType(bits=bits):
            return _INTEGERS[bits]()
        case dt.FloatType(bits=32 | 64 as bits):
            return spark.DoubleType() if bits == 64 else spark.FloatType()
        case dt.DecimalType(precision=precision, scale=scale):
            return spark.DecimalType(precision, scale)
        case dt.DateType():
            return spark.DateType()
        case dt.TimeType() | dt.TimestampType(unit="ns"):
            return spark.LongType()
        case dt.TimestampType(utc=utc):
            return spark.TimestampType() if utc else spark.TimestampNTZType()
        case dt.Int96Type():
            return spark.TimestampNTZType()
        case dt.StringType() | dt.VariantType() | dt.UuidType():
            return spark.StringType()
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return spark.BinaryType()
        case dt.UnknownType():
            return spark.IntegerType()
        case dt.StructType(fields=fields):
            return spark.StructType([spark.StructField(f.name, storage_type(f.type)) for f in fields])
        case dt.ListType(element=element):
            return spark.ArrayType(storage_type(element.type))
        case dt.MapType(key=key, value=value):
            return spark.MapType(storage_type(key.type), storage_type(value.type))
        case _:
            message = (
                f"Cannot return a column of type {str(type_)!r}: Spark has nothing to hold it; leave the column out"
            )
            raise UnsupportedError(message, cause="UnsupportedType", rule="iceberg 1.22")


def output_column(field: dt.Field) -> spark.StructField:
    """Return the output column of a field: its name and storage type, nullable.

    The column's metadata stores its exact type (`harness.metadata.model.schema.arrow_field`), because a storage type
    alone does not distinguish a time from a long. It is the base64 text of an Arrow IPC schema with one field, under
    `ARROW_METADATA`.
    """
    exact = pa.schema([dt.arrow_field(field)]).serialize().to_pybytes()
    metadata = {ARROW_METADATA: base64.b64encode(exact).decode("ascii")}
    return spark.StructField(field.name, storage_type(field.type), metadata=metadata)


def physical_column(stored: PhysicalField) -> spark.StructField:
    """Return the column that Spark's Parquet readers read without changing values, under its physical name.

    Times are numbers in their own unit (milliseconds as int, others as bigint), timestamps in nanoseconds are bigint,
    unsigned integers have the next wider signed type, and uuid, half-precision floats and fixed are bytes. A stored
    type that harness does not know is binary, so that all remaining columns can be read; reading that column may fail.
    """
    return spark.StructField(stored.name, _physical_type(stored))


def _physical_type(stored: PhysicalField) -> spark.DataType:
    match stored.type:
        case dt.StructType():
            return spark.StructType([physical_column(child) for child in stored.children])
        case dt.ListType():
            return spark.ArrayType(_physical_type(stored.children[0]))
        case dt.MapType():
            return spark.MapType(_physical_type(stored.children[0]), _physical_type(stored.children[1]))
        case dt.UnsignedType(bits=bits):
            return spark.DecimalType(20, 0) if bits == 64 else _INTEGERS[bits * 2]()
        case dt.TimeType(unit="ms"):
            return spark.IntegerType()
        case dt.Int96Type():
            return spark.TimestampType()
        case dt.UuidType() | dt.FloatType(bits=16) | dt.OpaqueType():
            return spark.BinaryType()
        case other:
            return storage_type(other)
