"""DuckDB instances with the settings that harness needs: one shared by all internal reads, and separate ones.

Starting an instance takes some 30 ms, which is most of the time needed to read a small table. A cursor of a running
instance takes 10 µs. A cursor has its own views, registered tables, and transaction. Settings, file systems, and memory
belong to the instance. The configuration of the shared instance is locked, because otherwise any holder of a relation
could change it for everybody.

An internal error during a query makes DuckDB abandon the whole instance: every later query on it fails. So the instance
is tested before a cursor is handed out, and replaced if it no longer works.
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
"""A DuckDB setting. It has no effect on columns that Parquet itself annotates as geometries."""

_SETTINGS = (
    "TimeZone = 'UTC'",
    "preserve_insertion_order = false",
    "autoinstall_known_extensions = false",
    f"{GEOMETRY_CONVERSION} = false",
    # DuckDB 1.5 also caches local files, and mistakes a new file for the cached one if size and time are equal.
    *(["enable_external_file_cache = false"] if IS_DUCKDB_1 else []),
)


def connect(*, lossless: bool = True, locked: bool = False) -> duckdb.DuckDBPyConnection:
    """Open a new in-memory instance with the settings that harness needs.

    The caller may change them unless they are locked.

    The time zone is UTC, so that no value depends on the machine. No extension is downloaded. Row order is not
    preserved, because tables have none. Binary columns keep their stored bytes even if there is GeoParquet metadata
    (frontier F0.2).

    Args:
        lossless: If True, Arrow results keep UUIDs as UUIDs and JSON as JSON, and Booleans are bytes (`arrow.bool8`),
            which Polars and Parquet read as numbers. If False, which is DuckDB's default, UUIDs and JSON are text, and
            Booleans are Booleans.
        locked: If True, no setting can be changed. In a confined process every instance is locked.
    """
    connection = track(duckdb.connect())
    for setting in (*_SETTINGS, f"arrow_lossless_conversion = {lossless}"):
        # a cursor inherits the settings of the instance, not of the connection
        connection.execute(f"SET GLOBAL {setting}")
    confined = _confining(connection)
    for setting in confined:
        connection.execute(f"SET GLOBAL {setting}")
    if locked and WATCHED.is_set():
        with suppress(duckdb.Error):  # versions without this setting show no progress
            connection.execute(f"SET GLOBAL allowed_configs = {list(_MEASURED)}")
    if locked or confined:
        connection.execute("SET GLOBAL lock_configuration = true")
    return connection


_MEASURED = {"enable_progress_bar_print": "false", "enable_progress_bar": "true"}
"""Settings that let a connection measure its progress without printing it."""
_MOST_THREADS = 4
"""The most threads in a confined process. Each thread takes address space."""


def _confining(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the settings for a confined process. They must be set in this order.

    Empty if the process is not confined.
    """
    confined = confinement()
    if confined is None:
        return []
    from harness.engines.duckdb.store_files import store_files_of

    # DuckDB checks listed files against the allowed directories both before and after it expands patterns.
    allowed = dict.fromkeys(form for path in confined.directories for form in (path, sqltext.escape_glob(path)))
    allowed[f"{store_files_of(connection).protocol}://"] = None  # opens only files of plans
    return [
        f"memory_limit = '{confined.memory_bytes} B'",
        f"temp_directory = {sqltext.text(confined.scratch)}",
        f"max_temp_directory_size = '{confined.scratch_bytes} B'",
        f"threads = {min(_MOST_THREADS, os.cpu_count() or 1)}",
        f"allowed_directories = [{', '.join(map(sqltext.text, allowed))}]",
        "enable_external_access = false",
    ]


def cursor(*, lossless: bool = True) -> duckdb.DuckDBPyConnection:
    """Return a new internal connection to the shared instance of this process, with the settings of `connect`.

    DuckDB refuses every `SET` on it. If DuckDB abandoned the instance, a new one replaces it. A forked process gets its
    own instance, because DuckDB's threads do not survive a fork.
    """
    key = os.getpid(), lossless
    with _lock:
        connection = _instances[key].cursor() if key in _instances else None
        if connection is None or not _is_alive(connection):
            _instances[key] = connect(lossless=lossless, locked=True)
            connection = _instances[key].cursor()
        if WATCHED.is_set():
            with suppress(duckdb.Error):
                for setting, value in _MEASURED.items():
                    connection.execute(f"SET {setting} = {value}")
    _own.add(connection)
    return track(connection)


