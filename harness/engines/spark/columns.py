"""Translation of column values (`harness.engines.column_values`) to Spark columns.

Structs, lists, and maps are rebuilt by position if the file's names, order, or types differ from the table's. A null
parent stays null. No conversion rounds, depends on the session's time zone, or returns null for a value that does not
fit: the query fails instead. The columns must be analyzed in the private session of `gateway`, and keep its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, assert_never
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    ConstantStruct,
    Lineage,
    PerFile,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOrInherited,
    Uniform,
    as_arrow,
)
from harness.engines.footers import OLDEST_DAY, OLDEST_MICROS, is_legacy
from harness.engines.spark.types import physical_column, storage_type
from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, walk_stored
from harness.metadata.plan.projection import FileColumn, is_identity


@dataclass(slots=True)
class FileConstants:
    """Columns with one value per file, which are added to the frame that reads the files.

    Attributes:
        size: The number of files.
    """

    size: int
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    def label(self, values: pa.Array) -> str:
        """Add a column with one value per file and return its name."""
        label = f"v{len(self._columns)}"
        self._columns[label] = values
        return label

    def table(self) -> pa.Table:
        """Return a table with one row per file and the columns that were added."""
        # keeps the row count if there are no columns
        return pa.table({**self._columns, "_": pa.nulls(self.size)}).drop(["_"])


def literal(value: Any, type_: dt.Type) -> Column:
    """Return a constant column of type `types.storage_type(type_)`.

    Args:
        value: The value in internal form, see `harness.metadata.model.schema`.
        type_: The type of the value.
    """
    target = storage_type(type_)
    if value is None:
        return F.lit(None).cast(target)
    match type_:
        case dt.BooleanType():
            return F.lit(bool(value))
        case dt.FloatType():
            # exactly the same float; Spark also understands `nan` and `inf`
            return F.lit(repr(float(value))).cast(target)
        case dt.DecimalType():
            return F.lit(f"{Decimal(value):f}").cast(target)
        case dt.DateType():
            return F.date_from_unix_date(F.lit(int(value)))
        case dt.TimestampType(unit="us" | "ms", utc=utc):
            return from_micros(F.lit(int(value)), utc=utc)
        case dt.StringType() | dt.VariantType():
            return F.lit(value)
        case dt.UuidType():
            return F.lit(_uuid_text(value))
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return F.unhex(F.lit(bytes(value).hex()))
        case dt.StructType(fields=fields):
            return F.struct(*[literal(value.get(f.id), f.type).alias(f.name) for f in fields]).cast(target)
        case dt.ListType(element=element):
            return F.array(*[literal(item, element.type) for item in value]).cast(target)
        case dt.MapType():
            return _map(value, type_)
        case _:
            return F.lit(int(value)).cast(target)


def from_micros(micros: Column, *, utc: bool) -> Column:
    """Return the timestamp for a bigint of microseconds since 1970-01-01, for any year. The session must be in UTC."""
    instant = F.timestamp_micros(micros.cast(spark.LongType()))
    return instant if utc else instant.cast(spark.TimestampNTZType())


def _storable(values: Sequence[Any], type_: dt.Type) -> pa.Array:
    """Return one internal value per file as an Arrow array of a type that a scan's constants may have."""
    match type_:
        case dt.IntegerType(bits=8 | 16):
            return pa.array(values, pa.int32())
        case dt.TimeType() | dt.TimestampType(unit="ns"):
            return pa.array(values, pa.int64())
        case (
            dt.BooleanType()
            | dt.IntegerType()
            | dt.FloatType()
            | dt.StringType()
            | dt.DecimalType()
            | dt.DateType()
            | dt.TimestampType()
        ):
            return as_arrow(values, type_)
        case dt.UuidType():
            return pa.array([None if v is None else _uuid_text(v) for v in values], pa.string())
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return pa.array(values, pa.binary())
        case other:
            raise UnsupportedError(f"Cannot use {other} as a per-file constant", cause="UnsupportedType")


