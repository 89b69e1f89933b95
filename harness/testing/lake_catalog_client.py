"""A client of an Iceberg REST catalog that only needs harness, for tests with `LakeCatalog`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from harness.metadata.catalogs.catalog import (
    Name,
    TableLocation,
    TableServer,
    missing_table_error,
)
from harness.metadata.catalogs.pyiceberg_answers import Answer
from harness.metadata.catalogs.server_properties import table_location
from harness.metadata.catalogs.unity_rest import RefusedError, Server
from harness.metadata.iceberg.server import protocol
from harness.metadata.iceberg.server.protocol import PLANNING_MODE, Call, Credential, calls_of
from harness.metadata.iceberg.server.refusals import without_secrets_in_error

T = TypeVar("T")
SEPARATOR = "\x1f"
"""The separator of the parts of a namespace in paths."""


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

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> protocol.Answer:
        """Send a request, and return the answer, even if its status is an error."""
        method, path, query = call.request(plan_id)
        status, content, after = self.server.send(method, f"{self.table}{path}", query, body)
        if 300 <= status < 400:
            self.server.failure("redirects to another address; set `uri` to the new one", "CatalogMoved")
        parsed = self.server.parse(content) if content else {}
        document = without_secrets_in_error(parsed, () if self.server.token is None else (self.server.token,))
        return protocol.Answer(status=status, document=document, retry_after_s=after or None, size=len(content))


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
        """Return the tables directly in a namespace. The root has no tables."""
        if not namespace:
            return ()
        path = f"v1/namespaces/{_quoted(SEPARATOR.join(namespace))}/tables"
        return self._names(path, {}, "identifiers")

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table, and the server that plans its scans."""
        if len(name) < 2:
            raise missing_table_error(self, name)
        config = self._ask("v1/config", {}) or {}
        path = f"v1/namespaces/{_quoted(SEPARATOR.join(name[:-1]))}/tables/{_quoted(name[-1])}"
        answer = self._ask(path, {"snapshots": "refs"})
        if answer is None:
            raise missing_table_error(self, name)
        defaults, overrides = (self._part(config, key, dict) for key in ("defaults", "overrides"))
        endpoints, of_table = self._part(config, "endpoints", list), self._part(answer, "config", dict)
        properties = {**defaults, **overrides}
        credentials = self._part(answer, "storage-credentials", list) if "storage-credentials" in answer else ()
        vended = {self._part(each, "prefix", str): self._part(each, "config", dict) for each in credentials}
        recorded_location = self._part(self._part(answer, "metadata", dict), "location", str)
        parts = Answer(
            format="iceberg",
            metadata_location=self._part(answer, "metadata-location", str),
            properties=of_table,
            places=(recorded_location, *vended),
            vended=vended,
        )

        def located(lent: Sequence[Credential], paths: Sequence[str]) -> TableLocation:
            location = table_location(
                self, name, parts, properties=properties, user_properties={}, lent=lent, paths=paths
            )
            return replace(location, server=server)

        server = TableServer(
            transport=RestTransport(server=self.server, calls=calls_of(endpoints), table=path),
            mode={**properties, **of_table}.get(PLANNING_MODE),
            metadata=lambda: json.dumps(self._part(self._ask(path, {}) or {}, "metadata", dict)).encode(),
            located=located,
        )
        return located((), ())

    def _names(self, path: str, query: Mapping[str, str], key: str) -> tuple[Name, ...]:
        answer = self._ask(path, query)
        items = [] if answer is None else self._part(answer, key, list)
        names = ((*each["namespace"], each["name"]) if isinstance(each, dict) else tuple(each) for each in items)
        return tuple(sorted(names))

    def _ask(self, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the answer to a request, or None if the server answers that the object does not exist."""
        try:
            return self.server.ask(path, query)
        except RefusedError as refused:
            if refused.status == 404:
                return None
            self.server.failure(f"rejected the request: {refused.message or refused.kind}", "CatalogFailed", refused)

    def _part(self, answer: Mapping[str, Any], key: str, kind: type[T]) -> T:
        value = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(value, kind):
            # The message omits the value, because it may contain credentials.
            expected = f"expected {kind.__name__}, got {type(value).__name__}"
            self.server.failure(f"returned an invalid answer: {key}: {expected}", "CatalogAnswer")
        return value


def _quoted(part: str) -> str:
    return quote(part, safe="")
