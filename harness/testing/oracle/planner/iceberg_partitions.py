"""Partition tuples of an Iceberg table: their values, their equality, and what they say of columns."""

from __future__ import annotations

import decimal
import math
import struct
import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from harness.errors import UnsupportedError
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    OpaqueType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from harness.metadata.plan.scan_plan import Partition
from harness.testing.oracle.planner.documents import UNITS
from harness.testing.oracle.planner.iceberg_metadata import Metadata, PartitionField, Spec

_EXACT = decimal.Context(prec=100)
_WRITTEN = {"millis": "ms", "micros": "us", "nanos": "ns"}


def value_type(part: PartitionField, metadata: Metadata) -> Type:
    """The type of a partition field's values, by the newest type of its source column (iceberg 1.21, 2.18)."""
    name = part.transform.partition("[")[0]
    if name == "day":
        return DateType()
    if name in ("bucket", "year", "month", "hour"):
        return IntegerType(32)
    if name in ("identity", "truncate", "void"):
        for schema in metadata.schemas.values():
            if part.source in schema.by_id():
                return schema.by_id()[part.source][1].type
    return OpaqueType(part.transform)


def stored(value: Any, type_: Type, kind: str) -> Any:
    """A partition value as Avro has it (of the logical or primitive type `kind`) as internal values (iceberg 2.18).

    Raises:
        ValueError: it is no value of the type.
    """
    if value is None:
        return None
    match type_:
        case BooleanType():
            return _of(value, bool)
        case IntegerType() | DateType():
            return _of(value, int)
        case TimestampType(unit=unit) if kind in ("int", "date"):
            return _of(value, int) * 86_400 * UNITS[unit]
        case TimestampType(unit=unit) | TimeType(unit=unit):
            written = next((short for long, short in _WRITTEN.items() if kind.endswith(long)), unit)
            return _of(value, int) * UNITS[unit] // UNITS[written]
        case FloatType():
            return float(_of(value, float))
        case DecimalType(scale=scale):
            unscaled = int.from_bytes(_of(value, bytes), "big", signed=True)
            return Decimal(unscaled).scaleb(-scale, context=_EXACT)
        case StringType():
            return value.decode() if isinstance(value, bytes) else _of(value, str)
        case UuidType():
            return uuid.UUID(value).bytes if isinstance(value, str) else _sized(value, 16)
        case FixedType(length=length):
            return _sized(value, length)
        case BinaryType():
            return _of(value, bytes)
        case _:
            return value


def _of(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of its type")
    return value


def _sized(value: Any, length: int) -> bytes:
    data: bytes = _of(value, bytes)
    if len(data) != length:
        raise ValueError(f"{data!r} has not {length} bytes")
    return data


def partition_key(spec: Spec, values: Mapping[int, Any]) -> Hashable:
    """Equal for equal tuples of one spec only; nulls are equal, floats are told apart by bits (iceberg 2.18, 4.1)."""
    return (spec.id, *(_value_key(values.get(f.id)) for f in spec.fields if f.transform != "void"))


def _value_key(value: Any) -> Hashable:
    match value:
        case float():
            return "NaN" if math.isnan(value) else struct.pack(">d", value)
        case bool() | None | str() | bytes():
            return (type(value).__name__, value)
        case int() | Decimal():
            return value
        case _:
            return repr(value)


@dataclass(frozen=True, slots=True)
class Partitions:
    """Numbers the partition tuples of a plan."""

    metadata: Metadata
    numbers: dict[Hashable, int] = field(default_factory=dict)
    tuples: list[Partition] = field(default_factory=list)

    def number(self, spec: Spec, values: Mapping[int, Any]) -> int:
        """The index of a tuple in `ScanPlan.partitions`."""
        key = partition_key(spec, values)
        if key not in self.numbers:
            self.numbers[key] = len(self.tuples)
            self.tuples.append(
                Partition(
                    spec_id=spec.id,
                    values=dict(values),
                    constants={
                        f.source: values.get(f.id)
                        for f in spec.fields
                        if f.transform == "identity" and f.source is not None
                    },
                    names={f.id: f.name for f in spec.fields},
                )
            )
        return self.numbers[key]


def partition_fields(metadata: Metadata) -> tuple[Field, ...]:
    """The fields of the metadata column `_partition`: those of all specs, by id (iceberg 5.17).

    Raises:
        UnsupportedError: one has an unknown transform.
    """
    found: dict[int, Field] = {}
    for part in (f for spec in metadata.specs.values() for f in spec.fields):
        if part.transform.startswith("unknown "):
            raise UnsupportedError(
                f"Cannot show _partition: transform {part.transform} of {part.name!r}",
                cause="UnsupportedType",
                rule="iceberg 5.17",
            )
        found.setdefault(part.id, Field(id=part.id, name=part.name, type=value_type(part, metadata)))
    return tuple(found[id_] for id_ in sorted(found))
