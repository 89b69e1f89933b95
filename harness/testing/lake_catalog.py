"""An Iceberg REST catalog on this machine that plans scans, for tests and demos.

    orders = IcebergTable.create("lake/orders", {"id": "long", "region": "string"})
    orders.append(orders.write_data([{"id": 1, "region": "eu"}]))
    with LakeCatalog() as server:
        server.add("sales.orders", orders)
        my_engine.read(server.uri, "sales.orders")
        assert "POST /plan" in server.requests

The server never writes to the tables. Any client of an Iceberg REST catalog can use the server.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from harness.errors import HarnessError, RequestError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, parse_name
from harness.metadata.catalogs.unity_rest import Server
from harness.metadata.iceberg.metadata import decompress
from harness.metadata.iceberg.server.protocol import PLANNING_MODE, Call
from harness.metadata.iceberg.table import IcebergTable as OpenedTable
from harness.table import open_table
from harness.testing.json_server import HttpAnswer, JsonServer
from harness.testing.lake import LakeTable
from harness.testing.lake_catalog_client import SEPARATOR, RestCatalog
from harness.testing.lake_catalog_plans import BadRequest, Page, ServerScan, scan_of
from harness.testing.plan_faults import PlanFault, parse_fault, plant, plant_in_page
from harness.writing.iceberg.builder import IcebergTable

ServedTable: TypeAlias = IcebergTable | LakeTable | str | Path
"""A table that a `LakeCatalog` can serve: a table of a builder, or the location of a directory or a metadata file."""

_HIDDEN = "metadata/hidden"
"""The start of the names of metadata files that do not exist, relative to a table's location."""
_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    f"GET {_TABLE}",
    f"HEAD {_TABLE}",
)


@dataclass(slots=True, kw_only=True)
class _Plan:
    """A plan that the server holds.

    Attributes:
        table: The name of the table.
        scan: The request.
        polls: The number of polls until the plan is complete.
        pages: The parts of the plan, once it is complete.
        tasks: The plan tasks that answers named.
        is_cancelled: True once a client has canceled the plan.
    """

    table: Name
    scan: ServerScan
    polls: int
    pages: list[Page] | None = None
    tasks: set[str] = field(default_factory=set)
    is_cancelled: bool = False


