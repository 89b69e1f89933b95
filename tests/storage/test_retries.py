"""Requests that failed in a way that passes are asked again, visibly; others are not. No test waits."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import fsspec
import pytest

from harness.errors import MissingFileError, StorageError
from harness.storage import retries
from harness.storage.clients import Traffic
from harness.storage.option_names import Kind
from harness.storage.retries import told
from harness.storage.stores import Storage


@dataclass
class Time:
    """Seconds that pass only where somebody sleeps."""

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    waiting = retries.Waiting(now=lambda: made.now_s, sleep=made.sleep, draw=lambda: 0.0)
    monkeypatch.setattr(retries, "WAITING", waiting)
    return made


class Answered(Exception):
    """As aiohttp has it: a status, and headers."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"{status}")
        self.status, self.headers = status, {key.replace("_", "-"): value for key, value in headers.items()}


class ClientError(Exception):
    """As botocore has it."""

    def __init__(self, status: int) -> None:
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


ObstoreError = type("GenericError", (Exception,), {"__module__": "obstore.exceptions"})


def obstore(status: int = 0, code: str = "", kind: str = "", said: str = "", at: str = "127.0.0.1/lake/f") -> Exception:
    """Messages as obstore 0.12.1 had them."""
    if status:
        body = f"{status} <Error><Code>{code}</Code></Error>" if code else f"{status}"
        return ObstoreError(
            f"Error performing GET http://{at} in 1ms - Server returned non-2xx status code: {status} {body}"
        )
    source = f"inner: Http(\n    HttpError {{\n        kind: {kind},\n        source: {said}"
    return ObstoreError(f"Error performing GET http://{at} in 1ms - HTTP error: error sending request\n{source}")


def chained(error: Exception, behind: Exception) -> Exception:
    error.__cause__ = behind
    return error


def its_own_cause(error: Exception) -> Exception:
    return chained(error, error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        *((Answered(status), f"HTTP {status}") for status in (408, 429, 500, 502, 503, 504)),
        *((Answered(status), None) for status in (400, 401, 403, 404, 412, 416, 501)),
        (ClientError(503), "HTTP 503"),
        (ClientError(403), None),
        (obstore(503, "SlowDown"), "SlowDown"),
        (obstore(429), "HTTP 429"),
        (obstore(400, "RequestTimeout"), "RequestTimeout"),
        (obstore(400, "ExpiredToken"), None),
        (obstore(403, "AccessDenied"), None),
        (obstore(404, "NoSuchKey"), None),
        (obstore(kind="Timeout"), "connection broke off"),
        (obstore(kind="Interrupted", said="Connection reset by peer"), "connection reset"),
        (obstore(kind="Request"), "connection broke off"),
        (obstore(kind="Connect", said="Connection reset by peer"), "connection reset"),
        (obstore(kind="Connect", said="Connection refused"), None),
        (obstore(kind="Connect", said="dns error"), None),
        (obstore(kind="Timeout", at="169.254.169.254/latest/api/token"), None),
        (obstore(503, at="169.254.169.254/latest/api/token"), "HTTP 503"),
        (ConnectionResetError("x"), "ConnectionResetError"),
        (TimeoutError("x"), "TimeoutError"),
        (type("ServerDisconnectedError", (Exception,), {})(), "ServerDisconnectedError"),
        (ConnectionRefusedError("x"), None),
        (FileNotFoundError("x"), None),
        (PermissionError("x"), None),
        (ValueError("x"), None),
        (chained(StorageError("x"), obstore(503)), "HTTP 503"),
        (chained(StorageError("x"), obstore(403)), None),
        (StorageError("x"), None),
        (its_own_cause(StorageError("x")), None),
    ],
)  # fmt: skip
def test_what_passes(error: Exception, reason: str | None) -> None:
    found = retries.passing(error)
    assert (None if found is None else found.reason) == reason


def failing(*errors: Exception) -> Iterator[Any]:
    yield from errors
    yield "found"


