"""Deleted row positions of an Iceberg table, read from delete files and deletion vectors (iceberg 4.11 to 4.22)."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, EncryptedTableError, HarnessError
from harness.testing.oracle.planner.avro import read_avro
from harness.testing.oracle.planner.iceberg_deletes import Applying, mismatch
from harness.testing.oracle.planner.iceberg_manifests import Files, LiveFile
from harness.testing.oracle.planner.roaring import BitmapError, decode_portable

_PATH, _POSITION = (2147483546, "file_path"), (2147483545, "pos")
_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True, slots=True)
class Positions:
    """The `load_positions` of a plan: a data file and its deletes per ordinal."""

    targets: Sequence[tuple[LiveFile, Applying]]
    files: Files
    table: str
    read: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def load(self, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        """Deleted positions by ordinal; files without any are absent.

        Raises:
            CorruptDeleteError, CorruptFileError, MissingFileError, UnsupportedError: a delete cannot be read, or names
                a data file that it may not hit.
        """
        try:
            found = {ordinal: self._positions(*self.targets[ordinal]) for ordinal in ordinals}
        except HarnessError as error:
            raise error.within(table=self.table) from error.__cause__
        return {ordinal: positions for ordinal, positions in found.items() if positions}

    def _positions(self, data: LiveFile, deletes: Applying) -> BitMap64:
        if deletes.vector is not None:
            return _vector(deletes.vector, data, self.files)
        for delete in deletes.foreign:
            if any(path == data.path for path, _ in self._rows(delete)):
                raise mismatch(delete, data)
        rows = (row for delete in deletes.positions for row in self._rows(delete))
        return BitMap64([position for path, position in rows if path == data.path])

    def _rows(self, delete: LiveFile) -> list[tuple[str, int]]:
        if delete.path not in self.read:
            rows = _rows(delete, self.files.read(delete.path))
            self._check_single(delete, rows)
            self.read[delete.path] = rows
        return self.read[delete.path]

    def _check_single(self, delete: LiveFile, rows: list[tuple[str, int]]) -> None:
        """A file for one data file may not name another that it would hit (iceberg 4.4)."""
        if delete.referenced is None:
            return
        named = {path for path, _ in rows} - {delete.referenced}
        for data, deletes in self.targets:
            if data.path in named and deletes.vector is None and delete.sequence_number >= data.sequence_number:
                raise mismatch(delete, data)


def _text(path: Any) -> Any:
    """Text of bytes that are not marked as text, as some writers leave them; anything else as it is."""
    try:
        return path.decode() if isinstance(path, bytes) else path
    except UnicodeDecodeError:
        return path


def _rows(delete: LiveFile, data: bytes) -> list[tuple[str, int]]:
    try:
        columns = _columns(delete, data)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        message = f"Cannot read position delete file: {error}"
        raise CorruptFileError(message, file=delete.path, rule="iceberg 4.10") from error
    paths, positions = (_column(columns, wanted, delete.path) for wanted in (_PATH, _POSITION))
    paths = [_text(path) for path in paths]
    if delete.format == "avro" and delete.record_count not in (None, len(paths)):  # cut between two blocks
        message = f"A position delete file has {len(paths)} rows, its entry says {delete.record_count}"
        raise CorruptDeleteError(message, file=delete.path, rule="iceberg 4.10")
    for path, position in zip(paths, positions, strict=True):
        if not isinstance(path, str) or not isinstance(position, int) or position < 0:
            message = f"A position delete has path {path!r} and position {position!r}"
            raise CorruptDeleteError(message, file=delete.path, rule="iceberg 4.11")
    return list(zip(paths, positions, strict=True))


def _columns(delete: LiveFile, data: bytes) -> list[tuple[int | None, str, list[Any]]]:
    """Id, name and values of every column but the deleted rows' contents."""
    match delete.format:
        case "avro":
            records = read_avro(data, file=delete.path)
            keys = records.kinds()
            return [
                (key if isinstance(key, int) else None, str(key), [record[key] for record in records.records])
                for key in keys
            ]
        case "orc":
            orc = pa.orc.ORCFile(io.BytesIO(data))
            wanted = [f.name for f in orc.schema if not pa.types.is_nested(f.type)]
            table, id_key = orc.read(columns=wanted), b"iceberg.id"
        case _:
            if data[-4:] == b"PARE":
                raise EncryptedTableError("Cannot read an encrypted file", file=delete.path, rule="iceberg 2.19")
            parquet = pq.ParquetFile(io.BytesIO(data))
            wanted = [f.name for f in parquet.schema_arrow if not pa.types.is_nested(f.type)]
            table, id_key = parquet.read(columns=wanted), b"PARQUET:field_id"
            if table.num_rows != parquet.metadata.num_rows:
                raise CorruptFileError("Rows of a position delete file are lost", file=delete.path, rule="iceberg 4.10")
    found = []
    for f, column in zip(table.schema, table.columns, strict=True):
        id_ = (f.metadata or {}).get(id_key)
        found.append((None if id_ is None or int(id_) < 0 else int(id_), f.name, column.to_pylist()))
    return found


def _column(columns: list[tuple[int | None, str, list[Any]]], wanted: tuple[int, str], file: str) -> list[Any]:
    """The column by its reserved id; by name only if no column has an id (iceberg 4.11)."""
    has_ids = any(id_ is not None for id_, _, _ in columns)
    found = [values for id_, name, values in columns if (id_ == wanted[0] if has_ids else name == wanted[1])]
    if len(found) != 1:
        message = f"Cannot read position delete file: {len(found)} columns are {wanted[1]}"
        raise CorruptFileError(message, file=file, rule="iceberg 4.11")
    return found[0]


def _vector(vector: LiveFile, data: LiveFile, files: Files) -> BitMap64:
    """A deletion vector (iceberg 4.17 to 4.20)."""
    length, offset, puffin = vector.length or 0, vector.offset or 0, files.read(vector.path)
    if puffin[:4] != b"PFA1" or puffin[-4:] != b"PFA1":
        message = "Cannot read deletion vector: its file is no Puffin file"
        raise CorruptFileError(message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.22")
    blob = puffin[offset : offset + length]
    if len(blob) != length or length < 20 or blob[4:8] != _MAGIC:
        raise _broken(f"{len(blob)} of {length} bytes, magic {blob[4:8].hex()}", vector)
    if struct.unpack(">I", blob[:4]) != (length - 8,) or struct.unpack(">I", blob[-4:]) != (zlib.crc32(blob[4:-4]),):
        raise _broken("its length or checksum is wrong", vector)
    try:
        positions = decode_portable(blob[8:-4], order="any")
    except BitmapError as error:
        raise _broken(str(error), vector) from error
    if len(positions) != vector.record_count:
        raise _broken(f"{len(positions)} positions, its entry says {vector.record_count}", vector)
    if positions and data.record_count is not None and positions.max() >= data.record_count:
        raise _broken(f"position {positions.max()} of {data.record_count} rows", vector)
    return positions


def _broken(reason: str, vector: LiveFile) -> CorruptDeleteError:
    message = f"Cannot read deletion vector: {reason}"
    return CorruptDeleteError(message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.18")
