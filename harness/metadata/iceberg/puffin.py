"""Puffin files: their frame, and deletion vectors by offset.

A deletion vector is found by the offset and size in its manifest entry, never by listing blobs: blobs of vectors that
no longer count stay in their file (iceberg 4.17). So the footer is not read.

Spec: Puffin, "File structure" and "deletion-vector-v1".
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import field

from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError
from harness.metadata.files import roaring
from harness.metadata.iceberg.manifests import ManifestEntry
from harness.storage.limits import DEFAULT, Limits
from harness.storage.records import dataclass
from harness.storage.stores import Storage

_MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_VECTOR_TYPE = "deletion-vector-v1"
_TRAILER_BYTES = 12  # payload size, flags, magic
_COMPRESSED_FOOTER = 1  # bit 0 of the flags
_WHOLE_FILE_BYTES = 1 << 18  # smaller files are read at once: one request instead of one per part


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """A file whose frame `open_puffin` has checked.

    file: as in messages. physical: where the bytes are. size: in bytes, measured. content: all of a small file.
    """

    storage: Storage = field(hash=False)
    file: str
    physical: str
    size: int
    content: bytes | None = field(repr=False)

    def bytes_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, both in bytes; fewer at the end of the file."""
        if self.content is not None:
            return self.content[offset : offset + length]
        return self.storage.read(self.physical, offset=offset, length=length)


def open_puffin(storage: Storage, physical: str, *, file: str | None = None) -> PuffinFile:
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
        raise CorruptFileError(
            f"Cannot read Puffin file: its {size} bytes begin with {_hex(ends[0])} and end with {_hex(ends[1])},"
            f" expected {_hex(_MAGIC)} at both ends. Restore the file, or rewrite the delete with a current writer",
            cause="CorruptDeletionVector",
            file=name,
            rule="iceberg 4.22",
        )
    return opened


def read_deletion_vector(puffin: PuffinFile, entry: ManifestEntry, *, data_record_count: int | None) -> BitMap64:
    """The deleted row positions of one deletion vector.

    Args:
        puffin: the entry's file, opened; one opening serves all the vectors in it.
        entry: the vector's manifest entry; `harness.metadata.iceberg.deletes` has checked that it names a blob.
        data_record_count: rows of the data file that it hits, None if unknown.

    Reads exactly the bytes that the entry names (iceberg 4.17).

    Raises:
        CorruptDeleteError: size, magic, checksum or bitmap is wrong (4.18, 4.20), the number of positions is not the
            entry's record count, or a position is beyond the end of the data file (4.19).
    """
    try:
        positions = decode_deletion_vector(_blob(puffin, entry), limits=puffin.storage.limits)
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


def _blob(puffin: PuffinFile, entry: ManifestEntry) -> bytes:
    offset, size = entry.file.content_offset, entry.file.content_size
    if offset is None or size is None or offset < len(_MAGIC) or size < 0 or offset + size > puffin.size:
        raise _corrupt(
            f"its bytes are {size} from {offset} on, expected within the {puffin.size} bytes of the file",
            rule="iceberg 4.17",
        )
    return puffin.bytes_at(offset, size)


def _check_counts(positions: BitMap64, entry: ManifestEntry, data_record_count: int | None) -> None:
    cardinality = len(positions)
    if cardinality != entry.file.record_count:
        raise _corrupt(
            f"it holds {cardinality} positions, expected {entry.file.record_count} as its manifest entry says",
            rule="iceberg 4.19",
        )
    if cardinality and data_record_count is not None and positions.max() >= data_record_count:
        raise _corrupt(
            f"it deletes position {positions.max()} of a data file with {data_record_count} rows", rule="iceberg 4.19"
        )


def _corrupt(reason: str, *, rule: str = "iceberg 4.18") -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Cannot decode deletion vector: {reason}. Restore the file", cause="CorruptDeletionVector", rule=rule
    )


def _hex(data: bytes) -> str:
    return data.hex(" ").upper() or "nothing"
