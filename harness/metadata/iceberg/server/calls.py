"""Requests for the plan of a server: submission, polling, parallel fetching of plan tasks, and cancellation."""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from harness.errors import HarnessError, InvalidTableError, StorageError, size_text
from harness.metadata.files.documents import Json
from harness.metadata.iceberg.server.protocol import (
    Answer,
    Call,
    Credential,
    PlanAnswer,
    ScanRequest,
    Transport,
)
from harness.metadata.iceberg.server.refusals import BUSY, error_words, refusal, unsupported
from harness.storage.clients import MOST_RETRIES, backoff_s
from harness.storage.records import dataclass
from harness.storage.threads import Lock, phase, read_ahead

_LOG = logging.getLogger("harness.catalogs")

LONGEST_PLANNING_S = 600.0
"""The seconds to wait for a plan that the server has not completed."""
LONGEST_CANCELLATION_S = 5.0
"""The seconds to wait for the answer to a cancellation. A user who pressed Ctrl-C waits for it."""
_LONGEST_POLL_S, _LONGEST_WAIT_S = 10.0, 30.0
"""The maximum number of seconds between two polls, and the maximum number of seconds that a server can make us wait."""
_AT_ONCE = 8
"""The number of plan tasks that are fetched at once. HTTP clients keep about 10 connections to a host open."""
MOST_TASKS = 100_000
"""The maximum number of plan tasks. At 50 ms each, fetching them takes 10 minutes."""
MOST_FILES = 10_000_000
"""The maximum number of file scan tasks and delete files in all answers. Real tables have up to a few million files."""
MOST_BYTES = 2 << 30
"""The maximum size of all answers. A plan of a million files with the bounds of some columns takes 1 GiB."""
_LONGEST_ID = 1024
_FILES, _DELETES, _CREDENTIALS = "file-scan-tasks", "delete-files", "storage-credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A clock, which tests can replace.

    Attributes:
        now: Returns the time in seconds.
        wait: Waits for a number of seconds, or until the event is set.
    """

    now: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], object] = threading.Event.wait


_CLOCK = Clock()


def request_plan(transport: Transport, request: ScanRequest, *, table: str, clock: Clock = _CLOCK) -> PlanAnswer:
    """Request a plan, wait until it is completed, and fetch all its tasks.

    If this fails or is interrupted while the server still holds the plan, the plan is canceled.

    Args:
        transport: The connection to the server.
        request: The request.
        table: The name of the table, for messages.
        clock: The clock.

    Raises:
        TableNotFoundError: The server does not know the table.
        UnsupportedError: The server does not offer a call that the plan needs, or refuses to plan this scan.
        StorageError: The server refuses the request, fails, or does not complete the plan within 10 minutes
            (`LONGEST_PLANNING_S`), or its answer is invalid.
    """
    plan = _Plan(_Server(transport, table, clock))
    with phase("planning on the server", None, "answers") as advance:
        try:
            plan.fetch_tasks(plan.request(request, advance), advance)
        except BaseException:
            plan.cancel()
            raise
    return plan.answer()


def renew_credentials(
    transport: Transport, plan_id: str | None, *, table: str | None = None, clock: Clock = _CLOCK
) -> tuple[Credential, ...]:
    """Request new credentials for the files of a plan.

    Args:
        transport: The connection to the server.
        plan_id: The id of the plan. None for the credentials of the table.
        table: The name of the table, for messages.
        clock: The clock.

    Raises:
        TableNotFoundError: The server does not know the table.
        UnsupportedError: The server does not offer the call.
        StorageError: The server refuses the request, or its answer is invalid.
    """
    server = _Server(transport, table, clock)
    with server.parsing(server.ask(Call.CREDENTIALS, plan_id=plan_id)) as document:
        document.child(_CREDENTIALS)
        return tuple(_credentials(document))


_SUBJECTS = {
    Call.PLAN: "the table, or the call that plans",
    Call.RESULT: "the plan any more",
    Call.TASKS: "a plan task that it named",
    Call.CREDENTIALS: "the table or the plan",
}


class _Server:
    """The server, for the calls about one table.

    Attributes:
        requests: The number of requests so far.
        clock: The clock.
        is_abandoned: Set when no further answers are needed. Threads then stop waiting.
    """

    def __init__(self, transport: Transport, table: str | None, clock: Clock) -> None:
        self.requests, self.clock, self.is_abandoned = 0, clock, threading.Event()
        self._transport, self._table, self._lock = transport, table, Lock()

    def offers(self, call: Call) -> bool:
        """Return whether the server offers a call."""
        return call in self._transport.calls

    def ask(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request, and repeat it while the server is busy. Raise an error if the HTTP status is an error."""
        if not self.offers(call):
            raise unsupported(self._transport.catalog, f"it does not offer {call.value}").within(table=self._table)
        for attempt in itertools.count(1):
            answer = self.send(call, plan_id=plan_id, body=body)
            if answer.status not in BUSY or attempt > MOST_RETRIES:
                break
            self.wait(attempt, answer, f"it is busy (HTTP {answer.status})")
            if self.is_abandoned.is_set():
                break
        if not 200 <= answer.status < 300:
            error = refusal(self._transport.catalog, answer.status, answer.document, subject=_SUBJECTS[call])
            raise error.within(table=self._table)
        return answer

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        """Send and count a request."""
        with self._lock:
            self.requests += 1
        try:
            return self._transport.send(call, plan_id=plan_id, body=body)
        except HarnessError as error:
            error.within(table=self._table)
            raise

    def wait(self, attempt: int, answer: Answer, reason: str) -> None:
        """Wait before a request is sent again.

        Args:
            attempt: The number of requests so far.
            answer: The last answer. It may state how many seconds to wait.
            reason: The reason, for the log.
        """
        wait_s = min(max(min(backoff_s(attempt), _LONGEST_POLL_S), answer.retry_after_s or 0), _LONGEST_WAIT_S)
        _LOG.info("%s: %s, next request in %.1f s", self._transport.catalog, reason, wait_s)
        self.clock.wait(self.is_abandoned, wait_s)

    @contextmanager
    def parsing(self, answer: Answer) -> Iterator[Json]:
        """Yield the JSON document of an answer, and add the catalog's name to errors about its values."""
        try:
            yield Json(dict(answer.document))
        except InvalidTableError as error:
            raise self.failure(
                f"sent an invalid answer about a plan: {error.message}", "CatalogAnswer", field=error.field
            ) from None

    def failure(self, problem: str, cause: str, *, field: str | None = None) -> StorageError:
        """Return an error about the server. `problem` continues the sentence after the catalog's name."""
        message = f"Catalog {self._transport.catalog} {problem}"
        return StorageError(message, cause=cause, table=self._table, field=field)

    @contextmanager
    def abandoned_on_error(self) -> Iterator[None]:
        """Stop the waiting threads if the block raises an error."""
        try:
            yield
        except BaseException:
            self.is_abandoned.set()
            raise


