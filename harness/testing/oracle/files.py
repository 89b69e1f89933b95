"""Data and delete files: Parquet and ORC by pyarrow, Avro by the chapter before; values are left as the bytes say.

Spec: Iceberg, "Appendix A: Format-specific Requirements" (7.1 to 7.6); Parquet, "Logical Types"; Arrow fields of an ORC
file carry the attributes of the ORC types (iceberg 7.4). Failures become harness's errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    MissingFileError,
    UnsupportedError,
)
from harness.testing.oracle import types as dt
from harness.testing.oracle.avro import UnsupportedAvroError, open_avro
from harness.testing.oracle.paths import Files, shown
from harness.testing.oracle.types import RawColumn, Row, StoredFile

_BATCH_ROWS = 4096


def _open_orc(data: bytes) -> StoredFile:
    """The columns and rows of an ORC file; timestamps come in nanos."""
    file = pyarrow.orc.ORCFile(pa.BufferReader(data))
    table = file.read()
    if not table.schema:  # pyarrow loses the rows of a file without columns
        return StoredFile(columns=(), rows=repeat((), file.nrows))
    return StoredFile(columns=_columns(list(table.schema)), rows=_rows(table.to_batches(max_chunksize=_BATCH_ROWS)))


def _columns(fields: list[pa.Field]) -> tuple[RawColumn, ...]:
    names = [f.name for f in fields]
    if len(set(names)) < len(names):
        # pyarrow finds columns by name, and would give one of them twice.
        raise ValueError(f"two of its columns have one name: {', '.join(names)}")
    return tuple(_column(f) for f in fields)


def _column(field: pa.Field) -> RawColumn:
    text = _attribute(field, "iceberg.id")
    field_id = int(text) if text.removeprefix("-").isdecimal() else None
    kind, parts = _parts(field.type)
    if kind is None:
        return RawColumn(name=field.name, id=field_id, type=_leaf_type(field))
    below = _columns(parts) if kind == "struct" else tuple(map(_column, parts))
    return RawColumn(name=field.name, id=field_id, type=kind, parts=below)


def _parts(type_: pa.DataType) -> tuple[Literal["struct", "list", "map"] | None, list[pa.Field]]:
    """The kind of a nested type and the fields below it; None: it is not nested."""
    if pa.types.is_struct(type_):
        return "struct", [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return "map", [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return "list", [type_.value_field]
    return None, []


def _attribute(field: pa.Field, name: str) -> str:
    value: bytes = (field.metadata or {}).get(name.encode(), b"")
    return value.decode(errors="replace")


def _leaf_type(field: pa.Field) -> dt.Type:
    type_ = field.type
    if pa.types.is_binary(type_):
        return _binary(field)
    if pa.types.is_integer(type_):
        if type_.bit_width == 64 and _attribute(field, "iceberg.long-type").upper() == "TIME":
            return dt.TimeType("us")
        return dt.IntegerType(type_.bit_width)
    if pa.types.is_timestamp(type_):
        return dt.TimestampType(type_.unit, type_.tz is not None)
    if pa.types.is_decimal(type_):
        return dt.DecimalType(type_.precision, type_.scale)
    if pa.types.is_floating(type_):
        return dt.FloatType(64 if pa.types.is_float64(type_) else 32)
    if pa.types.is_boolean(type_):
        return dt.BOOLEAN
    if pa.types.is_date32(type_):
        return dt.DATE
    return dt.STRING if pa.types.is_string(type_) else dt.OpaqueType(str(type_))


def _binary(field: pa.Field) -> dt.Type:
    length, kind = _attribute(field, "iceberg.length"), _attribute(field, "iceberg.binary-type").upper()
    if kind == "FIXED" and length.isdecimal():
        return dt.FixedType(int(length))
    known: dict[str, dt.Type] = {
        "UUID": dt.FixedType(16),
        "GEOMETRY": dt.GeometryType(),
        "GEOGRAPHY": dt.GeographyType(),
    }
    return known.get(kind, dt.BINARY)


def _open_parquet(data: bytes) -> StoredFile:
    """The columns and rows of a Parquet file. INT96 timestamps come in micros (iceberg 6.9)."""
    file = pq.ParquetFile(
        pa.BufferReader(data), coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False, pre_buffer=False
    )
    leaves = iter(file.schema.column(i) for i in range(len(file.schema)))
    columns = tuple(_parquet_column(f, leaves) for f in file.schema_arrow)
    return StoredFile(
        columns=columns, rows=_parquet_rows(file), old_calendar=_old_calendar(file.metadata.metadata or {})
    )


def _parquet_rows(file: pq.ParquetFile) -> Iterator[Row]:
    if not len(file.schema_arrow):
        yield from repeat((), file.metadata.num_rows)
        in_groups = sum(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
        if in_groups != file.metadata.num_rows:
            raise ValueError(f"its footer counts {file.metadata.num_rows} rows, its row groups {in_groups}")
        return
    found = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        found += batch.num_rows
        yield from _rows([batch])
    if found != file.metadata.num_rows:  # where its columns count none, pyarrow 26 gives none without a word
        raise ValueError(f"its footer counts {file.metadata.num_rows} rows, its columns {found}")


def _parquet_column(field: pa.Field, leaves: Iterator[Any]) -> RawColumn:
    """A column with the columns below. Leaves come from `leaves`, which go through the file depth first."""
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    field_id = None if text is None or int(text) < 0 else int(text)
    kind, parts = _parts(field.type)
    type_ = _parquet_leaf_type(next(leaves)) if kind is None else kind
    below = tuple(_parquet_column(part, leaves) for part in parts)
    return RawColumn(name=field.name, id=field_id, type=type_, parts=below)


_UNITS: dict[str, Literal["ms", "us", "ns"]] = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def _parquet_leaf_type(leaf: Any) -> dt.Type:
    """The annotation decides, else the physical type."""
    logical = json.loads(leaf.logical_type.to_json())
    match logical["Type"]:
        case plain if plain in _LOGICAL:
            return _LOGICAL[plain]
        case "Decimal":
            return dt.DecimalType(logical["precision"], logical["scale"])
        case "Time":
            return dt.TimeType(_UNITS[logical["timeUnit"]])
        case "Timestamp":
            return dt.TimestampType(_UNITS[logical["timeUnit"]], logical["isAdjustedToUTC"])
        case "Int":
            return (dt.IntegerType if logical["isSigned"] else dt.UnsignedType)(logical["bitWidth"])
        case "None" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
            return dt.FixedType(leaf.length)
        case "None":
            return _PHYSICAL[leaf.physical_type]
        case other:
            return dt.OpaqueType(str(other))


_LOGICAL: dict[str, dt.Type] = {
    **dict.fromkeys(("String", "Enum", "JSON"), dt.STRING),
    "BSON": dt.BINARY,
    "UUID": dt.UUID,
    "Date": dt.DATE,
    "Null": dt.UNKNOWN,
    "Float16": dt.FloatType(16),
    "Geometry": dt.GeometryType(),
    "Geography": dt.GeographyType(),
}
_PHYSICAL: dict[str, dt.Type] = {
    "BOOLEAN": dt.BOOLEAN,
    "INT32": dt.IntegerType(32),
    "INT64": dt.IntegerType(64),
    "INT96": dt.INT96,
    "FLOAT": dt.FloatType(32),
    "DOUBLE": dt.FloatType(64),
    "BYTE_ARRAY": dt.BINARY,
}


def _old_calendar(footer: dict[bytes, bytes]) -> frozenset[str]:
    """The kinds of columns in the old calendar. Spark before 3.0 wrote everything in it (delta T20)."""
    major = footer.get(b"org.apache.spark.version", b"").split(b".")[0]
    is_old = major.isdigit() and int(major) < 3
    marks = {"dates": b"org.apache.spark.legacyDateTime", "int96": b"org.apache.spark.legacyINT96"}
    return frozenset(kind for kind, mark in marks.items() if is_old or mark in footer)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        columns = [values_of(column) for column in batch.columns]
        yield from zip(*columns, strict=True) if columns else repeat((), batch.num_rows)


def values_of(array: pa.Array) -> list[Any]:
    """The values of an Arrow array, by the array's bytes."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return values_of(array.storage)
    if pa.types.is_dictionary(type_):
        return values_of(array.dictionary_decode())
    if pa.types.is_struct(type_):
        present = array.is_valid().to_pylist()
        parts = zip(*(values_of(part) for part in array.flatten()), strict=True)
        rows = parts if type_.num_fields else repeat((), len(array))
        return [row if there else None for there, row in zip(present, rows, strict=True)]
    if pa.types.is_map(type_):
        return _lists(array, list(zip(values_of(array.keys), values_of(array.items), strict=True)))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _lists(array, values_of(array.values))
    # In types that Python holds exactly: text as bytes, dates and times as their integers.
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        array = array.cast(pa.large_binary())
    elif pa.types.is_date32(type_) or pa.types.is_time32(type_):
        array = array.view(pa.int32())
    elif pa.types.is_time64(type_) or pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _lists(array: pa.Array, items: Sequence[Any]) -> list[Any]:
    offsets, present = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [list(items[offsets[i] : offsets[i + 1]]) if there else None for i, there in enumerate(present)]


