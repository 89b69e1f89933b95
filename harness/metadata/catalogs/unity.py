"""Unity Catalog as a catalog of harness: names of 3 parts, with the location and the commits of each table.

    unity = open_unity("https://host:8080", token=token)
    harness.open_table("main.sales.orders", catalog=unity)

Servers of specification 1.0 are queried through `/delta/v1`, older servers through their original calls. Tables in
local files need no credentials. Other tables are read with temporary credentials, which are renewed before they expire.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

from harness.errors import IsAViewError, UnsupportedError, warn
from harness.metadata.catalogs.catalog import (
    MOST_PAGES,
    Catalog,
    Name,
    TableLocation,
    missing_table_error,
    name_text,
    read_pages,
)
from harness.metadata.catalogs.unity_rest import (
    InvalidAnswerError,
    RefusedError,
    Server,
    TableEntry,
    parse_commits,
    parse_listed_table,
    parse_loaded_table,
)
from harness.metadata.model.arguments import validate_call
from harness.metadata.plan.read_options import CatalogAnswer
from harness.storage.paths import is_local, local_path

_CONFIG = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
}
"""The keys of `storage-credentials`, and the corresponding options of file systems."""

_OLDER_S3 = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
}
_OLDER = {
    "aws_temp_credentials": _OLDER_S3,
    "r2_temp_credentials": _OLDER_S3,
    "azure_user_delegation_sas": {"sas_token": "azure.sas-token"},
    "gcp_oauth_token": {"oauth_token": "gcs.oauth-token"},
}
"""The objects in the answer of `temporary-table-credentials`, and the corresponding keys of `storage-credentials`."""


def parse_credentials(answer: Mapping[str, object], location: str) -> tuple[dict[str, str], int | None] | None:
    """Return storage options for `location` from an answer with credentials, and their expiration time.

    The expiration time is in milliseconds since 1970-01-01 UTC, or None if unknown.

    Args:
        answer: The answer of either credentials call, which have different forms.
        location: The location of the table.

    Returns:
        The options and the expiration time, or None if the answer has no credentials for the location.
    """
    config: dict[str, object] = {}
    expires = answer.get("expiration_time")
    if "storage-credentials" in answer:
        credentials, longest = answer["storage-credentials"], -1
        for each in credentials if isinstance(credentials, list) else ():
            prefix, entry_config = (each.get("prefix"), each.get("config")) if isinstance(each, dict) else (None, None)
            if not isinstance(prefix, str) or not isinstance(entry_config, dict):
                continue
            if len(prefix) > longest and f"{location.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/"):
                longest, config, expires = len(prefix), entry_config, each.get("expiration-time-ms")
    else:
        for name, fields in _OLDER.items():
            if isinstance(inner := answer.get(name), dict):
                config |= {key: inner.get(field) for field, key in fields.items()}
    options = {_CONFIG[key]: value for key, value in config.items() if key in _CONFIG and isinstance(value, str)}
    if not options:
        return None
    place = urlsplit(location)
    if "sas_token" in options and place.hostname:
        options["account_name"] = place.hostname.partition(".")[0]
    return options, expires if type(expires) is int and expires > 0 else None


TOKEN_VARIABLE = "UNITY_CATALOG_TOKEN"
_ROOT = "api/2.1/unity-catalog"
_NEW = f"{_ROOT}/delta/v1"
_LOAD = "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
_PARTS = ("catalog", "schema", "table")
_NO_CALL = (404, 501)
"""The statuses of a server that does not support a call."""


@validate_call
def open_unity(
    uri: str,
    *,
    name: str = "unity",
    token: str | None = None,
    prefix: str | None = None,
    storage_options: Mapping[str, object] | None = None,
    timeout: float = 60.0,
) -> Catalog:
    """Return a Unity Catalog server as a catalog, whose tables open by name. No request is sent yet.

    Args:
        uri: The server's address, for example `https://host:8080`, or the address of a Databricks workspace.
        name: The name of the catalog in harness.
        token: The bearer token. None: the value of the environment variable UNITY_CATALOG_TOKEN, if it is set.
        prefix: The server's catalog that contains all names, which then have 2 parts. None: names have 3 parts.
        storage_options: Storage options as for `open_table`, for example an endpoint. They are added to the catalog's
            options.
        timeout: The seconds to wait for the server's next byte.

    Raises:
        RequestError: The address or the token is invalid.
    """
    token = os.environ.get(TOKEN_VARIABLE) if token is None else token
    uri = uri.rstrip("/").removesuffix(f"/{_ROOT}")
    server = Server(uri=uri, name=name, token=token or None, timeout=timeout)
    inside = () if prefix is None else (prefix,)
    if server.is_open():
        warn(f"Catalog {name}: the token is sent to {uri} without encryption; set an https:// uri")
    return UnityCatalog(name=name, server=server, prefix=inside, storage_options=dict(storage_options or {}))


@dataclass(slots=True, kw_only=True)
class UnityCatalog:
    """A Unity Catalog server as a `harness.metadata.catalogs.catalog.Catalog`.

    Attributes:
        name: The name of the catalog in harness.
        server: The server.
        prefix: The first parts of all names.
        storage_options: The user's storage options.
        versions: For each catalog of the server, whether it supports specification 1.0. Answers are cached here.
    """

    name: str
    server: Server
    prefix: Name = ()
    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    versions: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the catalogs of the server, or the schemas of a catalog."""
        match (*self.prefix, *parent):
            case ():
                names = self._pages("catalogs", {})
            case (catalog,):
                names = self._pages("schemas", {"catalog_name": catalog})
            case _:
                return ()
        return tuple((*parent, part) for part in names)

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the tables of a schema, including views."""
        whole = (*self.prefix, *namespace)
        if len(whole) != 2:
            return ()
        names = self._pages("tables", {"catalog_name": whole[0], "schema_name": whole[1]})
        return tuple((*namespace, part) for part in names)

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table, its commits if the catalog manages it, and the credentials for its store."""
        whole = (*self.prefix, *name)
        if len(whole) != len(_PARTS):
            raise missing_table_error(self, name)
        with self._translate_errors(name):
            entry, is_new = self._table(whole, name)
            answer = entry.commits if is_new or not entry.managed else self._older_commits(entry, name)
        options: dict[str, object] = {}
        if answer is not None:
            options = {
                "max_version": answer.max_version,
                "ratified": tuple((c.version, c.name) for c in answer.ratified),
            }
        located = TableLocation(
            catalog=self.name,
            name=name,
            location=self._readable_location(entry, name),
            format="delta",
            storage_options=self.storage_options,
            options=options,
        )
        return (
            located if is_local(local_path(located.location)) else self._with_credentials(located, entry, is_new=is_new)
        )

    def _table(self, whole: Name, name: Name) -> tuple[TableEntry, bool]:
        """Return the table, and whether the newer calls returned it."""
        if self._is_new(whole[0]):
            try:
                return parse_loaded_table(self.server.ask(_path(whole))), True
            except RefusedError as refused:
                # The older calls may know views and tables in other formats.
                if refused.status != 404 and refused.kind != "UnsupportedTableFormatException":
                    raise
        try:
            # Without this parameter, Databricks leaves out properties like the table's features.
            query = {"include_delta_metadata": "true"}
            return parse_listed_table(self.server.ask(f"{_ROOT}/tables/{_quoted('.'.join(whole))}", query)), False
        except RefusedError as refused:
            if refused.status == 404:
                raise missing_table_error(self, name) from refused
            raise

    def _is_new(self, catalog: str) -> bool:
        """Return whether the server supports specification 1.0 (frontier F4.5)."""
        if catalog not in self.versions:
            try:
                answer = self.server.ask(f"{_NEW}/config", {"catalog": catalog, "protocol-versions": "1.0"})
            except RefusedError as refused:
                if refused.kind == "NoSuchCatalogException":
                    return True  # the request for the table will report the missing catalog
                if refused.status not in _NO_CALL:
                    raise
                answer = {}
            endpoints, version = answer.get("endpoints"), str(answer.get("protocol-version", ""))
            self.versions[catalog] = isinstance(endpoints, list) and _LOAD in endpoints and version.startswith("1.")
        return self.versions[catalog]

    def _older_commits(self, entry: TableEntry, name: Name) -> CatalogAnswer | None:
        """Return the commits from the pages of an older server, or None if it is too old to provide them.

        Spec: rule frontier F4.6.
        """
        commits: list[object] = []
        start = 0
        for _ in range(MOST_PAGES):
            body = {"table_id": entry.id, "table_uri": entry.location, "start_version": start}
            try:
                answer = self.server.ask(f"{_ROOT}/delta/preview/commits", body=body)
            except RefusedError as refused:
                if refused.status not in _NO_CALL:
                    raise
                warn(
                    f"Catalog {self.name} is too old to return the commits of {name_text((self.name, *name))}, which "
                    "it manages; use a newer server (frontier F4.6)"
                )
                return None
            latest, page = answer.get("latest_table_version"), answer.get("commits") or []
            if type(latest) is not int or not isinstance(page, list):
                raise InvalidAnswerError(f"latest_table_version is {latest!r:.80}, expected int")
            commits += page
            ratified = parse_commits(latest, page, "file_name").ratified
            if not ratified or ratified[-1].version >= latest:
                return parse_commits(latest, commits, "file_name")
            if ratified[-1].version < start:
                raise InvalidAnswerError(f"its commits from version {start} on end at {ratified[-1].version}")
            start = ratified[-1].version + 1
        raise InvalidAnswerError("the list of commits does not end")

    def _readable_location(self, entry: TableEntry, name: Name) -> str:
        """Return the location of a table, or raise if harness cannot read the table."""
        full_name = name_text((self.name, *name))
        if "VIEW" in entry.kind and entry.format != "DELTA":
            hint = "" if entry.sql is None else f"; its SQL is {entry.sql}"
            raise IsAViewError(
                f"Cannot read {full_name}: it is a view ({entry.kind}); query its tables instead{hint}", table=full_name
            )
        if entry.format == "ICEBERG":
            cause = "IcebergInUnity"
            reason = (
                " by Unity Catalog's own calls: it is an Iceberg table, which the server provides through its Iceberg "
                "REST interface; configure a PyIceberg catalog of type rest with the uri "
                f"{self.server.uri}/{_ROOT}/iceberg"
            )
        elif entry.format != "DELTA":
            cause, kind = "UnsupportedFormat", f"format {entry.format or 'none'} ({entry.kind or 'unknown'})"
            reason = f": it is a table of {kind} in catalog {self.name}, but harness only reads Delta tables there"
        elif entry.location is None:
            cause, place = "NoLocation", f"its location ({entry.kind})"
            reason = f": catalog {self.name} does not provide {place}, so only the server can read it"
        else:
            return entry.location
        raise UnsupportedError(f"Cannot read {full_name}{reason}", cause=cause, table=full_name)

    def _with_credentials(self, located: TableLocation, entry: TableEntry, *, is_new: bool) -> TableLocation:
        """Return the same location with temporary credentials for its store, which can be renewed."""

        def ask() -> TableLocation:
            with self._translate_errors(located.name):
                if is_new:
                    path = f"{_path((*self.prefix, *located.name))}/credentials"
                    answer = self.server.ask(path, {"operation": "READ"})
                else:
                    body = {"table_id": entry.id, "operation": "READ"}
                    answer = self.server.ask(f"{_ROOT}/temporary-table-credentials", body=body, method="POST")
            credentials = parse_credentials(answer, located.location)
            if credentials is None:
                if self.storage_options:
                    return located  # the caller's own options may give access to the store
                self.server.failure(
                    f"provided no credentials for {located.location} of {located.qualified}; pass storage_options, or "
                    "ask its administrator to configure the store",
                    "NoCredentials",
                )
            options, expires_ms = credentials
            merged = {**options, **self.storage_options}
            return replace(located, storage_options=merged, expires_ms=expires_ms, renew=ask)

        return ask()

    def _pages(self, key: str, query: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names on all pages of a list, sorted, or none if the parent does not exist."""

        def ask(token: str | None) -> tuple[list[str], str | None]:
            answer = self.server.ask(f"{_ROOT}/{key}", {**query, **({"page_token": token} if token else {})})
            page, following = answer.get(key) or [], answer.get("next_page_token") or None
            if not isinstance(page, list) or not isinstance(following, str | None):
                self.server.failure(f"returned {key} that are not a list", "CatalogAnswer")
            names = (each.get("name") for each in page if isinstance(each, dict))
            return [name for name in names if isinstance(name, str)], following

        with self._translate_errors():
            try:
                return tuple(sorted(read_pages(self.name, key, ask)))
            except RefusedError as refused:
                if refused.status != 404:
                    raise
                return ()

    @contextmanager
    def _translate_errors(self, name: Name = ()) -> Iterator[None]:
        """Convert refused requests and invalid answers to failures of the server."""
        try:
            yield
        except RefusedError as refused:
            what = refused.message or refused.kind or "no message"
            problem = f"rejected the request (HTTP {refused.status}): {what}"
            self.server.failure(problem, "CatalogFailed", refused)
        except InvalidAnswerError as unclear:
            problem = f"returned an invalid answer about {name_text(name)}: {unclear}"
            self.server.failure(problem, "CatalogAnswer", unclear)


def _path(whole: Name) -> str:
    catalog, schema, table = map(_quoted, whole)
    return f"{_NEW}/catalogs/{catalog}/schemas/{schema}/tables/{table}"


def _quoted(part: str) -> str:
    return quote(part, safe="")
