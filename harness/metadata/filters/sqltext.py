"""Names, types and values as text of DuckDB's SQL: read exactly, or not at all, and written. Nothing else quotes."""

from __future__ import annotations

import datetime
import math
import os
import re
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from harness.errors import RequestError, UnknownColumnError, UnsupportedError
from harness.metadata.model import schema as dt
from harness.storage.records import dataclass

DAY_NS = 86_400_000_000_000


def refuse_half_characters(sql: str, what: str) -> None:
    """Refuses text that is not Unicode, such as arguments of a command that are not UTF-8. Raises RequestError."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"Cannot parse the {what}: character {error.start + 1} is half of one, {sql[error.start]!a}; "
            "write it in UTF-8"
        ) from None


def parse_integer(text: str) -> int | None:
    """A whole number in plain digits."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,38}", text) else None


def whole_number(text: str) -> int | None:
    """A whole number in digits alone; None for more of them than a value of any type has, which Python may refuse."""
    return int(text) if re.fullmatch(r"[0-9]{1,38}", text) else None


def parse_decimal(text: str) -> Decimal | None:
    """A number in plain digits with a point, exactly."""
    return Decimal(text) if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text) else None


def parse_float(text: str) -> float | None:
    """The nearest double, or an infinity, or NaN."""
    if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?([eE][+-]?[0-9]{1,2})?|nan|NaN|-?inf|-?Infinity|-?infinity", text):
        return float(text)
    return None


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01; None outside the years 1 to 9999."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return datetime.date.fromisoformat(text).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        return None


_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::[0-9]{2})?)?"
)


def parse_timestamp(text: str, *, digits: int) -> int | None:
    """Nanoseconds since 1970-01-01 of a wall-clock time with at most `digits` digits of a second; no offset."""
    match = _TIMESTAMP.fullmatch(text)
    return None if match is None or match[4] is not None else _nanoseconds(match, digits)


