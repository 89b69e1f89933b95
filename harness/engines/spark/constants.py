"""Values that are the same in many rows: as Spark literals, and as per-file columns of the scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from harness.engines.spark.types import storage_type
from harness.errors import UnsupportedError
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    VariantType,
    arrow_type,
)


@dataclass(frozen=True, slots=True)
class FileConstants:
    """What differs from file to file, as columns of the frame that reads the files.

    size: how many files there are.
    """

    size: int
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    def column(self, values: pa.Array) -> Column:
        """The expression of a column of ready values, one per file."""
        return F.col(self.label(values))

    def label(self, values: pa.Array) -> str:
        """The name of a column of ready values, one per file."""
        label = f"v{len(self._columns)}"
        self._columns[label] = values
        return label

    def table(self) -> pa.Table:
        """One row per file, with the columns that the expressions need."""
        return pa.table({**self._columns, "_": pa.nulls(self.size)}).drop(["_"])  # keeps the rows without columns


def literal(value: Any, type_: Type) -> Column:
    """A constant column of `types.storage_type(type_)`. `value`: as internal values (see `harness.model.schema`)."""
    target = storage_type(type_)
    if value is None:
        return F.lit(None).cast(target)
    match type_:
        case BooleanType():
            return F.lit(bool(value))
        case FloatType():
            return F.lit(_float_text(float(value))).cast(target)
        case DecimalType():
            return F.lit(f"{Decimal(value):f}").cast(target)
        case DateType():
            return F.date_from_unix_date(F.lit(int(value)))
        case TimestampType(unit="us" | "ms", utc=utc):
            return from_micros(F.lit(int(value)), utc=utc)
        case StringType() | VariantType():
            return F.lit(value)
        case UuidType():
            return F.lit(_uuid_text(value))
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return F.unhex(F.lit(bytes(value).hex()))
        case StructType(fields=fields):
            return F.struct(*[literal(value.get(f.id), f.type).alias(f.name) for f in fields]).cast(target)
        case ListType(element=element):
            return F.array(*[literal(item, element.type) for item in value]).cast(target)
        case MapType():
            return _map(value, type_)
        case _:
            return F.lit(int(value)).cast(target)


def from_micros(micros: Column, *, utc: bool) -> Column:
    """The timestamp of bigint micros since 1970-01-01, whatever the year. To be analysed in a session in UTC."""
    instant = F.timestamp_micros(micros.cast(spark.LongType()))
    return instant if utc else instant.cast(spark.TimestampNTZType())


def storable(values: Sequence[Any], type_: Type) -> tuple[pa.Array, Callable[[Column], Column]]:
    """Per-file values of a primitive type as a column of a scan's constants.

    Args:
        values: as internal values, one per file.

    Returns:
        The values in an Arrow type that a scan's constants may have, and what turns the scan's column back into
        `types.storage_type(type_)`.

    Raises:
        UnsupportedError: the type is nested, a variant or unknown.
    """
    match type_:
        case IntegerType(bits=8 | 16):
            return pa.array(values, pa.int32()), lambda column: column.cast(storage_type(type_))
        case BooleanType() | IntegerType() | FloatType() | StringType() | DecimalType():
            return pa.array(values, arrow_type(type_)), _unchanged
        case DateType():
            return pa.array(values, pa.int32()).cast(pa.date32()), _unchanged
        case TimeType() | TimestampType(unit="ns"):
            return pa.array(values, pa.int64()), _unchanged
        case TimestampType(utc=utc):
            return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC" if utc else None)), _unchanged
        case UuidType():
            return pa.array([None if v is None else _uuid_text(v) for v in values], pa.string()), _unchanged
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return pa.array(values, pa.binary()), _unchanged
        case other:
            raise UnsupportedError(f"Cannot use {other} as a per-file constant", cause="UnsupportedType")


def _unchanged(column: Column) -> Column:
    return column


def _map(entries: Sequence[tuple[Any, Any]], type_: MapType) -> Column:
    """A map literal. Float keys go in as text, because building a map in Spark turns a key of -0.0 into 0.0."""
    if isinstance(type_.key.type, FloatType):
        keys = [F.lit(_float_text(float(k))) for k, _ in entries]
    else:
        keys = [literal(k, type_.key.type) for k, _ in entries]
    items = [literal(v, type_.value.type) for _, v in entries]
    if not entries:
        return F.create_map().cast(storage_type(type_))
    return F.map_from_arrays(F.array(*keys), F.array(*items)).cast(storage_type(type_))


def _float_text(value: float) -> str:
    """Text that Spark casts to the very same float: `nan` and `inf` are words to it too."""
    return repr(value)


def _uuid_text(value: Any) -> str:
    return str(UUID(bytes=bytes(value)))
