"""Translation of DuckDB's errors during a query into errors of harness."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

import duckdb

from harness.engines.data_files import FileName, columnless_rows, corrupt_file
from harness.engines.duckdb.instance import (
    DuckDBFiles,
    connect,
    ends_instance,
    error_text,
    forbidden_error,
    forbidding_setting,
    is_storage_error,
)
from harness.engines.duckdb.scans import read_parquet
from harness.errors import EngineError, HarnessError, MissingFileError, StorageError
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath, is_local, local_path
from harness.storage.threads import Lock

_DAMAGE = re.compile(
    r"decompress|TProtocolException|don't know what type|out of buffer|not valid UTF-?8"
    r"|end of binary data|geometry type in WKB|Unexpected trailing data|metadata is corrupt",
    re.IGNORECASE,
)
_NAMED = re.compile(r'(?:read file|Parquet file) "([^"]+)"')
_MOST_BYTES = 1 << 30
"""Up to this total size, data files are read again to find the corrupt file if DuckDB does not name it."""


def engine_error(error: Exception, plan: PlannedScan) -> HarnessError:
    """Translate a failure of DuckDB. The reason becomes one line.

    Returns:
        MissingFileError if a file was removed after planning; CorruptFileError if DuckDB cannot decode a data file or
            abandoned its instance because of the file; StorageError if the storage failed; RequestError if a setting
            forbids opening the file, or if updates cannot be paired; EngineError otherwise.
    """
    reason = error_text(error)
    if ends_instance(error):
        return _instance_failure(reason, plan)
    removed_file = _missing_file(plan, reason)
    if removed_file is not None:
        return MissingFileError(
            f"Cannot read a file: it was removed after the table was planned: {reason}",
            cause="MissingFile",
            table=plan.table,
            snapshot=plan.snapshot,
            file=str(removed_file),
            rule="iceberg 7.6",
        )
    if is_storage_error(reason):
        return StorageError(f"Cannot read a file: {reason}", table=plan.table)
    if (setting := forbidding_setting(reason)) is not None:
        return forbidden_error(setting, table=plan.table, file=None)
    if plan.lifetimes is not None:
        from harness.engines.changes import duplicate_keys_error

        duplicates = duplicate_keys_error(plan.lifetimes.keys)
        if duplicates.message in reason:
            return duplicates.within(table=plan.table)
    if not _DAMAGE.search(reason):
        return EngineError(f"DuckDB failed: {reason}", table=plan.table)
    match = _NAMED.search(reason)
    name = _corrupt_file(plan) if match is None else FileName(match[1], PhysicalPath(match[1]))
    if match is not None:  # show both paths of a data file; DuckDB only knows the physical path
        name = next((file for file in _parquet_files(plan) if file.physical == match[1]), name)
    subject = "a data file" if name is None else "file"
    return corrupt_file(f"Cannot read {subject}: it is damaged: {reason}; restore it", name, table=plan.table)


def _instance_failure(reason: str, plan: PlannedScan) -> HarnessError:
    """Return the error for a read whose DuckDB instance was abandoned, because of this read or an earlier one."""
    reason = reason.partition(" Stack Trace")[0][:_MOST_SAID]
    with _searching:  # other reads that fail on the same instance wait until the file is found
        name = _corrupt_file(plan)
        if name is not None:
            _corrupt_files[:] = [str(name)]
        over = "".join(f" over {file}" for file in _corrupt_files)
    if name is None:
        return EngineError(
            f"DuckDB abandoned the instance of this read{over}: open the table again, and use a new connection if you "
            f"passed one: {reason}",
            table=plan.table,
        )
    return corrupt_file(
        f"Cannot read file: the file makes DuckDB abandon its instance: {reason}; restore it", name, table=plan.table
    )


_searching = Lock()
_corrupt_files: list[str] = []
"""The file that made DuckDB abandon an instance most recently, or nothing."""
_MOST_SAID = 300  # the most characters of DuckDB's message that are shown


def file_failure(error: Exception, plans: Iterable[PlannedScan]) -> HarnessError | None:
    """Return the failure of a query over plans if a file caused it. None if the query itself may be at fault."""
    if ends_instance(error):
        return next((engine_error(error, plan) for plan in plans), None)
    failures = (engine_error(error, plan).within(snapshot=plan.snapshot, format=plan.format) for plan in plans)
    return next((failure for failure in failures if not isinstance(failure, EngineError)), None)


def _missing_file(plan: PlannedScan, reason: str) -> FileName | None:
    """Return a file of the plan that no longer exists, or None.

    Local files are all checked. A remote file is checked only if DuckDB's message names it.
    """
    paths = (plan.files.column(name).to_pylist() for name in ("path", "physical"))
    deletes = (FileName(delete.path, delete.physical) for delete in plan.equality_deletes)
    for name in (*map(FileName, *paths), *deletes):
        if is_local(name.physical):
            if plan.storage.fault(name.physical) is not None:
                return name
        elif name.physical in reason:
            with contextlib.suppress(HarnessError):
                if not plan.storage.exists(name.physical):
                    return name
    return None


def _corrupt_file(plan: PlannedScan) -> FileName | None:
    """Return the first file that cannot be read on its own.

    None if all files can be read, or if the search could take long.
    """
    files = _parquet_files(plan)
    if not all(is_local(name.physical) for name in files):
        return None
    if sum(Path(local_path(name.physical)).stat().st_size for name in files) > _MOST_BYTES:
        return None
    empty = columnless_rows(files, plan.storage)
    with connect() as connection:  # a separate instance, because the file may end it
        access = DuckDBFiles(connection, plan.storage)
        for name in files:
            relation = None if name.physical in empty else read_parquet(access.listed([name.physical]))
            try:
                if relation is not None:
                    connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {relation}").fetchall()
            except duckdb.Error:
                return name
    return None


def _parquet_files(plan: PlannedScan) -> list[FileName]:
    rows = plan.files.select(["path", "physical", "format"]).to_pylist()
    return [FileName(row["path"], row["physical"]) for row in rows if row["format"] == "parquet"]
