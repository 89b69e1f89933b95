"""The tables that a connection's SQL can name. They are registered by name or in a catalog."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from harness.engines.duckdb.instance import cursor
from harness.errors import AmbiguousTableError, HarnessError, RequestError, StorageError, TableNotFoundError
from harness.metadata.catalogs.catalog import Catalog, Name, name_text, nearest_names, parse_name, walk
from harness.metadata.catalogs.resolving import AllCatalogs, is_foreign_table, no_catalogs_hint, open_catalog
from harness.metadata.catalogs.warehouse import local_table_hint
from harness.metadata.filters.sqltext import quoted
from harness.metadata.model.arguments import check_options
from harness.metadata.tables.reading import NAMES
from harness.queries.hints import table_not_found
from harness.queries.inputs import is_location
from harness.snapshot import Snapshot
from harness.storage.paths import is_path
from harness.table import Table, open_table

GivenTable: TypeAlias = Table | Snapshot | str
"""A table at one version; a snapshot; or a location, which is opened at each use."""
TableSource: TypeAlias = Catalog | Mapping[str, GivenTable] | str | None
"""The source of a connection's tables: a catalog or its name, tables by name, or all configured catalogs."""


_CANNOT_ASK = ("CatalogMisconfigured", "CatalogClientMissing")


