"""Catalogs of PyIceberg as catalogs of harness. PyIceberg finds tables, and harness reads them."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.errors import (
    HarnessError,
    RequestError,
    StorageError,
    TableNotFoundError,
    first_words,
    raise_from,
)
from harness.metadata.catalogs.catalog import Name, TableLocation, missing_table_error, name_text
from harness.metadata.catalogs.pyiceberg_answers import (
    Answer,
    list_namespaces,
    list_tables,
    load_answer,
    record_format,
)
from harness.metadata.catalogs.server_properties import table_location
from harness.storage.paths import secret_texts

if TYPE_CHECKING:
    from harness.metadata.iceberg.server.protocol import Credential

# Names of classes in PyIceberg, requests, botocore, SQLAlchemy, and Thrift. Comparing names avoids importing these
# packages.
_DENIED = {"UnauthorizedError", "ForbiddenError", "AuthorizationExpiredError", "OAuthError"}
_DENIED |= {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "SSOError"}
_DOWN = {"ConnectionError", "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "Timeout"}
_DOWN |= {"OperationalError", "TTransportException", "ServiceUnavailableError", "ConnectionRefusedError", "SSLError"}
_MISSING = {"NotInstalledError", "ImportError"}
_WRONG = {"ValueError", "MissingSchema", "InvalidSchema", "InvalidURL", "ArgumentError", "NoRegionError"}
_WRONG |= {"BadRequestError", "ProfileNotFound", "NoSuchModuleError"}
# Error codes of AWS services that refuse a request. The AWS client uses the same class for all of them.
_CODES = re.compile(r"\((?:Expired|Invalid|Unrecognized|AccessDenied|AuthFailure|Signature|MissingAuth)\w*\)")
_SECRET = re.compile(r"(?<=://)[^\s/@]*@|(?<=[?&])[^\s'\"<>]*")


_LOG = logging.getLogger("harness.catalogs")


@contextmanager
def translate_errors(catalog: str, uri: str | None, what: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Convert the errors of a request to a catalog, and log how long the request took.

    Each message names the setting to change.

    Args:
        catalog: The name of the catalog.
        uri: The address of the catalog, if known.
        what: The request, for the log.
        secrets: Texts to remove from errors.

    Raises:
        RequestError: The configuration is wrong, or a package is missing.
        StorageError: The request failed for another reason.
    """
    start = time.monotonic()
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:  # the clients' error classes have no common base
        secret_list = tuple(secrets)
        raise_from(_translate_error(error, catalog, uri, secret_list), error, secret_list)
    finally:
        _LOG.debug("%s: %s, %.0f ms", catalog, what, (time.monotonic() - start) * 1000)


def setting_variable(catalog: str, name: str) -> str:
    """Return the environment variable that sets a property of a catalog."""
    words = name.upper().replace("-", "_").replace(".", "__")
    return f"PYICEBERG_CATALOG__{catalog.upper().replace('-', '_')}__{words}"


def _translate_error(error: Exception, catalog: str, uri: str | None, secrets: Iterable[str]) -> HarnessError:
    names, text = {kind.__name__ for kind in type(error).__mro__}, _error_text(error, secrets)
    kind: type[HarnessError] = StorageError
    if names & _DENIED or _CODES.search(str(error)):
        set_ = (
            f"{setting_variable(catalog, 'credential')} or {setting_variable(catalog, 'token')}, or log in again (AWS)"
        )
        reason = (
            f"Cannot query catalog {catalog}: it refuses the credentials, or they have expired ({text}); set {set_}"
        )
        cause = "CatalogDenied"
    elif names & _MISSING:
        kind, cause = RequestError, "CatalogClientMissing"
        reason = f"Cannot query catalog {catalog}: a package is missing ({text})"
    elif names & _DOWN:
        at = "" if uri is None else f" at {_SECRET.sub('', uri)}"
        reason = (
            f"Cannot reach catalog {catalog}{at} ({text}); check that it runs, and {setting_variable(catalog, 'uri')}"
        )
        cause = "CatalogDown"
    elif names & _WRONG:
        kind, cause = RequestError, "CatalogMisconfigured"
        see = f".pyiceberg.yaml and {setting_variable(catalog, '…')}"
        reason = f"Cannot query catalog {catalog}: its configuration is wrong ({text}); see {see}"
    else:
        reason, cause = f"Catalog {catalog} failed ({type(error).__name__}: {text})", "CatalogFailed"
    return kind(reason, cause=cause)


