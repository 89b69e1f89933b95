"""PyIceberg's client of a REST catalog, within what the catalog's server may decide.

`GET /v1/config` answers with properties that a client merges with the user's, and PyIceberg takes every one of them. A
server could so move the user's token to another host, have requests signed with the AWS keys of the environment, or
name a Python class to import. Here a server sets what the names below allow, and nothing else.
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
    r"|header\.x-iceberg-access-delegation|client\.region|(?:s3|gcs|adls)\..+",
    re.IGNORECASE,
)
"""Properties that a server may set. Those of stores reach the store by way of `harness.metadata.catalogs.pyiceberg`."""
_ADDRESSES = ("uri", "oauth2-server-uri")
"""Addresses that credentials are sent to. A server may name another path on the host that the user named."""
_OF_THE_USER = re.compile(
    r"(?:auth|ssl|rest\.auth|rest\.sigv4|rest\.signing)(?:[-.].*)?|token|credential|scope|audience|resource"
    r"|header\..*|client\..*|py-.*-impl|botocore_session",
    re.IGNORECASE,
)
"""Properties that choose credentials, the headers that carry them, or code: a server that sets one is refused."""
_PORTS = {"http": 80, "https": 443}
_LONGEST_NAME = 100
_PART = 1 << 16
"""Bytes of a response that are read, and decompressed, at once."""


def rest_client(name: str, properties: Mapping[str, object]) -> Any:
    """Return a PyIceberg client of a REST catalog; the catalog is asked for its configuration.

    Raises:
        RequestError: the server sets a property that is the user's to set.
        StorageError: the server redirects to another host, or its answer is too large.
        Exception: PyIceberg's, if the catalog does not answer or refuses the credentials.
    """
    from pyiceberg.catalog.rest import RestCatalog

    class GuardedRestCatalog(RestCatalog):  # type: ignore[misc,unused-ignore]  # a class of Any, without PyIceberg
        properties: dict[str, Any]

        def _fetch_config(self) -> None:
            own = dict(self.properties)
            super()._fetch_config()
            self.properties = accepted_properties(name, own, self.properties)
            self.uri = self.properties["uri"]

        def _config_headers(self, session: Any) -> None:
            # The first thing that happens to a new session: no request, not even for a token, is without these.
            super()._config_headers(session)
            session.stream = True
            session.hooks["response"] += [partial(_refuse_redirection, name), partial(_read, name)]

    return GuardedRestCatalog(name, **properties)


def accepted_properties(catalog: str, own: Mapping[str, object], merged: Mapping[str, object]) -> dict[str, Any]:
    """Return the user's properties with those of the server's that a server may set.

    Args:
        catalog: the catalog's name, for messages.
        own: the user's properties.
        merged: the user's and the server's, as PyIceberg merges them. Whatever differs from `own` is the server's.

    Raises:
        RequestError: the server sets a property that is the user's to set.
    """
    accepted = dict(own)
    for key, value in merged.items():
        if key in own and own[key] == value:
            continue
        name = key.lower()
        is_same_host = name in _ADDRESSES and _origin(value) == _origin(own.get(name) or own["uri"])
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
        f"Cannot ask catalog {catalog}: its server sets {key[:_LONGEST_NAME]}{to[:_LONGEST_NAME]}, which decides which "
        "credentials are sent, and where; a server may not set it. If you trust it with that, set "
        f"{setting_variable(catalog, key[:_LONGEST_NAME])} yourself",
        cause="CatalogDenied",
    )


def _origin(address: object) -> tuple[str, str | None, int | None] | None:
    """Return scheme, host, and port of an address; None if it is no address."""
    try:
        parts = urlsplit(str(address))
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None


def _refuse_redirection(catalog: str, response: Any, **_: object) -> None:
    """Raise StorageError if a response redirects to another host, which would get the request's headers."""
    if response.is_redirect and _origin(urljoin(response.url, response.headers["location"])) != _origin(response.url):
        raise StorageError(
            f"Catalog {catalog} sends its callers elsewhere; set `uri` to where it is now", cause="CatalogMoved"
        )


def _read(catalog: str, response: Any, **_: object) -> None:
    """Read the content of a response, which requests then takes as it is.

    Raises:
        StorageError: the content, after decompression, is larger than that of any catalog, or has more values.
    """
    content = bytearray()
    for part in response.iter_content(_PART):
        content += part
        if len(content) > LARGEST_ANSWER:
            response.close()
            raise StorageError(
                f"Catalog {catalog} gave an answer of more than {LARGEST_ANSWER >> 20} MiB", cause="CatalogAnswer"
            )
    response._content = bytes(content)
    try:
        check_document(response._content, file=redact(response.url), limits=DEFAULT)
    except LimitError as error:
        raise StorageError(
            f"Catalog {catalog} gave an answer of more values than any that is known", cause="CatalogAnswer"
        ) from error
