"""Deleted row positions from position delete files and deletion vectors.

A delete file may name many data files and one data file may be named by many delete files (iceberg 4.12), so a file is
decoded once into one bitmap per data file of the plan, and kept for the plan's life. Rows are never looked at one by
one.

Paths are always read, also where the metadata says that there is only one: as a dictionary column they cost a tenth of
the positions, and metadata may be wrong (iceberg 4.12, 4.14).

Positions from the end of a data file on are kept: they hit nothing, and a wrong record count must not bring rows back.
Only in a deletion vector, whose cardinality counts, are they an error (iceberg 4.19).

Spec: Iceberg, "Position Delete Files" and "Deletion Vectors"; Puffin, "File structure" and "deletion-vector-v1".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, EncryptedTableError, HarnessError, UnsupportedError
from harness.metadata.files import roaring
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.parquet import open_parquet, row_count, whole
from harness.metadata.iceberg.delete_scope import FILE_PATH_ID, check_stray_rows
from harness.metadata.iceberg.deletes import FileDeletes, FilesWithDeletes
from harness.metadata.iceberg.manifests import DataFile, ManifestEntry
from harness.metadata.iceberg.paths import Spellings
from harness.metadata.model.arrow_values import to_numpy
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.paths import PathMap, PhysicalPath, RecordedPath, both_paths
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase

# Puffin files, for deletion vectors. A vector is found by the offset and size in its manifest entry, never by listing
# blobs: blobs of vectors that no longer count stay in their file (iceberg 4.17). So reads of rows need no footer.


_MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_TRAILER_BYTES = 12  # payload size, flags, magic
_WHOLE_FILE_BYTES = 1 << 18  # smaller files are read at once: one request instead of one per part


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """A file whose frame `open_puffin` has checked.

    file: as in messages. physical: where the bytes are. size: in bytes, measured. content: all of a small file.
    """

    storage: Storage = field(hash=False)
    file: str
    physical: PhysicalPath
    size: int
    content: bytes | None = field(repr=False)

    def bytes_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, both in bytes; fewer at the end of the file."""
        if self.content is not None:
            return self.content[offset : offset + length]
        return self.storage.read(self.physical, offset=offset, length=length)

    def footer(self) -> tuple[int, bytes | None]:
        """The size of the footer, in bytes, and its payload; None: the payload is compressed.

        The footer is: magic, payload, its length in four bytes, four bytes of flags, magic.
        """
        tail = self.bytes_at(self.size - _TRAILER_BYTES, 8)
        length, is_compressed = int.from_bytes(tail[:4], "little"), tail[4] & 1
        payload = None if is_compressed else self.bytes_at(self.size - _TRAILER_BYTES - length, length)
        return length + _TRAILER_BYTES + len(_MAGIC), payload


def open_puffin(storage: Storage, physical: PhysicalPath, *, file: str | None = None) -> PuffinFile:
    """The Puffin file at `physical`, after a check of the magic at both ends.

    file: its name in messages; None for `physical`.

    A bare vector without a Puffin frame (old DuckDB wrote such files) is refused: without the frame nothing tells a
    vector from the wrong part of a damaged file.

    Raises:
        MissingFileError: there is no such file.
        CorruptFileError: it does not begin and end with the Puffin magic (iceberg 4.22).
    """
    name = physical if file is None else file
    size = storage.size(physical)
    content = storage.read(physical) if size <= _WHOLE_FILE_BYTES else None
    opened = PuffinFile(storage=storage, file=name, physical=physical, size=size, content=content)
    ends = (opened.bytes_at(0, 4), opened.bytes_at(max(size - 4, 0), 4))
    if size < 4 + 4 + _TRAILER_BYTES or ends != (_MAGIC, _MAGIC):
        message = (
            f"Cannot read Puffin file: its {size} bytes begin with {_hex(ends[0])} and end with {_hex(ends[1])},"
            f" expected {_hex(_MAGIC)} at both ends. Restore the file, or rewrite the delete with a current writer"
        )
        raise CorruptFileError(message, cause="CorruptDeletionVector", file=name, rule="iceberg 4.22")
    return opened


