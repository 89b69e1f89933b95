"""Footers of Parquet files, each read once: schemas and row counts, before any row is read.

Only the end of a file is read, and the schema known again by its bytes (`harness.metadata.files.parquet_footer`):
10,000 local files take 0.1 s. Ends of files in a store are asked for together. DuckDB parses one footer of each schema,
for every engine. It refuses a list with a file without a column; those files are looked for only then.
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
    leaves_before,
    parse_footer,
    parse_tail,
    tail_length,
)
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalField, PhysicalSchema, walk_stored
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase

# What ails Parquet files that DuckDB fails on before any row of them is read.


_SHOWN = 300  # characters


@contextmanager
def failing_on(files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> Iterator[None]:
    """Turns DuckDB's failures on files into `refusal`. doing: how its message begins, such as "Cannot open file"."""
    try:
        yield
    except duckdb.Error as error:
        raise refusal(error, files, storage, table=table, doing=doing) from error


def refusal(error: Exception, files: Sequence[FileName], storage: Storage, *, table: str, doing: str) -> HarnessError:
    """The error for a failure on files, which are looked at anew: one that was there a moment ago may be gone.

    The error of `check_file`; a StorageError, if the storage failed while DuckDB read; else a CorruptFileError.
    """
    if isinstance(error, StorageError):
        return error.within(table=table)
    try:
        map_files(lambda file: check_file(file, storage, table=table), files, [file.physical for file in files])
    except HarnessError as gone:
        return gone
    reason = error.message if isinstance(error, HarnessError) else error_text(error)[:_SHOWN]
    name = str(files[0]) if len(files) == 1 else None
    if isinstance(error, duckdb.FatalException):  # of an instance that was given up before
        return EngineError(f"{doing}: open the table again: {reason}", table=table)
    if (setting := forbidding_setting(reason)) is not None:
        return forbidden_error(setting, table=table, file=name)
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.InterruptException):  # of a limit, not of the file
        return EngineError(f"{doing}: {reason}", table=table, file=name)
    if is_storage_error(reason):
        return StorageError(f"{doing}: {reason}", table=table, file=name)
    return corrupt_file(f"{doing}: {reason}", name, table=table)


FOOTER = "Cannot read the footer of a Parquet file"
"""The beginning of errors about a footer."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The columns of a Parquet file, none of one that has none, and the rows that it really has.

    metadata: the file's metadata by key; none, unless it may tell of the old calendar or of geometries.
    shown: the DuckDB types of the columns, which have their own names there; None: only DuckDB's binder tells.
    foreign: whether DuckDB refuses the schema, which Parquet allows; no function of DuckDB opens the file.
    is_brotli: whether pages of the first row group are in that codec.
    """

    schema: PhysicalSchema
    rows: int
    metadata: Mapping[bytes, bytes]
    duckdb_types: tuple[str, ...] | None
    foreign: bool
    is_brotli: bool


def read_footers(access: DuckDBFiles, files: Sequence[FileName], *, table: str) -> dict[PhysicalPath, Footer]:
    """Footers by physical path, of which the counts are true of each other (`harness.metadata.files.parquet_footer`).

    Raises:
        MissingFileError: a file is not there, or is empty (iceberg 7.6).
        EncryptedTableError: a file has the magic of an encrypted footer (iceberg 2.19).
        CorruptFileError: a footer cannot be read, or contradicts itself.
    """
    if not files:
        return {}
    try:
        return _read(access, tuple(file.physical for file in files))
    except (duckdb.Error, HarnessError, LookupError, ValueError) as error:
        for file in files:  # the slow way round, to name the culprit
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
    """Footers, and the faults of files whose footers cannot be read, by physical path."""
    try:
        return read_footers(access, files, table=table), {}
    except HarnessError as error:
        if len(files) == 1:
            return {}, {files[0].physical: error}
    middle = len(files) // 2
    parts = (files[:middle], files[middle:])
    (some, wrong), (others, also) = (footers_and_faults(access, part, table=table) for part in parts)
    return some | others, wrong | also


