"""Rows as Arrow IPC or JSON lines: expected rows of the suite, answers of readers, and results of programs.

A JSON row is an object with a key for each column. Null is null. Dates, times and timestamps are integers in the unit
of the column (days, microseconds, or nanoseconds since 1970-01-01 UTC). Integers are JSON numbers, also beyond 2^53.
Decimals and UUIDs are text, binary is hex text, structs are objects, maps are lists of [key, value], and NaN and
infinities are the texts NaN, Infinity and -Infinity. The order of rows has no meaning.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import RequestError, json_text
from harness.suite.foreign_files import MAX_BYTES, MAX_ROWS, read_below, read_json_text
from harness.untrusted.arrow_messages import read_stream


def json_lines_of(rows: pa.Table) -> str:
    """Return the rows as JSON lines, one row per line. `json_lines_table` reads them."""
    values = [[json_value(scalar) for scalar in column] for column in rows.columns]
    records = (dict(zip(rows.column_names, row, strict=True)) for row in zip(*values, strict=True))
    return "".join(f"{json_text(record)}\n" for record in records)


def json_value(scalar: pa.Scalar) -> object:
    """Return an Arrow value as JSON. None is null."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(kind, pa.UuidType):
        return str(uuid.UUID(bytes=scalar.value.as_py()))
    if pa.types.is_struct(kind):
        return {f.name: json_value(scalar[i]) for i, f in enumerate(kind)}
    if pa.types.is_map(kind):
        return [[json_value(pair[0]), json_value(pair[1])] for pair in scalar.values]
    if pa.types.is_list(kind):
        return [json_value(item) for item in scalar.values]
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_decimal(kind):
        return f"{scalar.as_py():f}"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return scalar.as_py().hex()
    value = scalar.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def read_rows(folder: Path, name: str, schema: pa.Schema | None = None, *, is_json: bool = False) -> pa.Table:
    """Return the rows of an Arrow IPC file or stream, or of JSON lines, that another program wrote below a folder.

    Args:
        folder: The folder.
        name: The path of the file relative to the folder.
        schema: The column types for JSON lines, see `json_lines_table`.
        is_json: Whether the file contains JSON lines.

    Raises:
        RequestError: The rows cannot be read or exceed a limit.
    """
    try:
        if is_json:
            return json_lines_table(read_json_text(folder, name, "the rows"), schema)
        data = read_below(folder, name, "the rows")
        return read_stream(data, most_bytes=MAX_BYTES, most_rows=MAX_ROWS, foreign=True)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, pa.ArrowException) as error:
        raise RequestError(f"Cannot read the rows: {error}", file=str(folder / name)) from error


def json_lines_table(text: str, schema: pa.Schema | None) -> pa.Table:
    """Return the table of JSON lines, with values as `json_lines_of` writes them.

    Args:
        text: The lines.
        schema: The types of the columns by name. A column without a type becomes JSON text.

    Raises:
        ValueError: A line is not an object, or lacks a column that another line has. TypeError, ArithmeticError, or
            pyarrow.ArrowException if a value does not fit its type.
    """
    rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if wrong := [row for row in rows if not isinstance(row, dict)]:
        raise ValueError(f"a row is {excerpt(wrong[0])}, not an object with a key for each column")
    typed = [] if schema is None else schema.names
    names = list(dict.fromkeys([*(rows[0] if rows else typed), *(name for row in rows for name in row)]))
    columns = {}
    for name in names:
        values = [row[name] if name in row else _raise_missing(name, row) for row in rows]
        type_ = schema.field(name).type if schema is not None and name in typed else None
        columns[name] = pa.array(map(json.dumps, values)) if type_ is None else _array(values, type_)
    return pa.table(columns) if columns else pa.table({"": pa.nulls(len(rows))}).select([])


def _raise_missing(name: str, row: Mapping[str, object]) -> object:
    raise ValueError(f"the row {excerpt(row)} has no {name!r}, which another row has; write null explicitly")


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    converted = [None if value is None else _value(value, type_) for value in values]
    if isinstance(type_, pa.UuidType):
        return pa.ExtensionArray.from_storage(type_, pa.array(converted, type_.storage_type))
    return pa.array(converted, type_)


def _value(value: Any, type_: pa.DataType) -> object:
    """Convert a value of `json_value` to the form that `pyarrow.array` accepts."""
    kind = pa.types
    if value is None:
        return None
    if isinstance(type_, pa.UuidType):
        return uuid.UUID(str(value)).bytes
    if kind.is_struct(type_):
        return {field.name: _value(value[field.name], field.type) for field in type_}
    if kind.is_map(type_):
        return [(_value(key, type_.key_type), _value(item, type_.item_type)) for key, item in value]
    if kind.is_list(type_):
        return [_value(item, type_.value_type) for item in value]
    if kind.is_decimal(type_):
        return Decimal(value)
    if kind.is_binary(type_) or kind.is_fixed_size_binary(type_):
        return bytes.fromhex(value)
    return float(value) if kind.is_floating(type_) else value


def excerpt(value: object) -> str:
    """Return the start of a value as JSON, for messages."""
    return json.dumps(value)[:60]
