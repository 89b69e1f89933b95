"""Data and delete files by name, and whether they can be read at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TypeVar, cast

import pyarrow as pa

from harness.errors import EncryptedTableError, HarnessError, MissingFileError, StorageError, UnsupportedError
from harness.metadata.files.parquet import row_count
from harness.storage.gate import ABSENT
from harness.storage.paths import is_local
from harness.storage.records import dataclass
from harness.storage.stores import Storage

T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 32
_MAGIC = 4


@dataclass(frozen=True, slots=True)
class FileName:
    """A file's identity beside where its bytes are."""

    recorded: str
    physical: str

    def __str__(self) -> str:
        return self.recorded if self.recorded == self.physical else f"{self.recorded} ({self.physical})"


def check_format(file: FileName, file_format: str, *, table: str) -> None:
    """Refuses a file that is to be read through Arrow and is neither Avro nor ORC.

    Raises:
        UnsupportedError: as said (iceberg 7.5).
    """
    if file_format not in ("avro", "orc"):
        raise UnsupportedError(
            f"Cannot read file: its format {file_format!r} is not supported",
            cause="UnsupportedFormat",
            table=table,
            file=str(file),
            rule="iceberg 7.5",
        )


def check_file(file: FileName, storage: Storage, *, table: str) -> None:
    """Refuses a file that is missing, empty, no regular file or encrypted, naming it under both its paths.

    Raises:
        MissingFileError, EncryptedTableError: as said.
    """
    head = _head(file, storage)
    if not head:
        raise missing_file(file, storage.fault(file.physical), table=table)
    check_magic(file, head, table=table)


def check_magic(file: FileName, head: bytes, *, table: str) -> None:
    """Refuses a file that is encrypted by its first four bytes.

    Raises:
        EncryptedTableError: as said.
    """
    if head in (b"PARE", b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted file", table=table, file=str(file), rule="iceberg 2.19")


def missing_file(file: FileName, fault: str | None, *, table: str) -> MissingFileError:
    """The error about a file that nothing can be read of. fault: as `Storage.fault` says."""
    reason = "it is missing or empty" if fault in (None, ABSENT) else fault
    return MissingFileError(
        f"Cannot read a data file: {reason}; restore it, or map its path with path_map",
        cause="MissingFile",
        table=table,
        file=str(file),
        rule="iceberg 7.6",
        options=("path_map",),
    )


def _head(file: FileName, storage: Storage) -> bytes:
    """The first bytes of a file; none if it is missing or empty. Of a store, one request that reads what it asks for.

    Raises:
        StorageError: the storage fails.
    """
    try:
        return storage.read(file.physical, length=_MAGIC)
    except MissingFileError:
        return b""
    except StorageError:
        if storage.size(file.physical) == 0:  # of no bytes, no range can be had
            return b""
        raise


def look_at(look: Callable[[T], R], files: Sequence[T], physical: Iterable[str]) -> list[R]:
    """What a short look at each file gives, in order; remote files are looked at together, as each look waits.

    physical: the files' paths.

    Raises:
        Whatever `look` raises.
    """
    if all(map(is_local, physical)):
        return [look(file) for file in files]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(look, files))


# A stored file as a stream that libraries can seek in, so that they read the end of a file without the rest.


def opened(file: FileName, storage: Storage) -> IO[bytes]:
    """The bytes of a file, each read when it is asked for."""
    return cast(IO[bytes], io.BufferedReader(_Stored(storage, file.physical)))


class _Stored(io.RawIOBase):
    """A stored file that can seek, and reads what is asked for only."""

    def __init__(self, storage: Storage, path: str) -> None:
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


# Files without a column, whose rows are only a number in the footer.
#
# Writers leave out the columns that they need not store (partition columns of Delta tables) or cannot store (void,
# unknown), and a file may be left with none. DuckDB refuses such a Parquet file, and Spark's Parquet and ORC readers
# refuse it or find no row in it. So engines read no such file: they count its rows up to the number in its footer.
# What a table's metadata says of the number is held against it, because nothing else in the file could show that
# rows are lost.


def columnless_rows(files: Sequence[FileName], storage: Storage) -> dict[str, int]:
    """The row counts of the Parquet files without a column among `files`, by physical path, from their footers.

    A file that cannot be read is left out: who reads it for its columns says why.

    Raises:
        CorruptFileError: a footer's row groups have other rows than it counts in all.
    """
    counts = look_at(lambda file: _rows(file, storage), files, [file.physical for file in files])
    return {file.physical: count for file, count in zip(files, counts, strict=True) if count is not None}


def _rows(file: FileName, storage: Storage) -> int | None:
    from pyarrow import parquet

    try:
        footer = parquet.read_metadata(opened(file, storage))
    except (HarnessError, pa.ArrowException, OSError, UnicodeError):  # the last: of a message with bytes of the file
        return None
    if footer.num_columns:
        return None
    return row_count(footer, file=str(file))
