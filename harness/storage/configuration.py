"""The files in which a user configures harness: a project's `pyproject.toml`, and `~/.config/harness/config.toml`.

A project may be untrusted, so what it says is trusted less than what is in the user's own file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.storage.object_options import canonical
from harness.storage.option_names import CREDENTIALS, PLACES, StoreKind
from harness.storage.paths import SCHEME, canonical_path
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A configuration file. is_own: true for the user's own, false for a project's."""

    path: Path
    is_own: bool

    def section(self, name: str, *, cause: str) -> Mapping[str, Any]:
        """The table `[tool.harness.NAME]`; empty if there is none. Raises RequestError, with that cause, for else."""
        try:
            document: object = tomllib.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RequestError(f"Cannot read the configuration: {reason}", cause=cause, file=str(self.path)) from error
        for key in ("tool", "harness", name):
            document = document.get(key, {}) if isinstance(document, dict) else {}
        if not isinstance(document, dict):
            message = f"Invalid configuration: expected a table for each {name.removesuffix('s')}"
            raise RequestError(message, cause=cause, file=str(self.path), field=f"tool.harness.{name}")
        return document


def files() -> list[ConfigurationFile]:
    """The files that exist: the user's own first, then that of the project around the working directory."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    candidates = [ConfigurationFile(Path(home) / "harness" / "config.toml", is_own=True)]
    directory = Path.cwd()
    projects = (parent / "pyproject.toml" for parent in (directory, *directory.parents))
    candidates += [ConfigurationFile(path, is_own=False) for path in projects if path.is_file()][:1]
    return [file for file in candidates if file.path.is_file()]


# Options of stores that stand in a configuration file, for each bucket:
#
#     [tool.harness.stores."s3://lake"]
#     region = "eu-west-1"
#     profile = "dev"
#
# A project's file goes before the user's own, and what is given to a call before both.


_CREDENTIAL_NAMES = frozenset({"profile", "role_arn", "web_identity_token_file"})
"""Names of the user's own credentials, which are none themselves."""
_CAUSE = "StoreMisconfigured"


def with_configured(kind: StoreKind, store: str, explicit: Mapping[str, object]) -> dict[str, str]:
    """The options for a store by their own names, those of the configuration files below those that are given.

    Credentials are taken together: whoever gives one of them gives them all, and does not send them to where a project
    says that requests go.

    store: as `harness.storage.paths` spells it. given: to the call, under any names.

    Raises:
        RequestError: as `canonical`; or a file cannot be read, names no bucket, or is a project's and would send the
            user's credentials to a place of its own.
    """
    options: dict[str, str] = {}
    preferred = canonical(kind, explicit)
    for file in files():
        for name, values in file.section("stores", cause=_CAUSE).items():
            bucket = canonical_path(name) if SCHEME.match(name) else None
            if bucket is None or bucket.path or not isinstance(values, dict):
                reason = "expected a table of options under a scheme and a bucket, such as s3://lake"
                raise _invalid(file, name, reason)
            if bucket.store == store:
                section = _section_options(kind, name, values, file)
                if not file.is_own and not CREDENTIALS.isdisjoint(preferred):
                    section = {name: value for name, value in section.items() if name not in PLACES}
                options = _merged(options, section)
    return _merged(options, preferred)


def _merged(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    if not CREDENTIALS.isdisjoint(above):
        below = {name: value for name, value in below.items() if name not in CREDENTIALS}
    return {**below, **above}


def _section_options(
    kind: StoreKind, name: str, values: Mapping[str, object], file: ConfigurationFile
) -> dict[str, str]:
    try:
        options = canonical(kind, values)
    except RequestError as error:
        raise _invalid(file, name, error.message.partition(": ")[2]) from error
    destinations = sorted(PLACES & options.keys())
    if destinations and not file.is_own and (CREDENTIALS - _CREDENTIAL_NAMES).isdisjoint(options):
        raise _invalid(
            file,
            f"{name}.{destinations[0]}",
            "a project that says where requests go must say the credentials for them too, or anonymous = true, as it "
            "may be untrusted; else say it in ~/.config/harness/config.toml",
        )
    return options


def _invalid(file: ConfigurationFile, name: str, reason: str) -> RequestError:
    return RequestError(
        f"Invalid configuration: {reason}", cause=_CAUSE, file=str(file.path), field=f"tool.harness.stores.{name}"
    )
