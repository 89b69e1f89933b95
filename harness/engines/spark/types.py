"""The Spark types of columns: as harness gives them out, and as Spark reads them from a file.

Spark lacks some logical types. Their values travel in *storage types*: times as bigint micros, timestamps in nanos as
bigint nanos, a UUID as its lower-case text, fixed and geo as binary, variant as JSON text, unknown as int nulls.
"""

from __future__ import annotations

import base64

import pyarrow as pa
from pyspark.sql import types as spark

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField

ARROW_METADATA = "harness.arrow"
"""The metadata key under which a shown column says its exact Arrow type, see `shown`."""

_INTEGERS = {8: spark.ByteType, 16: spark.ShortType, 32: spark.IntegerType, 64: spark.LongType}


def quoted(name: str) -> str:
    """A name as it stands in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def storage_type(type_: dt.Type) -> spark.DataType:
    """The Spark type in which values of `type_` leave the engine. Everything in it may be null.

    Raises UnsupportedError: the type is not known (iceberg 1.22), or occurs in files only.
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
                f"Cannot give out a column of type {str(type_)!r}: Spark has nothing to hold it; leave the column out"
            )
            raise UnsupportedError(message, cause="UnsupportedType", rule="iceberg 1.22")


def output_column(field: dt.Field) -> spark.StructField:
    """The column of `field` in what harness gives out: its name and storage_type, nullable.

    Its metadata holds, under `ARROW_METADATA`, the base64 text of an Arrow IPC schema whose one field is the column in
    its exact type (`harness.metadata.model.schema.arrow_field`); a storage_type alone does not tell a time from a long.
    """
    exact = pa.schema([dt.arrow_field(field)]).serialize().to_pybytes()
    metadata = {ARROW_METADATA: base64.b64encode(exact).decode("ascii")}
    return spark.StructField(field.name, storage_type(field.type), metadata=metadata)


def physical_column(stored: PhysicalField) -> spark.StructField:
    """The column that Spark's Parquet readers take a stored column for, under its physical name, values unchanged.

    Times come as numbers in their own unit (millis int, else bigint), timestamps in nanos as bigint, unsigned integers
    as the next wider signed type, uuid, half and fixed as their bytes. A stored type that harness does not know stands
    as binary, so that the columns beside it can be read; reading it may fail.
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
