"""Values of every type in the form of scenarios, drawn from few so that keys collide.

The first values of a type look like data. The last values are those that readers often get wrong: ends of ranges, NaN
and -0.0, empty and long texts, non-ASCII characters, and years that calendars do not support. Nulls occur at every
level.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from drawn.strategies.types import Draw
from harness.metadata.model import schema as dt

_DAY_US = 86_400_000_000
_POINTS = ("0101000000000000000000f03f0000000000000040", "010100000000000000000000000000000000000080")
_DAYS = (19_000, 19_001, 0, 18_262, -1, 2_932_896, -719_162, -141_428, 2_932_897, -719_529)
_MICROS = (
    1_600_000_000_000_000,
    0,
    1_600_000_000_000_001,
    1_600_086_400_000_000,
    -1,
    253_402_300_799_999_999,
    -62_135_596_800_000_000,
    -2_208_988_800_000_001,
    225_000_000_000_000_000,
)
_NANOS = (1_600_000_000_000_000_000, 0, 1, -1, 2**63 - 10**10, -(2**63) + 10**10)
_TEXTS = (
    "a",
    "b",
    "",
    "ab",
    "A",
    "x'y",
    "naïve",
    "é漢字🦆",
    " ",
    "a" * 40,
    "a" * 40 + "b",
    "null",
    "NaN",
    "%_",
    "\\",
    "a\tb",
    "\u00e9",
    "e\u0301",
    "🦆" * 20,
)
USUAL_FLOATS = (1.5, 0.0, -1.5, 2.0, 0.25)
_ODD_FLOATS = (math.nan, -0.0, math.inf, -math.inf, 2.0**-126, -(2.0**100))


@cache  # Hypothesis does not validate a cached strategy again
def values(type_: dt.Type) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a type that are not null. Inside lists, maps, and structs, nulls occur."""
    match type_:
        case dt.StructType(fields=fields):
            return st.fixed_dictionaries({f.name: field_values(f) for f in fields})
        case dt.ListType(element=element):
            return st.lists(field_values(element), max_size=3)
        case dt.MapType(key=key, value=value):
            pairs = st.tuples(values(key.type), field_values(value)).map(list)
            return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(pair[0]))
        case dt.UnknownType():
            return st.none()
        case _:
            return st.sampled_from(pool(type_))


def field_values(field: dt.Field) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a field, including null unless it is required."""
    return values(field.type) if field.required else _or_null(field.type)


@cache
def _or_null(type_: dt.Type) -> st.SearchStrategy[Any]:
    given = values(type_)
    return st.one_of(given, given, given, st.none())


def rows(fields: Sequence[dt.Field], *, max_size: int) -> st.SearchStrategy[list[list[Any]]]:
    """Return a strategy for rows as lists in the order of the fields."""
    row = st.tuples(*[field_values(f) for f in fields]).map(list)
    return st.lists(row, min_size=1, max_size=max_size)


def changed_rows(draw: Draw, fields: Sequence[dt.Field], content: Sequence[list[Any]]) -> list[list[Any]]:
    """Draw which rows an update keeps, leaves out, or gives another value of one column."""
    changed = []
    for row in content:
        place = draw(st.integers(-2, len(fields)))
        if place < 0:
            changed.append(row)
        elif place < len(fields):
            changed.append([*row[:place], draw(field_values(fields[place])), *row[place + 1 :]])
    return changed


def pool(type_: dt.Type) -> Sequence[Any]:
    """Return the values that values of a primitive type are drawn from, simplest first."""
    match type_:
        case dt.BooleanType():
            return False, True
        case dt.IntegerType(bits=bits):
            return 1, 2, 3, 0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
        case dt.FloatType():
            return *USUAL_FLOATS, *_ODD_FLOATS
        case dt.DecimalType(precision=p, scale=s):
            return tuple(_decimal(u, s) for u in (100, 1, 0, -100, 10**p - 1, 1 - 10**p))
        case dt.DateType():
            return _DAYS
        case dt.TimeType():
            return 0, 43_200_000_000, _DAY_US - 1, 1
        case dt.TimestampType(unit=unit):
            return _NANOS if unit == "ns" else _MICROS
        case dt.StringType():
            return _TEXTS
        case dt.UuidType():
            return tuple(f"{n:032x}" for n in (1, 2, 2**128 - 1, 2**127, 0))
        case dt.FixedType(length=length):
            zeros = "00" * (length - 1)
            return f"{zeros}01", "61" * length, "ff" * length, f"{zeros}00", f"80{zeros}"
        case dt.BinaryType():
            return "61", "", "6162", "00", "ff" * 20, "0000", "80"
        case dt.GeometryType():
            return _POINTS
        case _:
            raise AssertionError(f"no values of {type_}")


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = "-" * (unscaled < 0), str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else f"{sign}{digits}"
