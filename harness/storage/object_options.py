"""Options of object stores under the names that people have, as what a client of obstore is made of.

The names are in `harness.storage.option_names`: PyIceberg's, object_store's, fsspec's, DuckDB's and Hadoop's, each of
which means one option here. A nested option, of `client_kwargs` of s3fs, is named `client_kwargs.endpoint_url`.
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

# Credentials of AWS from the profiles in its files, and from what runs a machine, when a client wants them.


_STATIC = ("aws_access_key_id", "aws_secret_access_key")
_BOTO3_KEYS = (
    *("sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file", "login_session"),
)


def _option_error(message: str) -> RequestError:
    return RequestError(message, options=("storage_options",))


def profile_settings(name: str | None) -> dict[str, str]:
    """The settings of a profile by the keys of AWS; empty if there is none and none was asked for.

    name: None: that of `AWS_PROFILE`, or `default`.

    Raises RequestError: a profile that was named is in none of the files.
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
        raise _option_error(
            f"Cannot find the profile {requested} in the files config and credentials of AWS; set profile"
        )
    return settings


def _read_profiles(path: str | Path) -> dict[str, dict[str, str]]:
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
    """Gives obstore the keys of a profile, or the default one. Single sign-on, roles and processes are botocore's."""

    name: str | None
    settings: tuple[tuple[str, str], ...] = field(repr=False)

    @staticmethod
    def from_settings(settings: Mapping[str, str], *, profile: str | None) -> ProfileCredentials | None:
        """None: the profile has no credentials, so that obstore looks for those of the machine."""
        if not any(key in settings for key in (*_STATIC, *_BOTO3_KEYS)):
            return None
        return ProfileCredentials(profile, tuple(sorted(settings.items())))

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
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise _option_error(
                "Cannot use this profile of AWS: its credentials come from single sign-on, a role or a process; "
                "pip install boto3, or set access_key_id and secret_access_key"
            ) from error
        from boto3 import Session

        resolved: dict[str, object] = Boto3CredentialProvider(Session(profile_name=self.name))()
        return resolved


