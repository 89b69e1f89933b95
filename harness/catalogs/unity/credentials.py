"""What a catalog lends as options of a store: the two forms in which Unity Catalog says credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_CONFIG = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
}
"""Keys of `storage-credentials`, and the options of the stores' file systems."""

_OLDER = {
    "aws_temp_credentials": {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
    },
    "r2_temp_credentials": {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
    },
    "azure_user_delegation_sas": {"sas_token": "azure.sas-token"},
    "gcp_oauth_token": {"oauth_token": "gcs.oauth-token"},
}
"""Objects in the answer of `temporary-table-credentials`, and what their fields are called in `storage-credentials`."""


def lent(answer: Mapping[str, Any], location: str) -> tuple[dict[str, str], int | None] | None:
    """Options of the store of `location`, and when they end (milliseconds since 1970 UTC; None: nobody says).

    answer: of either call. None: nothing in it is for the location, or in a form that is known.
    """
    config, expires = _newer(answer, location) if "storage-credentials" in answer else _older(answer)
    options = {_CONFIG[key]: value for key, value in config.items() if key in _CONFIG and isinstance(value, str)}
    if not options:
        return None
    place = urlsplit(location)
    if "sas_token" in options and place.hostname:
        options["account_name"] = place.hostname.partition(".")[0]
    return options, expires if type(expires) is int and expires > 0 else None


def _newer(answer: Mapping[str, Any], location: str) -> tuple[Mapping[str, Any], Any]:
    """Of several credentials, the one for the longest prefix of the location."""
    found: tuple[int, Mapping[str, Any], Any] = (-1, {}, None)
    listed = answer["storage-credentials"]
    for each in listed if isinstance(listed, list) else ():
        prefix, config = (each.get("prefix"), each.get("config")) if isinstance(each, dict) else (None, None)
        if not isinstance(prefix, str) or not isinstance(config, dict):
            continue
        if f"{location.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/") and len(prefix) > found[0]:
            found = (len(prefix), config, each.get("expiration-time-ms"))
    return found[1], found[2]


def _older(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    config = {
        key: inner.get(field)
        for name, fields in _OLDER.items()
        if isinstance(inner := answer.get(name), dict)
        for field, key in fields.items()
    }
    return config, answer.get("expiration_time")
