"""A canonical text for each value, the same from every engine, so that equal tables have equal sorted lines.

    null                      ~
    boolean                   true, false
    integer, decimal          decimal digits, no exponent, no trailing zeros: 1 and 1.00 are both `1`
    float                     the shortest text that reads back, at the float's own width; nan, inf, -inf, -0.0
    string                    JSON string
    binary, fixed, uuid       x'hex', lower case
    date                      d<days since 1970-01-01>
    timestamp                 ts<microseconds since 1970-01-01, UTC>, and .nnn for further nanoseconds
    time, duration            t<microseconds>, dur<microseconds>, with .nnn likewise
    list                      [a,b]
    struct                    <name:value,…>, by name
    map                       {key:value,…}, sorted; a list of struct<key, value> is a map

A row is its values in the order of the column names, joined by U+001F. A table is its sorted rows.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

SEPARATOR = "\x1f"
NULL = "~"
FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


@dataclass(frozen=True, slots=True)
class CanonicalTable:
    """A table as canonical text.

    Attributes:
        names: The sorted column names.
        rows: The sorted canonical rows.
    """

    names: tuple[str, ...]
    rows: tuple[str, ...]

    def hash(self) -> str:
        """Return 24 hex digits that identify the names and rows."""
        text = SEPARATOR.join(self.names) + "\n" + "\n".join(self.rows)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def canonical_table(table: pa.Table) -> CanonicalTable:
    order = sorted(range(table.num_columns), key=lambda i: (table.column_names[i], i))
    columns = [canonical_values(table.column(i)) for i in order]
    rows = sorted(map(SEPARATOR.join, zip(*columns, strict=True))) if columns else [""] * table.num_rows
    return CanonicalTable(tuple(table.column_names[i] for i in order), tuple(rows))


def canonical_values(array: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return one text per value."""
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in canonical_values(chunk)]
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        is_bool = type_.extension_name == "arrow.bool8"
        return canonical_values(array.storage.cast(pa.bool_()) if is_bool else array.storage)
    if pa.types.is_dictionary(type_):
        return canonical_values(array.dictionary_decode())
    if pa.types.is_struct(type_):
        return _structs(array)
    if pa.types.is_map(type_):
        return _each(array, lambda entries: _map(entries.field(0), entries.field(1)))
    if _is_list(type_):
        return _each(array, _list_or_map)
    write = _writer(type_)
    return [NULL if value is None else write(value) for value in _plain_values(array)]


def _is_list(type_: pa.DataType) -> bool:
    kind = pa.types
    tests = (kind.is_list, kind.is_large_list, kind.is_fixed_size_list, kind.is_list_view, kind.is_large_list_view)
    return any(test(type_) for test in tests)


def _each(array: pa.Array, write: Callable[[pa.Array], str]) -> list[str]:
    return [NULL if scalar.values is None else write(scalar.values) for scalar in array]


def _structs(array: pa.Array) -> list[str]:
    names = [field.name for field in array.type]
    order = sorted(range(len(names)), key=names.__getitem__)
    columns = [canonical_values(array.field(i)) for i in order]
    return [
        "<" + ",".join(f"{names[i]}:{column[row]}" for i, column in zip(order, columns, strict=True)) + ">"
        if valid
        else NULL
        for row, valid in enumerate(array.is_valid().to_pylist())
    ]


def _list_or_map(items: pa.Array) -> str:
    if pa.types.is_struct(items.type) and [field.name for field in items.type] == ["key", "value"]:
        return _map(items.field(0), items.field(1))
    return "[" + ",".join(canonical_values(items)) + "]"


def _map(keys: pa.Array, values: pa.Array) -> str:
    pairs = zip(canonical_values(keys), canonical_values(values), strict=True)
    return "{" + ",".join(sorted(f"{key}:{value}" for key, value in pairs)) + "}"


def _plain_values(array: pa.Array) -> list[Any]:
    """Return Python values.

    Times are the ints that Arrow stores, because `datetime` lacks nanoseconds and most years.
    """
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    return array.to_pylist()


def _writer(type_: pa.DataType) -> Callable[[Any], str]:
    """Return a function that writes non-null values of a primitive type."""
    for tests, write in _WRITERS:
        if any(test(type_) for test in tests):
            return lambda value: write(value, type_)
    raise TypeError(f"no canonical text for {type_}")


def _float(value: float, narrow: Callable[[float], Any]) -> str:
    # str() of the narrow value is its shortest text; repr(float()) converts that to Python's notation.
    return repr(float(str(narrow(value)))) if math.isfinite(value) else str(float(value))


def _decimal(value: Decimal) -> str:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _micros(value: int, unit: str) -> str:
    micros, nanos = divmod(value * {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit], 1000)
    return f"{micros}.{nanos:03d}" if nanos else str(micros)


_KIND = pa.types
_WRITERS: tuple[tuple[tuple[Callable[[pa.DataType], bool], ...], Callable[[Any, Any], str]], ...] = (
    ((_KIND.is_null, _KIND.is_integer), lambda value, _: str(value)),
    ((_KIND.is_boolean,), lambda value, _: "true" if value else "false"),
    ((_KIND.is_floating,), lambda value, type_: _float(value, FLOATS[type_.bit_width])),
    ((_KIND.is_decimal,), lambda value, _: _decimal(value)),
    ((_KIND.is_string, _KIND.is_large_string, _KIND.is_string_view), lambda v, _: json.dumps(v, ensure_ascii=False)),
    ((_KIND.is_binary, _KIND.is_large_binary, _KIND.is_fixed_size_binary), lambda value, _: f"x'{value.hex()}'"),
    ((_KIND.is_binary_view,), lambda value, _: f"x'{value.hex()}'"),
    ((_KIND.is_date32,), lambda value, _: f"d{value}"),
    ((_KIND.is_date64,), lambda value, _: f"d{value // 86_400_000}"),
    ((_KIND.is_timestamp,), lambda value, type_: f"ts{_micros(value, type_.unit)}"),
    ((_KIND.is_time,), lambda value, type_: f"t{_micros(value, type_.unit)}"),
    ((_KIND.is_duration,), lambda value, type_: f"dur{_micros(value, type_.unit)}"),
)