def wrong_count(
    file: str, rows: int, recorded: int | None, *, table: str | None = None, field: str | None = None
) -> CorruptFileError:
    """The error about a file with another number of rows than the metadata says (iceberg 7.2)."""
    return CorruptFileError(
        f"Cannot read file: it has {rows} rows, the metadata says {recorded}; restore the file",
        cause="CorruptDataFile",
        table=table,
        file=file,
        field=field,
        rule="iceberg 7.2",
    )


def check_whole(file_format: str | None, recorded: int | None, rows: int, *, table: str, file: str) -> None:
    """Refuses, by CorruptFileError, a delete file in Avro without all its rows (iceberg 7.2).

    A cut between two blocks does not show. recorded: the row count of the metadata. rows: how many were read.
    """
    if file_format == "avro" and recorded not in (None, rows):
        raise wrong_count(file, rows, recorded, table=table, field="record_count")


def open_file(path: str, physical: str, file_format: str, files: Files, *, table: str) -> StoredFile:
    """A data or delete file.

    Args:
        path, physical: as recorded, and where the bytes are.
        file_format: `parquet`, `avro` or `orc`.
        files: reads them.
        table: for messages.

    Raises:
        MissingFileError: it is not there, or has no bytes (iceberg 7.6).
        EncryptedTableError: it is encrypted (iceberg 2.19).
        CorruptFileError: it cannot be decoded; also while its rows are taken.
        UnsupportedError: its format, or something in it, is not read (iceberg 7.3 to 7.5).
    """
    file = shown(path, physical)
    try:
        data = files.read(physical)
        opened = _opened(data, file_format)
    except Exception as error:
        raise _refusal(error, file_format, file).within(table=table, file=file) from error
    return replace(opened, rows=_guarded(opened.rows, file_format, file, table))


