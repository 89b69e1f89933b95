"""Errors for answers with an HTTP error status, and for plans that failed.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml, `IcebergErrorResponse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import (
    HarnessError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    first_words,
    without_secrets,
)

BUSY = (429, 502, 503, 504)
"""Statuses after which the same request may succeed."""
_UNSUPPORTED = (405, 406, 501)
_MISSING_TABLE = {"NoSuchTableException": "NoSuchTable", "NoSuchNamespaceException": "NoSuchNamespace"}


def refusal(catalog: str, status: int, document: Mapping[str, Any], *, subject: str) -> HarnessError:
    """Return the error for an answer with an HTTP error status.

    Args:
        catalog: The name of the catalog.
        status: The HTTP status.
        document: The content of the answer.
        subject: The object that does not exist if the status is 404.
    """
    reason = f"HTTP {status}{error_words(document)}"
    match status:
        case 400:
            problem = f"refuses the request for a plan ({reason}); open the table with planning='client'"
            return StorageError(f"Catalog {catalog} {problem}", cause="CatalogFailed", options=("planning",))
        case 401 | 419:
            return StorageError(
                f"Catalog {catalog} refuses the credentials, or they have expired ({reason}); set new credentials",
                cause="CatalogDenied",
            )
        case 403:
            return StorageError(
                f"Catalog {catalog} refuses access ({reason}); ask its administrator for permission to read the table",
                cause="CatalogDenied",
            )
        case 404 if (cause := _MISSING_TABLE.get(_error_type(document))) is not None:
            return TableNotFoundError(
                f"Cannot find a table: catalog {catalog} does not have it ({reason})", cause=cause
            )
        case 404:
            return StorageError(
                f"Catalog {catalog} does not find {subject} ({reason}); try again", cause="CatalogFailed"
            )
        case _ if 300 <= status < 400:
            return StorageError(
                f"Catalog {catalog} redirects to another address ({reason}); set `uri` to the new one",
                cause="CatalogMoved",
            )
        case _ if status in _UNSUPPORTED:
            return unsupported(catalog, reason)
        case _ if status in BUSY:
            return StorageError(f"Catalog {catalog} is busy or down ({reason}); try again later", cause="CatalogBusy")
        case _:
            return StorageError(
                f"Catalog {catalog} failed ({reason}); try again, or ask its administrator", cause="CatalogFailed"
            )


def unsupported(catalog: str, reason: str) -> UnsupportedError:
    """Return the error for a server that cannot plan the scan."""
    return UnsupportedError(
        f"Catalog {catalog} does not plan this scan: {reason}; open the table with planning='client'",
        cause="ServerPlanning",
        options=("planning",),
    )


def error_words(document: Mapping[str, Any]) -> str:
    """Return a colon and the message in an answer's error, or an empty text if there is no message."""
    message = _error(document).get("message")
    return f": {first_words(message)}" if isinstance(message, str) and message.strip() else ""


def without_secrets_in_error(document: Mapping[str, Any], secrets: Iterable[str]) -> Mapping[str, Any]:
    """Return an answer without secrets in the message of its error.

    Args:
        document: The content of the answer.
        secrets: Texts to remove.
    """
    error = _error(document)
    if not isinstance(error.get("message"), str):
        return document
    return {**document, "error": {**error, "message": without_secrets(error["message"], secrets)}}


def _error_type(document: Mapping[str, Any]) -> str:
    kind = _error(document).get("type")
    return kind if isinstance(kind, str) else ""


def _error(document: Mapping[str, Any]) -> Mapping[str, Any]:
    error = document.get("error")
    return error if isinstance(error, dict) else {}
