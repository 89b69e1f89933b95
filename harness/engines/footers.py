"""Footers of Parquet files, each read once: schemas and row counts, before any row is read.

Only the end of a file is read, and the schema known again by its bytes (`harness.metadata.files.parquet_footer`):
10,000 local files take 0.1 s. Ends of files in a store are asked for together. DuckDB parses one footer of each schema,
for every engine. It refuses a list with a file without a column; those files are looked for only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import duckdb
import pyarrow as pa

from harness.engines.data_files import FileName, check_file, columnless_rows, damaged, look_at, opened
from harness.engines.duckdb.instance import (
    GEOMETRY_CONVERSION,
    DuckDBFiles,
    connect,
    forbidden,
    forbidding_setting,
    is_given_up,
    is_of_storage,
    said,
)
from harness.errors import CorruptFileError, EngineError, HarnessError, StorageError
from harness.metadata.files.parquet import ELEMENT_COLUMNS, open_parquet, physical_schema, physical_schemas
from harness.metadata.files.parquet_elements import parse_elements
from harness.metadata.files.parquet_footer import (
    FRAME,
    TAIL_BYTES,
    Contradiction,
    Tail,
    check_counts,
    claims_too_much,
    is_usual,
    parse_tail,
    tail_length,
)
from harness.metadata.filters import sqltext
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
        look_at(lambda file: check_file(file, storage, table=table), files, [file.physical for file in files])
    except HarnessError as gone:
        return gone
    reason = error.message if isinstance(error, HarnessError) else said(error)[:_SHOWN]
    name = str(files[0]) if len(files) == 1 else None
    if isinstance(error, duckdb.FatalException):  # of an instance that was given up before
        return EngineError(f"{doing}: open the table again: {reason}", table=table)
    if (setting := forbidding_setting(reason)) is not None:
        return forbidden(setting, table=table, file=name)
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.InterruptException):  # of a limit, not of the file
        return EngineError(f"{doing}: {reason}", table=table, file=name)
    if is_of_storage(reason):
        return StorageError(f"{doing}: {reason}", table=table, file=name)
    return damaged(f"{doing}: {reason}", name, table=table)


FOOTER = "Cannot read the footer of a Parquet file"
"""The beginning of errors about a footer."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The columns of a Parquet file, none of one that has none, and the rows that it really has.

    may_be_legacy: whether to look for what it may hold in the old calendar, see `legacy_files`.
    may_be_geo: whether to look for metadata of GeoParquet, see `converted_files`.
    shown: the DuckDB types of the columns, which have their own names there; None: only DuckDB's binder tells.
    foreign: whether DuckDB refuses the schema, which Parquet allows; no function of DuckDB opens the file.
    """

    schema: PhysicalSchema
    rows: int
    may_be_legacy: bool = False
    may_be_geo: bool = False
    shown: tuple[str, ...] | None = None
    foreign: bool = False


def read_footers(
    access: DuckDBFiles, files: Sequence[FileName], *, table: str, are_images: bool = False
) -> dict[PhysicalPath, Footer]:
    """Footers by physical path, of which the counts are true of each other (`harness.metadata.files.parquet_footer`).

    are_images: whether the files are parts of others, whose counts were looked at before.

    Raises:
        MissingFileError: a file is not there, or is empty (iceberg 7.6).
        EncryptedTableError: a file has the magic of an encrypted footer (iceberg 2.19).
        CorruptFileError: a footer cannot be read, or contradicts itself.
    """
    if not files:
        return {}
    try:
        return _read(access, tuple(file.physical for file in files), are_images)
    except (duckdb.Error, HarnessError, LookupError, ValueError) as error:
        bare = columnless_rows(files, access.storage)
        if bare:
            others = [file for file in files if file.physical not in bare]
            footers = read_footers(access, others, table=table, are_images=are_images)
            return footers | {path: Footer((), rows) for path, rows in bare.items()}
        for file in files:  # the slow way round, to name the culprit
            check_file(file, access.storage, table=table)
            alone = DuckDBFiles(connect(), access.storage) if is_given_up(error) else access
            try:
                _read(alone, (file.physical,), are_images)
            except (duckdb.Error, HarnessError, LookupError, ValueError) as reason:
                raise refusal(reason, [file], access.storage, table=table, doing=FOOTER) from reason
        raise refusal(error, files, access.storage, table=table, doing=FOOTER) from error


def converted_files(files: DuckDBFiles, footers: Mapping[PhysicalPath, Footer]) -> frozenset[str]:
    """The physical paths of files whose binary columns DuckDB turns into geometries and back (frontier F0.2)."""
    binary = [
        path
        for path, footer in footers.items()
        if footer.may_be_geo
        and not footer.foreign  # and so read through Arrow
        and any(isinstance(f.type, dt.BinaryType) for f in footer.schema)
    ]
    if not binary:
        return frozenset()
    ((converts,),) = files.connection.execute(f"SELECT current_setting('{GEOMETRY_CONVERSION}')").fetchall()
    if not converts:
        return frozenset()
    paths = {files.name(path): path for path in binary}
    query = f"SELECT file_name FROM parquet_kv_metadata({files.listed(binary)}) WHERE key = 'geo'::BLOB"
    return frozenset(paths[name] for (name,) in files.connection.execute(query).fetchall())


def codecs(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> frozenset[str]:
    """The codecs of the first row groups of Parquet files, in upper case; none, where DuckDB cannot tell.

    pyarrow is not asked for them: a column chunk with size statistics of another type ends its process (26.0).
    """
    try:
        rows = files.connection.execute(
            f"SELECT DISTINCT compression FROM parquet_metadata({files.listed(physical)}) WHERE row_group_id = 0"
        ).fetchall()
    except duckdb.Error:  # of statistics that are none; whoever reads the pages says what is wrong
        return frozenset()
    return frozenset(name for (name,) in rows)


def _read(files: DuckDBFiles, physical: tuple[PhysicalPath, ...], are_images: bool) -> dict[PhysicalPath, Footer]:
    tails = _tails(files, physical, are_images)
    others = [path for path in physical if path not in tails]
    schemas = dict(_schemas)  # of this call: another thread may clear the others
    new: dict[bytes, PhysicalPath] = {}
    for path, tail in tails.items():
        if tail.schema not in schemas:
            new.setdefault(tail.schema, path)
    unknown = [*new.values(), *others]
    parsed = _parsed(files, unknown, tails) if unknown else {}
    if len(_schemas) + len(new) > _MOST_SCHEMAS:
        _schemas.clear()
    learnt = {schema: parsed[path] for schema, path in new.items()}
    schemas.update(learnt)
    _schemas.update(learnt)
    names, counts = {path: files.name(path) for path in others}, {}
    if others:
        query = f"SELECT file_name, num_rows FROM parquet_file_metadata({files.listed(others)})"
        counts = dict(files.connection.execute(query).fetchall())
    if counts.keys() != set(names.values()):  # such as the files inside, of a directory
        raise CorruptFileError("DuckDB reads other files at their paths", cause="CorruptDataFile")
    found = {path: Footer(parsed[path][0], counts[name], True, True, parsed[path][1]) for path, name in names.items()}
    for path, tail in tails.items():
        columns, shown, foreign = schemas[tail.schema]
        found[path] = Footer(columns, tail.rows, tail.may_be_legacy, tail.may_be_geo, shown, foreign)
    return found


_KnownSchema: TypeAlias = tuple[PhysicalSchema, tuple[str, ...] | None, bool]
"""The columns, `shown`, and `foreign` of a `Footer`."""
_schemas: dict[bytes, _KnownSchema] = {}
"""Schemas by the bytes that they were parsed from, in any file of this process."""
_MOST_SCHEMAS = 1024


def _tails(files: DuckDBFiles, physical: Sequence[PhysicalPath], are_images: bool) -> dict[PhysicalPath, Tail]:
    """The ends of those files that are as usual, by physical path; those of stores are asked for together."""
    tails: dict[PhysicalPath, Tail] = {}
    known: dict[bytes, None] = {}
    if not are_images:
        _check_others(files, [path for path in physical if not files.storage.reads_ends(path)])
    with phase("reading footers", len(physical), "files") as advance:
        for path, end in _ends(files, physical):
            if tail_length(end) > len(end):
                end = files.storage.end(path, tail_length(end))
            _check_claims(path, end)
            tail = parse_tail(end, known)
            if not are_images:
                _check_counts(files, path, end, tail)
            if tail is not None:
                tails[path] = tail
                if len(known) < _MOST_TRIED:
                    known[tail.schema] = None
            advance(1)
    return tails


def _check_claims(path: str, end: bytes) -> None:
    """Refuses, by pyarrow, a footer that claims more than it has: DuckDB (1.5, 2.0) takes memory for all of it."""
    if not claims_too_much(end):
        return
    footer = end[-tail_length(end) :]
    try:
        from pyarrow import parquet as pq  # files of no doubt are read without it

        pq.read_metadata(pa.BufferReader(footer[-4:] + footer))
    except (pa.ArrowException, OSError) as error:
        if "deserialize thrift" in str(error):
            raise damaged("A list or text in it claims more than there is; rewrite the file", path) from error


def _check_counts(files: DuckDBFiles, path: PhysicalPath, end: bytes, tail: Tail | None) -> None:
    """Refuses a footer that contradicts itself, see `harness.metadata.files.parquet_footer`."""
    length = tail_length(end)
    if not 0 < length <= len(end):
        return  # no footer, which DuckDB says
    footer = end[-length:-FRAME]
    trusted = not files.storage.untrusted
    known = hash(footer)
    if trusted and known in _usual:
        return
    try:
        if trusted and tail is not None and is_usual(footer, tail.schema):
            if len(_usual) >= _MOST_USUAL:
                _usual.clear()
            _usual.add(known)
            return
        check_counts(footer, files.storage.size(path))
    except Contradiction as error:
        raise damaged(f"{error}; restore the file", path) from error


def _check_others(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> None:
    """Checks the counts of files in stores that do not tell a file's status with its end; such ends are not kept."""
    storage = files.storage

    def end_of(path: PhysicalPath) -> bytes:
        size = storage.size(path)
        end = storage.read(path, offset=max(0, size - TAIL_BYTES))
        missing = tail_length(end) - len(end)
        return storage.read(path, offset=size - len(end) - missing) if 0 < missing <= size - len(end) else end

    for path, end in zip(physical, look_at(end_of, physical, physical), strict=True):
        _check_counts(files, path, end, parse_tail(end))


