"""Tables in object stores on Spark: the options for Hadoop, and the errors if Hadoop has no file system for a store."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from lending import Buckets, Clock, Credentials, Lender
from pyspark.sql.types import LongType, StructField, StructType

import harness
from harness import RequestError, UnsupportedError
from harness.engines.spark import java_runtime
from harness.engines.spark.compiled import load_classes
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead
from harness.engines.spark.hadoop_options import check_access, hadoop_location, hadoop_options
from harness.engines.spark.java_runtime import coordinates, hadoop_aws
from harness.storage.stores import Storage
from harness.writing.iceberg.builder import IcebergTable

KEYS = {"key": "k", "secret": "s"}
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
KEYED = {"lake.access.key": "k", "lake.secret.key": "s", "lake.aws.credentials.provider": SIMPLE}
SESSION = {**KEYED, "lake.session.token": "t", "lake.aws.credentials.provider": SIMPLE.replace("Simple", "Temporary")}
LOCAL = {"lake.endpoint": "http://h:9000", "lake.endpoint.region": "us-east-1"}
PLAIN = {"lake.path.style.access": "true", "lake.connection.ssl.enabled": "false"}


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def options(*paths: str, **storage_options: Any) -> dict[str, str]:
    return {
        name.removeprefix("fs.s3a.bucket."): value
        for name, value in hadoop_options(Storage(storage_options), paths or ("s3://lake/t/f",)).items()
    }


@pytest.mark.parametrize(
    ("storage_options", "expected"),
    [
        ({}, {}),
        (KEYS, KEYED),
        ({**KEYS, "token": "t"}, SESSION),
        ({"anon": True}, {"lake.aws.credentials.provider": SIMPLE.replace("Simple", "Anonymous")}),
        ({"s3.endpoint": "http://h:9000"}, {**LOCAL, **PLAIN}),
        ({"region": "eu-west-1"}, {"lake.endpoint.region": "eu-west-1"}),
    ],
)
def test_options_of_a_bucket(storage_options: dict[str, Any], expected: dict[str, str]) -> None:
    uncached = {"fs.s3a.impl.disable.cache": "true"} if expected else {}
    assert options(**storage_options) == {**expected, **uncached}


def test_each_bucket_has_its_own_options() -> None:
    told = options(
        "s3a://lake/f", "s3://other/g", "/local", "gs://g/f", **{**KEYS, "s3://other": {"region": "r"}, "gs://g": {}}
    )
    assert {name for name in told if name.startswith("other.")} == {"other.endpoint.region"}
    assert told["lake.access.key"] == "k"


def test_a_bucket_has_one_set_of_options() -> None:
    by_prefix = {"s3://lake/t/": KEYS, "s3://lake/u/": {**KEYS, "token": "t"}, "s3://lake/v/": KEYS}
    expected = {**KEYED, "fs.s3a.impl.disable.cache": "true"}
    assert options("s3://lake/t/f", "s3://lake/t/g", "s3a://lake/v/f", **by_prefix) == expected
    with pytest.raises(UnsupportedError, match="Cannot read s3a://lake with Spark: its files need several credentials"):
        options("s3://lake/t/f", "s3a://lake/u/f", **by_prefix)


ABFS = {"fs.abfss.impl.disable.cache": "true"}
GS = {"fs.gs.impl.disable.cache": "true"}
HOST = "acme.dfs.core.windows.net"
SHARED_KEY = {f"fs.azure.account.auth.type.{HOST}": "SharedKey", f"fs.azure.account.key.{HOST}": "azE=", **ABFS}
CLIENT_SECRET = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
MANAGED = {
    f"fs.azure.account.auth.type.{HOST}": "OAuth",
    f"fs.azure.account.oauth.provider.type.{HOST}": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
    f"fs.azure.account.oauth2.client.id.{HOST}": "app",
    **ABFS,
}
SAS = {f"fs.azure.account.auth.type.{HOST}": "SAS", f"fs.azure.sas.fixed.token.{HOST}": "sv=1&sig=x", **ABFS}


@pytest.mark.parametrize(
    ("storage_options", "expected"),
    [
        ({}, {}),
        ({"account_key": "azE="}, SHARED_KEY),
        ({f"fs.azure.account.key.{HOST}": "azE="}, SHARED_KEY),
        ({"connection_string": "AccountName=acme;AccountKey=azE=;EndpointSuffix=core.windows.net"}, SHARED_KEY),
        ({"adls.sas-token": "sv=1&sig=x"}, SAS),
        ({"sas_token": "?sv=1&sig=x"}, SAS),
        (
            {"azure_client_id": "app", "azure_client_secret": "s", "azure_tenant_id": "acme-tenant"},
            {
                f"fs.azure.account.auth.type.{HOST}": "OAuth",
                f"fs.azure.account.oauth.provider.type.{HOST}": CLIENT_SECRET,
                f"fs.azure.account.oauth2.client.id.{HOST}": "app",
                f"fs.azure.account.oauth2.client.secret.{HOST}": "s",
                f"fs.azure.account.oauth2.client.endpoint.{HOST}": "https://login.microsoftonline.com/acme-tenant/oauth2/token",
                **ABFS,
            },
        ),
        ({"azure_client_id": "app"}, MANAGED),
        ({"client_id": "app", "tenant_id": "acme"}, {**MANAGED, f"fs.azure.account.oauth2.msi.tenant.{HOST}": "acme"}),
        ({"client_id": "app", "account_key": "azE="}, SHARED_KEY),
        ({"client_id": "app", "token": "t"}, {}),  # the owner of the token
        ({"client_id": "app", "client_secret": "s"}, {}),  # without a tenant, no token can be requested
        ({"token": "t"}, {}),  # Hadoop accepts it only from a class, so Spark's configuration applies
    ],
)
def test_options_of_an_azure_account(storage_options: dict[str, Any], expected: dict[str, str]) -> None:
    assert options(f"abfss://lake@{HOST}/t/f", **storage_options) == expected


KEYFILE = {
    "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
    "fs.gs.auth.service.account.json.keyfile": "/keys/sa.json",
    "fs.gs.project.id": "acme",
}
NOBODY = {
    "fs.gs.auth.type": "UNAUTHENTICATED",
    "fs.gs.auth.service.account.enable": "false",
    "fs.gs.auth.null.enable": "true",
    "fs.gs.storage.root.url": "http://localhost:4443/",
}


@pytest.mark.parametrize(
    ("storage_options", "expected"),
    [
        ({}, {}),
        ({"gcs.service-account": "/keys/sa.json", "gcs.project-id": "acme"}, {**KEYFILE, **GS}),
        ({"anonymous": True, "endpoint": "http://localhost:4443"}, {**NOBODY, **GS}),
        ({"token": "t"}, {}),
    ],
)
def test_options_of_google_cloud(storage_options: dict[str, Any], expected: dict[str, str]) -> None:
    assert options("gs://lake/t/f", **storage_options) == expected


def test_buckets_of_google_cloud_have_one_set_of_options() -> None:
    with pytest.raises(
        RequestError, match="Cannot read gs://other with Spark: its options differ from those of another"
    ):
        options("gs://lake/f", "gs://other/f", **{"project": "a", "gs://other": {"project": "b"}})


@pytest.mark.parametrize(
    ("path", "spelled"),
    [("s3://b/t/f", "s3a://b/t/f"), ("S3N://b/f", "s3a://b/f"), ("s3a://b/f", "s3a://b/f"), ("gs://b/f", "gs://b/f")],
)
def test_s3_is_s3a_to_hadoop(path: str, spelled: str) -> None:
    assert hadoop_location(path) == spelled


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hadoop_aws().startswith("org.apache.hadoop:hadoop-aws:3.")
    assert coordinates("s3, g:a:1") == f"{hadoop_aws()},g:a:1"
    monkeypatch.setattr(java_runtime, "hadoop_version", lambda: "3.5.0")
    assert coordinates("azure,gcs") == "org.apache.hadoop:hadoop-azure:3.5.0,org.apache.hadoop:hadoop-gcp:3.5.0"
    with pytest.raises(RequestError, match="Invalid packages='gs': expected 's3', 'azure', 'gcs', or group:artifact:v"):
        coordinates("gs")
    monkeypatch.setattr(java_runtime, "hadoop_version", lambda: "3.4.1")
    assert coordinates("azure") == "org.apache.hadoop:hadoop-azure:3.4.1"
    with pytest.raises(RequestError, match=r"Cannot add packages='gcs': Hadoop 3\.4\.1 has no connector"):
        coordinates("gcs")


def test_a_spark_without_s3a_says_what_to_add(harness_spark: Any) -> None:
    check_access(harness_spark.sparkContext, ["/local/f"])
    with pytest.raises(
        RequestError, match=r"harness.spark_session\(packages='s3'\), or with spark.jars.packages=org"
    ) as e:
        check_access(harness_spark.sparkContext, ["s3://lake/f"])
    assert e.value.cause == "MissingPackage"
    for scheme, advice in (
        ("gs", "hadoop-gcp, .*gcs-connector"),
        ("abfss", "hadoop-azure"),
        ("az", "abfss://CONTAINER"),
    ):
        with pytest.raises(RequestError, match=f"Cannot read {scheme}:// with Spark: .*{advice}"):
            check_access(harness_spark.sparkContext, [f"{scheme}://lake/f"])


@pytest.fixture
def store(harness_spark: Any) -> Any:
    """The class that serves `s3a://lake/PATH` from local files in Spark, and counts and records what is opened."""
    load_classes(harness_spark.sparkContext, "counted_store")
    store = harness_spark._jvm.harness.spark.CountedStore
    hadoop = harness_spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.impl", "harness.spark.CountedStore")
    store.reset()
    yield store
    hadoop.unset("fs.s3a.impl")


def test_a_read_with_options_opens_one_file_system_and_asks_once_each_file(
    harness_spark: Any, store: Any, tmp_path: Path
) -> None:
    count = 200
    for i in range(count):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    paths = [f"s3a://lake{tmp_path}/{i}.parquet" for i in range(count)]
    files = [DiskFile(path, (tmp_path / path.rpartition("/")[2]).stat().st_size) for path in paths]
    options = {"fs.s3a.impl.disable.cache": "true", "fs.s3a.bucket.lake.secret.key": "s"}
    gateway = Gateway.for_session(harness_spark)

    def read(**further: str) -> str:
        store.reset()
        frame = gateway.planned_frame(
            PlannedRead(
                file_format="parquet",
                read_schema=StructType([StructField("a", LongType())]),
                files=files,
                constants=pa.table({"k": range(count)}),
                positions=False,
                options=options | further,
            )
        )
        assert frame.agg({"p0": "sum"}).collect()[0][0] == sum(range(count))
        return str(store.counts())

    asked = count if harness_spark.version >= "4.1" else 2 * count  # Spark 4.0 opens a file again for its footer
    store.reset()
    gateway.read_ends(paths, options, most=1 << 16)
    assert store.counts() == f"1 opened, 0 closed, {count} heads"
    assert read() == f"0 opened, 0 closed, {asked} heads"
    assert read(**{"fs.s3a.bucket.lake.secret.key": "another"}) == f"1 opened, 0 closed, {asked} heads"
    for number in range(32):  # as many as are cached
        gateway.read_ends(paths[:1], options | {"fs.s3a.bucket.lake.secret.key": str(number)}, most=1 << 16)
    assert read() == f"1 opened, 1 closed, {asked} heads"


def test_spark_reads_a_plan_with_the_credentials_that_the_server_lends(
    harness_spark: Any, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").symlink_to("/")
    monkeypatch.setattr("harness.storage.clients.open_client", Buckets(tmp_path).open_client)
    location = f"s3://lake{tmp_path}/t"
    table = IcebergTable.create(tmp_path / "t", {"id": "long"}, recorded_location=location)
    files = [
        table.write_data([{"id": 10}, {"id": 1}], path=path) for path in ("data/eu/1.parquet", "data/us/2.parquet")
    ]
    table.append(*files)
    table.commit(add=[table.write_position_deletes([(file, 0) for file in files], path="data/us/d.parquet")])
    with Lender(Credentials(Clock())) as server:
        server.add("sales.orders", location, storage_options=KEYS)
        server.names, server.of_table = {f"{location}/data/": "lent"}, "own"
        rows = harness.open_table("sales.orders", catalog=server.catalog()).snapshot()
        assert rows.to_arrow(engine="spark")["id"].to_pylist() == [1, 1]
        assert store.keys() == "lent-1"
        server.names = {f"{location}/data/eu/": "eu", f"{location}/data/us/": "us"}
        with pytest.raises(UnsupportedError, match="its files need several credentials"):
            rows.to_arrow(engine="spark")
        assert sorted(rows.to_arrow()["id"].to_pylist()) == [1, 1]
