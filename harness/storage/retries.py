"""Requests to stores that failed in a way that passes: they are asked again after a while, each time a longer one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from harness.errors import HarnessError
from harness.storage import object_failures

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
        reason = object_failures.passing(behind)
        return None if reason is None else Passing(reason)
    status = _status(behind)
    if status is not None:
        return Passing(f"HTTP {status}", _retry_after(behind)) if status in object_failures.PASSING_STATUSES else None
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
