"""The location of a table and its storage options, from the properties in the answers of a catalog's server.

PyIceberg's names of properties, for example `s3.endpoint`, are translated to the names of fsspec's file systems. A
server may lend credentials for the paths below a prefix. These credentials are used only for these paths, and only as a
unit: they are never combined with parts of other credentials that the server or the user has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import RequestError, StorageError, UnsupportedError
from harness.metadata.catalogs.catalog import Endpoint, Name, TableLocation
from harness.metadata.catalogs.pyiceberg_answers import Answer
from harness.storage import object_client
from harness.storage.gate import metadata_root
from harness.storage.object_options import has_credentials
from harness.storage.paths import canonical_path, redact
from harness.storage.scoped_options import Owners, options_at

if TYPE_CHECKING:
    from harness.metadata.catalogs.catalog import Catalog
    from harness.metadata.iceberg.server.protocol import Credential

_ADLS = "connection-string account-name account-key account-host sas-token tenant-id client-id client-secret token anon"
_OPTION_NAMES = {
    "s3": {
        "endpoint": "endpoint_url",
        "access-key-id": "key",
        "secret-access-key": "secret",
        "session-token": "token",
        "anonymous": "anon",
        "profile-name": "profile",
        "region": "client_kwargs.region_name",
        "force-virtual-addressing": "config_kwargs.s3.addressing_style",
    },
    "gcs": {"oauth2.token": "token", "project-id": "project", "service.host": "endpoint_url"},
    "adls": {name: name.replace("-", "_") for name in _ADLS.split()},
}
"""PyIceberg's option names and their names in fsspec's file systems, by kind of store. A dot separates nested keys."""
_OF_CLIENT = ("region", "access-key-id", "secret-access-key", "session-token", "profile-name")
_PATH_STYLE = "s3.path-style-access"
"""Java's property for the opposite of `s3.force-virtual-addressing`."""
_SAS = "adls.sas-token"
_EXPIRY = re.compile(
    r"s3\.session-token-expires-at-ms|gcs\.oauth2\.token-expires-at|adls\.sas-token-expires-at-ms(?:\..+)?"
)
_TIME = re.compile(r"[0-9]{1,19}")
_FAMILIES = {"s3": "s3", "gcs": "gcs", "abfs": "adls"}
_CREDENTIAL = re.compile(
    r"(s3|client)\.(?:access-key-id|secret-access-key|session-token|profile-name)|(gcs)\.oauth2\.token"
    r"|(adls)\.(?:connection-string|account-key|sas-token(?:\..+)?|tenant-id|client-id|client-secret|token)"
)


def _family(store: str) -> str | None:
    """Return the kind of a store as property names write it, or None if no properties exist for this kind."""
    return _FAMILIES.get(store.partition("://")[0])


def options_of(properties: Mapping[str, object], location: str) -> dict[str, object]:
    """Return the options for one store according to its kind, or an empty dictionary for local files."""
    store = canonical_path(location).store
    family = _family(store)
    if family is None:
        return {}
    values = {key: value for key, value in properties.items() if value is not None}
    if family == "s3":
        for name in _OF_CLIENT:
            if f"client.{name}" in values:
                values.setdefault(f"s3.{name}", values[f"client.{name}"])
        if _PATH_STYLE in values:
            values.setdefault("s3.force-virtual-addressing", not _is_true(values[_PATH_STYLE]))
    if family == "adls":
        account = store.rpartition("@")[2].partition(".")[0]
        tokens = (value for key, value in values.items() if key.startswith(f"{_SAS}.{account}"))
        values.setdefault(_SAS, next(tokens, None))
        values.setdefault("adls.account-name", account if "@" in store else None)
    options: dict[str, Any] = {}
    for name, option in _OPTION_NAMES[family].items():
        value = values.get(f"{family}.{name}")
        if value is not None:
            inner = options
            *outer, last = option.split(".")
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[last] = _VALUES.get(f"{family}.{name}", str)(value)
    return options


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


_VALUES: dict[str, Callable[[Any], object]] = {
    "s3.anonymous": _is_true,
    "adls.anon": _is_true,
    "s3.force-virtual-addressing": lambda value: "virtual" if _is_true(value) else "path",
}
"""Conversions of values for fsspec, by PyIceberg's name. All other values are converted to text."""


