"""From what a user calls a table, or a catalog, to what it is.

A dotted name such as `prod.sales.orders` is, in this order: a path that exists, a table of the configured catalog
`prod`, or a table of the one configured catalog that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from harness.errors import AmbiguousTableError, HarnessError, RequestError, TableNotFoundError
from harness.metadata.catalogs.catalog import Catalog, Located, Name, nearest, parse_name, written
from harness.metadata.catalogs.configuration import Configured, configured
from harness.metadata.catalogs.warehouse import open_warehouse
from harness.storage.paths import SCHEME, shown

# Tables that other libraries opened: PyIceberg's `Table`, deltalake's `DeltaTable`. Neither is imported to see it.


_DELTALAKE = "deltalake"


def is_table(given: object) -> bool:
    """Whether it is a table of another library that can be opened."""
    return is_of(given, "pyiceberg", "Table") or is_of(given, _DELTALAKE, "DeltaTable")


def located(given: Any) -> Located:
    """Where a table of another library is, at the version that it is at.

    Raises:
        RequestError: it is none.
        UnsupportedError: it does not say where it is.
    """
    if is_of(given, "pyiceberg", "Table"):
        return _of_pyiceberg(given)
    if is_of(given, _DELTALAKE, "DeltaTable"):
        return _of_deltalake(given)
    raise RequestError(
        f"Cannot open an object of type {type(given).__name__}: expected a location, a name, or a table of PyIceberg "
        "or deltalake"
    )


def _of_pyiceberg(table: Any) -> Located:
    from harness.metadata.catalogs.pyiceberg.adapter import PyIcebergCatalog
    from harness.metadata.catalogs.pyiceberg.adapter import located as answered
    from harness.metadata.catalogs.pyiceberg.answers import of_table

    return answered(PyIcebergCatalog.of_client(table.catalog), tuple(table.name()), of_table(table))


def _of_deltalake(table: Any) -> Located:
    location = str(table.table_uri)
    return Located(
        catalog=_DELTALAKE,
        name=(shown(location).rstrip("/").rpartition("/")[2],),
        location=location.rstrip("/"),
        format="delta",
        version=table.version(),
        storage_options=dict(getattr(table, "_storage_options", None) or {}),
    )


def is_of(given: object, package: str, name: str) -> bool:
    """Whether an object is of a class of a package, by its name; the package is not imported to see that."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ == name for kind in type(given).__mro__)


def find(location: str, catalog: Catalog | str | None) -> Located:
    """Where a table is, by its name.

    Args:
        location: its name, with the catalog's before it if `catalog` is None.
        catalog: as for `open_catalog`; None: the name says, or only one configured catalog has it.

    Raises:
        RequestError: the name is none, or there is no such catalog.
        TableNotFoundError: no catalog has it; the message has the nearest names.
        AmbiguousTableError: several catalogs have it.
        StorageError: a catalog does not answer.
    """
    if catalog is not None:
        return open_catalog(catalog).locate(parse_name(location))
    name = parse_name(location)
    tried = f"Cannot find a table: there is no path {location!r} here, and"
    known = configured()
    if name[0].lower() in known:
        return known[name[0].lower()].open().locate(name[1:])
    from harness.metadata.catalogs.pyiceberg import adapter as of

    if not (known or of.is_installed()):
        raise TableNotFoundError(
            f"{tried} as a name it wants a catalog {name[0]}, for which PyIceberg is missing: {of.ADVICE}",
            table=location,
        )
    default = of.default_name() if of.is_installed() else None
    return _held(
        {default: known[default]} if default in known else known, name, f"{tried} no catalog {name[0]!r} is configured"
    )


def _held(catalogs: Mapping[str, Configured], name: Name, tried: str) -> Located:
    """A table by a name that says no catalog: the one that has it."""
    found: dict[str, Located] = {}
    for key, each in catalogs.items():
        try:
            found[key] = each.open().locate(name)
        except TableNotFoundError as error:
            if error.cause not in _ELSEWHERE:  # a view, or several tables: it is there
                raise
        except HarnessError as error:
            error.message = f"{tried}; whether catalog {key} has it cannot be told: {error.message}"
            raise
    if len(found) > 1:
        whole = " or ".join(written((key, *name)) for key in found)
        raise AmbiguousTableError(
            f"Cannot tell which table is meant: catalogs {' and '.join(found)} have a {written(name)}; say {whole}, or "
            f"catalog={next(iter(found))!r}",
            table=written(name),
            options=("catalog",),
        )
    if found:
        return found.popitem()[1]
    if not catalogs:
        raise TableNotFoundError(f"{tried}: {no_catalogs()}", cause="NoSuchTable", table=written(name))
    has = f"configured are {', '.join(sorted(catalogs))}, which have no such table either"
    raise TableNotFoundError(f"{tried}: {has}", cause="NoSuchTable", table=written(name))


_ELSEWHERE = ("NoSuchTable", "NoSuchNamespace")


def no_catalogs() -> str:
    """What to say where no catalog is configured."""
    from harness.metadata.catalogs.pyiceberg import adapter as of

    return (
        "no catalog is configured: see .pyiceberg.yaml, PYICEBERG_CATALOG__NAME__URI and [tool.harness.catalogs.NAME] "
        f"of pyproject.toml{'' if of.is_installed() else f'; those of PyIceberg need it: {of.ADVICE}'}"
    )


def open_catalog(catalog: Catalog | str, *, storage_options: Mapping[str, Any] | None = None) -> Catalog:
    """A catalog, by whatever a user calls it.

    Args:
        catalog: the name of one that is configured, for harness or for PyIceberg; the location of a warehouse
            directory; a catalog, of harness or of PyIceberg.
        storage_options: for a warehouse directory.

    Raises:
        RequestError: there is no such catalog, or it is configured wrongly.
        TableNotFoundError: there is no such directory.
        StorageError: the catalog does not answer.
    """
    if isinstance(catalog, str):
        if SCHEME.match(catalog) or "/" in catalog or os.path.isdir(catalog):
            return open_warehouse(catalog, storage_options=storage_options)
        return _configured(catalog)
    if isinstance(catalog, Catalog):
        return catalog
    if is_of(catalog, "pyiceberg", "Catalog"):
        from harness.metadata.catalogs.pyiceberg.adapter import PyIcebergCatalog

        return PyIcebergCatalog.of_client(catalog)
    raise RequestError(
        f"Invalid option catalog, of type {type(catalog).__name__}: expected a catalog's name, a warehouse directory, "
        "harness.open_warehouse(…) or a catalog of PyIceberg",
        options=("catalog",),
    )


def _configured(name: str) -> Catalog:
    known = configured()
    if name.lower() not in known:
        from harness.metadata.catalogs.pyiceberg import adapter as of

        if not (known or of.is_installed()):
            of.configured()  # says what is missing
        _refuse_unknown(name, tuple((each,) for each in known))
    return known[name.lower()].open()


def _refuse_unknown(name: str, known: tuple[Name, ...]) -> NoReturn:
    if near := nearest((name,), known):
        which = f"the nearest that are configured are {', '.join(map(written, near))}"
    else:
        which = f"configured are {', '.join(map(written, sorted(known)))}" if known else no_catalogs()
    raise RequestError(
        f"Cannot find catalog {name!r}: there is no such directory, and {which}",
        cause="UnknownCatalog",
        options=("catalog",),
    )
