"""Lowers where a column comes from (`harness.plan.projection.Source`) to a Spark column.

Structs, lists and maps are rebuilt by place where the file's names, order or types differ from the table's. A null
parent stays null. No conversion rounds, depends on a session's time zone, or gives null for what does not fit: what
does not fit fails the query. Columns are to be analysed in the private session of `gateway`, whose settings they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from harness.engines.shared.legacy_calendar import OLDEST_DAY, OLDEST_MICROS, is_legacy
from harness.engines.spark.constants import from_micros, literal
from harness.engines.spark.types import natural, storage_type
from harness.errors import SchemaMismatchError
from harness.model.file_schema import PhysicalField, walk_stored
from harness.model.schema import (
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
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    VariantType,
    children,
)
from harness.plan.projection import ColumnSource, PartitionValue, Stored, Value, is_identity


def column(
    wanted: Field,
    source: ColumnSource,
    stored: Callable[[int], Column],
    constants: Mapping[int, Column],
    *,
    legacy: frozenset[str] = frozenset(),
) -> Column:
    """The expression of one top-level column, typed as `types.storage_type(wanted.type)`.

    Args:
        wanted: the logical field.
        source: where its values come from.
        stored: the file's top-level column at a place, typed as `types.natural` says; what the table reads as variant,
            at any level, is JSON text instead.
        constants: expression of the partition constant by source field id.
        legacy: what the files hold in the old calendar, see `harness.engines.shared.legacy_calendar`.

    Raises:
        SchemaMismatchError: there is no exact conversion.
    """
    access = stored(source.place) if isinstance(source, Stored) else None
    return _Lowering(constants, legacy).value(wanted, source, access)


@dataclass(frozen=True, slots=True)
class _Lowering:
    """What stays the same while one column is lowered."""

    constants: Mapping[int, Column]
    legacy: frozenset[str]

    def value(self, wanted: Field, source: ColumnSource, access: Column | None) -> Column:
        """`access`: the stored values; None if the file has none."""
        match source:
            case Value(value=value):
                return literal(value, wanted.type)
            case PartitionValue(field_id=field_id):
                return self.constants[field_id]
            case Stored(physical=physical, parts=parts):
                if access is None:
                    raise AssertionError("a stored field has a column")
                if not children(wanted.type):
                    return converted(self.checked(access, physical), physical, wanted)
                return access if self.is_unchanged(wanted, source) else self.nested(wanted, parts, physical, access)
            case _:
                assert_never(source)

    def is_unchanged(self, wanted: Field, source: Stored) -> bool:
        """Whether Spark shows the stored column with the very names and types of the table, at every level."""
        physical = source.physical
        if any(is_legacy(inner, self.legacy) for inner in walk_stored((physical,))) or _has_float_fields(physical):
            return False
        return is_identity(wanted, source) and natural(physical).dataType == storage_type(wanted.type)

    def nested(self, wanted: Field, parts: Sequence[ColumnSource], physical: PhysicalField, access: Column) -> Column:
        match wanted.type:
            case StructType(fields=fields):
                built = [
                    self.part(f, part, physical, access).alias(f.name) for f, part in zip(fields, parts, strict=True)
                ]
                return F.when(access.isNotNull(), F.struct(*built))
            case ListType(element=element):
                return F.transform(access, lambda item: self.value(element, parts[0], item))
            case MapType(key=key, value=value):
                return self.map(key, value, parts, physical, access)
            case other:
                raise AssertionError(f"{other} is not nested")

    def part(self, wanted: Field, source: ColumnSource, physical: PhysicalField, access: Column) -> Column:
        """A field of a struct."""
        match source:
            case Stored():
                return self.value(wanted, source, _child(access, physical, source))
            case _:  # never null; but toArrow of Spark 4.3 fails on a field that says so, in a struct that may be null
                return F.when(access.isNotNull(), self.value(wanted, source, None))

    def map(
        self, key: Field, value: Field, parts: Sequence[ColumnSource], physical: PhysicalField, access: Column
    ) -> Column:
        """The map with its entries in the file's order. Keys that become equal fail the query."""
        is_key_unchanged, is_value_unchanged = (
            isinstance(part, Stored) and self.is_unchanged(f, part) for f, part in zip((key, value), parts, strict=True)
        )
        if not is_value_unchanged:
            access = F.transform_values(access, lambda _, item: self.value(value, parts[1], item))
        if is_key_unchanged:
            return access
        if isinstance(
            key.type, FloatType
        ):  # building a map in Spark would turn a key of -0.0 into 0.0, a cast does not
            return access.cast(spark.MapType(storage_type(key.type), storage_type(value.type)))
        keys = F.transform(F.map_keys(access), lambda item: self.value(key, parts[0], item))
        built = F.map_from_arrays(keys, F.map_values(access))
        equal = f"Two keys of the map {physical.name} become equal as {key.type}"
        # A user may have told Spark to let the last of equal keys win.
        return F.when(F.size(built) < F.size(access), F.raise_error(F.lit(equal))).otherwise(built)

    def checked(self, access: Column, physical: PhysicalField) -> Column:
        """`access`, failing the query on a value in the calendar of an old writer (delta T20)."""
        if not is_legacy(physical, self.legacy):
            return access
        match physical.type:
            case DateType():
                oldest, limit = "DATE '1582-10-15'", F.date_from_unix_date(F.lit(OLDEST_DAY))
            case TimestampType(unit="ns"):  # no old writer had them
                return access
            case TimestampType(utc=utc):
                oldest, limit = "TIMESTAMP '1900-01-01 00:00:00'", from_micros(F.lit(OLDEST_MICROS), utc=utc)
            case _:
                oldest, limit = "TIMESTAMP '1900-01-01 00:00:00'", from_micros(F.lit(OLDEST_MICROS), utc=True)
        refusal = f"Column {physical.name} has a value before {oldest} in the calendar of an old writer"
        return F.when(access < limit, F.raise_error(F.lit(refusal))).otherwise(access)


