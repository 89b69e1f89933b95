"""The interface of catalogs: names, and the location of each named table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from harness.errors import RequestError, StorageError, TableNotFoundError
from harness.storage.paths import canonical_path, redact
from harness.storage.records import dataclass
from harness.storage.scoped_options import Owners, options_at, overridden

if TYPE_CHECKING:
    from harness.metadata.iceberg.server.protocol import Credential, Transport
    from harness.storage.renewal import ExpiringOptions, Renewal


Name: TypeAlias = tuple[str, ...]
"""The parts of a table's or namespace's name, outermost first, without the name of the catalog. Empty: the root."""

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_BARE = re.compile(r"[^\W\d][\w$-]*")
_NEAR = 3


def parse_name(text: str | Name) -> Name:
    """Return the parts of a dotted name.

    For example, `sales.orders` has 2 parts, and so has `sales."a.b"`, where quotes enclose a part with a dot. A tuple
    is returned unchanged.

    Raises:
        RequestError: A part is empty, or a quote is not closed.
    """
    if not isinstance(text, str | tuple):
        raise RequestError(f"Invalid name {text!r:.80}: expected text such as sales.orders")
    if isinstance(text, tuple):
        return text
    if not _NAME.fullmatch(text):
        raise RequestError(f"Invalid name {text!r}: expected parts with dots between, such as sales.orders")
    return tuple(bare or quoted.replace('""', '"') for quoted, bare in _PART.findall(text))


def name_text(name: Name) -> str:
    """Return a name as text that `parse_name` can read."""
    return ".".join(part if _BARE.fullmatch(part) else '"{}"'.format(part.replace('"', '""')) for part in name)


def nearest_names(name: Name, candidates: Iterable[Name]) -> tuple[Name, ...]:
    """Return up to 3 of the candidates that are similar to a name, the most similar first."""
    import difflib  # usually not needed, because the name exists

    by_text = {name_text(candidate).lower(): candidate for candidate in candidates}
    similar = difflib.get_close_matches(name_text(name).lower(), by_text, _NEAR, 0.5)
    return tuple(by_text[text] for text in similar)


LARGEST_ANSWER = 64 << 20
"""The maximum size of a server's answer after decompression, in bytes."""
MOST_PAGES = 10_000
_Item = TypeVar("_Item")


