"""All catalogs that are configured as one, in which the first part of a name is the catalog's: `prod.sales.orders`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.catalogs.catalog import Catalog, Located, walk
from harness.catalogs.configuration import Configured, configured
from harness.catalogs.names import Name, written
from harness.errors import HarnessError, TableNotFoundError, warn
from harness.forks import cached_property


@dataclass(frozen=True)
class Together:
    """The catalogs that are configured when a name first needs one, see `harness.catalogs.catalog.Catalog`.

    Each is opened when it is first asked, and stays open.
    """

    name: str = ""
    _opened: dict[str, Catalog] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def configured(self) -> Mapping[str, Configured]:
        """By name in lower case. Raises as `harness.catalogs.configuration.configured`."""
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
        from harness.catalogs.pyiceberg import configured as of

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
