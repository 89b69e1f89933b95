"""Clients of remote stores: the interface, an fsspec client, and logging and retries of requests.

All methods take a whole physical path and may raise any error of their library. `harness.storage.stores` turns such
errors into errors that name the file. FileNotFoundError and PermissionError keep their usual meaning.
"""

from __future__ import annotations

import logging
import math
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


# fsspec file systems that are safe to use from several threads, in addition to asynchronous ones. fsspec guarantees
# this for no others: an archive, for example, may read all its files through one handle.
_FOR_THREADS = {"LocalFileSystem", "ArrowFSWrapper", "MemoryFileSystem"}


OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "abfs", "abfss", "az", "azure", "adl", "wasb", "wasbs", "gs", "gcs"})
"""Schemes that `harness.storage.object_client` serves. fsspec serves all others."""


class Client(Protocol):
    """A reader of one store's files. Several threads may use it at once."""

    @property
    def identity(self) -> Hashable:
        """A value that is equal for clients that read the same files."""

    @property
    def reads_ends(self) -> bool:
        """True if it is faster to call `end` than `status` for many files. `end` also returns the status."""

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        """Read bytes of a file in one request. The result is shorter if the file ends earlier.

        Returns:
            The bytes, and the file's status if the response contains it, or None.
        """

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        """Return the last bytes of a file and its status. If the file is shorter, return the whole file."""

    def status(self, path: str) -> FileStatus:
        """Return the current status of a file. Raise IsADirectoryError for a directory."""

    def version(self, path: str) -> FileVersion | None:
        """Return the current version of a file, or None if the store has no versions."""

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file."""

    def is_directory(self, path: str) -> bool:
        """Return whether any file is below the path."""

    def entries(self, directory: str) -> list[Entry]:
        """List the files directly in a directory, without a cache. Raise FileNotFoundError if it does not exist."""

    def directories(self, directory: str) -> set[str]:
        """List the names of the directories directly in a directory. Raises the same errors as `entries`."""


def check_scheme(scheme: str) -> None:
    """Raise ValueError or ImportError if no installed library serves a scheme, judging by its name only."""
    if scheme.lower() not in OBJECT_STORES:
        import fsspec

        fsspec.get_filesystem_class(scheme.lower())


def open_client(base: str, options: Mapping[str, object]) -> Client:
    """Open the client of a store.

    Args:
        base: Scheme with bucket or host, for example `s3://lake`.
        options: Options of the store, under any of their names.

    Raises:
        Exception: Any error of the store's library.
    """
    scheme = base.partition("://")[0].lower()
    if scheme in OBJECT_STORES:
        from harness.storage import object_client

        return _LoggedClient(object_client.client(base, options))
    import fsspec

    return _LoggedClient(_FsspecClient(fsspec.filesystem(scheme, **options), scheme))


def local_client() -> Client:
    """Return a client for local files that uses fsspec."""
    import fsspec

    return _FsspecClient(fsspec.filesystem("file"), "file")


@dataclass(frozen=True, slots=True)
class _FsspecClient:
    """A client over an fsspec file system.

    Attributes:
        file_system: The file system.
        protocol: The protocol in the paths of the file system. It replaces the scheme of a path if the scheme is an
            alias.
    """

    file_system: fsspec.AbstractFileSystem
    protocol: str
    reads_ends: bool = False

    @property
    def identity(self) -> Hashable:
        from fsspec.utils import tokenize

        file_system = self.file_system  # Equality of file systems would also require that the same thread created both.
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
            raise StorageError("Cannot read file: its storage does not report its size", file=path)
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
            return False  # S3 returns "denied" for missing files if the user may not list the bucket.

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
            # fsspec's HTTP file system raises FileNotFoundError for any failure (fsspec 2026.9). Without this check, an
            # existing file would count as missing.
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
"""Keys of an fsspec `info` whose values change with each version of an object."""
_MODIFIED = ("mtime", "LastModified", "last_modified", "modified", "updated")
"""Keys of an fsspec `info` for the last modification: seconds, ISO text, or a datetime."""


def _modified_ms(info: Mapping[str, object], *other_names: str) -> int | None:
    """Return the first modification time in fsspec's `info`, in milliseconds since 1970-01-01 UTC, or None."""
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
    """Return a context for calls of a file system: one thread at a time unless the class is thread-safe."""
    names = {kind.__name__ for kind in type(file_system).__mro__}
    if getattr(file_system, "async_impl", False) or not names.isdisjoint(_FOR_THREADS):
        return nullcontext()
    # The lock is an attribute of the file system, so every user of the file system shares it. Pickling drops it.
    lock: Lock = vars(file_system).setdefault("_harness_lock", Lock(reentrant=True))
    return lock


LOG = logging.getLogger("harness.storage")
_EVERY_S = 5.0