_usual: set[int] = set()
"""Hashes of footers that were looked at, in any file of this process."""
_MOST_USUAL = 1 << 17


def _ends(files: DuckDBFiles, physical: Sequence[PhysicalPath]) -> Iterator[tuple[PhysicalPath, bytes]]:
    """The ends of files by path; of local files one after another, so that they are not all held at once."""
    looked = [path for path in physical if files.storage.reads_ends(path)]
    remote = [path for path in looked if not is_local(path)]
    yield from zip(remote, look_at(lambda path: files.storage.end(path, _REMOTE_BYTES), remote, remote), strict=True)
    for path in looked:
        if is_local(path):
            yield path, files.end(path, TAIL_BYTES)


_REMOTE_BYTES = 1 << 14
"""Bytes asked for of the end of a file in a store: most footers are shorter."""
_MOST_TRIED = 8
"""Schemas that the bytes of a file are compared with, before its own are looked for."""


def _parsed(
    files: DuckDBFiles, physical: Sequence[PhysicalPath], tails: Mapping[PhysicalPath, Tail]
) -> dict[str, _KnownSchema]:
    """The schemas of files by path. The bytes of a schema that DuckDB refuses are parsed here."""
    try:
        return _parsed_by_duckdb(files, physical)
    except duckdb.Error as error:
        if is_given_up(error) or is_of_storage(said(error)) or any(path not in tails for path in physical):
            raise
        if len(physical) > 1:
            return {path: schema for each in physical for path, schema in _parsed(files, [each], tails).items()}
        (path,) = physical
        schema = physical_schema(parse_elements(tails[path].schema))
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
    return {path: (found[name], _shown(found[name], types[name]), False) for path, name in names.items()}


