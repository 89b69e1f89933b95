"""Clients of stores: their interface, the client over a file system of fsspec, logs and repetitions of requests.

Every method takes a whole physical path and may raise whatever its library does; `harness.storage.stores` turns that
into an error that names the file. FileNotFoundError and PermissionError mean what they say.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.errors import StorageError, size_text
from harness.storage.paths import SCHEME, redact
from harness.storage.records import dataclass
from harness.storage.stores import Entry, FileStatus, FileVersion, milliseconds
from harness.storage.threads import Lock

if TYPE_CHECKING:
    from collections.abc import Mapping

    import fsspec


# File systems of fsspec that several threads may ask at once, beside its asynchronous ones. It promises this of no
# other: one of them may read all its files through one handle, such as that of an archive.
_FOR_THREADS = {"LocalFileSystem", "ArrowFSWrapper", "MemoryFileSystem"}


OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "abfs", "abfss", "az", "azure", "adl", "wasb", "wasbs", "gs", "gcs"})
"""Schemes that `harness.storage.object_client` serves; all others are fsspec's."""


class Client(Protocol):
    """Reads the files of one store; threads may ask it at once."""

    @property
    def identity(self) -> Hashable:
        """Equal for clients that see the same files."""

    @property
    def reads_ends(self) -> bool:
        """True if the ends of many files are to be read at once by `end`, which tells their status too."""

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        """Bytes of a file, fewer at its end, in one request; and what it was then, if that is told with them."""

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        """The last bytes of a file, all of a shorter one; and what it was then."""

    def status(self, path: str) -> FileStatus:
        """The status of a file now; raises IsADirectoryError of a directory."""

    def version(self, path: str) -> FileVersion | None:
        """The version of a file now; None: the store does not tell."""

    def is_file(self, path: str) -> bool:
        """True if a file is there."""

    def is_directory(self, path: str) -> bool:
        """True if some file is below the path."""

    def entries(self, directory: str) -> list[Entry]:
        """The files directly in a directory, listed afresh; raises FileNotFoundError where there is none."""

    def directories(self, directory: str) -> set[str]:
        """Names of the directories directly in a directory. Raises as `entries`."""


def check_scheme(scheme: str) -> None:
    """Raises ValueError or ImportError if nothing installed serves a scheme, as far as shows without options."""
    if scheme.lower() not in OBJECT_STORES:
        import fsspec

        fsspec.get_filesystem_class(scheme.lower())


def open_client(base: str, options: Mapping[str, object]) -> Client:
    """The client of a store, by its scheme and bucket or host. Raises the errors of its library."""
    scheme = base.partition("://")[0].lower()
    if scheme in OBJECT_STORES:
        from harness.storage import object_client

        return _LoggedClient(object_client.client(base, options))
    import fsspec

    return _LoggedClient(_FsspecClient(fsspec.filesystem(scheme, **options), scheme))


def local_client() -> Client:
    """The client of local files, through fsspec."""
    import fsspec

    return _FsspecClient(fsspec.filesystem("file"), "file")


