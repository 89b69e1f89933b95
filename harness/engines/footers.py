"""Parquet footers: schemas and row counts, read once per file before any row.

Only the end of each file is read, and a schema is recognized by its bytes (`harness.metadata.files.parquet_footer`):
10,000 local files take 0.1 s. The ends of files in object stores are read in parallel. DuckDB parses one footer per
distinct schema, for all engines. DuckDB refuses a list of files if one of them has no columns, so such schemas are
handled separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import duckdb

from harness.engines.data_files import FileName, check_file, corrupt_file, map_files
from harness.engines.duckdb.instance import (
    GEOMETRY_CONVERSION,
    DuckDBFiles,
    connect,
    ends_instance,
    error_text,
    forbidden_error,
    forbidding_setting,
    is_storage_error,
)
from harness.errors import CorruptFileError, EngineError, HarnessError, StorageError
from harness.metadata.files.parquet import ELEMENT_COLUMNS, parse_elements, physical_schema, physical_schemas
from harness.metadata.files.parquet_footer import (
    BROTLI,
    TAIL_BYTES,
    CheckedFooter,
    Contradiction,
    parse_footer,
    parse_tail,
    prefix_leaf_columns,
    tail_length,
)
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, PhysicalSchema, walk_stored
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase

_SHOWN = 300  # the most characters of DuckDB's message that are shown


@contextmanager
def failing_on(files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> Iterator[None]:
    """Convert DuckDB's failures on files into the errors of `refusal`.

    Args:
        files: The files that the block reads.
        storage: The storage of the files.
        table: The table's location.
        doing: The beginning of the message, for example "Cannot open file".
    """
    try:
        yield
    except duckdb.Error as error:
        raise refusal(error, files, storage, table=table, doing=doing) from error


def refusal(error: Exception, files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> HarnessError:
    """Return the error for a failure on files.

    Check the files again first, because a file may have been removed meanwhile.

    Args:
        error: The failure.
        files: The files that were being read.
        storage: The storage of the files.
        table: The table's location.
        doing: The beginning of the message, for example "Cannot open file".

    Returns:
        The error of `check_file` if a file is missing or encrypted, a StorageError if the storage failed while DuckDB
            read, an error about a setting or limit of the connection, or otherwise a CorruptFileError.
    """
    if isinstance(error, StorageError):
        return error.within(table=table)
    try:
        map_files(lambda file: check_file(file, storage, table=table), files, [file.physical for file in files])
    except HarnessError as gone:
        return gone
    reason = error.message if isinstance(error, HarnessError) else error_text(error)[:_SHOWN]
    name = str(files[0]) if len(files) == 1 else None
    if isinstance(error, duckdb.FatalException):  # the DuckDB instance failed earlier
        return EngineError(f"{doing}: open the table again: {reason}", table=table)
    if (setting := forbidding_setting(reason)) is not None:
        return forbidden_error(setting, table=table, file=name)
    # a limit was reached; the file is not at fault
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.InterruptException):
        return EngineError(f"{doing}: {reason}", table=table, file=name)
    if is_storage_error(reason):
        return StorageError(f"{doing}: {reason}", table=table, file=name)
    return corrupt_file(f"{doing}: {reason}", name, table=table)


FOOTER = "Cannot read the footer of a Parquet file"
"""The beginning of messages about footers."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The schema and row count of a Parquet file.

    Attributes:
        schema: The columns; empty if the file has none.
        rows: The number of rows, as all counts in the footer agree.
        metadata: The file's key-value metadata. Empty unless it may concern the Julian calendar or geometries.
        duckdb_types: The DuckDB types of the columns, which then keep their own names in DuckDB. None if only DuckDB's
            binder can determine them.
        foreign: True if DuckDB refuses the schema although Parquet allows it. No DuckDB function can open the file
            then.
        is_brotli: True if pages of the first row group are compressed with Brotli.
    """

    schema: PhysicalSchema
    rows: int
    metadata: Mapping[bytes, bytes]
    duckdb_types: tuple[str, ...] | None
    foreign: bool
    is_brotli: bool


def read_footers(access: DuckDBFiles, files: Sequence[FileName], *, table: str) -> dict[PhysicalPath, Footer]:
    """Read and check footers. Return them by physical path.

    The counts within each footer are checked against each other (`harness.metadata.files.parquet_footer`).

    Raises:
        MissingFileError: A file does not exist or is empty (iceberg 7.6).
        EncryptedTableError: A file has the magic of an encrypted footer (iceberg 2.19).
        CorruptFileError: A footer cannot be read or contradicts itself.
    """
    if not files:
        return {}
    try:
        return _read(access, tuple(file.physical for file in files))
    except (duckdb.Error, HarnessError, LookupError, ValueError) as error:
        for file in files:  # read the files one by one to find the one at fault
            check_file(file, access.storage, table=table)
            alone = DuckDBFiles(connect(), access.storage) if ends_instance(error) else access
            try:
                _read(alone, (file.physical,))
            except (duckdb.Error, HarnessError, LookupError, ValueError) as reason:
                raise refusal(reason, [file], access.storage, table=table, doing=FOOTER) from reason
        raise refusal(error, files, access.storage, table=table, doing=FOOTER) from error


def footers_and_faults(
    access: DuckDBFiles, files: Sequence[FileName], *, table: str
) -> tuple[dict[PhysicalPath, Footer], dict[PhysicalPath, HarnessError]]:
    """Return the footers that can be read and the errors of the files whose footers cannot, each by physical path."""
    try:
        return read_footers(access, files, table=table), {}
    except HarnessError as error:
        if len(files) == 1:
            return {}, {files[0].physical: error}
    middle = len(files) // 2
    parts = (files[:middle], files[middle:])
    (left, left_faults), (right, right_faults) = (footers_and_faults(access, part, table=table) for part in parts)
    return left | right, left_faults | right_faults


def converted_files(files: DuckDBFiles, footers: Mapping[PhysicalPath, Footer]) -> frozenset[str]:
    """Return the physical paths of files whose binary columns DuckDB converts to geometries (frontier F0.2)."""
    binary = [
        path
        for path, footer in footers.items()
        if b"geo" in footer.metadata
        and not footer.foreign  # foreign files are read through Arrow
        and any(isinstance(f.type, dt.BinaryType) for f in footer.schema)
    ]
    if not binary:
        return frozenset()
    ((converts,),) = files.connection.execute(f"SELECT current_setting('{GEOMETRY_CONVERSION}')").fetchall()
    return frozenset(binary if converts else ())


def _read(files: DuckDBFiles, physical: tuple[PhysicalPath, ...]) -> dict[PhysicalPath, Footer]:
    checked = _checked_footers(files, physical)
    bare = [path for path in physical if path not in checked]
    if bare:
        _parsed_by_duckdb(files, bare)  # raises DuckDB's error about the file
        raise CorruptFileError("It has no footer", cause="CorruptDataFile")
    schemas = dict(_schemas)  # a copy for this call, because another thread may clear `_schemas`
    new: dict[bytes, PhysicalPath] = {}
    for path, footer in checked.items():
        if footer.schema not in schemas:
            new.setdefault(footer.schema, path)
    columnless = [schema for schema in new if not prefix_leaf_columns(schema)]  # DuckDB refuses these
    parsed = _parsed(files, {path: schema for schema, path in new.items() if schema not in columnless})
    learnt = {schema: ((), None, False) if schema in columnless else parsed[path] for schema, path in new.items()}
    if len(_schemas) + len(new) > _MOST_SCHEMAS:
        _schemas.clear()
    schemas.update(learnt)
    _schemas.update(learnt)
    footers_by_path = {}
    for path, footer in checked.items():
        columns, duckdb_types, foreign = schemas[footer.schema]
        is_brotli = BROTLI in footer.codecs
        footers_by_path[path] = Footer(columns, footer.rows, footer.metadata, duckdb_types, foreign, is_brotli)
    return footers_by_path


_KnownSchema: TypeAlias = tuple[PhysicalSchema, tuple[str, ...] | None, bool]
"""A parsed schema: the attributes `schema`, `duckdb_types`, and `foreign` of a `Footer`."""
_schemas: dict[bytes, _KnownSchema] = {}
"""Parsed schemas by the bytes that they were parsed from, for all files of this process."""
_MOST_SCHEMAS = 1024


def _checked_footers(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> dict[PhysicalPath, CheckedFooter]:
    """Return the footers of files by physical path, without files that have no footer.

    Remote files are read in parallel.
    """
    footers_by_path: dict[PhysicalPath, CheckedFooter] = {}
    schemas: dict[bytes, None] = {}
    with phase("reading footers", len(physical), "files") as advance:
        for path, end in _ends(files, physical):
            try:
                footer = _checked_footer(files, path, end, schemas)
            except Contradiction as error:
                raise corrupt_file(f"{error}; restore the file", path) from error
            if footer is not None:
                footers_by_path[path] = footer
                if len(schemas) < MOST_TRIED:
                    schemas[footer.schema] = None
            advance(1)
    return footers_by_path


def _checked_footer(
    files: DuckDBFiles, path: PhysicalPath, end: bytes, schemas: Iterable[bytes]
) -> CheckedFooter | None:
    """Return the footer at the end of a file, or None if it has none. Raise Contradiction if its counts disagree."""
    if files.storage.untrusted:
        return parse_footer(end, files.storage.size(path), None)
    tail, key = parse_tail(end, schemas), hash(end[-tail_length(end) :])
    codecs = _checked.get(key)
    if tail is not None and not tail.has_metadata and codecs is not None:
        return CheckedFooter(tail.schema, tail.rows, codecs, {})
    footer = parse_footer(end, None, tail)  # DuckDB reports offsets that are outside of the file
    if footer is not None:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked[key] = footer.codecs
    return footer


_checked: dict[int, frozenset[int]] = {}
"""The codecs of footers that passed the checks, by the hash of the footer's bytes, for all files of this process."""
_MOST_CHECKED = 1 << 17


