"""Deleted row positions of a Delta table: from the descriptors in its log to bitmaps.

A vector is inline in the log or lies in a `.bin` file with others. Every length, checksum and count is held against
what the log says, because a vector that is read wrong gives deleted rows back, or takes live ones away. So a vector
that says that it deletes no row is read too, although delta D9 would let it be: the bitmap may know better.

Spec: Delta, "Deletion Vectors" and "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError
from harness.metadata.delta.actions import DeletionVectorDescriptor
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.paths import TableRoot
from harness.metadata.files import roaring
from harness.metadata.files.parquet import row_count
from harness.metadata.plan.scan_plan import PositionDelete, PositionLoader
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import PhysicalPath, RecordedPath, join
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase

# Z85, the text form of bytes in deletion vector descriptors: five characters stand for four bytes.
#
# Spec: ZeroMQ RFC 32; Delta, "Deletion Vectors".


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LIMIT = 1 << 32


def decode(text: str) -> bytes:
    """The bytes that `text` stands for. Raises ValueError, with what is wrong."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters, expected a multiple of 5")
    unknown = next((c for c in text if c not in _VALUES), None)
    if unknown is not None:
        raise ValueError(f"the character {unknown!r}, which Z85 does not have")
    words = [_word(text[start : start + 5]) for start in range(0, len(text), 5)]
    return struct.pack(f">{len(words)}I", *words)


def _word(group: str) -> int:
    value = 0
    for character in group:
        value = value * 85 + _VALUES[character]
    if value >= _LIMIT:
        raise ValueError(f"the group {group!r}, which is above 32 bits")
    return value


_PORTABLE, _NATIVE = 1681511377, 1681511376
_FORMAT_VERSION = 1
_FIRST_OFFSET = 1  # the version byte stands before it
_FRAME = 8  # bytes of length and checksum around a vector
_UUID_CHARACTERS = 20
_PARQUET_TAIL = 8  # bytes of footer length and magic


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFile:
    """A data file that has a deletion vector.

    path, physical: of the data file.
    record_count: its physical rows as recorded; None: not recorded, the footer is asked (delta D15).
    """

    path: str
    physical: PhysicalPath
    record_count: int | None
    vector: DeletionVectorDescriptor


def make_loader(
    targets: Mapping[int, DeletedFile], *, storage: Storage, locator: Locator, table: str
) -> PositionLoader:
    """A `PositionLoader`: from ordinals of data files to their deleted positions, reading vectors when called.

    targets: by ordinal, every planned file that has a vector.

    The loader has no entry for a file without deleted positions, and reads each vector once. Not thread-safe.

    The loader raises:
        MissingFileError: a file of vectors, or a data file whose footer is needed, is not there (D14).
        CorruptDeleteError: a vector is damaged, or contradicts its descriptor or the data file (D1 to D9).
    """
    return _Loader(dict(targets), storage, locator, table).load


def vector_path(vector: DeletionVectorDescriptor, root: TableRoot) -> RecordedPath | None:
    """The canonical path of the file that holds a vector; None for an inline one (delta D2, D3).

    Raises:
        CorruptDeleteError: the storage type is unknown, or the path cannot be decoded.
        InvalidTableError, UnsupportedError: as for `TableRoot.canonical`.
    """
    text = vector.path_or_inline
    match vector.storage_type:
        case "i":
            return None
        case "u":
            if len(text) < _UUID_CHARACTERS:
                raise _broken(f"its path {text!r} is shorter than {_UUID_CHARACTERS} characters", "delta D2")
            prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]  # the prefix is a random folder
            try:
                name = f"deletion_vector_{uuid.UUID(bytes=decode(encoded))}.bin"
            except ValueError as error:
                raise _broken(f"its path {text!r} has {error}", "delta D2") from None
            return RecordedPath(join(root.path, prefix, name) if prefix else join(root.path, name))
        case "p":
            if not text.startswith("/") and ":" not in text.split("/", 1)[0]:
                raise _broken(f"its path {text!r} is relative, expected an absolute URI", "delta D3")
            return root.canonical(text)
        case other:
            raise _broken(f"its storage type is {other!r}, expected u, p or i", "delta D1")


