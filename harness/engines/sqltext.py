"""DuckDB SQL text for names, types and values: the only place that quotes."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any
from uuid import UUID

from harness.errors import UnsupportedError
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
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
)

_GLOB = re.compile(r"[\[*?]")
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def name(identifier: str) -> str:
    """A quoted identifier.

    Raises:
        UnsupportedError: it is empty, which DuckDB's SQL cannot say.
    """
    if identifier == "":
        raise UnsupportedError(
            "Cannot name a column or struct field '' in DuckDB, which has no empty names: leave the column out, or "
            "read a top-level one with to_arrow()",
            cause="UnsupportedName",
            rule="iceberg 5.21",
        )
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string literal; NUL, which SQL text cannot hold, goes by way of bytes."""
    if "\0" in value:
        return f"decode(from_hex('{value.encode().hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def glob_free(path: str) -> str:
    """`path` as an item of `read_parquet([…])`, where items are globs."""
    return _GLOB.sub(r"[\g<0>]", path)


def type_name(type_: Type) -> str:
    """The DuckDB type in which values of `type_` leave the engine, spelled as DuckDB prints it.

    Variant is JSON text, geometry and geography are WKB bytes, and an instant in nanoseconds is TIMESTAMP_NS in UTC,
    because no DuckDB before 2.0 has a zoned nanosecond type.
    """
    match type_:
        case BooleanType():
            return "BOOLEAN"
        case IntegerType(bits=bits):
            return _INTEGERS[bits]
        case UnsignedType(bits=bits):
            return "U" + _INTEGERS[bits]
        case FloatType(bits=bits):
            return "DOUBLE" if bits == 64 else "FLOAT"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case DateType():
            return "DATE"
        case TimeType():
            return "TIME"
        case TimestampType(unit="ns"):
            return "TIMESTAMP_NS"
        case TimestampType(utc=utc):
            return "TIMESTAMP WITH TIME ZONE" if utc else "TIMESTAMP"
        case Int96Type():
            return "TIMESTAMP"
        case StringType() | VariantType():
            return "VARCHAR"
        case UuidType():
            return "UUID"
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return "BLOB"
        case UnknownType():
            return "INTEGER"
        case StructType(fields=fields):
            return f"STRUCT({', '.join(f'{name(f.name)} {type_name(f.type)}' for f in fields)})"
        case ListType(element=element):
            return f"{type_name(element.type)}[]"
        case MapType(key=key, value=value):
            return f"MAP({type_name(key.type)}, {type_name(value.type)})"
        case OpaqueType(text=unknown):
            raise UnsupportedError(
                f"Cannot read a column of type {unknown!r}: harness does not know the type; leave the column out",
                cause="UnsupportedType",
                rule="iceberg 1.22",
            )


def literal(value: Any, type_: Type) -> str:
    """A typed SQL expression for a value as internal values (see `harness.metadata.model.schema`)."""
    target = type_name(type_)
    if value is None:
        return f"CAST(NULL AS {target})"
    match type_:
        case BooleanType():
            return "true" if value else "false"
        case FloatType():
            return f"CAST({_float_text(float(value))} AS {target})"
        case DecimalType():
            return f"CAST('{Decimal(value):f}' AS {target})"
        case DateType():
            return f"(DATE '1970-01-01' + CAST({int(value)} AS INTEGER))"
        case TimeType():
            return f"(TIME '00:00:00' + to_microseconds({int(value)}))"
        case TimestampType(unit="ns"):
            return f"make_timestamp_ns({int(value)})"
        case TimestampType(utc=True):
            return f"(make_timestamp({int(value)}) AT TIME ZONE 'UTC')"
        case TimestampType():
            return f"make_timestamp({int(value)})"
        case StringType():
            return text(value)
        case UuidType():
            return f"CAST('{UUID(bytes=bytes(value))}' AS UUID)"
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return f"from_hex('{bytes(value).hex()}')"
        case StructType(fields=fields):
            return struct({f.name: literal(value.get(f.id), f.type) for f in fields})
        case ListType(element=element):
            items = ", ".join(literal(item, element.type) for item in value)
            return f"CAST([{items}] AS {target})"
        case MapType(key=key, value=item):
            keys = ", ".join(literal(k, key.type) for k, _ in value)
            items = ", ".join(literal(v, item.type) for _, v in value)
            return f"CAST(map([{keys}], [{items}]) AS {target})"
        case _:
            return f"CAST({int(value)} AS {target})"


def struct(parts: dict[str, str]) -> str:
    """A struct expression of named parts."""
    return f"struct_pack({', '.join(f'{name(key)} := {part}' for key, part in parts.items())})"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "'nan'"
    if math.isinf(value):
        return "'inf'" if value > 0 else "'-inf'"
    return f"'{value!r}'"
