"""Properties of a catalog and of its answers, as storage options of the stores that a table is in.

PyIceberg's names (`s3.endpoint`, `gcs.oauth2.token`) become those of fsspec's file systems. What is not about reaching
a store is left out, such as a class to load or the time at which a token ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from harness.storage import object_client
from harness.storage.paths import is_local, local_path, place

_KNOWN = {
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
    "adls": {
        "connection-string": "connection_string",
        "account-name": "account_name",
        "account-key": "account_key",
        "account-host": "account_host",
        "sas-token": "sas_token",
        "tenant-id": "tenant_id",
        "client-id": "client_id",
        "client-secret": "client_secret",
        "token": "token",
        "anon": "anon",
    },
}
"""PyIceberg's names behind the kind of store, and those of fsspec's file systems; dots lead into a mapping."""
_OF_CLIENT = ("region", "access-key-id", "secret-access-key", "session-token", "profile-name")
_PATH_STYLE = "s3.path-style-access"
"""What Java's client calls the opposite of `s3.force-virtual-addressing`."""
_SAS = "adls.sas-token"
_EXPIRY = re.compile(
    r"s3\.session-token-expires-at-ms|gcs\.oauth2\.token-expires-at|adls\.sas-token-expires-at-ms(?:\..+)?"
)
_FAMILIES = {"s3": "s3", "gcs": "gcs", "abfs": "adls"}


Properties: TypeAlias = "Callable[[str], Mapping[str, Any]]"
"""Those of the catalog and of its answer that are for a path, the answer's first; those of every kind of store."""


def store_options(properties: Properties, location: str, places: Iterable[str] = ()) -> dict[str, Any]:
    """The options for the store of a table and, under their names, for those of other places.

    Args:
        properties: tells those of a path.
        location: the table's.
        places: elsewhere, where files of the table may be.
    """
    options = options_of(properties(location), location)
    home = place(location).store
    others = {place(path).store: path for path in places if not is_local(local_path(path))}
    return options | {
        store: own for store, path in others.items() if store != home and (own := options_of(properties(path), path))
    }


def vended_for(path: str, vended: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The properties of the longest prefix of a path. Text is a prefix in a bucket, and of no other bucket's name."""
    store = place(path).store
    fitting = [
        prefix
        for prefix in vended
        if path.startswith(prefix) and ("://" not in prefix or place(prefix).store in (store, _bare(store)))
    ]
    return vended[max(fitting, key=len)] if fitting else {}


def _bare(store: str) -> str:
    """The store of a prefix that is a scheme alone, such as `s3://`."""
    return f"{store.partition('://')[0]}://"


def own_profiles(properties: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without the profiles of this machine, but for those that the user said."""
    return {
        key: value for key, value in properties.items() if not key.endswith(".profile-name") or value == said.get(key)
    }


def named_endpoints(properties: Properties, said: Mapping[str, Any], paths: Iterable[str]) -> dict[str, str]:
    """By store, the address that a catalog's server names.

    Args:
        properties: tells those of a path.
        said: those of them that the user said.
        paths: in the stores.
    """
    found: dict[str, str] = {}
    for store, path in {place(path).store: path for path in paths}.items():
        if store.partition("://")[0] in _FAMILIES:
            address, own = (
                object_client.endpoint(store, object_client.given_options(store, options_of(each, path)))
                for each in (properties(path), said)
            )
            if address is not None and address != own:
                found[store] = address
    return found


def options_of(properties: Mapping[str, Any], location: str) -> dict[str, Any]:
    """The options for one store, by what kind it is; none for local files."""
    store = place(location).store
    family = _FAMILIES.get(store.partition("://")[0])
    if family is None:
        return {}
    given = {key: value for key, value in properties.items() if value is not None}
    if family == "s3":
        for name in _OF_CLIENT:
            if f"client.{name}" in given:
                given.setdefault(f"s3.{name}", given[f"client.{name}"])
        if _PATH_STYLE in given:
            given.setdefault("s3.force-virtual-addressing", not _is_true(given[_PATH_STYLE]))
    if family == "adls":
        account = store.rpartition("@")[2].partition(".")[0]
        tokens = (value for key, value in given.items() if key.startswith(f"{_SAS}.{account}"))
        given.setdefault(_SAS, next(tokens, None))
        given.setdefault("adls.account-name", account if "@" in store else None)
    options: dict[str, Any] = {}
    for name, own in _KNOWN[family].items():
        value = given.get(f"{family}.{name}")
        if value is not None:
            _put(options, own, _VALUES.get(f"{family}.{name}", str)(value))
    return options


def _put(options: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for part in outer:
        options = options.setdefault(part, {})
    options[last] = value


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


_VALUES: dict[str, Callable[[Any], Any]] = {
    "s3.anonymous": _is_true,
    "adls.anon": _is_true,
    "s3.force-virtual-addressing": lambda value: "virtual" if _is_true(value) else "path",
}
"""What turns a value into that of fsspec, by PyIceberg's name; all others are text."""


def expires_ms(properties: Mapping[str, Any]) -> int | None:
    """When the first of the credentials ends, milliseconds since 1970-01-01 UTC; None: nothing says."""
    times = [str(value) for key, value in properties.items() if _EXPIRY.fullmatch(key)]
    return min((int(time) for time in times if time.isdecimal()), default=None)
