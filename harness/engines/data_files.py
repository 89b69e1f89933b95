"""Data and delete files by name, and whether they can be read at all."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import EncryptedTableError, MissingFileError
from harness.storage import Storage


@dataclass(frozen=True, slots=True)
class FileName:
    """A file's identity beside where its bytes are."""

    recorded: str
    physical: str

    def __str__(self) -> str:
        return self.recorded if self.recorded == self.physical else f"{self.recorded} ({self.physical})"


def check_file(file: FileName, storage: Storage, *, table: str) -> None:
    """Refuses a file that is missing, empty or encrypted, naming it under both its paths.

    Raises:
        MissingFileError, EncryptedTableError: as said.
    """
    if not storage.exists(file.physical) or storage.size(file.physical) == 0:
        raise MissingFileError(
            "Cannot read a data file: it is missing or empty; restore it, or map its path with path_map",
            cause="MissingFile",
            table=table,
            file=str(file),
            rule="iceberg 7.6",
        )
    head = storage.read(file.physical, length=4)
    if head in (b"PARE", b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted file", table=table, file=str(file), rule="iceberg 2.19")
