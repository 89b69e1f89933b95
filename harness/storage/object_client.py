"""Buckets on S3, Azure, and Google Cloud, read through obstore, the Python binding of Rust's `object_store`.

A read is one GET for exactly the requested bytes. The response also contains the file's size, etag, and time, so a HEAD
request is only needed for an empty file. Threads share a client's connections, and clients for one bucket with equal
options are the same object.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from harness.errors import HarnessError, RequestError, StorageError, raise_from
from harness.storage.configuration import with_configured
from harness.storage.object_options import StoreOptions, azure_account, build_options, canonical
from harness.storage.option_names import StoreKind
from harness.storage.paths import SCHEME, canonical_path
from harness.storage.stores import Entry, FileStatus, FileVersion, milliseconds
from harness.storage.threads import Lock, track

if TYPE_CHECKING:
    from harness.storage.clients import Client

T = TypeVar("T")

KINDS: dict[str, StoreKind] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), StoreKind.S3),
    **dict.fromkeys(("abfs", "abfss", "az", "azure", "adl", "wasb", "wasbs"), StoreKind.AZURE),
    **dict.fromkeys(("gs", "gcs"), StoreKind.GCS),
}
"""Kinds of stores by scheme, in lower case."""
_EXTRAS = {StoreKind.S3: "s3", StoreKind.AZURE: "azure", StoreKind.GCS: "gcs"}
_CLIENTS = 64
_RETRY_TIMEOUT = timedelta(seconds=60)
"""The time after which obstore stops retrying a request.

The first retry comes after 0.1 s. A body that broke off is continued from there.
"""
_UNSATISFIABLE = 416
_NO_NAME = re.compile(r"(?:^|/)(?:\.{1,2})?(?=/|$)")


def client(base: str, options: Mapping[str, object]) -> Client:
    """Return the client of a bucket.

    Args:
        base: Scheme and bucket. For Azure, also `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net`.
        options: Options under any of the names in `harness.storage.option_names`.

    Raises:
        RequestError: obstore is not installed, or an option is unknown or wrong.
    """
    scheme, _, authority = base.partition("://")
    kind = KINDS[scheme.lower()]
    return _client(kind, authority, build_options(kind, authority, bucket_options(base, options)))


def bucket_options(base: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return a bucket's options by canonical name, including those from configuration files.

    Arguments and errors are those of `client`.
    """
    return with_configured(KINDS[base.partition("://")[0].lower()], canonical_path(base).store, options)


