"""Resolves the names of tables and catalogs.

A dotted name such as `prod.sales.orders` is, in this order: a path that exists, a table of the configured catalog
`prod`, or a table of the only configured catalog that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import AmbiguousTableError, HarnessError, RequestError, TableNotFoundError, warn
from harness.metadata.catalogs.catalog import Catalog, Name, TableLocation, name_text, nearest_names, parse_name, walk
from harness.metadata.catalogs.warehouse import local_table_hint, open_warehouse
from harness.metadata.model.arguments import validate_call
from harness.storage.configuration import files
from harness.storage.paths import is_local, is_path, local_path, redact
from harness.storage.threads import cached_property

# Catalogs by the names of a user's configuration, harness's own or PyIceberg's.
#
#     [tool.harness.catalogs.prod]
#     type = "unity"
#     uri = "https://host:8080"
#     prefix = "main"
#
# The lines stand in the `pyproject.toml` of the working directory or one above it, or for all projects in
# `~/.config/harness/config.toml`; the project's own go first. The variable `HARNESS_CATALOG__PROD__TOKEN` holds the
# token. Only the user's own file may name another variable: an untrusted project could send any variable anywhere.


_KEYS: Mapping[str, Mapping[str, type]] = {
    "unity": {"uri": str, "prefix": str, "timeout": int, "storage-options": dict, "token-variable": str},
    "warehouse": {"location": str, "storage-options": dict},
}
_CAUSE = "CatalogMisconfigured"
_TWICE = "Cannot tell which catalog is {}: {} have it; rename one"
_NEEDED = {"unity": "uri", "warehouse": "location"}


@dataclass(frozen=True, slots=True)
class ConfiguredCatalog:
    """A catalog that has a name. kind: such as unity, rest or sql, if known. warehouse: of its tables, if said."""

    name: str
    kind: str | None
    warehouse: str | None
    open: Callable[[], Catalog] = field(repr=False)


def configured_catalogs() -> dict[str, ConfiguredCatalog]:
    """The catalogs that are configured now, by their names in lower case.

    Raises RequestError where a configuration cannot be read, or two give a name to a catalog.
    """
    found: dict[str, ConfiguredCatalog] = {}
    for file in files():
        for text, said in file.section("catalogs", cause=_CAUSE).items():
            name, catalog = text.lower(), _catalog(text.lower(), said, file.path, is_own=file.is_own)
            if name in found and "unity" in (catalog.kind, found[name].kind):  # or an untrusted server gets the token
                raise RequestError(_TWICE.format(name, "your own configuration and the project's"), cause=_CAUSE)
            found[name] = catalog
    from harness.metadata.catalogs import pyiceberg

    if pyiceberg.is_installed():
        for name, properties in pyiceberg.configured_properties().items():
            if name in found:
                raise RequestError(_TWICE.format(name, "harness's configuration and PyIceberg's"), cause=_CAUSE)
            opening = partial(pyiceberg.open_configured, name, properties)
            found[name] = ConfiguredCatalog(
                name, pyiceberg.catalog_kind(properties), properties.get("warehouse"), opening
            )
    return found


def _catalog(name: str, said: Any, file: Path, *, is_own: bool) -> ConfiguredCatalog:
    where = f"tool.harness.catalogs.{name}"
    kind = said.get("type") if isinstance(said, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _invalid(file, where, f"expected a table with type = {' or '.join(map(repr, _KEYS))}")
    known = _KEYS[kind]
    for key, value in said.items():
        if key == "token":
            raise _invalid(file, f"{where}.token", f"a token is no text for a file; set {_variable(name)}")
        if key != "type" and type(value) is not known.get(key):
            words = {str: "text", int: "a whole number", dict: "a table"}
            expected = words[known[key]] if key in known else f"one of {', '.join(('type', *known))}"
            raise _invalid(file, f"{where}.{key}", f"expected {expected}")
    if _NEEDED[kind] not in said:
        raise _invalid(file, where, f"{_NEEDED[kind]} is missing")
    if "token-variable" in said and not is_own:
        raise _invalid(
            file,
            f"{where}.token-variable",
            f"only ~/.config/harness/config.toml may, since a project may be untrusted; set {_variable(name)}",
        )
    location = said.get("location")
    if location is not None and is_local(local_path(location)):  # relative to the file that says it
        said = {**said, "location": str(file.parent / Path(local_path(location)).expanduser())}
    return ConfiguredCatalog(name, kind, location, partial(_open, name, kind, said))


def _open(name: str, kind: str, said: Mapping[str, Any]) -> Catalog:
    storage = said.get("storage-options")
    if kind == "warehouse":
        return open_warehouse(said["location"], name=name, storage_options=storage)
    from harness.metadata.catalogs.unity import open_unity

    token = os.environ.get(_variable(name)) or os.environ.get(said.get("token-variable", ""), "")
    more = {"timeout": float(said["timeout"])} if "timeout" in said else {}
    return open_unity(said["uri"], name=name, token=token, prefix=said.get("prefix"), storage_options=storage, **more)


def _variable(name: str) -> str:
    return f"HARNESS_CATALOG__{name.upper().replace('-', '_')}__TOKEN"


def _invalid(file: Path, field_: str, reason: str) -> RequestError:
    return RequestError(f"Invalid configuration: {reason}", cause=_CAUSE, file=str(file), field=field_)


# All configured catalogs together: the first part of a name is the catalog's, as in `prod.sales.orders`.


@dataclass
class AllCatalogs:
    """All configured catalogs, each opened when it is first asked; see `harness.metadata.catalogs.catalog.Catalog`.

    The object keeps the catalogs that it opened.
    """

    name: str = ""
    _opened: dict[str, Catalog] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def catalogs(self) -> Mapping[str, ConfiguredCatalog]:
        """The configured catalogs by name in lower case. Raises as `configured_catalogs`."""
        return configured_catalogs()

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """The namespaces directly in `parent`; at the root, the catalogs."""
        if not parent:
            return tuple((name,) for name in sorted(self.catalogs))
        catalog = self._catalog(parent[0])
        return () if catalog is None else tuple((parent[0], *name) for name in catalog.namespaces(parent[1:]))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """The tables directly in a namespace; the root holds none."""
        catalog = self._catalog(namespace[0]) if namespace else None
        return () if catalog is None else tuple((namespace[0], *name) for name in catalog.tables(namespace[1:]))

    def locate(self, name: Name) -> TableLocation:
        """The place of a table. Raises TableNotFoundError: no catalog has the name, or not the table."""
        catalog = self._catalog(name[0]) if len(name) > 1 else None
        if catalog is None:
            raise TableNotFoundError(
                f"Cannot find a table: {name_text(name)} begins with the name of no catalog", cause="NoSuchTable"
            )
        return catalog.locate(name[1:])

    def default_catalogs(self) -> tuple[str, ...]:
        """The catalogs of names without a catalog: PyIceberg's default, else all."""
        from harness.metadata.catalogs import pyiceberg

        default = pyiceberg.default_name()
        return (default,) if default is not None and default in self.catalogs else tuple(sorted(self.catalogs))

    def all_tables(self) -> Iterator[Name]:
        """All tables; of a catalog that does not answer, a warning."""
        for name in sorted(self.catalogs):
            try:
                yield from walk(self, (name,))
            except HarnessError as error:
                warn(f"The tables of catalog {name} are left out: {error.message}")

    def _catalog(self, name: str) -> Catalog | None:
        key = name.lower()
        if key not in self._opened and key in self.catalogs:
            self._opened[key] = self.catalogs[key].open()
        return self._opened.get(key)


