"""The differences of two Arrow schemas, and the columns whose rows can be compared.

Types are compared by their values, not by Arrow's layout. A large, view, dictionary-encoded, or run-end-encoded string
is a string, a decimal has no width, every list type is a list, and a time zone only says that values are instants.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from harness.diff.result import SchemaDifference, SchemaKind
from harness.errors import RequestError, UnsupportedError
from harness.metadata.model.arrow_values import is_list

_SAME_AS_STORAGE = ("arrow.uuid", "arrow.json", "ogc.wkb", "geoarrow.wkb", "geoarrow.wkt")
"""Extension types that other writers leave out. Their values are those of the storage type."""


class TypeRule(enum.Enum):
    """The rules for comparing values of different types. The values of the enum are the names in reports."""

    INTEGERS = "integer widths"
    DECIMALS = "decimal scale"
    FLOATS = "float widths"
    ROUNDING = "nearest float"  # a number compared with a float becomes the nearest float; only for whole columns
    TRUTH = "truth as number"  # true and false compared with an integer become 1 and 0; only for whole columns
    ZONES = "timestamp zone"  # a time without a zone is taken as UTC
    UNITS = "timestamp unit"


TypeRules: TypeAlias = frozenset[TypeRule]
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY = 86_400_000_000_000
_MOST_DIGITS = 38
"""The most digits of a decimal that every engine supports."""
_EXACT = (SchemaKind.TYPE, SchemaKind.RECONCILED, SchemaKind.NULLABLE, SchemaKind.ORDER)


def compare_schemas(
    left: pa.Schema, right: pa.Schema, *, by_value: bool = False
) -> tuple[tuple[SchemaDifference, ...], tuple[str, ...]]:
    """Return the differences, and the columns whose rows can be compared, both in the order of the left side.

    Columns are paired by name, with regard to case. A column is compared unless a part of it is only on one side, or
    cannot be compared. Parts are named by path: fields by name, `element` of a list, `key` and `value` of a map.

    Args:
        left: The left schema.
        right: The right schema.
        by_value: If True, types whose values can still be compared are reconciled. They are then reported with a
            rule and do not count as different.

    Raises:
        RequestError: Two columns or fields of one schema have the same name.
        UnsupportedError: A column holds a union.
    """
    for side, schema in (("left", left), ("right", right)):
        _check_fields(side, "", [field.with_type(display_type(field.type)) for field in schema])
    rules = frozenset(TypeRule) if by_value else frozenset()
    differences: list[SchemaDifference] = []
    common = []
    fields = [{field.name: [field] for field in schema} for schema in (left, right)]
    for name in dict.fromkeys([*left.names, *right.names]):
        a, b = (side_fields.get(name, ()) for side_fields in fields)
        result = list(_compare_fields("", a, b, rules))
        differences += result
        if all(difference.kind in _EXACT for difference in result):
            common.append(name)
    return (*differences, *_compare_order(left.names, right.names)), tuple(common)


def map_type(
    type_: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType], *, keep_required: bool = False
) -> pa.DataType:
    """Return a type without encodings, with `leaf` applied to all parts that have no parts themselves.

    Args:
        type_: The type.
        leaf: The function that replaces a type without parts.
        keep_required: If True, required parts stay required. Otherwise they become nullable, because Arrow cannot cast
            a null struct or list to a type with required parts.
    """
    kind = pa.types

    def part(field: pa.Field) -> pa.Field:
        new_field = field.with_type(map_type(field.type, leaf, keep_required=keep_required))
        return new_field if keep_required else new_field.with_nullable(True)

    if kind.is_dictionary(type_) or kind.is_run_end_encoded(type_):
        return map_type(type_.value_type, leaf, keep_required=keep_required)
    if isinstance(type_, pa.BaseExtensionType) and type_.extension_name == "arrow.bool8":
        return leaf(pa.bool_())
    if is_list(type_):
        return pa.list_(part(type_.value_field))
    if kind.is_map(type_):
        return pa.map_(part(type_.key_field).type, part(type_.item_field))
    if kind.is_struct(type_):
        return pa.struct([part(field) for field in type_])
    return leaf(type_)


def normal_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type that represents all encodings of the same values."""
    return map_type(type_, _normal, keep_required=True)