class LakeCatalog(JsonServer):
    """An Iceberg REST catalog on a free port of the loopback interface, which runs during a `with` block.

    All arguments are also attributes, which may be changed while the server runs.

    Attributes:
        token: The bearer token that requests must carry, or None.
        mode: The `scan-planning-mode` of all tables: `server`, `client`, or None for none.
        calls: The planning calls that the server offers.
        polls: The number of times that a client must poll before a plan is complete. 0: plans are complete at once.
        page: The number of data files in an answer. Further files are in plan tasks, which may lead to further plan
            tasks. None: all files are in one answer.
        delay_ms: The time before each answer to a planning call, in milliseconds.
        credentials: Properties by path prefix, for example `{"s3://bucket/orders": {"s3.access-key-id": "…"}}`.
        lend: The answers with credentials: `table` (loadTable), `plan` (planTableScan and fetchPlanningResult), and
            `tasks` (fetchScanTasks). loadCredentials always returns them.
        lifetime_ms: The time after which credentials expire, in milliseconds. None: they never expire.
        hides_metadata: If True, the paths of the metadata file and the manifest lists in answers do not exist, so that
            a client can only plan on the server.
        encodes_bounds: If True, bounds of columns are sent as the bytes in manifests, in hexadecimal digits, which
            Iceberg's Java client requires. If False, bounds are sent as values, as the specification requires.
        faults: The bugs of the server, as members of `PlanFault` or their values.
        failures: Answers to planning calls that the server returns before all others, in order.
        planted: The faults that have changed an answer so far.
        plan_requests: The bodies of the requests for plans so far.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        mode: Literal["server", "client"] | None = "server",
        polls: int = 0,
        page: int | None = None,
        delay_ms: int = 0,
        credentials: Mapping[str, Mapping[str, str]] | None = None,
        lend: Iterable[Literal["table", "plan", "tasks"]] = ("plan",),
        lifetime_ms: int | None = None,
        hides_metadata: bool = False,
        encodes_bounds: bool = False,
        faults: Iterable[PlanFault | str] = (),
    ) -> None:
        self.faults: Sequence[PlanFault | str] = [parse_fault(fault) for fault in faults]
        super().__init__()
        self.token, self.mode = token, mode
        self.calls = frozenset(Call)
        self.polls, self.page, self.delay_ms = polls, page, delay_ms
        self.credentials, self.lend, self.lifetime_ms = dict(credentials or {}), frozenset(lend), lifetime_ms
        self.hides_metadata, self.encodes_bounds = hides_metadata, encodes_bounds
        self.failures: list[HttpAnswer] = []
        self.planted: set[PlanFault] = set()
        self.plan_requests: list[dict[str, Any]] = []
        self._tables: dict[Name, tuple[ServedTable, Mapping[str, Any]]] = {}
        self._plans: dict[str, _Plan] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._is_ending = threading.Event()

    def __exit__(self, *error: Any) -> None:
        self._is_ending.set()
        super().__exit__(*error)

    def add(self, name: str, table: ServedTable, **options: Any) -> None:
        """Add a table, or replace the table of the same name. Each request is answered from the table's current state.

        Args:
            name: The name, with a namespace, for example `sales.orders`.
            table: The table: an `IcebergTable`, a `LakeTable`, or the location of a directory or a metadata file.
            options: Options of `harness.open_table` with which the server reads the table.
        """
        self._tables[parse_name(name)] = (table, options)

    def catalog(self, name: str = "lake") -> Catalog:
        """Return this server as a catalog for `harness.open_table`. PyIceberg is not needed.

        Args:
            name: The name of the catalog in harness.
        """
        return RestCatalog(server=Server(uri=self.uri, name=name, token=self.token))

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        """Return the answer to a request. Override it to change answers.

        Args:
            method: The HTTP method.
            path: The path as it was sent, without the query.
            query: The query parameters.
            headers: The headers, with names in lower case.
            body: The parsed body. None if there is none.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        is_of_table = len(parts) > 5 and parts[:1] + parts[3:4] == ["v1", "tables"]
        shown = parts[5:] if is_of_table else parts[1:]
        with self._lock:
            self.requests.append(f"{method} /{'/'.join(shown)}")
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            return error_answer(401, "NotAuthorizedException", "the token is missing or wrong")
        try:
            return self._answer(method, parts[1:] if parts[0] == "v1" else [], query, body)
        except BadRequest as refused:
            return error_answer(400, "BadRequestException", str(refused))
        except HarnessError as error:
            return error_answer(500, "InternalServerError", str(error))

    def _answer(self, method: str, path: list[str], query: Mapping[str, str], body: Any) -> HttpAnswer:
        match method, path:
            case "GET", ["config"]:
                modes = {} if self.mode is None else {PLANNING_MODE: self.mode}
                calls = [call.endpoint for call in Call if call in self.calls]
                return 200, {}, {"defaults": {}, "overrides": modes, "endpoints": [*_ENDPOINTS, *calls]}
            case "GET", ["namespaces"]:
                return self._answer_namespaces(_namespace(query.get("parent", "")))
            case "GET", ["namespaces", namespace]:
                return self._answer_namespace(_namespace(namespace))
            case "GET", ["namespaces", namespace, "tables"]:
                return self._answer_tables(_namespace(namespace))
            case _, ["namespaces", namespace, "tables", table, *rest]:
                return self._answer_about_table((*_namespace(namespace), table), method, rest, query, body)
            case _:
                return error_answer(404, "NotFoundException", f"there is no call {method} {'/'.join(path)}")

    def _answer_namespaces(self, parent: Name) -> HttpAnswer:
        depth = len(parent)
        if parent and not self._has(parent):
            return _no_namespace(parent)
        names = sorted({name[: depth + 1] for name in self._tables if len(name) > depth + 1 and name[:depth] == parent})
        return 200, {}, {"namespaces": [list(name) for name in names]}

    def _answer_namespace(self, namespace: Name) -> HttpAnswer:
        if not self._has(namespace):
            return _no_namespace(namespace)
        return 200, {}, {"namespace": list(namespace), "properties": {}}

    def _answer_tables(self, namespace: Name) -> HttpAnswer:
        if not self._has(namespace):
            return _no_namespace(namespace)
        names = sorted(name for name in self._tables if name[:-1] == namespace)
        return 200, {}, {"identifiers": [{"namespace": list(namespace), "name": name[-1]} for name in names]}

    def _has(self, namespace: Name) -> bool:
        return any(name[: len(namespace)] == namespace and len(name) > len(namespace) for name in self._tables)

    def _answer_about_table(
        self, name: Name, method: str, rest: list[str], query: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        if name not in self._tables:
            if not self._has(name[:-1]):
                return _no_namespace(name[:-1])
            return error_answer(404, "NoSuchTableException", f"Table does not exist: {name_text(name)}")
        match method, rest:
            case "HEAD", []:
                return 204, {}, None
            case "GET", []:
                return 200, {}, self._loaded(name, query)
            case _:
                return self._answer_about_plan(name, method, rest, query, body)

    def _answer_about_plan(
        self, name: Name, method: str, rest: list[str], query: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        self._is_ending.wait(self.delay_ms / 1000)
        with self._lock:
            if self.failures:
                return self.failures.pop(0)
        match method, rest:
            case "POST", ["plan"] if Call.PLAN in self.calls:
                return self._plan(name, _object(body))
            case "GET", ["plan", plan_id] if Call.RESULT in self.calls:
                return self._result(name, plan_id)
            case "DELETE", ["plan", plan_id] if Call.CANCEL in self.calls:
                return self._cancel(name, plan_id)
            case "POST", ["tasks"] if Call.TASKS in self.calls:
                return self._tasks(name, _object(body).get("plan-task"))
            case "GET", ["credentials"] if Call.CREDENTIALS in self.calls:
                if "planId" in query and self._plan_of(name, query["planId"]) is None:
                    return _no_plan(query["planId"])
                return 200, {}, self._lent()
            case _:
                return error_answer(406, "UnsupportedOperationException", f"no call {method} /{'/'.join(rest)}")

    def _opened(self, name: Name) -> OpenedTable:
        """Return the current state of a table."""
        table, options = self._tables[name]
        match table:
            case IcebergTable():
                location = str(table.metadata_path)
            case LakeTable():
                location = table.location
            case _:
                location = str(table)
        source = open_table(location, **options)._source
        if not isinstance(source, OpenedTable):
            raise RequestError(f"Cannot serve {name_text(name)}: it is a {source.format} table, expected Iceberg")
        return source

    def _loaded(self, name: Name, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of `loadTable`."""
        source = self._opened(name)
        path = source.metadata_path
        metadata = json.loads(decompress(source.storage.read(path), file=path, limits=source.storage.limits))
        if query.get("snapshots") == "refs":
            ids = {ref.snapshot_id for ref in source.metadata.refs.values()}
            metadata["snapshots"] = [each for each in metadata.get("snapshots", ()) if each["snapshot-id"] in ids]
        if self.hides_metadata:
            for snapshot in metadata.get("snapshots", ()):
                snapshot["manifest-list"] = f"{metadata['location']}/{_HIDDEN}.avro"
        config = {} if self.mode is None else {PLANNING_MODE: self.mode}
        lent = self._lent_with("table")
        location = f"{metadata['location']}/{_HIDDEN}.metadata.json" if self.hides_metadata else path
        return {"metadata-location": location, "metadata": metadata, "config": config, **lent}

    def _plan(self, name: Name, body: dict[str, Any]) -> HttpAnswer:
        """Return the answer of `planTableScan`."""
        with self._lock:
            self.plan_requests.append(body)
            plan_id = f"plan-{next(self._numbers)}"
        scan = replace(scan_of(self._opened(name), body), encodes_bounds=self.encodes_bounds)
        plan = _Plan(table=name, scan=scan, polls=self.polls)
        self._plans[plan_id] = plan
        if plan.polls:
            return 200, {}, {"status": "submitted", "plan-id": plan_id}
        return 200, {}, {"status": "completed", "plan-id": plan_id, **self._completed(plan_id, plan)}

    def _result(self, name: Name, plan_id: str) -> HttpAnswer:
        """Return the answer of `fetchPlanningResult`."""
        with self._lock:
            plan = self._plan_of(name, plan_id)
            if plan is None:
                return _no_plan(plan_id)
            plan.polls -= 1
            if plan.is_cancelled or plan.polls > 0:
                return 200, {}, {"status": "cancelled" if plan.is_cancelled else "submitted"}
        try:
            return 200, {}, {"status": "completed", **self._completed(plan_id, plan)}
        except HarnessError as error:
            return 200, {}, {"status": "failed", **error_answer(500, "InternalServerError", str(error))[2]}

    def _cancel(self, name: Name, plan_id: str) -> HttpAnswer:
        """Return the answer of `cancelPlanning`."""
        plan = self._plan_of(name, plan_id)
        if plan is None:
            return _no_plan(plan_id)
        plan.is_cancelled = True
        return 204, {}, None

    def _tasks(self, name: Name, plan_task: object) -> HttpAnswer:
        """Return the answer of `fetchScanTasks`."""
        plan_id, _, pages = str(plan_task).partition(":")
        plan = self._plan_of(name, plan_id)
        if plan is None or plan.is_cancelled or plan_task not in plan.tasks:
            return error_answer(404, "NoSuchPlanTaskException", f"Plan task does not exist: {plan_task}")
        lent = self._lent_with("tasks")
        first, end = map(int, pages.split("-"))
        return 200, {}, {**self._part(plan_id, plan, first, end), **lent}

    def _plan_of(self, name: Name, plan_id: str) -> _Plan | None:
        plan = self._plans.get(plan_id)
        return None if plan is None or plan.table != name else plan

    def _completed(self, plan_id: str, plan: _Plan) -> dict[str, Any]:
        """Return the files, the plan tasks, and the credentials of a completed plan."""
        if plan.pages is None:
            plan.pages = self._pages(plan.scan)
        lent = self._lent_with("plan")
        return {**self._part(plan_id, plan, 0, len(plan.pages)), **lent}

    def _pages(self, scan: ServerScan) -> list[Page]:
        faults = [parse_fault(fault) for fault in self.faults]
        tasks = scan.tasks()
        for fault in faults:
            before, tasks = tasks, plant(fault, tasks, scan)
            self._note(fault, is_planted=tasks != before)
        size = self.page or max(len(tasks), 1)
        pages = [Page.of_tasks(tasks[first : first + size]) for first in range(0, max(len(tasks), 1), size)]
        for fault in faults:
            before_pages, pages = pages, [plant_in_page(fault, page, number) for number, page in enumerate(pages)]
            self._note(fault, is_planted=pages != before_pages)
        return pages

    def _note(self, fault: PlanFault, *, is_planted: bool) -> None:
        if is_planted:
            self.planted.add(fault)

    def _part(self, plan_id: str, plan: _Plan, first: int, end: int) -> dict[str, Any]:
        """Return the first of some pages of a plan, with up to two plan tasks that share the remaining pages."""
        assert plan.pages is not None
        middle = (first + 1 + end) // 2
        rest = [pages for pages in ((first + 1, middle), (middle, end)) if pages[0] < pages[1]]
        names = [f"{plan_id}:{start}-{stop}" for start, stop in rest]
        plan.tasks.update(names)
        return {**({"plan-tasks": names} if names else {}), **plan.pages[first].document(plan.scan)}

    def _lent_with(self, answer: Literal["table", "plan", "tasks"]) -> dict[str, Any]:
        """Return the credentials if this kind of answer has them, or else an empty object."""
        return self._lent() if answer in self.lend and self.credentials else {}

    def _lent(self) -> dict[str, Any]:
        """Return the credentials in the form of an answer."""
        end = None if self.lifetime_ms is None else str(int(time.time() * 1000) + self.lifetime_ms)
        entries = []
        for prefix, config in self.credentials.items():
            expiry = {} if end is None else {name: end for key in config if (name := _expiry(key)) is not None}
            entries.append({"prefix": prefix, "config": {**config, **expiry}})
        return {"storage-credentials": entries}


def _namespace(text: str) -> Name:
    return tuple(text.split(SEPARATOR)) if text else ()


def _expiry(key: str) -> str | None:
    """Return the property that states when the credential in `key` expires, or None if there is no such property."""
    family = key.partition(".")[0]
    account = key.removeprefix("adls.sas-token")
    names = {"s3": "s3.session-token-expires-at-ms", "gcs": "gcs.oauth2.token-expires-at"}
    return f"adls.sas-token-expires-at-ms{account}" if account != key else names.get(family)


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    return body


def _no_plan(plan_id: str) -> HttpAnswer:
    return error_answer(404, "NoSuchPlanIdException", f"Plan does not exist: {plan_id}")


def _no_namespace(namespace: Name) -> HttpAnswer:
    return error_answer(404, "NoSuchNamespaceException", f"Namespace does not exist: {name_text(namespace)}")


def error_answer(status: int, kind: str, message: str) -> HttpAnswer:
    """Return an error in the form of the specification."""
    return status, {}, {"error": {"message": message, "type": kind, "code": status}}
