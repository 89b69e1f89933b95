"""Hash forms of columns, and hashes as DuckDB expressions.

A hash form defines which content of a value is hashed. It is chosen from the types of both sides, so that equal values
have equal hashes on both. It represents the values of `harness.diff.canonical`: integers and decimals by value, times
as a count of the coarser unit and a remainder, floats by the bits of the double, and text and bytes by their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, assert_never

import pyarrow as pa

from harness.diff.canonical import decode_array
from harness.diff.schemas import display_type, is_binary, is_hugeint, is_text, is_ticks, map_type, nanos, normal_type
from harness.engines.duckdb.instance import cursor
from harness.errors import UnsupportedError
from harness.metadata.model.arrow_values import can_rebuild, children_of, with_children


class Simple(Enum):
    """Hash forms without parameters."""

    NOTHING = "all values are null on both sides"
    WHOLE = "an integer or boolean, by its 64 bits"
    FLOAT = "a float, by the bits of the double of the same value; all NaNs are equal"
    BYTES = "text, bytes or a UUID, by bytes"


class Digits(Enum):
    """How many machine words hold the digits of a number when it is hashed."""

    NARROW = "narrow"  # up to 18 digits at the common scale: 64 bits
    WIDE = "wide"  # up to 38 digits at the common scale: 128 bits
    SPLIT = "split"  # more digits: the integer part, and the fraction at the common scale, 128 bits each


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or decimal, hashed as the unscaled integer at the larger scale of both sides."""

    scale: int
    digits: Digits


@dataclass(frozen=True, slots=True)
class Ticks:
    """A date, time, timestamp, or duration.

    Attributes:
        base: The coarser unit of both sides, in nanoseconds.
        split: True if the units of both sides differ. The count of base units and the remainder are then hashed
            separately, because a count of the finer unit could overflow.
    """

    base: int
    split: bool


