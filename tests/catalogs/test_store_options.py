import pytest

from harness.metadata.catalogs.pyiceberg import options_of

S3 = {"s3.endpoint": "http://localhost:1", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
OURS = {"endpoint_url": "http://localhost:1", "key": "a", "secret": "b"}


@pytest.mark.parametrize(
    ("properties", "location", "expected"),
    [
        (S3 | {"uri": "http://catalog", "warehouse": "s3://lake", "token": "t"}, "s3://lake/t", OURS),
        pytest.param(S3, "s3a://lake/t", OURS, id="s3a-is-s3"),
        pytest.param(S3, "/lake/t", {}, id="local"),
        pytest.param(S3, "gs://lake/t", {}, id="of-another-kind-of-store"),
        ({"client.region": "eu-west-1"}, "s3://lake/t", {"client_kwargs": {"region_name": "eu-west-1"}}),
        ({"client.region": "eu-west-1", "s3.region": "x"}, "s3://lake/t", {"client_kwargs": {"region_name": "x"}}),
        ({"s3.path-style-access": "true"}, "s3://lake/t", {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        ({"s3.force-virtual-addressing": "True"}, "s3://x", {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
        ({"s3.anonymous": "true", "s3.session-token": "t"}, "s3://lake/t", {"anon": True, "token": "t"}),
        pytest.param({"s3.signer": "x", "s3.session-token-expires-at-ms": "1"}, "s3://lake/t", {}, id="no-store-s"),
        pytest.param({"s3.region": None}, "s3://lake/t", {}, id="nothing-said"),
        ({"gcs.oauth2.token": "t", "gcs.no-auth": "x"}, "gs://lake/t", {"token": "t"}),
        (
            {"adls.sas-token.acc.dfs.core.windows.net": "mine", "adls.sas-token.other": "no"},
            "abfss://lake@acc.dfs.core.windows.net/t",
            {"sas_token": "mine", "account_name": "acc"},
        ),
    ],
)
def test_what_a_catalog_says_becomes_options_of_the_store(properties, location, expected):
    assert options_of(properties, location) == expected