def read_deletion_vector(puffin: PuffinFile, entry: ManifestEntry, *, data_record_count: int | None) -> BitMap64:
    """The deleted row positions of one deletion vector.

    Args:
        puffin: the entry's file, opened.
        data_record_count: rows of the data file that it hits, None if unknown.

    Reads exactly the bytes that the entry names (iceberg 4.17).

    Raises:
        CorruptDeleteError: size, magic, checksum or bitmap is wrong (4.18, 4.20), the number of positions is not the
            entry's record count, or a position is beyond the end of the data file (4.19).
    """
    offset, size = entry.file.content_offset, entry.file.content_size
    try:
        if offset is None or size is None or offset < len(_MAGIC) or size < 0 or offset + size > puffin.size:
            raise _corrupt(
                f"its bytes are {size} from {offset} on, expected within the {puffin.size} bytes of the file",
                rule="iceberg 4.17",
            )
        positions = decode_deletion_vector(puffin.bytes_at(offset, size), limits=puffin.storage.limits)
        _check_counts(positions, entry, data_record_count)
    except HarnessError as error:
        error.field = error.field or entry.file.referenced_data_file
        error.within(file=puffin.file)
        raise
    return positions


def decode_deletion_vector(blob: bytes, *, limits: Limits = DEFAULT) -> BitMap64:
    """The positions in a `deletion-vector-v1` blob: length, magic, bitmap, CRC-32 of magic and bitmap.

    Raises:
        CorruptDeleteError: any part of it is wrong (iceberg 4.18, 4.20).
        LimitError: it holds more positions than `limits` allow.
    """
    if len(blob) < 20:
        raise _corrupt(f"it has {len(blob)} bytes, expected at least 20")
    (length,) = struct.unpack_from(">I", blob, 0)
    if length != len(blob) - 8:
        raise _corrupt(f"it declares {length} bytes, expected {len(blob) - 8} for a blob of {len(blob)} bytes")
    if blob[4:8] != _VECTOR_MAGIC:
        raise _corrupt(f"its magic is {_hex(blob[4:8])}, expected {_hex(_VECTOR_MAGIC)}")
    (declared,) = struct.unpack_from(">I", blob, len(blob) - 4)
    computed = zlib.crc32(memoryview(blob)[4:-4])
    if declared != computed:
        raise _corrupt(f"its checksum is {declared:08x}, computed {computed:08x}")
    return roaring.decode_portable(memoryview(blob)[8:-4], rule="iceberg 4.18", limits=limits)


def _check_counts(positions: BitMap64, entry: ManifestEntry, data_record_count: int | None) -> None:
    count = entry.file.record_count
    if len(positions) != count:
        reason = f"it holds {len(positions)} positions, expected {count} as its manifest entry says"
        raise _corrupt(reason, rule="iceberg 4.19")
    if positions and data_record_count is not None and positions.max() >= data_record_count:
        reason = f"it deletes position {positions.max()} of a data file with {data_record_count} rows"
        raise _corrupt(reason, rule="iceberg 4.19")


def _corrupt(reason: str, *, rule: str = "iceberg 4.18") -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Cannot decode deletion vector: {reason}. Restore the file", cause="CorruptDeletionVector", rule=rule
    )


def _hex(data: bytes) -> str:
    return data.hex(" ").upper() or "nothing"


POSITION_ID = 2147483545
"""Reserved field id of the row position in a position delete file (iceberg 4.11)."""

PositionsByPath: TypeAlias = Mapping[str, BitMap64]


