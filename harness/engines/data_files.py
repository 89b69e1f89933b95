"""Data and delete files: their names, whether they are readable, and reading whole files as Arrow tables."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Container, Iterable, Sequence
from types import UnionType
from typing import IO, TypeVar, cast
from urllib.parse import quote, unquote

import pyarrow as pa

from harness.errors import (
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from harness.metadata.files.parquet import check_rows, open_parquet, row_count
from harness.metadata.model.arrow_values import array_of, children_of, nested_type, with_children
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field, GeographyType, GeometryType, VariantType, children
from harness.metadata.plan.projection import ColumnSource, FileColumn
from harness.storage.gate import ABSENT, DENIED
from harness.storage.limits import contained
from harness.storage.paths import PhysicalPath, both_paths, is_local
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase, read_ahead

T = TypeVar("T")
R = TypeVar("R")
_MAGIC = 4


@dataclass(frozen=True, slots=True)
class FileName:
    """A file's recorded path, which identifies the file, and the physical path at which its bytes are stored."""

    recorded: str
    physical: PhysicalPath

    def __str__(self) -> str:
        return both_paths(self.recorded, self.physical)


def check_format(file: FileName, file_format: str, *, table: str) -> None:
    """Raise UnsupportedError if a file that has to be read through Arrow is neither Avro nor ORC (iceberg 7.5)."""
    if file_format not in ("avro", "orc"):
        message = f"Cannot read file: its format {file_format!r} is not supported"
        raise UnsupportedError(message, cause="UnsupportedFormat", table=table, file=str(file), rule="iceberg 7.5")


def check_file(file: FileName, storage: Storage, *, table: str) -> None:
    """Check that a file exists, has content, and is a regular, unencrypted file.

    Raises:
        MissingFileError: The file is missing, empty, or not a regular file. The message has both paths.
        EncryptedTableError: The file is encrypted.
    """
    try:
        head = storage.read(file.physical, length=_MAGIC)  # one request in an object store, for these bytes only
    except MissingFileError:
        head = b""
    except StorageError:
        if storage.size(file.physical) != 0:  # a range of an empty object is an error in some stores
            raise
        head = b""
    if not head:
        raise missing_file(file, storage.fault(file.physical), storage, table=table)
    check_magic(file, head, table=table)