def position_delete(
    ordinal: int, vector: DeletionVectorDescriptor, locator: Locator, *, is_whole: bool
) -> PositionDelete:
    """The source of deleted positions of a file. is_whole: the vector alone says which rows of the file are read."""
    path = vector_path(vector, locator.root)
    return PositionDelete(
        kind="deletion vector",
        path="inline" if path is None else path,
        offset=vector.offset,
        length=vector.size,
        record_count=vector.cardinality,
        files=(ordinal,),
        physical=None if path is None or not is_whole else locator.path_map.physical(path),
    )


def decode_inline(vector: DeletionVectorDescriptor, *, limits: Limits = DEFAULT) -> BitMap64:
    """The positions of an inline vector (delta D4). Raises CorruptDeleteError."""
    if not vector.path_or_inline and vector.size == 0:
        return _counted(BitMap64(), vector)  # how Delta on Spark spells a vector of no rows
    try:
        data = decode(vector.path_or_inline)
    except ValueError as error:
        raise _broken(f"its inline text has {error}", "delta D4") from None
    if not 0 <= len(data) - vector.size < 4:
        raise _broken(f"its inline text gives {len(data)} bytes, {vector.size} are declared", "delta D4")
    return _counted(_decode(data[: vector.size], limits), vector)


def decode_stored(frame: bytes, vector: DeletionVectorDescriptor, *, limits: Limits = DEFAULT) -> BitMap64:
    """The positions of a stored vector, from its length, bitmap and checksum (delta D5). Raises CorruptDeleteError."""
    if len(frame) < vector.size + _FRAME:
        raise _broken(f"{len(frame)} bytes are left at its offset, expected {vector.size + _FRAME}", "delta D14")
    (length,) = struct.unpack_from(">i", frame)
    if length != vector.size:
        raise _broken(f"the file says {length} bytes, its descriptor {vector.size}", "delta D5")
    data = frame[4 : 4 + length]
    (checksum,) = struct.unpack_from(">I", frame, 4 + length)
    if zlib.crc32(data) != checksum:
        raise _broken(f"its checksum is {zlib.crc32(data):#010x}, the file says {checksum:#010x}", "delta D5")
    return _counted(_decode(data, limits), vector)


def footer_rows(path: str, physical: PhysicalPath, storage: Storage) -> int:
    """The rows of a Parquet file by its footer; path: as recorded. Raises CorruptFileError, MissingFileError."""
    try:
        size = storage.size(physical)
        tail = storage.read(physical, offset=max(0, size - _PARQUET_TAIL), length=_PARQUET_TAIL)
        length = int.from_bytes(tail[:4], "little")
        start = max(0, size - _PARQUET_TAIL - length)
        footer = storage.read(physical, offset=start, length=size - start)
        return row_count(pq.read_metadata(pa.BufferReader(b"PAR1" + footer)), file=path)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise CorruptFileError(f"Cannot read the footer of a Parquet file: {error}", file=path) from error


def _broken(reason: str, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Cannot read deletion vector: {reason}. Restore the table", cause="DeletionVectorError", rule=rule
    )


def _decode(data: bytes, limits: Limits) -> BitMap64:
    """A bitmap behind its magic number (delta D7, D8)."""
    if len(data) < 4:
        raise _broken(f"it has {len(data)} bytes, no bitmap is that short", "delta D7")
    (magic,) = struct.unpack_from("<i", data)
    try:
        if magic == _PORTABLE:
            return roaring.decode_portable(memoryview(data)[4:], key_order="ascending", rule="delta D7", limits=limits)
        if magic == _NATIVE:
            return roaring.decode_native(memoryview(data)[4:], rule="delta D7", limits=limits)
        if struct.unpack_from(">i", data) == (_NATIVE,):
            return roaring.decode_native(_little_endian(data), rule="delta D7", limits=limits)
    except CorruptDeleteError as error:
        error.cause = "DeletionVectorError"
        raise
    raise _broken(f"its magic number is {magic}, expected {_PORTABLE} or {_NATIVE}", "delta D7")