def _error_text(error: Exception, secrets: Iterable[str]) -> str:
    """Return the first words of an error on one line, without secrets. For failed connections, return the reason."""
    first: BaseException = error
    while (inner := first.__cause__ or first.__context__) is not None:
        first = inner
    if not isinstance(first, OSError) and "HTTPException" in {kind.__name__ for kind in type(first).__mro__}:
        return type(first).__name__  # its text is a part of the answer, which may contain credentials
    why = first.strerror if isinstance(first, OSError) else None
    text = " ".join((why or str(error)).split()) or type(error).__name__
    return first_words(_SECRET.sub("", text), secrets)


_SHOWN = 3
_ABSENT = {"NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError", "NoSuchIcebergTableError"}


@dataclass(frozen=True, slots=True)
class PyIcebergCatalog:
    """A catalog that finds tables through a `pyiceberg.catalog.Catalog`, including Delta tables in Glue and Hive.

    Attributes:
        name: The name of the catalog.
        client: The PyIceberg catalog.
        user_properties: The properties that the user configured. All other properties come from the server.
    """

    name: str
    client: Any = field(repr=False)
    user_properties: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_client(cls, client: Any) -> PyIcebergCatalog:
        """Return the catalog for a client that the user made.

        Only REST clients mix the server's properties with the user's properties.
        """
        return cls(client.name, client, {} if _is_rest(client) else client.properties)

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the namespaces directly in `parent`, or none if it does not exist."""
        what, depth = f"namespaces in {name_text(parent) or 'the root'}", len(parent)
        names = self._list_names(what, lambda: list_namespaces(self.client, parent))
        return tuple(sorted({each[: depth + 1] for each in names if len(each) > depth and each[:depth] == parent}))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the tables directly in a namespace, or none if it does not exist. The root has no tables."""

        def ask() -> set[Name]:
            return list_tables(self.client, namespace) | self._delta_tables(namespace)

        return tuple(sorted(self._list_names(f"tables of {name_text(namespace)}", ask))) if namespace else ()

    def _list_names(self, what: str, ask: Callable[[], set[Name]]) -> set[Name]:
        with translate_errors(self.name, self.uri, what, self.secrets):
            try:
                return ask()
            except Exception as error:
                if type(error).__name__ not in _ABSENT:
                    raise
                return set()

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table, and the credentials that the catalog provides for it."""
        if len(name) < 2:
            inner = ", ".join(name_text((self.name, *each)) for each in self.namespaces()[:_SHOWN]) or "none"
            raise TableNotFoundError(
                f"Cannot find a table: {name_text((self.name, *name))} has no namespace; the namespaces are {inner}",
                cause="NoSuchTable",
            )
        try:
            with translate_errors(self.name, self.uri, f"where {name_text(name)} is", self.secrets):
                answer = load_answer(self.client, name)
        except HarnessError as error:
            if error.__cause__ is not None and type(error.__cause__).__name__ in _ABSENT:
                raise missing_table_error(self, name) from error.__cause__
            raise
        located = self.located(name, answer)
        if not _is_rest(self.client):
            return located
        from harness.metadata.catalogs.pyiceberg_planning import table_server

        return replace(located, server=table_server(self, name, answer))

    def located(
        self, name: Name, answer: Answer, lent: Sequence[Credential] = (), paths: Iterable[str] = ()
    ) -> TableLocation:
        """Return the location of a table from an answer about it. The arguments are those of `table_location`."""
        return table_location(
            self,
            name,
            answer,
            properties=self.client.properties,
            user_properties=self.user_properties,
            lent=lent,
            paths=paths,
        )

    @property
    def uri(self) -> str | None:
        """The address of the catalog, or None if it has none."""
        uri = self.client.properties.get("uri")
        return uri if isinstance(uri, str) else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credentials of the catalog, and the token that it issued for them."""
        manager = getattr(getattr(getattr(self.client, "_session", None), "auth", None), "auth_manager", None)
        token = getattr(manager, "_token", None)
        return secret_texts({**self.client.properties, "token of the session": token})

    def _delta_tables(self, namespace: Name) -> set[Name]:
        """Return the tables that PyIceberg leaves out because they are not Iceberg tables."""
        kinds = {kind.__name__ for kind in type(self.client).__mro__}
        if len(namespace) != 1:
            return set()
        if "GlueCatalog" in kinds:
            pages = self.client.glue.get_paginator("get_tables").paginate(DatabaseName=namespace[0])
            records = [(each["Name"], each.get("Parameters") or {}) for page in pages for each in page["TableList"]]
        elif "HiveCatalog" in kinds:
            with self.client._client as client:
                names = client.get_all_tables(db_name=namespace[0])
                tables = client.get_table_objects_by_name(dbname=namespace[0], tbl_names=names)
            records = [(each.tableName, each.parameters or {}) for each in tables]
        else:
            return set()
        return {(*namespace, name) for name, parameters in records if record_format(parameters) == "delta"}


