"""What engines learn from Parquet files before they read them: schemas and row counts, many files in one call.

DuckDB reads the footers for every engine: 10,000 local files take it a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from harness.engines import sqltext
from harness.engines.data_files import FileName, check_file
from harness.errors import CorruptFileError, HarnessError
from harness.files.parquet import ELEMENT_COLUMNS, physical_schemas
from harness.projection import PhysicalSchema
from harness.storage import Storage, is_local

_TAIL_BYTES = 8  # length of the footer, and the magic
_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:)/+")


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one Parquet file: its columns, the rows that it really has, and how DuckDB spells its path."""

    schema: PhysicalSchema
    rows: int
    spelling: str


def read_footers(
    connection: duckdb.DuckDBPyConnection, files: Sequence[FileName], storage: Storage, *, table: str
) -> dict[str, Footer]:
    """Footers by physical path.

    Raises:
        MissingFileError: a file is not there, or is empty (iceberg 7.6).
        EncryptedTableError: a file has the magic of an encrypted footer (iceberg 2.19).
        CorruptFileError: a footer cannot be read.
    """
    if not files:
        return {}
    try:
        return _read(connection, tuple(file.physical for file in files))
    except (duckdb.Error, HarnessError) as error:
        footers: dict[str, Footer] = {}
        for file in files:  # the slow way round, to name the culprit
            check_file(file, storage, table=table)
            try:
                footers |= _read(connection, (file.physical,))
            except (duckdb.Error, HarnessError) as reason:
                if _holds_nothing(file, storage):
                    footers[file.physical] = Footer((), 0, file.physical)
                    continue
                raise CorruptFileError(
                    f"Cannot read the footer of a Parquet file: {_line(reason)}",
                    cause="CorruptDataFile",
                    table=table,
                    file=str(file),
                    rule="iceberg 7.6",
                ) from reason
        if all(found.schema for found in footers.values()):  # each can be read, and all of them cannot
            raise CorruptFileError(
                f"Cannot read Parquet footers: {_line(error)}", cause="CorruptDataFile", table=table
            ) from error
        return footers


def _holds_nothing(file: FileName, storage: Storage) -> bool:
    """Whether a file that DuckDB refuses has neither columns nor rows, as of a Delta table that has no other columns.

    It stays in the plan, since its recorded count of 0 might be wrong; its footer is what can be believed.
    """
    try:
        size = storage.size(file.physical)
        tail = storage.read(file.physical, offset=max(0, size - _TAIL_BYTES), length=_TAIL_BYTES)
        start = max(0, size - _TAIL_BYTES - int.from_bytes(tail[:4], "little"))
        found = pq.read_metadata(
            pa.BufferReader(b"PAR1" + storage.read(file.physical, offset=start, length=size - start))
        )
    except (pa.ArrowException, OSError, HarnessError):
        return False
    return bool(found.num_columns == found.num_rows == 0)


def _read(connection: duckdb.DuckDBPyConnection, physical: tuple[str, ...]) -> dict[str, Footer]:
    listed = sqltext.paths(physical)
    columns = ", ".join(ELEMENT_COLUMNS)
    schemas = physical_schemas(
        connection.execute(f"SELECT file_name, {columns} FROM parquet_schema({listed})").fetchall()
    )
    rows = dict(connection.execute(f"SELECT file_name, num_rows FROM parquet_file_metadata({listed})").fetchall())
    spelled = {_plain(name): name for name in rows}
    footers = {}
    for path in physical:
        name = path if path in rows else spelled.get(_plain(path))
        if name is not None:
            footers[path] = Footer(schemas[name], rows[name], name)
        elif len(physical) == 1:
            ((name, count),) = rows.items()
            footers[path] = Footer(schemas[name], count, name)
        else:  # answers come in any order, so a file with an unexpected name must be asked for alone
            footers |= _read(connection, (path,))
    return footers


def _plain(path: str) -> str:
    """A path without the slashes after its scheme, which DuckDB spells anew: `memory://a` becomes `memory:///a`."""
    return _SLASHES.sub(r"\1", path)


def open_storage(connection: duckdb.DuckDBPyConnection, storage: Storage, physical: Sequence[str]) -> None:
    """Lets DuckDB read every given path: non-local schemes go through the storage's own file systems, no extension."""
    for scheme in {path.split("://", 1)[0] for path in physical if not is_local(path)}:
        file_system, _ = storage.file_system(f"{scheme}://")
        protocols = (file_system.protocol,) if isinstance(file_system.protocol, str) else file_system.protocol
        if not any(connection.filesystem_is_registered(protocol) for protocol in protocols):
            connection.register_filesystem(file_system)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
