"""Parquet files through pyarrow: columns by the footer's own words, rows batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    Int96Type,
    IntegerType,
    OpaqueType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UnsignedType,
    UuidType,
)
from harness.oracle.engine.stored import Column, Row, StoredFile, rows_of

_BATCH_ROWS = 4096


def open_parquet(data: bytes) -> StoredFile:
    """The columns and rows of a Parquet file. INT96 timestamps come in micros (iceberg 6.9).

    Raises:
        pyarrow.ArrowException, OSError: the file cannot be read; also while its rows are taken.
    """
    file = pq.ParquetFile(
        pa.BufferReader(data), coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False, pre_buffer=False
    )
    leaves = iter(file.schema.column(i) for i in range(len(file.schema)))
    columns = tuple(_column(f, leaves) for f in file.schema_arrow)
    return StoredFile(columns=columns, rows=_rows(file), old_calendar=_old_calendar(file.metadata.metadata or {}))


def _rows(file: pq.ParquetFile) -> Iterator[Row]:
    if not len(file.schema_arrow):
        yield from repeat((), file.metadata.num_rows)
        in_groups = sum(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
        if in_groups != file.metadata.num_rows:
            raise ValueError(f"its footer counts {file.metadata.num_rows} rows, its row groups {in_groups}")
        return
    found = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        found += batch.num_rows
        yield from rows_of(batch)
    if found != file.metadata.num_rows:  # where its columns count none, pyarrow 26 gives none without a word
        raise ValueError(f"its footer counts {file.metadata.num_rows} rows, its columns {found}")


def _column(field: pa.Field, leaves: Iterator[Any]) -> Column:
    """A column with what is below it; takes its leaves from `leaves`, which go through the file depth first."""
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    field_id = None if text is None or int(text) < 0 else int(text)
    type_ = field.type
    if pa.types.is_struct(type_):
        kind: Literal["struct", "list", "map"] = "struct"
        parts = [type_.field(i) for i in range(type_.num_fields)]
    elif pa.types.is_map(type_):
        kind, parts = "map", [type_.key_field, type_.item_field]
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        kind, parts = "list", [type_.value_field]
    else:
        return Column(name=field.name, id=field_id, type=_leaf_type(next(leaves)))
    return Column(name=field.name, id=field_id, type=kind, parts=tuple(_column(part, leaves) for part in parts))


_UNITS: dict[str, Literal["ms", "us", "ns"]] = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_BITS: dict[int, Literal[8, 16, 32, 64]] = {8: 8, 16: 16, 32: 32, 64: 64}


def _leaf_type(leaf: Any) -> Type:
    """The annotation decides, else the physical type."""
    logical = json.loads(leaf.logical_type.to_json())
    match logical["Type"]:
        case "String" | "Enum" | "JSON":
            return StringType()
        case "BSON":
            return BinaryType()
        case "UUID":
            return UuidType()
        case "Date":
            return DateType()
        case "Decimal":
            return DecimalType(logical["precision"], logical["scale"])
        case "Time":
            return TimeType(_UNITS[logical["timeUnit"]])
        case "Timestamp":
            return TimestampType(_UNITS[logical["timeUnit"]], logical["isAdjustedToUTC"])
        case "Int":
            bits = _BITS[logical["bitWidth"]]
            return IntegerType(bits) if logical["isSigned"] else UnsignedType(bits)
        case "Null":
            return UnknownType()
        case "Float16":
            return FloatType(16)
        case "Geometry":
            return GeometryType()
        case "Geography":
            return GeographyType()
        case "None":
            return (
                FixedType(leaf.length)
                if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"
                else _PHYSICAL[leaf.physical_type]
            )
        case other:
            return OpaqueType(str(other))


_PHYSICAL: dict[str, Type] = {
    "BOOLEAN": BooleanType(),
    "INT32": IntegerType(32),
    "INT64": IntegerType(64),
    "INT96": Int96Type(),
    "FLOAT": FloatType(32),
    "DOUBLE": FloatType(64),
    "BYTE_ARRAY": BinaryType(),
}


def _old_calendar(footer: dict[bytes, bytes]) -> frozenset[str]:
    """What a writer says of its calendar; Spark before 3.0 wrote everything in the old one (delta T20)."""
    found = set()
    if b"org.apache.spark.legacyDateTime" in footer:
        found.add("dates")
    if b"org.apache.spark.legacyINT96" in footer:
        found.add("int96")
    major = footer.get(b"org.apache.spark.version", b"").split(b".")[0]
    if major.isdigit() and int(major) < 3:
        found |= {"dates", "int96"}
    return frozenset(found)