@dataclass(slots=True)
class Traffic:
    """Counts of this process's requests to stores. They are logged at INFO every 5 seconds.

    Attributes:
        clock: Returns the time in seconds.
        requests: Answered requests.
        size: Bytes of files received.
        retries: Failed requests that were sent again.
    """

    clock: Callable[[], float] = time.monotonic
    requests: int = 0
    size: int = 0
    retries: int = 0
    _logged_at: float | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, size: int) -> None:
        """Count an answered request that returned `size` bytes of a file."""
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
        """Count a failed request that is sent again."""
        with self._lock:
            self.retries += 1

    def summary(self) -> str:
        """Return the counts as text, for example `63.8 MiB from stores in 83 requests, 2 retried`."""
        plural = "" if self.requests == 1 else "s"
        retries = f", {self.retries} retried" if self.retries else ""
        return f"{size_text(self.size)} from stores in {self.requests} request{plural}{retries}"


TRAFFIC = Traffic()
"""The traffic of this process."""


# Each request is logged at DEBUG and each retry at INFO, as `harness.storage`. fsspec's requests are retried here.
# obstore retries its requests itself, and those retries are not visible.


_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _LoggedClient:
    """A client that logs requests, and retries those that failed for a transient reason."""

    client: Client

    @property
    def identity(self) -> Hashable:
        return self.client.identity

    @property
    def reads_ends(self) -> bool:
        return self.client.reads_ends

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        section = "all" if length is None and offset == 0 else f"from byte {offset}"
        return _with_retries(f"read {section} of", _byte_count, self.client.read, path, offset, length)

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        return _with_retries("read the end of", _byte_count, self.client.end, path, length)

    def status(self, path: str) -> FileStatus:
        return _with_retries("request the status of", lambda status: f"{status.size} bytes", self.client.status, path)

    def version(self, path: str) -> FileVersion | None:
        return _with_retries("request the version of", lambda _: "done", self.client.version, path)

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


MOST_RETRIES = 5
_MOST_SECONDS = 60.0
_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_CONNECTION_ERRORS = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# Errors of aiohttp, requests, urllib3, http.client, and botocore. They are matched by name because none of these
# packages needs to be installed.
_CONNECTION_ERROR_NAMES = frozenset(
    {
        *("ServerDisconnectedError", "ServerTimeoutError", "ClientPayloadError", "ClientOSError"),
        *("ReadTimeout", "ConnectTimeout", "ReadTimeoutError", "ConnectTimeoutError", "ChunkedEncodingError"),
        *("ProtocolError", "IncompleteRead", "ConnectionClosedError"),
    }
)


def _with_retries(
    action: str, describe: Callable[[_Result], str], request: Callable[..., _Result], path: str, *arguments: object
) -> _Result:
    """Send a request, retrying transient failures with growing delays, and return the result.

    `action` names the request in the log, and `describe` formats its result. The last attempt's error is raised.
    """
    end = time.monotonic() + _MOST_SECONDS
    attempt = 0
    while True:
        attempt, start = attempt + 1, time.monotonic()
        try:
            result = request(path, *arguments)
        except Exception as error:
            LOG.debug(
                "%s %s: %s, %.0f ms", action, redact(path), type(error).__name__, (time.monotonic() - start) * 1000
            )
            reason = transient_reason(error)
            wait_s = max(backoff_s(attempt), _retry_after(error))
            if attempt > MOST_RETRIES or reason is None or time.monotonic() + wait_s > end:
                raise
        else:
            TRAFFIC.add(len(result[0]) if isinstance(result, tuple) and isinstance(result[0], bytes) else 0)
            LOG.debug("%s %s: %s, %.0f ms", action, redact(path), describe(result), (time.monotonic() - start) * 1000)
            return result
        TRAFFIC.count_retry()
        LOG.info("%s %s: %s, retry in %.1f s, %d of %d", action, redact(path), reason, wait_s, attempt, MOST_RETRIES)
        time.sleep(wait_s)


def backoff_s(attempt: int) -> float:
    """Return the seconds to wait after a number of requests: up to 0.1 s after the first, and up to twice more each."""
    return math.ldexp(0.1, attempt - 1) * random.uniform(0.5, 1)


def transient_reason(error: BaseException) -> str | None:
    """Return a short reason why a request may succeed if it is sent again, or None if it would fail again.

    The text contains no secrets.
    """
    status = _http_status(error)
    if status is not None:
        return f"HTTP {status}" if status in _TRANSIENT_STATUSES else None
    name = type(error).__name__
    return name if isinstance(error, _CONNECTION_ERRORS) or name in _CONNECTION_ERROR_NAMES else None


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status in an error of aiohttp, requests, urllib, botocore, or a Google client, or None."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        response = response.get("ResponseMetadata", {})
        return response.get("HTTPStatusCode") if isinstance(response, dict) else None
    candidates = (getattr(error, "status", None), getattr(error, "code", None), getattr(response, "status_code", None))
    return next((status for status in candidates if isinstance(status, int)), None)


def _retry_after(error: BaseException) -> float:
    """Return the number of seconds that the store asks the client to wait, or 0 if the response has no number."""
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    return retry_after_s(str(headers.get("Retry-After", ""))) if hasattr(headers, "get") else 0.0


def retry_after_s(header: str) -> float:
    """Return the seconds in the header `Retry-After`, or 0 if it has no number. Dates are ignored."""
    return float(header) if header.isascii() and header.isdecimal() else 0.0