def expires_ms(properties: Mapping[str, object]) -> int | None:
    """Return when the first credentials expire, in milliseconds since 1970-01-01 UTC, or None if unknown."""
    times = [str(value) for key, value in properties.items() if _EXPIRY.fullmatch(key)]
    return min((int(time) for time in times if _TIME.fullmatch(time)), default=None)


class Prefixes:
    """The path prefixes that a server lends properties for.

    A prefix without `://` is the start of a scheme, for example `s3`. It is only used if no longer prefix matches.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        prefixes = tuple(prefixes)
        self._owners = Owners(prefixes)
        self._schemes = sorted((each for each in prefixes if "://" not in each), key=len, reverse=True)

    def of(self, path: str) -> str | None:
        """Return the longest prefix of a path, or None if no prefix matches."""
        return self._owners.of(path) or next((each for each in self._schemes if path.startswith(each)), None)


def _credential_family(key: str) -> str | None:
    """Return the kind of store that a credential property belongs to, or None if the property is not a credential."""
    return key.partition(".")[0].replace("client", "s3") if _CREDENTIAL.fullmatch(key) else None


def _vended(path: str, vended: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the properties of the longest prefix of a path, or an empty mapping if no prefix matches."""
    prefix = Prefixes(vended).of(path)
    return {} if prefix is None else vended[prefix]


def _store(path: str) -> str:
    return canonical_path(path).store


@dataclass(frozen=True, slots=True)
class _Place:
    """A store, or the paths below a prefix.

    Attributes:
        path: A path in the store or below the prefix.
        lent: The properties that the server lends for these paths.
    """

    path: str
    lent: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Properties:
    """The properties for a path, from all sources.

    Attributes:
        of_catalog: The merged properties of the catalog, from the user and the server.
        of_user: The properties that the user configured.
        of_table: The properties in the answer about the table.
    """

    of_catalog: Mapping[str, Any] = field(repr=False)
    of_user: Mapping[str, Any] = field(repr=False)
    of_table: Mapping[str, Any] = field(repr=False)

    def options(self, place: _Place) -> dict[str, object]:
        """Return the storage options for a place."""
        of_server = self._of_server(place)
        # Credentials are used as a unit: a part of the user's key is not combined with a part of the server's key.
        families = {_credential_family(key) for key in of_server} - {None}
        of_user = {key: value for key, value in self.of_user.items() if _credential_family(key) not in families}
        return options_of(of_user | of_server, place.path)

    def endpoint(self, place: _Place) -> Endpoint | None:
        """Return the store's address if the server names an address that the user did not configure, or else None."""
        of_server = _canonical_of_server(place.path, self._of_server(place))
        of_user = object_client.explicit_options(place.path, options_of(self.of_user, place.path))
        address = object_client.endpoint(_store(place.path), of_server)
        if address is None or address == object_client.endpoint(_store(place.path), of_user):
            return None
        return Endpoint(address, has_credentials(of_server))

    def expires_ms(self, place: _Place) -> int | None:
        """Return when the credentials for a place expire, see `expires_ms`.

        Credentials of the catalog do not count, because they are not renewed.
        """
        return expires_ms(_lending(self.of_table, place))

    def _of_server(self, place: _Place) -> dict[str, Any]:
        properties = _lending({**self.of_catalog, **self.of_table}, place)
        # A server must not choose among the AWS profiles of this machine.
        return {
            key: value
            for key, value in properties.items()
            if value != self.of_user.get(key) and not key.endswith(".profile-name")
        }


