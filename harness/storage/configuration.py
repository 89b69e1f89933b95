"""The user's configuration files: a project's `pyproject.toml` and `~/.config/harness/config.toml`.

A project may be untrusted, so its file may set less than the user's own file.
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
    """A configuration file.

    Attributes:
        path: Its path.
        is_own: True for the user's own file, False for a project's file.
    """

    path: Path
    is_own: bool

    def section(self, name: str, *, cause: str) -> Mapping[str, Any]:
        """Return the table `[tool.harness.NAME]`, or an empty mapping if the file has none.

        Raises:
            RequestError: The file cannot be read, or the value is not a table. The error has the given cause.
        """
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
    """Return the configuration files that exist: the user's own file first, then the project's file.

    The project is the working directory or the nearest parent with a `pyproject.toml`.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    candidates = [ConfigurationFile(Path(home) / "harness" / "config.toml", is_own=True)]
    directory = Path.cwd()
    projects = (parent / "pyproject.toml" for parent in (directory, *directory.parents))
    candidates += [ConfigurationFile(path, is_own=False) for path in projects if path.is_file()][:1]
    return [file for file in candidates if file.path.is_file()]


# Options per bucket in a configuration file:
#
#     [tool.harness.stores."s3://lake"]
#     region = "eu-west-1"
#     profile = "dev"
#
# A project's file overrides the user's own file, and arguments of a call override both.


_CREDENTIAL_NAMES = frozenset({"profile", "role_arn", "web_identity_token_file"})
"""Options that refer to the user's credentials but contain none."""
_CAUSE = "StoreMisconfigured"


def with_configured(kind: StoreKind, store: str, explicit: Mapping[str, object]) -> dict[str, str]:
    """Return the options for a store under canonical names, including those from configuration files.

    Credentials are replaced as a set: if a source contains any credential, all credentials come from that source. They
    are never sent to an endpoint that a project's file names.

    Args:
        kind: The kind of the store.
        store: The store as spelled by `harness.storage.paths`, for example `s3://lake`.
        explicit: Options given to the call, under any names. They override the files.

    Raises:
        RequestError: As for `canonical`. Also if a file cannot be read or has a key that is no bucket, or if a
            project's file would send the user's credentials to an endpoint of its choice.
    """
    options: dict[str, str] = {}
    preferred = canonical(kind, explicit)
    for file in files():
        for name, values in file.section("stores", cause=_CAUSE).items():
            bucket = canonical_path(name) if SCHEME.match(name) else None
            if bucket is None or bucket.path or not isinstance(values, dict):
                reason = "expected a table of options for a scheme and bucket, for example s3://lake"
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
            "a project that sets this option must also set credentials or anonymous = true, because the project may be "
            "untrusted; or set the option in ~/.config/harness/config.toml",
        )
    return options


def _invalid(file: ConfigurationFile, name: str, reason: str) -> RequestError:
    return RequestError(
        f"Invalid configuration: {reason}", cause=_CAUSE, file=str(file.path), field=f"tool.harness.stores.{name}"
    )
