"""A small Unity Catalog server on this machine, for tests and demos. It answers only the calls that readers need.

    table = DeltaTable.create("lake/orders", {"id": "long"}, features=["catalogManaged"], …)
    with UnityServer(token="secret") as server:
        server.add("main.sales.orders", table.directory, ratified=[table.log.stage(3)])
        harness.open_table("main.sales.orders", catalog=open_unity(server.uri, token="secret"))

It returns whatever it was configured with and checks nothing, so that tests can make it return wrong answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from harness.testing.json_server import HttpAnswer, JsonServer

UnityAnswer: TypeAlias = tuple[int, Any]
"""The status, and the body, which is sent as JSON unless it is bytes."""

ROOT = "/api/2.1/unity-catalog/"
_MANAGED = {"delta.feature.catalogManaged": "supported", "delta.minReaderVersion": "3"}


@dataclass(slots=True, kw_only=True)
class ServedTable:
    """A table as the server describes it.

    Attributes:
        location: The table's URI.
        kind: `MANAGED`, `EXTERNAL`, or `VIEW`, for example.
        format: The data source format.
        latest: The latest version.
        ratified: The names of staged commits.
        properties: The table's properties.
        sql: The definition of a view.
    """

    location: str
    kind: str = "MANAGED"
    format: str = "DELTA"
    latest: int = 0
    ratified: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    sql: str | None = None

    def commits(self, separator: str) -> list[dict[str, Any]]:
        """Return the ratified commits as JSON objects, newest first. `separator` joins the words of their keys."""
        keys = ("file_name", "file_size", "file_modification_timestamp")
        name, size, modified = (key.replace("_", separator) for key in keys)
        result = [
            {"version": int(text[:20]), "timestamp": 0, name: text, size: 1, modified: 0} for text in self.ratified
        ]
        return sorted(result, key=lambda commit: -commit["version"])


class UnityServer(JsonServer):
    """A Unity Catalog server on a free port of the loopback interface, which runs during a `with` block.

    Attributes:
        token: The token that requests must carry, or None.
        older: If True, the server does not support specification 1.0.
        oldest: If True, the server has no call for commits at all.
        page: The number of items on a page of a list.
        tables: The tables by name.
        credentials: The credentials that are vended, in the form of specification 1.0, and their expiry time.
        failures: Answers to return before all others, in order.
    """

    def __init__(self, *, token: str | None = None, older: bool = False, oldest: bool = False, page: int = 100) -> None:
        super().__init__()
        self.token, self.older, self.oldest, self.page = token, older or oldest, oldest, page
        self.tables: dict[tuple[str, ...], ServedTable] = {}
        self.credentials: tuple[dict[str, str], int] = ({}, 0)
        self.failures: list[UnityAnswer] = []

    def add(self, name: str, location: str | Path, *, managed: bool = True, **more: Any) -> ServedTable:
        """Add a table under a name with three parts.

        Args:
            name: The name.
            location: The table's path or URI.
            managed: If True, the catalog manages the table's commits.
            more: Further fields of `ServedTable`.
        """
        uri = location if isinstance(location, str) else location.absolute().as_uri()
        entry = ServedTable(location=uri, properties=_MANAGED if managed else {}, **more)
        self.tables[tuple(name.split("."))] = entry
        return entry

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        """Return the answer to a request. A redirection leads to another path of this server."""
        call = unquote(path.removeprefix(ROOT))
        self.requests.append(f"{method} {call}")
        status, content = self._answer(method, call, query, body, headers.get("authorization"))
        return status, {"Location": f"{self.uri}/elsewhere"} if 300 <= status < 400 else {}, content

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: Any, token: str | None) -> UnityAnswer:
        if self.failures:
            return self.failures.pop(0)
        if self.token is not None and token != f"Bearer {self.token}":
            return _error(401, "NotAuthorizedException", f"invalid token {(token or '')[7:]}")
        match (method, *path.split("/")):
            case "GET", "delta", "v1", *rest if not self.older:
                return self._answer_delta_api(rest)
            case "GET", "catalogs" | "schemas" | "tables" as kind:
                return self._answer_list(kind, query)
            case "GET", "tables", name:
                return self._answer_table(name)
            case "POST", "temporary-table-credentials":
                config, expires = self.credentials
                aws = {key.removeprefix("s3.").replace("-", "_"): value for key, value in config.items()}
                return 200, {"aws_temp_credentials": aws, "expiration_time": expires}
            case "GET", "delta", "preview", "commits" if not self.oldest:
                entry = self.tables[tuple(body["table_id"].split("."))]
                commits = [each for each in entry.commits("_")[::-1] if each["version"] >= body["start_version"]]
                return 200, {"commits": commits[: self.page], "latest_table_version": entry.latest}
            case _:
                return _error(404, "ENDPOINT_NOT_FOUND", f"no call {method} {path}")

    def _answer_delta_api(self, path: list[str]) -> UnityAnswer:
        match path:
            case ["config"]:
                load = "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
                return 200, {"endpoints": [load, f"{load}/credentials"], "protocol-version": "1.0"}
            case ["catalogs", catalog, "schemas", schema, "tables", table, *rest]:
                entry = self.tables.get((catalog, schema, table))
                if entry is None:
                    return _error(404, "NoSuchTableException", "no such table")
                if rest == ["credentials"]:
                    config, expires = self.credentials
                    lent = {"prefix": entry.location, "operation": "READ", "config": config}
                    return 200, {"storage-credentials": [{**lent, "expiration-time-ms": expires}]}
                if entry.format != "DELTA":
                    return _error(400, "UnsupportedTableFormatException", f"format {entry.format}")
                metadata = {"table-type": entry.kind, "location": entry.location, "properties": dict(entry.properties)}
                return 200, {"metadata": metadata, "commits": entry.commits("-"), "latest-table-version": entry.latest}
            case _:
                return _error(404, "NotFoundException", "no such call")

    def _answer_list(self, kind: str, query: Mapping[str, str]) -> UnityAnswer:
        depth = ("catalogs", "schemas", "tables").index(kind)
        inside = tuple(query[key] for key in ("catalog_name", "schema_name")[:depth])
        result = sorted({name[depth] for name in self.tables if name[:depth] == inside})
        if not result:
            return _error(404, "NOT_FOUND", f"{'.'.join(inside)} does not exist")
        first = int(query.get("page_token", "0"))
        after = first + self.page
        token = str(after) if after < len(result) else None
        return 200, {kind: [{"name": name} for name in result[first:after]], "next_page_token": token}

    def _answer_table(self, name: str) -> UnityAnswer:
        entry = self.tables.get(tuple(name.split(".")))
        if entry is None:
            return _error(404, "TABLE_DOES_NOT_EXIST", f"{name} does not exist")
        return 200, {
            "table_type": entry.kind,
            "data_source_format": entry.format,
            "storage_location": entry.location,
            "table_id": name,
            "properties": dict(entry.properties),
            "view_definition": entry.sql,
        }


def _error(status: int, kind: str, words: str) -> UnityAnswer:
    return status, {"error": {"type": kind, "message": words, "code": status}}