def read_pages(catalog: str, what: str, ask: Callable[[str | None], tuple[Iterable[_Item], str | None]]) -> list[_Item]:
    """Return the items of all pages of a listing.

    Args:
        catalog: The catalog's name, for messages.
        what: The items in the plural, for example `tables`.
        ask: A function from the token of a page (None for the first page) to the items of the page and the token of the
            next page. After the last page, the token is None or empty.

    Raises:
        StorageError: The listing does not end: a token is repeated, or there are more than 10,000 pages.
    """
    all_items: list[_Item] = []
    token: str | None = None
    tokens: set[str] = set()
    for _ in range(MOST_PAGES):
        items, token = ask(token)
        all_items += items
        if not token:
            return all_items
        if token in tokens:
            break
        tokens.add(token)
    raise StorageError(f"Catalog {catalog} returned an endless list of {what}", cause="CatalogAnswer")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a store, as named by a catalog's server.

    Attributes:
        address: The address.
        has_credentials: True if the server also provides the credentials for it, or requests need no signature.
    """

    address: str
    has_credentials: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServer:
    """The server of an Iceberg REST catalog, for one table.

    Attributes:
        transport: The connection to the server.
        mode: Who plans scans of the table, as the server says for the table or else for the catalog: `client`,
            `server`, or None.
        metadata: Returns the metadata of the table as JSON, with all of its snapshots, as the server sends it.
        located: Returns the location of the table with the credentials of a plan instead of those of the table. The
            second argument is the paths of the plan's files.
    """

    transport: Transport
    mode: str | None
    metadata: Callable[[], bytes] = field(repr=False)
    located: Callable[[Sequence[Credential], Sequence[str]], TableLocation] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A catalog's answer about a table.

    Attributes:
        catalog: The name of the catalog.
        name: The name of the table in the catalog.
        location: The table's directory, a local path or a URI.
        metadata_location: The current metadata file of an Iceberg table. None: it is found in `location`.
        version: The current version of a Delta table. None: the latest.
        format: `iceberg` or `delta`. None: unknown.
        storage_options: Storage options as for `harness.open_table`, including credentials that the catalog provides.
            Options under a URI hold for the paths that start with it, see `harness.storage.scoped_options`. Those of
            another store are only used if the user allows reading from it.
        endpoints: The addresses that the catalog's server names, by store or by another URI as in `storage_options`.
            Only credentials from the server are sent there.
        within: The user's directory that contains the table. Links that lead out of it are checked against the allowed
            roots.
        expires_ms: The expiration time of the credentials, in milliseconds since 1970-01-01 UTC. None: never, or
            unknown.
        renew: Requests new `storage_options` and `expires_ms` from the catalog.
        options: Further arguments of `harness.open_table`.
        server: The server of the catalog, which may plan scans. None: the catalog has no server for Iceberg tables.
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
    server: TableServer | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"TableLocation({self.qualified!r}, {redact(self.metadata_location or self.location)!r})"

    @property
    def qualified(self) -> str:
        """The name with the catalog's name before it, as text."""
        return name_text((self.catalog, *self.name))

    @property
    def store(self) -> str:
        """The store of the table, to which plain `storage_options` apply."""
        return canonical_path(self.metadata_location or self.location).store

    def store_options(
        self, caller_options: Mapping[str, object], roots: Iterable[str], paths: Collection[str] | None = None
    ) -> dict[str, object]:
        """Return the storage options for the table's store, and for other stores that the user allows to read.

        Args:
            caller_options: The caller's options, which override the catalog's.
            roots: The paths that the caller allows to read.
            paths: The paths that are read with the options. None: any.

        Raises:
            RequestError: The server named the address of a store but did not provide the credentials for it, or an
                option of the store is invalid.
        """
        stores = {self.store, *(canonical_path(root).store for root in roots)}
        allowed = {
            key: value
            for key, value in self.storage_options.items()
            if "://" not in key or canonical_path(key).store in stores
        }
        merged = overridden(allowed, caller_options, self.store)
        if not self.endpoints:
            return merged
        # A server may lend credentials, and name an address, for many prefixes.
        sources = [(options, Owners(options)) for options in (merged, caller_options)]
        owners = Owners((*self.endpoints, *merged))
        used = None if paths is None else {owners.of(path) for path in paths}
        for place, endpoint in self.endpoints.items():
            from harness.storage import object_client
            from harness.storage.option_names import CREDENTIALS

            effective, from_caller = (
                object_client.explicit_options(place, options_at(place, options, {self.store}, owners_of_options))
                for options, owners_of_options in sources
            )
            is_lent = endpoint.has_credentials and CREDENTIALS.isdisjoint(from_caller)
            is_elsewhere = object_client.endpoint(place, effective) != endpoint.address
            if is_lent or is_elsewhere or effective.get("anonymous") == "true":
                continue
            # The user may also name the address, in the call or in a configuration file.
            by_user = (from_caller, object_client.bucket_options(place, {}))
            if endpoint.address in [object_client.endpoint(place, options) for options in by_user]:
                continue
            if used is None or place in used:
                message = (
                    f"Cannot read the table: its catalog names {redact(endpoint.address)} as the address of "
                    f"{redact(place)}, and only credentials from the catalog are sent there. To send your own, set the "
                    "address yourself: s3.endpoint for the catalog, or endpoint in storage_options"
                )
                raise RequestError(message, cause="CatalogDenied", table=self.qualified, options=("storage_options",))
        return merged


