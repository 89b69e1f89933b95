"""Position delete files of Iceberg: deleted row positions by data file.

A delete file may list many data files, and a data file may be listed by many delete files (iceberg 4.12). So a delete
file is decoded once, into one bitmap per data file of the plan. Rows are never processed one by one.

The paths are always read, even if the metadata records that there is only one: as a dictionary column they cost a tenth
of the positions, and the metadata may be wrong (iceberg 4.12, 4.14).

Positions beyond the end of a data file are kept. They match no row, and dropping them because of a wrong record count
could bring rows back.

Spec: Iceberg, "Position Delete Files".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, EncryptedTableError, HarnessError, UnsupportedError
from harness.metadata.files import roaring
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.parquet import check_rows, open_parquet, row_count
from harness.metadata.model.arrow_values import to_numpy
from harness.metadata.plan.deletes import FILE_PATH_ID
from harness.storage.limits import Limits, contained
from harness.storage.paths import PhysicalPath, both_paths
from harness.storage.stores import Storage

POSITION_ID = 2147483545
"""Reserved field id of the row position in a position delete file (iceberg 4.11)."""

PositionsByPath: TypeAlias = Mapping[str, BitMap64]


PathRenaming: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Takes the paths in the rows of one delete file, and returns the paths of the data files that they refer to."""

_ENCRYPTED_PARQUET = b"PARE"


def read_positions(
    storage: Storage,
    *,
    path: str,
    physical: PhysicalPath,
    format: str,
    record_count: int | None,
    data_files: Container[str],
    rename: PathRenaming | None = None,
) -> PositionsByPath:
    """Return the positions in one position delete file, by recorded path of the data file.

    Args:
        storage: The storage of the file.
        path: As for `harness.metadata.plan.deletes.PositionDeleteFile`.
        physical: As for `PositionDeleteFile`.
        format: As for `PositionDeleteFile`.
        record_count: As for `PositionDeleteFile`.
        data_files: The data files whose positions are returned.
        rename: Replaces the paths before they are looked up in `data_files`; None to use the paths unchanged.

    Raises:
        MissingFileError: The file does not exist (4.10).
        CorruptFileError: The file is damaged or lacks a column (4.10, 4.11).
        CorruptDeleteError: The file has a null or a negative position (4.11), or is truncated (4.10).
        UnsupportedError: harness cannot read the file's format or encryption.
    """
    name = both_paths(path, physical)
    try:
        with contained(file=name):
            paths, positions = _read_columns(storage.read(physical), format, record_count, name, storage.limits)
            return _by_path(paths, positions, data_files, name, rename)
    except HarnessError as error:
        error.file = name
        error.rule = error.rule or "iceberg 4.10"
        raise


