"""Catalogs by the names that a user gave them: in harness's own configuration, and in PyIceberg's.

    [tool.harness.catalogs.prod]
    type = "unity"
    uri = "https://host:8080"
    prefix = "main"

stands in the `pyproject.toml` of the working directory or one above it, or in `~/.config/harness/config.toml`, where it
holds for all projects and a project's own goes before it. The token is never in them: `HARNESS_CATALOG__PROD__TOKEN`
holds it. A variable of another name is for the user's own file alone to say, because a project that somebody else wrote
would send with it whatever the environment holds, to wherever it likes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, RequestError, TableNotFoundError, warn
from harness.metadata.catalogs.catalog import Catalog, Located, Name, walk, written
from harness.storage.configuration import ConfigurationFile, files
from harness.storage.paths import is_local, local_path
from harness.storage.threads import cached_property

_KEYS: Mapping[str, Mapping[str, type]] = {
    "unity": {"uri": str, "prefix": str, "timeout": int, "storage-options": dict, "token-variable": str},
    "warehouse": {"location": str, "storage-options": dict},
}
_CAUSE = "CatalogMisconfigured"
_NEEDED = {"unity": "uri", "warehouse": "location"}


@dataclass(frozen=True, slots=True)
class Configured:
    """A catalog that has a name.

    kind: such as unity, rest or sql; None: a class of the user's, or nobody can tell.
    warehouse: where its tables are, if said.
    open: makes it.
    """

    name: str
    kind: str | None
    warehouse: str | None
    open: Callable[[], Catalog] = field(repr=False)


def configured() -> dict[str, Configured]:
    """The catalogs that are configured now, by their names in lower case.

    Raises:
        RequestError: a configuration cannot be read, or two give a name to a catalog.
    """
    found: dict[str, Configured] = {}
    for file in files():
        for name, catalog in _read(file).items():
            if name in found and "unity" in (catalog.kind, found[name].kind):  # or a stranger's server gets the token
                raise _twice(name, "your own configuration and the project's")
            found[name] = catalog
    from harness.metadata.catalogs.pyiceberg import adapter as of

    if of.is_installed():
        for name, properties in of.configured().items():
            if name in found:
                raise _twice(name, "harness's configuration and PyIceberg's")
            opening = partial(of.open_configured, name, properties)
            found[name] = Configured(name, of.kind(properties), properties.get("warehouse"), opening)
    return found


def _read(file: ConfigurationFile) -> dict[str, Configured]:
    section = file.section("catalogs", cause=_CAUSE)
    return {name.lower(): _catalog(name.lower(), said, file.path, is_own=file.is_own) for name, said in section.items()}


def _catalog(name: str, said: Any, file: Path, *, is_own: bool) -> Configured:
    where = f"tool.harness.catalogs.{name}"
    kind = said.get("type") if isinstance(said, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _invalid(file, where, f"expected a table with type = {' or '.join(map(repr, _KEYS))}")
    known = _KEYS[kind]
    for key, value in said.items():
        if key == "token":
            raise _invalid(file, f"{where}.token", f"a token is no text for a file; set {_variable(name)}")
        if key != "type" and type(value) is not known.get(key):
            raise _invalid(file, f"{where}.{key}", f"expected {_expected(known, key)}")
    if _NEEDED[kind] not in said:
        raise _invalid(file, where, f"{_NEEDED[kind]} is missing")
    if "token-variable" in said and not is_own:
        raise _invalid(
            file,
            f"{where}.token-variable",
            f"only ~/.config/harness/config.toml may, since a project may be a stranger's; set {_variable(name)}",
        )
    location = said.get("location")
    if location is not None and is_local(local_path(location)):  # relative to the file that says it
        said = {**said, "location": str(file.parent / Path(local_path(location)).expanduser())}
    return Configured(name, kind, location, partial(_open, name, kind, said))


def _open(name: str, kind: str, said: Mapping[str, Any]) -> Catalog:
    storage = said.get("storage-options")
    if kind == "warehouse":
        from harness.metadata.catalogs.warehouse import open_warehouse

        return open_warehouse(said["location"], name=name, storage_options=storage)
    from harness.metadata.catalogs.unity import open_unity

    token = os.environ.get(_variable(name)) or os.environ.get(said.get("token-variable", ""), "")
    more = {"timeout": float(said["timeout"])} if "timeout" in said else {}
    return open_unity(said["uri"], name=name, token=token, prefix=said.get("prefix"), storage_options=storage, **more)


def _variable(name: str) -> str:
    return f"HARNESS_CATALOG__{name.upper().replace('-', '_')}__TOKEN"


def _expected(known: Mapping[str, type], key: str) -> str:
    words = {str: "text", int: "a whole number", dict: "a table"}
    return words[known[key]] if key in known else f"one of {', '.join(('type', *known))}"


def _twice(name: str, who: str) -> RequestError:
    return RequestError(f"Cannot tell which catalog is {name}: {who} have it; rename one", cause=_CAUSE)


def _invalid(file: Path, field_: str, reason: str) -> RequestError:
    message = f"Invalid configuration: {reason}"
    return RequestError(message, cause=_CAUSE, file=str(file), field=field_)


# All catalogs that are configured as one, in which the first part of a name is the catalog's: `prod.sales.orders`.


@dataclass(frozen=True)
class Together:
    """The catalogs that are configured when a name first needs one, see `harness.metadata.catalogs.catalog.Catalog`.

    Each is opened when it is first asked, and stays open.
    """

    name: str = ""
    _opened: dict[str, Catalog] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def configured(self) -> Mapping[str, Configured]:
        """By name in lower case. Raises as `harness.metadata.catalogs.configuration.configured`."""
        return configured()

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """The namespaces directly in `parent`; at the root, the catalogs."""
        if not parent:
            return tuple((name,) for name in sorted(self.configured))
        catalog = self._catalog(parent[0])
        return () if catalog is None else _below(parent[0], catalog.namespaces(parent[1:]))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """The tables directly in a namespace; the root holds none."""
        catalog = self._catalog(namespace[0]) if namespace else None
        return () if catalog is None else _below(namespace[0], catalog.tables(namespace[1:]))

    def locate(self, name: Name) -> Located:
        """Where a table is.

        Raises:
            TableNotFoundError: the name is none of a catalog's, or the catalog has no such table.
        """
        catalog = self._catalog(name[0]) if len(name) > 1 else None
        if catalog is None:
            raise TableNotFoundError(
                f"Cannot find a table: {written(name)} begins with the name of no catalog", cause="NoSuchTable"
            )
        return catalog.locate(name[1:])

    def unsaid(self) -> tuple[str, ...]:
        """The catalogs that a name may be of which says none: PyIceberg's default one, else all."""
        from harness.metadata.catalogs.pyiceberg import adapter as of

        default = of.default_name() if of.is_installed() else None
        return (default,) if default is not None and default in self.configured else tuple(sorted(self.configured))

    def reachable(self) -> Iterator[Name]:
        """All tables; of a catalog that does not answer, a warning."""
        for name in sorted(self.configured):
            try:
                yield from walk(self, (name,))
            except HarnessError as error:
                warn(f"The tables of catalog {name} are left out: {error.message}")

    def _catalog(self, name: str) -> Catalog | None:
        key = name.lower()
        if key not in self._opened and key in self.configured:
            self._opened[key] = self.configured[key].open()
        return self._opened.get(key)


def _below(catalog: str, names: tuple[Name, ...]) -> tuple[Name, ...]:
    return tuple((catalog, *name) for name in names)
