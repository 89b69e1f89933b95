"""Options of object stores under the names of many libraries, as options of one client."""

from pathlib import Path
from typing import Any

import pytest

from harness import RequestError
from harness.storage.object_options import ProfileCredentials, StoreOptions, build_options, canonical
from harness.storage.option_names import StoreKind

S3 = {"access_key_id": "k", "secret_access_key": "s", "region": "eu-west-1", "endpoint": "http://h:9000"}
PATIENT = {"timeout": "1h", "read_timeout": "30s"}


@pytest.fixture(autouse=True)
def no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's own configuration."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def translated(kind: StoreKind, authority: str, options: dict[str, Any]) -> StoreOptions:
    return build_options(kind, authority, canonical(kind, options))


def s3(**options: Any) -> StoreOptions:
    return translated(StoreKind.S3, "lake", options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(S3, id="ours"),
        pytest.param(
            {
                "s3.endpoint": "http://h:9000",
                "s3.access-key-id": "k",
                "s3.secret-access-key": "s",
                "s3.region": "eu-west-1",
                "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            },
            id="PyIceberg",
        ),
        pytest.param(
            {
                "AWS_ENDPOINT_URL": "http://h:9000",
                "AWS_ACCESS_KEY_ID": "k",
                "aws_secret_access_key": "s",
                "aws_region": "eu-west-1",
                "aws_allow_http": "true",
            },
            id="object_store",
        ),
        pytest.param(
            {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://h:9000", "region_name": "eu-west-1"}},
            id="s3fs",
        ),
        pytest.param(
            {
                "TYPE": "s3",
                "KEY_ID": "k",
                "SECRET": "s",
                "REGION": "eu-west-1",
                "ENDPOINT": "h:9000",
                "USE_SSL": False,
                "URL_STYLE": "path",
            },
            id="DuckDB",
        ),
        pytest.param(
            {
                "fs.s3a.access.key": "k",
                "fs.s3a.secret.key": "s",
                "fs.s3a.endpoint": "h:9000",
                "fs.s3a.endpoint.region": "eu-west-1",
                "fs.s3a.connection.ssl.enabled": "false",
                "fs.s3a.path.style.access": "true",
            },
            id="Hadoop",
        ),
    ],
)
def test_all_names_of_options_configure_the_same_client(options: dict[str, Any]) -> None:
    made = translated(StoreKind.S3, "lake", options)
    assert dict(made.config) == S3
    assert dict(made.client) == {"allow_http": True, "connect_timeout": "5s", **PATIENT}


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({}, {}),
        ({"anon": True}, {"skip_signature": True}),
        ({"s3.anonymous": "false"}, {}),
        (
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"skip_signature": True},
        ),
        ({"virtual_hosted_style_request": "true"}, {"virtual_hosted_style_request": True}),
        ({"url_style": "vhost"}, {"virtual_hosted_style_request": True}),
        ({"config_kwargs": {"s3": {"addressing_style": "path"}}}, {}),
        ({"endpoint": "h"}, {"endpoint": "https://h"}),
        ({"token": None, "session_token": "t"}, {"session_token": "t"}),
        ({"endpoint": "https://h", "s3.endpoint": "https://h"}, {"endpoint": "https://h"}),
    ],
)
def test_values_of_s3(options: dict[str, Any], config: dict[str, Any]) -> None:
    assert dict(s3(**options).config) == {"region": "us-east-1", **config}


def test_connections() -> None:
    made = s3(timeout=20, **{"s3.connect-timeout": "1.5", "max_retries": "2", "client_kwargs": {"verify": False}})
    assert dict(made.client) == {"timeout": "20s", "connect_timeout": "1.5s", "allow_invalid_certificates": True}
    assert made.most_retries == 2


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (StoreKind.S3, {"endpont_url": "secret-value"}, "S3 has no option endpont_url; did you mean endpoint_url?"),
        (
            StoreKind.S3,
            {"client_kwargs": {"regoin_name": "x"}},
            "client_kwargs.regoin_name; did you mean client_kwargs.",
        ),
        (StoreKind.AZURE, {"qqq": "x"}, "Azure has no option qqq; expected one of account_name, account_key"),
        (
            StoreKind.S3,
            {"key": "one", "s3.access-key-id": "secret-value"},
            "key and s3.access-key-id mean the same option and",
        ),
        (StoreKind.S3, {"anon": "secret-value"}, "anon must be true or false"),
        (StoreKind.S3, {"key": ["secret-value"]}, "key must be text, a number, or a Boolean"),
        (StoreKind.S3, {"max_retries": "secret-value"}, "max_retries must be a number"),
    ],
)
def test_wrong_options_are_named_and_their_values_are_not(kind, options, message):
    with pytest.raises(RequestError) as caught:
        translated(kind, "lake", options)
    assert message in caught.value.message
    assert "secret-value" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    made = s3(key="AKIA", secret="hidden")
    assert "AKIA" not in repr(made)
    assert "hidden" not in repr(made)


