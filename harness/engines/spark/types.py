"""The Spark types of columns: as harness gives them out, and as Spark reads them from a file.

Spark lacks some logical types. Their values travel in *storage types*: times as bigint micros, timestamps in nanos as
bigint nanos, a UUID as its lower-case text, fixed and geo as binary, variant as JSON text, unknown as int nulls.
"""

from __future__ import annotations

import base64

import pyarrow as pa
from pyspark.sql import types as spark

from harness.errors import UnsupportedError
from harness.metadata.model.file_schema import PhysicalField
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    Int96Type,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UnsignedType,
    UuidType,
    VariantType,
    arrow_field,
)

ARROW_METADATA = "harness.arrow"
"""The metadata key under which a shown column says its exact Arrow type, see `shown`."""

_INTEGERS = {8: spark.ByteType, 16: spark.ShortType, 32: spark.IntegerType, 64: spark.LongType}


def quoted(name: str) -> str:
    """A name as it stands in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def storage_type(type_: Type) -> spark.DataType:
    """The Spark type in which values of `type_` leave the engine. Everything in it may be null.

    Raises:
        UnsupportedError: the type is not known (iceberg 1.22), or occurs in files only.
    """
    match type_:
        case BooleanType():
            return spark.BooleanType()
        case IntegerType(bits=bits):
            return _INTEGERS[bits]()
        case FloatType(bits=32 | 64 as bits):
            return spark.DoubleType() if bits == 64 else spark.FloatType()
        case DecimalType(precision=precision, scale=scale):
            return spark.DecimalType(precision, scale)
        case DateType():
            return spark.DateType()
        case TimeType() | TimestampType(unit="ns"):
            return spark.LongType()
        case TimestampType(utc=utc):
            return spark.TimestampType() if utc else spark.TimestampNTZType()
        case Int96Type():
            return spark.TimestampNTZType()
        case StringType() | VariantType() | UuidType():
            return spark.StringType()
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return spark.BinaryType()
        case UnknownType():
            return spark.IntegerType()
        case StructType(fields=fields):
            return spark.StructType([spark.StructField(f.name, storage_type(f.type)) for f in fields])
        case ListType(element=element):
            return spark.ArrayType(storage_type(element.type))
        case MapType(key=key, value=value):
            return spark.MapType(storage_type(key.type), storage_type(value.type))
        case _:
            raise UnsupportedError(
                f"Cannot give out a column of type {str(type_)!r}: Spark has nothing to hold it; leave the column out",
                cause="UnsupportedType",
                rule="iceberg 1.22",
            )


def shown(field: Field) -> spark.StructField:
    """The column of `field` in what harness gives out: its name and storage_type, nullable.

    Its metadata holds, under `ARROW_METADATA`, the base64 text of an Arrow IPC schema whose one field is the column in
    its exact type (`harness.metadata.model.schema.arrow_field`); a storage_type alone does not tell a time from a long.
    """
    exact = pa.schema([arrow_field(field)]).serialize().to_pybytes()
    metadata = {ARROW_METADATA: base64.b64encode(exact).decode("ascii")}
    return spark.StructField(field.name, storage_type(field.type), metadata=metadata)


def natural(stored: PhysicalField) -> spark.StructField:
    """The column that Spark's Parquet readers take a stored column for, under its physical name, values unchanged.

    Times come as numbers in their own unit (millis int, else bigint), timestamps in nanos as bigint, unsigned integers
    as the next wider signed type, uuid, half and fixed as their bytes. A stored type that harness does not know stands
    as binary, so that the columns beside it can be read; reading it may fail.
    Seen on Spark 4.3, with the vectorised reader and without it, under the settings of `gateway`.
    """
    return spark.StructField(stored.name, _natural(stored))


def _natural(stored: PhysicalField) -> spark.DataType:
    match stored.type:
        case StructType():
            return spark.StructType([natural(child) for child in stored.children])
        case ListType():
            return spark.ArrayType(_natural(stored.children[0]))
        case MapType():
            return spark.MapType(_natural(stored.children[0]), _natural(stored.children[1]))
        case UnsignedType(bits=bits):
            return spark.DecimalType(20, 0) if bits == 64 else _INTEGERS[bits * 2]()
        case TimeType(unit="ms"):
            return spark.IntegerType()
        case Int96Type():
            return spark.TimestampType()
        case UuidType() | FloatType(bits=16) | OpaqueType():
            return spark.BinaryType()
        case other:
            return storage_type(other)
