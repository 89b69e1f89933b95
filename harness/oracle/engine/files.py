"""Opens data and delete files, whatever their format, and says in harness's errors why one cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from harness.errors import CorruptFileError, EncryptedTableError, HarnessError, MissingFileError, UnsupportedError
from harness.oracle.engine.avro_blocks import UnsupportedAvroError
from harness.oracle.engine.avro_file import open_avro
from harness.oracle.engine.orc_file import open_orc
from harness.oracle.engine.parquet_file import open_parquet
from harness.oracle.engine.stored import Row, StoredFile
from harness.storage.stores import Storage


def shown(path: str, physical: str) -> str:
    """How messages call a file."""
    return path if path == physical else f"{path} ({physical})"


def wrong_count(
    file: str, rows: int, recorded: int | None, *, table: str | None = None, field: str | None = None
) -> CorruptFileError:
    """The error about a file that has another number of rows than the metadata says (iceberg 7.2)."""
    return CorruptFileError(
        f"Cannot read file: it has {rows} rows, the metadata says {recorded}; restore the file",
        cause="CorruptDataFile",
        table=table,
        file=file,
        field=field,
        rule="iceberg 7.2",
    )


def check_whole(file_format: str | None, recorded: int | None, rows: int, *, table: str, file: str) -> None:
    """Refuses a delete file in Avro without all its rows: cut between two blocks it looks whole (iceberg 7.2).

    recorded: the row count of the metadata, None if unknown. rows: how many were read.

    Raises:
        CorruptFileError: as said.
    """
    if file_format == "avro" and recorded not in (None, rows):
        raise wrong_count(file, rows, recorded, table=table, field="record_count")


def open_file(path: str, physical: str, file_format: str, storage: Storage, *, table: str) -> StoredFile:
    """A data or delete file.

    Args:
        path, physical: as recorded, and where the bytes are.
        file_format: `parquet`, `avro` or `orc`.
        storage: reads it.
        table: for messages.

    Raises:
        MissingFileError: it is not there, or has no bytes (iceberg 7.6).
        EncryptedTableError: it is encrypted (iceberg 2.19).
        CorruptFileError: it cannot be decoded; also while its rows are taken.
        UnsupportedError: its format, or something in it, is not read (iceberg 7.3 to 7.5).
    """
    file = shown(path, physical)
    try:
        data = storage.read(physical)
        opened = _opened(data, file_format)
    except Exception as error:
        raise _refusal(error, file_format, file).within(table=table, file=file) from error
    return replace(opened, rows=_guarded(opened.rows, file_format, file, table))


def _opened(data: bytes, file_format: str) -> StoredFile:
    if not data:
        raise MissingFileError("Cannot read a file: it is empty; restore it", rule="iceberg 7.6")
    if data[:4] in (b"PARE", b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted file", rule="iceberg 2.19")
    match file_format:
        case "parquet":
            return open_parquet(data)
        case "avro":
            return open_avro(data)
        case "orc":
            return open_orc(data)
        case other:
            raise UnsupportedError(
                f"Cannot read a file: its format {other!r} is not supported",
                cause="UnsupportedFormat",
                rule="iceberg 7.5",
            )


def _guarded(rows: Iterator[Row], file_format: str, file: str, table: str) -> Iterator[Row]:
    """The rows; what goes wrong on the way becomes an error that names the file."""
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception as error:
            raise _refusal(error, file_format, file).within(table=table, file=file) from error
        yield row


def _refusal(error: Exception, file_format: str, file: str) -> HarnessError:
    """The error that a reader's own exception is; one that says nothing about the file goes on as it is."""
    reason = " ".join(str(error).split())
    match error:
        case HarnessError():
            return error
        case UnsupportedAvroError() | pa.ArrowNotImplementedError():
            pass
        case _ if "out of range for nanosecond" in reason:  # pyarrow has ORC's timestamps in nanos only
            pass
        case pa.ArrowException() | OSError() | ValueError() | KeyError() | RecursionError() | OverflowError():
            return CorruptFileError(
                f"Cannot decode {file_format} file: {reason}; restore it", cause="CorruptDataFile", file=file
            )
        case _:
            raise error
    cause = "UnsupportedCodec" if "codec" in reason else "UnsupportedType"
    return UnsupportedError(f"Cannot read {file_format} file: {reason}; rewrite it", cause=cause, file=file)
