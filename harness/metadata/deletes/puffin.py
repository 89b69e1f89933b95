"""Puffin files with deletion vectors of Iceberg.

A vector is found by the offset and size in its manifest entry, not in the list of blobs, because blobs of outdated
vectors stay in their file (iceberg 4.17). So reading rows needs no footer, unless a server made the plan: a server need
not say which data file a vector is for, and only the footer shows that it confused two vectors. A position beyond the
end of a data file is an error, because the number of positions must be exact (iceberg 4.19).

Spec: Iceberg, "Deletion Vectors"; Puffin, "File structure" and "deletion-vector-v1".
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import field

from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError, UnsupportedError
from harness.metadata.files import roaring
from harness.metadata.files.documents import check_document
from harness.metadata.plan.deletes import StoredVector
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass
from harness.storage.stores import Storage

_MAGIC = b"PFA1"
_VECTOR_TYPE = "deletion-vector-v1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_TRAILER_BYTES = 12  # payload size, flags, magic
_WHOLE_FILE_BYTES = 1 << 18  # smaller files are read whole, in one request instead of one per part


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """A file that `open_puffin` has checked.

    Attributes:
        storage: The storage of the file.
        file: The name of the file in messages.
        physical: Physical path.
        size: Measured size in bytes.
        content: All bytes of a small file; None for a large one.
    """

    storage: Storage = field(hash=False)
    file: str
    physical: PhysicalPath
    size: int
    content: bytes | None = field(repr=False)

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` on; fewer at the end of the file."""
        if self.content is not None:
            return self.content[offset : offset + length]
        return self.storage.read(self.physical, offset=offset, length=length)

    def footer(self) -> tuple[int, bytes | None]:
        """Return the size of the footer in bytes, and its payload, or None if the payload is compressed.

        The footer consists of: magic, payload, length of the payload in four bytes, four bytes of flags, magic.
        """
        tail = self.bytes_at(self.size - _TRAILER_BYTES, 8)
        length, is_compressed = int.from_bytes(tail[:4], "little"), tail[4] & 1
        payload = None if is_compressed else self.bytes_at(self.size - _TRAILER_BYTES - length, length)
        return length + _TRAILER_BYTES + len(_MAGIC), payload


def open_puffin(storage: Storage, physical: PhysicalPath, *, file: str | None = None) -> PuffinFile:
    """Open the Puffin file at `physical`, and check the magic at both ends.

    A vector without a Puffin file around it, as old versions of DuckDB wrote, is refused: it could not be distinguished
    from a part of a damaged file.

    Args:
        storage: The storage of the file.
        physical: Physical path.
        file: The name of the file in messages; None for `physical`.

    Raises:
        MissingFileError: The file does not exist.
        CorruptFileError: The file does not begin and end with the Puffin magic (iceberg 4.22).
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


def read_deletion_vector(
    puffin: PuffinFile, vector: StoredVector, *, target: str | None, data_record_count: int | None
) -> BitMap64:
    """Return the deleted row positions of one deletion vector.

    Args:
        puffin: The opened file of the vector.
        vector: The offset and size of the vector. Only these bytes are read (iceberg 4.17).
        target: The recorded path of the data file, for messages.
        data_record_count: Number of rows in the data file; None if unknown.

    Raises:
        CorruptDeleteError: Size, magic, checksum, or bitmap is wrong (4.18, 4.20), the number of positions differs from
            the vector's record count, or a position is beyond the end of the data file (4.19).
    """
    offset, size = vector.offset, vector.length
    try:
        if offset < len(_MAGIC) or size < 0 or offset + size > puffin.size:
            raise _corrupt(
                f"it has {size} bytes at offset {offset}, expected within the {puffin.size} bytes of the file",
                rule="iceberg 4.17",
            )
        positions = decode_deletion_vector(puffin.bytes_at(offset, size), limits=puffin.storage.limits)
        _check_counts(positions, vector.record_count, data_record_count)
    except HarnessError as error:
        error.field = error.field or target
        error.within(file=puffin.file)
        raise
    return positions


def vector_targets(puffin: PuffinFile) -> dict[tuple[int, int], str]:
    """Return the data file of each deletion vector in a file, by offset and size, as the footer names it.

    Raises:
        CorruptFileError: The footer is not a list of blobs.
        UnsupportedError: The footer is compressed.
    """
    payload = puffin.footer()[1]
    if payload is None:
        message = "Cannot tell which data file a deletion vector is for: the footer of its file is compressed"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=puffin.file, rule="iceberg 4.17")
    try:
        check_document(payload, file=puffin.file, limits=puffin.storage.limits)
        blobs = [blob for blob in json.loads(payload)["blobs"] if blob["type"] == _VECTOR_TYPE]
        return {(blob["offset"], blob["length"]): str(blob["properties"]["referenced-data-file"]) for blob in blobs}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            "Cannot read the footer of a Puffin file: it does not list blobs with their offsets and data files. "
            "Restore the file",
            cause="CorruptDeletionVector",
            file=puffin.file,
            rule="iceberg 4.17",
        ) from error


def decode_deletion_vector(blob: bytes, *, limits: Limits = DEFAULT) -> BitMap64:
    """Decode the positions in a `deletion-vector-v1` blob: length, magic, bitmap, and CRC-32 of magic and bitmap.

    Raises:
        CorruptDeleteError: A part is wrong (iceberg 4.18, 4.20).
        LimitError: The blob holds more positions than `limits` allow.
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


def _check_counts(positions: BitMap64, count: int | None, data_record_count: int | None) -> None:
    if len(positions) != count:
        reason = f"it holds {len(positions)} positions, expected {count}, as its manifest entry records"
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
