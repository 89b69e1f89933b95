"""What went wrong at an object store, out of what obstore says: one line, and what to set.

obstore has few classes of errors, and tells the answer of the server in its message, beside much else that may be
secret. So nothing of a message is passed on but the server's status, its code and the kind of a broken connection.
"""

from __future__ import annotations

import re

from harness.errors import HarnessError, StorageError
from harness.storage.option_names import Kind

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


def passing(error: BaseException) -> str | None:
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
