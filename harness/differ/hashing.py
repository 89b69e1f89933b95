"""Hashes as DuckDB expressions, for values in any of DuckDB's types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, assert_never

import pyarrow as pa

from harness.differ import forms
from harness.differ.schemas import nanos
from harness.engines.duckdb.instance import cursor

# The hash of a row: two lanes of 64 bits, the same in every engine.
#
#     mix(x)       x ^= x >> 32; x *= MULTIPLIER; x ^= x >> 32; x *= MULTIPLIER; x ^= x >> 32
#     link(a, h)   mix(a ^ h)
#     chain(h...)  link(... link(link(seed of the lane, h0), h1) ...)
#
#     null         NULL
#     64 bits      mix(bits)
#     128 bits     mix(low) ^ mix(high); in the second lane of the negated number, or a number and the one whose words
#                  are swapped, such as 0 and -1, would be equal in both
#     bytes        folded in words of 8; in the second lane with PREFIX before them, or two flips of a word's highest
#                  bit would go unseen
#     several      chain: two numbers of a time or decimal, the fields of a struct, the elements of a list and their
#                  count
#     map          chain: the sum of the entries' chains, and their count
#     row          chain of the columns, by blocks of BLOCK columns where there are more
#
# The function is DuckDB's `hash`, the cheapest that DuckDB has; `is_known` verifies it before it is relied on.
# `harness/engines/spark/java/RowHash.java` says the same in Java. Both lanes are summed as whole numbers per bucket:
# unlike with XOR, a row twice is not a row less.


MULTIPLIER = 0xD6E8FEB86659FD93
NULL = 0xBF58476D1CE4E5B9
SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
PREFIX = "x"
BLOCK = 48

_T = TypeVar("_T")
Lane: TypeAlias = Literal[0, 1]
LANES: tuple[Lane, Lane] = (0, 1)

_MASK = (1 << 64) - 1
_BYTES_START = 0xE17A1465
_BYTES_LENGTH = 0xC6A4A7935BD1E995
_LONGER = "0123456789abcdef0123456789abcdef-é漢"


def mix(word: int) -> int:
    """64 bits, spread; a bijection."""
    word &= _MASK
    word ^= word >> 32
    word = word * MULTIPLIER & _MASK
    word ^= word >> 32
    word = word * MULTIPLIER & _MASK
    return word ^ word >> 32


def hash_bytes(value: bytes) -> int:
    """The hash of bytes in the first lane."""
    word = _BYTES_START ^ (len(value) * _BYTES_LENGTH & _MASK)
    for start in range(0, len(value), 8):
        word = (word ^ int.from_bytes(value[start : start + 8], "little")) * MULTIPLIER & _MASK
    return mix(word)


@cache
def is_known() -> bool:
    """Tells whether this DuckDB hashes as defined above."""
    connection = cursor()
    ((answers,),) = connection.sql(f"SELECT [{', '.join(_samples())}]").fetchall()
    connection.close()
    return list(answers) == list(_samples().values())


def _samples() -> dict[str, int]:
    """The hashes that DuckDB must give for these expressions."""
    samples = {"hash(NULL::BIGINT)": NULL, "hash(NULL::VARCHAR)": NULL, "hash(NULL::DECIMAL(38, 2))": NULL}
    for number in (0, 1, -1, 42, 2**63 - 1, -(2**63)):
        samples[f"hash(CAST('{number}' AS BIGINT))"] = mix(number)
        samples[f"hash(CAST('{number & _MASK}' AS UBIGINT))"] = mix(number)
    for number in (0, -1, 12345678901234567890123, -(10**30)):
        samples[f"hash(CAST('{number}' AS HUGEINT))"] = mix(number) ^ mix(number >> 64)
    samples["hash(CAST('-1.25' AS DECIMAL(18, 2)))"] = mix(-125)
    samples["hash(CAST('-1.25' AS DECIMAL(38, 2)))"] = mix(-125) ^ mix(-1)
    samples["hash(make_timestamp(-77))"] = mix(-77)
    samples["hash(make_timestamp_ns(-77))"] = mix(-77)
    samples["hash(TIME '00:00:01')"] = mix(1_000_000)
    for length in (*range(18), 24, 31, len(_LONGER)):
        value = _LONGER[:length]
        samples[f"hash('{value}')"] = hash_bytes(value.encode())
        samples[f"hash(encode('{value}'))"] = hash_bytes(value.encode())
    return samples


_NULL = f"{NULL}::UBIGINT"
_LEAST = "CAST('-170141183460469231731687303715884105728' AS HUGEINT)"
_NAN = "9221120237041090560"
_LOW = "18446744073709551615::HUGEINT"
DAYS = "({} - DATE '1970-01-01')"
"""The days of a date, in DuckDB."""


@dataclass(frozen=True, slots=True)
class DuckDBValue:
    """A value to hash.

    text: its expression. stored: its DuckDB type. logical: its meaning, where an integer counts a unit of time.
    """

    text: str
    stored: Any
    logical: pa.DataType
    form: forms.HashForm
    depth: int = field(default=0, compare=False)


def row_hashes(values: Sequence[DuckDBValue]) -> tuple[str, str]:
    """Both lanes of the hash of a row, as unsigned 64-bit expressions."""
    return both_lanes(lambda lane: [hash_of(value, lane) for value in values], _chain)


def both_lanes(hashes_of: Callable[[Lane], Sequence[_T]], chain: Callable[[Sequence[_T], Lane], _T]) -> tuple[_T, _T]:
    """Both lanes of the hash of a row, in an engine's own expressions: the chain of its columns, by blocks if many."""
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
    """A lane of the hash of a value."""
    if value.stored.id == "null":
        return _NULL
    text = value.text
    match value.form:
        case forms.Simple.NOTHING:
            return _NULL
        case forms.Simple.WHOLE:
            return f"hash({text})" if value.stored.id in ("bigint", "ubigint") else f"hash(CAST({text} AS BIGINT))"
        case forms.Number(scale=scale, digits=digits):
            return _number(value, scale, digits, lane)
        case forms.Ticks(split=False):
            counts = {"date": DAYS.format(text), "integer": f"CAST({text} AS BIGINT)"}  # whose hash is that of 64 bits
            return f"hash({counts.get(value.stored.id, text)})"
        case forms.Ticks(base=base):
            return _split_ticks(value, base, lane)
        case forms.Float(signed_zeros=zeros):
            number = f"CAST({text} AS DOUBLE)"
            zero = f"WHEN {number} = 0 THEN 0 " if zeros == "equal" else ""
            return f"hash(CASE WHEN isnan({number}) THEN {_NAN} {zero}ELSE CAST(CAST({number} AS BIT) AS BIGINT) END)"
        case forms.Simple.BYTES:
            return _bytes(value, lane)
        case forms.StructFields() | forms.Items() | forms.Entries():
            return f"CASE WHEN {text} IS NULL THEN {_NULL} ELSE {_nested(value, lane)} END"
        case other:
            assert_never(other)