Renamed: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Takes the paths in the rows of one delete file. Gives the names of these among the data files."""

_ENCRYPTED_PARQUET = b"PARE"


def make_loader(
    targets: FilesWithDeletes,
    *,
    storage: Storage,
    path_map: PathMap,
    table: str | None = None,
    spellings: Spellings | None = None,
) -> Callable[[Sequence[int]], Mapping[int, BitMap64]]:
    """A `PositionLoader`: from ordinals of data files to their deleted positions, reading delete files when called.

    Args:
        targets: the planned files; rows of delete files on other paths are ignored.
        spellings: other words for data files; None: none are looked for.

    The loader has no entry for a file without deleted positions, and reads each delete file once. Not thread-safe.

    The loader raises:
        MissingFileError: a delete file is not there (4.10).
        CorruptFileError, CorruptDeleteError: a delete file is damaged, lacks a column, or has a null or negative row
            (4.10, 4.11, 4.18); or it names a data file that it may not hit (4.4).
        UnsupportedError: a delete file has a format or encryption that harness does not read.
    """
    return _Loader(targets, storage, path_map, table, spellings).load


def read_positions(
    storage: Storage, physical: PhysicalPath, file: DataFile, *, wanted: Container[str], renamed: Renamed | None = None
) -> PositionsByPath:
    """The positions in one position delete file, by recorded path of the data file, for the paths in `wanted` only.

    renamed: what the paths are called in `wanted`; None: as they are.

    Raises MissingFileError, CorruptFileError, CorruptDeleteError, UnsupportedError: as `make_loader`'s.
    """
    name = both_paths(file.path, physical)
    try:
        with contained(file=name):
            paths, positions = _read_columns(storage.read(physical), file, name, storage.limits)
            return _by_path(paths, positions, wanted, name, renamed)
    except HarnessError as error:
        error.file = name
        error.rule = error.rule or "iceberg 4.10"
        raise


@dataclass(slots=True)
class _Loader:
    """Deletes of the planned files, and what has been read of them so far."""

    targets: FilesWithDeletes
    storage: Storage
    path_map: PathMap
    table: str | None
    spellings: Spellings | None
    is_told: bool = False
    scopes: dict[str, frozenset[str]] = field(default_factory=dict)
    files: dict[str, PositionsByPath] = field(default_factory=dict)
    vectors: dict[str, BitMap64] = field(default_factory=dict)
    puffins: dict[str, PuffinFile] = field(default_factory=dict)

    def load(self, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        try:
            deletes, found = self.targets.with_positions, {}
            with phase("reading deletes", len(ordinals), "files") as advance:
                for i in ordinals:
                    found[i] = self._positions(deletes[i]) if i in deletes else None
                    advance(1)
        except HarnessError as error:
            error.within(table=self.table)
            raise
        finally:
            # Contents of small puffin files serve this call's vectors, and are not worth keeping.
            self.puffins.clear()
        return {ordinal: positions for ordinal, positions in found.items() if positions}

    def _positions(self, deletes: FileDeletes) -> BitMap64 | None:
        path = deletes.data.file.path
        if deletes.vector is not None:
            if path not in self.vectors:
                vector, count = deletes.vector, deletes.data.file.record_count
                file = vector.file.path
                if file not in self.puffins:
                    physical = self.path_map.physical(file)
                    name = both_paths(file, physical)
                    self.puffins[file] = open_puffin(self.storage, physical, file=name)
                self.vectors[path] = read_deletion_vector(self.puffins[file], vector, data_record_count=count)
            return self.vectors[path]
        for entry in deletes.suspects:
            self._read_file(entry)
        found = [self._read_file(entry).get(path) for entry in deletes.position_files]
        bitmaps = [bitmap for bitmap in found if bitmap is not None]
        return bitmaps[0] if len(bitmaps) == 1 else BitMap64.union(*bitmaps) if bitmaps else None

    def _read_file(self, entry: ManifestEntry) -> PositionsByPath:
        path = entry.file.path
        if path not in self.files:
            physical = self.path_map.physical(path)
            renamed = None if self.spellings is None else partial(self._renamed, path, self.spellings)
            positions = read_positions(self.storage, physical, entry.file, wanted=self.targets, renamed=renamed)
            for named in positions:
                target = entry.file.referenced_data_file
                if named not in self.scopes:
                    in_scope = self.targets[named].position_files
                    self.scopes[named] = frozenset(each.file.path for each in in_scope)
                if path not in self.scopes[named] or target not in (None, named):
                    stray = self.targets[named]
                    check_stray_rows(entry, stray.data, has_vector=stray.vector is not None)
            self.files[path] = positions
        return self.files[path]

    def _renamed(self, delete: str, spellings: Spellings, names: Sequence[str]) -> Sequence[str]:
        """The data files that the caller's path map gives for names of none; else a warning, where one is nearly."""
        if spellings.path_map.said:
            names = [n if n in self.targets else spellings.joined(RecordedPath(n), self.targets) or n for n in names]
        if not self.is_told and not any(name in self.targets for name in names):
            others = spellings.alike(names, self.targets.authorities)
            data = next((other for other in others if other in self.targets), None)
            if data is not None:
                self.is_told = True
                spellings.tell(delete, others[data], data)
        return names