@dataclass(slots=True, kw_only=True)
class NamedTables:
    """Tables by name. Names match regardless of case, as in DuckDB, but the exact spelling is preferred.

    Attributes:
        catalog: The catalog for names that are not registered, or None.
        within: The selected namespace of the catalog, for names of one part.
        registered: Tables by name.
        options: Keyword arguments of `harness.open_table`, for each table that is opened.
    """

    catalog: Catalog | None = None
    within: Name = ()
    registered: dict[Name, GivenTable] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_source(cls, source: TableSource, options: Mapping[str, Any]) -> NamedTables:
        """Return the tables of a catalog or a mapping. See `harness.connect` for arguments and errors."""
        check_options(open_table, options)
        if source is None:
            return cls(catalog=AllCatalogs(), options=options)
        if isinstance(source, Mapping):
            tables = cls(options=options)
            for name, value in source.items():
                tables.register(name, value)
            return tables
        return cls(catalog=open_catalog(source, storage_options=options.get("storage_options")), options=options)

    def description(self) -> str:
        """Return a description of the source, without a request to the catalog."""
        count = len(self.registered)
        tables = f"{count} table{'' if count == 1 else 's'} by name"
        if self.catalog is None:
            return tables
        source = "all configured catalogs" if isinstance(self.catalog, AllCatalogs) else repr(self.catalog.name)
        return f"{source}, {tables}" if count else source

    def register(self, name: str, value: object) -> None:
        """Make a table available by a name. A table that another library opened stays at its version.

        Raises:
            RequestError: The name or the value is invalid.
            HarnessError: As for `harness.open_table`, for a table of another library.
        """
        if is_foreign_table(value):
            value = open_table(value, **self.options)
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, Table | Snapshot | str):
            raise RequestError(f"Invalid table {name!r}: expected a table, a snapshot or a location, got {value!r}")
        self.registered[parse_name(name)] = value

    def open(self, name: Name, *, is_taken: bool = False) -> tuple[str, Table | Snapshot] | None:
        """Return the full name of a table and the table in its present state, or None if there is none.

        Args:
            name: The name.
            is_taken: True if DuckDB has something by that name. The catalog is then searched only if the name begins
                with it.

        Raises:
            AmbiguousTableError: The name may mean several tables.
            HarnessError: As for `harness.open_table`.
        """
        key = _single_match(name, [each for each in self.registered if _fold(each) == _fold(name)])
        if key is not None:
            value = self.registered[key]
            return name_text(key), open_table(value, **self.options) if isinstance(value, str) else value
        if len(name) == 1 and is_location(name[0]):
            return name[0], open_table(name[0], **self.options)
        if self.catalog is None:
            return None
        opened: dict[str, Table] = {}
        for whole in self._possible_names(name, is_taken=is_taken):
            try:
                result = self._open_in_catalog(self.catalog, whole)
            except (StorageError, RequestError) as error:
                is_of_catalog = isinstance(error, StorageError) or error.cause in _CANNOT_ASK
                if is_of_catalog and len(whole) > len(name) > 1:  # the user did not name this catalog
                    error.message = f"Cannot tell whether catalog {whole[0]} has {name_text(name)}: {error.message}"
                raise
            if result is not None:
                opened.setdefault(*result)
        if len(opened) > 1:
            raise _ambiguous_error(name, list(opened))
        return opened.popitem() if opened else None

    def in_namespace(self, name: Name, *, is_taken: bool = False) -> NamedTables:
        """Return the same tables with a namespace of the catalog selected.

        Args:
            name: The namespace. The catalog's own name may come before it.
            is_taken: As for `open`.

        Raises:
            TableNotFoundError: There is no such namespace. The message lists similar names.
            AmbiguousTableError: Several namespaces have that name.
        """
        result: dict[Name, None] = {}
        if self.catalog is not None:
            for whole in self._possible_names(name, is_taken=is_taken, is_namespace=True):
                result |= dict.fromkeys(_namespaces(self.catalog, whole))
        if not result:
            raise self._missing_namespace_error(name)
        exact = [each for each in result if each[-len(name) :] == name and len({*map(_fold, result)}) == 1]
        meant, *others = exact or result
        if others:
            raise _ambiguous_error(name, [self.qualified(each) for each in result], "Namespace")
        return replace(self, within=meant)

    def names(self, *, everywhere: bool = True) -> Iterator[Name]:
        """Yield all names, without the catalog's own name.

        Args:
            everywhere: If False, yield only names in the selected namespace, without the namespace.
        """
        yield from self.registered
        if self.catalog is None:
            return
        if not everywhere and self.within:
            yield from (name[-1:] for name in self.catalog.tables(self.within))
            for inner in self.catalog.namespaces(self.within):
                yield from walk(self.catalog, inner)
        elif isinstance(self.catalog, AllCatalogs):
            yield from self.catalog.all_tables()
        else:
            yield from walk(self.catalog)

    def qualified(self, name: Name) -> str:
        """Return a name in the catalog as text, with the catalog's own name before it."""
        prefix = (self.catalog.name,) if self.catalog is not None and self.catalog.name else ()
        return name_text((*prefix, *name))

    def missing_table_error(self, name: Name) -> TableNotFoundError:
        """Return the error for a name without a table, with similar names."""
        if len(name) == 1 and is_path(name[0]):
            return table_not_found(name[0], ())
        with contextlib.suppress(HarnessError):
            result = self.open(name[:-1]) if len(name) > 1 else None
            if result is not None:
                whole, table = result
                names = ", ".join(NAMES[(table if isinstance(table, Table) else table._source).format])
                return TableNotFoundError(
                    f"There is no table {name_text(name)}; the metadata tables of {whole} are {names}",
                    cause="NoSuchTable",
                )
        candidates: list[Name] = []
        if isinstance(self.catalog, AllCatalogs) and len(name) > 1 and name[0].lower() in self.catalog.catalogs:
            with contextlib.suppress(StorageError):  # some users may read tables but not list them
                candidates += walk(self.catalog, (name[0].lower(),))
        else:
            candidates += self.names()
        near = (
            nearest_names(name, candidates)
            or nearest_names(name[-1:], [each[-1:] for each in candidates])
            or sorted(candidates)[:3]
        )
        ends = {each[-1:] for each in near} if near and not set(near) <= set(candidates) else set()
        suggestions = [each for each in candidates if each[-1:] in ends] or list(near)
        near_names = (
            f"the nearest are {', '.join(map(in_sql, suggestions[:3]))}" if suggestions else self._empty_hint("tables")
        )
        hint = local_table_hint(name) or near_names
        return TableNotFoundError(f"There is no table {name_text(name)}; {hint}", cause="NoSuchTable")

    def _open_in_catalog(self, catalog: Catalog, name: Name) -> tuple[str, Table] | None:
        """Open the table with exactly that name, or else the only table whose name differs only in case."""
        try:
            return self._open_exact(catalog, name)
        except TableNotFoundError as error:
            if error.cause not in ("NoSuchTable", "NoSuchNamespace"):
                raise
        namespaces = _namespaces(catalog, name[:-1])
        candidates = [each for namespace in namespaces for each in catalog.tables(namespace)]
        table_name = _single_match(name, [each for each in candidates if _fold(each) == _fold(name) and each != name])
        return None if table_name is None else self._open_exact(catalog, table_name)

    def _open_exact(self, catalog: Catalog, name: Name) -> tuple[str, Table]:
        return self.qualified(name), open_table(name_text(name), catalog=catalog, **self.options)

    def _possible_names(self, name: Name, *, is_taken: bool = False, is_namespace: bool = False) -> list[Name]:
        """Return the names in the catalog that a name may mean. If there are several catalogs, it may omit its own."""
        assert self.catalog is not None
        if len(name) == 1 and not is_namespace:
            return [(*self.within, *name)]
        inner = [name[1:]] if name[0].casefold() == self.catalog.name.casefold() else []
        fronts: tuple[str, ...] = ()
        if isinstance(self.catalog, AllCatalogs) and self.within:
            fronts = self.within[:1]
        elif isinstance(self.catalog, AllCatalogs) and not is_taken and name[0].lower() not in self.catalog.catalogs:
            fronts = self.catalog.default_catalogs()
        return [name, *inner, *((front, *name) for front in fronts)]

    def _empty_hint(self, what: str) -> str:
        is_configured = not isinstance(self.catalog, AllCatalogs) or self.catalog.catalogs
        return (
            f"there are no {what} at all" if is_configured else f"write a table's path in quotes; {no_catalogs_hint()}"
        )

    def _missing_namespace_error(self, name: Name) -> TableNotFoundError:
        candidates: list[Name] = []
        if self.catalog is not None:
            candidates += self.catalog.namespaces()
            with contextlib.suppress(HarnessError):  # a different catalog may be unreachable
                candidates += [inner for each in tuple(candidates) for inner in self.catalog.namespaces(each)]
        near = nearest_names(name, candidates) or nearest_names(name[-1:], candidates) or candidates[:3]
        hint = f"the nearest are {', '.join(map(in_sql, near))}" if near else self._empty_hint("namespaces")
        return TableNotFoundError(f"There is no namespace {name_text(name)}; {hint}", cause="NoSuchNamespace")


