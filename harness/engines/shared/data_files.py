"""Data and delete files by name, and whether they can be read at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from harness.errors import EncryptedTableError, MissingFileError, StorageError, UnsupportedError
from harness.records import dataclass
from harness.storage.gate import ABSENT
from harness.storage.paths import is_local
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