@dataclass(frozen=True, slots=True)
class StructFields:
    """A struct. Its fields are sorted by name."""

    fields: tuple[tuple[str, HashForm], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    element: HashForm


@dataclass(frozen=True, slots=True)
class Entries:
    """A map. The order of its entries does not matter."""

    key: HashForm
    value: HashForm


HashForm: TypeAlias = Simple | Number | Ticks | StructFields | Items | Entries

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
INCOMPARABLE = "IncomparableType"
"""The cause of errors about a column type that cannot be compared. They are not failures of the side."""


def hash_form(left: pa.DataType, right: pa.DataType) -> HashForm:
    """Return the hash form of a column with these types, which `harness.diff.schemas` found comparable.

    Raises:
        UnsupportedError: Values of the type cannot be hashed, so that only small sides can be compared.
    """
    a, b = (normal_type(display_type(normal_type(type_))) for type_ in (left, right))
    kind = pa.types
    a, b = (b if kind.is_null(a) else a), (a if kind.is_null(b) else b)
    if kind.is_null(a):
        return Simple.NOTHING
    if kind.is_boolean(a):
        return Simple.WHOLE
    if kind.is_integer(a) or kind.is_decimal(a):
        return _number(a, b)
    if kind.is_floating(a):
        return Simple.FLOAT
    if is_text(a) or is_binary(a):
        return Simple.BYTES
    if is_ticks(a):
        units = nanos(a), nanos(b)
        return Ticks(max(units), units[0] != units[1])
    if kind.is_struct(a):
        names = sorted(field.name for field in a)
        return StructFields(tuple((name, hash_form(a.field(name).type, b.field(name).type)) for name in names))
    if kind.is_map(a):
        return Entries(hash_form(a.key_type, b.key_type), hash_form(a.item_type, b.item_type))
    if kind.is_list(a):
        return Items(hash_form(a.value_type, b.value_type))
    raise unhashable_error(a)


def incomparable_error(what: str, type_: object, *, column: str | None = None) -> UnsupportedError:
    """Return the error for a type whose values cannot be compared. It does not count as a failure of the side."""
    return UnsupportedError(
        f"Cannot compare {what} of type {type_}: cast it, or leave it out with columns=",
        cause=INCOMPARABLE,
        field=column,
        options=("columns",),
    )


def unhashable_error(type_: pa.DataType) -> UnsupportedError:
    """Return the error for a type whose values the engines cannot hash."""
    return incomparable_error("large inputs by values", type_)


def _number(a: pa.DataType, b: pa.DataType) -> HashForm:
    if pa.types.is_integer(a) and pa.types.is_integer(b) and (pa.types.is_uint64(a) == pa.types.is_uint64(b)):
        return Simple.WHOLE
    sizes = [digits_of(type_) for type_ in (a, b)]
    scale = max(scale for _, scale in sizes)
    width = max(whole for whole, _ in sizes) + scale
    digits = Digits.NARROW if width <= 18 else Digits.WIDE if width <= 38 else Digits.SPLIT
    return Number(scale, digits)


def digits_of(type_: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the decimal point."""
    if pa.types.is_decimal(type_):
        return type_.precision - type_.scale, max(type_.scale, 0)
    return _INTEGER_DIGITS[type_.bit_width], 0


_INTEGERS = (pa.types.is_date64, pa.types.is_time64, pa.types.is_timestamp, pa.types.is_duration)


def storage_type(type_: pa.DataType) -> pa.DataType:
    """Return the DuckDB type that holds values of `type_` without rounding.

    Instants in nanoseconds, and durations and dates in milliseconds, become integers, which have the same hashes as the
    times. Half floats become floats. Encodings (dictionaries, run ends, views) and extension types are removed.

    Raises:
        UnsupportedError: DuckDB has no type for the values.
    """
    return map_type(type_, _storage)


def _storage(type_: pa.DataType) -> pa.DataType:
    kind = pa.types
    if kind.is_union(type_) or kind.is_interval(type_) or is_hugeint(type_):
        raise unhashable_error(type_)
    if isinstance(type_, pa.BaseExtensionType):
        return storage_type(type_.storage_type)
    if any(test(type_) for test in _INTEGERS):
        return pa.int64()
    if kind.is_time32(type_):
        return pa.int32()
    if kind.is_float16(type_):
        return pa.float32()
    if is_binary(type_):
        return pa.binary()
    if kind.is_decimal(type_):
        precision = type_.precision - min(type_.scale, 0)
        if precision > 38:
            raise unhashable_error(type_)
        return pa.decimal128(precision, max(type_.scale, 0))
    return pa.string() if is_text(type_) else type_


def to_duckdb_types(rows: pa.Table) -> pa.Table:
    """Return the same rows in the types of `storage_type`.

    Raises:
        UnsupportedError: DuckDB has no type for a column.
    """
    columns = [
        pa.chunked_array([_to_duckdb_array(chunk) for chunk in column.chunks], storage_type(column.type))
        for column in rows.columns
    ]
    return pa.table(columns, schema=pa.schema([(f"c{i}", column.type) for i, column in enumerate(columns)]))


def _to_duckdb_array(array: pa.Array) -> pa.Array:
    array, target_type = decode_array(array), storage_type(array.type)
    if array.type.equals(target_type):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _to_duckdb_array(array.storage)
    if can_rebuild(target_type):
        return with_children(array, [_to_duckdb_array(child) for child in children_of(array)], target_type)
    return array.cast(target_type)


# A row's hash has two lanes of 64 bits, which are the same in every engine:
#
#     mix(x)       x ^= x >> 32; x *= 0xD6E8FEB86659FD93; x ^= x >> 32; x *= 0xD6E8FEB86659FD93; x ^= x >> 32
#     link(a, h)   mix(a ^ h)
#     chain(h...)  link(... link(link(seed of the lane, h0), h1) ...)
#
#     null         NULL
#     64 bits      mix(bits)
#     128 bits     mix(low) ^ mix(high); the second lane takes the negated number, because swapped words like those
#                  of 0 and -1 would otherwise be equal in both lanes
#     bytes        folded in words of 8 bytes; the second lane puts PREFIX before them, because two flips of a word's
#                  highest bit would otherwise go unnoticed
#     several      chain of the two numbers of a time or decimal, the fields of a struct, or the elements of a list and
#                  their count
#     map          chain of the sum of the entries' chains, and their count
#     row          chain of the columns, in blocks of BLOCK columns if there are more
#
# The mixing function is DuckDB's `hash`, the cheapest one in DuckDB; `has_expected_hashes` verifies it before use.
# `harness/engines/spark/java/RowHash.java` implements the same in Java. Lanes are added up per bucket, not XORed, so
# that a duplicated row does not cancel itself.


NULL = 0xBF58476D1CE4E5B9
SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
PREFIX = "x"
BLOCK = 48

_T = TypeVar("_T")
Lane: TypeAlias = Literal[0, 1]
LANES: tuple[Lane, Lane] = (0, 1)

_WHOLE = (0, 1, -1, 42, 2**63 - 1, -(2**63))
_TEXTS = ["0123456789abcdef0123456789abcdef-é漢"[:length] for length in (*range(18), 24, 31, 35)]
SAMPLES = (
    *(f"hash(NULL::{type_})" for type_ in ("BIGINT", "VARCHAR", "DECIMAL(38, 2)")),
    *(f"hash(CAST('{number}' AS BIGINT))" for number in _WHOLE),
    *(f"hash(CAST('{number & (1 << 64) - 1}' AS UBIGINT))" for number in _WHOLE),
    *(f"hash(CAST('{number}' AS HUGEINT))" for number in (0, -1, 12345678901234567890123, -(10**30))),
    *(f"hash(CAST('-1.25' AS DECIMAL({precision}, 2)))" for precision in (18, 38)),
    *(f"hash({time})" for time in ("make_timestamp(-77)", "make_timestamp_ns(-77)", "TIME '00:00:01'")),
    *(f"hash({text})" for value in _TEXTS for text in (f"'{value}'", f"encode('{value}')")),
)
_DIGEST = "c84a6f740bae65ad259a060317ec7cc2"
"""The digest of the expected hashes of `SAMPLES`."""


@cache
def has_expected_hashes() -> bool:
    """Return whether this DuckDB version computes the hashes that are defined above."""
    connection = cursor()
    ((answers,),) = connection.sql(f"SELECT [{', '.join(SAMPLES)}]").fetchall()
    connection.close()
    return hashlib.blake2b(repr(answers).encode(), digest_size=16).hexdigest() == _DIGEST


_NULL = f"{NULL}::UBIGINT"
_LEAST = "CAST('-170141183460469231731687303715884105728' AS HUGEINT)"
_NAN = "9221120237041090560"
_LOW = "18446744073709551615::HUGEINT"
DAYS = "({} - DATE '1970-01-01')"
"""SQL for the number of days of a date in DuckDB."""


@dataclass(frozen=True, slots=True)
class DuckDBValue:
    """A value to hash.

    Attributes:
        text: The SQL expression of the value.
        stored: The value's DuckDB type.
        logical: The value's meaning, for example a time if an integer counts a unit of time.
        form: The hash form.
        depth: The nesting depth, which numbers lambda variables.
    """

    text: str
    stored: Any
    logical: pa.DataType
    form: HashForm
    depth: int = field(default=0, compare=False)


def row_hashes(values: Sequence[DuckDBValue]) -> tuple[str, str]:
    """Return both lanes of a row's hash, as unsigned 64-bit expressions."""
    return both_lanes(lambda lane: [hash_of(value, lane) for value in values], _chain)


def both_lanes(hashes_of: Callable[[Lane], Sequence[_T]], chain: Callable[[Sequence[_T], Lane], _T]) -> tuple[_T, _T]:
    """Return both lanes of a row's hash as expressions of an engine. Many columns are combined in blocks."""
    lanes = []
    for lane in LANES:
        hashes = hashes_of(lane)
        blocks = [chain(hashes[i : i + BLOCK], lane) for i in range(0, len(hashes), BLOCK)]
        lanes.append(chain(blocks if len(blocks) > 1 else hashes, lane))
    return lanes[0], lanes[1]


def _chain(hashes: Sequence[str], lane: Lane) -> str:
    linked = f"{SEEDS[lane]}::UBIGINT"
    for value in hashes:
        linked = f"hash(xor({linked}, {value}))"
    return linked


def hash_of(value: DuckDBValue, lane: Lane) -> str:
    """Return one lane of a value's hash."""
    if value.stored.id == "null":
        return _NULL
    text = value.text
    match value.form:
        case Simple.NOTHING:
            return _NULL
        case Simple.WHOLE:
            return f"hash({text})" if value.stored.id in ("bigint", "ubigint") else f"hash(CAST({text} AS BIGINT))"
        case Number(scale=scale, digits=digits):
            return _hash_of_number(value, scale, digits, lane)
        case Ticks(split=False):
            counts = {"date": DAYS.format(text), "integer": f"CAST({text} AS BIGINT)"}  # whose hash is that of 64 bits
            return f"hash({counts.get(value.stored.id, text)})"
        case Ticks(base=base):
            return _split_ticks_hash(value, base, lane)
        case Simple.FLOAT:
            number = f"CAST({text} AS DOUBLE)"
            return f"hash(CASE WHEN isnan({number}) THEN {_NAN} ELSE CAST(CAST({number} AS BIT) AS BIGINT) END)"
        case Simple.BYTES:
            return _bytes_hash(value, lane)
        case StructFields() | Items() | Entries():
            return f"CASE WHEN {text} IS NULL THEN {_NULL} ELSE {_nested_hash(value, lane)} END"
        case other:
            assert_never(other)


def _hash_of_number(value: DuckDBValue, scale: int, digits: Digits, lane: Lane) -> str:
    match digits:
        case Digits.NARROW:
            return f"hash(CAST({value.text} AS DECIMAL(18, {scale})))"
        case Digits.WIDE:
            return _wide_hash(f"CAST({value.text} AS DECIMAL(38, {scale}))", lane)
        case Digits.SPLIT:
            if value.stored.id == "decimal":
                whole = f"CAST(trunc({value.text}) AS HUGEINT)"
                rest = f"CAST({value.text} - trunc({value.text}) AS DECIMAL(38, {scale}))"
            else:
                whole, rest = f"CAST({value.text} AS HUGEINT)", f"CAST(0 AS DECIMAL(38, {scale}))"
            signed = f"CASE WHEN {whole} = {_LEAST} THEN {_LEAST} ELSE -{whole} END" if lane else whole
            chain = _chain([f"hash({signed})", _wide_hash(rest, lane)], lane)
            return f"CASE WHEN {value.text} IS NULL THEN {_NULL} ELSE {chain} END"
        case other:
            assert_never(other)


def _wide_hash(text: str, lane: Lane) -> str:
    return f"hash(-{text})" if lane else f"hash({text})"


def _split_ticks_hash(value: DuckDBValue, base: int, lane: Lane) -> str:
    nanos_per_tick = nanos(value.logical)
    count, per_base = _stored_count(value, nanos_per_tick), base // nanos_per_tick
    rest = f"({count} % {per_base})"
    if per_base == 1:
        parts = [f"hash({count})", "hash(0::BIGINT)"]
    else:
        parts = [
            f"hash({count} // {per_base} - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)",
            f"hash({rest} + CASE WHEN {rest} < 0 THEN {per_base} ELSE 0 END)",
        ]
    return f"CASE WHEN {value.text} IS NULL THEN {_NULL} ELSE {_chain(parts, lane)} END"


def _stored_count(value: DuckDBValue, nanos_per_tick: int) -> str:
    """Return the SQL expression of the 64-bit integer that DuckDB stores for a time. Times may be infinite."""
    text, stored = value.text, value.stored.id
    if stored in ("bigint", "integer"):
        return f"CAST({text} AS BIGINT)"
    if stored == "date":
        return f"CAST({DAYS.format(text)} AS BIGINT)"
    unit = {1_000_000_000: "us", 1_000_000: "ms", 1_000: "us", 1: "ns"}[nanos_per_tick]
    finite = f"epoch_{unit}({text})" + (" // 1000000" if nanos_per_tick == 1_000_000_000 else "")
    if stored in ("time", "time_ns"):
        return finite
    past = f"{text} < CAST('1970-01-01' AS {value.stored})"
    most = 2**63 - 1
    return f"CASE WHEN isfinite({text}) THEN {finite} WHEN {past} THEN -{most} ELSE {most} END"


def _bytes_hash(value: DuckDBValue, lane: Lane) -> str:
    match value.stored.id:
        case "blob":
            text = value.text
        case "uuid":
            text = f"CAST({value.text} AS BLOB)"
        case "varchar" if isinstance(value.logical, pa.UuidType):
            text = f"CAST(CAST({value.text} AS UUID) AS BLOB)"
        case _:
            text = f"CAST({value.text} AS VARCHAR)"
            return f"hash('{PREFIX}' || {text})" if lane else f"hash({text})"
    return f"hash('{PREFIX}'::BLOB || {text})" if lane else f"hash({text})"


def field_values(value: DuckDBValue) -> dict[str, DuckDBValue]:
    """Return the struct fields in a value's form, by name."""
    assert isinstance(value.form, StructFields)
    result = {}
    for name, form in value.form.fields:
        place = value.logical.get_field_index(name)
        access, type_ = f"struct_extract_at({value.text}, {place + 1})", value.logical.field(place).type
        result[name] = DuckDBValue(access, child_type(value.stored, place), type_, form, value.depth)
    return result


def element_value(value: DuckDBValue, text: str) -> DuckDBValue:
    """Return an element of a list, given the element's SQL expression."""
    assert isinstance(value.form, Items)
    return DuckDBValue(text, child_type(value.stored, 0), value.logical.value_type, value.form.element, value.depth + 1)


def entry_values(value: DuckDBValue, key: str, item: str) -> tuple[DuckDBValue, DuckDBValue]:
    """Return the key and the value of a map entry, given their SQL expressions."""
    form, depth = value.form, value.depth + 1
    assert isinstance(form, Entries)
    return (
        DuckDBValue(key, child_type(value.stored, 0), value.logical.key_type, form.key, depth),
        DuckDBValue(item, child_type(value.stored, 1), value.logical.item_type, form.value, depth),
    )


def _nested_hash(value: DuckDBValue, lane: Lane) -> str:
    text, item = value.text, f"x{value.depth}"
    match value.form:
        case StructFields():
            return _chain([hash_of(part, lane) for part in field_values(value).values()], lane)
        case Items():
            each = f"list_transform({text}, lambda {item}: {hash_of(element_value(value, item), lane)})"
            folded = f"list_reduce({each}, lambda a, b: hash(xor(a, b)), {SEEDS[lane]}::UBIGINT)"
            return f"hash(xor({folded}, hash(CAST(len({text}) AS BIGINT))))"
        case Entries():
            entry = _chain([hash_of(part, lane) for part in entry_values(value, f"{item}.key", f"{item}.value")], lane)
            summed = f"list_sum(list_transform(map_entries({text}), lambda {item}: {entry}))"
            low = f"CAST(coalesce({summed}, 0) & {_LOW} AS UBIGINT)"
            return _chain([f"hash({low})", f"hash(CAST(cardinality({text}) AS BIGINT))"], lane)
        case other:
            raise AssertionError(f"{other} is not nested")


def child_type(stored: Any, place: int) -> object:
    """Return a child type of a nested DuckDB type.

    The index is 0 for a list's element, 0 for a map's key, 1 for a map's value, and the position of a struct field.
    """
    return stored.children[place][1]