def _shown(columns: PhysicalSchema, types: Sequence[str | None]) -> tuple[str, ...] | None:
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
_KEYS = {"org.apache.spark.legacyDateTime": _DATES, "org.apache.spark.legacyINT96": _INT96}
_VERSION = "org.apache.spark.version"


def legacy_files(files: DuckDBFiles, footers: Mapping[PhysicalPath, Footer]) -> dict[str, frozenset[str]]:
    """Kinds of values that files may hold in the old calendar, by physical path; files with none are absent."""
    every = frozenset(_KEYS.values())
    physical = [
        path
        for path, footer in footers.items()
        if footer.may_be_legacy and any(is_legacy(stored, every) for stored in walk_stored(footer.schema))
    ]
    rows = _pairs(files, [path for path in physical if not footers[path].foreign], (*_KEYS, _VERSION))
    for other in (path for path in physical if footers[path].foreign):
        with opened(FileName(other, other), files.storage) as stream:
            pairs = open_parquet(stream).metadata.metadata or {}
        rows += [(other, key.decode(errors="replace"), value) for key, value in pairs.items()]
    found: dict[str, frozenset[str]] = {}
    for path, key, value in rows:
        major = value.split(b".", 1)[0] if key == _VERSION else b""
        kinds = frozenset({_KEYS[key]}) if key in _KEYS else every
        if key in _KEYS or (major.isdigit() and int(major) < 3):
            found[path] = found.get(path, frozenset()) | kinds
    return found


def _pairs(files: DuckDBFiles, physical: Sequence[PhysicalPath], keys: Iterable[str]) -> list[tuple[str, str, bytes]]:
    """Paths of files with the values that their footers have under some keys."""
    if not physical:
        return []
    paths = {files.name(path): path for path in physical}
    listed = ", ".join(f"{sqltext.text(key)}::BLOB" for key in keys)
    rows = files.connection.execute(
        "SELECT file_name, decode(key), value "
        f"FROM parquet_kv_metadata({files.listed(physical)}) WHERE key IN ({listed})"
    ).fetchall()
    return [(paths[name], key, bytes(value)) for name, key, value in rows]


def is_legacy(stored: PhysicalField, legacy: frozenset[str]) -> bool:
    """Tells whether old values of a column are in the old calendar. `legacy`: of its file, from `legacy_files`."""
    match stored.type:
        case dt.DateType() | dt.TimestampType(utc=True):
            return _DATES in legacy
        case dt.Int96Type():
            return _INT96 in legacy
        case _:
            return False