def check_magic(file: FileName, head: bytes, *, table: str) -> None:
    """Raise EncryptedTableError if a file's first four bytes mark it as encrypted."""
    if head in (b"PARE", b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted file", table=table, file=str(file), rule="iceberg 2.19")


def missing_file(file: FileName, fault: str | None, storage: Storage, *, table: str) -> MissingFileError:
    """Return the error for a file whose bytes cannot be read.

    Args:
        file: The file.
        fault: The reason, as `Storage.fault` returns it. None if there is no reason.
        storage: The storage, which is searched for the file under other encodings of its path.
        table: The table's location.
    """
    reason = "it is missing or empty" if fault in (None, ABSENT) else fault
    remedy = "let this user read it" if fault == DENIED else "restore it, or map its path with path_map"
    other = _path_in_another_encoding(file, storage) if fault in (None, ABSENT) else None
    if other is not None:
        reason = f"{reason}, but {other} exists: its writer encoded the path differently from the metadata"
        remedy = f"open the table with path_map={{{_path_map_item(file.physical, other)}}}"
    return MissingFileError(
        f"Cannot read a data file: {reason}; {remedy}",
        cause="MissingFile",
        table=table,
        file=str(file),
        rule="iceberg 7.6",
        options=("path_map",),
    )


def _path_in_another_encoding(file: FileName, storage: Storage) -> str | None:
    """Return the path of an existing file whose name differs from the recorded one only in percent-encoding, or None.

    Paths in a Delta log are percent-encoded (delta L38). Some writers recorded a path without encoding it, or encoded
    the name of the file on disk a second time: deltalake 0.10, and deltalake 0.12 to 0.14 for a tilde.
    """
    decoded = unquote(file.recorded)
    if not file.physical.endswith(decoded):
        return None
    stem = file.physical.removesuffix(decoded)
    for name in dict.fromkeys((file.recorded, _encoded(file.recorded), _encoded(decoded))):
        try:
            path = PhysicalPath(stem + name)
            if name != decoded and storage.fault(path) is None and storage.size(path):
                return path
        except HarnessError:  # for example because the path is outside the allowed roots
            continue
    return None


def _encoded(path: str) -> str:
    return quote(path, safe="/=").replace("~", "%7E")


def _path_map_item(missing: str, existing: str) -> str:
    """Return a path map item from one path to another. It maps only the folders if the file names are equal."""
    before, after = missing, existing
    if before.rpartition("/")[2] == after.rpartition("/")[2]:
        before, after = before.rpartition("/")[0], after.rpartition("/")[0]
    return f"{before!r}: {after!r}"


def corrupt_file(
    message: str,
    file: FileName | str | None,
    *,
    table: str | None = None,
    field: str | None = None,
    rule: str = "iceberg 7.6",
) -> CorruptFileError:
    """Return the error for a data file whose content is invalid.

    Args:
        message: The message.
        file: The file, or None if it is not known.
        table: The table's location.
        field: A column, or a key of the metadata.
        rule: The rule that the file breaks.
    """
    name = None if file is None else str(file)
    return CorruptFileError(message, cause="CorruptDataFile", table=table, file=name, field=field, rule=rule)


def map_files(function: Callable[[T], R], files: Sequence[T], physical: Iterable[str]) -> list[R]:
    """Apply a function to each file and return the results in order. Remote files are processed in parallel.

    Args:
        function: The function.
        files: The files.
        physical: The physical paths of the files.
    """
    if all(map(is_local, physical)):
        return [function(file) for file in files]
    results = []
    with phase("opening files", len(files), "files") as advance, read_ahead(function, files) as read:
        for file in files:
            results.append(read(file))
            advance(1)
    return results


def open_stream(file: FileName, storage: Storage) -> IO[bytes]:
    """Open a file as a seekable stream, so that libraries can read the end of the file without the rest."""
    return cast(IO[bytes], io.BufferedReader(_StoredFile(storage, file.physical)))


class _StoredFile(io.RawIOBase):
    """A seekable raw stream over a stored file. Each read fetches only the requested bytes."""

    def __init__(self, storage: Storage, path: PhysicalPath) -> None:
        super().__init__()
        self._storage, self._path = storage, path
        self._size, self._position = storage.size(path), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast(bytearray, buffer))
        data = self._storage.read(self._path, offset=self._position, length=len(target))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


# Files without columns, for which the footer's row count is all there is to read.
#
# Writers omit partition columns of Delta tables and columns of unknown type, which can leave a file with no column.
# DuckDB and Spark refuse these files or return no rows, so engines produce as many rows as the footer counts.


def columnless_rows(files: Sequence[FileName], storage: Storage) -> dict[PhysicalPath, int]:
    """Return the row counts of the Parquet files that have no columns, by physical path, as their footers record them.

    Files whose footers cannot be read are omitted: the later read of their columns reports the error.

    Raises:
        CorruptFileError: The row groups of a footer do not add up to its row count.
    """
    from pyarrow import parquet

    def rows(file: FileName) -> int | None:
        try:
            footer = parquet.read_metadata(open_stream(file, storage))
        # UnicodeError: an Arrow message can contain bytes of the file
        except (HarnessError, pa.ArrowException, OSError, UnicodeError):
            return None
        return None if footer.num_columns else row_count(footer, file=str(file))

    counts = map_files(rows, files, [file.physical for file in files])
    return {file.physical: count for file, count in zip(files, counts, strict=True) if count is not None}


# Well-known binary (WKB) in one canonical form: little-endian, ISO codes, no SRID (frontier F1.6).
#
# Writers use either byte order, and PostGIS flags for Z, M and SRID. All engines return the canonical form.


