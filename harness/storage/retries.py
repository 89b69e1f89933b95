"""Requests to stores that failed in a way that passes: they are asked again after a while, each time a longer one."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from harness.errors import HarnessError, StorageError
from harness.storage.option_names import Kind

# What went wrong at an object store, out of what obstore says: one line, and what to set.
#
# obstore has few classes of errors, and tells the answer of the server in its message, beside much else that may be
# secret. So nothing of a message is passed on but the server's status, its code and the kind of a broken connection.


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_HOST = re.compile(r"Error performing [A-Z]+ (https?://[^/\s?]+)")
_METADATA = re.compile(r"Error performing [A-Z]+ https?://[^/\s]+/(?:latest/|computeMetadata/|metadata/identity)")
"""Of the service on a machine that knows its role."""
_BROKEN = re.compile(r"dns error|Connection refused|TimedOut|timed out|certificate|Connection reset|IncompleteMessage")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_PASSING_KINDS = ("Interrupted", "Request", "Timeout")
_PASSING_BREAKS = re.compile(r"TimedOut|timed out|Connection reset|IncompleteMessage")
_PASSING_CODES = ("SlowDown", "RequestTimeout", "ServerBusy", "OperationTimedOut")
_MISSING = ("NoSuchKey", "BlobNotFound", "ResourceNotFound")
_KEYS = {
    Kind.S3: "access_key_id and secret_access_key, profile, or anonymous=true",
    Kind.AZURE: "account_key, sas_token or connection_string, or anonymous=true",
    Kind.GCS: "service_account_path or token, or anonymous=true",
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
    "SignatureDoesNotMatch": ("Forbidden", "the secret does not fit the access key; set secret_access_key"),
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "PermanentRedirect": _ELSEWHERE,
}
_THROTTLED = (429, 503)
PASSING_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""Of HTTP, which the same request may not be answered with when it is sent again."""
DENIED = "Denied"
"""The cause of the error where a store does not say whether a file is there, as S3 does to who may not list."""


NO_PARTS = "non-partial response"
"""In a message: a server gave all of a file when it was asked for a part, as some do of an empty one."""


def status_of(error: BaseException) -> int | None:
    """The status that a server answered with; None: it did not answer."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def passing_reason(error: BaseException) -> str | None:
    """Why the same request may be answered later, in a few words; None: it would fail again."""
    text, status, code = str(error), status_of(error), _CODE.search(str(error))
    if status is not None:
        if status in PASSING_STATUSES or (code and code[1] in _PASSING_CODES):
            return code[1] if code else f"HTTP {status}"
        return None
    if _METADATA.search(text):  # no machine with a role, most likely
        return None
    kind, broken = _KIND.search(text), _PASSING_BREAKS.search(text)
    if broken is not None:
        return broken[0].lower()
    return "connection broke off" if kind is not None and kind[1] in _PASSING_KINDS else None


def told(error: Exception, path: str, kind: Kind, *, listing: bool = False) -> Exception:
    """The error to raise in place of obstore's: a FileNotFoundError, or a StorageError that says what to set."""
    if isinstance(error, HarnessError):
        return error
    text, status = str(error), status_of(error)
    if _METADATA.search(text):
        return no_credentials(path, kind)
    found = _CODE.search(text)
    answer = found[1] if found else f"{status or ''}"
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
        reason = "it is forbidden" if is_sure else "it is forbidden, or not there"
        return _failure(
            "Forbidden" if is_sure else DENIED, f"{reason}, with these credentials; set {_KEYS[kind]}", path, answer
        )
    if status in _THROTTLED:
        return _failure("Throttled", "it is throttled or busy, also when asked again; try later", path, answer)
    if status is not None:
        return _failure("Storage", "it answers with an error", path, answer)
    return _unanswered(text, path, kind)


def no_credentials(path: str, kind: Kind) -> StorageError:
    """The error for a store that there are no credentials for."""
    reason = "there are no credentials in options, environment, profiles or a role of this machine"
    return _failure("NoCredentials", f"{reason}; set {_KEYS[kind]}", path, "")


