"""An Iceberg REST catalog on this machine that plans scans, for tests and demos.

    orders = IcebergTable.create("lake/orders", {"id": "long", "region": "string"})
    orders.append(orders.write_data([{"id": 1, "region": "eu"}]))
    with LakeCatalog() as server:
        server.add("sales.orders", orders)
        my_engine.read(server.uri, "sales.orders")
        assert "POST /plan" in server.requests

The tables are only read. Any client of an Iceberg REST catalog can use the server.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from harness.errors import HarnessError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, parse_name
from harness.metadata.catalogs.unity_rest import Server
from harness.metadata.iceberg.metadata import decompress
from harness.metadata.iceberg.server.protocol import Call
from harness.metadata.iceberg.table import IcebergTable as OpenedTable
from harness.table import open_table
from harness.testing.json_server import HttpAnswer, JsonServer
from harness.testing.lake import LakeTable
from harness.testing.lake_catalog_client import MODE, SEPARATOR, RestCatalog, endpoint_of
from harness.testing.lake_catalog_plans import BadRequest, Page, ServerScan, scan_of
from harness.writing.iceberg.builder import IcebergTable

ServedTable: TypeAlias = IcebergTable | LakeTable | str | Path
"""A table that a `LakeCatalog` can have: a built one, or the location of a directory or a metadata file."""

_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    f"GET {_TABLE}",
    f"HEAD {_TABLE}",
)


@dataclass(slots=True)
class _Plan:
    """A plan that the server holds.

    Attributes:
        scan: The request.
        pages: The parts of the plan.
        polls: The number of times that the server still answers that it has not completed the plan.
        is_cancelled: True once a client cancelled it.
    """

    scan: ServerScan
    pages: list[Page]
    polls: int = 0
    is_cancelled: bool = False


class LakeCatalog(JsonServer):
    """An Iceberg REST catalog on a free port of the loopback interface, which runs during a `with` block.

    Attributes:
        token: The token that requests must carry, or None.
        mode: The `scan-planning-mode` of all tables: `server`, `client`, or None for none.
        calls: The planning calls that the server offers.
        plan_requests: The bodies of the requests for plans.
    """

    def __init__(self, *, token: str | None = None, mode: str | None = "server") -> None:
        super().__init__()
        self.token, self.mode = token, mode
        self.calls = frozenset(Call)
        self.plan_requests: list[dict[str, Any]] = []
        self._tables: dict[Name, tuple[ServedTable, Mapping[str, Any]]] = {}
        self._plans: dict[str, _Plan] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()

    def add(self, name: str, table: ServedTable, **options: Any) -> None:
        """Add a table, or replace the table of that name. Each request is answered from its current state.

        Args:
            name: The name, with a namespace, for example `sales.orders`.
            table: The table: an `IcebergTable`, a `LakeTable`, or the location of a directory or a metadata file.
            options: Options of `harness.open_table` with which the server reads the table.
        """
        self._tables[parse_name(name)] = (table, options)

    def catalog(self, name: str = "lake") -> Catalog:
        """Return this server as a catalog for `harness.open_table`. It needs no PyIceberg.

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
                modes = {} if self.mode is None else {MODE: self.mode}
                calls = [endpoint_of(call) for call in Call if call in self.calls]
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
            case "POST", ["plan"] if Call.PLAN in self.calls:
                return self._plan(name, body)
            case _:
                return error_answer(406, "UnsupportedOperationException", f"there is no call {method} {rest}")

    def opened(self, name: Name) -> OpenedTable:
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
        assert isinstance(source, OpenedTable)
        return source

    def _loaded(self, name: Name, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of `loadTable`."""
        source = self.opened(name)
        path = source.metadata_path
        metadata = json.loads(decompress(source.storage.read(path), file=path, limits=source.storage.limits))
        if query.get("snapshots") == "refs":
            ids = {ref.snapshot_id for ref in source.metadata.refs.values()}
            metadata["snapshots"] = [each for each in metadata.get("snapshots", ()) if each["snapshot-id"] in ids]
        config = {} if self.mode is None else {MODE: self.mode}
        return {"metadata-location": path, "metadata": metadata, "config": config}

    def _plan(self, name: Name, body: Any) -> HttpAnswer:
        """Return the answer of `planTableScan`."""
        if not isinstance(body, dict):
            raise BadRequest("the body is not a JSON object")
        with self._lock:
            self.plan_requests.append(body)
            plan_id = f"plan-{next(self._numbers)}"
        scan = scan_of(self.opened(name), body)
        plan = _Plan(scan, [Page.of_tasks(scan.tasks())])
        self._plans[plan_id] = plan
        return 200, {}, {"status": "completed", "plan-id": plan_id, **plan.pages[0].document(scan)}


def _namespace(text: str) -> Name:
    return tuple(text.split(SEPARATOR)) if text else ()


def _no_namespace(namespace: Name) -> HttpAnswer:
    return error_answer(404, "NoSuchNamespaceException", f"Namespace does not exist: {name_text(namespace)}")


def error_answer(status: int, kind: str, message: str) -> HttpAnswer:
    """Return an error in the form of the specification."""
    return status, {}, {"error": {"message": message, "type": kind, "code": status}}
