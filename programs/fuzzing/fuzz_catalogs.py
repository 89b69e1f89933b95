"""Catalogs over HTTP that a table is opened by: both generations of Unity Catalog's API, and Iceberg's REST catalog.

Python's HTTP client gets the bytes that a server would send from a replaced socket, so there is no network access. For
Iceberg's REST catalog, only the parts of an answer that harness itself reads are mutated, with a client like
PyIceberg's. PyIceberg's own code for configuration and tokens is not tested.
"""

import http.client
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest import mock
from urllib.parse import unquote, urlsplit
from zlib import crc32

from fuzz_assessment import Assessment, OutcomeKind, without_rows
from fuzz_listings import STORE, store_of
from fuzz_reading import Leak, Outcome, ReadRows, Refusal, by_duckdb, by_oracle
from fuzz_subjects import Changes, Image, Subject, SubjectRead
from mutate_http import TOKEN

from harness.metadata.catalogs.catalog import Catalog
from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog
from harness.metadata.catalogs.unity import open_unity
from harness.testing.unity_server import ROOT, UnityServer

NAME, ADDRESS = "main.sales.t", "http://127.0.0.1:9"
"""The name of the table, and the address of the server that has it."""
_PUBLISHED = re.compile(r"_delta_log/(\d{20})\.")
_MOST_CALLS, _MOST_WAITING = 500, 120.0
Send: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], bytes]
CONFIG = {"s3.access-key-id": "key", "s3.secret-access-key": "secret", "s3.session-token": "token"}


class Endless(Exception):
    """Raised if a catalog is asked, or waited for, without end."""