def asked(answers: Iterator[Any], most: int = 5) -> Any:
    def ask() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return retries.asked(ask, most, lambda *_: None)


def test_waits_double_and_are_drawn(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(failing(*[Answered(503)] * 5)) == "found"
    assert time.slept == [0.1, 0.2, 0.4, 0.8, 1.6]
    monkeypatch.setattr(retries, "WAITING", retries.Waiting(lambda: 0.0, time.sleep, lambda: 1.0))
    assert asked(failing(Answered(503))) == "found"
    assert time.slept[5:] == [0.05]  # half of it at least


@pytest.mark.parametrize(
    ("errors", "most", "slept"),
    [
        ([Answered(503)] * 2, 1, [0.1]),
        ([Answered(503)], 0, []),
        ([Answered(404)], 5, []),
        ([Answered(503), Answered(403)], 5, [0.1]),
        ([Answered(429, Retry_After="50"), Answered(429, Retry_After="11")], 5, [50.0]),  # 61 s are more than 60
        ([Answered(503)] * 10, 9, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]),
    ],
)
def test_it_ends(time: Time, errors: list[Exception], most: int, slept: list[float]) -> None:
    with pytest.raises(Answered) as caught:
        asked(failing(*errors), most)
    assert caught.value is errors[-1]
    assert time.slept == slept


def test_a_store_says_how_long(time: Time) -> None:
    assert asked(failing(Answered(429, Retry_After="7"), Answered(429, Retry_After="Mon, 23 Nov 2026"))) == "found"
    assert time.slept == [7.0, 0.2]


class Throttling(fsspec.AbstractFileSystem):
    """Serves one file, after it failed so often as `failures` says."""

    protocol = "throttling"
    cachable = False
    failures: list[Exception] = []  # noqa: RUF012

    def _failed(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        try:
            self._failed()
        except Answered as error:  # as that of HTTP does, whatever was answered
            raise FileNotFoundError(path) from error
        return {"name": path, "type": "file", "size": 4}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self._failed()
        return b"0123"[start:end]


@pytest.fixture
def store() -> Storage:
    fsspec.register_implementation("throttling", Throttling, clobber=True)
    return Storage()


def test_the_log_says_each_repetition(
    store: Storage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = Traffic(clock=lambda: 0.0)
    monkeypatch.setattr("harness.storage.clients.TRAFFIC", traffic)
    caplog.set_level(logging.INFO, "harness.storage")
    Throttling.failures[:] = [Answered(503), ConnectionResetError("secret")]
    assert store.read("throttling://x/f") == b"0123"
    assert caplog.messages == [
        "read all of throttling://x/f: HTTP 503, asked again in 0.1 s, 1 of 5",
        "read all of throttling://x/f: ConnectionResetError, asked again in 0.2 s, 2 of 5",
    ]
    assert traffic.summary() == "0.0 MB of stores in 1 request, 2 asked again"


def test_a_throttled_file_is_not_taken_for_absent(store: Storage, time: Time) -> None:
    Throttling.failures[:] = [Answered(503)]
    assert store.exists("throttling://x/f")
    Throttling.failures[:] = [Answered(503)] * 6
    with pytest.raises(StorageError, match="its storage failed: Answered: 503"):
        store.exists("throttling://x/f")
    Throttling.failures[:] = [Answered(404)]
    assert not store.exists("throttling://x/f")
    Throttling.failures[:] = [Answered(404)]
    with pytest.raises(MissingFileError):
        store.size("throttling://x/f")


def test_a_body_that_breaks_off_is_no_matter_of_credentials() -> None:
    body = ObstoreError("HTTP error: request or response body error\nHttpError {\n kind: Interrupted,")
    assert retries.passing(body) == retries.Passing("connection broke off")
    error = told(body, "s3://lake/f", Kind.S3)
    assert isinstance(error, StorageError)
    assert (error.cause, error.message) == (
        "Unreachable",
        "Cannot read from the store: it does not answer (connection failed); set endpoint, or try again",
    )