def _number(value: DuckDBValue, scale: int, digits: forms.Digits, lane: Lane) -> str:
    match digits:
        case forms.Digits.NARROW:
            return f"hash(CAST({value.text} AS DECIMAL(18, {scale})))"
        case forms.Digits.WIDE:
            return _wide(f"CAST({value.text} AS DECIMAL(38, {scale}))", lane)
        case forms.Digits.SPLIT:
            if value.stored.id == "decimal":
                whole = f"CAST(trunc({value.text}) AS HUGEINT)"
                rest = f"CAST({value.text} - trunc({value.text}) AS DECIMAL(38, {scale}))"
            else:
                whole, rest = f"CAST({value.text} AS HUGEINT)", f"CAST(0 AS DECIMAL(38, {scale}))"
            signed = f"CASE WHEN {whole} = {_LEAST} THEN {_LEAST} ELSE -{whole} END" if lane else whole
            chain = _chain([f"hash({signed})", _wide(rest, lane)], lane)
            return f"CASE WHEN {value.text} IS NULL THEN {_NULL} ELSE {chain} END"
        case other:
            assert_never(other)


def _wide(text: str, lane: Lane) -> str:
    return f"hash(-{text})" if lane else f"hash({text})"


def _split_ticks(value: DuckDBValue, base: int, lane: Lane) -> str:
    own = nanos(value.logical)
    count, per_base = _count(value, own), base // own
    rest = f"({count} % {per_base})"
    if per_base == 1:
        parts = [f"hash({count})", "hash(0::BIGINT)"]
    else:
        parts = [
            f"hash({count} // {per_base} - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)",
            f"hash({rest} + CASE WHEN {rest} < 0 THEN {per_base} ELSE 0 END)",
        ]
    return f"CASE WHEN {value.text} IS NULL THEN {_NULL} ELSE {_chain(parts, lane)} END"