def parse_instant(text: str, *, digits: int) -> int | None:
    """Nanoseconds since 1970-01-01 UTC; without an offset the text is in UTC, as engines' sessions are."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[2] is None and match[4] is not None):
        return None
    wall = _nanoseconds(match, digits)
    if wall is None or match[4] is None or match[4] == "Z":
        return wall
    hours, minutes = int(match[4][1:3]), int(match[4][4:6] or 0)
    if hours > 14 or minutes > 59:
        return None
    offset = (hours * 3600 + minutes * 60) * 10**9
    return wall + offset if match[4][0] == "-" else wall - offset


def _nanoseconds(match: re.Match[str], digits: int) -> int | None:
    days = parse_date(match[1])
    time = 0 if match[2] is None else _time_of_day(match[2], match[3] or "", digits)
    return None if days is None or time is None else days * DAY_NS + time


def parse_time(text: str) -> int | None:
    """Nanoseconds since midnight."""
    match = re.fullmatch(r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?", text)
    return None if match is None else _time_of_day(match[1], match[2] or "", 6)


def _time_of_day(clock: str, fraction: str, digits: int) -> int | None:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > digits:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0"))


def parse_uuid(text: str) -> bytes | None:
    """The 16 bytes of a UUID in its usual form."""
    return uuid.UUID(text).bytes if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) else None


def parse_bytes(text: str) -> bytes | None:
    """DuckDB's text form of a BLOB: ASCII, other bytes as \\xAA."""
    if not re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return None
    return re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), text.encode())


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """The meaning of a path: fields from the top-level column down."""

    fields: tuple[dt.Field, ...]
    rest: tuple[str, ...] = ()  # names within a metadata column, whose fields differ from table to table

    @property
    def leaf(self) -> dt.Field | None:
        """The innermost field; None within a metadata column."""
        return None if self.rest else self.fields[-1]

    def sql(self) -> str:
        """The reference in DuckDB's dialect; parentheses keep a struct from being taken for a table."""
        first, *others = (*(f.name for f in self.fields), *self.rest)
        return ".".join((f"({quoted(first)})", *(quoted(n) for n in others))) if others else quoted(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """The names of one schema.

    table: a name that may precede them. is_condition: literals may be among them.
    """

    schema: dt.Schema
    table: str | None
    is_condition: bool = False

    def resolve(self, names: tuple[str, ...]) -> ResolvedPath:
        """The fields that a path of names means. Raises UnknownColumnError."""
        found = self._descend(names)
        is_qualified = self.table is not None and len(names) > 1 and names[0].casefold() == self.table.casefold()
        if found is None and is_qualified:
            found = self._descend(names[1:])
        if found is None:
            raise self._unknown(names)
        return found

    def _descend(self, names: tuple[str, ...]) -> ResolvedPath | None:
        top = self._find(names[0], self.schema.fields)
        if top is None:
            top = self._find(names[0], dt.METADATA.values())
            return None if top is None else ResolvedPath((top,), names[1:])
        fields = [top]
        for name in names[1:]:
            inner = fields[-1].type
            child = self._find(name, inner.fields) if isinstance(inner, dt.StructType) else None
            if child is None:
                return None
            fields.append(child)
        return ResolvedPath(tuple(fields))

    def _find(self, name: str, fields: Iterable[dt.Field]) -> dt.Field | None:
        alike = [f for f in fields if f.name.casefold() == name.casefold()]
        exact = [f for f in alike if f.name == name]
        found = exact or alike
        if len(found) > 1:
            listed = ", ".join(f'"{f.name}"' for f in found)
            message = (
                f'Column "{name}" is ambiguous, it may be any of {listed}. Use the exact spelling, case-sensitively.'
            )
            raise UnknownColumnError(message, field=name, cause="AmbiguousColumn", rule="iceberg 5.21")
        return found[0] if found else None

    def _unknown(self, names: tuple[str, ...]) -> UnknownColumnError:
        import difflib  # only a name that is not found needs it

        wanted = ".".join(names)
        known = {".".join(path): None for path, _ in dt.walk(self.schema.fields)} | dict.fromkeys(dt.METADATA)
        folded = {name.casefold(): name for name in known}
        near = [folded[n] for n in difflib.get_close_matches(wanted.casefold(), folded, n=3)]
        hint = f"did you mean {' or '.join(near)}?" if near else f"the table has {', '.join(self.schema.names()[:20])}"
        if self.is_condition and not near and len(names) == 1:
            hint += f"; a text has single quotes, '{wanted}'"
        if wanted in known:
            hint = f"did you mean the field {wanted}, without quotes around the whole?"
        return UnknownColumnError(f'Unknown column "{wanted}": {hint}', field=wanted)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def bind_columns(names: Sequence[str], schema: dt.Schema) -> tuple[dt.Field, ...]:
    """The fields of `schema`, or metadata columns, that `names` mean, in that order.

    A name is a whole top-level name: `a.b` is the column called that. Spelling decides, as for `parse_filter`.

    Raises:
        UnknownColumnError: a name that no column has, or that several have.
        RequestError: a column is named twice.
    """
    bound = tuple(ColumnNames(schema=schema, table=None).resolve((name,)).fields[0] for name in names)
    twice = next((f.name for i, f in enumerate(bound) if f in bound[:i]), None)
    if twice is not None:
        raise RequestError(f"Invalid columns: {twice!r} is named twice", field=twice)
    return bound


_GLOB = re.compile(r"[\[*?]")
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def name(identifier: str) -> str:
    """A quoted identifier. Raises UnsupportedError: it is empty, which DuckDB's SQL cannot say."""
    if identifier == "":
        message = (
            "Cannot name a column or struct field '' in DuckDB, which has no empty names: leave the column out, or "
            "read a top-level one with to_arrow()"
        )
        raise UnsupportedError(message, cause="UnsupportedName", rule="iceberg 5.21")
    return quoted(identifier)


def text(value: str) -> str:
    """A string literal; NUL, which SQL text cannot hold, goes by way of bytes."""
    if "\0" in value:
        return f"decode(from_hex('{value.encode().hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def escape_glob(path: str) -> str:
    """`path` as an item of `read_parquet([…])`, where items are globs."""
    return _GLOB.sub(r"[\g<0>]", path)


def opens_in_duckdb(path: str) -> bool:
    """Return whether DuckDB can open a local file by its path.

    DuckDB (1.5, 2.0) splits a path at each backslash, also where a backslash is part of a file's name.
    """
    return os.name == "nt" or "\\" not in path


def type_name(type_: dt.Type) -> str:
    """The DuckDB type in which values of `type_` leave the engine, spelled as DuckDB prints it.

    Variant is JSON text, geometry and geography are WKB bytes, and an instant in nanoseconds is TIMESTAMP_NS in UTC,
    because no DuckDB before 2.0 has a zoned nanosecond type.
    """
    match type_:
        case dt.BooleanType():
            return "BOOLEAN"
        case dt.IntegerType(bits=bits):
            return _INTEGERS[bits]
        case dt.UnsignedType(bits=bits):
            return "U" + _INTEGERS[bits]
        case dt.FloatType(bits=bits):
            return "DOUBLE" if bits == 64 else "FLOAT"
        case dt.DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case dt.DateType():
            return "DATE"
        case dt.TimeType():
            return "TIME"
        case dt.TimestampType(unit="ns"):
            return "TIMESTAMP_NS"
        case dt.TimestampType(utc=utc):
            return "TIMESTAMP WITH TIME ZONE" if utc else "TIMESTAMP"
        case dt.Int96Type():
            return "TIMESTAMP"
        case dt.StringType() | dt.VariantType():
            return "VARCHAR"
        case dt.UuidType():
            return "UUID"
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return "BLOB"
        case dt.UnknownType():
            return "INTEGER"
        case dt.StructType(fields=fields):
            return f"STRUCT({', '.join(f'{name(f.name)} {type_name(f.type)}' for f in fields)})"
        case dt.ListType(element=element):
            return f"{type_name(element.type)}[]"
        case dt.MapType(key=key, value=value):
            return f"MAP({type_name(key.type)}, {type_name(value.type)})"
        case dt.OpaqueType(text=unknown):
            message = f"Cannot read a column of type {unknown!r}: harness does not know the type; leave the column out"
            raise UnsupportedError(message, cause="UnsupportedType", rule="iceberg 1.22")


def literal(value: Any, type_: dt.Type) -> str:
    """A typed SQL expression for a value as internal values (see `harness.metadata.model.schema`)."""
    target = type_name(type_)
    if value is None:
        return f"CAST(NULL AS {target})"
    match type_:
        case dt.BooleanType():
            return "true" if value else "false"
        case dt.FloatType():
            number = float(value)
            infinite = "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
            return f"CAST('{number if math.isfinite(number) else infinite}' AS {target})"
        case dt.DecimalType():
            return f"CAST('{Decimal(value):f}' AS {target})"
        case dt.DateType():
            return f"(DATE '1970-01-01' + CAST({int(value)} AS INTEGER))"
        case dt.TimeType():
            return f"(TIME '00:00:00' + to_microseconds({int(value)}))"
        case dt.TimestampType(unit="ns"):
            return f"make_timestamp_ns({int(value)})"
        case dt.TimestampType(utc=True):
            return f"(make_timestamp({int(value)}) AT TIME ZONE 'UTC')"
        case dt.TimestampType():
            return f"make_timestamp({int(value)})"
        case dt.StringType():
            return text(value)
        case dt.UuidType():
            return f"CAST('{uuid.UUID(bytes=bytes(value))}' AS UUID)"
        case dt.FixedType() | dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return f"from_hex('{bytes(value).hex()}')"
        case dt.StructType(fields=fields):
            return struct({f.name: literal(value.get(f.id), f.type) for f in fields})
        case dt.ListType(element=element):
            items = ", ".join(literal(item, element.type) for item in value)
            return f"CAST([{items}] AS {target})"
        case dt.MapType(key=key, value=item):
            keys = ", ".join(literal(k, key.type) for k, _ in value)
            items = ", ".join(literal(v, item.type) for _, v in value)
            return f"CAST(map([{keys}], [{items}]) AS {target})"
        case _:
            return f"CAST({int(value)} AS {target})"


def struct(parts: dict[str, str]) -> str:
    """A struct expression of named parts."""
    return f"struct_pack({', '.join(f'{name(key)} := {part}' for key, part in parts.items())})"
