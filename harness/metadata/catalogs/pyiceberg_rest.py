"""PyIceberg's client of a REST catalog, with restrictions on the settings that the catalog's server may change.

`GET /v1/config` returns properties that a client merges with the user's, and PyIceberg accepts all of them. A server
could therefore send the user's token to another host, have requests signed with the AWS keys of the environment, or
name a Python class to import. This client only accepts the properties listed below from a server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from harness.errors import LimitError, RequestError, StorageError
from harness.metadata.catalogs.catalog import LARGEST_ANSWER
from harness.metadata.catalogs.pyiceberg import setting_variable
from harness.metadata.files.documents import check_document
from harness.storage.limits import DEFAULT
from harness.storage.paths import redact

_LOG = logging.getLogger("harness.catalogs")

_SETTABLE = re.compile(
    r"prefix|warehouse|namespace-separator|view-endpoints-supported|rest-page-size"
    r"|scan-planning-mode|header\.x-iceberg-access-delegation|client\.region|(?:s3|gcs|adls)\..+",
    re.IGNORECASE,
)
"""Properties that a server may set. Store properties are passed to the store by `harness.metadata.catalogs.pyiceberg`.
"""
_ADDRESSES = ("uri", "oauth2-server-uri")
"""Addresses that receive credentials. A server may name another path on the host that the user named."""
_OF_THE_USER = re.compile(
    r"(?:auth|ssl|rest\.auth|rest\.sigv4|rest\.signing)(?:[-.].*)?|token|credential|scope|audience|resource"
    r"|header\..*|client\..*|py-.*-impl|botocore_session",
    re.IGNORECASE,
)
"""Properties that choose credentials, the headers that carry them, or code. A server that sets one is refused."""
_PORTS = {"http": 80, "https": 443}
_LONGEST_NAME = 100
_PART = 1 << 16
"""The bytes of a response that are read and decompressed at a time."""


def rest_client(name: str, properties: Mapping[str, object]) -> Any:
    """Return a PyIceberg client of a REST catalog, after requesting the catalog's configuration.

    Raises:
        RequestError: The server sets a property that only the user may set.
        StorageError: The server redirects to another host, or its answer is too large.
        Exception: An error of PyIceberg, if the catalog does not answer or refuses the credentials.
    """
    from pyiceberg.catalog.rest import RestCatalog

    class GuardedRestCatalog(RestCatalog):  # type: ignore[misc,unused-ignore]  # a class of Any, without PyIceberg
        properties: dict[str, Any]

        def _fetch_config(self) -> None:
            configured = dict(self.properties)
            super()._fetch_config()
            self.properties = accepted_properties(name, configured, self.properties)
            self.uri = self.properties["uri"]

        def _config_headers(self, session: Any) -> None:
            # This runs first for a new session, so that no request, not even for a token, is sent without these hooks.
            super()._config_headers(session)
            session.stream = True
            session.hooks["response"] += [partial(_refuse_redirection, name), partial(read_response, name)]

    return GuardedRestCatalog(name, **properties)


def accepted_properties(catalog: str, configured: Mapping[str, object], merged: Mapping[str, object]) -> dict[str, Any]:
    """Return the user's properties, and the server's properties that a server may set.

    Args:
        catalog: The catalog's name, for messages.
        configured: The user's properties.
        merged: The user's and the server's properties, as PyIceberg merges them. A value that differs from
            `configured` is the server's.

    Raises:
        RequestError: The server sets a property that only the user may set.
    """
    accepted = dict(configured)
    for key, value in merged.items():
        if key in configured and configured[key] == value:
            continue
        name = key.lower()
        is_same_host = name in _ADDRESSES and _origin(value) == _origin(configured.get(name) or configured["uri"])
        if is_same_host or _SETTABLE.fullmatch(name):
            accepted[key] = value
        elif name in _ADDRESSES or _OF_THE_USER.fullmatch(name):
            raise _refusal(catalog, key, value)
        else:
            _LOG.debug("%s: its server sets %s, which is ignored", catalog, key[:_LONGEST_NAME])
    return accepted


def _refusal(catalog: str, key: str, value: object) -> RequestError:
    to = f" to {redact(str(value))}" if key.lower() in _ADDRESSES else ""
    return RequestError(
        f"Cannot query catalog {catalog}: its server sets {key[:_LONGEST_NAME]}{to[:_LONGEST_NAME]}, which only you "
        "may set, because it decides which credentials are sent where. If you trust the server, set "
        f"{setting_variable(catalog, key[:_LONGEST_NAME])}",
        cause="CatalogDenied",
    )


def _origin(address: object) -> tuple[str, str | None, int | None] | None:
    """Return the scheme, host, and port of an address, or None if it is invalid."""
    try:
        parts = urlsplit(str(address))
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None


def _refuse_redirection(catalog: str, response: Any, **_: object) -> None:
    """Raise StorageError if a response redirects to another host, which would receive the request's headers."""
    if response.is_redirect and _origin(urljoin(response.url, response.headers["location"])) != _origin(response.url):
        raise StorageError(
            f"Catalog {catalog} redirects to another address; set `uri` to the new one", cause="CatalogMoved"
        )


def read_response(catalog: str, response: Any, **_: object) -> None:
    """Read the content of a response with a bound on its size. Later, requests uses the stored content.

    If the content is stored already, do nothing.

    Raises:
        StorageError: The content is too large after decompression, or has too many values.
    """
    if isinstance(response._content, bytes):
        return
    content = bytearray()
    for part in response.iter_content(_PART):
        content += part
        if len(content) > LARGEST_ANSWER:
            response.close()
            raise StorageError(
                f"Catalog {catalog} returned an answer of more than {LARGEST_ANSWER >> 20} MiB", cause="CatalogAnswer"
            )
    response._content = bytes(content)
    try:
        check_document(response._content, file=redact(response.url), limits=DEFAULT)
    except LimitError as error:
        raise StorageError(
            f"Catalog {catalog} returned an answer with too many values", cause="CatalogAnswer"
        ) from error
