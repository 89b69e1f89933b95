"""From what a user calls a table to where it is."""

from __future__ import annotations

from harness.catalogs.catalog import Catalog, Located
from harness.catalogs.names import parse_name
from harness.errors import RequestError


def locate(name: str, catalog: Catalog) -> Located:
    """Where a catalog says that a table is.

    Raises:
        RequestError: the name is none, or there is no such catalog.
        TableNotFoundError: the catalog does not have it; the message has the nearest names.
        StorageError: the catalog does not answer.
    """
    if not isinstance(catalog, Catalog):
        raise RequestError(
            f"Invalid option catalog={catalog!r}: expected a catalog, such as harness.open_warehouse(…)",
            options=("catalog",),
        )
    return catalog.locate(parse_name(name))