def _map(entries: Sequence[tuple[Any, Any]], type_: dt.MapType) -> Column:
    """Return a map literal.

    Float keys are passed as text, because Spark turns a key of -0.0 into 0.0 when it builds a map.
    """
    if isinstance(type_.key.type, dt.FloatType):
        keys = [F.lit(repr(float(k))) for k, _ in entries]
    else:
        keys = [literal(k, type_.key.type) for k, _ in entries]
    items = [literal(v, type_.value.type) for _, v in entries]
    if not entries:
        return F.create_map().cast(storage_type(type_))
    return F.map_from_arrays(F.array(*keys), F.array(*items)).cast(storage_type(type_))


def _uuid_text(value: Any) -> str:
    return str(UUID(bytes=bytes(value)))


@dataclass(slots=True)
class ColumnTranslation:
    """Translates values to expressions over the frame that reads some files.

    Attributes:
        place: Returns the files' top-level column with a given index, typed as in `types.physical_column`. Columns that
            the table reads as variant, at any level, are JSON text instead.
        constants: Gets a column for each value that differs between files.
        legacy: The kinds of values that the files may hold in the old calendar, see `harness.engines.footers`.
    """

    place: Callable[[int], Column]
    constants: FileConstants
    legacy: frozenset[str] = frozenset()
    _constants: dict[PerFile, Column] = field(default_factory=dict)

    def expression(self, value: ColumnValue) -> Column:
        """Return the expression of a value, with the `types.storage_type` of the value's field.

        Raises:
            SchemaMismatchError: The stored type cannot be converted exactly.
            UnsupportedError: A constant has a type that a frame cannot hold per file.
        """
        match value:
            case Uniform(value=same, type=type_):
                return literal(same, type_)
            case PerFile(values=values, type=type_):
                if value not in self._constants:
                    column = F.col(self.constants.label(_storable(values, type_)))
                    is_short = isinstance(type_, dt.IntegerType) and type_.bits < 32
                    self._constants[value] = column.cast(storage_type(type_)) if is_short else column
                return self._constants[value]
            case ConstantStruct(fields=fields, parts=parts):
                return F.struct(*[self.expression(part).alias(f.name) for f, part in zip(fields, parts, strict=True)])
            case StoredColumn(source=source):
                return self._stored(value, self.place(source.place))
            case Position():
                return F.col("pos")
            case PositionFrom(first=first):
                return self.expression(first) + F.col("pos")
            case StoredOrInherited(stored=stored, inherited=inherited):
                return F.coalesce(self.expression(stored), self.expression(inherited))
            case Lineage(first_row_id=first, value=inner):
                return F.when(self.expression(first).isNotNull(), self.expression(inner))
            case _:
                assert_never(value)

    def _stored(self, value: StoredColumn, access: Column) -> Column:
        """Convert the stored values `access` to the type of the value's field."""
        target, physical, parts = value.field.type, value.source.physical, value.parts
        if not dt.children(target):
            return converted(self._checked(access, physical), physical, value.field)
        if self._is_unchanged(value):
            return access
        match target:
            case dt.StructType(fields=fields):
                children = []
                for f, part in zip(fields, parts, strict=True):
                    if isinstance(part, StoredColumn):
                        column = self._stored(part, _child(access, physical, part.source))
                    # this field is never null, but toArrow of Spark 4.3 fails on a non-nullable field in a nullable
                    # struct
                    else:
                        column = F.when(access.isNotNull(), self.expression(part))
                    children.append(column.alias(f.name))
                return F.when(access.isNotNull(), F.struct(*children))
            case dt.ListType(element=element):
                if not dt.children(element.type):
                    # Spark 4.3's transform reads an element from the file's dictionary before it checks for null, and
                    # fails if all elements of the file are null. A copy has no dictionary.
                    access = F.concat(access, F.array())
                return F.transform(access, lambda item: self._item(parts[0], item))
            case dt.MapType(key=key, value=item):
                return self._map(key, item, value, access)
            case other:
                raise AssertionError(f"{other} is not nested")

    def _is_unchanged(self, value: StoredColumn) -> bool:
        """Return whether Spark reads the stored column with exactly the table's names and types, at every level."""
        physical = value.source.physical
        if any(is_legacy(inner, self.legacy) for inner in walk_stored((physical,))) or _has_float_fields(physical):
            return False
        return is_identity(value.field, value.source) and physical_column(physical).dataType == storage_type(
            value.field.type
        )

    def _item(self, part: StoredColumn | Constant, item: Column) -> Column:
        """Convert an element, key, or value."""
        return self._stored(part, item) if isinstance(part, StoredColumn) else self.expression(part)

    def _map(self, key: dt.Field, item: dt.Field, value: StoredColumn, access: Column) -> Column:
        """Convert a map, keeping the file's order of entries. Fail the query if two keys become equal."""
        keys_of, items_of = value.parts
        if not (isinstance(items_of, StoredColumn) and self._is_unchanged(items_of)):
            access = F.transform_values(access, lambda _, stored: self._item(items_of, stored))
        if isinstance(keys_of, StoredColumn) and self._is_unchanged(keys_of):
            return access
        # Spark turns a key of -0.0 into 0.0 when it builds a map, but not in a cast
        if isinstance(key.type, dt.FloatType):
            return access.cast(spark.MapType(storage_type(key.type), storage_type(item.type)))
        keys = F.transform(F.map_keys(access), lambda stored: self._item(keys_of, stored))
        built = F.map_from_arrays(keys, F.map_values(access))
        equal = f"Two keys of the map {value.source.physical.name} become equal as {key.type}"
        # A user may have configured Spark to keep the last of equal keys.
        return F.when(F.size(built) < F.size(access), F.raise_error(F.lit(equal))).otherwise(built)

    def _checked(self, access: Column, physical: PhysicalField) -> Column:
        """Return `access` as an expression that fails the query on a value in the old calendar (delta T20)."""
        if not is_legacy(physical, self.legacy):
            return access
        match physical.type:
            case dt.DateType():
                oldest, limit = "DATE '1582-10-15'", F.date_from_unix_date(F.lit(OLDEST_DAY))
            case dt.TimestampType(unit="ns"):  # no old writer wrote these
                return access
            case _:
                oldest, limit = "TIMESTAMP '1900-01-01 00:00:00'", from_micros(F.lit(OLDEST_MICROS), utc=True)
        refusal = f"Cannot read column {physical.name}: a value before {oldest} is in the calendar of an old writer"
        return F.when(access < limit, F.raise_error(F.lit(refusal))).otherwise(access)