_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000
_POINT, _LINE, _POLYGON = 1, 2, 3
_PARTS = {4: (_POINT,), 5: (_LINE,), 6: (_POLYGON,), 7: range(1, 8)}
"""The kinds of parts that each kind of collection may have."""
_KINDS = range(1, 8)
_MAX_DEPTH = 100


def canonical_wkb(data: bytes) -> bytes:
    """Return a geometry in canonical form.

    Raises:
        ValueError: The bytes are not WKB (frontier F1.5, F1.7).
    """
    out: list[bytes] = []
    try:
        position = _geometry(data, 0, out, kinds=_KINDS, dimensions=None, depth=0)
    except (IndexError, struct.error) as error:
        raise ValueError("it ends early") from error
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the geometry")
    return b"".join(out)


def _geometry(
    data: bytes, position: int, out: list[bytes], *, kinds: Container[int], dimensions: int | None, depth: int
) -> int:
    """Append one geometry to `out` and return the position after it.

    Args:
        data: The bytes.
        position: The start of the geometry.
        out: The converted parts so far.
        kinds: The allowed geometry types. A part of a collection must have the type of the collection.
        dimensions: The required dimensions, or None for any. A part has the dimensions of its collection.
        depth: The nesting depth.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"it nests deeper than {_MAX_DEPTH} levels")
    if data[position] > 1:
        raise ValueError(f"{data[position]} is not a byte order")
    order = "<" if data[position] else ">"
    (code,) = struct.unpack_from(f"{order}I", data, position + 1)
    position += 9 if code & _SRID else 5
    iso, kind = divmod(code & ~(_Z | _M | _SRID), 1000)
    if iso > 3 or kind not in _KINDS:
        raise ValueError(f"{code} is not a geometry type")
    zm_flags = iso | bool(code & _Z) | bool(code & _M) << 1  # dimensions beyond the plane: 1 for Z plus 2 for M
    if kind not in kinds or dimensions not in (None, zm_flags):
        raise ValueError(f"type {code} is not allowed in its collection")
    out.append(struct.pack("<BI", 1, kind + 1000 * zm_flags))
    width = 2 + zm_flags.bit_count()
    if kind == _POINT:
        return _numbers(data, position, order, width, out)
    count, position = _count(data, position, order, out)
    if kind == _LINE:
        return _numbers(data, position, order, width * count, out)
    for _ in range(count):
        if kind == _POLYGON:
            points, position = _count(data, position, order, out)
            position = _numbers(data, position, order, width * points, out)
        else:
            position = _geometry(data, position, out, kinds=_PARTS[kind], dimensions=zm_flags, depth=depth + 1)
    return position


def _count(data: bytes, position: int, order: str, out: list[bytes]) -> tuple[int, int]:
    (count,) = struct.unpack_from(f"{order}I", data, position)
    out.append(struct.pack("<I", count))
    return count, position + 4


def _numbers(data: bytes, position: int, order: str, count: int, out: list[bytes]) -> int:
    """Append `count` doubles to `out`, bit by bit, and return the position after them."""
    end = position + 8 * count
    if end > len(data):
        raise IndexError(end)
    numbers = data[position:end]
    if order == ">":
        numbers = struct.pack(f"<{count}Q", *struct.unpack(f">{count}Q", numbers))
    out.append(numbers)
    return end


def variants(fields: Sequence[Field], sources: Sequence[ColumnSource]) -> Iterable[tuple[int, ...]]:
    """Return the places of stored columns, at any level, that the table reads as variant.

    A place is a path of indexes.
    """
    return _stored_as(VariantType, fields, sources)


def geometries(fields: Sequence[Field], sources: Sequence[ColumnSource]) -> Iterable[tuple[int, ...]]:
    """Return the places of stored columns, at any level, that the table reads as geometry or geography."""
    return _stored_as(GeometryType | GeographyType, fields, sources)


def _stored_as(
    kind: type | UnionType, fields: Sequence[Field], sources: Sequence[ColumnSource]
) -> Iterable[tuple[int, ...]]:
    for target, source in zip(fields, sources, strict=True):
        if not isinstance(source, FileColumn):
            continue
        if isinstance(target.type, kind):
            yield (source.place,)
        else:
            inner_places = _stored_as(kind, children(target.type), source.parts)
            yield from ((source.place, *inner) for inner in inner_places)


def load(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, pa.Table]:
    """Read an Avro or ORC file and return its physical schema and all rows in physical order.

    Raises:
        UnsupportedError: The file has another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError, LimitError: As their names say, with the file's name.
    """
    check_format(file, file_format, table=table)
    check_file(file, storage, table=table)
    try:
        data, name = storage.read(file.physical), str(file)
        with contained(file=name):
            if file_format == "orc":
                from harness.metadata.files.orc import read_orc

                return read_orc(data, file=name, limits=storage.limits)
            from harness.metadata.files.avro import read_avro

            return read_avro(data, file=name, limits=storage.limits)
    except HarnessError as error:
        raise error.within(table=table) from error.__cause__


def load_parquet(
    file: FileName,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    storage: Storage,
    *,
    table: str,
) -> pa.Table:
    """Read all rows of a Parquet file in physical order. Variant columns become JSON text.

    Args:
        file: The file.
        schema: The file's physical schema.
        fields: The table's fields.
        sources: For each field, its place in the file. The sources determine which columns are variants.
        storage: The storage that reads the file.
        table: The table's location, for errors.

    Raises:
        CorruptFileError: The file or a variant value cannot be decoded.
        LimitError: The file has more rows than may be read at once.
    """
    from harness.metadata.files.variant import variant_to_json

    name = str(file)
    try:
        with contained(file=name):
            stored = open_parquet(pa.BufferReader(storage.read(file.physical)), arrow_extensions_enabled=False)
            count = row_count(stored.metadata, file=name)
            storage.limits.check("rows", count, "rows", file=name)
            rows = stored.read()
            if not schema:
                return rows  # a table built from zero arrays would have zero rows
            check_rows(rows, count, file=name)
            encoded = set(variants(fields, sources))
            chunks = [rows.column(i).combine_chunks() for i in range(len(schema))]
            columns = [_mapped(array, (i,), encoded, variant_to_json) for i, array in enumerate(chunks)]
            return pa.table(columns, names=[str(i) for i in range(len(columns))])
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise CorruptFileError(f"Cannot read file: {error}", cause="CorruptDataFile", table=table, file=name) from error
    except HarnessError as error:
        raise error.within(table=table, file=name) from error.__cause__


def with_canonical_geometries(
    rows: pa.Table, fields: Sequence[Field], sources: Sequence[ColumnSource], *, file: FileName, table: str
) -> pa.Table:
    """Return the rows with all geometries in canonical form.

    Raise CorruptFileError for bytes that are not WKB (frontier F1.7).
    """

    def canonical(array: pa.Array) -> pa.Array:
        return array_of([None if v is None else canonical_wkb(v) for v in array.to_pylist()], pa.binary())

    places = set(geometries(fields, sources))
    for source in sources:
        if not isinstance(source, FileColumn) or not any(path[0] == source.place for path in places):
            continue
        place = source.place
        try:
            column = _mapped(rows.column(place).combine_chunks(), (place,), places, canonical)
        except ValueError as error:
            reason = f"Cannot read file: a geometry is not well-known binary: {error}; restore it"
            raise corrupt_file(reason, file, table=table, field=source.physical.name, rule="frontier F1.7") from error
        rows = rows.set_column(place, rows.column_names[place], column)
    return rows


def _mapped(
    array: pa.Array, place: tuple[int, ...], places: set[tuple[int, ...]], change: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Return `array` with the columns at the chosen places replaced by the result of `change`."""
    if place in places:
        return change(array)
    if not any(path[: len(place)] == place for path in places):
        return array
    parts = [_mapped(child, (*place, i), places, change) for i, child in enumerate(children_of(array))]
    type_ = nested_type(array.type, [part.type for part in parts])
    if pa.types.is_struct(type_):  # files may differ in nullability, and their rows are read under one schema
        type_ = pa.struct([field.with_nullable(True) for field in type_])
    return with_children(array, parts, type_)