def position_deletes(
    path: str, physical: str, file_format: str, files: Files, *, table: str, record_count: int | None
) -> list[tuple[str, int]]:
    """The rows of a position delete file: paths of data files and positions in them (iceberg 4.10, 4.11).

    Args:
        path, physical, file_format, files, table: as for `open_file`.
        record_count: the row count of the metadata, None if unknown.

    Raises:
        CorruptFileError: a column is missing, or rows are; or as `open_file`.
        CorruptDeleteError: a row lacks its path or its position.
    """
    stored = open_file(path, physical, file_format, files, table=table)
    by_id = any(c.id is not None for c in stored.columns)
    places = []
    for name, field_id in (("file_path", 2147483546), ("pos", 2147483545)):
        found = [i for i, c in enumerate(stored.columns) if (c.id == field_id if by_id else c.name == name)]
        if len(found) != 1:
            raise CorruptFileError(
                f"Cannot read a position delete file: {len(found)} of its columns are {name}, expected one",
                file=path,
                field=name,
                rule="iceberg 4.11",
            )
        places += found
    rows = [tuple(row[place] for place in places) for row in stored.rows]
    check_whole(file_format, record_count, len(rows), table=table, file=path)
    try:
        deletes = [(target.decode(), position) for target, position in rows]
        is_whole = all(isinstance(position, int) and position >= 0 for _, position in deletes)
    except (AttributeError, UnicodeDecodeError):
        is_whole = False
    if not is_whole:
        raise CorruptDeleteError(
            "A position delete has no path or no position; rewrite the delete",
            table=table,
            file=path,
            rule="iceberg 4.11",
        )
    return deletes


def _opened(data: bytes, file_format: str) -> StoredFile:
    if not data:
        raise MissingFileError("Cannot read a file: it is empty; restore it", rule="iceberg 7.6")
    if data[:4] in (b"PARE", b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted file", rule="iceberg 2.19")
    match file_format:
        case "parquet":
            return _open_parquet(data)
        case "avro":
            return open_avro(data)
        case "orc":
            return _open_orc(data)
        case other:
            raise UnsupportedError(
                f"Cannot read a file: its format {other!r} is not supported",
                cause="UnsupportedFormat",
                rule="iceberg 7.5",
            )


def _guarded(rows: Iterator[Row], file_format: str, file: str, table: str) -> Iterator[Row]:
    """The rows; what goes wrong on the way becomes an error that names the file."""
    try:
        yield from rows
    except Exception as error:
        raise _refusal(error, file_format, file).within(table=table, file=file) from error


def _refusal(error: Exception, file_format: str, file: str) -> HarnessError:
    """The error for a reader's own exception. An exception that says nothing about the file is raised again."""
    reason = " ".join(str(error).split())
    match error:
        case HarnessError():
            return error
        case UnsupportedAvroError() | pa.ArrowNotImplementedError():
            pass
        case _ if "out of range for nanosecond" in reason:  # pyarrow has ORC's timestamps in nanos only
            pass
        case pa.ArrowException() | OSError() | ValueError() | KeyError() | RecursionError() | OverflowError():
            return CorruptFileError(
                f"Cannot decode {file_format} file: {reason}; restore it", cause="CorruptDataFile", file=file
            )
        case _:
            raise error
    cause = "UnsupportedCodec" if "codec" in reason else "UnsupportedType"
    return UnsupportedError(f"Cannot read {file_format} file: {reason}; rewrite it", cause=cause, file=file)