def _single_match(name: Name, names: Iterable[Name]) -> Name | None:
    """Return the exact name, or else the only name, or None if there are no names.

    Raises:
        AmbiguousTableError: There are several names, and none of them is the exact name.
    """
    matches = list(names)
    if name in matches:
        return name
    if len(matches) > 1:
        raise _ambiguous_error(name, [name_text(each) for each in matches])
    return matches[0] if matches else None


def _ambiguous_error(name: Name, candidates: list[str], what: str = "Table") -> AmbiguousTableError:
    is_case = len({each.casefold() for each in candidates}) == 1
    way = "use the exact spelling" if is_case else "write its full name"
    return AmbiguousTableError(
        f"{what} {name_text(name)} may be any of {', '.join(sorted(candidates))}: {way}", cause="AmbiguousName"
    )


def _namespaces(catalog: Catalog, name: Name) -> list[Name]:
    """Return the namespaces of that name, regardless of case."""
    result: list[Name] = [()]
    for part in name:
        inner = (each for namespace in result for each in catalog.namespaces(namespace))
        result = [each for each in inner if each[-1].casefold() == part.casefold()]
    return result


def _fold(name: Name) -> Name:
    return tuple(part.casefold() for part in name)


_PLAIN = re.compile(r"[^\W\d]\w*")


def in_sql(name: Name) -> str:
    """Return a name in SQL syntax, like `sales."a-b"` or `"select".orders`."""
    return ".".join(
        part if _PLAIN.fullmatch(part) and part.lower() not in _reserved_words() else quoted(part) for part in name
    )


@cache
def _reserved_words() -> frozenset[str]:
    """Return the words that DuckDB accepts as names only in quotes."""
    with cursor() as duckdb_cursor:
        rows = duckdb_cursor.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return frozenset(word for (word,) in rows.fetchall())