AZURE_HOST = "data@acc.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("authority", "options", "config"),
    [
        (AZURE_HOST, {"account_key": "s"}, {"account_name": "acc", "account_key": "s"}),
        ("data", {"adls.account-name": "a", "adls.sas-token": "t"}, {"account_name": "a", "sas_key": "t"}),
        (
            "data",
            {"connection_string": "AccountName=a;AccountKey=k==;BlobEndpoint=http://h/a"},
            {"account_name": "a", "account_key": "k==", "endpoint": "http://h/a"},
        ),
        ("data", {"fs.azure.account.key.acc.dfs.core.windows.net": "s"}, {"account_name": "acc", "account_key": "s"}),
        ("data", {"account_name": "a", "anon": True}, {"account_name": "a", "skip_signature": True}),
    ],
)
def test_values_of_azure(authority: str, options: dict[str, Any], config: dict[str, Any]) -> None:
    assert dict(translated(StoreKind.AZURE, authority, options).config) == config


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"gcs.oauth2.token": "t"}, {"bearer_token": "t"}),
        ({"google_application_credentials": "/k.json"}, {"service_account": "/k.json"}),
        ({"endpoint_url": "http://h", "token": None, "anon": True}, {"base_url": "http://h", "skip_signature": True}),
    ],
)
def test_values_of_gcs(options: dict[str, Any], config: dict[str, Any]) -> None:
    assert dict(translated(StoreKind.GCS, "lake", options).config) == config


def profiles(folder: Path) -> None:
    (folder / "config").write_text(
        "[profile dev]\nregion = eu-north-1\nendpoint_url = http://h\n[default]\nregion=us-west-2\n"
    )
    (folder / "credentials").write_text("[dev]\naws_access_key_id = k\naws_secret_access_key = s\n")


def test_a_profile_gives_keys_region_and_endpoint(tmp_path: Path) -> None:
    profiles(tmp_path)
    made = s3(profile="dev")
    assert dict(made.config) == {"region": "eu-north-1", "endpoint": "http://h"}
    assert made.provider is not None
    assert made.provider() == {"access_key_id": "k", "secret_access_key": "s", "token": None, "expires_at": None}
    assert s3().provider is None
    assert dict(s3().config) == {"region": "us-west-2"}


def test_options_and_the_environment_come_before_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles(tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "dev")
    assert s3().provider is not None
    assert not isinstance(s3(key="k", secret="s").provider, ProfileCredentials)
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    assert dict(s3().config)["region"] == "ap-south-1"
    assert s3().provider is None
    assert s3(profile="dev").provider is not None


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="Cannot find the profile prod in the AWS files"):
        s3(profile="prod")


@pytest.mark.parametrize(
    ("kind", "authority", "options"),
    [
        (StoreKind.S3, "lake", {"region": "evil.com/x"}),
        (StoreKind.S3, "lake", {"s3.region": "x@evil:1#"}),
        (StoreKind.AZURE, "lake", {"account_name": "evil.com/x"}),
        (StoreKind.AZURE, "lake@2130706433#.dfs.core.windows.net", {}),
        (StoreKind.AZURE, "lake@a@evil", {}),
        (StoreKind.S3, "evil.com#", {"path_style": "false"}),
        (StoreKind.S3, "evil:1?", {}),
        (StoreKind.GCS, "la ke", {}),
    ],
)
def test_nothing_that_a_catalog_names_makes_another_host(kind, authority, options):
    with pytest.raises(
        RequestError,
        match=r"contains characters that are not allowed in (region|account_name)|name of its bucket is not valid",
    ):
        translated(kind, authority, options)


@pytest.mark.parametrize(
    ("kind", "options", "credentials"),
    [
        (StoreKind.S3, {"key": "k", "secret": "s"}, {"access_key_id": "k", "secret_access_key": "s", "token": None}),
        (StoreKind.AZURE, {"sas_token": "t"}, {"sas_token": "t"}),
        (StoreKind.AZURE, {"account_key": "k"}, {"access_key": "k"}),
        (StoreKind.AZURE, {"token": "t"}, {"token": "t"}),
        (StoreKind.AZURE, {"connection_string": "SharedAccessSignature=a=b"}, {"sas_token": "a=b"}),
    ],
)
def test_explicit_credentials_are_the_only_ones_a_store_gets(kind, options, credentials):
    """obstore would add credentials from the environment, for example a session token or an Azure token."""
    first, second = (translated(kind, AZURE_HOST if kind is StoreKind.AZURE else "lake", options) for _ in range(2))
    assert first.provider is not None
    assert first.provider() == {**credentials, "expires_at": None}
    assert hash(first) == hash(second)
    assert first == second


def test_a_client_secret_is_refused_if_the_environment_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"client_id": "i", "client_secret": "s", "tenant_id": "t"}
    assert translated(StoreKind.AZURE, AZURE_HOST, options).provider is None
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "x")
    with pytest.raises(RequestError, match="the environment variable AZURE_STORAGE_TOKEN"):
        translated(StoreKind.AZURE, AZURE_HOST, options)
