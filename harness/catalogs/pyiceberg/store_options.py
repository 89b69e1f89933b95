"""Properties of a catalog and of its answers, as storage options of the stores that a table is in.

The names stay PyIceberg's (`s3.endpoint`, `gcs.oauth2.token`). What is not about reaching a store is left out, such as
a class to load or the time at which a token ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from harness.storage.paths import is_local, local_path
from harness.storage.places import place

_KNOWN = {
    "s3": (
        *("endpoint", "access-key-id", "secret-access-key", "session-token", "region", "anonymous", "profile-name"),
        *("role-arn", "role-session-name", "force-virtual-addressing", "proxy-uri"),
        *("connect-timeout", "request-timeout"),
    ),
    "gcs": ("oauth2.token", "project-id", "service.host"),
    "adls": (
        *("connection-string", "account-name", "account-key", "sas-token", "tenant-id", "client-id", "client-secret"),
        *("account-host", "token", "anon"),
    ),
}
_OF_CLIENT = ("region", "access-key-id", "secret-access-key", "session-token", "profile-name", "role-arn")
_PATH_STYLE = "s3.path-style-access"
"""What Java's client calls the opposite of `s3.force-virtual-addressing`."""
_SAS = "adls.sas-token"
_EXPIRY = re.compile(
    r"s3\.session-token-expires-at-ms|gcs\.oauth2\.token-expires-at|adls\.sas-token-expires-at-ms(?:\..+)?"
)
_FAMILIES = {"s3": "s3", "gcs": "gcs", "abfs": "adls"}


def store_options(properties: Mapping[str, Any], location: str, roots: Iterable[str] = ()) -> dict[str, Any]:
    """The options for the store of a table and, under their names, for those of its other roots.

    Args:
        properties: of the catalog and of its answer, the answer's first; those of every kind of store.
        location: the table's.
        roots: what else the table is read from.
    """
    options = options_of(properties, location)
    home = place(location).store
    others = {place(root).store: root for root in roots if not is_local(local_path(root))}
    return options | {
        store: own for store, root in others.items() if store != home and (own := options_of(properties, root))
    }


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
            given.setdefault("s3.force-virtual-addressing", str(str(given[_PATH_STYLE]).lower() != "true").lower())
    if family == "adls":
        account = store.rpartition("@")[2].partition(".")[0]
        own = (value for key, value in given.items() if key.startswith(f"{_SAS}.{account}"))
        given.setdefault(_SAS, next(own, None))
        given.setdefault("adls.account-name", account if "@" in store else None)
    wanted = (f"{family}.{name}" for name in _KNOWN[family])
    return {key: given[key] for key in wanted if given.get(key) is not None}


def expires_ms(properties: Mapping[str, Any]) -> int | None:
    """When the first of the credentials ends, milliseconds since 1970-01-01 UTC; None: nothing says."""
    times = [str(value) for key, value in properties.items() if _EXPIRY.fullmatch(key)]
    return min((int(time) for time in times if time.isdecimal()), default=None)