class Catalogs:
    """Answers of a catalog about one table, by method and path. A Delta table is in a server of either generation."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        is_delta = (subject.directory / "_delta_log").is_dir()
        self._dialect = _DIALECTS[crc32(subject.name.encode()) % len(_DIALECTS)] if is_delta else "rest"
        self._calls, self._waited = 0, 0.0
        self.image: Image = self._recorded()
        self._now: Changes = self.image

    def files(self, _: SubjectRead) -> list[str]:
        """Return the names of all answers."""
        return list(self.image)

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """Return the outcome for a user who opens the table by name."""
        with self._ask_catalog(changes) as others:
            return contained(by_duckdb(NAME, read, catalog=self._catalog()), others)

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess an outcome.

        Rows of other versions of this table are fine, because the catalog decides which is the latest.
        """
        if not isinstance(outcome, ReadRows):
            return without_rows(outcome)
        if outcome == original:
            return Assessment(OutcomeKind.SAME)
        with self._ask_catalog(changes):
            located = self._catalog().locate(tuple(NAME.split(".")))
        place = located.metadata_location or located.location
        detail = f"harness: {outcome}; before: {original}; at {place[:200]} with {located.options}"
        if f"{place}/".startswith(f"{STORE}/"):
            with store_of(self._subject, {}):
                oracle = by_oracle(place, read, **located.options)
            if oracle == outcome:
                return Assessment(OutcomeKind.OTHER)
            detail += f"; oracle: {oracle}"
        return Assessment(OutcomeKind.WRONG, detail, "wrong catalog")

    def _catalog(self) -> Catalog:
        if self._dialect == "rest":
            return PyIcebergCatalog.of_client(rest_catalog(lambda method, path, *_: self._answer(method, path)))
        unity = open_unity(ADDRESS, token=TOKEN)
        return replace(unity, server=replace(unity.server, wait=self._wait))

    def _wait(self, seconds: float) -> None:
        self._waited += seconds
        if self._waited > _MOST_WAITING:
            raise Endless(f"{self._waited} s of waiting")

    def _recorded(self) -> dict[str, bytes]:
        """Return the answers of a correct server to all calls of one read."""
        if self._dialect == "rest":
            return {"catalog:GET tables/t": sent(200, self._loaded())}
        image = self._subject.image
        published = max((match[1] for name in image if (match := _PUBLISHED.match(name))), default="0")
        staged = sorted(name.rpartition("/")[2] for name in image if "/_staged_commits/" in name)
        ratified = {name[:20]: name for name in staged if name[:20] > published}
        server = UnityServer(older=self._dialect == "older")
        server._server.server_close()
        server.credentials = CONFIG, 4_000_000_000_000
        server.add(
            NAME,
            STORE,
            managed=bool(staged) or any(b"catalogManaged" in data for data in image.values()),
            latest=int(max((published, *ratified))),
            ratified=list(ratified.values()),
        )
        body = {"table_id": NAME, "start_version": 0}
        answers: dict[str, bytes] = {}
        for call in _CALLS[self._dialect]:
            method, path = call.split(" ")
            status, _, content = server.answer(method, ROOT + path, {}, {}, body)
            answers[f"catalog:{call}"] = sent(status, content)
        return answers

    def _loaded(self) -> dict[str, Any]:
        """Return the answer of an Iceberg catalog: the path and content of the table's metadata file."""
        image, directory = self._subject.image, str(self._subject.directory)
        names = sorted((n for n in image if n.endswith("metadata.json")), key=lambda n: (len(n), n))
        name = names[-1] if names else "metadata/none.metadata.json"
        if self._subject.address.endswith(".json"):
            name = self._subject.address.removeprefix(f"{directory}/")
        try:
            metadata = json.loads(image[name])
        except (KeyError, ValueError):
            metadata = {"location": STORE, "properties": {"write.data.path": f"{STORE}/data"}}
        vended = {"prefix": "s3://bucket/t", "config": {**CONFIG, "s3.session-token-expires-at-ms": "4000000000000"}}
        config = {"s3.region": "eu-west-1", "s3.endpoint": "http://127.0.0.1:9", "client.region": "eu-west-1"}
        return {
            "metadata-location": f"{STORE}/{name}",
            "metadata": metadata,
            "config": config,
            "storage-credentials": [vended, {"prefix": STORE, "config": {}}],
        }

    @contextmanager
    def _ask_catalog(self, changes: Changes) -> Iterator[list[str]]:
        """While the block runs, answer HTTP requests with these changes, and return the list of other hosts."""
        self._calls, self._waited = 0, 0.0
        self._now = {**self.image, **changes}

        def handle(method: str, target: str, _: bytes) -> bytes:
            return self._answer(method, unquote(urlsplit(target).path).removeprefix(ROOT))

        with answering(handle) as others, store_of(self._subject, {}):
            yield others

    def _answer(self, method: str, path: str) -> bytes:
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise Endless(f"{self._calls} calls of {path}")
        answer = self._now.get(f"catalog:{method} {path}")
        return sent(404, {"error": {"type": "NotFound", "message": "no such call"}}) if answer is None else answer


_LOAD = "GET delta/v1/catalogs/main/schemas/sales/tables/t"
_CALLS = {
    "newer": ["GET delta/v1/config", _LOAD, f"{_LOAD}/credentials"],
    "older": [f"GET tables/{NAME}", "GET delta/preview/commits", "POST temporary-table-credentials"],
}
"""The calls of a read, by generation of Unity Catalog's API."""
_DIALECTS = tuple(_CALLS)


@contextmanager
def answering(handle: Callable[[str, str, bytes], bytes]) -> Iterator[list[str]]:
    """While the block runs, answer HTTP requests with a function of their method, target, and content.

    PyIceberg's modules are replaced, too. The value is the list of other hosts that a request was sent to.
    """
    others: list[str] = []

    def connect(connection: http.client.HTTPConnection) -> None:
        if f"http://{connection.host}:{connection.port}" != ADDRESS:
            others.append(f"{connection.host}:{connection.port}")
            raise ConnectionRefusedError(others[-1])
        connection.sock = _Socket(split)  # type: ignore[assignment]

    def split(request: bytes) -> bytes:
        head, _, content = request.partition(b"\r\n\r\n")
        method, target = head.partition(b"\r\n")[0].decode("latin-1").split(" ")[:2]
        return handle(method, target, content)

    with mock.patch.object(http.client.HTTPConnection, "connect", connect), _stand_in():
        yield others