def _child(access: Column, physical: PhysicalField, part: FileColumn) -> Column:
    """Return the stored field of a struct. Raise SchemaMismatchError if another field has the same name."""
    name = physical.children[part.place].name
    if sum(child.name == name for child in physical.children) > 1:
        message = (
            f"Cannot read the field {name!r} of {physical.name!r}: the file has two of that name; rewrite the file"
        )
        raise SchemaMismatchError(message, cause="AmbiguousColumn", field=name)
    return access.getField(name)


def _has_float_fields(stored: PhysicalField) -> bool:
    """Return whether a stored struct contains floats, on which Spark could push a filter down.

    For floats outside structs, `converted` prevents this.
    """
    if not isinstance(stored.type, dt.StructType):
        return False
    return any(isinstance(f.type, dt.FloatType) or _has_float_fields(f) for f in stored.children)


def converted(access: Column, physical: PhysicalField, requested_field: dt.Field) -> Column:
    """Convert primitive values in the type of `types.physical_column` to the storage type of the requested type.

    A promotion (int to long, float to double, a decimal to more digits) is a cast.

    Raises:
        SchemaMismatchError: There is no exact conversion.
    """
    stored, target = physical.type, requested_field.type
    match target:
        case dt.VariantType():
            return access
        case dt.UuidType():
            return _uuid_of_text(access) if isinstance(stored, dt.StringType) else _uuid_of_bytes(access)
        case dt.StringType() if isinstance(stored, dt.BinaryType):
            return F.validate_utf8(access.cast(spark.StringType()))
        case dt.BinaryType() | dt.GeometryType() | dt.GeographyType() if isinstance(stored, dt.StringType):
            return access.cast(spark.BinaryType())
        case dt.StringType() | dt.BinaryType() | dt.FixedType() | dt.GeometryType() | dt.GeographyType():
            if physical_column(physical).dataType != storage_type(target):
                raise _inconvertible(physical, requested_field)
            return access
        case dt.DateType() if isinstance(stored, dt.IntegerType):
            return F.date_from_unix_date(access)
        case dt.TimeType() if stored == dt.TimeType("ms"):
            return access.cast(spark.LongType()) * F.lit(1000)
        case dt.TimeType() if stored == dt.TimeType("us"):
            return access
        case dt.TimestampType(unit="ns"):
            return access if stored in _NANOS else _micros(access, physical, requested_field) * F.lit(1000)
        case dt.TimestampType(utc=utc):
            return _timestamp(access, physical, requested_field, utc=utc)
        case dt.FloatType():
            # nanvl returns the same value but blocks filter pushdown: Spark would skip row groups whose bounds exclude
            # a NaN, which is greater than all other numbers (delta F9).
            number = _cast(access, physical, target)
            return F.nanvl(number, number)
        case dt.BooleanType() | dt.IntegerType() | dt.DecimalType() | dt.DateType():
            return _cast(access, physical, target)
        case _:
            raise _inconvertible(physical, requested_field)


