"""Requests to a server with JSON over HTTP. The message of each failure names the setting to change."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from harness.errors import LimitError, RequestError, StorageError, raise_from
from harness.metadata.catalogs.catalog import LARGEST_ANSWER
from harness.metadata.files.documents import check_document
from harness.metadata.plan.read_options import CatalogAnswer, catalog_answer
from harness.storage.limits import DEFAULT

LOG = logging.getLogger("harness.catalogs")
_LONGEST_ERROR = 1 << 20
_WAITS = (0.5, 2.0)
"""The seconds to wait before each retry."""
_LONGEST_WAIT = 30.0
_BUSY = (429, 502, 503, 504)
_SHOWN = 200


class RefusedError(Exception):
    """An error response of the server.

    Attributes:
        status: The HTTP status.
        kind: The name of the error, or an empty text.
        message: The message of the server, on one line.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers with JSON.

    Attributes:
        uri: The root of all paths.
        name: The user's name for the server, for messages.
        token: The bearer token, sent with each request, and to no other host.
        timeout: The seconds to wait for the next byte.
        wait: Sleeps for a number of seconds.
    """

    uri: str
    name: str
    token: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    wait: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.uri)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            message = (
                f"Invalid uri of catalog {self.name}: expected the address of a server, such as https://host:8080, "
                "and the token in its own argument"
            )
            raise RequestError(message, cause="InvalidCatalog", options=("uri",))
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            message = f"Invalid token of catalog {self.name}: it contains blanks or other invalid characters"
            raise RequestError(message, cause="InvalidCatalog", options=("token",))

    def is_open(self) -> bool:
        """Return whether the token is sent without encryption over a network."""
        parts = urlsplit(self.uri)
        is_local = parts.hostname == "localhost" or (parts.hostname or "").startswith("127.") or parts.hostname == "::1"
        return self.token is not None and parts.scheme == "http" and not is_local

    def failure(self, problem: str, cause: str, error: BaseException | None = None) -> NoReturn:
        """Raise a StorageError about this server. `problem` is the rest of the sentence after the server's name."""
        failure = StorageError(f"Catalog {self.name} at {self._address} {problem}", cause=cause)
        if error is None:
            raise failure
        raise_from(failure, error, () if self.token is None else (self.token,))

    def ask(
        self, path: str, query: Mapping[str, str] | None = None, body: object = None, *, method: str = "GET"
    ) -> dict[str, object]:
        """Send a request and return the JSON object in the answer.

        Raises:
            RefusedError: The status is 400, 404, or 501.
            StorageError: The server does not answer with JSON, or refuses the caller.
        """
        for seconds in (*_WAITS, None):
            start = time.monotonic()
            status, content, after = self.send(method, path, query or {}, body)
            call = (self.name, method, path, status, len(content), (time.monotonic() - start) * 1000)
            LOG.debug("%s: %s %s: HTTP %d, %d bytes, %.0f ms", *call)
            if status not in _BUSY or seconds is None:
                break
            wait = min(_LONGEST_WAIT, max(seconds, after))
            LOG.info("%s is busy (HTTP %d); retrying in %g s", self.name, status, wait)
            self.wait(wait)
        if status == 200:
            return self.parse(content)
        kind, text = _parse_error(content)
        text = self._without_token(text)
        match status:
            case 400 | 404 | 501:
                raise RefusedError(status, kind, text)
            case 401:
                reason = "rejected the token: it is wrong or expired" if self.token else "requires a token"
                self.failure(f"{reason}; set `token`, or the environment variable it is read from", "NotAuthorized")
            case 403:
                self.failure(
                    f"refused access: {text or 'no permission'}. Ask its administrator for USE CATALOG, USE SCHEMA and "
                    "SELECT, and for EXTERNAL USE SCHEMA if external engines need it",
                    "PermissionDenied",
                )
            case _ if 300 <= status < 400:
                self.failure("redirects to another address; set `uri` to the new one", "CatalogMoved")
            case _ if status in _BUSY:
                self.failure(
                    f"is busy or down (HTTP {status}, {len(_WAITS) + 1} times); try again later", "CatalogBusy"
                )
            case _:
                words = text or "no message"
                self.failure(
                    f"failed with HTTP {status}: {words}; try again, or ask its administrator", "CatalogFailed"
                )

    def send(self, method: str, path: str, query: Mapping[str, str], body: object) -> tuple[int, bytes, float]:
        """Send a request once. Redirections are not followed.

        Returns:
            The status, the content, and the seconds that the server requests to wait.

        Raises:
            StorageError: The server does not answer.
        """
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """A handler that follows no redirect, because a redirect would send the token to another host."""

            def redirect_request(self, *_: object, **__: object) -> None:
                return None

        headers = {"Accept": "application/json", "User-Agent": "harness"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        address = f"{self.uri.rstrip('/')}/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        try:
            try:
                request = Request(address, data, headers, method=method)
                response = build_opener(NoRedirects()).open(request, timeout=self.timeout)
            except HTTPError as error:
                response = error
            with response:
                content = response.read(LARGEST_ANSWER + 1)
                after = response.headers.get("Retry-After", "")
                status = response.status
        except (OSError, HTTPException, ValueError) as error:
            # The text of an HTTPException is a part of the answer, which may contain credentials.
            is_answer = isinstance(error, HTTPException) and not isinstance(error, OSError)
            reason = "" if is_answer else getattr(error, "reason", None) or error
            words = self._without_token(" ".join(str(reason).split()))[:_SHOWN] or type(error).__name__
            self.failure(f"does not answer ({words}); check `uri`, and that the server runs", "CatalogDown", error)
        return status, content, float(after) if after.isdecimal() else 0.0

    def parse(self, content: bytes) -> dict[str, object]:
        """Return the JSON object in the content of an answer.

        Raises:
            StorageError: The content is too large, has too many values, or is not a JSON object.
        """
        if len(content) > LARGEST_ANSWER:
            self.failure(f"returned an answer of more than {LARGEST_ANSWER >> 20} MiB", "CatalogAnswer")
        try:
            check_document(content, file=self._address, limits=DEFAULT)
            document = json.loads(content)
        except LimitError:
            self.failure("returned an answer with too many values", "CatalogAnswer")
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            self.failure(
                "did not answer with a JSON object; check that `uri` is the address of a catalog", "CatalogAnswer"
            )
        return document

    @property
    def _address(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc}"

    def _without_token(self, text: str) -> str:
        return text if self.token is None else text.replace(self.token, "…")


def _parse_error(content: bytes) -> tuple[str, str]:
    """Return the name of an error and its message, in either form that servers use. Very long answers are cut."""
    try:
        document = json.loads(content[:_LONGEST_ERROR])
    except (ValueError, RecursionError):
        return "", ""
    inner = document.get("error") if isinstance(document, dict) else None
    error = inner if isinstance(inner, dict) else document if isinstance(document, dict) else {}
    kind = error.get("type") or error.get("error_code") or ""
    message = error.get("message") or ""
    return str(kind)[:_SHOWN], " ".join(str(message).split())[:_SHOWN]


_MANAGED = ("delta.feature.catalogManaged", "delta.feature.catalogOwned-preview")


class InvalidAnswerError(Exception):
    """An answer that is invalid or incomplete. The text names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table as the catalog describes it. None means that the answer does not contain the value.

    Attributes:
        kind: The kind of the table, for example MANAGED, EXTERNAL, or VIEW.
        format: The format, for example DELTA or ICEBERG.
        location: The table's directory.
        id: The id of the table, for older calls.
        managed: True if only the catalog knows the commits. A property determines this, not `kind`.
        sql: The SQL of a view.
        commits: The commits of a managed table, from the newer call.
    """

    kind: str
    format: str | None
    location: str | None
    id: str | None
    managed: bool
    sql: str | None = None
    commits: CatalogAnswer | None = None


def parse_loaded_table(answer: Mapping[str, object]) -> TableEntry:
    """Return the table in an answer of the newer call `loadTable` (frontier F4.5).

    Raises:
        InvalidAnswerError: The answer is invalid or incomplete.
    """
    metadata = _typed_value(answer, "metadata", dict)
    managed = _is_managed(metadata.get("properties"))
    location, commits = _typed_value(metadata, "location", str), None
    if managed:
        commits = parse_commits(
            _typed_value(answer, "latest-table-version", int), _typed_value(answer, "commits", list), "file-name"
        )
    kind = str(metadata.get("table-type") or "")
    return TableEntry(kind=kind, format="DELTA", location=location, id=None, managed=managed, commits=commits)


def parse_listed_table(answer: Mapping[str, object]) -> TableEntry:
    """Return the table in an answer of the older call `getTable`, without its commits (frontier F4.6)."""

    def text(key: str) -> str | None:
        value = answer.get(key)
        return value if isinstance(value, str) else None

    return TableEntry(
        kind=str(answer.get("table_type") or ""),
        format=None if (format_ := text("data_source_format")) is None else format_.upper(),
        location=text("storage_location") or None,
        id=text("table_id"),
        managed=_is_managed(answer.get("properties")),
        sql=text("view_definition"),
    )


def parse_commits(latest: int, commits: Sequence[Any], name: str) -> CatalogAnswer:
    """Return the catalog's answer about commits. A latest version below 0 means that only version 0 exists.

    Args:
        latest: The latest version.
        commits: The commits in the answer.
        name: The key of a commit's file name.

    Raises:
        InvalidAnswerError: A commit is invalid.
    """
    for commit in commits:
        if not isinstance(commit, dict):
            raise InvalidAnswerError(f"got {commit!r:.80}, expected an object")
    pairs = [(_typed_value(commit, "version", int), _typed_value(commit, name, str)) for commit in commits]
    try:
        answer = catalog_answer(max(latest, 0), pairs)
    except RequestError as error:
        raise InvalidAnswerError(error.message.removeprefix("Invalid option ")) from error
    assert answer is not None
    return answer


def _is_managed(properties: object) -> bool:
    return isinstance(properties, dict) and any(properties.get(key) == "supported" for key in _MANAGED)


def _typed_value(answer: Mapping[str, object], key: str, kind: type) -> Any:
    value = answer.get(key)
    if type(value) is not kind:
        raise InvalidAnswerError(f"{key} is {value!r:.80}, expected {kind.__name__}")
    return value