def _unanswered(text: str, path: str, kind: Kind) -> StorageError:
    host = _HOST.search(text)
    asked = host[1] if host else ""
    broken = _BROKEN.search(text)
    broke_off = _KIND.search(text)
    if broken is None and not host and (broke_off is None or broke_off[1] not in _PASSING_KINDS):
        return _failure("Storage", f"its client failed; check credentials and options, such as {_KEYS[kind]}", path, "")
    reason = broken[0].lower() if broken else "connection failed"
    return _failure("Unreachable", f"{asked or 'it'} does not answer ({reason}); set endpoint, or try again", path, "")


def _failure(cause: str, reason: str, path: str, answer: str) -> StorageError:
    behind = f" ({answer})" if answer else ""
    return StorageError(f"Cannot read from the store: {reason}{behind}", cause=cause, file=path)


MOST_RETRIES = 5
"""How often one request is repeated, where options do not say so."""
MOST_SECONDS = 60.0
"""After that time since it was asked first, a request is not repeated."""
_FIRST_S, _LONGEST_S = 0.1, 15.0
_LOST = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
# Of aiohttp, requests, urllib3, http.client and botocore, none of which need be installed.
_LOST_NAMES = frozenset(
    {
        *("ServerDisconnectedError", "ServerTimeoutError", "ClientPayloadError", "ClientOSError"),
        *("ReadTimeout", "ConnectTimeout", "ReadTimeoutError", "ConnectTimeoutError", "ChunkedEncodingError"),
        *("ProtocolError", "IncompleteRead", "ConnectionClosedError"),
    }
)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Passing:
    """Why asking again may help. reason: a few words, nothing secret. after_s: what the store asks to wait, seconds."""

    reason: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """How time passes: seconds of a clock, sleeping so many, and a number from 0 to 1 drawn at random."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = field(default=random.random, repr=False)


WAITING = Waiting()
"""As it does outside of tests."""


def asked(ask: Callable[[], _Result], most: int, tell: Callable[[Passing, float, int], None]) -> _Result:
    """What `ask` returns, or raises when it failed for the last time.

    Args:
        ask: one request, which changes nothing in the store.
        most: how often it is repeated.
        tell: called before each wait, with its seconds and the number of the repetition, from 1.
    """
    waiting = WAITING
    start = waiting.now()
    for number in range(1, most + 1):
        try:
            return ask()
        except Exception as error:
            found = passing(error)
            if found is None:
                raise
            wait_s = max(_backoff(number, waiting.draw()), found.after_s)
            if waiting.now() - start + wait_s > MOST_SECONDS:
                raise
        tell(found, wait_s, number)
        waiting.sleep(wait_s)
    return ask()


def passing(error: BaseException) -> Passing | None:
    """Why the same request may be answered later; None: it would fail again, or its answer is no failure."""
    behind = error.__cause__ if isinstance(error, HarnessError) else error  # the library's says more than ours
    if behind is None or isinstance(behind, HarnessError):
        return None
    if type(behind).__module__.partition(".")[0] == "obstore":
        reason = passing_reason(behind)
        return None if reason is None else Passing(reason)
    status = _status(behind)
    if status is not None:
        return Passing(f"HTTP {status}", _retry_after(behind)) if status in PASSING_STATUSES else None
    name = type(behind).__name__
    is_lost = isinstance(behind, _LOST) or name in _LOST_NAMES
    return Passing(name) if is_lost else None


def _backoff(number: int, drawn: float) -> float:
    """Seconds: twice as many each time, less up to a half, so that readers who failed together do not return so."""
    return float(min(_LONGEST_S, _FIRST_S * 2 ** (number - 1))) * (1 - drawn / 2)


def _status(error: BaseException) -> int | None:
    """The status of HTTP in an error of aiohttp, requests, urllib, botocore or a client of Google's."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        response = response.get("ResponseMetadata", {})
        return response.get("HTTPStatusCode") if isinstance(response, dict) else None
    found = (getattr(error, "status", None), getattr(error, "code", None), getattr(response, "status_code", None))
    return next((status for status in found if isinstance(status, int)), None)


def _retry_after(error: BaseException) -> float:
    """Seconds; 0 where nothing says so, or a date does."""
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    text = str(headers.get("Retry-After", "")) if hasattr(headers, "get") else ""
    return float(text) if text.isascii() and text.isdecimal() else 0.0