def explicit_options(base: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return explicit options by canonical name, without configuration files.

    The result is empty if the store is no object store.
    """
    kind = KINDS.get(base.partition("://")[0].lower())
    return {} if kind is None else canonical(kind, options)


def endpoint(base: str, options: Mapping[str, str]) -> str | None:
    """Return the address of a bucket's store from canonical options, or None if the options do not contain it."""
    return azure_account(options, base.partition("://")[2]).endpoint


@lru_cache(_CLIENTS)
def _client(kind: StoreKind, authority: str, options: StoreOptions) -> _ObjectClient:
    try:
        from obstore import store as stores
    except ImportError as error:
        raise RequestError(
            f"Cannot open {kind.value}: obstore is not installed; pip install 'lakeharness[{_EXTRAS[kind]}]'"
        ) from error
    store_class = {StoreKind.S3: stores.S3Store, StoreKind.AZURE: stores.AzureStore, StoreKind.GCS: stores.GCSStore}[
        kind
    ]
    bucket = authority.partition("@")[0]
    return _ObjectClient(
        store_class(
            bucket,
            config=dict(options.config),
            client_options=dict(options.client),
            retry_config={"max_retries": options.most_retries, "retry_timeout": _RETRY_TIMEOUT},
            **({} if options.provider is None else {"credential_provider": options.provider}),
        ),
        kind,
        (kind, authority, options),
    )


@dataclass(frozen=True, slots=True)
class _ObjectClient:
    """The client of one bucket."""

    store: object
    kind: StoreKind
    identity: Hashable
    reads_ends: bool = True

    def read(self, path: str, offset: int, length: int | None) -> tuple[bytes, FileStatus | None]:
        if length == 0:
            return b"", None
        span: object = {"offset": offset} if offset else None
        if length is not None:
            span = (offset, offset + length)
        try:
            return self._get(path, span)
        except Exception as error:
            if _status_of(error) == _UNSATISFIABLE:
                return b"", None
            if _may_be_empty(error):
                return self._empty(path)
            raise_translated(error, path, self.kind)

    def end(self, path: str, length: int) -> tuple[bytes, FileStatus]:
        if self.kind is StoreKind.AZURE:  # Azure cannot return bytes counted from the end
            status = self.status(path)
            return self.read(path, max(0, status.size - length), length)[0], status
        try:
            return self._get(path, {"suffix": length})
        except Exception as error:
            if _may_be_empty(error):
                return self._empty(path)
            raise_translated(error, path, self.kind)

    def status(self, path: str) -> FileStatus:
        status = self.read(path, 0, 1)[1]
        return self._head(path) if status is None else status

    def version(self, path: str) -> FileVersion | None:
        status = self.status(path)
        return None if status.etag is None else FileVersion(status.size, f"{status.etag};modified={status.modified_ms}")

    def is_file(self, path: str) -> bool:
        try:
            self.read(path, 0, 1)
        except FileNotFoundError:
            return False
        except StorageError as error:
            if error.cause != _DENIED:
                raise
            return False
        return True

    def is_directory(self, path: str) -> bool:
        from obstore import list as listed

        async def first() -> bool:
            async for _ in listed(self.store, f"{_key(path)}/".lstrip("/"), chunk_size=1):
                return True
            return False

        return bool(self._listing(path, first))

    def entries(self, directory: str) -> list[Entry]:
        return [
            Entry(meta["path"].rpartition("/")[2], meta["size"], milliseconds(meta["last_modified"]))
            for meta in self._listed(directory)["objects"]
        ]

    def directories(self, directory: str) -> set[str]:
        return {prefix.rstrip("/").rpartition("/")[2] for prefix in self._listed(directory)["common_prefixes"]}

    def _listed(self, directory: str) -> Any:
        from obstore import list_with_delimiter_async

        prefix = _key(directory) or None
        return self._listing(directory, lambda: list_with_delimiter_async(self.store, prefix))

    def _listing(self, directory: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a listing. obstore requests the pages itself, so raise an error if they never end."""
        prefix = f"{_key(directory)}/".lstrip("/")
        try:
            with CALLS.begin(ask) as listing:
                with suppress(TimeoutError):
                    return listing.result(QUICK_LISTING_S)
                end = time.monotonic() + LONGEST_LISTING_S
                with CALLS.begin(lambda: _repeats(self.store, prefix)) as repeats:
                    either: tuple[Future[Any], ...] = (listing, repeats)
                    wait(either, LONGEST_LISTING_S, FIRST_COMPLETED)
                    if not listing.done() and repeats.done() and repeats.result():
                        raise _endless_listing_error(directory, "it lists the same files repeatedly")
                return listing.result(max(0.0, end - time.monotonic()))
        except TimeoutError:
            raise _endless_listing_error(
                directory, f"its listing did not end after {LONGEST_LISTING_S:.0f} s"
            ) from None
        except Exception as error:
            raise_translated(error, directory, self.kind, listing=True)

    def _get(self, path: str, span: object) -> tuple[bytes, FileStatus]:
        from obstore import get, get_async

        key, options = _key(path), None if span is None else {"range": span}
        # this takes a fifth of the time, and only the main thread receives signals
        if threading.current_thread() is not threading.main_thread():
            result = get(self.store, key, options=options)
            return bytes(result.bytes()), _status(result.meta)

        async def ask() -> tuple[bytes, FileStatus]:
            result = await get_async(self.store, key, options=options)
            return bytes(await result.bytes_async()), _status(result.meta)

        return CALLS.answer(ask)

    def _empty(self, path: str) -> tuple[bytes, FileStatus]:
        status = self._head(path)
        if status.size:
            raise StorageError("Cannot read file: its store cannot return parts of files", file=path)
        return b"", status

    def _head(self, path: str) -> FileStatus:
        from obstore import head_async

        key = _key(path)
        try:
            return _status(CALLS.answer(lambda: head_async(self.store, key)))
        except Exception as error:
            raise_translated(error, path, self.kind)


# obstore's blocking calls return to Python only with the answer, so Ctrl-C would wait: minutes if a server stalls, and
# forever if a listing never ends (obstore 0.12).


QUICK_LISTING_S, LONGEST_LISTING_S = 5.0, 300.0
"""Seconds until a listing is checked for repeated pages, and until it is abandoned."""
_REPEAT_WINDOW = 3000
"""The number of names to check for repetition."""


class Calls:
    """A runner of obstore calls. Its event loop has its own thread, so that waiting for a call can be interrupted."""

    def __init__(self) -> None:
        self._running: set[Future[Any]] = set()
        self._lock = Lock()
        self._thread: threading.Thread | None = None
        self._loop: Any = None

    @contextmanager
    def begin(self, ask: Callable[[], Awaitable[T]]) -> Iterator[Future[T]]:
        """Start a call and yield its future. The call is canceled at the end of the block if it still runs."""
        import asyncio  # local tables do not need it

        async def answer() -> T:
            return await ask()

        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # a forked child has none of its parent's threads
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="harness-stores", daemon=True)
                self._thread.start()
                track(self)
        future = asyncio.run_coroutine_threadsafe(answer(), self._loop)
        self._running.add(future)
        try:
            yield future
        finally:
            future.cancel()
            self._running.discard(future)

    def answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a call."""
        with self.begin(ask) as future:
            return future.result()

    def interrupt(self) -> None:
        """Cancel all running calls."""
        for future in list(self._running):
            future.cancel()


CALLS = Calls()
"""The running calls of this process."""


async def _repeats(store: object, prefix: str) -> bool:
    """Return whether the first names below a prefix appear again in the listing."""
    from obstore import list as listed

    names: list[str] = []
    async for chunk in listed(store, prefix, chunk_size=20):
        names += [meta["path"] for meta in chunk]
        if len(set(names)) < len(names):
            return True
        if len(names) >= _REPEAT_WINDOW:
            break
    return False


def _endless_listing_error(directory: str, reason: str) -> StorageError:
    return StorageError(
        f"Cannot read from the store: {reason}, so the listing never ends; check the store",
        cause="Storage",
        file=directory,
    )


def _may_be_empty(error: Exception) -> bool:
    return _status_of(error) == _UNSATISFIABLE or _NO_PARTS in str(error)


def _key(path: str) -> str:
    """Return an object's name in its bucket.

    Raises:
        RequestError: `object_store` cannot request an object with this name.
    """
    match = SCHEME.match(path)
    key = path[match.end() + len("://") :].partition("/")[2].rstrip("/") if match else path
    if key and _NO_NAME.search(key):
        raise RequestError(
            "Cannot read file: its name has an empty part, or a part of one or two dots, which object store "
            "clients would change",
            file=path,
        )
    return key


def _status(meta: Mapping[str, Any]) -> FileStatus:
    return FileStatus(meta["size"], milliseconds(meta["last_modified"]), meta["e_tag"])


# obstore's messages may contain secrets. Only the server's status, its error code, and the kind of a broken connection
# are passed on.


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_HOST = re.compile(r"Error performing [A-Z]+ (https?://[^/\s?]+)")
_METADATA = re.compile(r"Error performing [A-Z]+ https?://[^/\s]+/(?:latest/|computeMetadata/|metadata/identity)")
"""A request to a cloud machine's metadata service for the credentials of its role."""
_BROKEN = re.compile(r"dns error|Connection refused|TimedOut|timed out|certificate|Connection reset|IncompleteMessage")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_BROKEN_KINDS = ("Interrupted", "Request", "Timeout")
_MISSING = ("NoSuchKey", "BlobNotFound", "ResourceNotFound")
_KEYS = {
    StoreKind.S3: "access_key_id and secret_access_key, profile, or anonymous=true",
    StoreKind.AZURE: "account_key, sas_token or connection_string, or anonymous=true",
    StoreKind.GCS: "service_account_path or token, or anonymous=true",
}
_NO_BUCKET = ("NoSuchBucket", "there is no such bucket; check its name, or set endpoint for another store")
_ELSEWHERE = ("OtherRegion", "the bucket is in another region or at another endpoint; set region or endpoint")
_BY_CODE = {
    "NoSuchBucket": _NO_BUCKET,
    "ContainerNotFound": _NO_BUCKET,
    "RequestTimeTooSkewed": ("ClockSkew", "the clock of this machine differs from the store's; set the clock"),
    "ExpiredToken": ("ExpiredCredentials", "the credentials have expired; get new ones, and set session_token"),
    "InvalidAccessKeyId": (
        "Forbidden",
        "the store does not know the access key; set access_key_id, or endpoint if it is for another store",
    ),
    "SignatureDoesNotMatch": ("Forbidden", "the secret does not match the access key; set secret_access_key"),
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "PermanentRedirect": _ELSEWHERE,
}
_THROTTLED = (429, 503)
_DENIED = "Denied"
"""The cause if a store does not reveal whether a file exists.

S3 does this if the user may not list the bucket.
"""


_NO_PARTS = "non-partial response"
"""Text in obstore's error if a server returned a whole file instead of the requested part.

Some servers do this for an empty file.
"""


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the server's answer, or None if the server did not answer."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def raise_translated(error: Exception, path: str, kind: StoreKind, *, listing: bool = False) -> NoReturn:
    """Raise the error of `translate_error`, without secrets from obstore's message."""
    translated = translate_error(error, path, kind, listing=listing)
    if translated is not error and isinstance(translated, HarnessError):
        raise_from(translated, error)
    raise translated from (None if translated is error else error)


def translate_error(error: Exception, path: str, kind: StoreKind, *, listing: bool = False) -> Exception:
    """Return the error to raise instead of obstore's: a FileNotFoundError, or a StorageError that says what to set.

    Args:
        error: obstore's error. A HarnessError is returned unchanged.
        path: The file or directory.
        kind: The kind of the store.
        listing: True if a directory was listed.
    """
    if isinstance(error, HarnessError):
        return error
    text, status = str(error), _status_of(error)
    if _METADATA.search(text):
        reason = "no credentials were found in options, environment, profiles, or this machine's role"
        return _failure("NoCredentials", f"{reason}; set {_KEYS[kind]}", path, "")
    code = _CODE.search(text)
    answer = code[1] if code else f"{status or ''}"
    if answer in _BY_CODE:
        return _failure(*_BY_CODE[answer], path, answer)
    if status == 404 and listing:
        return _failure(*_NO_BUCKET, path, answer)
    if status == 404 or answer in _MISSING or isinstance(error, FileNotFoundError):
        return FileNotFoundError(path)
    if status in (301, 307):
        return _failure(*_ELSEWHERE, path, answer)
    if status in (401, 403):
        is_sure = listing or answer not in ("403", "AccessDenied", "AuthorizationPermissionMismatch")
        reason = "access is denied" if is_sure else "it does not exist or access is denied"
        return _failure(
            "Forbidden" if is_sure else _DENIED, f"{reason} with these credentials; set {_KEYS[kind]}", path, answer
        )
    if status in _THROTTLED:
        return _failure(
            "Throttled", "the store is throttling or busy, even after retries; try again later", path, answer
        )
    if status is not None:
        return _failure("Storage", "the store returned an error", path, answer)
    return _connection_error(text, path, kind)


def _connection_error(text: str, path: str, kind: StoreKind) -> StorageError:
    host = _HOST.search(text)
    address = host[1] if host else ""
    broken = _BROKEN.search(text)
    broke_off = _KIND.search(text)
    if broken is None and not host and (broke_off is None or broke_off[1] not in _BROKEN_KINDS):
        return _failure(
            "Storage", f"its client failed; check credentials and options, for example {_KEYS[kind]}", path, ""
        )
    reason = broken[0].lower() if broken else "connection failed"
    return _failure(
        "Unreachable", f"{address or 'it'} does not answer ({reason}); set endpoint, or try again", path, ""
    )


def _failure(cause: str, reason: str, path: str, answer: str) -> StorageError:
    behind = f" ({answer})" if answer else ""
    return StorageError(f"Cannot read from the store: {reason}{behind}", cause=cause, file=path)
