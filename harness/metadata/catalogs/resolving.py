"""Resolution of the names of tables and catalogs.

A dotted name like `prod.sales.orders` is resolved in this order: as an existing path, as a table of the configured
catalog `prod`, or as a table of the only configured catalog that has it.
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

# A catalog is configured in `pyproject.toml` in the working directory or above it:
#
#     [tool.harness.catalogs.prod]
#     type = "unity"
#     uri = "https://host:8080"
#     prefix = "main"
#
# Configuration for all projects is in `~/.config/harness/config.toml`; the project's configuration has priority. The
# environment variable `HARNESS_CATALOG__PROD__TOKEN` holds the token. Only the user's own file may name another
# variable, because an untrusted project could otherwise send any variable to any server.


_KEYS: Mapping[str, Mapping[str, type]] = {
    "unity": {"uri": str, "prefix": str, "timeout": int, "storage-options": dict, "token-variable": str},
    "warehouse": {"location": str, "storage-options": dict},
}
_CAUSE = "CatalogMisconfigured"
_TWICE = "Catalog name {} is ambiguous: {} define it; rename one of the catalogs"
_NEEDED = {"unity": "uri", "warehouse": "location"}


@dataclass(frozen=True, slots=True)
class ConfiguredCatalog:
    """A catalog in a configuration.

    Attributes:
        name: The name of the catalog.
        kind: The type of the catalog, for example unity, rest, or sql. None: unknown.
        warehouse: The warehouse of its tables. None: not configured.
        open: Opens the catalog.
    """

    name: str
    kind: str | None
    warehouse: str | None
    open: Callable[[], Catalog] = field(repr=False)


def configured_catalogs() -> dict[str, ConfiguredCatalog]:
    """Return the catalogs that are configured now, by name in lower case.

    Raises:
        RequestError: A configuration cannot be read, or two configurations define the same name.
    """
    catalogs: dict[str, ConfiguredCatalog] = {}
    for file in files():
        for text, table in file.section("catalogs", cause=_CAUSE).items():
            name, catalog = text.lower(), _catalog(text.lower(), table, file.path, is_own=file.is_own)
            # otherwise an untrusted server could receive the token
            if name in catalogs and "unity" in (catalog.kind, catalogs[name].kind):
                raise RequestError(_TWICE.format(name, "your own configuration and the project's"), cause=_CAUSE)
            catalogs[name] = catalog
    from harness.metadata.catalogs import pyiceberg

    if pyiceberg.is_installed():
        for name, properties in pyiceberg.configured_properties().items():
            if name in catalogs:
                raise RequestError(_TWICE.format(name, "harness's configuration and PyIceberg's"), cause=_CAUSE)
            opening = partial(pyiceberg.open_configured, name, properties)
            catalogs[name] = ConfiguredCatalog(
                name, pyiceberg.catalog_kind(properties), properties.get("warehouse"), opening
            )
    return catalogs


def _catalog(name: str, table: Any, file: Path, *, is_own: bool) -> ConfiguredCatalog:
    key_path = f"tool.harness.catalogs.{name}"
    kind = table.get("type") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _invalid(file, key_path, f"expected a table with type = {' or '.join(map(repr, _KEYS))}")
    keys = _KEYS[kind]
    for key, value in table.items():
        if key == "token":
            raise _invalid(file, f"{key_path}.token", f"a token must not be stored in a file; set {_variable(name)}")
        if key != "type" and type(value) is not keys.get(key):
            words = {str: "text", int: "a whole number", dict: "a table"}
            expected = words[keys[key]] if key in keys else f"one of {', '.join(('type', *keys))}"
            raise _invalid(file, f"{key_path}.{key}", f"expected {expected}")
    if _NEEDED[kind] not in table:
        raise _invalid(file, key_path, f"{_NEEDED[kind]} is missing")
    if "token-variable" in table and not is_own:
        raise _invalid(
            file,
            f"{key_path}.token-variable",
            f"it is only allowed in ~/.config/harness/config.toml, as a project may be "
            f"untrusted; set {_variable(name)}",
        )
    location = table.get("location")
    if location is not None and is_local(local_path(location)):  # relative to the file that contains it
        table = {**table, "location": str(file.parent / Path(local_path(location)).expanduser())}
    return ConfiguredCatalog(name, kind, location, partial(_open, name, kind, table))


def _open(name: str, kind: str, table: Mapping[str, Any]) -> Catalog:
    storage = table.get("storage-options")
    if kind == "warehouse":
        return open_warehouse(table["location"], name=name, storage_options=storage)
    from harness.metadata.catalogs.unity import open_unity

    token = os.environ.get(_variable(name)) or os.environ.get(table.get("token-variable", ""), "")
    more = {"timeout": float(table["timeout"])} if "timeout" in table else {}
    return open_unity(table["uri"], name=name, token=token, prefix=table.get("prefix"), storage_options=storage, **more)


def _variable(name: str) -> str:
    return f"HARNESS_CATALOG__{name.upper().replace('-', '_')}__TOKEN"


def _invalid(file: Path, field_: str, reason: str) -> RequestError:
    return RequestError(f"Invalid configuration: {reason}", cause=_CAUSE, file=str(file), field=field_)


@dataclass
class AllCatalogs:
    """All configured catalogs as one: the first part of a name is the catalog's, as in `prod.sales.orders`.

    Each catalog is opened when it is first used, and then kept.
    """

    name: str = ""
    _opened: dict[str, Catalog] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def catalogs(self) -> Mapping[str, ConfiguredCatalog]:
        """Return the configured catalogs by name in lower case.

        Raises:
            RequestError: As for `configured_catalogs`.
        """
        return configured_catalogs()

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the namespaces directly in `parent`. At the root these are the catalogs."""
        if not parent:
            return tuple((name,) for name in sorted(self.catalogs))
        catalog = self._catalog(parent[0])
        return () if catalog is None else tuple((parent[0], *name) for name in catalog.namespaces(parent[1:]))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the tables directly in a namespace. The root has no tables."""
        catalog = self._catalog(namespace[0]) if namespace else None
        return () if catalog is None else tuple((namespace[0], *name) for name in catalog.tables(namespace[1:]))

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table.

        Raises:
            TableNotFoundError: No catalog has the name, or the catalog does not have the table.
        """
        catalog = self._catalog(name[0]) if len(name) > 1 else None
        if catalog is None:
            raise TableNotFoundError(
                f"Cannot find a table: {name_text(name)} does not start with the name of a catalog", cause="NoSuchTable"
            )
        return catalog.locate(name[1:])

    def default_catalogs(self) -> tuple[str, ...]:
        """Return the catalogs to search for names without a catalog: PyIceberg's default catalog, or else all."""
        from harness.metadata.catalogs import pyiceberg

        default = pyiceberg.default_name()
        return (default,) if default is not None and default in self.catalogs else tuple(sorted(self.catalogs))

    def all_tables(self) -> Iterator[Name]:
        """Yield all tables. A catalog that does not answer causes a warning."""
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