def _little_endian(data: bytes) -> bytes:
    """A native bitmap whose count and lengths are big-endian, as in the sample of the protocol text (delta D4)."""
    parts, at = [data[4:8][::-1]], 8
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        stop = at + 4 + max(0, length)
        parts += (data[at : at + 4][::-1], data[at + 4 : stop])
        at = stop
    return b"".join((*parts, data[at:]))


def _counted(positions: BitMap64, vector: DeletionVectorDescriptor) -> BitMap64:
    if len(positions) != vector.cardinality:
        raise _broken(f"it holds {len(positions)} positions, its descriptor says {vector.cardinality}", "delta D9")
    return positions


@dataclass(slots=True)
class _Loader:
    """Vectors of the planned files, and what has been read of them so far."""

    targets: Mapping[int, DeletedFile]
    storage: Storage
    locator: Locator
    table: str
    loaded: dict[int, BitMap64] = field(default_factory=dict)

    def load(self, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        wanted = [ordinal for ordinal in ordinals if ordinal in self.targets]
        try:
            self._load_missing([ordinal for ordinal in wanted if ordinal not in self.loaded])
        except HarnessError as error:
            error.within(table=self.table, format="delta")
            raise
        return {ordinal: self.loaded[ordinal] for ordinal in wanted if self.loaded[ordinal]}

    def _load_missing(self, ordinals: Sequence[int]) -> None:
        stored: dict[PhysicalPath, list[int]] = defaultdict(list)
        for ordinal in ordinals:
            target = self.targets[ordinal]
            vector = target.vector
            try:
                path = vector_path(vector, self.locator.root)
                if path is None:
                    self._keep(ordinal, decode_inline(vector, limits=self.storage.limits))
                    continue
                if vector.size < 0 or (vector.offset or 0) < 0:
                    place = f"{vector.size} bytes at {vector.offset}"
                    raise _broken(f"it is said to be {place}, expected none below 0", "delta D5")
                stored[self.locator.path_map.physical(path)].append(ordinal)
            except HarnessError as error:
                raise error.within(file=target.path) from error.__cause__
        with phase("reading deletes", len(stored), "files") as advance:
            for physical, members in stored.items():
                self._load_file(physical, members)
                advance(1)

    def _load_file(self, path: PhysicalPath, ordinals: Sequence[int]) -> None:
        """Reads the vectors of one file, in one go."""
        offsets = [self.targets[ordinal].vector.offset or _FIRST_OFFSET for ordinal in ordinals]  # delta D6
        ends = [o + self.targets[i].vector.size + _FRAME for o, i in zip(offsets, ordinals, strict=True)]
        try:
            head = self.storage.read(path, length=1)
            if head != bytes([_FORMAT_VERSION]):
                found = head[0] if head else "no byte"
                raise _broken(f"its file has format version {found}, expected {_FORMAT_VERSION}", "delta D5")
            start = min(offsets)
            data = self.storage.read(path, offset=start, length=max(ends) - start)
        except HarnessError as error:
            error.rule = error.rule or "delta D14"
            raise error.within(file=path) from error.__cause__
        for ordinal, offset, end in zip(ordinals, offsets, ends, strict=True):
            target = self.targets[ordinal]
            try:
                frame = data[offset - start : end - start]
                self._keep(ordinal, decode_stored(frame, target.vector, limits=self.storage.limits))
            except HarnessError as error:
                raise error.within(file=f"{path} at {offset}, of {target.path}") from error.__cause__

    def _keep(self, ordinal: int, positions: BitMap64) -> None:
        target = self.targets[ordinal]
        if positions:
            rows = target.record_count
            if rows is None:
                rows = footer_rows(target.path, target.physical, self.storage)  # delta D15
            if positions.max() >= rows:
                raise _broken(f"it deletes row {positions.max()} of a data file of {rows} rows", "delta D9")
        self.loaded[ordinal] = positions
