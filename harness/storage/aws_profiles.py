"""Credentials of AWS from the profiles in its files, and from what runs a machine, when a client wants them."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import RequestError

_STATIC = ("aws_access_key_id", "aws_secret_access_key")
_BY_OTHERS = (
    "sso_session",
    "sso_start_url",
    "role_arn",
    "credential_process",
    "web_identity_token_file",
    "login_session",
)


def profile_settings(name: str | None) -> dict[str, str]:
    """What the files say of a profile, with the keys of AWS; empty if there is none and none was asked for.

    name: the profile; None: that of `AWS_PROFILE`, or `default`.

    Raises:
        RequestError: a profile that was named is in none of the files.
    """
    asked = name or os.environ.get("AWS_PROFILE")
    profile = asked or "default"
    home = Path.home() / ".aws"
    config = _parsed(os.environ.get("AWS_CONFIG_FILE") or home / "config")
    secrets = _parsed(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    found = {
        **config.get("default" if profile == "default" else f"profile {profile}", {}),
        **secrets.get(profile, {}),
    }
    if asked and not found:
        raise RequestError(
            f"Cannot find the profile {asked} in the files config and credentials of AWS; set profile",
            options=("storage_options",),
        )
    return found


def _parsed(path: str | Path) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with open(path, encoding="utf-8") as stream:
            parser.read_file(stream)
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:  # its message may show a line with a secret
        raise RequestError(f"Cannot read a file of AWS profiles: {type(error).__name__} in {path}") from None
    return {name: dict(parser.items(name)) for name in parser.sections()}


@dataclass(frozen=True, slots=True)
class ProfileCredentials:
    """Gives obstore the keys of a profile. Profiles of single sign-on, roles and processes are botocore's to resolve.

    name: the profile; None: the default one.
    """

    name: str | None
    settings: tuple[tuple[str, str], ...] = field(repr=False)

    @staticmethod
    def of(settings: Mapping[str, str], *, named: str | None) -> ProfileCredentials | None:
        """None: the profile has no credentials, so that obstore looks for those of the machine."""
        if not any(key in settings for key in (*_STATIC, *_BY_OTHERS)):
            return None
        return ProfileCredentials(named, tuple(sorted(settings.items())))

    def __call__(self) -> dict[str, Any]:
        """The keys, and until when they are good; None: for ever."""
        settings = dict(self.settings)
        if all(key in settings for key in _STATIC):
            return {
                "access_key_id": settings["aws_access_key_id"],
                "secret_access_key": settings["aws_secret_access_key"],
                "token": settings.get("aws_session_token"),
                "expires_at": None,
            }
        return _resolved(self.name)


def with_profile(options: Mapping[str, str]) -> dict[str, str]:
    """Options of S3 for a client that knows no profiles: with what the profile says that they name.

    Raises:
        RequestError: it is not there, or only boto3 could tell its credentials.
    """
    if "profile" not in options:
        return dict(options)
    settings = profile_settings(options["profile"])
    provider = ProfileCredentials.of(settings, named=options["profile"])
    keys = {} if provider is None else provider()
    said = {
        "region": settings.get("region"),
        "endpoint": settings.get("endpoint_url"),
        "access_key_id": keys.get("access_key_id"),
        "secret_access_key": keys.get("secret_access_key"),
        "session_token": keys.get("token"),
    }
    return {name: value for name, value in said.items() if value is not None} | dict(options)


def _resolved(name: str | None) -> dict[str, Any]:
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise RequestError(
            "Cannot use this profile of AWS: its credentials come from single sign-on, a role or a process; "
            "pip install boto3, or set access_key_id and secret_access_key",
            options=("storage_options",),
        ) from error
    from boto3 import Session

    found: dict[str, Any] = Boto3CredentialProvider(Session(profile_name=name))()
    return found