def _child(access: Column, physical: PhysicalField, part: Stored) -> Column:
    """The stored field of a struct that `part` names.

    Raises:
        SchemaMismatchError: another field of the struct has the same name, and Spark finds fields by name.
    """
    name = physical.children[part.place].name
    if sum(child.name == name for child in physical.children) > 1:
        raise SchemaMismatchError(
            f"Cannot read the field {name!r} of {physical.name!r}: the file has two of that name; rewrite the file",
            cause="AmbiguousColumn",
            field=name,
        )
    return access.getField(name)


def _has_float_fields(stored: PhysicalField) -> bool:
    """Whether Spark could push a filter on a float below a stored struct, which `converted` keeps it from."""
    if not isinstance(stored.type, StructType):
        return False
    return any(isinstance(f.type, FloatType) or _has_float_fields(f) for f in stored.children)


def converted(access: Column, physical: PhysicalField, wanted: Field) -> Column:
    """Single values, shown as `types.natural(physical)`, as the storage_type of the wanted type.

    Raises:
        SchemaMismatchError: there is no exact conversion.
    """
    stored, target = physical.type, wanted.type
    match target:
        case VariantType():
            return access
        case UuidType():
            return _uuid_of_text(access) if isinstance(stored, StringType) else _uuid_of_bytes(access)
        case StringType() if isinstance(stored, BinaryType):
            return F.validate_utf8(access.cast(spark.StringType()))
        case BinaryType() | GeometryType() | GeographyType() if isinstance(stored, StringType):
            return access.cast(spark.BinaryType())
        case StringType() | BinaryType() | FixedType() | GeometryType() | GeographyType():
            if natural(physical).dataType != storage_type(target):
                raise _inconvertible(physical, wanted)
            return access
        case DateType() if isinstance(stored, IntegerType):
            return F.date_from_unix_date(access)
        case TimeType():
            return _time(access, physical, wanted)
        case TimestampType(unit="ns"):
            return access if stored in _NANOS else _micros(access, physical, wanted) * F.lit(1000)
        case TimestampType(utc=utc):
            return _timestamp(access, physical, wanted, utc=utc)
        case FloatType():
            # The value itself, but nothing that Spark pushes: it would skip row groups whose bounds leave out a NaN,
            # which is above all other numbers (delta F9).
            number = _cast(access, physical, target)
            return F.nanvl(number, number)
        case BooleanType() | IntegerType() | DecimalType() | DateType():
            return _cast(access, physical, target)
        case _:
            raise _inconvertible(physical, wanted)


