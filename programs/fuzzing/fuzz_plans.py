"""Plans that the server of an Iceberg REST catalog makes: each answer of one read, from the configuration to the tasks.

The answers are those of `harness.testing.lake_catalog`. Half of the tables are read by the standard library's client of
a catalog, and half by a client like PyIceberg's. There is no network access.

A server may leave out a file or a delete, which no client notices. Therefore other rows are fine if the oracle reads
the same rows from the same answers, and if `harness.compare_plans` reports that the plan is not the table's.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock
from urllib.parse import parse_qsl, unquote, urlsplit
from zlib import crc32

from fuzz_assessment import Assessment, OutcomeKind, assess_read, without_rows
from fuzz_catalogs import ADDRESS, CONFIG, NAME, answering, contained, received, rest_catalog, sent
from fuzz_listings import STORE, store_of
from fuzz_reading import Leak, Outcome, ReadRows, Refusal, by_duckdb, outcome_of
from fuzz_stated_plans import METADATA, plan_call, stated_rows
from fuzz_subjects import Changes, Image, Subject, SubjectRead
from mutate_http import TOKEN
from mutate_plans import LENT

from harness.diff.plan_result import PlanComparison
from harness.diff.plans import compare_plans
from harness.metadata.catalogs.catalog import Catalog
from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog
from harness.metadata.iceberg.server import calls as server_calls
from harness.storage import clients
from harness.suite.scenarios.model import ResolvedSelector
from harness.testing.lake_catalog import LakeCatalog

_CONFIGURATION, _TABLE, _CREDENTIALS = "GET config", "GET table refs", "GET credentials"
_S3 = "s3://bucket/t"
_OF_USER = {"key": "user", "secret": TOKEN}
_OF_TABLE = re.compile(r"(?:v1/namespaces/[^/]+/)?tables/t(|/plan(?:/[^/]+)?|/tasks|/credentials)")
_PATH = "/v1/namespaces/main%1Fsales/tables/t"
_MOST_CALLS, _LONGEST_TEXT = 300, 5000
Handler: TypeAlias = Callable[[str], bytes]
"""A function from a call to its answer."""
Exchange: TypeAlias = tuple[str, bytes]
"""A call and its answer."""


class Plans:
    """Answers of a server that plans the reads of one table, by the number of the read and by call."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._location = ""
        self._requests: dict[str, Any] = {}
        self.image: Image = {}
        self._reads: dict[str, tuple[int, SubjectRead]] = {}
        self._texts = _Texts()
        if (subject.directory / "metadata").is_dir():
            for number, read in enumerate(subject.reads):
                self._record(number, read)

    def files(self, read: SubjectRead) -> list[str]:
        """Return the names of the answers that a read gets."""
        number, _ = self._planned(read)
        return [name for name in self.image if name.startswith(f"plans:{number} ")]

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """Return the outcome for a user who reads the table with the server's plan."""
        number, planned = self._planned(read)
        return self._run(number, self._handler(number, changes), planned)

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess an outcome."""
        if not isinstance(outcome, ReadRows):
            return without_rows(outcome)
        number, planned = self._planned(read)
        handler = self._handler(number, changes)
        stated = outcome_of(lambda: self._stated_rows(number, handler, planned))
        if isinstance(stated, Refusal) and stated.text.startswith("OutsideTableError"):
            return Assessment(OutcomeKind.WRONG, f"harness: {outcome}; oracle: {stated}", "outside")
        assessment = assess_read(outcome, original, lambda: [stated], list)
        # Other metadata is another table, also for the client's plan. Plans of changes cannot be compared.
        is_same_table = not any(" GET table " in name for name in changes) and planned.changes is None
        if assessment.kind is OutcomeKind.OTHER and is_same_table:
            return self._compared(number, handler, planned)
        return assessment

    def _compared(self, number: int, handler: Handler, read: SubjectRead) -> Assessment:
        """Assess a plan with other rows than the table's, which a comparison with the client's plan must report."""
        comparisons: list[PlanComparison] = []
        at = ResolvedSelector(**read.at).moment
        options: Any = {"at": at, "columns": read.columns, "where": read.where, **self._options(number)}

        def compare() -> None:
            with self._asking(number, handler, []) as (catalog, _):
                comparisons.append(compare_plans(NAME, catalog=catalog, **options))

        outcome = outcome_of(compare)
        if isinstance(outcome, Leak):
            return without_rows(outcome)
        if isinstance(outcome, Refusal):
            return Assessment(OutcomeKind.COMPARED, outcome.text)
        kind = OutcomeKind.UNREPORTED if comparisons[0].equal else OutcomeKind.COMPARED
        return Assessment(kind, comparisons[0].sentence, "unreported")

    def _planned(self, read: SubjectRead) -> tuple[int, SubjectRead]:
        """Return the number of a read and the read, or those of the first read if the server does not plan this one."""
        return self._reads.get(str(read)) or next(iter(self._reads.values()))

    def _handler(self, number: int, changes: Changes) -> Handler:
        now = {**self.image, **changes}

        def handle(call: str) -> bytes:
            answer = now.get(f"plans:{number} {call}")
            if answer is None and call.startswith("DELETE "):
                return sent(204, None)
            return sent(404, {"error": {"type": "NotFound", "message": "no such call"}}) if answer is None else answer

        return handle

    def _record(self, number: int, read: SubjectRead) -> None:
        """Add the answers of a correct server to all calls of one read, if the read succeeds."""
        variant, store = self._variant(number), self._store(number)
        server = LakeCatalog(page=(None, 1, 2)[variant % 3], polls=variant // 3 % 2)
        server._server.server_close()
        config = {**CONFIG, "s3.secret-access-key": LENT}
        server.credentials = {f"{store}/data": config, store: config, "s3://other": config}
        server.lend = frozenset({"table", "plan", "tasks"})
        server.add(NAME, self._subject.address)
        answers: dict[str, bytes] = {}

        def ask(call: str) -> bytes:
            method, _, path = call.partition(" ")
            path, _, task = path.partition(" ")
            body = {"plan-task": task} if path == "tasks" else {} if method == "POST" else None
            if call == _CONFIGURATION:
                place, query = "/v1/config", {}
            elif path == "table":
                place, query = _PATH, {"snapshots": task}
            else:
                place, query = f"{_PATH}/{path}", {}
            if path == "plan" and method == "POST":
                body = self._requests[call]
            status, _, document = server.answer(method, place, query, {}, body)
            if call in (_TABLE, METADATA) and status == 200:
                self._location = document["metadata"]["location"]
                real = document["metadata-location"]
                document["metadata-location"] = real.replace(str(self._subject.directory), store)
            answers[f"plans:{number} {call}"] = sent(status, document)
            return answers[f"plans:{number} {call}"]

        for call in (_TABLE, METADATA, _CREDENTIALS):
            ask(call)
        if isinstance(self._run(number, ask, read), ReadRows):
            self._reads[str(read)] = (number, read)
            self.image.update(sorted(answers.items()))

    def _variant(self, number: int) -> int:
        return crc32(f"{self._subject.name} {number}".encode())

    def _run(self, number: int, handler: Handler, read: SubjectRead) -> Outcome:
        """Return the outcome of a read with answers, or a leak if the read does what it must not do."""
        calls: list[Exchange] = []
        with self._asking(number, handler, calls) as (catalog, others), self._texts.collecting():
            outcome = by_duckdb(NAME, read, catalog=catalog, planning="server", **self._options(number))
        if wrong := next((call for call, _ in calls if call.startswith("! ")), None):
            return Leak("ForeignCall", "plans", wrong)
        if len(calls) >= _MOST_CALLS:
            return Leak("Endless", "plans", f"{len(calls)} calls, the last is {calls[-1][0]:.80}")
        secrets = [TOKEN, *([] if any(_is_misplaced(answer) for _, answer in calls) else [LENT])]
        texts = [*self._texts.texts, *([outcome.text] if isinstance(outcome, Refusal) else [])]
        if leak := next((text for text in texts for secret in secrets if secret in text), None):
            return Leak("Secret", "plans", leak)
        if isinstance(outcome, Refusal) and (len(outcome.text) > _LONGEST_TEXT or len(outcome.text.splitlines()) > 1):
            return Leak("Lines", "plans", repr(outcome.text)[:300])
        return contained(outcome, others)

    def _options(self, number: int) -> dict[str, Any]:
        """Return the options of the user, who sometimes has credentials."""
        is_secret = self._variant(number) // 24 % 2 and self._store(number) == _S3
        options = {"storage_options": _OF_USER} if is_secret else {}
        return {"path_map": {self._location: self._store(number)}, "outside": "refuse", **options}

    def _store(self, number: int) -> str:
        """Return the location of the table: in a store without credentials, or in one that needs them."""
        return _S3 if self._variant(number) // 12 % 2 else STORE

    @contextmanager
    def _asking(self, number: int, handler: Handler, calls: list[Exchange]) -> Iterator[tuple[Catalog, list[str]]]:
        """While the block runs, answer requests. The value is the catalog, and the list of other hosts."""
        clock = _FakeClock()

        def handle(method: str, target: str, params: Mapping[str, str], content: bytes) -> bytes:
            if len(calls) >= _MOST_CALLS:
                raise ConnectionAbortedError("too many calls")
            call = self._call(method, target, params, content)
            answer = handler(call)
            calls.append((call, answer))
            return answer

        def handle_request(method: str, target: str, content: bytes) -> bytes:
            return handle(method, target, {}, content)

        with ExitStack() as stack:
            others = stack.enter_context(answering(handle_request))
            stack.enter_context(store_of(self._subject, {}))
            bucket = _Bucket(self._subject.directory, others)
            stack.enter_context(mock.patch.object(clients, "open_client", bucket.open_client))
            for function in (server_calls.request_plan, server_calls.renew_credentials):
                stack.enter_context(mock.patch.dict(function.__kwdefaults__, clock=clock.clock))
            yield self._catalog(number, handle, clock), others

    def _catalog(self, number: int, handle: Callable[..., bytes], clock: "_FakeClock") -> Catalog:
        if self._variant(number) // 6 % 2:
            server = LakeCatalog(token=TOKEN)
            server._server.server_close()
            catalog = server.catalog()
            return replace(catalog, server=replace(catalog.server, uri=ADDRESS, wait=clock.pass_time))
        try:
            _, _, content = received(handle("GET", "config", {}, b""))
            listed = [each for each in json.loads(content)["endpoints"] if isinstance(each, str)]
        except Exception:  # PyIceberg refuses the configuration
            listed = []
        return PyIcebergCatalog.of_client(rest_catalog(handle, listed))

    def _call(self, method: str, target: str, params: Mapping[str, str], content: bytes) -> str:
        """Return the name of a call. That of a call that no client should send begins with an exclamation mark."""
        parts = urlsplit(target)
        path, query = parts.path.lstrip("/"), {**dict(parse_qsl(parts.query)), **params}
        if path in ("config", "v1/config"):
            return _CONFIGURATION
        match = _OF_TABLE.fullmatch(path)
        if match is None or match[1] in ("/plan/.", "/plan/..") or (method == "DELETE" and not match[1]):
            is_lookup = method == "GET" and path.startswith(("v1/namespaces", "views/"))
            return f"{'' if is_lookup else '! '}{method} {target}"
        rest = unquote(match[1].removeprefix("/"))
        if rest == "plan":
            request = json.loads(content)
            call = plan_call(request.get("start-snapshot-id"), request.get("end-snapshot-id"))
            self._requests[call] = request
            return call
        if rest == "tasks":
            return f"{method} tasks {json.loads(content)['plan-task']}"
        return f"{method} {rest}" if rest else f"{method} table {query.get('snapshots', 'all')}"

    def _stated_rows(self, number: int, handler: Handler, read: SubjectRead) -> Any:
        def ask(call: str) -> tuple[int, bytes]:
            status, _, content = received(handler(call))
            return status, content

        prefixes = self._options(number)["path_map"]
        return stated_rows(ask, read, dict.fromkeys([*prefixes, *prefixes.values()], self._subject.directory))


def _is_misplaced(answer: bytes) -> bool:
    """Return whether a secret is at another place of an answer than its credentials, where anybody may show it."""
    try:
        _, _, content = received(answer)
        document = json.loads(content)
        document.pop("storage-credentials", None)
    except Exception:  # nobody should show the content of an invalid answer
        return False
    return LENT in json.dumps(document)


class _Bucket:
    """An S3 bucket with the table's files. Requests that must not be sent are added to a list.

    Keys of the user, and requests without a key, must not be sent to an address that the server named.
    """

    reads_ends = False

    def __init__(self, directory: Path, others: list[str]) -> None:
        self._directory, self._others = directory, others

    def open_client(self, base: str, options: Mapping[str, object]) -> Any:
        """Return a client with options, or a true client of another store."""
        if not base.startswith("s3://"):
            return _open_client(base, options)
        if "endpoint_url" in options and options.get("key") in (None, "user") and not options.get("anon"):
            self._others.append(f"{options.get('endpoint_url')}, with the key {options.get('key')}")
        client = copy(self)
        client.identity = base, repr(sorted(options.items(), key=str))  # type: ignore[attr-defined]
        return client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def request(path: str, *arguments: object) -> Any:
            place = (self._directory / path.removeprefix(f"{_S3}/")).resolve()
            if not path.startswith(f"{_S3}/") or not place.is_relative_to(self._directory.resolve()):
                self._others.append(path)
                raise FileNotFoundError(path)
            return getattr(clients.local_client(), name)(str(place), *arguments)

        return request


_open_client = clients.open_client


class _FakeClock:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self.clock = server_calls.Clock(now=lambda: self.time, wait=lambda _, seconds: self.pass_time(seconds))

    def pass_time(self, seconds: float) -> None:
        """Wait."""
        self.time += seconds


class _Texts(logging.Handler):
    """The texts that harness writes to its log.

    Attributes:
        texts: The texts since the last `collecting`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a text."""
        self.texts.append(record.getMessage())

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """While the block runs, collect all texts."""
        self.texts.clear()
        log = logging.getLogger("harness")
        level, propagates = log.level, log.propagate
        log.setLevel(logging.DEBUG)
        log.addHandler(self)
        log.propagate = False
        try:
            yield
        finally:
            log.setLevel(level)
            log.removeHandler(self)
            log.propagate = propagates
