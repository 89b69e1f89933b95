"""Data and delete files: pyarrow reads Parquet and ORC, the module `avro` reads Avro.

Values keep their stored form. Exceptions of the libraries become errors of harness.

Spec: Iceberg, "Appendix A: Format-specific Requirements" (7.1 to 7.6); Parquet, "Logical Types".
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

from harness import errors
from harness.suite.oracle import types as dt
from harness.suite.oracle.avro import UnsupportedAvroError, open_avro
from harness.suite.oracle.paths import Files, path_text
from harness.suite.oracle.scan import DataFile
from harness.suite.oracle.types import RawColumn, Row, StoredFile

_BATCH_ROWS = 4096


def open_file(file: DataFile, files: Files) -> StoredFile:
    """Open a data or delete file.

    Damage raises an error of harness that names the file, also while rows are consumed.
    """
    try:
        opened = _parse(files.read(file.physical), file.format)
    except Exception as error:
        raise _file_error(error, file) from error
    return replace(opened, rows=_with_file_errors(opened.rows, file))


def _parse(data: bytes, file_format: str) -> StoredFile:
    if not data:
        raise errors.MissingFileError("Cannot read a file: it is empty; restore it", rule="iceberg 7.6")
    if data[:4] in (b"PARE", b"AGS1"):
        raise errors.EncryptedTableError("Cannot read an encrypted file", rule="iceberg 2.19")
    readers = {"parquet": _open_parquet, "avro": open_avro, "orc": _open_orc}
    if file_format not in readers:
        message = f"Cannot read a file: its format {file_format!r} is not supported"
        raise errors.UnsupportedError(message, cause="UnsupportedFormat", rule="iceberg 7.5")
    return readers[file_format](data)


def _with_file_errors(rows: Iterator[Row], file: DataFile) -> Iterator[Row]:
    """Yield the rows. Failures become errors that name the file."""
    try:
        yield from rows
    except Exception as error:
        raise _file_error(error, file) from error


def _file_error(error: Exception, file: DataFile) -> errors.HarnessError:
    """Convert a library's exception into an error of harness.

    Exceptions that are unrelated to the file are raised again.
    """
    reason, name = " ".join(str(error).split()), path_text(file.path, file.physical)
    # pyarrow reads ORC timestamps only as nanoseconds.
    is_unread = (
        isinstance(error, UnsupportedAvroError | pa.ArrowNotImplementedError) or "out of range for nano" in reason
    )
    if isinstance(error, errors.HarnessError):
        return error.within(file=name)
    if is_unread:
        cause = "UnsupportedCodec" if "codec" in reason else "UnsupportedType"
        return errors.UnsupportedError(f"Cannot read {file.format} file: {reason}; rewrite it", cause=cause, file=name)
    if not isinstance(error, pa.ArrowException | OSError | ValueError | KeyError | RecursionError | OverflowError):
        raise error
    message = f"Cannot decode {file.format} file: {reason}; restore it"
    return errors.CorruptFileError(message, cause="CorruptDataFile", file=name)


def row_count_error(file: DataFile, rows: int) -> errors.CorruptFileError:
    """Return the error for a file whose row count differs from the metadata (iceberg 7.2)."""
    return errors.CorruptFileError(
        f"Cannot read file: it has {rows} rows, the metadata says {file.record_count}; restore the file",
        cause="CorruptDataFile",
        file=path_text(file.path, file.physical),
        rule="iceberg 7.2",
    )


def check_row_count(file: DataFile, rows: int) -> None:
    """Raise an error if an Avro delete file lacks rows.

    A cut between two blocks is not visible otherwise (iceberg 7.2).
    """
    if file.format == "avro" and file.record_count not in (None, rows):
        raise row_count_error(file, rows)


def position_deletes(file: DataFile, files: Files) -> list[tuple[str, int]]:
    """Return the rows of a position delete file: paths of data files and positions in them (iceberg 4.10, 4.11)."""
    stored = open_file(file, files)
    by_id = any(c.id is not None for c in stored.columns)
    places = []
    for name, field_id in (("file_path", 2147483546), ("pos", 2147483545)):
        matches = [i for i, c in enumerate(stored.columns) if (c.id == field_id if by_id else c.name == name)]
        if len(matches) != 1:
            message = f"Cannot read a position delete file: it has {len(matches)} columns {name}, expected one"
            raise errors.CorruptFileError(message, file=file.path, field=name, rule="iceberg 4.11")
        places += matches
    rows = [tuple(row[place] for place in places) for row in stored.rows]
    check_row_count(file, len(rows))
    try:
        deletes = [(target.decode(), position) for target, position in rows]
        is_whole = all(isinstance(position, int) and position >= 0 for _, position in deletes)
    except (AttributeError, UnicodeDecodeError):
        is_whole = False
    if not is_whole:
        message = "A position delete lacks its path or position; rewrite the delete file"
        raise errors.CorruptDeleteError(message, file=file.path, rule="iceberg 4.11")
    return deletes


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        columns = [values_of(column) for column in batch.columns]
        yield from zip(*columns, strict=True) if columns else repeat((), batch.num_rows)


def values_of(array: pa.Array) -> list[object]:
    """Return the values of an Arrow array in the form of `types.Row`."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return values_of(array.storage)
    if pa.types.is_dictionary(type_):
        return values_of(array.dictionary_decode())
    if pa.types.is_struct(type_):
        present = array.is_valid().to_pylist()
        parts = zip(*(values_of(part) for part in array.flatten()), strict=True)
        rows = parts if type_.num_fields else repeat((), len(array))
        return [row if valid else None for valid, row in zip(present, rows, strict=True)]
    if pa.types.is_map(type_):
        return _lists(array, list(zip(values_of(array.keys), values_of(array.items), strict=True)))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _lists(array, values_of(array.values))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        array = array.cast(pa.large_binary())
    elif pa.types.is_date32(type_) or pa.types.is_time32(type_):
        array = array.view(pa.int32())
    elif pa.types.is_time64(type_) or pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _lists(array: pa.Array, items: Sequence[object]) -> list[object]:
    offsets, present = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [list(items[offsets[i] : offsets[i + 1]]) if valid else None for i, valid in enumerate(present)]


