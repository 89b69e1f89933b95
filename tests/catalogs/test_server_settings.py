"""The settings that a catalog's server may change, and the end of its listings."""

from itertools import count

import pytest

import harness
from harness.metadata.catalogs.catalog import read_pages
from harness.metadata.catalogs.pyiceberg_rest import accepted_properties

OWN = {"uri": "https://catalog.example/api", "token": "secret"}
ELSEWHERE = "https://evil.example/api"


@pytest.mark.parametrize(
    ("name", "value", "user_properties"),
    [
        ("uri", ELSEWHERE, {}),
        ("uri", "http://catalog.example/api", {}),
        ("uri", "https://catalog.example:444/api", {}),
        ("uri", "https://catalog.example@evil.example/api", {}),
        ("uri", "https://[", {}),
        ("URI", ELSEWHERE, {}),
        ("oauth2-server-uri", ELSEWHERE, {}),
        ("oauth2-server-uri", "https://catalog.example/token", {"oauth2-server-uri": "https://identity.example/token"}),
        ("rest.sigv4-enabled", "true", {}),
        ("rest.signing-name", "execute-api", {}),
        ("rest.signing-region", "eu-west-1", {}),
        ("rest.auth.type", "sigv4", {}),
        ("auth", {"type": "custom", "impl": "subprocess.Popen", "custom": {"args": ["true"]}}, {}),
        ("token", "other", {}),
        ("credential", "id:other", {}),
        ("scope", "everything", {}),
        ("audience", "other", {}),
        ("resource", "other", {}),
        ("header.Authorization", "Bearer other", {}),
        ("header.Host", "evil.example", {}),
        ("ssl", {"cabundle": False}, {}),
        ("py-io-impl", "evil.FileIO", {}),
        ("client.profile-name", "prod", {}),
        ("client.access-key-id", "a", {}),
    ],
)
def test_properties_that_redirect_credentials_are_refused_by_name(name, value, user_properties):
    user = {**OWN, **user_properties}
    with pytest.raises(harness.RequestError, match="because it decides which credentials are sent") as error:
        accepted_properties("prod", user, {**user, name: value})
    assert f"its server sets {name}" in error.value.message
    assert error.value.cause == "CatalogDenied"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("uri", "https://catalog.example:443/api/main"),
        ("oauth2-server-uri", "https://catalog.example/api/v1/oauth/tokens"),
        ("prefix", "main"),
        ("warehouse", "s3://lake"),
        ("namespace-separator", "%2E"),
        ("header.X-Iceberg-Access-Delegation", "vended-credentials"),
        ("client.region", "eu-west-1"),
        ("s3.endpoint", "http://127.0.0.1:9000"),
        ("gcs.project-id", "p"),
        ("adls.account-name", "a"),
    ],
)
def test_properties_that_a_server_may_set(name, value):
    assert accepted_properties("prod", OWN, {**OWN, name: value}) == {**OWN, name: value}


@pytest.mark.parametrize("name", ["nessie.is-nessie-catalog", "rest-metrics-reporting-enabled", "io-impl"])
def test_unknown_properties_are_ignored(name):
    assert accepted_properties("prod", OWN, {**OWN, name: "true"}) == OWN


def test_properties_that_the_user_set_too_are_the_users():
    own = {**OWN, "rest.sigv4-enabled": "true", "oauth2-server-uri": ELSEWHERE}
    assert accepted_properties("prod", own, dict(own)) == own


@pytest.mark.parametrize(
    ("tokens", "pages"),
    [(["a", None], 2), (["a", "b", ""], 3), (["a", "a"], None), (["a", "b", "a"], None), (map(str, count()), None)],
)
def test_a_listing_ends_or_is_an_error(tokens, pages):
    following = iter(tokens)

    def ask(token: str | None) -> tuple[list[str | None], str | None]:
        return [token], next(following)

    if pages is None:
        with pytest.raises(harness.StorageError, match="Catalog prod returned an endless list of tables"):
            read_pages("prod", "tables", ask)
    else:
        assert read_pages("prod", "tables", ask) == [None, "a", "b"][:pages]
