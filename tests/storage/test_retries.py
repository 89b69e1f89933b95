"""Retries of requests and their end, renewal of credentials in time, and the log of both."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from harness.cli import main
from harness.errors import MissingFileError, StorageError
from harness.storage import clients
from harness.storage.clients import Traffic
from harness.storage.renewal import Renewal
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable


@dataclass
class Time:
    """A clock that only advances when something sleeps."""

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clients, "time", made)
    monkeypatch.setattr(clients, "random", SimpleNamespace(uniform=lambda least, most: most))
    return made


class Answered(Exception):
    """An error like aiohttp's, with a status and headers."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"{status}")
        self.status, self.headers = status, {key.replace("_", "-"): value for key, value in headers.items()}


class ClientError(Exception):
    """An error like botocore's."""

    def __init__(self, status: int) -> None:
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        *((Answered(status), f"HTTP {status}") for status in (408, 429, 500, 502, 503, 504)),
        *((Answered(status), None) for status in (400, 401, 403, 404, 412, 416, 501)),
        (ClientError(503), "HTTP 503"),
        (ClientError(403), None),
        (ConnectionResetError("x"), "ConnectionResetError"),
        (TimeoutError("x"), "TimeoutError"),
        (type("ServerDisconnectedError", (Exception,), {})(), "ServerDisconnectedError"),
        (ConnectionRefusedError("x"), None),
        (FileNotFoundError("x"), None),
        (PermissionError("x"), None),
        (ValueError("x"), None),
        (StorageError("x"), None),
    ],
)
def test_errors_that_are_transient(error: Exception, reason: str | None) -> None:
    assert clients.transient_reason(error) == reason


def failing(*errors: Exception) -> Iterator[Any]:
    yield from errors
    yield "found"


def with_retries(answers: Iterator[Any]) -> Any:
    def request(_: str) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return clients._with_retries("read", str, request, "x://f")


@pytest.mark.parametrize(
    ("errors", "slept"),
    [
        ([Answered(404)], []),
        ([Answered(503), Answered(403)], [0.1]),
        ([Answered(429, Retry_After="50"), Answered(429, Retry_After="11")], [50.0]),  # 61 s exceed the limit of 60 s
        ([Answered(503)] * 6, [0.1, 0.2, 0.4, 0.8, 1.6]),
    ],
)
def test_retries_end_with_the_last_error(time: Time, errors: list[Exception], slept: list[float]) -> None:
    with pytest.raises(Answered) as caught:
        with_retries(failing(*errors))
    assert caught.value is errors[-1]
    assert time.slept == slept


def test_a_store_says_how_long(time: Time) -> None:
    assert (
        with_retries(failing(Answered(429, Retry_After="7"), Answered(429, Retry_After="Mon, 23 Nov 2026"))) == "found"
    )
    assert time.slept == [7.0, 0.2]


class Throttling(fsspec.AbstractFileSystem):
    """Serves one file after failing as often as `failures` says."""

    protocol = "throttling"
    cachable = False
    failures: list[Exception] = []  # noqa: RUF012

    def _failed(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        try:
            self._failed()
        except Answered as error:  # like the HTTP file system, whatever the server answered
            raise FileNotFoundError(path) from error
        return {"name": path, "type": "file", "size": 4}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self._failed()
        return b"0123"[start:end]


@pytest.fixture
def store() -> Storage:
    fsspec.register_implementation("throttling", Throttling, clobber=True)
    return Storage()


def test_the_log_says_each_repetition(store, caplog, monkeypatch):
    traffic = Traffic(clock=lambda: 0.0)
    monkeypatch.setattr("harness.storage.clients.TRAFFIC", traffic)
    caplog.set_level(logging.INFO, "harness.storage")
    Throttling.failures[:] = [Answered(503), ConnectionResetError("secret")]
    assert store.read("throttling://x/f") == b"0123"
    assert caplog.messages == [
        "read all of throttling://x/f: HTTP 503, retry in 0.1 s, 1 of 5",
        "read all of throttling://x/f: ConnectionResetError, retry in 0.2 s, 2 of 5",
    ]
    assert traffic.summary() == "4 bytes from stores in 1 request, 2 retried"


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


@pytest.fixture
def clock(monkeypatch) -> list[int]:
    """The current time in milliseconds, as the only item of a list."""
    now = [0]
    monkeypatch.setattr("time.time_ns", lambda: now[0] * 1_000_000)
    return now


@pytest.mark.parametrize(
    ("expires_ms", "asked_at"),
    [(3_600_000, 3_540_000), (100_000, 90_000), (0, 0)],
    ids=["a minute before", "a tenth of a short time before", "at once"],
)
def test_options_are_renewed_before_they_expire(clock, expires_ms, asked_at):
    lending = Renewal({"key": "a"}, expires_ms, lambda: ({"key": "b"}, None))
    if asked_at:
        clock[0] = asked_at - 1
        assert lending.current() == {"key": "a"}
    clock[0] = asked_at
    assert (lending.current(), lending.generation) == ({"key": "b"}, 1)
    clock[0] = 10**12
    assert (lending.current(), lending.generation) == ({"key": "b"}, 1)


def test_options_that_cannot_be_renewed_are_used_until_they_expire(clock):
    def down() -> Any:
        raise StorageError("Cannot reach catalog prod")

    lending = Renewal({"key": "a"}, 100_000, down)
    clock[0] = 99_999
    assert lending.current() == {"key": "a"}
    clock[0] = 100_000
    with pytest.raises(StorageError, match="reach catalog prod"):
        lending.current()


def test_verbose_logs_to_stderr(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    t = DeltaTable.create(tmp_path / "t", {"id": "long"})
    arguments = ["plan", str(t.directory), "--format", "json"]
    assert main([*arguments, "--verbose"]) == 0
    assert "harness.plan: Snapshot(" in capfd.readouterr().err
    assert main(arguments) == 0
    assert capfd.readouterr().err == ""
    assert logging.getLogger("harness").level == logging.NOTSET
