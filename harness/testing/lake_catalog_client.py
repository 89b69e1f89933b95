"""A client of an Iceberg REST catalog that needs no package besides harness, for tests with `LakeCatalog`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from harness.metadata.catalogs.catalog import (
    Name,
    TableLocation,
    TableServer,
    missing_table_error,
)
from harness.metadata.catalogs.unity_rest import RefusedError, Server
from harness.metadata.iceberg.server.protocol import Answer, Call, Credential

MODE = "scan-planning-mode"
SEPARATOR = "\x1f"
"""The separator of the parts of a namespace in paths."""
_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


def endpoint_of(call: Call) -> str:
    """Return a call as the configuration of a server lists it."""
    method, path = call.value.split(" ")
    return f"{method} {_TABLE}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestTransport:
    """The connection for the calls about one table, see `harness.metadata.iceberg.server.protocol.Transport`.

    Attributes:
        server: The server.
        calls: The calls that the server offers.
        table: The path of the table on the server.
    """

    server: Server
    calls: frozenset[Call]
    table: str

    @property
    def catalog(self) -> str:
        """The name of the catalog."""
        return self.server.name

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request, and return the answer, also if its status is an error."""
        method, path = call.value.split(" ")
        path = path.replace("{plan-id}", _quoted(plan_id or ""))
        query = {"planId": plan_id} if call is Call.CREDENTIALS and plan_id is not None else {}
        status, content, after = self.server.send(method, f"{self.table}{path}", query, body)
        if 300 <= status < 400:
            self.server.failure("redirects to another address; set `uri` to the new one", "CatalogMoved")
        document = self.server.parse(content) if content else {}
        return Answer(status=status, document=document, retry_after_s=after or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCatalog:
    """An Iceberg REST catalog as a `harness.metadata.catalogs.catalog.Catalog`.

    Attributes:
        server: The server.
    """

    server: Server

    @property
    def name(self) -> str:
        """The name of the catalog."""
        return self.server.name

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the namespaces directly in a namespace."""
        query = {"parent": SEPARATOR.join(parent)} if parent else {}
        return self._names("v1/namespaces", query, "namespaces")

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the tables directly in a namespace. The root has none."""
        if not namespace:
            return ()
        path = f"v1/namespaces/{_quoted(SEPARATOR.join(namespace))}/tables"
        return self._names(path, {}, "identifiers")

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table, and the server that plans its scans."""
        if len(name) < 2:
            raise missing_table_error(self, name)
        config: dict[str, Any] = self.server.ask("v1/config")
        path = f"v1/namespaces/{_quoted(SEPARATOR.join(name[:-1]))}/tables/{_quoted(name[-1])}"
        try:
            answer: dict[str, Any] = self.server.ask(path, {"snapshots": "refs"})
        except RefusedError as refused:
            raise missing_table_error(self, name) from refused
        modes: dict[str, Any] = {**config.get("defaults", {}), **config.get("overrides", {}), **answer["config"]}
        endpoints: Any = config.get("endpoints", ())
        calls = frozenset(call for call in Call if endpoint_of(call) in endpoints)

        def located(credentials: Sequence[Credential] = (), paths: Sequence[str] = ()) -> TableLocation:
            return TableLocation(
                catalog=self.name,
                name=name,
                location=answer["metadata"]["location"],
                metadata_location=answer["metadata-location"],
                format="iceberg",
                server=server,
            )

        server = TableServer(
            transport=RestTransport(server=self.server, calls=calls, table=path),
            mode=modes.get(MODE),
            metadata=lambda: json.dumps(self.server.ask(path)["metadata"]).encode(),
            located=located,
        )
        return located()

    def _names(self, path: str, query: Mapping[str, str], key: str) -> tuple[Name, ...]:
        try:
            answer: dict[str, Any] = self.server.ask(path, query)
        except RefusedError:
            return ()
        items = answer[key]
        names = ((*each["namespace"], each["name"]) if isinstance(each, dict) else tuple(each) for each in items)
        return tuple(sorted(names))


def _quoted(part: str) -> str:
    return quote(part, safe="")