_NANOS = (TimestampType("ns", utc=False), TimestampType("ns", utc=True))


def _cast(access: Column, physical: PhysicalField, target: Type) -> Column:
    return access if natural(physical).dataType == storage_type(target) else access.cast(storage_type(target))


def _time(access: Column, physical: PhysicalField, wanted: Field) -> Column:
    match physical.type:
        case TimeType(unit="ms"):
            return access.cast(spark.LongType()) * F.lit(1000)
        case TimeType(unit="us"):
            return access
        case _:
            raise _inconvertible(physical, wanted)


def _timestamp(access: Column, physical: PhysicalField, wanted: Field, *, utc: bool) -> Column:
    """A timestamp of any stored unit and zone kind in micros: the kind changes, the value does not (iceberg 6.8)."""
    match physical.type:
        case TimestampType(unit="ns"):  # floor, also before 1970
            borrow = F.when(access % F.lit(1000) < F.lit(0), F.lit(1)).otherwise(F.lit(0))
            return from_micros(F.call_function("div", access, F.lit(1000)) - borrow, utc=utc)
        case DateType():
            return from_micros(_micros(access, physical, wanted), utc=utc)
        case TimestampType(utc=stored_utc) if stored_utc == utc:
            return access
        case Int96Type() if utc:
            return access
        case TimestampType() | Int96Type():  # the private session's zone is UTC, so nothing shifts
            return access.cast(spark.TimestampType() if utc else spark.TimestampNTZType())
        case _:
            raise _inconvertible(physical, wanted)


def _micros(access: Column, physical: PhysicalField, wanted: Field) -> Column:
    """Micros since 1970-01-01 as bigint."""
    match physical.type:
        case DateType():
            return F.unix_date(access).cast(spark.LongType()) * F.lit(86_400_000_000)
        case TimestampType(utc=True) | Int96Type():
            return F.unix_micros(access)
        case TimestampType():
            return F.unix_micros(access.cast(spark.TimestampType()))
        case _:
            raise _inconvertible(physical, wanted)


def _uuid_of_bytes(access: Column) -> Column:
    digits = F.lower(F.hex(access))
    first, *others = (F.substring(digits, start, length) for start, length in _UUID_PARTS)
    return F.concat(first, *(piece for part in others for piece in (F.lit("-"), part)))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""Where the digits between the dashes are, as (first, count), counted from 1."""


def _uuid_of_text(access: Column) -> Column:
    """Canonical text of a UUID written as DuckDB takes it: dashes anywhere or nowhere, perhaps in braces."""
    digits = F.lower(F.translate(F.regexp_replace(access, r"^\{(.*)\}$", "$1"), "-", ""))
    dashed = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    refusal = F.concat(F.lit("Cannot read as a UUID: "), access)
    return F.when(digits.rlike("^[0-9a-f]{32}$"), dashed).when(access.isNotNull(), F.raise_error(refusal))


def _inconvertible(physical: PhysicalField, wanted: Field) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"Cannot turn a stored {physical.type} into {wanted.type}",
        cause="IncompatibleType",
        field=wanted.name,
        rule="iceberg 5.12",
    )