@dataclass(frozen=True, slots=True)
class _FsspecClient:
    """A file system of fsspec. protocol: by which it knows its paths, in place of a scheme that is its alias."""

    file_system: fsspec.AbstractFileSystem
    protocol: str
    reads_ends: bool = False

    @property
    def identity(self) -> Hashable:
        from fsspec.utils import tokenize

        file_system = self.file_system  # its own equality says the same, and that one thread made both
        return type(file_system), tokenize(*file_system.storage_args, **file_system.storage_options)

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        end = None if length is None else offset + length
        with _call_guard(self.file_system):
            return bytes(self.file_system.cat_file(self._name(path), start=offset, end=end)), None

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        status = self.status(path)
        return self.read(path, max(0, status.size - length), length)[0], status

    def status(self, path: str) -> FileStatus:
        info = self._info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        if info["size"] is None:
            raise StorageError("Cannot read file: its storage does not tell its size", file=path)
        return FileStatus(int(info["size"]), _modified_ms(info))

    def version(self, path: str) -> FileVersion | None:
        info = self._info(path)
        tags = [f"{name}={info[name]}" for name in _TAGS if isinstance(info.get(name), str | int) and info[name] != ""]
        size = info.get("size")
        if not tags or not isinstance(size, int):
            return None
        return FileVersion(size, ";".join([*tags, f"modified={_modified_ms(info)}"]))

    def is_file(self, path: str) -> bool:
        try:
            return bool(self._read_info(self._name(path))["type"] == "file")
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False  # S3 denies what is not there to who may not list

    def is_directory(self, path: str) -> bool:
        with _call_guard(self.file_system):
            return bool(self.file_system.isdir(self._name(path)))

    def entries(self, directory: str) -> list[Entry]:
        return [
            Entry(info["name"].rsplit("/", 1)[-1], int(info.get("size") or 0), _modified_ms(info, "created"))
            for info in self._list(directory)
            if info["type"] == "file"
        ]

    def directories(self, directory: str) -> set[str]:
        entries = self._list(directory)
        return {info["name"].rstrip("/").rpartition("/")[2] for info in entries if info["type"] == "directory"}

    def _info(self, path: str) -> dict[str, Any]:
        name = self._name(path)
        with _call_guard(self.file_system):
            self.file_system.invalidate_cache(name)
            return self._read_info(name)

    def _read_info(self, name: str) -> dict[str, object]:
        try:
            with _call_guard(self.file_system):
                info: dict[str, Any] = self.file_system.info(name)
        except FileNotFoundError as error:
            # That of HTTP says so of any failure (fsspec 2026.9): a file that is there would be taken for absent.
            failure = error.__cause__
            answers = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
            is_unanswered = isinstance(failure, OSError) and not isinstance(failure, answers)
            if failure is not None and (transient_reason(failure) or is_unanswered):
                raise failure from None
            raise
        return info

    def _list(self, directory: str) -> list[dict[str, Any]]:
        name = self._name(directory)
        with _call_guard(self.file_system):
            self.file_system.invalidate_cache(name)
            entries: list[dict[str, Any]] = self.file_system.ls(name, detail=True)
            return entries

    def _name(self, path: str) -> str:
        match = SCHEME.match(path)
        return path if match is None else self.protocol + path[match.end() :]


_TAGS = ("ETag", "etag", "e_tag", "VersionId", "version_id", "generation", "md5Hash", "content_md5")
"""Names of properties that change with each version of an object."""
_MODIFIED = ("mtime", "LastModified", "last_modified", "modified", "updated")
"""Names of the last modification, which is a number of seconds, an ISO text or a datetime."""


def _modified_ms(info: Mapping[str, object], *other_names: str) -> int | None:
    """The first time that fsspec gives of a file under one of these names, milliseconds since 1970-01-01 UTC."""
    value = next((info[key] for key in (*_MODIFIED, *other_names) if info.get(key) is not None), None)
    if isinstance(value, int | float):
        return round(value * 1_000_000) // 1000
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return milliseconds(value) if isinstance(value, datetime) else None


def _call_guard(file_system: fsspec.AbstractFileSystem) -> AbstractContextManager[object]:
    """A context for each call of a file system, for one thread at a time unless it is made for several."""
    names = {kind.__name__ for kind in type(file_system).__mro__}
    if getattr(file_system, "async_impl", False) or not names.isdisjoint(_FOR_THREADS):
        return nullcontext()
    # Kept on the file system, so that whatever has it has the lock; what pickles a file system leaves it behind.
    lock: Lock = vars(file_system).setdefault("_harness_lock", Lock(reentrant=True))
    return lock


# The traffic of this process with stores: for whoever shows progress, and in the log on long reads.


LOG = logging.getLogger("harness.storage")
_EVERY_S = 5.0


@dataclass(slots=True)
class Traffic:
    """Requests that were answered, the bytes of files that came, and how often a request that failed was repeated.
    While they come, the log says so at INFO.

    clock: the time in seconds; the log is told when five have passed since it was.
    """

    clock: Callable[[], float] = time.monotonic
    requests: int = 0
    size: int = 0
    retries: int = 0
    _logged_at: float | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, size: int) -> None:
        """Counts an answer, with so many bytes of a file."""
        with self._lock:
            now = self.clock()
            self.requests, self.size = self.requests + 1, self.size + size
            if self._logged_at is None:
                self._logged_at = now
            if now - self._logged_at < _EVERY_S:
                return
            self._logged_at = now
        LOG.info("%s so far", self.summary())

    def count_retry(self) -> None:
        """A request failed, and is asked again."""
        with self._lock:
            self.retries += 1

    def summary(self) -> str:
        """The traffic in words, such as `63.8 MiB of stores in 83 requests, 2 asked again`."""
        plural = "" if self.requests == 1 else "s"
        retries = f", {self.retries} asked again" if self.retries else ""
        return f"{size_text(self.size)} of stores in {self.requests} request{plural}{retries}"


TRAFFIC = Traffic()
"""The traffic of this process."""


# Requests to stores as log records of `harness.storage`: at DEBUG each request, at INFO each repetition.
#
# Requests to file systems of fsspec are repeated here; obstore repeats its own, unseen.


