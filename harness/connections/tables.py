"""What names in a connection's SQL stand for: tables given by name, and those of a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.catalogs.catalog import Catalog, walk
from harness.catalogs.names import Name, nearest, parse_name, written
from harness.catalogs.objects import is_table
from harness.catalogs.resolving import open_catalog
from harness.errors import AmbiguousTableError, RequestError, TableNotFoundError
from harness.snapshot import Snapshot
from harness.table import Table, open_table

Given: TypeAlias = Table | Snapshot | str
"""A table, which is one version of it; a snapshot; or a location, which is opened each time that it is used."""
Source: TypeAlias = Catalog | Mapping[str, Given] | str | None
"""Where a connection finds tables: a catalog or its name, tables by name, or nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables by name. Names match without regard to case, as DuckDB's do; the exact spelling is preferred.

    catalog: where names are looked up that were not given; None: nowhere.
    given: tables by name.
    options: keyword arguments of `harness.open_table`, for each table that is opened.
    """

    catalog: Catalog | None = None
    given: dict[Name, Given] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, source: Source, options: Mapping[str, Any]) -> Tables:
        """The tables of a catalog, or those that a mapping names; the arguments and errors are `harness.connect`'s."""
        if source is None or isinstance(source, Mapping):
            tables = cls(options=options)
            for name, value in (source or {}).items():
                tables.give(name, value)
            return tables
        return cls(catalog=open_catalog(source, storage_options=options.get("storage_options")), options=options)

    def give(self, name: str, value: object) -> None:
        """Let a name stand for a table, in place of what it stood for.

        value: also a table that another library opened, which stays at its version.

        Raises:
            RequestError: the name or the value is none.
            HarnessError: as for `harness.open_table`, of the table of another library.
        """
        if is_table(value):
            value = open_table(value, **self.options)
        if not isinstance(value, Table | Snapshot | str):
            raise RequestError(f"Invalid table {name!r}: expected a table, a snapshot or a location, got {value!r}")
        self.given[parse_name(name)] = value

    def open(self, name: Name) -> tuple[str, Table | Snapshot] | None:
        """The table of that name as it is now, and its whole name; None: there is none.

        Raises:
            AmbiguousTableError: the name may be more than one table.
            HarnessError: as for `harness.open_table`.
        """
        key = _only(name, [each for each in self.given if _fold(each) == _fold(name)])
        if key is not None:
            value = self.given[key]
            return written(key), open_table(value, **self.options) if isinstance(value, str) else value
        if self.catalog is None:
            return None
        inner = [name[1:]] if len(name) > 1 and name[0].casefold() == self.catalog.name.casefold() else []
        opened = [found for part in (name, *inner) if (found := self._of_catalog(self.catalog, part)) is not None]
        if len(opened) > 1:
            raise _ambiguous(name, [whole for whole, _ in opened])
        return opened[0] if opened else None

    def names(self) -> Iterator[Name]:
        """All names, those of the catalog without its own before them."""
        yield from self.given
        if self.catalog is not None:
            yield from walk(self.catalog)

    def absent(self, name: Name) -> TableNotFoundError:
        """The error about a name that stands for nothing."""
        known = list(self.names())
        near = nearest(name, known) or nearest(name[-1:], [each[-1:] for each in known]) or sorted(known)[:3]
        ends = {each[-1:] for each in near} if near and not set(near) <= set(known) else set()
        shown = [each for each in known if each[-1:] in ends] or list(near)
        hint = f"the nearest are {', '.join(map(written, shown[:3]))}" if shown else "there are no tables at all"
        return TableNotFoundError(f"There is no table {written(name)}; {hint}", cause="NoSuchTable")

    def _of_catalog(self, catalog: Catalog, name: Name) -> tuple[str, Table] | None:
        """The table of exactly that name, else the only one whose name differs in case alone."""
        try:
            return self._opened(catalog, name)
        except TableNotFoundError as error:
            if error.cause not in ("NoSuchTable", "NoSuchNamespace"):
                raise
        alike = _only(name, [each for each in _alike(catalog, name) if each != name])
        return None if alike is None else self._opened(catalog, alike)

    def _opened(self, catalog: Catalog, name: Name) -> tuple[str, Table]:
        table = open_table(written(name), catalog=catalog, **self.options)
        return written((catalog.name, *name)), table


def _only(name: Name, found: Iterable[Name]) -> Name | None:
    """The one of the names that is meant; None: there is none."""
    alike = list(found)
    if name in alike:
        return name
    if len(alike) > 1:
        raise _ambiguous(name, [written(each) for each in alike])
    return alike[0] if alike else None


def _ambiguous(name: Name, found: list[str]) -> AmbiguousTableError:
    return AmbiguousTableError(
        f"Table {written(name)} may be any of {', '.join(sorted(found))}: use the exact spelling",
        cause="AmbiguousName",
    )


def _alike(catalog: Catalog, name: Name) -> list[Name]:
    """The tables whose names differ in case alone."""
    namespaces: list[Name] = [()]
    for part in name[:-1]:
        inner = (each for namespace in namespaces for each in catalog.namespaces(namespace))
        namespaces = [each for each in inner if each[-1].casefold() == part.casefold()]
    return [each for namespace in namespaces for each in catalog.tables(namespace) if _fold(each) == _fold(name)]


def _fold(name: Name) -> Name:
    return tuple(part.casefold() for part in name)