class _Status(enum.Enum):
    """The status of a plan."""

    COMPLETED = "completed"
    SUBMITTED = "submitted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """An answer with tasks.

    Attributes:
        page: The files and deletes.
        credentials: The credentials.
        tasks: The plan tasks, which lead to further answers.
    """

    page: Mapping[str, Any]
    credentials: tuple[Credential, ...]
    tasks: tuple[str, ...]


class _Plan:
    """A plan while its tasks are being fetched.

    Attributes:
        plan_id: The id, or None if the server did not send one.
    """

    def __init__(self, server: _Server) -> None:
        self.plan_id: str | None = None
        self._server, self._is_held = server, False
        # The key is a plan task, or None for the answer that completed the plan.
        self._parts: dict[str | None, _Part] = {}
        self._tasks: set[str] = set()
        self._files = self._bytes = 0

    def request(self, request: ScanRequest, advance: Callable[[int], None]) -> Answer:
        """Request the plan, and return the answer that completes it."""
        end = self._server.clock.now() + LONGEST_PLANNING_S
        answer = self._server.ask(Call.PLAN, body=request.document())
        advance(1)
        status = self._first_status(answer)
        for attempt in itertools.count(1):
            if status is _Status.COMPLETED:
                return answer
            if self._server.clock.now() >= end:
                break
            self._server.wait(attempt, answer, "the plan is not completed")
            answer = self._server.ask(Call.RESULT, plan_id=self.plan_id)
            advance(1)
            status = self._status(answer)
        minutes = LONGEST_PLANNING_S / 60
        problem = (
            f"has not completed the plan after {minutes:.0f} minutes; read fewer files with a filter, or try again"
        )
        raise self._server.failure(problem, "CatalogBusy")

    def _first_status(self, answer: Answer) -> _Status:
        """Return the status in the answer to the request for the plan, and store the plan's id."""
        with self._server.parsing(answer) as document:
            status = document.choice("status", _Status)
            if status is _Status.CANCELLED:
                raise document.error("Invalid status: got cancelled for a new plan", key="status")
            if status is not _Status.FAILED:
                self.plan_id = _plan_id(document, is_required=status is _Status.SUBMITTED)
                self._is_held = self.plan_id is not None
        return self._status(answer)

    def _status(self, answer: Answer) -> _Status:
        """Return the status of the plan if it is completed or submitted. Raise StorageError otherwise."""
        with self._server.parsing(answer) as document:
            status = document.choice("status", _Status)
            if status is _Status.SUBMITTED and (document.texts("plan-tasks") or any(document.elements(_FILES))):
                raise document.error("Invalid status: got submitted, but the answer contains tasks", key="status")
        if status is _Status.FAILED:
            self._is_held = False
            raise self._server.failure(f"failed to plan the scan{error_words(answer.document)}", "CatalogFailed")
        if status is _Status.CANCELLED:
            self._is_held = False
            raise self._server.failure("canceled the plan; try again", "CatalogFailed")
        return status

    def fetch_tasks(self, first: Answer, advance: Callable[[int], None]) -> None:
        """Store the answer that completes the plan, and fetch and store the answers to all plan tasks."""
        tasks: Sequence[str] = self._add(None, first)
        while tasks:
            following: list[str] = []
            with read_ahead(self._fetch, tasks, at_once=_AT_ONCE) as fetch, self._server.abandoned_on_error():
                for task in tasks:
                    following += self._add(task, fetch(task))
                    advance(1)
            tasks = following

    def _fetch(self, task: str) -> Answer:
        return self._server.ask(Call.TASKS, body={"plan-task": task})

    def _add(self, task: str | None, answer: Answer) -> tuple[str, ...]:
        """Store the answer to a plan task, and return the plan tasks that the answer names."""
        with self._server.parsing(answer) as document:
            if task is not None and not document.has(_FILES) and not document.has("plan-tasks"):
                raise document.error(f"Missing required field '{_FILES}' or 'plan-tasks'")
            part = _Part(
                page={key: [each.object() for each in document.elements(key)] for key in (_FILES, _DELETES)},
                credentials=tuple(_credentials(document)),
                tasks=document.texts("plan-tasks"),
            )
        self._parts[task] = part
        number = len(self._tasks) + len(part.tasks)
        self._tasks.update(part.tasks)
        self._files += sum(map(len, part.page.values()))
        self._bytes += answer.size
        if len(self._tasks) < number:
            raise self._server.failure("sent an endless plan: it names a plan task twice", "CatalogAnswer")
        for count, most, noun in (
            (number, MOST_TASKS, f"{MOST_TASKS:,} plan tasks"),
            (self._files, MOST_FILES, f"{MOST_FILES:,} files"),
            (self._bytes, MOST_BYTES, size_text(MOST_BYTES)),
        ):
            if count > most:
                problem = f"sent a plan of more than {noun}; read fewer files with a filter"
                raise self._server.failure(problem, "CatalogAnswer")
        return part.tasks

    def answer(self) -> PlanAnswer:
        """Return the whole plan. Each answer is followed by the answers to the plan tasks that it names."""
        pages: list[Mapping[str, Any]] = []
        credentials: dict[str, Credential] = {}
        tasks: list[str | None] = [None]
        while tasks:
            part = self._parts[tasks.pop()]
            tasks += reversed(part.tasks)
            if any(part.page.values()):
                pages.append(part.page)
            for credential in part.credentials:
                credentials.pop(credential.prefix, None)
                credentials[credential.prefix] = credential
        return PlanAnswer(
            plan_id=self.plan_id,
            pages=tuple(pages),
            credentials=tuple(credentials.values()),
            requests=self._server.requests,
        )

    def cancel(self) -> None:
        """Cancel the plan if the server holds it. Log errors, and wait for at most `LONGEST_CANCELLATION_S`."""
        if not self._is_held or not self._server.offers(Call.CANCEL):
            return
        thread = threading.Thread(target=self._send_cancellation, name="harness-cancel", daemon=True)
        with suppress(RuntimeError):  # Python starts no threads while it exits
            thread.start()
            thread.join(LONGEST_CANCELLATION_S)

    def _send_cancellation(self) -> None:
        try:
            status = self._server.send(Call.CANCEL, plan_id=self.plan_id).status
            _LOG.debug("canceled a plan: HTTP %d", status)
        except Exception as error:  # the reason for the cancellation must reach the caller
            _LOG.info("cannot cancel a plan: %s", error)