def _parts(type_: pa.DataType) -> tuple[Literal["struct", "list", "map"] | None, list[pa.Field]]:
    """Return the kind of a nested type and its child fields. The kind is None if the type is not nested."""
    if pa.types.is_struct(type_):
        return "struct", list(type_)
    if pa.types.is_map(type_):
        return "map", [type_.key_field, type_.item_field]
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    return ("list", [type_.value_field]) if is_list else (None, [])


def _open_parquet(data: bytes) -> StoredFile:
    """Open a Parquet file.

    INT96 timestamps are read in microseconds (iceberg 6.9). Spark before 3.0 wrote dates in the Julian calendar (delta
    T20).
    """
    file = pq.ParquetFile(
        pa.BufferReader(data), coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False, pre_buffer=False
    )
    leaves = iter(file.schema.column(i) for i in range(len(file.schema)))
    columns = tuple(_parquet_column(f, leaves) for f in file.schema_arrow)
    footer = file.metadata.metadata or {}
    major = footer.get(b"org.apache.spark.version", b"").split(b".")[0]
    marks = {"dates": b"org.apache.spark.legacyDateTime", "int96": b"org.apache.spark.legacyINT96"}
    old = {kind for kind, mark in marks.items() if mark in footer or (major.isdigit() and int(major) < 3)}
    return StoredFile(columns=columns, rows=_parquet_rows(file), old_calendar=frozenset(old))