def is_internal(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether `cursor` created a connection. Settings that harness changes there affect no user."""
    return connection in _own


def ends_instance(error: BaseException) -> bool:
    """Return whether an error may have made DuckDB abandon its instance, or reports that an earlier error did."""
    return isinstance(error, duckdb.InternalException | duckdb.FatalException)


_own: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_lock = Lock()
_instances: dict[tuple[int, bool], duckdb.DuckDBPyConnection] = {}
"""By process id: a child process keeps its parent's instances alive, because it can neither use nor close them."""


def _is_alive(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether an instance accepts statements. The test statement fails before it is planned (66 µs)."""
    try:
        connection.execute("EXECUTE harness_sign_of_life")
    except duckdb.Error as error:
        return not ends_instance(error)
    return True


# Paths: DuckDB opens local files by their paths. All other files go through `harness.engines.duckdb.store_files`, as do
# local files with paths that no DuckDB pattern can match.
#
# DuckDB parses the text of a lazy query three times, which for 10,000 files takes as long as reading a quarter of them.
# So long lists are stored in variables of internal connections. On a user's connection the list stays text, because a
# view there must work without other objects.


_MANY = 100
"""Above this number of files, a variable is faster than text: it costs 0.2 ms and saves some 15 µs per file."""


@dataclass(slots=True)
class DuckDBFiles:
    """Names files of one storage in the SQL of one connection."""

    connection: duckdb.DuckDBPyConnection
    storage: Storage
    _names: dict[str, str] = field(default_factory=dict)

    def name(self, physical: PhysicalPath) -> str:
        """Return DuckDB's name for a file. From now on, SQL on the connection may read the file.

        Raises:
            MissingFileError: No file can have this path (iceberg 7.6).
            RequestError: The path has an unknown scheme.
        """
        if physical in self._names:
            return self._names[physical]
        fault = self.storage.fault(physical)
        if fault is not None:
            raise MissingFileError(f"Cannot read file: {fault}", file=physical, rule="iceberg 7.6")
        if is_local(physical) and sqltext.opens_in_duckdb(local_path(physical)):
            self._names[physical] = local_path(physical)
        else:
            # imports fsspec, which local files do not need
            from harness.engines.duckdb.store_files import store_files_of

            files = store_files_of(self.connection)
            self._names[physical] = files.admit(physical, self.storage, self.connection)
        return self._names[physical]

    def listed(self, physical: Sequence[PhysicalPath]) -> str:
        """Return a SQL expression for a list of files, as `read_parquet` accepts it. Raises the errors of `name`."""
        names = [self._names.get(path) or self.name(path) for path in physical]
        content = "\0".join(names)
        if sqltext.escape_glob(content) != content:
            names = list(map(sqltext.escape_glob, names))
        if len(names) < _MANY or not is_internal(self.connection):
            return f"[{', '.join(map(sqltext.text, names))}]"
        # The name is derived from the content, so that equal lists give equal query texts.
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16)
        variable = f"harness_{digest.hexdigest()}"
        self.connection.execute(f"SET VARIABLE {variable} = $1", [names])
        return f"getvariable('{variable}')"

    def end(self, physical: PhysicalPath, length: int) -> bytes:
        """Return the last bytes of a local file, see `Storage.end`. SQL may then read the file, as after `name`."""
        tail = self.storage.end(physical, length)
        if sqltext.opens_in_duckdb(local_path(physical)):
            self._names[physical] = local_path(physical)
        return tail


# DuckDB's messages: internal file names become physical paths, and errors become one line.
#
# DuckDB turns an exception of a Python callback into text with a traceback, in a format that changes between versions.
# Two marks in the text delimit the original message.


P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"harness-[0-9a-f]{32}://\d+/")
_BEGIN, _END = "harness says: ", " (as harness says)"


def mark_errors(call: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that DuckDB calls so that `error_text` can extract its error message.

    The traceback is dropped.
    """

    @wraps(call)
    def run(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return call(*arguments, **keywords)
        except Exception as error:
            raise OSError(f"{_BEGIN}{type(error).__name__}: {error}{_END}") from None

    return run


def with_physical_paths(name: str) -> str:
    """Replace the internal names of files in a text by their physical paths."""
    return _NAME.sub("", name)


def is_storage_error(reason: str) -> bool:
    """Return whether a message comes from a StorageError raised in `StoreFiles`."""
    return reason.startswith("StorageError: ")


_NO_ACCESS = "enable_external_access = false"
_FORBIDDEN = (
    (re.compile(r"file system operations are disabled by configuration"), _NO_ACCESS),
    (re.compile(r"File system (\w+) has been disabled by configuration"), r"disabled_filesystems = '\1'"),
)


def forbidding_setting(reason: str) -> str | None:
    """Return the connection setting that forbade opening a file, according to DuckDB's message. None if none did."""
    matches = ((pattern.search(reason), setting) for pattern, setting in _FORBIDDEN)
    return next((match.expand(setting) for match, setting in matches if match is not None), None)


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
    """Return the text of a DuckDB error as one line with physical paths.

    If Python code raised it, return only that message.
    """
    text = str(error)
    original_text = text.partition(_BEGIN)[2].partition(_END)[0]
    return " ".join(with_physical_paths(original_text or shorten_candidates(text)).split())


def shorten_candidates(text: str) -> str:
    """Return an error text with at most 3 of the functions that DuckDB suggests. There can be 50."""
    before, mark, listed = text.partition("Candidate functions:")
    functions = [line.strip() for line in listed.splitlines() if "->" in line]
    more = f" and {len(functions) - _CANDIDATES} more" if len(functions) > _CANDIDATES else ""
    return f"{before}{mark} {', '.join(functions[:_CANDIDATES])}{more}" if mark else text