def _canonical_of_server(path: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the options in the server's properties by canonical name. Raise StorageError if one is invalid."""
    try:
        return object_client.explicit_options(path, options_of(properties, path))
    except RequestError as error:
        reason = error.message.partition(": ")[2]
        message = f"The catalog's answer is invalid: its properties for {redact(path)} have an error: {reason}"
        raise StorageError(message, cause="CatalogAnswer") from error


def _lending(properties: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    """Return properties, updated with the properties lent for a place.

    If the lent properties contain whole credentials, they replace all other credentials for this kind of store.
    """
    lent = {key: value for key, value in place.lent.items() if not key.endswith(".profile-name")}
    if has_credentials(_canonical_of_server(place.path, lent)):
        families = {_credential_family(key) for key in lent} - {None}
        properties = {
            key: value
            for key, value in properties.items()
            if _credential_family(key) not in families and not _EXPIRY.fullmatch(key)
        }
    return {**properties, **lent}


def table_location(
    catalog: Catalog,
    name: Name,
    answer: Answer,
    *,
    properties: Mapping[str, Any],
    user_properties: Mapping[str, Any],
    lent: Sequence[Credential] = (),
    paths: Iterable[str] = (),
) -> TableLocation:
    """Return the answer of a catalog about a table as a location with storage options.

    Args:
        catalog: The catalog.
        name: The name of the table in the catalog.
        answer: The answer.
        properties: The merged properties of the catalog, from the user and the server.
        user_properties: The properties that the user configured. All others come from the server.
        lent: The credentials of a plan, which take precedence over the credentials in the answer.
        paths: The physical paths of the plan's files.

    Raises:
        UnsupportedError: The answer does not name the location of the table.
        StorageError: A property of the server has an invalid value.
        RequestError: A property of the user has an invalid value.
    """
    metadata = answer.metadata_location
    location = answer.location or (None if metadata is None else metadata_root(metadata))
    if location is None:
        raise UnsupportedError("Cannot read a table whose catalog does not name its location")
    home = metadata or location
    sources = _Properties(properties, user_properties, answer.properties)
    examples = {canonical_path(path).store: path for path in (*answer.places, location, home)}
    stores = {store: path for store, path in examples.items() if _family(store) is not None}
    whole = {store: _Place(path, _vended(path, answer.vended)) for store, path in stores.items()}
    by_prefix = _by_prefix(answer.vended, stores)
    # Options are scoped to prefixes only in stores that have different options for some prefix.
    differs = {key: sources.options(place) != sources.options(whole[_store(key)]) for key, place in by_prefix.items()}
    varied = {_store(key) for key, is_other in differs.items() if is_other}
    scoped = {key: place for key, place in by_prefix.items() if _store(key) in varied}
    if lent:
        vended = {each.prefix: each.config for each in lent}
        bases = {"/".join(path.split("/", 3)[:3]) for path in paths}
        stores = {_store(base): base for base in bases if _family(_store(base)) is not None} | stores
        prefixes = Prefixes(vended)
        by_prefix, scoped = (
            {key: place for key, place in places.items() if prefixes.of(key) is None} for places in (by_prefix, scoped)
        )
        scoped |= _by_prefix(vended, stores)
    others = {store: options for store, place in whole.items() if (options := sources.options(place))}
    plain = others.pop(_store(home), {})
    served = {**whole, **scoped}
    ends = [end for place in {**by_prefix, **served}.values() if (end := sources.expires_ms(place)) is not None]
    return TableLocation(
        catalog=catalog.name,
        name=name,
        location=location,
        metadata_location=metadata,
        format=answer.format,
        storage_options={**plain, **others, **{key: sources.options(place) for key, place in scoped.items()}},
        endpoints={key: named for key, place in served.items() if (named := sources.endpoint(place)) is not None},
        expires_ms=min(ends, default=None),
        renew=(lambda: catalog.locate(name)) if ends else None,
    )


def is_lent(located: TableLocation, path: str) -> bool:
    """Return whether a location has credentials for a path. Paths outside object stores need no credentials."""
    if _family(_store(path)) is None:
        return True
    options = options_at(path, located.storage_options, {located.store})
    return has_credentials(object_client.explicit_options(path, options))


def _by_prefix(vended: Mapping[str, Mapping[str, Any]], stores: Mapping[str, str]) -> dict[str, _Place]:
    """Return the lent properties by the URI of their prefix.

    Args:
        vended: The properties by prefix. A prefix of a scheme becomes the URI of each store with this scheme.
        stores: The stores, each with a path in the store.
    """
    places: dict[str, _Place] = {}
    for prefix in sorted(vended, key=len):  # if several prefixes have the same URI, the longest is used
        if "://" in prefix and canonical_path(prefix).path:
            if _store(prefix) in stores:
                places[prefix] = _Place(prefix, vended[prefix])
            continue
        for store, path in stores.items():
            if Prefixes((prefix,)).of(path) is not None:
                places[store] = _Place(path, vended[prefix])
    return places