def converted_files(files: DuckDBFiles, footers: Mapping[PhysicalPath, Footer]) -> frozenset[str]:
    """The physical paths of files whose binary columns DuckDB turns into geometries and back (frontier F0.2)."""
    binary = [
        path
        for path, footer in footers.items()
        if b"geo" in footer.metadata
        and not footer.foreign  # and so read through Arrow
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
        _parsed_by_duckdb(files, bare)  # which tells what is wrong
        raise CorruptFileError("It has no footer", cause="CorruptDataFile")
    schemas = dict(_schemas)  # of this call: another thread may clear the others
    new: dict[bytes, PhysicalPath] = {}
    for path, footer in checked.items():
        if footer.schema not in schemas:
            new.setdefault(footer.schema, path)
    columnless = [schema for schema in new if not leaves_before(schema)]  # which DuckDB refuses
    parsed = _parsed(files, {path: schema for schema, path in new.items() if schema not in columnless})
    learnt = {schema: ((), None, False) if schema in columnless else parsed[path] for schema, path in new.items()}
    if len(_schemas) + len(new) > _MOST_SCHEMAS:
        _schemas.clear()
    schemas.update(learnt)
    _schemas.update(learnt)
    found = {}
    for path, footer in checked.items():
        columns, shown, foreign = schemas[footer.schema]
        found[path] = Footer(columns, footer.rows, footer.metadata, shown, foreign, BROTLI in footer.codecs)
    return found


_KnownSchema: TypeAlias = tuple[PhysicalSchema, tuple[str, ...] | None, bool]
"""The columns, `shown`, and `foreign` of a `Footer`."""
_schemas: dict[bytes, _KnownSchema] = {}
"""Schemas by the bytes that they were parsed from, in any file of this process."""
_MOST_SCHEMAS = 1024


def _checked_footers(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> dict[PhysicalPath, CheckedFooter]:
    """The footers of files by physical path, without those that have none; those of stores are asked for together."""
    found: dict[PhysicalPath, CheckedFooter] = {}
    schemas: dict[bytes, None] = {}
    with phase("reading footers", len(physical), "files") as advance:
        for path, end in _ends(files, physical):
            try:
                footer = _checked_footer(files, path, end, schemas)
            except Contradiction as error:
                raise corrupt_file(f"{error}; restore the file", path) from error
            if footer is not None:
                found[path] = footer
                if len(schemas) < MOST_TRIED:
                    schemas[footer.schema] = None
            advance(1)
    return found


def _checked_footer(
    files: DuckDBFiles, path: PhysicalPath, end: bytes, schemas: Iterable[bytes]
) -> CheckedFooter | None:
    """The footer at the end of a file, or None if it has none. Raises Contradiction."""
    if files.storage.untrusted:
        return parse_footer(end, files.storage.size(path), None)
    tail, key = parse_tail(end, schemas), hash(end[-tail_length(end) :])
    codecs = _checked.get(key)
    if tail is not None and not tail.has_metadata and codecs is not None:
        return CheckedFooter(tail.schema, tail.rows, codecs, {})
    footer = parse_footer(end, None, tail)  # places outside of the file are DuckDB's to see
    if footer is not None:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked[key] = footer.codecs
    return footer


_checked: dict[int, frozenset[int]] = {}
"""The codecs of footers that were checked, in any file of this process, by their hashes."""
_MOST_CHECKED = 1 << 17


def _ends(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> Iterator[tuple[PhysicalPath, bytes]]:
    """The ends of files by path, each with its footer; of local files one after another, so that few are held."""
    remote = [path for path in physical if not is_local(path)]

    def remote_end(path: PhysicalPath) -> bytes:
        if files.storage.reads_ends(path):
            return _whole_footer(lambda length: files.storage.end(path, length), _REMOTE_BYTES)
        size = files.storage.size(path)  # and the end is read once more, by DuckDB
        return _whole_footer(lambda length: files.storage.read(path, offset=max(0, size - length)), TAIL_BYTES)

    yield from zip(remote, map_files(remote_end, remote, remote), strict=True)
    for path in physical:
        if is_local(path):
            yield path, _whole_footer(partial(files.end, path), TAIL_BYTES)


def _whole_footer(end: Callable[[int], bytes], length: int) -> bytes:
    """The end of a file, of some length, or of the length of its footer if that is longer."""
    found = end(length)
    return end(tail_length(found)) if tail_length(found) > len(found) else found


_REMOTE_BYTES = 1 << 14
"""Bytes asked for of the end of a file in a store: most footers are shorter."""
MOST_TRIED = 8
"""Schemas that the bytes of a file are compared with, before its own are looked for."""


def _parsed(files: DuckDBFiles, schemas: Mapping[PhysicalPath, bytes]) -> dict[str, _KnownSchema]:
    """The schemas of files by path, from their bytes. The bytes of a schema that DuckDB refuses are parsed here."""
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
    found = physical_schemas(row[:-1] for row in rows)
    types: dict[str, list[str | None]] = {}
    for name, *_, type_ in rows:
        types.setdefault(name, []).append(type_)
    names = {path: files.name(path) for path in physical}
    return {path: (found[name], _duckdb_types(found[name], types[name]), False) for path, name in names.items()}


def _duckdb_types(columns: PhysicalSchema, types: Sequence[str | None]) -> tuple[str, ...] | None:
    """DuckDB's types of the columns, see `Footer`; None: not certain, as of nested, binary and renamed columns."""
    known = tuple(type_ for type_ in types[1:] if type_ is not None)
    if len(known) != len(columns) or not all(isinstance(f.type, _PLAIN) for f in columns):
        return None
    names = {f.name.casefold() for f in columns}
    return known if len(names) == len(columns) and "" not in names else None


_PLAIN = (dt.BooleanType, dt.DateType, dt.DecimalType, dt.FloatType, dt.IntegerType, dt.StringType, dt.TimestampType)


# Files of writers that counted days in the old calendar before 1582 (delta T20).
#
# Spark before 3.0, and later versions in legacy mode, wrote dates before 1582-10-15, and instants before 1900, in the
# hybrid Julian calendar and in local zones, as the footer says. A value that is old enough to be wrong is refused.


OLDEST_DAY = -141427
"""1582-10-15, the first day that both calendars count alike, in days since 1970-01-01."""
OLDEST_MICROS = -2208988800000000
"""1900-01-01T00:00, the first timestamp that is alike in every zone, in micros since 1970-01-01."""

_DATES, _INT96 = "dates and timestamps", "int96 timestamps"
_KEYS = {b"org.apache.spark.legacyDateTime": _DATES, b"org.apache.spark.legacyINT96": _INT96}
_VERSION = b"org.apache.spark.version"


def legacy_kinds(schema: PhysicalSchema, metadata: Mapping[bytes, bytes]) -> frozenset[str]:
    """Kinds of values that a file of these columns may hold in the old calendar, by its metadata."""
    every = frozenset(_KEYS.values())
    major = metadata.get(_VERSION, b"").split(b".", 1)[0]
    is_old = major.isdigit() and int(major) < 3
    kinds = every if is_old else frozenset(kind for key, kind in _KEYS.items() if key in metadata)
    return kinds if kinds and any(is_legacy(stored, every) for stored in walk_stored(schema)) else frozenset()


def is_legacy(stored: PhysicalField, legacy: frozenset[str]) -> bool:
    """Tells whether old values of a column are in the old calendar. `legacy`: of its file, from `legacy_kinds`."""
    match stored.type:
        case dt.DateType() | dt.TimestampType(utc=True):
            return _DATES in legacy
        case dt.Int96Type():
            return _INT96 in legacy
        case _:
            return False
