"""Arrow values as JSON values in plain Python: what DuckDB must write of them, by the table of `harness.cli.values`.

Dates and times go through numpy, because tables hold years that `datetime` cannot.
"""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from harness.cli.document import plain

_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def json_values(array: pa.Array) -> list[Any]:
    """The values of an Arrow array as JSON values, see the module's table; `json_text` takes each as it is."""
    kind = pa.types
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return _extension(array)
    if kind.is_dictionary(type_):
        return json_values(array.dictionary_decode())
    if kind.is_struct(type_):
        return _structs(array)
    if kind.is_map(type_):
        return _maps(array)
    if kind.is_list(type_) or kind.is_large_list(type_) or kind.is_fixed_size_list(type_) or _is_list_view(type_):
        return [None if item is None else json_values(item) for item in (scalar.values for scalar in array)]
    if kind.is_union(type_):
        members = [scalar.value for scalar in array]  # None for a null
        return [None if m is None else json_values(pa.array([m.as_py()], m.type))[0] for m in members]
    if kind.is_temporal(type_):
        return _temporal(array)
    if kind.is_decimal(type_) and type_.scale == 0:
        return [None if v is None else plain(int(v)) for v in array.to_pylist()]
    if kind.is_floating(type_):
        # As text and back: the shortest text of a 32-bit float, not the long text of its 64-bit double.
        narrow = _FLOATS[type_.bit_width]
        return [None if v is None else plain(float(str(narrow(v)))) for v in array.to_pylist()]
    return [plain(value) for value in array.to_pylist()]


def _is_list_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_))


def _extension(array: pa.Array) -> list[Any]:
    match array.type.extension_name:
        case "arrow.uuid":
            return [None if v is None else str(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()]
        case "arrow.bool8":
            return [None if v is None else v != 0 for v in array.storage.to_pylist()]
        case _:
            return json_values(array.storage)


def _structs(array: pa.Array) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    columns = [json_values(array.field(i)) for i in range(len(names))]
    valid = array.is_valid().to_pylist()
    return [
        {name: column[row] for name, column in zip(names, columns, strict=True)} if valid[row] else None
        for row in range(len(array))
    ]


def _maps(array: pa.Array) -> list[Any]:
    entries = [scalar.values for scalar in array]
    return [
        None
        if entry is None
        else [list(p) for p in zip(json_values(entry.field(0)), json_values(entry.field(1)), strict=True)]
        for entry in entries
    ]


def _temporal(array: pa.Array) -> list[Any]:
    type_ = array.type
    if pa.types.is_interval(type_):
        return [None if v is None else _duration(v.months, v.days, v.nanoseconds, "ns") for v in array.to_pylist()]
    wide = pa.types.is_date64(type_) or pa.types.is_time64(type_) or type_.bit_width == 64
    numbers = array.cast(pa.int64() if wide else pa.int32()).to_pylist()
    return [None if number is None else _moment(number, type_) for number in numbers]


def _moment(number: int, type_: pa.DataType) -> str:
    if pa.types.is_date32(type_):
        return str(np.datetime64(number, "D"))
    if pa.types.is_date64(type_):
        return str(np.datetime64(number // 86_400_000, "D"))
    if pa.types.is_duration(type_):
        return _duration(0, 0, number, type_.unit)
    text = _trimmed(str(np.datetime64(number, type_.unit)))
    if pa.types.is_time(type_):
        return text.partition("T")[2]
    return text + "Z" if type_.tz is not None else text


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _duration(months: int, days: int, number: int, unit: str) -> str:
    seconds = Decimal(number) / _UNITS_PER_SECOND[unit]
    parts = [f"{months}M"] if months else []
    parts += [f"{days}D"] if days else []
    parts += [f"T{_trimmed(format(seconds, 'f'))}S"] if number or not parts else []
    return "P" + "".join(parts)
