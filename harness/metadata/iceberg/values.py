"""Column bounds and partition values in manifests as internal values, and equality of partition tuples."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import TypeVar

from harness.errors import UnsupportedError
from harness.metadata.iceberg.model import PartitionField, PartitionSpec, TableMetadata
from harness.metadata.iceberg.transforms import Identity, UnknownTransform, result_type
from harness.metadata.model import schema as dt
from harness.metadata.plan.scan_plan import Partition
from harness.storage.records import dataclass

V = TypeVar("V")

PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000, "ms": 1_000, "us": 1_000_000, "ns": 10**9}


def decode_bound(type_: dt.Type, data: bytes) -> dt.CellValue:
    """Decode a bound into an internal value.

    Bounds written before a promotion are widened: int to long, float to double, and days to a timestamp.

    Returns:
        The value. None if the bound is unusable: its length is wrong for the type, it is NaN, its text is not UTF-8, or
            the type has no usable bounds (variant, geometry, geography, and nested types).

    Spec: Iceberg, "Bound serialization" (rules iceberg 3.21-3.24).
    """
    match type_:
        case dt.BooleanType():
            return {b"\x00": False, b"\x01": True}.get(data)
        case dt.IntegerType(bits=bits):
            return _integer(data) if len(data) in (4, bits // 8) else None
        case dt.DateType():
            return _integer(data) if len(data) == 4 else None
        case dt.TimestampType(unit=unit) if len(data) == 4:  # written while the column was a date (iceberg 3.23)
            return _integer(data) * PER_DAY[unit]
        case dt.TimeType() | dt.TimestampType():
            return _integer(data) if len(data) == 8 else None
        case dt.FloatType(bits=bits):
            if len(data) not in (4, bits // 8):
                return None
            number: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
            return None if math.isnan(number) else number
        case dt.DecimalType(scale=scale):
            return dt.from_unscaled(int.from_bytes(data, "big", signed=True), scale) if data else None
        case dt.StringType():
            try:
                return data.decode()
            except UnicodeDecodeError:  # truncated inside a character (iceberg 3.22)
                return None
        case dt.UuidType():
            return data if len(data) == 16 else None
        case dt.FixedType(length=length):
            # Writers may truncate bounds, but no bound is longer than the values.
            return data if len(data) <= length else None
        case dt.BinaryType():
            return data
        case _:
            return None


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def partition_value(type_: dt.Type, kind: str) -> Callable[[dt.CellValue], dt.CellValue]:
    """Return a function that converts a partition value decoded from Avro to an internal value (iceberg 2.17, 2.18).

    The function returns None for null and raises ValueError for a value that the type does not have. Values of an
    opaque type are returned unchanged, because they still separate partitions.

    Args:
        type_: The type of the transform's result, after promotion.
        kind: Avro's logical type of the value, or else its primitive type.
    """
    convert = _converter(type_, kind)
    return lambda value: None if value is None else convert(value)


def _converter(type_: dt.Type, kind: str) -> Callable[[dt.CellValue], dt.CellValue]:
    match type_:
        case dt.BooleanType():
            return lambda value: _check_class(value, bool)
        case dt.IntegerType() | dt.DateType():
            return lambda value: _check_class(value, int)
        case dt.TimestampType(unit=unit) if kind in ("int", "date"):
            # Days, written while the column was a date, as in bounds (iceberg 3.23).
            return lambda value: _check_class(value, int) * PER_DAY[unit]
        case dt.TimeType(unit=unit) | dt.TimestampType(unit=unit):
            # The logical type in Avro includes the unit; without a logical type, the unit is the table's.
            written = next((name for name in ("millis", "micros", "nanos") if kind.endswith(name)), unit)
            multiplier, divisor = _PER_SECOND[unit], _PER_SECOND[written]
            return lambda value: _check_class(value, int) * multiplier // divisor
        case dt.FloatType():
            return lambda value: float(_check_class(value, float, int))
        case dt.DecimalType(scale=scale):
            return lambda value: dt.from_unscaled(_unscaled(value), scale)
        case dt.StringType():
            # Some writers declare strings as bytes.
            return lambda value: value.decode() if isinstance(value, bytes) else _check_class(value, str)
        case dt.UuidType():
            return lambda value: uuid.UUID(value).bytes if isinstance(value, str) else _check_length(value, 16)
        case dt.FixedType(length=length):
            return lambda value: _check_length(value, length)
        case dt.BinaryType():
            return lambda value: _check_class(value, bytes)
        case _:
            return lambda value: value


def _check_class(value: object, *classes: type[V]) -> V:
    """Return `value` if it is an instance of one of `classes`, and raise ValueError otherwise.

    bool does not count as int.
    """
    if not isinstance(value, classes) or (isinstance(value, bool) and bool not in classes):
        raise ValueError(f"{value!r} is not of the partition field's type")
    return value


def _unscaled(value: object) -> int:
    data = _check_class(value, bytes)
    if not data:
        raise ValueError("a decimal has no bytes")
    return int.from_bytes(data, "big", signed=True)


def _check_length(value: object, length: int) -> bytes:
    data = _check_class(value, bytes)
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes, expected {length}")
    return data


def partition_key(spec_id: int, values: Mapping[int, dt.CellValue], types: Mapping[int, dt.Type]) -> Hashable:
    """Return a key that is equal for partition tuples of the same partition only (iceberg 2.18, 4.1).

    Nulls are equal. Floats are equal if their bits are equal, except that all NaN are equal. So -0.0 and 0.0 differ.
    Decimals are equal by value.

    Args:
        spec_id: Id of the partition spec.
        values: Internal values by partition field id; a missing value is null.
        types: The types of the spec's values by field id, in ascending order of id.
    """
    return (spec_id, *[_value_key(values.get(id_), type_) for id_, type_ in types.items()])


def _value_key(value: dt.CellValue, type_: dt.Type) -> Hashable:
    if type(value) is int or type(value) is str or value is None:  # the usual case
        return value
    match value:
        case bool():  # in Python, True == 1 == 1.0
            return ("bool", value)
        case float():  # in Python, -0.0 == 0.0
            return ("float", b"nan" if math.isnan(value) else struct.pack(">d", value))
        case Decimal():
            return dt.unscaled(value, type_.scale) if isinstance(type_, dt.DecimalType) else value
        case list() | tuple():
            return tuple(_value_key(item, type_) for item in value)
        case dict():
            return tuple((key, _value_key(item, type_)) for key, item in sorted(value.items()))
        case _:
            return value if isinstance(value, Hashable) else repr(value)


def partition_types(spec: PartitionSpec, schemas: Sequence[dt.Schema]) -> dict[int, dt.Type]:
    """Return the types of a spec's partition values by partition field id.

    The type comes from the first schema with the source column. If no schema has the column, the type is opaque.

    Spec: Iceberg, "Partition Evolution" (rule iceberg 1.21).
    """
    return {f.field_id: result_type(f.transform, source_type(f, schemas)) for f in spec.fields}


def source_type(partition_field: PartitionField, schemas: Sequence[dt.Schema]) -> dt.Type | None:
    """Return the type of the column that a partition field reads, from the first schema that has it, or None."""
    source = partition_field.source_id
    return next((f.type for schema in schemas for _, f in schema.walk() if f.id == source), None)


@dataclass(frozen=True, slots=True)
class _SpecFields:
    """The fields of a spec.

    Attributes:
        types: Types of the values by field id, in ascending order.
        names: Names by field id.
        identities: For identity fields, the partition field id by source column id.
    """

    types: Mapping[int, dt.Type]
    names: Mapping[int, str]
    identities: Mapping[int, int]

    @staticmethod
    def from_spec(spec: PartitionSpec, schemas: Sequence[dt.Schema]) -> _SpecFields:
        """Return the fields of a spec, with types from the schemas."""
        identities = {
            part.source_id: part.field_id
            for part in spec.fields
            if isinstance(part.transform, Identity) and part.source_id is not None
        }
        types = dict(sorted(partition_types(spec, schemas).items()))
        return _SpecFields(types, {part.field_id: part.name for part in spec.fields}, identities)


@dataclass(slots=True)
class Partitions:
    """The distinct partition tuples of the files of one scan, numbered in order of first use.

    Attributes:
        specs: The partition specs of the table, by id.
        schemas: All schemas of the table: the schema of the read first, then the others from newest to oldest. The
            types of partition values come from these schemas.
    """

    specs: Mapping[int, PartitionSpec]
    schemas: tuple[dt.Schema, ...]
    _fields: dict[int, _SpecFields] = field(default_factory=dict)
    _indexes: dict[Hashable, int] = field(default_factory=dict)
    _tuples: list[Partition] = field(default_factory=list)

    def key_of(self, spec_id: int, values: Mapping[int, dt.CellValue]) -> Hashable:
        """Return the key of a tuple, which is equal for files of one partition (iceberg 2.18, 4.1)."""
        types = self._fields_of(spec_id).types
        return partition_key(spec_id, values, types) if types else spec_id

    def index_of(self, spec_id: int, values: Mapping[int, dt.CellValue]) -> int:
        """Return the number of a tuple, and add the tuple if it is new."""
        key = self.key_of(spec_id, values)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = len(self._tuples)
            fields = self._fields_of(spec_id)
            constants = {source_id: values.get(id_) for source_id, id_ in fields.identities.items()}
            self._tuples.append(
                Partition(
                    spec_id=spec_id,
                    values=dict(values),
                    constants=constants,
                    names=fields.names,
                    types=fields.types,
                )
            )
        return index

    def all(self) -> tuple[Partition, ...]:
        """Return every partition so far, by number."""
        return tuple(self._tuples)

    def _fields_of(self, spec_id: int) -> _SpecFields:
        if spec_id not in self._fields:
            spec = self.specs.get(spec_id, PartitionSpec(spec_id, ()))
            self._fields[spec_id] = _SpecFields.from_spec(spec, self.schemas)
        return self._fields[spec_id]


def read_schema_first(schemas: Mapping[int, dt.Schema], read: dt.Schema) -> tuple[dt.Schema, ...]:
    """Return the table's schemas: the schema of the read first, then the others by descending id.

    The schema of the read has precedence because a replaced table may reuse the ids of old columns for new columns with
    the same name and another type, while old snapshots remain readable.
    """
    others = sorted((schema for schema in schemas.values() if schema.id != read.id), key=lambda s: -s.id)
    return (read, *others)


def all_partition_fields(metadata: TableMetadata, schemas: tuple[dt.Schema, ...]) -> tuple[dt.Field, ...]:
    """Return the fields of all partition specs in ascending order of id, with the types of their values (iceberg 5.17).

    Raises:
        UnsupportedError: The type of a transform's result is unknown.
    """
    fields: dict[int, dt.Field] = {}
    for spec in metadata.specs.values():
        types = partition_types(spec, schemas)
        for part in spec.fields:
            if isinstance(part.transform, UnknownTransform):
                message = f"Cannot show _partition: its field {part.name!r} has the unknown transform {part.transform}"
                raise UnsupportedError(message, cause="UnsupportedType", field="_partition", rule="iceberg 5.17")
            fields.setdefault(part.field_id, dt.Field(id=part.field_id, name=part.name, type=types[part.field_id]))
    return tuple(fields[field_id] for field_id in sorted(fields))