_NANOS = (dt.TimestampType("ns", utc=False), dt.TimestampType("ns", utc=True))


def _cast(access: Column, physical: PhysicalField, target: dt.Type) -> Column:
    return access if physical_column(physical).dataType == storage_type(target) else access.cast(storage_type(target))


def _timestamp(access: Column, physical: PhysicalField, requested_field: dt.Field, *, utc: bool) -> Column:
    """Return a timestamp in microseconds for any stored unit and zone kind, with the same value (iceberg 6.8)."""
    match physical.type:
        case dt.TimestampType(unit="ns"):  # round down, also before 1970
            borrow = F.when(access % F.lit(1000) < F.lit(0), F.lit(1)).otherwise(F.lit(0))
            return from_micros(F.call_function("div", access, F.lit(1000)) - borrow, utc=utc)
        case dt.DateType():
            return from_micros(_micros(access, physical, requested_field), utc=utc)
        case dt.TimestampType(utc=stored_utc) if stored_utc == utc:
            return access
        case dt.Int96Type() if utc:
            return access
        case dt.TimestampType() | dt.Int96Type():  # the private session is in UTC, so the cast shifts nothing
            return access.cast(spark.TimestampType() if utc else spark.TimestampNTZType())
        case _:
            raise _inconvertible(physical, requested_field)


def _micros(access: Column, physical: PhysicalField, requested_field: dt.Field) -> Column:
    """Return microseconds since 1970-01-01 as bigint."""
    match physical.type:
        case dt.DateType():
            return F.unix_date(access).cast(spark.LongType()) * F.lit(86_400_000_000)
        case dt.TimestampType(utc=True) | dt.Int96Type():
            return F.unix_micros(access)
        case dt.TimestampType():
            return F.unix_micros(access.cast(spark.TimestampType()))
        case _:
            raise _inconvertible(physical, requested_field)


def _uuid_of_bytes(access: Column) -> Column:
    digits = F.lower(F.hex(access))
    first, *others = (F.substring(digits, start, length) for start, length in _UUID_PARTS)
    return F.concat(first, *(piece for part in others for piece in (F.lit("-"), part)))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""The digits between the dashes, as (first digit, count), counted from 1."""


def _uuid_of_text(access: Column) -> Column:
    """Return the canonical text of a UUID from any text that DuckDB accepts, with or without dashes and braces."""
    digits = F.lower(F.translate(F.regexp_replace(access, r"^\{(.*)\}$", "$1"), "-", ""))
    dashed = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    refusal = F.concat(F.lit("Cannot read as a UUID: "), access)
    return F.when(digits.rlike("^[0-9a-f]{32}$"), dashed).when(access.isNotNull(), F.raise_error(refusal))


def _inconvertible(physical: PhysicalField, requested_field: dt.Field) -> SchemaMismatchError:
    message = f"Cannot convert a stored {physical.type} into {requested_field.type}"
    return SchemaMismatchError(message, cause="IncompatibleType", field=requested_field.name, rule="iceberg 5.12")