def _parquet_rows(file: pq.ParquetFile) -> Iterator[Row]:
    """Yield the rows.

    Raise ValueError if the footer has another row count: pyarrow 26 yields no row if the columns are empty.
    """
    recorded, count = file.metadata.num_rows, 0
    if len(file.schema_arrow):
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            count += batch.num_rows
            yield from _rows([batch])
    else:
        yield from repeat((), recorded)
        count = sum(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
    if count != recorded:
        where = "columns" if len(file.schema_arrow) else "row groups"
        raise ValueError(f"its footer counts {recorded} rows, its {where} {count}")


def _parquet_column(field: pa.Field, leaves: Iterator[object]) -> RawColumn:
    """Return a column with its nested columns. `leaves` yields the file's leaf columns in depth-first order."""
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    field_id = None if text is None or int(text) < 0 else int(text)
    kind, parts = _parts(field.type)
    type_ = _parquet_leaf_type(next(leaves)) if kind is None else kind
    return RawColumn(
        name=field.name, id=field_id, type=type_, parts=tuple(_parquet_column(part, leaves) for part in parts)
    )


def _parquet_leaf_type(leaf: Any) -> dt.ColumnType:
    logical = json.loads(leaf.logical_type.to_json())
    units: dict[str, dt.Unit] = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
    match logical["Type"]:
        case "Decimal":
            return dt.DecimalType(logical["precision"], logical["scale"])
        case "Time":
            return dt.TimeType(units[logical["timeUnit"]])
        case "Timestamp":
            return dt.TimestampType(units[logical["timeUnit"]], logical["isAdjustedToUTC"])
        case "Int":
            return (dt.IntegerType if logical["isSigned"] else dt.UnsignedType)(logical["bitWidth"])
        case "None" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
            return dt.FixedType(leaf.length)
        case "None":
            return _PHYSICAL[leaf.physical_type]
        case other:
            return _LOGICAL.get(other, dt.OpaqueType(str(other)))


_LOGICAL: dict[str, dt.ColumnType] = {
    **dict.fromkeys(("String", "Enum", "JSON"), dt.STRING),
    **{"BSON": dt.BINARY, "UUID": dt.UUID, "Date": dt.DATE, "Null": dt.UNKNOWN, "Float16": dt.FloatType(16)},
    **{"Geometry": dt.GeoType("geometry"), "Geography": dt.GeoType("geography")},
}
_PHYSICAL: dict[str, dt.ColumnType] = {
    **{"BOOLEAN": dt.BOOLEAN, "INT32": dt.IntegerType(32), "INT64": dt.IntegerType(64), "INT96": dt.INT96},
    **{"FLOAT": dt.FloatType(32), "DOUBLE": dt.FloatType(64), "BYTE_ARRAY": dt.BINARY},
}


def _open_orc(data: bytes) -> StoredFile:
    """Open an ORC file. Timestamps are in nanoseconds."""
    file = pyarrow.orc.ORCFile(pa.BufferReader(data))
    table = file.read()
    if not table.schema:  # pyarrow loses the rows of a file without columns
        return StoredFile(columns=(), rows=repeat((), file.nrows))
    return StoredFile(columns=_orc_columns(list(table.schema)), rows=_rows(table.to_batches()))


def _orc_columns(fields: list[pa.Field]) -> tuple[RawColumn, ...]:
    names = [f.name for f in fields]
    if len(set(names)) < len(names):  # pyarrow finds columns by name and would return one of them twice
        raise ValueError(f"two of its columns have the same name: {', '.join(names)}")
    return tuple(_orc_column(f) for f in fields)


def _orc_column(field: pa.Field) -> RawColumn:
    text = _attribute(field, "iceberg.id")
    field_id = int(text) if text.removeprefix("-").isdecimal() else None
    kind, parts = _parts(field.type)
    below = _orc_columns(parts) if kind == "struct" else tuple(map(_orc_column, parts))
    return RawColumn(name=field.name, id=field_id, type=kind or _orc_leaf_type(field), parts=below)


def _attribute(field: pa.Field, name: str) -> str:
    value: bytes = (field.metadata or {}).get(name.encode(), b"")
    return value.decode(errors="replace")


def _orc_leaf_type(field: pa.Field) -> dt.ColumnType:
    type_ = field.type
    if pa.types.is_binary(type_):
        length, kind = _attribute(field, "iceberg.length"), _attribute(field, "iceberg.binary-type").upper()
        if kind == "FIXED" and length.isdecimal():
            return dt.FixedType(int(length))
        geo = dt.GeoType(kind.lower())
        return {"UUID": dt.FixedType(16), "GEOMETRY": geo, "GEOGRAPHY": geo}.get(kind, dt.BINARY)
    if pa.types.is_integer(type_):
        is_time = type_.bit_width == 64 and _attribute(field, "iceberg.long-type").upper() == "TIME"
        return dt.TimeType("us") if is_time else dt.IntegerType(type_.bit_width)
    if pa.types.is_timestamp(type_):
        return dt.TimestampType(type_.unit, type_.tz is not None)
    if pa.types.is_decimal(type_):
        return dt.DecimalType(type_.precision, type_.scale)
    if pa.types.is_floating(type_):
        return dt.FloatType(type_.bit_width)
    simple: dict[pa.DataType, dt.ColumnType] = {pa.bool_(): dt.BOOLEAN, pa.date32(): dt.DATE, pa.string(): dt.STRING}
    return simple.get(type_, dt.OpaqueType(str(type_)))
