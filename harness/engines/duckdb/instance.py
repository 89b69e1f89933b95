"""DuckDB instances under the settings that harness reads with: one that all of harness's own reads share, and others.

Starting an instance takes some 30 ms, which is most of what reading a small table costs, while a cursor of a running
one takes 10 µs. A cursor has views, registered tables and a transaction of its own. Settings, file systems and memory
belong to the instance, so its configuration is locked: whoever holds a relation of it could change them for everybody.

An internal error while a query runs makes DuckDB give up the whole instance: whatever runs on it fails from then on. So
an instance is asked for a sign of life before a cursor of it is handed out, and replaced where there is none.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import wraps
from typing import ParamSpec, TypeVar
from weakref import WeakSet

import duckdb

from harness.errors import MissingFileError, RequestError
from harness.metadata.filters import sqltext
from harness.storage.limits import confinement
from harness.storage.paths import PhysicalPath, is_local, local_path
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import WATCHED, Lock, track

IS_DUCKDB_1 = int(duckdb.__version__.split(".")[0]) < 2
GEOMETRY_CONVERSION = "enable_geoparquet_conversion"
"""DuckDB's setting; it has no say on columns that Parquet itself annotates as geometries."""

_SETTINGS = (
    "TimeZone = 'UTC'",
    "preserve_insertion_order = false",
    "autoinstall_known_extensions = false",
    f"{GEOMETRY_CONVERSION} = false",
    # DuckDB 1.5 keeps what it read of local files too, and takes one of the same size and time for the one before.
    *(["enable_external_file_cache = false"] if IS_DUCKDB_1 else []),
)


def connect(*, lossless: bool = True, locked: bool = False) -> duckdb.DuckDBPyConnection:
    """A new in-memory instance, for a caller who may change it, under the settings that harness reads with.

    UTC, so that no value depends on the machine; no extension is downloaded; row order is not kept, because a table has
    none; the bytes of binary columns come as they are stored, whatever GeoParquet metadata says (frontier F0.2).

    Args:
        lossless: Arrow results keep UUIDs as UUIDs and JSON as JSON, but have bytes (`arrow.bool8`) for booleans, which
            Polars and Parquet take for numbers. Without, as is DuckDB's own default, both are text, and booleans are.
        locked: no setting can be changed; so it is of every instance in a process that is confined.
    """
    connection = track(duckdb.connect())
    for setting in (*_SETTINGS, f"arrow_lossless_conversion = {lossless}"):
        connection.execute(f"SET GLOBAL {setting}")  # a cursor has the settings of the instance, not of the connection
    confined = _confining(connection)
    for setting in confined:
        connection.execute(f"SET GLOBAL {setting}")
    if locked and WATCHED.is_set():
        with suppress(duckdb.Error):  # a version without this setting shows no percentages
            connection.execute(f"SET GLOBAL allowed_configs = {list(_MEASURED)}")
    if locked or confined:
        connection.execute("SET GLOBAL lock_configuration = true")
    return connection


_MEASURED = {"enable_progress_bar_print": "false", "enable_progress_bar": "true"}
"""Settings of a connection whose queries say how far they are, and print nothing."""
_MOST_THREADS = 4
"""The most threads of a confined process: each takes address space of its own."""