def _read_columns(data: bytes, file: DataFile, name: str, limits: Limits) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The path and the position of every row."""
    match file.format:
        case "parquet":
            return _read_parquet(data, name, limits)
        case "avro":
            from harness.metadata.files.avro import read_avro

            schema, table = read_avro(data, file=name, limits=limits)
        case "orc":
            from harness.metadata.files.orc import read_orc

            schema, table = read_orc(data, file=name, limits=limits)
        case _:
            message = f"Cannot read position delete file: its format is {file.format}, expected parquet, avro or orc"
            raise UnsupportedError(message, cause="UnsupportedFormat", rule="iceberg 4.11")
    if file.format == "avro" and file.record_count not in (None, table.num_rows):
        # Cut between two blocks it looks whole, and would lose deletes.
        message = (
            f"Position delete file has {table.num_rows} rows, its entry says {file.record_count}. Restore the file"
        )
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
        # Small files: starting threads costs more than they save.
        table = whole(reader.read(columns=[path, position], use_threads=False), count, file=name)
        return table.column(path), table.column(position)
    except (pa.ArrowException, OSError, *DAMAGE) as error:
        raise CorruptFileError(
            f"Cannot read position delete file: {error}. Restore the file", file=name, rule="iceberg 4.10"
        ) from error


def _find_columns(columns: Sequence[tuple[str, int | None]], file: str) -> tuple[int, int]:
    """Indexes of path and position among top-level columns: by id, or by name if no column has one (iceberg 4.11)."""
    by_id = any(id_ is not None for _, id_ in columns)
    found: list[int] = []
    for label, reserved in (("file_path", FILE_PATH_ID), ("pos", POSITION_ID)):
        matches = [i for i, (name, id_) in enumerate(columns) if (id_ == reserved if by_id else name == label)]
        if len(matches) != 1:
            message = (
                f"Cannot read position delete file: {len(matches)} columns are {label}"
                f" {f'by field id {reserved}' if by_id else 'by name'}, expected one"
            )
            raise CorruptFileError(message, file=file, field=label, rule="iceberg 4.11")
        found.append(matches[0])
    return found[0], found[1]


def _by_path(
    paths: pa.ChunkedArray, positions: pa.ChunkedArray, wanted: Container[str], file: str, renamed: Renamed | None
) -> PositionsByPath:
    for label, column in (("file_path", paths), ("pos", positions)):
        # A dictionary may also hold a null that rows point to.
        nulls = column.null_count or (pc.sum(pc.is_null(column)).as_py() if pa.types.is_dictionary(column.type) else 0)
        if nulls:
            raise _wrong_rows(f"{nulls} rows without {label}, expected none. Rewrite the delete", label, file)
    codes, names = _dictionary(paths, file)
    if not pa.types.is_integer(positions.type):
        raise _wrong_rows(f"positions of type {positions.type}, expected long", "pos", file)
    values: npt.NDArray[np.int64] = to_numpy(positions.cast(pa.int64()))
    if values.size and int(values.min()) < 0:
        raise _wrong_rows(f"position {int(values.min())}, expected 0 or more. Rewrite the delete", "pos", file)
    used = np.bincount(codes, minlength=len(names)) if len(names) else np.empty(0, dtype=np.int64)
    names = names if renamed is None else list(renamed(names))
    live = [code for code, name in enumerate(names) if used[code] and name in wanted]
    if len(live) == 1 and used[live[0]] == values.size:
        return {names[live[0]]: roaring.from_positions(values)}
    # One sort groups all of the rows, in whatever order they are.
    grouped = values[np.argsort(codes, kind="stable")]
    ends = np.cumsum(used)
    found: dict[str, BitMap64] = {}
    for code in live:
        bitmap = roaring.from_positions(grouped[int(ends[code] - used[code]) : int(ends[code])])
        # A dictionary may hold a path twice.
        found[names[code]] = found[names[code]] | bitmap if names[code] in found else bitmap
    return found


def _dictionary(paths: pa.ChunkedArray, file: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Per row the index of its path, and the paths."""
    encoded = paths if pa.types.is_dictionary(paths.type) else pc.dictionary_encode(paths)
    type_ = encoded.type.value_type
    no_text = _wrong_rows(f"paths of type {type_}, expected UTF-8 text", "file_path", file)
    # Bytes are what text is stored as; writers may not say that it is text. A number would be cast to some path.
    if type_ not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        raise no_text
    array = encoded.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no rows, no chunks
        return np.empty(0, dtype=np.int64), []
    try:
        names = array.dictionary.cast(pa.string()).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise no_text from error
    return to_numpy(array.indices), names


def _wrong_rows(reason: str, column: str, file: str) -> CorruptDeleteError:
    return CorruptDeleteError(f"Position delete file has {reason}", file=file, field=column, rule="iceberg 4.11")