_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _LoggedClient:
    """A client whose requests are logged, and repeated where that may help."""

    client: Client

    @property
    def identity(self) -> Hashable:
        return self.client.identity

    @property
    def reads_ends(self) -> bool:
        return self.client.reads_ends

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        what = "all" if length is None and offset == 0 else f"from byte {offset}"
        return _with_retries(f"read {what} of", _byte_count, self.client.read, path, offset, length)

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        return _with_retries("read the end of", _byte_count, self.client.end, path, length)

    def status(self, path: str) -> FileStatus:
        return _with_retries("ask the status of", lambda status: f"{status.size} bytes", self.client.status, path)

    def version(self, path: str) -> FileVersion | None:
        return _with_retries("ask the version of", lambda _: "done", self.client.version, path)

    def is_file(self, path: str) -> bool:
        return _with_retries("look for file", _existence, self.client.is_file, path)

    def is_directory(self, path: str) -> bool:
        return _with_retries("look for directory", _existence, self.client.is_directory, path)

    def entries(self, directory: str) -> list[Entry]:
        return _with_retries("list files of", lambda entries: f"{len(entries)} files", self.client.entries, directory)

    def directories(self, directory: str) -> set[str]:
        return _with_retries(
            "list directories of", lambda names: f"{len(names)} of them", self.client.directories, directory
        )


def _byte_count(result: tuple[bytes, FileStatus | None]) -> str:
    return f"{len(result[0])} bytes"


def _existence(exists: bool) -> str:
    return "there" if exists else "not there"


# Requests to file systems of fsspec that failed in a way that passes: asked again after a while, each time longer.


MOST_RETRIES = 5
_MOST_SECONDS = 60.0
_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_CONNECTION_ERRORS = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# Errors of aiohttp, requests, urllib3, http.client and botocore, none of which need be installed.
_CONNECTION_ERROR_NAMES = frozenset(
    {
        *("ServerDisconnectedError", "ServerTimeoutError", "ClientPayloadError", "ClientOSError"),
        *("ReadTimeout", "ConnectTimeout", "ReadTimeoutError", "ConnectTimeoutError", "ChunkedEncodingError"),
        *("ProtocolError", "IncompleteRead", "ConnectionClosedError"),
    }
)


def _with_retries(
    what: str, describe: Callable[[_Result], str], request: Callable[..., _Result], path: str, *arguments: object
) -> _Result:
    """The result of a request, or the error of its last repetition. what, came: request and result, for the log."""
    end = time.monotonic() + _MOST_SECONDS
    attempt = 0
    while True:
        attempt, start = attempt + 1, time.monotonic()
        try:
            result = request(path, *arguments)
        except Exception as error:
            LOG.debug("%s %s: %s, %.0f ms", what, redact(path), type(error).__name__, (time.monotonic() - start) * 1000)
            reason = transient_reason(error)
            wait_s = max(0.1 * 2 ** (attempt - 1) * random.uniform(0.5, 1), _retry_after(error))
            if attempt > MOST_RETRIES or reason is None or time.monotonic() + wait_s > end:
                raise
        else:
            TRAFFIC.add(len(result[0]) if isinstance(result, tuple) and isinstance(result[0], bytes) else 0)
            LOG.debug("%s %s: %s, %.0f ms", what, redact(path), describe(result), (time.monotonic() - start) * 1000)
            return result
        TRAFFIC.count_retry()
        LOG.info(
            "%s %s: %s, asked again in %.1f s, %d of %d", what, redact(path), reason, wait_s, attempt, MOST_RETRIES
        )
        time.sleep(wait_s)


def transient_reason(error: BaseException) -> str | None:
    """Why the same request may be answered later, in a few words, nothing secret; None: it would fail again."""
    status = _http_status(error)
    if status is not None:
        return f"HTTP {status}" if status in _TRANSIENT_STATUSES else None
    name = type(error).__name__
    return name if isinstance(error, _CONNECTION_ERRORS) or name in _CONNECTION_ERROR_NAMES else None


def _http_status(error: BaseException) -> int | None:
    """The status of HTTP in an error of aiohttp, requests, urllib, botocore or a client of Google's."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        response = response.get("ResponseMetadata", {})
        return response.get("HTTPStatusCode") if isinstance(response, dict) else None
    candidates = (getattr(error, "status", None), getattr(error, "code", None), getattr(response, "status_code", None))
    return next((status for status in candidates if isinstance(status, int)), None)


def _retry_after(error: BaseException) -> float:
    """Seconds that the store asks to wait; 0 where it does not, or names a date."""
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    text = str(headers.get("Retry-After", "")) if hasattr(headers, "get") else ""
    return float(text) if text.isascii() and text.isdecimal() else 0.0