# Tables that other libraries opened: PyIceberg's `Table`, deltalake's `DeltaTable`. Neither is imported to see it.


_DELTALAKE = "deltalake"


def is_foreign_table(value: object) -> bool:
    """True for a table of another library that can be opened."""
    return is_instance_of(value, "pyiceberg", "Table") or is_instance_of(value, _DELTALAKE, "DeltaTable")


def locate_object(value: Any) -> TableLocation:
    """The place of a table of another library, at its version.

    Raises UnsupportedError: the table does not say its place; RequestError: no such object.
    """
    if is_instance_of(value, "pyiceberg", "Table"):
        from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog
        from harness.metadata.catalogs.pyiceberg import table_location as answered
        from harness.metadata.catalogs.pyiceberg_answers import answer_of_table

        return answered(PyIcebergCatalog.of_client(value.catalog), tuple(value.name()), answer_of_table(value))
    if is_instance_of(value, _DELTALAKE, "DeltaTable"):
        location = str(value.table_uri)
        return TableLocation(
            catalog=_DELTALAKE,
            name=(redact(location).rstrip("/").rpartition("/")[2],),
            location=location.rstrip("/"),
            format="delta",
            version=value.version(),
            storage_options=dict(getattr(value, "_storage_options", None) or {}),
        )
    raise RequestError(
        f"Cannot open an object of type {type(value).__name__}: expected a location, a name, or a table of PyIceberg "
        "or deltalake"
    )