_DELTALAKE = "deltalake"


def is_foreign_table(value: object) -> bool:
    """Return whether an object is an opened table of PyIceberg or deltalake, without importing these packages."""
    return is_instance_of(value, "pyiceberg", "Table") or is_instance_of(value, _DELTALAKE, "DeltaTable")


def locate_object(value: Any) -> TableLocation:
    """Return the location of a table that another library has opened, at the version that is open.

    Raises:
        UnsupportedError: The table does not provide its location.
        RequestError: The object is not a table of PyIceberg or deltalake.
    """
    if is_instance_of(value, "pyiceberg", "Table"):
        from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog
        from harness.metadata.catalogs.pyiceberg_answers import answer_of_table

        return PyIcebergCatalog.of_client(value.catalog).located(tuple(value.name()), answer_of_table(value))
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
    """Return whether an object's class, or a base class, has a name and comes from a package, which is not imported."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ == name for kind in type(value).__mro__)


def find_table(location: str, catalog: Catalog | str | None) -> TableLocation:
    """Return the location of a table by its name.

    Args:
        location: The name, starting with the name of the catalog if `catalog` is None.
        catalog: The catalog, as for `open_catalog`. None: it is found from the name, or is the only configured catalog
            that has the table.

    Raises:
        RequestError: The name is invalid, or there is no such catalog.
        TableNotFoundError: No catalog has the table.
        AmbiguousTableError: Several catalogs have the table.
        StorageError: A catalog does not answer.
    """
    if catalog is not None:
        return open_catalog(catalog).locate(parse_name(location))
    name = parse_name(location)
    tried = f"Cannot find a table: there is no path {location!r} here, and"
    configured = configured_catalogs()
    if name[0].lower() in configured:
        return configured[name[0].lower()].open().locate(name[1:])
    from harness.metadata.catalogs import pyiceberg

    if not (configured or pyiceberg.is_installed()):
        if (hint := local_table_hint(name)) is not None:
            raise TableNotFoundError(f"{tried} no catalog is configured; {hint}", table=location)
        raise TableNotFoundError(
            f"{tried} as a name it needs catalog {name[0]}, for which PyIceberg is missing: {pyiceberg.ADVICE}",
            table=location,
        )
    default = pyiceberg.default_name()
    searched = {default: configured[default]} if default is not None and default in configured else configured
    return _find_in_catalogs(searched, name, f"{tried} no catalog {name[0]!r} is configured")


def _find_in_catalogs(catalogs: Mapping[str, ConfiguredCatalog], name: Name, tried: str) -> TableLocation:
    """Return the location of a table by a name without a catalog."""
    locations: dict[str, TableLocation] = {}
    for key, each in catalogs.items():
        try:
            locations[key] = each.open().locate(name)
        except TableNotFoundError as error:
            # other causes mean that the catalog has the name, as a view or several times
            if error.cause not in _ELSEWHERE:
                raise
        except HarnessError as error:
            error.message = f"{tried}; catalog {key} cannot be searched: {error.message}"
            raise
    if len(locations) > 1:
        whole = " or ".join(name_text((key, *name)) for key in locations)
        message = (
            f"Table name {name_text(name)} is ambiguous: catalogs {' and '.join(locations)} have it; write {whole}, or "
            f"pass catalog={next(iter(locations))!r}"
        )
        raise AmbiguousTableError(message, table=name_text(name), options=("catalog",))
    if locations:
        return locations.popitem()[1]
    if not catalogs:
        hint = local_table_hint(name) or no_catalogs_hint()
        raise TableNotFoundError(f"{tried}: {hint}", cause="NoSuchTable", table=name_text(name))
    reason = local_table_hint(name) or f"no configured catalog ({', '.join(sorted(catalogs))}) has the table"
    raise TableNotFoundError(f"{tried}: {reason}", cause="NoSuchTable", table=name_text(name))


_ELSEWHERE = ("NoSuchTable", "NoSuchNamespace")


def no_catalogs_hint() -> str:
    """Return advice for the case that no catalog is configured."""
    from harness.metadata.catalogs import pyiceberg

    client = "" if pyiceberg.is_installed() else f"; for PyIceberg's catalogs, {pyiceberg.ADVICE}"
    return (
        "no catalog is configured: see .pyiceberg.yaml, PYICEBERG_CATALOG__NAME__URI and [tool.harness.catalogs.NAME] "
        f"in pyproject.toml{client}"
    )


@validate_call
def open_catalog(catalog: Catalog | str, *, storage_options: Mapping[str, object] | None = None) -> Catalog:
    """Open a catalog by name or location.

    Args:
        catalog: The name of a catalog that is configured for harness or PyIceberg, the location of a warehouse
            directory, or a catalog object of harness or PyIceberg.
        storage_options: The storage options of a warehouse directory.

    Raises:
        RequestError: There is no such catalog, or its configuration is wrong.
        TableNotFoundError: There is no such directory.
        StorageError: The catalog does not answer.
    """
    if isinstance(catalog, str):
        if is_path(catalog) or os.path.isdir(catalog):
            return open_warehouse(catalog, storage_options=storage_options)
        configured = configured_catalogs()
        if catalog.lower() in configured:
            return configured[catalog.lower()].open()
        names = [(each,) for each in sorted(configured)]
        similar_names = nearest_names((catalog,), names)
        choices = "similar configured catalogs are" if similar_names else "the configured catalogs are"
        choices = f"{choices} {', '.join(map(name_text, similar_names or names))}" if names else no_catalogs_hint()
        message = f"Cannot find catalog {catalog!r}: there is no such directory, and {choices}"
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
