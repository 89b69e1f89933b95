"""The Spark types in which files that are read through Arrow show their columns, and the Arrow types for these.

Spark compares the types of what comes back from a Python worker with what was announced, exactly, nested nullability
included. So every nested value may be null here, as in what Spark's own readers give.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import types as spark

from harness.engines.spark import types
from harness.model.schema import ListType, MapType
from harness.plan.projection import PhysicalField

Place: TypeAlias = tuple[int, ...]


def natural(stored: PhysicalField, place: Place, encoded: frozenset[Place]) -> spark.DataType:
    """The Spark type of a stored column: that of `types.natural`, but text where a variant is.

    Args:
        place: where the column is, from the top level down.
        encoded: the places of variants.
    """
    if place in encoded:
        return spark.StringType()
    if not any(variant[: len(place)] == place for variant in encoded):
        return types.natural(stored).dataType
    inner = [natural(child, (*place, i), encoded) for i, child in enumerate(stored.children)]
    if isinstance(stored.type, ListType):
        return spark.ArrayType(inner[0])
    if isinstance(stored.type, MapType):
        return spark.MapType(inner[0], inner[1])
    named = zip(stored.children, inner, strict=True)
    return spark.StructType([spark.StructField(child.name, type_) for child, type_ in named])


_SINGLE: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.NullType: pa.null(),
}


def arrow_type(type_: spark.DataType) -> pa.DataType:
    """The Arrow type that a Python worker has to return for a column of `type_`."""
    match type_:
        case spark.StructType():
            return pa.struct([pa.field(f.name, arrow_type(f.dataType)) for f in type_.fields])
        case spark.ArrayType():
            return pa.list_(arrow_type(type_.elementType))
        case spark.MapType():
            return pa.map_(arrow_type(type_.keyType), arrow_type(type_.valueType))
        case spark.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case _:
            return _SINGLE[type(type_)]
