"""Values in the forms of the Delta log: JSON with exact decimals, partition values, and statistics."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
)
from harness.writing.iceberg.types import stored_value

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = dt.datetime(1970, 1, 1)
_WIDE = Context(prec=60)
# Java's URI class does not escape these characters, and neither do the paths that Spark writes.
_PATH_SAFE = "/=:+,!$&'()*;@~"
# Hive escapes these characters in directory names, and therefore Spark does too.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(i) for i in range(1, 32)}


def json_text(value: object) -> str:
    """Return compact JSON with exact decimals, and with keys in the given order."""
    match value:
        case dict():
            return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{json_text(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def partition_text(type_: Type, value: Any) -> str | None:
    """Return the text of a stored value in `partitionValues`, or None for null.

    Raises:
        RequestError: Columns of this type cannot be partition columns.

    Spec: Delta, "Partition Value Serialization".
    """
    match type_:
        case _ if value is None:
            return None
        case BooleanType():
            return "true" if value else "false"
        case FloatType():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(float(value)), repr(float(value)))
        case DecimalType():
            return f"{value:f}"
        case DateType():
            return (_EPOCH + dt.timedelta(days=value)).date().isoformat()
        case TimestampType():
            moment = _EPOCH + dt.timedelta(microseconds=value)
            return moment.isoformat(sep=" ", timespec="microseconds")
        case BinaryType():
            return bytes(value).decode()
        case StringType() | IntegerType():
            return str(value)
        case _:
            raise RequestError(f"Cannot partition by a column of type {type_}")


def partition_value(type_: Type, text: str | None) -> object:
    """Return the value of a text in `partitionValues` in a form that Arrow accepts for the column, or None for null."""
    match type_:
        case _ if text is None or (text == "" and not isinstance(type_, StringType | BinaryType)):
            return None
        case BooleanType():
            return text.lower() == "true"
        case IntegerType():
            return int(text)
        case FloatType():
            return float(text)
        case BinaryType():
            return text.encode()
        case _:
            return statistics_value(type_, text)


def folder_name(column: str, text: str | None) -> str:
    """Return the directory name `column=value`, escaped as by Hive. Null and the empty text share one name."""
    return f"{_hive_escape(column)}={_hive_escape(text) if text else HIVE_NULL}"


def encoded_path(path: str) -> str:
    """Return a path as the log records it, percent-encoded once (delta L38)."""
    return quote(path, safe=_PATH_SAFE)


def statistics_text(type_: Type, value: Any) -> Any:
    """Return a stored minimum or maximum as the JSON value of statistics.

    Returns:
        The value, or None if statistics cannot represent it (delta F5, F7, F8).
    """
    try:
        match type_:
            case FloatType():
                return value if math.isfinite(value) else None
            case IntegerType() | DecimalType() | StringType():
                return value
            case DateType():
                return (_EPOCH + dt.timedelta(days=value)).date().isoformat()
            case TimestampType(utc=utc):
                moment = _EPOCH + dt.timedelta(milliseconds=value // 1000)
                return f"{moment.isoformat(timespec='milliseconds')}{'Z' if utc else ''}"
            case _:
                return None
    except OverflowError:  # `datetime` does not support this year.
        return None


def statistics_value(type_: Type, value: Any) -> object:
    """Return a JSON value of statistics in a form that Arrow accepts for the column, or None for null."""
    match type_:
        case StructType(fields=fields):
            names = {f.physical_name or f.name: f.type for f in fields}
            return {k: statistics_value(names[k], v) for k, v in value.items() if k in names}
        case _ if value is None:
            return None
        case DateType():
            return dt.date.fromisoformat(value)
        case TimestampType(utc=utc):
            moment = dt.datetime.fromisoformat(value)
            return moment.replace(tzinfo=dt.UTC) if utc and moment.tzinfo is None else moment
        case DecimalType(scale=scale):
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=_WIDE)
        case FloatType():
            return float(value)
        case _:
            return value


def _hive_escape(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED else c for c in text)


def columns_by_name(schema: Schema, names: Sequence[str]) -> tuple[Field, ...]:
    """Return the columns with some names, in the order of the names."""
    by_name = {f.name: f for f in schema.fields}
    return tuple(by_name[name] for name in names)


def explicit_partition_values(
    columns: Sequence[Field], natural: Mapping[str, object], texts: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return `partitionValues` for explicit values.

    Args:
        columns: The partition columns.
        natural: Python values by column name. A missing column is null.
        texts: Texts by column name, which are used unchanged. They override `natural`.

    Raises:
        RequestError: A name is not a partition column, or a value does not fit its type.
    """
    unknown = {*natural, *texts} - {f.name for f in columns}
    if unknown:
        names = ", ".join(f.name for f in columns) or "none"
        raise RequestError(f"No partition column {', '.join(sorted(unknown))}; the table has {names}")
    return {
        f.physical_name or f.name: texts[f.name]
        if f.name in texts
        else partition_text(f.type, stored_value(f.type, natural.get(f.name)))
        for f in columns
    }


def shared_partition_values(
    columns: Sequence[Field], rows: Sequence[Mapping[int, object]] | pa.Table
) -> dict[str, str | None]:
    """Return the `partitionValues` that all rows share.

    Raises:
        RequestError: The rows belong to several partitions, there are no rows, or the rows are an Arrow table.
    """
    if not columns:
        return {}
    if isinstance(rows, pa.Table):
        raise RequestError("Cannot determine the partition of an Arrow table; set `partition`")
    partitions = {tuple(_partition_values(columns, row).items()) for row in rows}
    if len(partitions) != 1:
        raise RequestError(
            f"Cannot determine the partition of the rows: they are in {len(partitions)} partitions; set `partition`, "
            "or use write_partitioned"
        )
    return dict(partitions.pop())


def _partition_values(columns: Sequence[Field], row: Mapping[int, object]) -> dict[str, str | None]:
    """Return the `partitionValues` of one stored row."""
    return {f.physical_name or f.name: partition_text(f.type, row.get(f.id)) for f in columns}


def group_by_partition(
    columns: Sequence[Field], rows: Sequence[Mapping[str, object]], stored_rows: Sequence[Mapping[int, object]]
) -> list[list[Mapping[str, object]]]:
    """Return rows grouped by partition, in the order of the partitions' first rows.

    Args:
        columns: The partition columns.
        rows: The rows as Python values.
        stored_rows: The same rows as internal values.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, object]]] = {}
    for row, content in zip(rows, stored_rows, strict=True):
        groups.setdefault(tuple(_partition_values(columns, content).items()), []).append(row)
    return list(groups.values())


def partition_folder(columns: Sequence[Field], values: Mapping[str, str | None]) -> str:
    """Return `column=value/` for each partition column, escaped as by Hive. It is empty for an unpartitioned table."""
    names = [f.physical_name or f.name for f in columns]
    return "".join(f"{folder_name(name, values.get(name))}/" for name in names)
