"""Catalogs as harness sees them: names, and the place of the table of each name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from harness.errors import RequestError, StorageError, TableNotFoundError
from harness.storage.paths import canonical_path, redact
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.storage.renewal import ExpiringOptions, Renewal

# Names of tables and namespaces: the parts of `sales.orders`, and how they are written.


Name: TypeAlias = tuple[str, ...]
"""The parts of a table's or namespace's name, outermost first; without the catalog's own. Empty: the root."""

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_BARE = re.compile(r"[^\W\d][\w$-]*")
_NEAR = 3


def parse_name(text: str | Name) -> Name:
    """The parts of a dotted name: `sales.orders`, and `sales."a.b"` where a part has a dot itself; parts stay as given.

    Raises RequestError: a part is empty, or a quote is not closed.
    """
    if not isinstance(text, str | tuple):
        raise RequestError(f"Invalid name {text!r:.80}: expected text such as sales.orders")
    if isinstance(text, tuple):
        return text
    if not _NAME.fullmatch(text):
        raise RequestError(f"Invalid name {text!r}: expected parts with dots between, such as sales.orders")
    return tuple(bare or quoted.replace('""', '"') for quoted, bare in _PART.findall(text))


def name_text(name: Name) -> str:
    """A name as text that `parse_name` reads."""
    return ".".join(part if _BARE.fullmatch(part) else '"{}"'.format(part.replace('"', '""')) for part in name)


def nearest_names(name: Name, known: Iterable[Name]) -> tuple[Name, ...]:
    """Up to three of the known names that are most like a name, the nearest first."""
    import difflib  # most names are there

    by_text = {name_text(each).lower(): each for each in known}
    found = difflib.get_close_matches(name_text(name).lower(), by_text, _NEAR, 0.5)
    return tuple(by_text[text] for text in found)


LARGEST_ANSWER = 64 << 20
"""Bytes of a server's answer, after decompression."""
MOST_PAGES = 10_000
_Item = TypeVar("_Item")


