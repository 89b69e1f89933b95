"""What goes wrong while a catalog is asked, in one line that says what to set."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import HarnessError, RequestError, StorageError

# Classes of PyIceberg, requests, botocore, SQLAlchemy and Thrift: by name, so that none of them is imported for it.
_DENIED = {"UnauthorizedError", "ForbiddenError", "AuthorizationExpiredError", "OAuthError"}
_DENIED |= {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "SSOError"}
_DOWN = {"ConnectionError", "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "Timeout"}
_DOWN |= {"OperationalError", "TTransportException", "ServiceUnavailableError", "ConnectionRefusedError", "SSLError"}
_MISSING = {"NotInstalledError", "ImportError"}
_WRONG = {"ValueError", "MissingSchema", "InvalidSchema", "InvalidURL", "ArgumentError", "NoRegionError"}
_WRONG |= {"BadRequestError", "ProfileNotFound", "NoSuchModuleError"}
# Codes of an AWS service that refuses: its client has one class for all.
_CODES = re.compile(r"\((?:Expired|Invalid|Unrecognized|AccessDenied|AuthFailure|Signature|MissingAuth)\w*\)")
_SHOWN = 200
_SECRET = re.compile(r"(?<=://)[^\s/@]*@|(?<=[?&])[^\s'\"<>]*")


_LOG = logging.getLogger("harness.catalogs")


@contextmanager
def asking(catalog: str, uri: str | None, what: str) -> Iterator[None]:
    """To be entered around every question to a catalog.

    catalog: its name. uri: where it is, as it is configured. what: it is asked for, in the log.

    Raises:
        RequestError: it is configured wrongly, or a package is missing.
        StorageError: it is down, refuses the credentials, or fails.
    """
    start = time.monotonic()
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:  # the classes of clients' errors are theirs
        raise _translated(error, catalog, uri) from error
    finally:
        _LOG.debug("%s: %s, %.0f ms", catalog, what, (time.monotonic() - start) * 1000)


def setting(catalog: str, name: str) -> str:
    """The variable that sets a property of a catalog."""
    return f"PYICEBERG_CATALOG__{catalog.upper().replace('-', '_')}__{name.upper().replace('-', '_')}"


def _translated(error: Exception, catalog: str, uri: str | None) -> HarnessError:
    names = {kind.__name__ for kind in type(error).__mro__}
    said = _said(error)
    if names & _DENIED or _CODES.search(str(error)):
        return StorageError(
            f"Cannot ask catalog {catalog}: it refuses the credentials, or they have expired ({said}); set "
            f"{setting(catalog, 'credential')} or {setting(catalog, 'token')}, or log in anew (AWS)",
            cause="CatalogDenied",
        )
    if names & _MISSING:
        return RequestError(
            f"Cannot ask catalog {catalog}: a package is missing ({said})", cause="CatalogClientMissing"
        )
    if names & _DOWN:
        at = "" if uri is None else f" at {_SECRET.sub('', uri)}"
        return StorageError(
            f"Cannot reach catalog {catalog}{at} ({said}); is it running, and {setting(catalog, 'uri')} right?",
            cause="CatalogDown",
        )
    if names & _WRONG:
        return RequestError(
            f"Cannot ask catalog {catalog}: its configuration is wrong ({said}); see .pyiceberg.yaml and "
            f"{setting(catalog, '…')}",
            cause="CatalogMisconfigured",
        )
    return StorageError(f"Catalog {catalog} failed ({type(error).__name__}: {said})", cause="CatalogFailed")


def _said(error: Exception) -> str:
    """The first words of an error, in one line, without what may be secret; of a connection that failed, why."""
    first: BaseException = error
    while (inner := first.__cause__ or first.__context__) is not None:
        first = inner
    why = first.strerror if isinstance(first, OSError) else None
    text = " ".join((why or str(error)).split()) or type(error).__name__
    text = _SECRET.sub("", text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
