"""Names, types, and values as text of DuckDB's SQL: exact parsing and writing. Only this module quotes SQL."""

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
    """Raise RequestError if a text cannot be encoded as UTF-8, for example command arguments in another encoding."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"Cannot parse the {what}: character {error.start + 1} is half of a character, {sql[error.start]!a}; "
            "write it in UTF-8"
        ) from None


def parse_integer(text: str) -> int | None:
    """Parse an integer in plain digits; None for other texts."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,38}", text) else None


def whole_number(text: str) -> int | None:
    """Parse an integer that consists of digits only; None for other texts, and if no type has so many digits."""
    return int(text) if re.fullmatch(r"[0-9]{1,38}", text) else None


def parse_decimal(text: str) -> Decimal | None:
    """Parse a number in plain digits with a decimal point exactly; None for other texts."""
    return Decimal(text) if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text) else None


def parse_float(text: str) -> float | None:
    """Parse a number as the nearest double, an infinity, or NaN; None for other texts."""
    if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?([eE][+-]?[0-9]{1,2})?|nan|NaN|-?inf|-?Infinity|-?infinity", text):
        return float(text)
    return None


def parse_date(text: str) -> int | None:
    """Parse a date to days since 1970-01-01; None for other texts, and outside the years 1 to 9999."""
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
    """Parse a timestamp without a zone to nanoseconds since 1970-01-01; None for other texts.

    Args:
        text: The text, without an offset.
        digits: The maximum number of digits after the second's decimal point.
    """
    match = _TIMESTAMP.fullmatch(text)
    return None if match is None or match[4] is not None else _nanoseconds(match, digits)


def parse_instant(text: str, *, digits: int) -> int | None:
    """Parse an instant to nanoseconds since 1970-01-01 UTC; None for other texts.

    A text without an offset is in UTC, like the sessions of engines. `digits` is as for `parse_timestamp`.
    """
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
    """Parse a time of day to nanoseconds since midnight; None for other texts."""
    match = re.fullmatch(r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?", text)
    return None if match is None else _time_of_day(match[1], match[2] or "", 6)


def _time_of_day(clock: str, fraction: str, digits: int) -> int | None:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > digits:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0"))


def parse_uuid(text: str) -> bytes | None:
    """Parse a UUID in its usual form to 16 bytes; None for other texts."""
    return uuid.UUID(text).bytes if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) else None