def _read_columns(
    data: bytes, format: str, record_count: int | None, name: str, limits: Limits
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the columns of paths and positions."""
    match format:
        case "parquet":
            return _read_parquet(data, name, limits)
        case "avro":
            from harness.metadata.files.avro import read_avro

            schema, table = read_avro(data, file=name, limits=limits)
        case "orc":
            from harness.metadata.files.orc import read_orc

            schema, table = read_orc(data, file=name, limits=limits)
        case _:
            message = f"Cannot read position delete file: its format is {format}, expected parquet, avro or orc"
            raise UnsupportedError(message, cause="UnsupportedFormat", rule="iceberg 4.11")
    if format == "avro" and record_count not in (None, table.num_rows):
        # A file that was cut between two blocks looks complete, and deletes would be lost.
        rows = table.num_rows
        message = f"Position delete file has {rows} rows, its manifest entry records {record_count}. Restore the file"
        raise CorruptDeleteError(message, file=name, field="record_count", rule="iceberg 4.10")
    path, position = _find_columns([(f.name, f.id) for f in schema], name)
    return table.column(path), table.column(position)


def _read_parquet(data: bytes, name: str, limits: Limits) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    if data[-4:] == _ENCRYPTED_PARQUET:
        raise EncryptedTableError(
            "Cannot read position delete file: it is encrypted", cause="EncryptedTable", file=name, rule="iceberg 2.19"
        )
    try:
        source = pa.BufferReader(data)
        first = open_parquet(source)
        count = row_count(first.metadata, file=name)
        limits.check("rows", count, "rows", file=name)
        fields = list(first.schema_arrow)
        texts = [(f.metadata or {}).get(b"PARQUET:field_id") for f in fields]
        ids = [None if text is None or int(text) < 0 else int(text) for text in texts]
        places = _find_columns([(f.name, id_) for f, id_ in zip(fields, ids, strict=True)], name)
        path, position = (fields[place].name for place in places)
        reader = open_parquet(source, metadata=first.metadata, read_dictionary=[path])
        # The files are small: starting threads costs more than they save.
        table = check_rows(reader.read(columns=[path, position], use_threads=False), count, file=name)
        return table.column(path), table.column(position)
    except (pa.ArrowException, OSError, *DAMAGE) as error:
        raise CorruptFileError(
            f"Cannot read position delete file: {error}. Restore the file", file=name, rule="iceberg 4.10"
        ) from error


def _find_columns(columns: Sequence[tuple[str, int | None]], file: str) -> tuple[int, int]:
    """Return the indexes of path and position among the top-level columns.

    Columns are found by id, or by name if no column has an id (iceberg 4.11).
    """
    by_id = any(id_ is not None for _, id_ in columns)
    indexes: list[int] = []
    for label, reserved in (("file_path", FILE_PATH_ID), ("pos", POSITION_ID)):
        matches = [i for i, (name, id_) in enumerate(columns) if (id_ == reserved if by_id else name == label)]
        if len(matches) != 1:
            message = (
                f"Cannot read position delete file: {len(matches)} columns are {label}"
                f" {f'by field id {reserved}' if by_id else 'by name'}, expected one"
            )
            raise CorruptFileError(message, file=file, field=label, rule="iceberg 4.11")
        indexes.append(matches[0])
    return indexes[0], indexes[1]


def _by_path(
    paths: pa.ChunkedArray,
    positions: pa.ChunkedArray,
    data_files: Container[str],
    file: str,
    rename: PathRenaming | None,
) -> PositionsByPath:
    for label, column in (("file_path", paths), ("pos", positions)):
        # Rows may also refer to a null in a dictionary.
        nulls = column.null_count or (pc.sum(pc.is_null(column)).as_py() if pa.types.is_dictionary(column.type) else 0)
        if nulls:
            raise _wrong_rows(f"{nulls} rows without {label}, expected none. Rewrite the delete", label, file)
    codes, names = _dictionary(paths, file)
    if not pa.types.is_integer(positions.type):
        raise _wrong_rows(f"positions of type {positions.type}, expected long", "pos", file)
    values: npt.NDArray[np.int64] = to_numpy(positions.cast(pa.int64()))
    if values.size and int(values.min()) < 0:
        raise _wrong_rows(f"position {int(values.min())}, expected 0 or more. Rewrite the delete", "pos", file)
    row_counts = np.bincount(codes, minlength=len(names)) if len(names) else np.empty(0, dtype=np.int64)
    names = names if rename is None else list(rename(names))
    live = [code for code, name in enumerate(names) if row_counts[code] and name in data_files]
    if len(live) == 1 and row_counts[live[0]] == values.size:
        return {names[live[0]]: roaring.from_positions(values)}
    # One sort groups all rows by path.
    grouped = values[np.argsort(codes, kind="stable")]
    ends = np.cumsum(row_counts)
    bitmaps: dict[str, BitMap64] = {}
    for code in live:
        bitmap = roaring.from_positions(grouped[int(ends[code] - row_counts[code]) : int(ends[code])])
        # A dictionary may contain a path twice.
        bitmaps[names[code]] = bitmaps[names[code]] | bitmap if names[code] in bitmaps else bitmap
    return bitmaps


def _dictionary(paths: pa.ChunkedArray, file: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the index of each row's path in a list of distinct paths, and that list."""
    encoded = paths if pa.types.is_dictionary(paths.type) else pc.dictionary_encode(paths)
    type_ = encoded.type.value_type
    no_text = _wrong_rows(f"paths of type {type_}, expected UTF-8 text", "file_path", file)
    # Some writers declare text as bytes. A number is refused, because it would be cast to some text.
    if type_ not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        raise no_text
    array = encoded.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # without rows there are no chunks
        return np.empty(0, dtype=np.int64), []
    try:
        names = array.dictionary.cast(pa.string()).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise no_text from error
    return to_numpy(array.indices), names


def _wrong_rows(reason: str, column: str, file: str) -> CorruptDeleteError:
    return CorruptDeleteError(f"Position delete file has {reason}", file=file, field=column, rule="iceberg 4.11")
