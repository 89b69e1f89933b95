"""Lowers where a column comes from (`harness.plan.projection.Source`) to a DuckDB expression.

Structs, lists and maps are rebuilt by position where the file's names, order or types differ from the table's, because
DuckDB matches nested fields by name and would give NULL without a word after a rename. A NULL parent stays NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from harness.engines.shared import sqltext
from harness.engines.shared.sqltext import name
from harness.errors import SchemaMismatchError
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
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    children,
)
from harness.plan.projection import ColumnSource, PartitionValue, Stored, Value, is_identity


@dataclass(frozen=True, slots=True)
class Exposed:
    """A file's column as DuckDB shows it: its name (the second of `a`, `A` becomes `A_1`), type text and parts.

    oldest: SQL text of the least value that DuckDB reads right; older ones fail the query. None: all are right.
    """

    name: str
    type: str
    parts: tuple[Exposed, ...] = ()
    oldest: str | None = None


def exposed(label: str, duckdb_type: Any) -> Exposed:
    """The names under which DuckDB shows a column of `duckdb_type` (a DuckDBPyType) and its nested fields."""
    match duckdb_type.id:
        case "struct":
            parts = tuple(exposed(part, type_) for part, type_ in duckdb_type.children)
        case "list" | "array":
            child = next(type_ for part, type_ in duckdb_type.children if part == "child" or not isinstance(type_, int))
            parts = (exposed("element", child),)
        case "map":
            parts = tuple(exposed(part, type_) for part, type_ in duckdb_type.children)
        case _:
            parts = ()
    return Exposed(label, str(duckdb_type), parts)


def column(target: Field, source: ColumnSource, shown: Sequence[Exposed], constants: Mapping[int, str]) -> str:
    """The expression for one top-level column.

    Args:
        target: the logical field.
        source: where its values come from.
        shown: how DuckDB shows the file's top-level columns, in the file's order.
        constants: expression of the partition constant by source field id.
    """
    match source:
        case Stored(place=place):
            root = shown[place]
            return _value(target, source, root, f"f.{name(root.name)}", depth=0, constants=constants)
        case _:
            return _value(target, source, None, "", depth=0, constants=constants)


def _value(
    target: Field, source: ColumnSource, shown: Exposed | None, access: str, *, depth: int, constants: Mapping[int, str]
) -> str:
    match source:
        case Value(value=value):
            return sqltext.literal(value, target.type)
        case PartitionValue(field_id=field_id):
            return constants[field_id]
        case Stored(parts=parts):
            if shown is None:
                raise AssertionError("a stored field has a shown column")
            if not children(target.type):
                return cast(_checked(access, shown), shown.type, target.type)
            if is_identity(target, source) and _same_shape(target.type, shown):
                return access
            return _nested(target, parts, shown, access, depth=depth, constants=constants)
        case _:
            assert_never(source)


def _nested(
    target: Field,
    parts: Sequence[ColumnSource],
    shown: Exposed,
    access: str,
    *,
    depth: int,
    constants: Mapping[int, str],
) -> str:
    def part(field: Field, source: ColumnSource, accessor: str | None = None) -> str:
        place = shown.parts[source.place] if isinstance(source, Stored) else None
        if accessor is None:
            accessor = "" if place is None else f"struct_extract({access}, {sqltext.text(place.name)})"
        return _value(field, source, place, accessor, depth=depth + 1, constants=constants)

    item = f"x{depth}"
    match target.type:
        case StructType(fields=fields):
            built = sqltext.struct({f.name: part(f, s) for f, s in zip(fields, parts, strict=True)})
        case ListType(element=element):
            built = f"list_transform({access}, lambda {item}: {part(element, parts[0], item)})"
        case MapType(key=key, value=value):
            keys, values = part(key, parts[0], f"{item}.key"), part(value, parts[1], f"{item}.value")
            entry = sqltext.struct({"k": keys, "v": values})
            built = f"map_from_entries(list_transform(map_entries({access}), lambda {item}: {entry}))"
        case other:
            raise AssertionError(f"{other} is not nested")
    return f"CASE WHEN {access} IS NULL THEN NULL ELSE {built} END"


def _checked(access: str, shown: Exposed) -> str:
    """`access`, failing the query on a value that DuckDB would read wrong (delta T20)."""
    if shown.oldest is None:
        return access
    refusal = f"Column {shown.name} has a value before {shown.oldest} in the calendar of an old writer"
    local = f"({access} AT TIME ZONE 'UTC')" if shown.type == "TIMESTAMP WITH TIME ZONE" else access
    return f"CASE WHEN {local} < {shown.oldest} THEN error({sqltext.text(refusal)}) ELSE {access} END"


def _same_shape(type_: Type, shown: Exposed) -> bool:
    """Whether DuckDB shows a column with the very names and types of the table, at every level."""
    parts = children(type_)
    if not parts:
        return shown.type == sqltext.type_name(type_) and shown.oldest is None
    if isinstance(type_, StructType) and [f.name for f in parts] != [s.name for s in shown.parts]:
        return False
    return len(parts) == len(shown.parts) and all(
        _same_shape(f.type, s) for f, s in zip(parts, shown.parts, strict=True)
    )


def cast(access: str, shown: str, target: Type) -> str:
    """`access`, which DuckDB shows as type `shown`, as a value of `target` in the engine's type for it.

    No conversion depends on the session's time zone, rounds, or renders bytes as escapes.

    Raises:
        SchemaMismatchError: there is no exact conversion.
    """
    wanted = sqltext.type_name(target)
    if shown == wanted and not isinstance(target, GeometryType | GeographyType):
        return access
    match target:
        case StringType():
            return f"decode({access})" if shown == "BLOB" else f"CAST({access} AS VARCHAR)"
        case GeometryType() | GeographyType():  # in one form, however it is stored (frontier F1.6)
            return f"st_aswkb({access})" if shown.startswith("GEOMETRY") else f"st_aswkb(st_geomfromwkb({access}))"
        case BinaryType() | FixedType():
            return f"encode({access})"
        case UuidType():
            return f"CAST({f'hex({access})' if shown == 'BLOB' else access} AS UUID)"
        case DateType() if shown == "INTEGER":
            return f"(DATE '1970-01-01' + {access})"
        case TimeType() if shown == "BIGINT":
            return f"(TIME '00:00:00' + to_microseconds({access}))"
        case TimestampType():
            return _timestamp(access, shown, target)
        case BooleanType() | IntegerType() | FloatType() | DecimalType() | DateType() | TimeType():
            return f"CAST({access} AS {wanted})"
        case _:
            raise SchemaMismatchError(
                f"Cannot turn a stored {shown} into {target}", cause="IncompatibleType", rule="iceberg 5.12"
            )


def _timestamp(access: str, shown: str, target: TimestampType) -> str:
    """A timestamp of any stored unit and zone kind as `target`: the kind changes, the value does not (iceberg 6.8).

    DuckDB takes the outermost ints of dates and timestamps for infinities, which conversions would keep as such.
    """
    wanted = sqltext.type_name(target)
    if target.unit == "ns":
        match shown:
            case "BIGINT":
                return f"make_timestamp_ns({access})"
            case "TIMESTAMPTZ_NS":  # epoch_ns gives NULL for an infinity in DuckDB 2.0
                return f"coalesce(make_timestamp_ns(epoch_ns({access})), CAST({access} AS TIMESTAMP_NS))"
            case _:  # out-of-range micros raise in the cast (iceberg 6.10)
                micros = _timestamp(access, shown, TimestampType())
                return _finite(micros, f"CAST({micros} AS {wanted})")
    match shown:
        case "TIMESTAMP":
            local = access
        case "BIGINT":
            local = f"make_timestamp({access})"
        case "TIMESTAMP WITH TIME ZONE":
            local = f"({access} AT TIME ZONE 'UTC')"
        case "TIMESTAMP_NS" | "TIMESTAMPTZ_NS":  # floor, also before 1970; a cast rounds in DuckDB 1.5
            nanos = f"coalesce(epoch_ns({access}), CASE WHEN {access} IS NOT NULL THEN {_OUT_OF_RANGE} END)"
            local = f"make_timestamp(({nanos} - ({nanos} % 1000 + 1000) % 1000) // 1000)"
        case _:
            local = _finite(access, f"CAST({access} AS TIMESTAMP)")
    return f"({local} AT TIME ZONE 'UTC')" if target.utc else local


_OUT_OF_RANGE = "error('a date or timestamp is out of the range of the wider type')"


def _finite(access: str, converted: str) -> str:
    return f"CASE WHEN isinf({access}) THEN {_OUT_OF_RANGE} ELSE {converted} END"
