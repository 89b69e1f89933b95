"""Values of every type, as scenarios write them, drawn from few so that keys collide.

`reasonable` ones look like data; `extreme` ones are where readers go wrong: ends of ranges, NaN and -0.0, empty and
long texts, signs beyond ASCII, years that calendars do not have. Both hold nulls, at every level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from harness.metadata.model import schema as dt

Variety: TypeAlias = Literal["reasonable", "extreme"]

_DAY_US = 86_400_000_000
_POINTS = ("0101000000000000000000f03f0000000000000040", "010100000000000000000000000000000000000080")
_DAYS = {"reasonable": (19_000, 19_001, 0, 18_262, -1), "extreme": (2_932_896, -719_162, -141_428, 2_932_897, -719_529)}
_MICROS = {
    "reasonable": (1_600_000_000_000_000, 0, 1_600_000_000_000_001, 1_600_086_400_000_000, -1),
    "extreme": (253_402_300_799_999_999, -62_135_596_800_000_000, -2_208_988_800_000_001, 225_000_000_000_000_000),
}
_NANOS = {"reasonable": (1_600_000_000_000_000_000, 0, 1, -1), "extreme": (2**63 - 10**10, -(2**63) + 10**10)}
_TEXTS = {
    "reasonable": ("a", "b", "", "ab", "A", "x'y", "naïve"),
    "extreme": (
        *("é漢字🦆", " ", "a" * 40, "a" * 40 + "b", "null", "NaN", "%_", "\\", "a\tb", "\u00e9", "e\u0301", "🦆" * 20),
    ),
}
_FLOATS = {
    "reasonable": (1.5, 0.0, -1.5, 2.0, 0.25),
    "extreme": (math.nan, -0.0, math.inf, -math.inf, 2.0**-126, -(2.0**100)),
}


@cache  # a strategy that is known is checked no more
def values(type_: dt.Type, variety: Variety = "extreme") -> st.SearchStrategy[Any]:
    """Values of a type that are not null themselves; inside lists, maps and structs nulls occur."""
    match type_:
        case dt.StructType(fields=fields):
            return st.fixed_dictionaries({f.name: field_values(f, variety) for f in fields})
        case dt.ListType(element=element):
            return st.lists(field_values(element, variety), max_size=3)
        case dt.MapType(key=key, value=value):
            pairs = st.tuples(values(key.type, variety), field_values(value, variety)).map(list)
            return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(pair[0]))
        case dt.UnknownType():
            return st.none()
        case _:
            return st.sampled_from(pool(type_, variety))


def field_values(field: dt.Field, variety: Variety = "extreme") -> st.SearchStrategy[Any]:
    """Values of a field, null among them unless it is required."""
    return values(field.type, variety) if field.required else _or_null(field.type, variety)


@cache
def _or_null(type_: dt.Type, variety: Variety) -> st.SearchStrategy[Any]:
    given = values(type_, variety)
    return st.one_of(given, given, given, st.none())


def rows(
    fields: Sequence[dt.Field], variety: Variety = "extreme", *, min_size: int = 1, max_size: int = 4
) -> st.SearchStrategy[list[list[Any]]]:
    """Rows as lists in the order of the fields."""
    row = st.tuples(*[field_values(f, variety) for f in fields]).map(list)
    return st.lists(row, min_size=min_size, max_size=max_size)


def pool(type_: dt.Type, variety: Variety) -> Sequence[Any]:
    """The values that a primitive type's are drawn from, simplest first; extreme ones come after reasonable ones."""
    usual, nasty = _pools(type_)
    return usual if variety == "reasonable" else (*usual, *nasty)


def _pools(type_: dt.Type) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    match type_:
        case dt.BooleanType():
            return (False, True), ()
        case dt.IntegerType(bits=bits):
            return (1, 2, 3, 0, -1), (2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
        case dt.FloatType():
            return _both(_FLOATS)
        case dt.DecimalType(precision=p, scale=s):
            return tuple(_decimal(u, s) for u in (100, 1, 0, -100)), tuple(
                _decimal(u, s) for u in (10**p - 1, 1 - 10**p)
            )
        case dt.DateType():
            return _both(_DAYS)
        case dt.TimeType():
            return (0, 43_200_000_000), (_DAY_US - 1, 1)
        case dt.TimestampType(unit="ns"):
            return _both(_NANOS)
        case dt.TimestampType():
            return _both(_MICROS)
        case dt.StringType():
            return _both(_TEXTS)
        case dt.UuidType():
            return tuple(f"{n:032x}" for n in (1, 2)), tuple(f"{n:032x}" for n in (2**128 - 1, 2**127, 0))
        case dt.FixedType(length=length):
            return ("00" * (length - 1) + "01", "61" * length), (
                "ff" * length,
                "00" * length,
                "80" + "00" * (length - 1),
            )
        case dt.BinaryType():
            return ("61", "", "6162"), ("00", "ff" * 20, "0000", "80")
        case dt.GeometryType():
            return _POINTS, ()
        case _:
            raise AssertionError(f"no values of {type_}")


def _both(pools: dict[str, tuple[Any, ...]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return pools["reasonable"], pools["extreme"]


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = "-" * (unscaled < 0), str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else f"{sign}{digits}"
