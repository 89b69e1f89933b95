"""Stored values in the one Arrow form per Spark type that Spark takes from a Python worker.

Spark compares the types of what comes back with what was announced, exactly, nested nullability included. So every
nested value may be null here, as in what Spark's own readers give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from harness.engines.spark import types
from harness.projection import PhysicalField, Source, Stored
from harness.schema import ListType, MapType

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


Use: TypeAlias = "Mapping[int, Use] | None"
"""Which parts of a column are read, by place; None: all of it."""


def uses(sources: Iterable[Source]) -> dict[int, Use]:
    """Which parts of the columns of one level are read."""
    found: dict[int, Use] = {}
    for source in sources:
        if isinstance(source, Stored):
            whole = source.place in found or not source.parts
            found[source.place] = None if whole else uses(source.parts)
    return found


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


def reshaped(array: pa.Array, wanted: pa.DataType, use: Use) -> pa.Array:
    """The same values as `wanted`, whatever nested fields are called; parts that are not read become nulls.

    Times and timestamps become integers in their own unit where `wanted` is one; zone flags never change a value.

    Raises:
        pa.ArrowException: a value does not fit.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_nested(wanted):
        return _single(array, wanted)
    if array.offset != 0:
        array = pa.concat_arrays([array, array.slice(0, 0)])  # copies, so that the buffers start with the first row
    if pa.types.is_struct(wanted):
        parts = [_part(array.field(i), wanted.field(i).type, use, i) for i in range(wanted.num_fields)]
        return pa.Array.from_buffers(wanted, len(array), [_validity(array)], children=parts)
    if pa.types.is_map(wanted):
        keys = reshaped(array.keys, wanted.key_type, None if use is None else use.get(0))
        items = _part(array.items, wanted.item_type, use, 1)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=pc.is_null(array))
    values = _part(array.values, wanted.value_type, use, 0)
    return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=pc.is_null(array))


def _part(array: pa.Array, wanted: pa.DataType, use: Use, place: int) -> pa.Array:
    if use is None:
        return reshaped(array, wanted, None)
    return reshaped(array, wanted, use[place]) if place in use else pa.nulls(len(array), wanted)


def _validity(array: pa.Array) -> pa.Buffer | None:
    return pc.is_valid(array).buffers()[1] if array.null_count else None


def _single(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    stored = array.type
    if stored == wanted:
        return array
    if pa.types.is_timestamp(wanted):
        return _micros(array).view(wanted)
    if pa.types.is_integer(wanted) and (pa.types.is_time(stored) or pa.types.is_timestamp(stored)):
        return array.view(pa.int32() if pa.types.is_time32(stored) else pa.int64()).cast(wanted)
    if pa.types.is_float16(stored) and pa.types.is_binary(wanted):
        return array.view(pa.binary(2)).cast(wanted)
    return array.cast(wanted)


def _micros(array: pa.Array) -> pa.Array:
    """Instants or readings as int64 micros."""
    values = array.view(pa.int64())
    match array.type.unit:
        case "us":
            return values
        case "ms":
            return pc.multiply_checked(values, 1000)
        case other:
            raise pa.ArrowInvalid(f"a timestamp in {other} is not announced in micros")
