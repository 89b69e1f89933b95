"""Partition transforms on the writer's side: stored values in, stored partition values out.

Spec: Iceberg, "Partition Transforms" and "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

import re
from typing import Any

from harness.errors import RequestError
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from harness.testing.writing.iceberg.types import from_unscaled, minimal_bytes, unscaled

_MASK = 0xFFFFFFFF
_DAY_US = 86_400_000_000


def result_type(transform: str, source: Type) -> Type:
    """The type of the partition values; text for a transform that Iceberg does not define."""
    match _split(transform):
        case (("identity" | "void" | "truncate"), _):
            return source
        case "day", _:
            return DateType()
        case (("bucket" | "year" | "month" | "hour"), _):
            return IntegerType(32)
        case _:
            return StringType()


def transform_value(transform: str, source: Type, value: Any) -> Any:
    """The partition value of one stored value; null stays null.

    Raises:
        RequestError: the transform is not one of Iceberg's, or not for this type; give the partition explicitly.
    """
    name, argument = _split(transform)
    if value is None or name == "void":
        return None
    match name, source:
        case "identity", _:
            return value
        case "bucket", _:
            return (murmur3(_hashed(source, value)) & 0x7FFFFFFF) % argument
        case "truncate", DecimalType(scale=scale):
            number = unscaled(value, scale)
            return from_unscaled(number - number % argument, scale)
        case "truncate", IntegerType():
            return value - value % argument
        case "truncate", StringType() | BinaryType():
            return value[:argument]
        case (("year" | "month" | "day"), DateType()):
            return _calendar(name, value)
        case (("year" | "month" | "day" | "hour"), TimestampType(unit=unit)):
            micros = value // 1000 if unit == "ns" else value
            return micros // (_DAY_US // 24) if name == "hour" else _calendar(name, micros // _DAY_US)
        case _:
            raise RequestError(f"Cannot apply {transform} to {source}: name the partition value in `partition`")


def murmur3(data: bytes) -> int:
    """The 32-bit x86 Murmur3 hash with seed 0, as a signed integer."""
    state = 0
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        state ^= _scramble(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & _MASK
    state ^= _scramble(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _split(transform: str) -> tuple[str, int]:
    matched = re.fullmatch(r"(\w+)\[(\d+)\]", transform)
    return (matched[1], int(matched[2])) if matched is not None else (transform, 0)


def _scramble(word: int) -> int:
    return _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _hashed(source: Type, value: Any) -> bytes:
    match source:
        case IntegerType() | DateType() | TimeType():
            return int(value).to_bytes(8, "little", signed=True)
        case TimestampType(unit=unit):
            return int(value // 1000 if unit == "ns" else value).to_bytes(8, "little", signed=True)
        case DecimalType(scale=scale):
            return minimal_bytes(unscaled(value, scale))
        case StringType():
            return str(value).encode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(value)
        case _:
            raise RequestError(f"Cannot apply bucket to {source}: Iceberg does not hash this type")


def _calendar(name: str, days: int) -> int:
    """Years or months since 1970, or the days themselves, of a day that may lie outside of `datetime`'s years."""
    if name == "day":
        return days
    # Count from 0000-03-01 in cycles of 400 years, so that the leap day is the last of its year.
    cycle, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    month = (5 * (day - (365 * year + year // 4 - year // 100)) + 2) // 153
    months = (cycle * 400 + year) * 12 + month + 2 - 1970 * 12
    return months if name == "month" else months // 12
