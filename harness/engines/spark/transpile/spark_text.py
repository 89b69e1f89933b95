"""Names, literals, and types in Spark's SQL. A type that Spark lacks is replaced by its storage type."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from decimal import Decimal
from typing import Any

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt


def name(text: str) -> str:
    """Quote an identifier."""
    return "`" + text.replace("`", "``") + "`"


def text(value: str) -> str:
    """Return a string literal.

    All unusual characters are escaped, so that neither the parser nor a log misreads them.
    """
    return "'" + "".join(map(_character, value)) + "'"


def _character(character: str) -> str:
    code = ord(character)
    if 32 <= code < 127:
        return f"\\{character}" if character in "\\'" else character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def literal(value: dt.CellValue, type_: dt.Type) -> str:
    """Return an expression for an internal value (`harness.metadata.model.schema`), in the storage type of its type."""
    if value is None:
        return f"CAST(NULL AS {type_name(type_)})"
    match type_:
        case dt.BooleanType():
            return "true" if value else "false"
        case dt.IntegerType(bits=bits):
            return integer(int(value), bits)
        case dt.FloatType(bits=bits):
            return _floating(float(value), bits)
        case dt.DecimalType(precision=precision, scale=scale):
            return f"CAST({Decimal(value):f}BD AS DECIMAL({precision}, {scale}))"
        case dt.DateType():
            return f"DATE_FROM_UNIX_DATE({int(value)})"
        case dt.TimestampType(unit="us", utc=True):
            return f"TIMESTAMP_MICROS({integer(value, 64)})"
        case dt.TimestampType(unit="us"):
            try:
                moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(value))
            except OverflowError:
                return f"CAST(TIMESTAMP_MICROS({integer(value, 64)}) AS TIMESTAMP_NTZ)"
            return f"TIMESTAMP_NTZ'{moment.isoformat(sep=' ')}'"
        case dt.TimestampType() | dt.TimeType():
            return integer(int(value), 64)
        case dt.StringType() | dt.VariantType():
            return text(value)
        case dt.UuidType():
            return text(str(uuid.UUID(bytes=bytes(value))))
        case dt.FixedType() | dt.BinaryType():
            return f"X'{bytes(value).hex()}'"
        case _:
            raise UnsupportedError(f"Cannot write a value of type {type_} in Spark's SQL")


def integer(value: int, bits: int) -> str:
    """Return a literal for an integer. The smallest integer of a type cannot be written as a negated literal."""
    suffix = {8: "Y", 16: "S", 32: "", 64: "L"}[bits]
    if value == -(2 ** (bits - 1)):
        return f"({integer(value + 1, bits)} - {integer(1, bits)})"
    return f"{value}{suffix}" if value >= 0 else f"(-{-value}{suffix})"


def _floating(value: float, bits: int) -> str:
    suffix, type_ = ("D", "DOUBLE") if bits == 64 else ("F", "FLOAT")
    if math.isnan(value):
        return f"CAST('NaN' AS {type_})"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS {type_})"
    # The shortest text for the double also yields the 32-bit float that the double represents.
    return f"{value!r}{suffix}" if math.copysign(1.0, value) > 0 else f"(-{-value!r}{suffix})"


_NAMES: dict[type[Any], str] = {
    dt.BooleanType: "BOOLEAN",
    dt.DateType: "DATE",
    dt.TimeType: "BIGINT",
    **dict.fromkeys((dt.StringType, dt.VariantType, dt.UuidType), "STRING"),
    **dict.fromkeys((dt.FixedType, dt.BinaryType, dt.GeometryType, dt.GeographyType), "BINARY"),
    dt.UnknownType: "INT",
}


def type_name(type_: dt.Type) -> str:
    """Return the name of a type's storage type in Spark."""
    match type_:
        case dt.IntegerType(bits=bits):
            return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[bits]
        case dt.FloatType(bits=bits):
            return "DOUBLE" if bits == 64 else "FLOAT"
        case dt.DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case dt.TimestampType(unit="us", utc=utc):
            return "TIMESTAMP" if utc else "TIMESTAMP_NTZ"
        case dt.TimestampType():
            return "BIGINT"
        case dt.StructType(fields=fields):
            return f"STRUCT<{', '.join(f'{name(f.name)}: {type_name(f.type)}' for f in fields)}>"
        case dt.ListType(element=element):
            return f"ARRAY<{type_name(element.type)}>"
        case dt.MapType(key=key, value=value):
            return f"MAP<{type_name(key.type)}, {type_name(value.type)}>"
        case _ if type(type_) in _NAMES:
            return _NAMES[type(type_)]
        case _:
            raise UnsupportedError(f"Cannot use values of type {type_} in Spark's SQL")


_ANY = "run it on DuckDB, or write the query for Spark and pass dialect='spark'"


def refusal(node: exp.Expr, what: str | None = None, instead: str | None = None) -> UnsupportedError:
    """Return the error for a construct that may mean different things on the two engines.

    Args:
        node: The construct.
        what: Its name. None for a function, whose own name is used.
        instead: A form that both engines read alike, for the message.
    """
    while isinstance(node, exp.JSONPath | exp.JSONPathPart) and node.parent is not None:
        node = node.parent  # up to a node that the user wrote
    call_text = node.sql("duckdb", comments=False)
    is_call = isinstance(node, exp.Func) and not isinstance(node, exp.Binary)
    called = re.match(r"\w+(?=\()", call_text) if is_call else None
    what = what or ("this" if called is None else f"{called[0].lower()}()")
    call_text = call_text if len(call_text) <= 80 else call_text[:77] + "..."
    return UnsupportedError(
        f"Cannot run {what} on Spark, in {call_text}: its rows may differ from DuckDB's; "
        f"{f'{instead}, ' if instead else ''}{_ANY}",
        options=("dialect",),
    )