def _is_rest(client: object) -> bool:
    return "RestCatalog" in {kind.__name__ for kind in type(client).__mro__}


ADVICE = "pip install 'lakeharness[catalog]'"
_FINDING = "harness.metadata.catalogs.pyiceberg_answers.MetadataFinder"
_SQLITE = "sqlite:///"
_BY_ADDRESS = {"http": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
"""The catalog type that PyIceberg 0.12 infers from the start of a catalog's address."""


def is_installed() -> bool:
    """Return whether PyIceberg is installed."""
    return importlib.util.find_spec("pyiceberg") is not None


def configured_properties() -> dict[str, Mapping[str, Any]]:
    """Return the properties of each catalog in PyIceberg's configuration, by name.

    They come from `.pyiceberg.yaml` and the environment variables `PYICEBERG_CATALOG__…`, and are read again at each
    call.

    Raises:
        RequestError: PyIceberg is not available, or its configuration cannot be read.
    """
    if not is_installed():
        raise RequestError(f"Catalogs need PyIceberg: {ADVICE}", cause="CatalogClientMissing")
    from pyiceberg.utils.config import Config

    try:
        config = Config()
        return {name: config.get_catalog_config(name) or {} for name in config.get_known_catalogs()}
    except Exception as error:  # an error of the YAML parser, or of an unexpected value
        text = " ".join(str(error).split())[:200]
        raise RequestError(
            f"Cannot read PyIceberg's configuration ({text}); see .pyiceberg.yaml and PYICEBERG_CATALOG__…",
            cause="CatalogMisconfigured",
        ) from error


def catalog_kind(properties: Mapping[str, object]) -> str | None:
    """Return the type of a catalog, for example `rest`, or None for the user's own class or an unknown address."""
    if "py-catalog-impl" in properties:
        return None
    declared, uri = properties.get("type"), str(properties.get("uri", ""))
    if isinstance(declared, str):
        return declared.lower()
    return next((kind for front, kind in _BY_ADDRESS.items() if uri.startswith(front)), None)


def default_name() -> str | None:
    """Return the configured default catalog, or None if there is none or PyIceberg is missing."""
    if not is_installed():
        return None
    from pyiceberg.utils.config import Config

    name = Config().config.get("default-catalog")
    return name if isinstance(name, str) else None


def open_configured(name: str, properties: Mapping[str, object]) -> PyIcebergCatalog:
    """Open the catalog of a name with the given properties.

    Raises:
        RequestError, StorageError: As for `translate_errors`.
    """
    from pyiceberg.catalog import load_catalog

    uri = properties.get("uri")
    if isinstance(uri, str) and uri.startswith(_SQLITE):
        path = uri.removeprefix(_SQLITE).partition("?")[0]
        # SQLite would create a missing file.
        if path not in ("", ":memory:") and not path.startswith("file:") and not os.path.exists(path):
            raise StorageError(
                f"Cannot reach catalog {name}: there is no file {path}; check {setting_variable(name, 'uri')}",
                cause="CatalogDown",
            )
    # The catalog is only read: a SQL catalog without tables must not create them, and PyIceberg must not read table
    # metadata.
    client_properties = {**properties, "init_catalog_tables": "false", "py-io-impl": _FINDING}
    with translate_errors(name, uri if isinstance(uri, str) else None, "opening", secret_texts(properties)):
        if catalog_kind(properties) == "rest":
            from harness.metadata.catalogs.pyiceberg_rest import rest_client

            return PyIcebergCatalog(name, rest_client(name, client_properties), properties)
        return PyIcebergCatalog(name, load_catalog(name, **client_properties), properties)
