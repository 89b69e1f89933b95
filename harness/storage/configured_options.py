"""Options of stores that stand in a configuration file, for each bucket:

    [tool.harness.stores."s3://lake"]
    region = "eu-west-1"
    profile = "dev"

A project's file goes before the user's own, and what is given to a call before both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import RequestError
from harness.storage.configuration import ConfigurationFile, files
from harness.storage.object_options import canonical
from harness.storage.option_names import CREDENTIALS, PLACES, Kind
from harness.storage.paths import SCHEME
from harness.storage.places import place

_LOOKED_UP = frozenset({"profile", "role_arn", "web_identity_token_file"})
"""Names of the user's own credentials, which are none themselves."""
_CAUSE = "StoreMisconfigured"


def with_configured(kind: Kind, store: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The options for a store by their own names, those of the configuration files below those that are given.

    Credentials are taken together: whoever gives one of them gives them all, and does not send them to where a project
    says that requests go.

    Args:
        kind: of the store.
        store: as `harness.storage.places` spells it.
        given: to the call, under any names.

    Raises:
        RequestError: as `canonical`; or a file cannot be read, names no bucket, or is a project's and would send the
            user's credentials to a place of its own.
    """
    options: dict[str, str] = {}
    above = canonical(kind, given)
    for file in files():
        for name, said in file.section("stores", cause=_CAUSE).items():
            if _store(name, said, file) == store:
                found = _configured(kind, name, said, file)
                if not file.is_own and not CREDENTIALS.isdisjoint(above):
                    found = {name: value for name, value in found.items() if name not in PLACES}
                options = _over(options, found)
    return _over(options, above)


def _over(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    if not CREDENTIALS.isdisjoint(above):
        below = {name: value for name, value in below.items() if name not in CREDENTIALS}
    return {**below, **above}


def _store(name: str, said: Any, file: ConfigurationFile) -> str:
    found = place(name) if SCHEME.match(name) else None
    if found is None or found.path or not isinstance(said, dict):
        raise _invalid(file, name, "expected a table of options under a scheme and a bucket, such as s3://lake")
    return found.store


def _configured(kind: Kind, name: str, said: Mapping[str, Any], file: ConfigurationFile) -> dict[str, str]:
    try:
        options = canonical(kind, said)
    except RequestError as error:
        raise _invalid(file, name, error.message.partition(": ")[2]) from error
    led = sorted(PLACES & options.keys())
    if led and not file.is_own and (CREDENTIALS - _LOOKED_UP).isdisjoint(options):
        raise _invalid(
            file,
            f"{name}.{led[0]}",
            "a project that says where requests go must say the credentials for them too, or anonymous = true, as it "
            "may be a stranger's; else say it in ~/.config/harness/config.toml",
        )
    return options


def _invalid(file: ConfigurationFile, name: str, reason: str) -> RequestError:
    return RequestError(
        f"Invalid configuration: {reason}", cause=_CAUSE, file=str(file.path), field=f"tool.harness.stores.{name}"
    )