def contained(outcome: Outcome, others: Sequence[str]) -> Outcome:
    """Return the outcome, or a leak if a request was sent to another host, or the text contains the client's secret."""
    if others:
        return Leak("ForeignHost", "catalogs", f"a request to {', '.join(others)}; {outcome}")
    if isinstance(outcome, Refusal) and TOKEN in outcome.text:
        return Leak("Token", "catalogs", outcome.text)
    return outcome


class _Socket:
    """A socket that passes a request to a function, and returns the function's result."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer, self._request = answer, b""

    def sendall(self, data: bytes) -> None:
        self._request += data

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self._answer(self._request)))  # type: ignore[arg-type]

    def close(self) -> None:
        return None


class NoSuchTableError(Exception):
    """An exception with the name of PyIceberg's."""


class RESTError(Exception):
    """An exception with the name of PyIceberg's."""


def _handle_non_200_response(error: Exception, errors_by_status: dict[int, type[Exception]]) -> None:
    raise errors_by_status.get(getattr(error, "status", 0), RESTError)(str(error)) from error


_MODULES = ("pyiceberg.exceptions", "pyiceberg.catalog.rest", "pyiceberg.catalog.rest.response")
_STAND_IN = SimpleNamespace(
    Endpoints=SimpleNamespace(load_table="tables/{table}", view_exists="views/{view}"),
    NoSuchTableError=NoSuchTableError,
    NoSuchViewError=NoSuchTableError,
    _handle_non_200_response=_handle_non_200_response,
)


@contextmanager
def _stand_in() -> Iterator[None]:
    """While the block runs, replace the PyIceberg modules that harness imports to ask a catalog."""
    lacking = [name for name in _MODULES if name not in sys.modules]
    sys.modules.update(dict.fromkeys(lacking, _STAND_IN))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in lacking:
            del sys.modules[name]


class RestCatalog(SimpleNamespace):
    """A client with the name of PyIceberg's."""


def rest_catalog(send: Send, endpoints: Iterable[str] = ()) -> RestCatalog:
    """Return a client like PyIceberg's, whose session gets its bytes from a function.

    Args:
        send: A function of a request's method, path, parameters, and content.
        endpoints: The calls that the server lists.
    """

    def request(
        method: str, url: str, *, params: Mapping[str, str], data: bytes | None = None, **_: object
    ) -> _Response:
        return _Response(send(method, url, params, data or b""))

    return RestCatalog(
        name="rest",
        properties={"uri": ADDRESS, "s3.region": "eu-west-1", "token": TOKEN},
        url=lambda endpoint, **parts: endpoint.format(**parts),
        list_namespaces=lambda parent=(): [("main",), ("main", "sales")],
        list_tables=lambda namespace: [("main", "sales", "t")],
        _session=SimpleNamespace(get=partial(request, "GET"), request=request),
        _split_identifier_for_path=lambda name: {"namespace": ".".join(name[:-1]), "table": name[-1]},
        _refresh_token=lambda: None,
        _supported_endpoints=frozenset(endpoints),
    )


class _Response:
    """A response like those of the package requests: content that cannot be read raises an error at once."""

    def __init__(self, answer: bytes) -> None:
        self.status_code, self.headers, self.content = received(answer)
        self._content = self.content

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            error = RESTError(f"HTTP {self.status_code}")
            error.status = self.status_code  # type: ignore[attr-defined]
            raise error

    def json(self) -> Any:
        return json.loads(self.content)


def received(answer: bytes) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, the headers, and the content of an answer. Its errors are those of `http.client`."""
    response = http.client.HTTPResponse(_Socket(lambda _: answer))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.headers, response.read(64 << 20)


def sent(status: int, content: Any) -> bytes:
    data = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data