def parse_bytes(text: str) -> bytes | None:
    r"""Parse DuckDB's text form of a BLOB (ASCII, with other bytes as \xAA); None for other texts."""
    if not re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return None
    return re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), text.encode())


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """The column to which a path of names refers.

    Attributes:
        fields: The fields from the top-level column down.
        rest: Names inside a metadata column, whose fields differ between tables.
    """

    fields: tuple[dt.Field, ...]
    rest: tuple[str, ...] = ()

    @property
    def leaf(self) -> dt.Field | None:
        """The innermost field; None inside a metadata column."""
        return None if self.rest else self.fields[-1]

    def sql(self) -> str:
        """Return the reference in DuckDB's dialect.

        It is in parentheses, so that DuckDB does not read the name of a struct as the name of a table.
        """
        first, *others = (*(f.name for f in self.fields), *self.rest)
        return ".".join((f"({quoted(first)})", *(quoted(n) for n in others))) if others else quoted(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """The names of one schema.

    Attributes:
        schema: The schema.
        table: A table name that may precede column names.
        is_condition: True if literals may occur among the names. Error messages then mention quotes.
    """

    schema: dt.Schema
    table: str | None
    is_condition: bool = False

    def resolve(self, names: tuple[str, ...]) -> ResolvedPath:
        """Return the column to which a path of names refers.

        Raises:
            UnknownColumnError: No column, or more than one, has the name.
        """
        path = self._descend(names)
        is_qualified = self.table is not None and len(names) > 1 and names[0].casefold() == self.table.casefold()
        if path is None and is_qualified:
            path = self._descend(names[1:])
        if path is None:
            raise self._unknown(names)
        return path

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
        candidates = [f for f in fields if f.name.casefold() == name.casefold()]
        exact = [f for f in candidates if f.name == name]
        matches = exact or candidates
        if len(matches) > 1:
            names = ", ".join(f'"{f.name}"' for f in matches)
            message = f'Column "{name}" is ambiguous: it matches {names}. Use the exact spelling and letter case.'
            raise UnknownColumnError(message, field=name, cause="AmbiguousColumn", rule="iceberg 5.21")
        return matches[0] if matches else None

    def _unknown(self, names: tuple[str, ...]) -> UnknownColumnError:
        import difflib  # only needed if a name is not found

        full_name = ".".join(names)
        column_names = {".".join(path): None for path, _ in dt.walk(self.schema.fields)} | dict.fromkeys(dt.METADATA)
        folded = {name.casefold(): name for name in column_names}
        similar_names = [folded[n] for n in difflib.get_close_matches(full_name.casefold(), folded, n=3)]
        hint = (
            f"did you mean {' or '.join(similar_names)}?"
            if similar_names
            else f"the table has {', '.join(self.schema.names()[:20])}"
        )
        if self.is_condition and not similar_names and len(names) == 1:
            hint += f"; write a text in single quotes, '{full_name}'"
        if full_name in column_names:
            hint = f"did you mean the field {full_name}, without quotes around the whole?"
        return UnknownColumnError(f'Unknown column "{full_name}": {hint}', field=full_name)


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def bind_columns(names: Sequence[str], schema: dt.Schema) -> tuple[dt.Field, ...]:
    """Return the fields with the given names, from the schema or the metadata columns, in that order.

    A name is a whole top-level name: `a.b` is a column with a dot in its name. Spelling and case are handled as in
    `parse_filter`.

    Args:
        names: The names.
        schema: The schema of the table.

    Raises:
        UnknownColumnError: No column, or more than one, has a name.
        RequestError: A column is named twice.
    """
    bound = tuple(ColumnNames(schema=schema, table=None).resolve((name,)).fields[0] for name in names)
    twice = next((f.name for i, f in enumerate(bound) if f in bound[:i]), None)
    if twice is not None:
        raise RequestError(f"Invalid columns: {twice!r} is named twice", field=twice)
    return bound


_GLOB = re.compile(r"[\[*?]")
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}


def name(identifier: str) -> str:
    """Return a quoted identifier. Raises UnsupportedError if it is empty, because DuckDB has no empty names."""
    if identifier == "":
        message = (
            "Cannot name a column or struct field '' in DuckDB, which has no empty names: leave the column out, or "
            "read a top-level one with to_arrow()"
        )
        raise UnsupportedError(message, cause="UnsupportedName", rule="iceberg 5.21")
    return quoted(identifier)


def text(value: str) -> str:
    """Return a string literal. A text with NUL, which SQL text cannot contain, is encoded as bytes."""
    if "\0" in value:
        return f"decode(from_hex('{value.encode().hex()}'))"
    return "'" + value.replace("'", "''") + "'"


def escape_glob(path: str) -> str:
    """Return `path` escaped for `read_parquet([…])`, which reads its items as globs."""
    return _GLOB.sub(r"[\g<0>]", path)


def opens_in_duckdb(path: str) -> bool:
    """Return whether DuckDB can open a local file by its path.

    DuckDB (1.5, 2.0) splits a path at each backslash, even if the backslash is part of a file name.
    """
    return os.name == "nt" or "\\" not in path


def type_name(type_: dt.Type) -> str:
    """Return the DuckDB type of the values that the engine returns for a type, spelled as DuckDB prints it.

    A variant is JSON text, geometry and geography are WKB bytes, and an instant in nanoseconds is TIMESTAMP_NS in UTC,
    because DuckDB before 2.0 has no zoned nanosecond type.
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
    """Return a typed SQL expression for an internal value (see `harness.metadata.model.schema`)."""
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
    """Return a struct expression with the given parts by name."""
    return f"struct_pack({', '.join(f'{name(key)} := {part}' for key, part in parts.items())})"
