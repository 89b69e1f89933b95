"""What ails Parquet files that DuckDB fails on before any row of them is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from harness.engines.shared.data_files import FileName, check_file, look_at
from harness.engines.shared.duckdb_texts import is_of_storage, said
from harness.errors import CorruptFileError, EngineError, HarnessError, StorageError
from harness.storage.stores import Storage

_SHOWN = 300  # characters


@contextmanager
def failing_on(files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> Iterator[None]:
    """To be entered around what DuckDB does with files: its failures become harness's.

    doing: how the message begins, such as "Cannot open file".

    Raises:
        As `refusal` says.
    """
    try:
        yield
    except duckdb.Error as error:
        raise refusal(error, files, storage, table=table, doing=doing) from error


def refusal(error: Exception, files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> HarnessError:
    """What a failure on files means. One that was there a moment ago may be gone, so all are looked at anew.

    A MissingFileError or EncryptedTableError, as of `check_file`; a StorageError, if the storage failed while DuckDB
    read; else a CorruptFileError, which names the file if there is but one.
    """
    if isinstance(error, StorageError):
        return error.within(table=table)
    try:
        look_at(lambda file: check_file(file, storage, table=table), files, [file.physical for file in files])
    except HarnessError as gone:
        return gone
    reason = error.message if isinstance(error, HarnessError) else said(error)[:_SHOWN]
    name = str(files[0]) if len(files) == 1 else None
    if isinstance(error, duckdb.FatalException):  # of an instance that was given up before
        return EngineError(f"{doing}: open the table again: {reason}", table=table)
    if is_of_storage(reason):
        return StorageError(f"{doing}: {reason}", table=table, file=name)
    return CorruptFileError(f"{doing}: {reason}", cause="CorruptDataFile", table=table, file=name, rule="iceberg 7.6")
