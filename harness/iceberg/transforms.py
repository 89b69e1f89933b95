"""Partition transforms: their names, results on stored-form values, and inclusive projections of predicates.

An inclusive projection turns a predicate on a source column into one on the partition value that is true for every
partition which may hold a matching row. It may be true for others; it must never be false for one that matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias, assert_never

from harness.errors import UnsupportedError
from harness.predicate import And, Comparison, Constant, In, IsNan, IsNull, Op, Or, Predicate, StartsWith, Undecided
from harness.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    IntegerType,
    OpaqueType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The source value itself."""

    def __str__(self) -> str:
        return "identity"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A hash of the source value, modulo `n`."""

    n: int

    def __str__(self) -> str:
        return f"bucket[{self.n}]"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Numbers rounded down to a multiple of `width` (of the unscaled value, for decimals), or the first `width` code
    points or bytes."""

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True)
class Year:
    """Years since 1970."""

    def __str__(self) -> str:
        return "year"


@dataclass(frozen=True, slots=True)
class Month:
    """Months since 1970-01."""

    def __str__(self) -> str:
        return "month"


@dataclass(frozen=True, slots=True)
class Day:
    """Days since 1970-01-01."""

    def __str__(self) -> str:
        return "day"


@dataclass(frozen=True, slots=True)
class Hour:
    """Hours since 1970-01-01T00."""

    def __str__(self) -> str:
        return "hour"


@dataclass(frozen=True, slots=True)
class Void:
    """Always null: a partition field that was removed."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class UnknownTransform:
    """A transform that harness does not know: it never prunes, its values still tell partitions apart (iceberg 3.10)."""

    text: str

    def __str__(self) -> str:
        return self.text


Transform: TypeAlias = Identity | Bucket | Truncate | Year | Month | Day | Hour | Void | UnknownTransform

_PARAMETRIC = re.compile(r"(bucket|truncate)\s*\[\s*(\d+)\s*\]", re.IGNORECASE)
_PLAIN: dict[str, Transform] = {
    "identity": Identity(),
    "year": Year(),
    "month": Month(),
    "day": Day(),
    "hour": Hour(),
    "void": Void(),
}


def parse_transform(text: str) -> Transform:
    """The transform called `text`, in any case; what is not in the specification is an `UnknownTransform`.

    Source: iceberg 3.10. A width or count of zero has no meaning, so it counts as unknown.
    """
    name = text.strip()
    match = _PARAMETRIC.fullmatch(name)
    if match is not None and int(match.group(2)) > 0:
        number = int(match.group(2))
        return Bucket(number) if match.group(1).lower() == "bucket" else Truncate(number)
    return _PLAIN.get(name.lower(), UnknownTransform(text))


def result_type(transform: Transform, source: Type | None) -> Type:
    """The type of the partition values; `source` None (the column was dropped) gives an opaque type where it matters.

    Source: iceberg 1.21, 3.8. `day` gives a date, as engines show it; its stored form is the same int.
    """
    match transform:
        case Identity() | Truncate() | Void():
            return OpaqueType(f"{transform} of a dropped column") if source is None else source
        case Bucket() | Year() | Month() | Hour():
            return IntegerType(32)
        case Day():
            return DateType()
        case UnknownTransform(text=text):
            return OpaqueType(text)
        case _:
            assert_never(transform)