def _count(value: DuckDBValue, own: int) -> str:
    """The 64-bit integer that DuckDB stores; infinite times have no epoch, but the integer that Arrow shows."""
    text, stored = value.text, value.stored.id
    if stored in ("bigint", "integer"):
        return f"CAST({text} AS BIGINT)"
    if stored == "date":
        return f"CAST({DAYS.format(text)} AS BIGINT)"
    unit = {1_000_000_000: "us", 1_000_000: "ms", 1_000: "us", 1: "ns"}[own]
    finite = f"epoch_{unit}({text})" + (" // 1000000" if own == 1_000_000_000 else "")
    if stored in ("time", "time_ns"):
        return finite
    past = f"{text} < CAST('1970-01-01' AS {value.stored})"
    most = 2**63 - 1
    return f"CASE WHEN isfinite({text}) THEN {finite} WHEN {past} THEN -{most} ELSE {most} END"


def _bytes(value: DuckDBValue, lane: Lane) -> str:
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


def _nested(value: DuckDBValue, lane: Lane) -> str:
    text, item = value.text, f"x{value.depth}"
    match value.form:
        case forms.StructFields(fields=fields):
            hashes = []
            for name, form in fields:
                place = value.logical.get_field_index(name)
                access, type_ = f"struct_extract_at({text}, {place + 1})", value.logical.field(place).type
                hashes.append(hash_of(DuckDBValue(access, child(value.stored, place), type_, form, value.depth), lane))
            return _chain(hashes, lane)
        case forms.Items(element=element):
            part = DuckDBValue(item, child(value.stored, 0), value.logical.value_type, element, value.depth + 1)
            each = f"list_transform({text}, lambda {item}: {hash_of(part, lane)})"
            folded = f"list_reduce({each}, lambda a, b: hash(xor(a, b)), {SEEDS[lane]}::UBIGINT)"
            return f"hash(xor({folded}, hash(CAST(len({text}) AS BIGINT))))"
        case forms.Entries(key=key, value=held):
            parts = [
                DuckDBValue(f"{item}.key", child(value.stored, 0), value.logical.key_type, key, value.depth + 1),
                DuckDBValue(f"{item}.value", child(value.stored, 1), value.logical.item_type, held, value.depth + 1),
            ]
            entry = _chain([hash_of(part, lane) for part in parts], lane)
            summed = f"list_sum(list_transform(map_entries({text}), lambda {item}: {entry}))"
            low = f"CAST(coalesce({summed}, 0) & {_LOW} AS UBIGINT)"
            return _chain([f"hash({low})", f"hash(CAST(cardinality({text}) AS BIGINT))"], lane)
        case other:
            raise AssertionError(f"{other} is not nested")


def child(stored: Any, place: int) -> Any:
    """The type of a part of a nested DuckDB type: an element, a map's key (0) or value (1), a field by place."""
    return stored.children[place][1]