def renewal_of(
    located: TableLocation,
    caller_options: Mapping[str, object],
    roots: Iterable[str],
    paths: Collection[str] | None = None,
) -> Renewal | None:
    """Return the renewal of storage options that expire, or None if they do not expire.

    Args:
        located: The catalog's answer.
        caller_options: The caller's options, as for `TableLocation.store_options`.
        roots: The paths that the caller allows to read.
        paths: The paths that are read with the options. None: any.
    """
    from harness.storage.renewal import Renewal

    renew = located.renew
    if renew is None or located.expires_ms is None:
        return None

    def ask() -> ExpiringOptions:
        nonlocal renew
        assert renew is not None
        answer = renew()
        renew = answer.renew or renew
        return answer.store_options(caller_options, roots, paths), answer.expires_ms

    return Renewal(located.store_options(caller_options, roots, paths), located.expires_ms, ask, located.qualified)


@runtime_checkable
class Catalog(Protocol):
    """A protocol for finding tables by name. Implementations do not cache tables.

    All methods raise StorageError if the catalog does not answer, and TableNotFoundError for unknown names.
    """

    @property
    def name(self) -> str:
        """The user's name for the catalog, which is the first part of qualified names."""

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the namespaces directly in a namespace, as whole names, sorted.

        Args:
            parent: The name of the namespace. Empty: the root.
        """

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the tables directly in a namespace, as whole names, sorted.

        Args:
            namespace: The name of the namespace. Empty: the root.
        """

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table, and the credentials that the catalog provides for its store.

        Args:
            name: The name of the table, without the name of the catalog.

        Raises:
            TableNotFoundError: The table does not exist. The message names similar tables.
            IsAViewError: The name belongs to a view.
            AmbiguousTableError: Several tables have this name.
            UnsupportedError: Harness does not read the table's format.
        """


def walk(catalog: Catalog, namespace: Name = ()) -> Iterator[Name]:
    """Yield all tables in a namespace and below it."""
    for each in walk_namespaces(catalog, namespace):
        yield from catalog.tables(each)


def walk_namespaces(catalog: Catalog, namespace: Name = ()) -> Iterator[Name]:
    """Yield a namespace and all namespaces below it."""
    yield namespace
    for inner in catalog.namespaces(namespace):
        yield from walk_namespaces(catalog, inner)


def missing_table_error(catalog: Catalog, name: Name) -> TableNotFoundError:
    """Return the error for a table that a catalog does not have.

    If its namespace is missing too, the error names the namespace.
    """
    try:
        return missing_namespace_error(catalog, name[:-1]) or _missing_error(
            catalog, "table", name, catalog.tables(name[:-1])
        )
    except StorageError:  # a user who may read tables may not be allowed to list them
        return _missing_error(catalog, "table", name, None)


def missing_namespace_error(catalog: Catalog, namespace: Name) -> TableNotFoundError | None:
    """Return the error for the outermost missing namespace, or None if all namespaces of the name exist."""
    for depth in range(1, len(namespace) + 1):
        inner = catalog.namespaces(namespace[: depth - 1])
        # Some catalogs do not list the outer namespaces of a namespace that contains tables.
        if namespace[:depth] not in inner and not (depth == len(namespace) and catalog.tables(namespace)):
            return _missing_error(catalog, "namespace", namespace[:depth], inner)
    return None


def _missing_error(catalog: Catalog, kind: str, name: Name, existing: tuple[Name, ...] | None) -> TableNotFoundError:
    """Return the error for a missing name.

    `existing` are the names that the catalog has, or None if it cannot list them.
    """
    hint = "it does not list its contents"
    if existing is not None:
        nearest = nearest_names(name, existing) or existing[:3]
        hint = f"the nearest are {', '.join(map(name_text, nearest))}" if nearest else "it has none"
    return TableNotFoundError(
        f"Cannot find a table: catalog {catalog.name} has no {kind} {name_text(name)}; {hint}",
        cause="NoSuchTable" if kind == "table" else "NoSuchNamespace",
        table=name_text((catalog.name, *name)),
    )