def _ends(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> Iterator[tuple[PhysicalPath, bytes]]:
    """Yield the end of each file, long enough for its footer, by path.

    Local files are read one by one to save memory.
    """
    remote = [path for path in physical if not is_local(path)]

    def remote_end(path: PhysicalPath) -> bytes:
        if files.storage.reads_ends(path):
            return _whole_footer(lambda length: files.storage.end(path, length), _REMOTE_BYTES)
        size = files.storage.size(path)  # DuckDB reads the end again
        return _whole_footer(lambda length: files.storage.read(path, offset=max(0, size - length)), TAIL_BYTES)

    yield from zip(remote, map_files(remote_end, remote, remote), strict=True)
    for path in physical:
        if is_local(path):
            yield path, _whole_footer(partial(files.end, path), TAIL_BYTES)


def _whole_footer(end: Callable[[int], bytes], length: int) -> bytes:
    """Return the end of a file: `length` bytes, or more if the footer is longer."""
    data = end(length)
    return end(tail_length(data)) if tail_length(data) > len(data) else data


_REMOTE_BYTES = 1 << 14
"""The number of bytes first read from the end of a remote file: most footers are shorter."""
MOST_TRIED = 8
"""The number of known schemas that a file's bytes are compared with before its own schema is located."""


def _parsed(files: DuckDBFiles, schemas: Mapping[PhysicalPath, bytes]) -> dict[str, _KnownSchema]:
    """Parse the schemas of files, given one file per schema. Parse schemas that DuckDB refuses without DuckDB."""
    if not schemas:
        return {}
    try:
        return _parsed_by_duckdb(files, tuple(schemas))
    except duckdb.Error as error:
        if ends_instance(error) or is_storage_error(error_text(error)):
            raise
        if len(schemas) > 1:
            return {path: schema for each in schemas.items() for path, schema in _parsed(files, dict([each])).items()}
        ((path, bytes_),) = schemas.items()
        schema = physical_schema(parse_elements(bytes_))
        if not schema:
            raise
        return {path: (schema, None, True)}


def _parsed_by_duckdb(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> dict[str, _KnownSchema]:
    columns = ", ".join(["file_name", *ELEMENT_COLUMNS, "duckdb_type"])
    query = f"SELECT {columns} FROM parquet_schema({files.listed(physical)})"
    rows = files.connection.execute(query).fetchall()
    schemas = physical_schemas(row[:-1] for row in rows)
    types: dict[str, list[str | None]] = {}
    for name, *_, type_ in rows:
        types.setdefault(name, []).append(type_)
    names = {path: files.name(path) for path in physical}
    return {path: (schemas[name], _duckdb_types(schemas[name], types[name]), False) for path, name in names.items()}


def _duckdb_types(columns: PhysicalSchema, types: Sequence[str | None]) -> tuple[str, ...] | None:
    """Return DuckDB's types of the columns, or None if they are uncertain: for nested, binary, or renamed columns."""
    complete = tuple(type_ for type_ in types[1:] if type_ is not None)
    if len(complete) != len(columns) or not all(isinstance(f.type, _PLAIN) for f in columns):
        return None
    names = {f.name.casefold() for f in columns}
    return complete if len(names) == len(columns) and "" not in names else None


_PLAIN = (dt.BooleanType, dt.DateType, dt.DecimalType, dt.FloatType, dt.IntegerType, dt.StringType, dt.TimestampType)

# Files with dates in the old calendar (delta T20).
#
# Spark before 3.0, and later versions in legacy mode, wrote dates before 1582-10-15 in the hybrid Julian calendar and
# instants before 1900 in local time zones. The footer records this. Values old enough to be affected are refused.

OLDEST_DAY = -141427
"""1582-10-15, the first day on which both calendars agree, in days since 1970-01-01."""
OLDEST_MICROS = -2208988800000000
"""1900-01-01T00:00, the first timestamp that is the same in all affected time zones, in microseconds since 1970-01-01.
"""

_DATES, _INT96 = "dates and timestamps", "int96 timestamps"
_KEYS = {b"org.apache.spark.legacyDateTime": _DATES, b"org.apache.spark.legacyINT96": _INT96}
_VERSION = b"org.apache.spark.version"


def legacy_kinds(schema: PhysicalSchema, metadata: Mapping[bytes, bytes]) -> frozenset[str]:
    """Return the kinds of values that a file with these columns and metadata may hold in the old calendar."""
    all_kinds = frozenset(_KEYS.values())
    major = metadata.get(_VERSION, b"").split(b".", 1)[0]
    is_old = major.isdigit() and int(major) < 3
    kinds = all_kinds if is_old else frozenset(kind for key, kind in _KEYS.items() if key in metadata)
    return kinds if kinds and any(is_legacy(stored, all_kinds) for stored in walk_stored(schema)) else frozenset()


def is_legacy(stored: PhysicalField, legacy: frozenset[str]) -> bool:
    """Return whether old values of a column are in the old calendar.

    `legacy` holds its file's kinds from `legacy_kinds`.
    """
    match stored.type:
        case dt.DateType() | dt.TimestampType(utc=True):
            return _DATES in legacy
        case dt.Int96Type():
            return _INT96 in legacy
        case _:
            return False