def _plan_id(document: Json, *, is_required: bool) -> str | None:
    plan_id = document.text("plan-id") if is_required else document.optional_text("plan-id")
    # A path that ends with a dot segment would be the path of another object: DELETE …/plan/.. drops the table.
    if plan_id is not None and (
        not plan_id or len(plan_id) > _LONGEST_ID or not plan_id.isprintable() or plan_id in (".", "..")
    ):
        raise document.error("Invalid id: expected up to 1,024 printable characters, not only dots", key="plan-id")
    return plan_id


def _credentials(document: Json) -> Iterator[Credential]:
    """Yield the credentials in an answer. Errors do not quote values, because they may be secret."""
    if type(document.object().get(_CREDENTIALS)) not in (list, type(None)):
        raise document.error("Invalid credentials: expected a list", key=_CREDENTIALS)
    for each in document.elements(_CREDENTIALS):
        entry = each.value if type(each.value) is dict else {}
        prefix, config = entry.get("prefix"), entry.get("config")
        if type(prefix) is not str or not prefix:
            raise each.error("Invalid credentials: expected a prefix, a string that is not empty", key="prefix")
        if type(config) is not dict or any(isinstance(value, dict | list) for value in config.values()):
            raise each.error("Invalid credentials: expected properties, an object of strings", key="config")
        yield Credential(prefix, config)
