"""Options of object stores, translated from the names of many libraries to arguments of an obstore client.

The names are in `harness.storage.option_names`. They come from PyIceberg, object_store, fsspec, DuckDB, and Hadoop, and
each of them means one option here. A nested option, like those in s3fs's `client_kwargs`, is named
`client_kwargs.endpoint_url`.
"""

from __future__ import annotations

import configparser
import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.storage.option_names import CLIENT, IGNORED, NAMES, NEGATED, StoreKind

_STATIC = ("aws_access_key_id", "aws_secret_access_key")
_BOTO3_KEYS = (
    *("sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file", "login_session"),
)


def _option_error(message: str) -> RequestError:
    return RequestError(message, options=("storage_options",))


def profile_settings(name: str | None) -> dict[str, str]:
    """Return the settings of an AWS profile by AWS's keys. The result is empty if the default profile does not exist.

    Args:
        name: The profile. None means the profile in `AWS_PROFILE`, or `default`.

    Raises:
        RequestError: A profile that was named explicitly does not exist.
    """
    requested = name or os.environ.get("AWS_PROFILE")
    profile = requested or "default"
    home = Path.home() / ".aws"
    config = _read_profiles(os.environ.get("AWS_CONFIG_FILE") or home / "config")
    secrets = _read_profiles(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    settings = {
        **config.get("default" if profile == "default" else f"profile {profile}", {}),
        **secrets.get(profile, {}),
    }
    if requested and not settings:
        raise _option_error(f"Cannot find the profile {requested} in the AWS files config and credentials; set profile")
    return settings


def _read_profiles(path: str | Path) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with open(path, encoding="utf-8") as stream:
            parser.read_file(stream)
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:  # the error's message may show a line with a secret
        raise RequestError(f"Cannot read a file of AWS profiles: {type(error).__name__} in {path}") from None
    return {name: dict(parser.items(name)) for name in parser.sections()}


@dataclass(frozen=True, slots=True)
class ProfileCredentials:
    """A credential provider for obstore that returns the keys of an AWS profile.

    botocore handles single sign-on, roles, and credential processes.

    Attributes:
        name: The profile, or None for the default one.
        settings: The profile's settings, as pairs.
    """

    name: str | None
    settings: tuple[tuple[str, str], ...] = field(repr=False)

    @staticmethod
    def from_settings(settings: Mapping[str, str], *, profile: str | None) -> ProfileCredentials | None:
        """Return a provider, or None if the profile has no credentials. obstore then uses the machine's own."""
        if not any(key in settings for key in (*_STATIC, *_BOTO3_KEYS)):
            return None
        return ProfileCredentials(profile, tuple(sorted(settings.items())))

    def __call__(self) -> dict[str, Any]:
        """Return the keys as a mapping. Its item `expires_at` is their expiry time, or None if they do not expire."""
        settings = dict(self.settings)
        if all(key in settings for key in _STATIC):
            return {
                "access_key_id": settings["aws_access_key_id"],
                "secret_access_key": settings["aws_secret_access_key"],
                "token": settings.get("aws_session_token"),
                "expires_at": None,
            }
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise _option_error(
                "Cannot use this profile of AWS: its credentials come from single sign-on, a role, or a process; "
                "pip install boto3, or set access_key_id and secret_access_key"
            ) from error
        from boto3 import Session

        resolved: dict[str, object] = Boto3CredentialProvider(Session(profile_name=self.name))()
        return resolved


def with_profile(options: Mapping[str, str]) -> dict[str, str]:
    """Return S3 options with the settings of their profile filled in, for clients that do not support profiles.

    Raises:
        RequestError: The profile does not exist, or only boto3 can resolve its credentials.
    """
    if "profile" not in options:
        return dict(options)
    settings = profile_settings(options["profile"])
    provider = ProfileCredentials.from_settings(settings, profile=options["profile"])
    keys = {} if provider is None else provider()
    from_profile = {
        "region": settings.get("region"),
        "endpoint": settings.get("endpoint_url"),
        "access_key_id": keys.get("access_key_id"),
        "secret_access_key": keys.get("secret_access_key"),
        "session_token": keys.get("token"),
    }
    return {name: value for name, value in from_profile.items() if value is not None} | dict(options)


_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_IN_HOSTS = ("region", "account_name")
"""Options that become part of the host of requests. A catalog may supply them."""
_HOST_PART = re.compile(r"[\w.$-]*", re.ASCII)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_HADOOP_ACCOUNT = re.compile(r"fs\.azure\.(?:account\.key|sas\.fixed\.token)\.([^.]+)\.[\w.]+")
_ANONYMOUS = "anonymousawscredentialsprovider"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The arguments of an obstore client, as pairs by obstore's names.

    Attributes:
        config: Options of the store.
        client: Options of the connection.
        most_retries: The maximum number of retries.
        provider: Returns credentials, or None if they are in `config` or obstore finds them itself.
    """

    config: tuple[tuple[str, Any], ...] = field(repr=False)
    client: tuple[tuple[str, object], ...]
    most_retries: int
    provider: Callable[[], Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """A credential provider for obstore that returns explicit credentials, so that obstore ignores the environment."""

    values: tuple[tuple[str, str | None], ...] = field(repr=False)

    def __call__(self) -> dict[str, Any]:
        """Return the credentials. They do not expire."""
        return {**dict(self.values), "expires_at": None}


def build_options(kind: StoreKind, authority: str, options: Mapping[str, str]) -> StoreOptions:
    """Return the arguments of an obstore client.

    Args:
        kind: The kind of the store.
        authority: The part after `://` in the store's locations.
        options: Canonical options, as returned by `canonical`.

    Raises:
        RequestError: The authority is not valid, which would change the host. Or a value has the wrong type, or names a
            profile that does not exist.
    """
    if not all(map(_HOST_PART.fullmatch, authority.split("@", 1 if kind is StoreKind.AZURE else 0))):
        raise RequestError(f"Cannot open {kind.value}: the name of its bucket is not valid")
    match kind:
        case StoreKind.S3:
            return _s3_options(options)
        case StoreKind.AZURE:
            return _azure_options(options, authority)
        case StoreKind.GCS:
            return _gcs_options(options)


def canonical(kind: StoreKind, options: Mapping[str, object]) -> dict[str, str]:
    """Return options by canonical name, as text, without those that are None. Nested options are flattened.

    Args:
        kind: The kind of the store.
        options: Options under any of their names. Nested options are mappings.

    Raises:
        RequestError: A name is unknown, two names of one option have different values, or a value has the wrong type.
            The message contains no values, because they may be secrets.
    """
    names = {alias: name for name, aliases in NAMES[kind].items() for alias in (name, *aliases)}
    values: dict[str, str] = {}
    spellings: dict[str, str] = {}
    for key, value in _flattened(options):
        spelled = key.lower()
        account = _HADOOP_ACCOUNT.fullmatch(spelled) if kind is StoreKind.AZURE else None
        name = ("sas_token" if "sas" in spelled else "account_key") if account else names.get(spelled)
        if spelled in IGNORED or (value is None and name is not None):
            continue
        if name is None:
            near = difflib.get_close_matches(spelled, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(NAMES[kind])}"
            raise _option_error(f"Invalid storage_options: {kind.value} has no option {key}; {hint}")
        text = _text(key, name, value)
        if values.setdefault(name, text) != text:
            raise _option_error(
                f"Invalid storage_options: {spellings[name]} and {key} mean the same option and have different values; "
                "keep one of them"
            )
        spellings.setdefault(name, key)
        if account:
            values.setdefault("account_name", account[1])
    return values


def _flattened(options: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _text(key: str, name: str, value: object) -> str:
    if name in NEGATED or name in ("anonymous", "allow_http", "path_style", "requester_pays"):
        return _flag(key, name, value)
    if name in _IN_HOSTS and not _HOST_PART.fullmatch(str(value)):
        raise _option_error(f"Invalid storage_options: {key} contains characters that are not allowed in {name}")
    if isinstance(value, bool | int | float | str | os.PathLike):
        return str(value)
    raise _option_error(f"Invalid storage_options: {key} must be text, a number, or a Boolean")


def _flag(key: str, name: str, value: object) -> str:
    """Return `true` or `false`, inverted if the given name means the opposite of the option."""
    text = str(value).lower()
    # values of DuckDB's url_style and of botocore
    if name == "path_style" and text in ("path", "vhost", "virtual", "auto"):
        return str(text == "path").lower()
    if key.lower().endswith("credentials.provider"):  # a class of Hadoop
        return str(text.endswith(_ANONYMOUS)).lower()
    if text not in (*_TRUE, *_FALSE):
        raise _option_error(f"Invalid storage_options: {key} must be true or false")
    return str((text in _TRUE) != (key.lower() in NEGATED.get(name, ()))).lower()


def _client(options: Mapping[str, str], endpoint: str | None) -> dict[str, Any]:
    """Return the options of the connection. Plain HTTP is only allowed if the endpoint or an option says so."""
    client: dict[str, Any] = {
        name: f"{options[name]}s" if _SECONDS.fullmatch(options[name]) else options[name]
        for name in CLIENT
        if name in options
    }
    client.setdefault("connect_timeout", "5s")
    if "timeout" not in client:
        client |= _LONG_TIMEOUTS
    if options.get("allow_http") == "true" or (endpoint or "").startswith("http://"):
        client["allow_http"] = True
    if options.get("verify") == "false":
        client["allow_invalid_certificates"] = True
    return client


_LONG_TIMEOUTS = {"timeout": "1h", "read_timeout": "30s"}
"""Timeouts for whole answers and for single reads.

A range over a slow link may take minutes, but obstore's default of 30 s for a whole answer would end each attempt.
"""


def _store_options(
    config: Mapping[str, object], client: Mapping[str, object], options: Mapping[str, str], provider: Any = None
) -> StoreOptions:
    retries = options.get("max_retries", "5")
    if not retries.isdecimal():
        raise _option_error("Invalid storage_options: max_retries must be a number")
    return StoreOptions(tuple(sorted(config.items())), tuple(sorted(client.items())), int(retries), provider)


def _s3_options(options: Mapping[str, str]) -> StoreOptions:
    names = ("access_key_id", "secret_access_key", "session_token", "region", "role_arn", "web_identity_token_file")
    profile = profile_settings(options.get("profile"))
    config: dict[str, Any] = {name: options[name] for name in names if name in options}
    endpoint = _url(options) or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or profile.get("endpoint_url")
    region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    config["region"] = region or profile.get("region") or "us-east-1"
    if endpoint is not None:
        config["endpoint"] = endpoint
    if options.get("path_style") == "false":
        config["virtual_hosted_style_request"] = True
    if options.get("anonymous") == "true":
        config["skip_signature"] = True
    if options.get("requester_pays") == "true":
        config["request_payer"] = True
    provider: Callable[[], Any] | None = None
    if not {"access_key_id", "anonymous", "role_arn"} & options.keys() and (
        "profile" in options or not os.environ.get("AWS_ACCESS_KEY_ID")
    ):
        provider = ProfileCredentials.from_settings(profile, profile=options.get("profile"))
    elif {"access_key_id", "secret_access_key"} <= options.keys() and "session_token" not in options:
        # Otherwise obstore would also send the session token from the environment.
        keys = [(name, options[name]) for name in ("access_key_id", "secret_access_key")]
        provider = StaticCredentials((*keys, ("token", None)))
    client = _client(options, endpoint)
    has_explicit_credentials = bool({"access_key_id", "anonymous", "role_arn"} & options.keys()) or provider is not None
    if not has_explicit_credentials and not os.environ.get("AWS_ACCESS_KEY_ID") and "connect_timeout" not in options:
        # for the metadata service of a machine's role, which most machines do not have
        client["connect_timeout"] = "1s"
    return _store_options(config, client, options, provider)


def has_credentials(options: Mapping[str, str]) -> bool:
    """Return whether canonical options contain complete credentials. The machine's own are then not used."""
    account = azure_account(options, "")
    given_names = {name for name, value in options.items() if value} | ({"sas_token"} if account.sas_token else set())
    given_names |= {"account_key"} if account.key else set()
    return options.get("anonymous") == "true" or any(given_names >= names for names in _CREDENTIAL_SETS)


_CREDENTIAL_SETS = (
    *({"access_key_id", "secret_access_key"}, {"profile"}, {"role_arn"}, {"web_identity_token_file"}),
    *({"account_key"}, {"sas_token"}, {"token"}, {"client_id", "client_secret", "tenant_id"}),
    *({"service_account_path"}, {"service_account_key"}),
)
"""Sets of options that are complete credentials."""


def _url(options: Mapping[str, str]) -> str | None:
    """Return the endpoint with a scheme, which endpoints in the options of DuckDB and Hadoop lack."""
    endpoint = options.get("endpoint")
    if endpoint is None or "://" in endpoint:
        return endpoint
    return f"{'http' if options.get('allow_http') == 'true' else 'https'}://{endpoint}"


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """The parts of an Azure account, from separate options or a connection string. None means not given."""

    name: str | None
    key: str | None = field(repr=False)
    sas_token: str | None = field(repr=False)
    endpoint: str | None


def azure_account(options: Mapping[str, str], authority: str) -> AzureAccount:
    """Return the account of a location, with arguments as for `build_options`.

    `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net` names the account.
    """
    parts = dict(part.partition("=")[::2] for part in options.get("connection_string", "").split(";") if part)
    host = authority.partition("@")[2]
    return AzureAccount(
        name=options.get("account_name") or parts.get("AccountName") or host.partition(".")[0] or None,
        key=options.get("account_key") or parts.get("AccountKey"),
        sas_token=options.get("sas_token") or parts.get("SharedAccessSignature"),
        endpoint=_url(options) or parts.get("BlobEndpoint"),
    )


def _azure_options(options: Mapping[str, str], authority: str) -> StoreOptions:
    account = azure_account(options, authority)
    config: dict[str, Any] = {
        "account_name": account.name,
        "account_key": account.key,
        "sas_key": account.sas_token,
        "client_id": options.get("client_id"),
        "client_secret": options.get("client_secret"),
        "tenant_id": options.get("tenant_id"),
        "token": options.get("token"),
        "endpoint": account.endpoint,
    }
    if options.get("anonymous") == "true":
        config["skip_signature"] = True
    set_values = {name: value for name, value in config.items() if value is not None}
    candidates = {"token": options.get("token"), "access_key": account.key, "sas_token": account.sas_token}
    credential = next(((name, value) for name, value in candidates.items() if value is not None), None)
    if credential is None and "client_secret" in options and not _SHADOWING.isdisjoint(os.environ):
        variable = min(_SHADOWING & os.environ.keys())
        raise _option_error(
            f"Cannot use Azure's client_secret: the environment variable {variable} takes precedence; unset it"
        )
    # obstore prefers a token or key from the environment over the options given here.
    return _store_options(
        set_values,
        _client(options, set_values.get("endpoint")),
        options,
        None if credential is None else StaticCredentials((credential,)),
    )


_SHADOWING = frozenset(f"AZURE_STORAGE_{name}" for name in ("TOKEN", "ACCOUNT_KEY", "ACCESS_KEY", "MASTER_KEY"))
"""Environment variables with credentials that obstore prefers over a client secret."""


def _gcs_options(options: Mapping[str, str]) -> StoreOptions:
    names = {"service_account_path": "service_account", "service_account_key": "service_account_key"}
    names |= {"token": "bearer_token"}
    config: dict[str, Any] = {obstore_name: options[name] for name, obstore_name in names.items() if name in options}
    endpoint = _url(options)
    if endpoint is not None:
        config["base_url"] = endpoint
    if options.get("anonymous") == "true":
        config["skip_signature"] = True
    return _store_options(config, _client(options, endpoint), options)