def read_pages(catalog: str, what: str, ask: Callable[[str | None], tuple[Iterable[_Item], str | None]]) -> list[_Item]:
    """Return the items of all pages of a listing.

    Args:
        catalog: the catalog's name, for messages.
        what: the items in the plural, such as `tables`.
        ask: given the token of a page, None for the first page, returns the items of the page and the token of the next
            page. The last page has none, or an empty one.

    Raises:
        StorageError: the listing does not end: a token comes again, or there are more than 10,000 pages.
    """
    found: list[_Item] = []
    token: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        items, token = ask(token)
        found += items
        if not token:
            return found
        if token in seen:
            break
        seen.add(token)
    raise StorageError(f"Catalog {catalog} gave pages of {what} that do not end", cause="CatalogAnswer")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a store, as a catalog's server names it.

    has_credentials: whether the server gives credentials for it too, or has nothing signed.
    """

    address: str
    has_credentials: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A catalog's answer about a table.

    name: in the catalog. location: the table's directory, a local path or a URI.
    metadata_location: the current metadata file of an Iceberg table; None: `location` tells.
    version: the current version of a Delta table; None: the latest. format: `iceberg` or `delta`, if it is known.
    storage_options: as for `harness.open_table`, with the credentials that the catalog vends. Options under the name of
        another store go there only where the user allows to read it.
    endpoints: by store, the address that the catalog's server names. Only credentials that the server gives go there.
    within: the user's directory that the table was found in; links out of it are held against the roots.
    expires_ms: the end of the credentials, milliseconds since 1970-01-01 UTC; None: never, or not known.
    renew: asks the catalog anew for `storage_options` and `expires_ms`.
    options: further arguments of `harness.open_table`.
    """

    catalog: str
    name: Name
    location: str
    metadata_location: str | None = None
    version: int | None = None
    format: str | None = None
    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    within: str | None = None
    expires_ms: int | None = None
    renew: Callable[[], TableLocation] | None = field(default=None, repr=False, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"TableLocation({self.qualified!r}, {redact(self.metadata_location or self.location)!r})"

    @property
    def qualified(self) -> str:
        """The name with the catalog's before it, as text."""
        return name_text((self.catalog, *self.name))

    def store_options(self, own: Mapping[str, object], roots: Iterable[str]) -> dict[str, object]:
        """The storage options for the table's store, and for the stores that the user allows to read.

        own: the caller's, which go before the catalog's. roots: of the paths that the caller allows to read.

        Raises RequestError: the address of a store is the server's, and the credentials for it are not; or an option of
        the store is none.
        """
        stores = {canonical_path(root).store for root in roots}
        given = {key: value for key, value in self.storage_options.items() if "://" not in key or key in stores}
        found = {**given, **own}
        home = canonical_path(self.metadata_location or self.location).store
        for store, named in self.endpoints.items():
            from harness.storage import object_client
            from harness.storage.option_names import CREDENTIALS

            def of_store(options: Mapping[str, Any], store: str = store) -> dict[str, str]:
                plain = {key: value for key, value in options.items() if "://" not in key}
                return object_client.explicit_options(store, options.get(store, plain if store == home else {}))

            said, mine = of_store(found), of_store(own)
            is_lent = named.has_credentials and CREDENTIALS.isdisjoint(mine)
            is_elsewhere = object_client.endpoint(store, said) != named.address
            if is_lent or is_elsewhere or said.get("anonymous") == "true":
                continue
            # The user may name the address too, to the call or in a configuration file.
            by_user = (mine, object_client.bucket_options(store, {}))
            if named.address not in [object_client.endpoint(store, options) for options in by_user]:
                message = (
                    f"Cannot read the table: its catalog names {redact(named.address)} as the address of "
                    f"{redact(store)}, and credentials that the catalog did not give are not sent there; name the "
                    "address yourself, such as s3.endpoint for the catalog or endpoint in storage_options"
                )
                raise RequestError(message, cause="CatalogDenied", table=self.qualified, options=("storage_options",))
        return found


def renewal_of(located: TableLocation, own: Mapping[str, object], roots: Iterable[str]) -> Renewal | None:
    """Return the renewal of storage options that end, or None if they do not end. `own`, `roots`: as for `store_options`."""
    from harness.storage.renewal import Renewal

    def lease(answer: TableLocation) -> ExpiringOptions:
        return answer.store_options(own, roots), answer.expires_ms

    renew = located.renew
    if renew is None or located.expires_ms is None:
        return None
    return Renewal(located.store_options(own, roots), located.expires_ms, lambda: lease(renew()))


@runtime_checkable
class Catalog(Protocol):
    """Finds tables by name. Nothing is remembered.

    All raise StorageError where the catalog does not answer, and TableNotFoundError for names that it does not have.
    """

    @property
    def name(self) -> str:
        """The user's name for the catalog: the first part of qualified names."""

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """The namespaces directly in `parent`, whole names, sorted."""

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """The tables directly in a namespace, whole names, sorted."""

    def locate(self, name: Name) -> TableLocation:
        """The place of a table, and the credentials that the catalog vends for its store.

        Raises TableNotFoundError: the message has the nearest names; IsAViewError: the name is a view's;
        AmbiguousTableError: several tables have it; UnsupportedError: the table's format is not read.
        """


def walk(catalog: Catalog, namespace: Name = ()) -> Iterator[Name]:
    """All tables in a namespace and below it."""
    for each in walk_namespaces(catalog, namespace):
        yield from catalog.tables(each)


def walk_namespaces(catalog: Catalog, namespace: Name = ()) -> Iterator[Name]:
    """Return a namespace and all namespaces below it."""
    yield namespace
    for inner in catalog.namespaces(namespace):
        yield from walk_namespaces(catalog, inner)


def missing_table_error(catalog: Catalog, name: Name) -> TableNotFoundError:
    """The error about a table that a catalog does not have, which may lack its namespace too."""
    try:
        return missing_namespace_error(catalog, name[:-1]) or _missing_error(
            catalog, "table", name, catalog.tables(name[:-1])
        )
    except StorageError:  # who may read tables may not always list them
        return _missing_error(catalog, "table", name, None)


def missing_namespace_error(catalog: Catalog, namespace: Name) -> TableNotFoundError | None:
    """The error about the outermost namespace that a catalog does not have; None: it has all."""
    for depth in range(1, len(namespace) + 1):
        inner = catalog.namespaces(namespace[: depth - 1])
        # A catalog may list no outer namespaces of a namespace that holds tables.
        if namespace[:depth] not in inner and not (depth == len(namespace) and catalog.tables(namespace)):
            return _missing_error(catalog, "namespace", namespace[:depth], inner)
    return None


def _missing_error(catalog: Catalog, what: str, name: Name, known: tuple[Name, ...] | None) -> TableNotFoundError:
    """known: the names that the catalog has; None: it lists none."""
    hint = "it does not list what it has"
    if known is not None:
        near = nearest_names(name, known) or known[:3]
        hint = f"the nearest are {', '.join(map(name_text, near))}" if near else "it holds none at all"
    return TableNotFoundError(
        f"Cannot find a table: catalog {catalog.name} has no {what} {name_text(name)}; {hint}",
        cause="NoSuchTable" if what == "table" else "NoSuchNamespace",
        table=name_text((catalog.name, *name)),
    )
