"""The columns of a result: what DuckDB says of them, held against what was made of them for Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

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
    ListType,
    MapType,
    OpaqueType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from harness.queries.transpile.queries import Query
from harness.queries.transpile.values import HUGE

_TYPES: dict[str, Type] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": IntegerType(8),
    "SMALLINT": IntegerType(16),
    "INTEGER": IntegerType(32),
    "BIGINT": IntegerType(64),
    "HUGEINT": HUGE,
    "FLOAT": FloatType(32),
    "DOUBLE": FloatType(64),
    "VARCHAR": StringType(),
    "BLOB": BinaryType(),
    "UUID": UuidType(),
    "DATE": DateType(),
    "TIME": TimeType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NS": TimestampType("ns"),
    "TIMESTAMP WITH TIME ZONE": TimestampType(utc=True),
}


def result_columns(query: Query, described: Sequence[tuple[str, str]]) -> tuple[Field, ...]:
    """The columns that the query must have on Spark: DuckDB's names, and its types where Spark has them.

    Args:
        described: name and type of each column on DuckDB, as it shows them.

    Raises:
        UnsupportedError: the two do not fit together, so the query was not understood.
    """
    names = [name for name, _ in described]
    if len(names) != len(query.names) or not all(_is_same(*pair) for pair in zip(query.names, names, strict=True)):
        raise UnsupportedError(
            f"Cannot run the query on Spark: DuckDB gives the columns {', '.join(names)}, "
            f"not {', '.join(name or '?' for name in query.names)}"
        )
    return tuple(
        Field(id=place, name=name, type=_agreed(name, _given_out(type_), shown))
        for place, ((name, shown), type_) in enumerate(zip(described, query.types, strict=True), 1)
    )


def _is_same(own: str | None, shown: str) -> bool:
    """Whether DuckDB shows a column under a name, or under that name and a number because another has it."""
    if own is None or own.casefold() == shown.casefold():
        return True
    return re.fullmatch(re.escape(own) + r"[_:]\d+", shown, re.IGNORECASE) is not None


def _given_out(type_: Type) -> Type:
    """A type as results of DuckDB have it, which know neither the length of bytes nor the zone of nanos."""
    match type_:
        case FixedType():
            return BinaryType()
        case TimestampType(unit="ns"):
            return TimestampType("ns")
        case StructType(fields=fields):
            return StructType(tuple(_given_out_field(f) for f in fields))
        case ListType(element=element):
            return ListType(_given_out_field(element))
        case MapType(key=key, value=value):
            return MapType(_given_out_field(key), _given_out_field(value))
        case _:
            return type_


def _given_out_field(field: Field) -> Field:
    return replace(field, type=_given_out(field.type))


def _agreed(name: str, type_: Type, shown: str) -> Type:
    expected = _type_of(shown)
    match type_, expected:
        case OpaqueType(), None:
            raise UnsupportedError(f"Cannot give out column {name} of type {shown} on Spark: use epoch() or a cast")
        case ((IntegerType() | FloatType() | DecimalType() | StringType() | BooleanType()), None) if shown != '"NULL"':
            raise UnsupportedError(f"Cannot run the query on Spark: column {name} is {shown} on DuckDB, not {type_}")
        case (_, None) | (UnknownType(), _):
            return type_
        case ((IntegerType() | DecimalType()), (IntegerType() | DecimalType())) if _scale(type_) == _scale(expected):
            return expected
        case own, other if HUGE in (own, other) and _scale(own) == _scale(other) == 0:
            return DecimalType(38, 0) if other == HUGE else other
        case own, other if type(own) is type(other) and str(own) == str(other):
            return own
        case own, (StringType() | BinaryType() | TimestampType()) if type(own) not in map(type, _TYPES.values()):
            # Variants and geometries: DuckDB shows what they travel in.
            return own
        case _:
            raise UnsupportedError(f"Cannot run the query on Spark: column {name} is {shown} on DuckDB, not {type_}")


def _type_of(shown: str) -> Type | None:
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", shown)
    return DecimalType(int(found[1]), int(found[2])) if found is not None else _TYPES.get(shown)


def _scale(type_: Type) -> int | None:
    match type_:
        case DecimalType(scale=scale):
            return scale
        case IntegerType():
            return 0
        case _:
            return 0 if type_ == HUGE else None