def _normal(type_: pa.DataType) -> pa.DataType:
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        if is_hugeint(type_):
            return pa.decimal256(39, 0)
        return normal_type(type_.storage_type) if type_.extension_name in _SAME_AS_STORAGE else type_
    if kind.is_decimal(type_):
        return pa.decimal256(type_.precision, type_.scale)
    if kind.is_timestamp(type_):
        return pa.timestamp(type_.unit, None if type_.tz is None else "UTC")
    return _display_leaf(type_)


def display_type(type_: pa.DataType) -> pa.DataType:
    """Return the type for showing values: without encodings, and without extension types except UUID."""
    return map_type(type_, _display_leaf)


def _display_leaf(type_: pa.DataType) -> pa.DataType:
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return type_ if isinstance(type_, pa.UuidType) else display_type(type_.storage_type)
    if is_text(type_):
        return pa.string()
    return pa.binary() if kind.is_large_binary(type_) or kind.is_binary_view(type_) else type_


def is_text(type_: pa.DataType) -> bool:
    """Return whether values are text, in any of Arrow's layouts."""
    kind = pa.types
    return bool(kind.is_string(type_) or kind.is_large_string(type_) or kind.is_string_view(type_))


def is_binary(type_: pa.DataType) -> bool:
    """Return whether values are bytes, in any of Arrow's layouts."""
    kind = pa.types
    is_variable = kind.is_binary(type_) or kind.is_large_binary(type_) or kind.is_binary_view(type_)
    return bool(is_variable or kind.is_fixed_size_binary(type_))


def is_ticks(type_: pa.DataType) -> bool:
    """Return whether values are counts of a unit of time."""
    kind = pa.types
    return bool(kind.is_date(type_) or kind.is_time(type_) or kind.is_timestamp(type_) or kind.is_duration(type_))


def nanos(type_: pa.DataType) -> int:
    """Return the unit of a date, time, timestamp, or duration, in nanoseconds."""
    if pa.types.is_date32(type_):
        return DAY
    return _UNITS["ms" if pa.types.is_date64(type_) else type_.unit]


def is_hugeint(type_: pa.DataType) -> bool:
    """Return whether values are DuckDB's 128-bit integers, which Arrow carries as 16 little-endian bytes."""
    return (
        isinstance(type_, pa.OpaqueType)
        and type_.vendor_name == "DuckDB"
        and type_.type_name in ("hugeint", "uhugeint")
    )