def _confining(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The settings of a confined process, in the order in which they are set; none elsewhere."""
    confined = confinement()
    if confined is None:
        return []
    from harness.engines.duckdb.store_files import planned_files

    # DuckDB holds a list of files against the directories before it takes them for patterns, and after.
    allowed = dict.fromkeys(form for path in confined.directories for form in (path, sqltext.escape_glob(path)))
    allowed[f"{planned_files(connection).protocol}://"] = None  # which opens nothing but files of plans
    return [
        f"memory_limit = '{confined.memory_bytes} B'",
        f"temp_directory = {sqltext.text(confined.scratch)}",
        f"max_temp_directory_size = '{confined.scratch_bytes} B'",
        f"threads = {min(_MOST_THREADS, os.cpu_count() or 1)}",
        f"allowed_directories = [{', '.join(map(sqltext.text, allowed))}]",
        "enable_external_access = false",
    ]


def cursor(*, lossless: bool = True) -> duckdb.DuckDBPyConnection:
    """A connection of its own to the instance of this process for harness's own reads; the settings are `connect`'s.

    Every `SET` on it is refused by DuckDB. An instance that DuckDB has given up is replaced by another. A process that
    was forked gets an instance of its own: the threads of DuckDB do not live on in it.
    """
    key = os.getpid(), lossless
    with _lock:
        made = _instances[key].cursor() if key in _instances else None
        if made is None or not _is_alive(made):
            _instances[key] = connect(lossless=lossless, locked=True)
            made = _instances[key].cursor()
        if WATCHED.is_set():
            with suppress(duckdb.Error):
                for setting, value in _MEASURED.items():
                    made.execute(f"SET {setting} = {value}")
    _own.add(made)
    return track(made)


def is_internal(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tells whether `cursor` has made a connection, so that what harness sets on it is in nobody's way."""
    return connection in _own


def ends_instance(error: BaseException) -> bool:
    """Tells whether an error is one that may have ended its instance, or says that another did."""
    return isinstance(error, duckdb.InternalException | duckdb.FatalException)


_own: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_lock = Lock()
_instances: dict[tuple[int, bool], duckdb.DuckDBPyConnection] = {}
"""By process: a child keeps the instances of its parent, as it can neither use nor end them."""


def _is_alive(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tells whether the instance of a connection takes statements, by one that fails before it is planned (66 µs)."""
    try:
        connection.execute("EXECUTE harness_sign_of_life")
    except duckdb.Error as error:
        return not ends_instance(error)
    return True


# Files as DuckDB gets them: local ones by their paths, all others through `harness.engines.duckdb.store_files`, and
# local ones whose paths no pattern of DuckDB can match.
#
# DuckDB parses the text of a lazy query three times: for 10,000 files as long as reading a quarter of them takes. Long
# lists are variables of harness's own connections. On a user's they are text: a view there needs nothing but the files.


_MANY = 100
"""Files from which on a variable is faster than text: it takes 0.2 ms, and saves some 15 µs a file."""


@dataclass(slots=True)
class DuckDBFiles:
    """The files of one storage, as SQL on one connection calls them."""

    connection: duckdb.DuckDBPyConnection
    storage: Storage
    _names: dict[str, str] = field(default_factory=dict)

    def name(self, physical: PhysicalPath) -> str:
        """DuckDB's name of a file, which SQL of the connection may read from now on.

        Raises MissingFileError where no file can have such a path (iceberg 7.6), RequestError for an unknown scheme.
        """
        if physical in self._names:
            return self._names[physical]
        fault = self.storage.fault(physical)
        if fault is not None:
            raise MissingFileError(f"Cannot read file: {fault}", file=physical, rule="iceberg 7.6")
        if is_local(physical) and sqltext.opens_in_duckdb(local_path(physical)):
            self._names[physical] = local_path(physical)
        else:
            from harness.engines.duckdb.store_files import planned_files  # fsspec, which local files need not

            files = planned_files(self.connection)
            self._names[physical] = files.admit(physical, self.storage, self.connection)
        return self._names[physical]

    def listed(self, physical: Sequence[PhysicalPath]) -> str:
        """The list of files, as an expression for `read_parquet` and its like. Raises as `name`."""
        named = [self._names.get(path) or self.name(path) for path in physical]
        content = "\0".join(named)
        if sqltext.escape_glob(content) != content:
            named = list(map(sqltext.escape_glob, named))
        if len(named) < _MANY or not is_internal(self.connection):
            return f"[{', '.join(map(sqltext.text, named))}]"
        # Named by its content, so that the same list is the same text.
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16)
        variable = f"harness_{digest.hexdigest()}"
        self.connection.execute(f"SET VARIABLE {variable} = $1", [named])
        return f"getvariable('{variable}')"

    def end(self, physical: PhysicalPath, length: int) -> bytes:
        """The last bytes of a local file, see `Storage.end`; SQL may then read it, as `name` says."""
        found = self.storage.end(physical, length)
        if sqltext.opens_in_duckdb(local_path(physical)):
            self._names[physical] = local_path(physical)
        return found


# DuckDB's words about files, in a caller's words: physical paths for its names, and its errors as one line.
#
# DuckDB keeps of such an exception a text with a traceback, in a changing form: what counts stands between two marks.


P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"harness-[0-9a-f]{32}://\d+/")
_BEGIN, _END = "harness says: ", " (as harness says)"


def mark_errors(call: Callable[P, R]) -> Callable[P, R]:
    """A function that DuckDB calls, whose failures `said` finds again; nothing of what led to one is told with it."""

    @wraps(call)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return call(*arguments, **named)
        except Exception as error:
            raise OSError(f"{_BEGIN}{type(error).__name__}: {error}{_END}") from None

    return run


def with_physical_paths(name: str) -> str:
    """The physical path of a file, by the name under which DuckDB has it."""
    return _NAME.sub("", name)


def is_storage_error(reason: str) -> bool:
    """Tells whether DuckDB gives the text of a StorageError of `StoreFiles`."""
    return reason.startswith("StorageError: ")


_NO_ACCESS = "enable_external_access = false"
_FORBIDDEN = (
    (re.compile(r"file system operations are disabled by configuration"), _NO_ACCESS),
    (re.compile(r"File system (\w+) has been disabled by configuration"), r"disabled_filesystems = '\1'"),
)


def forbidding_setting(reason: str) -> str | None:
    """Return the setting of a connection that forbids to open a file, by DuckDB's reason; None if none does."""
    found = ((pattern.search(reason), setting) for pattern, setting in _FORBIDDEN)
    return next((match.expand(setting) for match, setting in found if match is not None), None)


def forbidden_error(setting: str, *, table: str, file: str | None) -> RequestError:
    """Return the error for a file that a setting of the user's connection forbids to open."""
    instead = ", or with the table's directory in its allowed_directories" if setting == _NO_ACCESS else ""
    return RequestError(
        f"Cannot open a file: the setting {setting} of the DuckDB connection forbids it; read on a connection without "
        f"this setting{instead}",
        table=table,
        file=file,
    )


_CANDIDATES = 3


def error_text(error: BaseException) -> str:
    """The text of an error of DuckDB, as one line, with physical paths; of one that began in Python, what that said."""
    text = str(error)
    original_text = text.partition(_BEGIN)[2].partition(_END)[0]
    return " ".join(with_physical_paths(original_text or shorten_candidates(text)).split())


def shorten_candidates(text: str) -> str:
    """The text of an error with three of the functions that might have been meant, of which there can be fifty."""
    before, mark, listed = text.partition("Candidate functions:")
    functions = [line.strip() for line in listed.splitlines() if "->" in line]
    more = f" and {len(functions) - _CANDIDATES} more" if len(functions) > _CANDIDATES else ""
    return f"{before}{mark} {', '.join(functions[:_CANDIDATES])}{more}" if mark else text