def is_instance_of(value: object, package: str, name: str) -> bool:
    """True if an object is of a class of a package, by the class's name; the package is not imported."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ == name for kind in type(value).__mro__)


def find_table(location: str, catalog: Catalog | str | None) -> TableLocation:
    """The place of a table by its name.

    location: the name, with the catalog's before it if `catalog` is None. catalog: as for `open_catalog`; None: the
    name says, or a single configured catalog has it.

    Raises RequestError: the name is invalid, or there is no such catalog; TableNotFoundError: no catalog has it;
    AmbiguousTableError: several catalogs have it; StorageError: a catalog does not answer.
    """
    if catalog is not None:
        return open_catalog(catalog).locate(parse_name(location))
    name = parse_name(location)
    tried = f"Cannot find a table: there is no path {location!r} here, and"
    known = configured_catalogs()
    if name[0].lower() in known:
        return known[name[0].lower()].open().locate(name[1:])
    from harness.metadata.catalogs import pyiceberg

    if not (known or pyiceberg.is_installed()):
        if (hint := local_table_hint(name)) is not None:
            raise TableNotFoundError(f"{tried} no catalog is configured; {hint}", table=location)
        raise TableNotFoundError(
            f"{tried} as a name it wants a catalog {name[0]}, for which PyIceberg is missing: {pyiceberg.ADVICE}",
            table=location,
        )
    default = pyiceberg.default_name()
    found = {default: known[default]} if default is not None and default in known else known
    return _find_in_catalogs(found, name, f"{tried} no catalog {name[0]!r} is configured")


def _find_in_catalogs(catalogs: Mapping[str, ConfiguredCatalog], name: Name, tried: str) -> TableLocation:
    """The table of a name without a catalog."""
    found: dict[str, TableLocation] = {}
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
        whole = " or ".join(name_text((key, *name)) for key in found)
        message = (
            f"Cannot tell which table is meant: catalogs {' and '.join(found)} have a {name_text(name)}; say {whole}, or "
            f"catalog={next(iter(found))!r}"
        )
        raise AmbiguousTableError(message, table=name_text(name), options=("catalog",))
    if found:
        return found.popitem()[1]
    if not catalogs:
        hint = local_table_hint(name) or no_catalogs_hint()
        raise TableNotFoundError(f"{tried}: {hint}", cause="NoSuchTable", table=name_text(name))
    has = local_table_hint(name) or f"configured are {', '.join(sorted(catalogs))}, which have no such table either"
    raise TableNotFoundError(f"{tried}: {has}", cause="NoSuchTable", table=name_text(name))


_ELSEWHERE = ("NoSuchTable", "NoSuchNamespace")


def no_catalogs_hint() -> str:
    """The advice where no catalog is configured."""
    from harness.metadata.catalogs import pyiceberg

    return (
        "no catalog is configured: see .pyiceberg.yaml, PYICEBERG_CATALOG__NAME__URI and [tool.harness.catalogs.NAME] "
        f"of pyproject.toml{'' if pyiceberg.is_installed() else f'; those of PyIceberg need it: {pyiceberg.ADVICE}'}"
    )


@validate_call
def open_catalog(catalog: Catalog | str, *, storage_options: Mapping[str, object] | None = None) -> Catalog:
    """The catalog that a user names.

    Args:
        catalog: the name of a catalog that is configured for harness or PyIceberg; the location of a warehouse
            directory; a catalog of harness or PyIceberg.
        storage_options: for a warehouse directory.

    Raises RequestError: there is no such catalog, or its configuration is wrong; TableNotFoundError: there is no such
    directory; StorageError: the catalog does not answer.
    """
    if isinstance(catalog, str):
        if is_path(catalog) or os.path.isdir(catalog):
            return open_warehouse(catalog, storage_options=storage_options)
        known = configured_catalogs()
        if catalog.lower() in known:
            return known[catalog.lower()].open()
        names = [(each,) for each in sorted(known)]
        near = nearest_names((catalog,), names)
        which = "the nearest that are configured are" if near else "configured are"
        which = f"{which} {', '.join(map(name_text, near or names))}" if names else no_catalogs_hint()
        message = f"Cannot find catalog {catalog!r}: there is no such directory, and {which}"
        raise RequestError(message, cause="UnknownCatalog")
    if isinstance(catalog, Catalog):
        return catalog
    if is_instance_of(catalog, "pyiceberg", "Catalog"):
        from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog

        return PyIcebergCatalog.of_client(catalog)
    raise RequestError(
        f"Invalid option catalog, of type {type(catalog).__name__}: expected a catalog's name, a warehouse directory, "
        "harness.open_warehouse(…) or a catalog of PyIceberg",
        options=("catalog",),
    )