def with_profile(options: Mapping[str, str]) -> dict[str, str]:
    """Options of S3 for a client that knows no profiles: with what the profile says that they name.

    Raises RequestError for one that is not there, or whose credentials only boto3 could tell.
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
"""Options that become part of the host that requests go to, which a catalog may say."""
_HOST_PART = re.compile(r"[\w.$-]*", re.ASCII)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_HADOOP_ACCOUNT = re.compile(r"fs\.azure\.(?:account\.key|sas\.fixed\.token)\.([^.]+)\.[\w.]+")
_ANONYMOUS = "anonymousawscredentialsprovider"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The arguments of a client of obstore: pairs by obstore's names.

    provider: gives credentials when it is asked; None: they are in `config`, or obstore finds them.
    """

    config: tuple[tuple[str, Any], ...] = field(repr=False)
    client: tuple[tuple[str, object], ...]
    most_retries: int
    provider: Callable[[], Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Gives obstore credentials as they were said, and nothing of the environment with them."""

    values: tuple[tuple[str, str | None], ...] = field(repr=False)

    def __call__(self) -> dict[str, Any]:
        """The credentials, which are good for ever."""
        return {**dict(self.values), "expires_at": None}


def build_options(kind: StoreKind, authority: str, options: Mapping[str, str]) -> StoreOptions:
    """The arguments of one client. authority: behind `://` in its locations. found: options as of `canonical`.

    Raises:
        RequestError: the authority is none of a store, which would make another host of it; or a value is not of its
            type, or names a profile that is not there.
    """
    if not all(map(_HOST_PART.fullmatch, authority.split("@", 1 if kind is StoreKind.AZURE else 0))):
        raise RequestError(f"Cannot open {kind.value}: its bucket has a name that no bucket can have")
    match kind:
        case StoreKind.S3:
            return _s3_options(options)
        case StoreKind.AZURE:
            return _azure_options(options, authority)
        case StoreKind.GCS:
            return _gcs_options(options)


def canonical(kind: StoreKind, options: Mapping[str, object]) -> dict[str, str]:
    """Options by the one name that each has here, as text, without those that are None; nested ones are mappings.

    Raises:
        RequestError: a name is not known, two names of one option have different values, or a value is not of its type.
            No value is in the message: it may be a secret.
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
        raise _option_error(f"Invalid storage_options: {key} has signs that no {name} has")
    if isinstance(value, bool | int | float | str | os.PathLike):
        return str(value)
    raise _option_error(f"Invalid storage_options: {key} is no text, number or Boolean")


def _flag(key: str, name: str, value: object) -> str:
    """`true` or `false`, turned round where the name that was given means the opposite of the option's."""
    text = str(value).lower()
    if name == "path_style" and text in ("path", "vhost", "virtual", "auto"):  # DuckDB's url_style, botocore's
        return str(text == "path").lower()
    if key.lower().endswith("credentials.provider"):  # Hadoop's class
        return str(text.endswith(_ANONYMOUS)).lower()
    if text not in (*_TRUE, *_FALSE):
        raise _option_error(f"Invalid storage_options: {key} must be true or false")
    return str((text in _TRUE) != (key.lower() in NEGATED.get(name, ()))).lower()


def _client(options: Mapping[str, str], endpoint: str | None) -> dict[str, Any]:
    """Options of the connection; plain HTTP is for endpoints that are given so."""
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
"""A range over a slow link may take minutes: obstore's own 30 s for a whole answer would end each try."""


def _store_options(
    config: Mapping[str, object], client: Mapping[str, object], options: Mapping[str, str], provider: Any = None
) -> StoreOptions:
    retries = options.get("max_retries", "5")
    if not retries.isdecimal():
        raise _option_error("Invalid storage_options: max_retries is no number")
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
        # obstore would send the session's token of the environment along.
        keys = [(name, options[name]) for name in ("access_key_id", "secret_access_key")]
        provider = StaticCredentials((*keys, ("token", None)))
    client = _client(options, endpoint)
    has_explicit_credentials = bool({"access_key_id", "anonymous", "role_arn"} & options.keys()) or provider is not None
    if not has_explicit_credentials and not os.environ.get("AWS_ACCESS_KEY_ID") and "connect_timeout" not in options:
        client["connect_timeout"] = "1s"  # of the service that knows a machine's role, which most machines lack
    return _store_options(config, client, options, provider)


def has_credentials(options: Mapping[str, str]) -> bool:
    """True if options, as `canonical` gives them, say all of who asks, so that nothing of the machine's is taken."""
    account = azure_account(options, "")
    given_names = {name for name, value in options.items() if value} | ({"sas_token"} if account.sas_token else set())
    given_names |= {"account_key"} if account.key else set()
    return options.get("anonymous") == "true" or any(given_names >= names for names in _CREDENTIAL_SETS)


_CREDENTIAL_SETS = (
    *({"access_key_id", "secret_access_key"}, {"profile"}, {"role_arn"}, {"web_identity_token_file"}),
    *({"account_key"}, {"sas_token"}, {"token"}, {"client_id", "client_secret", "tenant_id"}),
    *({"service_account_path"}, {"service_account_key"}),
)
"""Options that together say who asks."""


def _url(options: Mapping[str, str]) -> str | None:
    """The endpoint, which may be given without a scheme, as DuckDB and Hadoop do."""
    endpoint = options.get("endpoint")
    if endpoint is None or "://" in endpoint:
        return endpoint
    return f"{'http' if options.get('allow_http') == 'true' else 'https'}://{endpoint}"


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """The parts of an account, from options of its own or a connection string; None: not given."""

    name: str | None
    key: str | None = field(repr=False)
    sas_token: str | None = field(repr=False)
    endpoint: str | None


def azure_account(options: Mapping[str, str], authority: str) -> AzureAccount:
    """The account of a location; `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net` names it. Arguments: `made_for`'s."""
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
            f"Cannot use client_secret of Azure: the environment has {variable}, which goes before it; unset that"
        )
    # obstore would take a token or a key of the environment before what is said here.
    return _store_options(
        set_values,
        _client(options, set_values.get("endpoint")),
        options,
        None if credential is None else StaticCredentials((credential,)),
    )


_SHADOWING = frozenset(f"AZURE_STORAGE_{name}" for name in ("TOKEN", "ACCOUNT_KEY", "ACCESS_KEY", "MASTER_KEY"))
"""Variables of credentials that obstore takes before a client's secret."""


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