def conversion_type(type_: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type to which values are converted before they are compared with another type, or None.

    Numbers that every engine can round become floats if they are compared with floats. Booleans become integers if they
    are compared with integers.
    """
    kind = pa.types
    source, target = normal_type(type_), normal_type(other)
    if is_hugeint(type_) or is_hugeint(other):
        return None
    if kind.is_boolean(source) and kind.is_integer(target):
        return pa.int32()
    exact = kind.is_integer(source) or (kind.is_decimal(source) and source.precision <= _MOST_DIGITS)
    return target if exact and (kind.is_float32(target) or kind.is_float64(target)) else None


def _check_fields(side: str, path: str, fields: Sequence[pa.Field]) -> None:
    """Raise an error if two columns or fields have the same name, or if one is a union.

    Args:
        side: `left` or `right`, for messages.
        path: The path of the struct, or an empty text for columns.
        fields: The fields, in display types.
    """
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            what = f"fields of {path}" if path else "columns"
            raise RequestError(
                f"Cannot compare: the {side} side has {count} {what} named {name!r}; rename all but one",
                field=name,
            )
    for field in fields:
        where, type_ = f"{path}.{field.name}" if path else field.name, field.type
        if pa.types.is_union(type_):
            raise UnsupportedError(
                f"Cannot compare {where} on the {side} side: it is a union; cast it, or leave the column out",
                field=where,
            )
        if pa.types.is_struct(type_):
            _check_fields(side, where, list(type_))
        elif pa.types.is_map(type_):
            _check_fields(side, where, [pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
        elif pa.types.is_list(type_):
            _check_fields(side, where, [type_.value_field.with_name("element")])


def _compare_types(path: str, left: pa.Field, right: pa.Field, rules: TypeRules) -> Iterator[SchemaDifference]:
    if left.nullable != right.nullable:
        both = ["nullable" if field.nullable else "not nullable" for field in (left, right)]
        yield SchemaDifference(path, SchemaKind.NULLABLE, *both)
    a, b = normal_type(left.type), normal_type(right.type)
    kind = pa.types
    inner = rules - {TypeRule.ROUNDING, TypeRule.TRUTH}
    if kind.is_struct(a) and kind.is_struct(b):
        yield from _compare_fields(f"{path}.", a, b, inner)
    elif kind.is_map(a) and kind.is_map(b):
        yield from _compare_types(f"{path}.key", a.key_field, b.key_field, inner)
        yield from _compare_types(f"{path}.value", a.item_field, b.item_field, inner)
    elif kind.is_list(a) and kind.is_list(b):
        yield from _compare_types(f"{path}.element", a.value_field, b.value_field, inner)
    elif not a.equals(b):
        rule = _type_rule(a, b)
        if rule is not None and rule in rules:
            scales = [type_.scale if kind.is_decimal(type_) else 0 for type_ in (a, b)]
            words = "decimal precision" if rule is TypeRule.DECIMALS and scales[0] == scales[1] else rule.value
            yield SchemaDifference(path, SchemaKind.RECONCILED, str(left.type), str(right.type), words)
            return
        family = _family(a)
        is_comparable = kind.is_null(a) or kind.is_null(b) or (family is not None and family == _family(b))
        differs = SchemaKind.TYPE if is_comparable else SchemaKind.INCOMPARABLE
        yield SchemaDifference(path, differs, str(left.type), str(right.type))


def _type_rule(left: pa.DataType, right: pa.DataType) -> TypeRule | None:
    """Return the rule for comparing values of two different normal types, or None if they cannot be compared."""
    kind = pa.types
    if kind.is_integer(left) and kind.is_integer(right):
        return TypeRule.INTEGERS
    if all(kind.is_integer(type_) or kind.is_decimal(type_) for type_ in (left, right)):
        return TypeRule.DECIMALS
    if kind.is_floating(left) and kind.is_floating(right):
        return TypeRule.FLOATS
    conversion = conversion_type(left, right) or conversion_type(right, left)
    if conversion is not None:
        return TypeRule.ROUNDING if kind.is_floating(conversion) else TypeRule.TRUTH
    if kind.is_timestamp(left) and kind.is_timestamp(right):
        return TypeRule.UNITS if (left.tz is None) == (right.tz is None) else TypeRule.ZONES
    unit_tests = (kind.is_time, kind.is_date, kind.is_duration)
    return TypeRule.UNITS if any(test(left) and test(right) for test in unit_tests) else None


def _compare_fields(
    prefix: str, left: Iterable[pa.Field], right: Iterable[pa.Field], rules: TypeRules
) -> Iterator[SchemaDifference]:
    """Yield the differences of columns or fields, in the order of the left side, then fields only on the right."""
    lefts, rights = ({field.name: field for field in side} for side in (left, right))
    for name, field in lefts.items():
        if name in rights:
            yield from _compare_types(f"{prefix}{name}", field, rights[name], rules)
        else:
            yield SchemaDifference(f"{prefix}{name}", SchemaKind.ONLY_LEFT, str(field.type), None)
    for name, field in rights.items():
        if name not in lefts:
            yield SchemaDifference(f"{prefix}{name}", SchemaKind.ONLY_RIGHT, None, str(field.type))


def _compare_order(left: Sequence[str], right: Sequence[str]) -> Iterator[SchemaDifference]:
    """Yield the shared columns whose order differs. Their positions count from 1 among all columns of the side."""
    numbers = [{name: str(number) for number, name in enumerate(side, 1)} for side in (left, right)]
    shared_left = [name for name in left if name in numbers[1]]
    shared_right = [name for name in right if name in numbers[0]]
    for name, other in zip(shared_left, shared_right, strict=True):
        if name != other:
            yield SchemaDifference(name, SchemaKind.ORDER, *(positions[name] for positions in numbers))


def _family(type_: pa.DataType) -> str | None:
    """Return the family of types whose values can be compared with a type, or None if only the same type can."""
    if isinstance(type_, pa.BaseExtensionType):
        return _family(normal_type(type_.storage_type))
    kind = pa.types
    if kind.is_timestamp(type_):
        return "wall-clock time" if type_.tz is None else "instant"
    families = {
        "number": (kind.is_integer, kind.is_decimal),
        "float": (kind.is_floating,),
        "text": (kind.is_string,),
        "bytes": (kind.is_binary, kind.is_fixed_size_binary),
        "date": (kind.is_date,),
        "time": (kind.is_time,),
        "duration": (kind.is_duration,),
    }
    return next((family for family, tests in families.items() if any(test(type_) for test in tests)), None)
