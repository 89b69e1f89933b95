"""Python values that stand for Arrow values, taken at their word: Arrow itself would round, cut and guess.

boolean bool · integers int · floats float, int · decimals Decimal, int · strings str · binary bytes · dates date ·
times time · timestamps datetime, with a zone exactly where the type has one · UUIDs uuid.UUID · structs a mapping of
all fields · lists a list or tuple · maps a mapping or pairs · null None
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (types.is_boolean, (bool,)),
    (types.is_integer, (int,)),
    (types.is_floating, (float, int)),
    (types.is_decimal, (Decimal, int)),
    (types.is_string, (str,)),
    (types.is_large_string, (str,)),
    (types.is_binary, (bytes,)),
    (types.is_large_binary, (bytes,)),
    (types.is_fixed_size_binary, (bytes,)),
    (types.is_date, (dt.date,)),
    (types.is_time, (dt.time,)),
    (types.is_timestamp, (dt.datetime,)),
    (types.is_struct, (Mapping,)),
    (types.is_list, (list, tuple)),
    (types.is_large_list, (list, tuple)),
    (types.is_fixed_size_list, (list, tuple)),
    (types.is_map, (Mapping, list, tuple)),
    (lambda type_: isinstance(type_, pa.UuidType), (uuid.UUID,)),
)
"""By kind of Arrow type: the Python types of its values."""
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def arrow_values(values: list[Any], type_: pa.DataType) -> pa.Array:
    """The values as an array of exactly this type.

    Raises:
        ValueError: a value is none of the type, or not exactly.
    """
    for value in values:
        _check(type_, value)
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _check(type_: pa.DataType, value: Any) -> None:
    if value is None:
        return
    kinds = next((kinds for fits, kinds in _KINDS if fits(type_)), (object,))
    odd = (isinstance(value, bool) and bool not in kinds) or (isinstance(value, dt.datetime) and dt.date in kinds)
    if not isinstance(value, kinds) or (odd and object not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"expected {wanted} for {type_}, got {value!r}")
    _check_time(type_, value)
    _check_nested(type_, value)


def _check_time(type_: pa.DataType, value: Any) -> None:
    if types.is_timestamp(type_) and (value.tzinfo is None) != (type_.tz is None):
        raise ValueError(f"expected {'no' if type_.tz is None else 'a'} zone for {type_}, got {value!r}")
    if types.is_timestamp(type_) or types.is_time(type_):
        nanos = value.microsecond * 1000 + getattr(value, "nanosecond", 0)  # pandas counts these
        if nanos % _NANOS[type_.unit]:
            raise ValueError(f"{value!r} has more digits than {type_}")


def _check_nested(type_: pa.DataType, value: Any) -> None:
    if types.is_struct(type_):
        names = [field.name for field in type_]
        if set(value) != set(names):
            raise ValueError(f"expected the fields {', '.join(names)}, got {value!r}")
        for field in type_:
            _check(field.type, value[field.name])
    elif types.is_map(type_):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            _check(type_.key_type, key)
            _check(type_.item_type, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(type_.value_type, item)
