"""Tables that other libraries opened: PyIceberg's `Table`, deltalake's `DeltaTable`. Neither is imported to see it."""

from __future__ import annotations

from typing import Any

from harness.catalogs.catalog import Located
from harness.errors import RequestError
from harness.storage.paths import shown

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
    from harness.catalogs.pyiceberg.adapter import PyIcebergCatalog
    from harness.catalogs.pyiceberg.adapter import located as answered
    from harness.catalogs.pyiceberg.answers import of_table

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
