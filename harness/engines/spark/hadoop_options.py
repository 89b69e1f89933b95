"""Options of object stores in the form of Hadoop's file systems: s3a, ABFS for Azure, and Google's connector.

The options are passed with a read and not set in the session. Hadoop caches file systems by bucket, regardless of their
options, so a read with options disables the cache. For a table opened without options, Spark's configuration applies.
It also applies to credentials that Hadoop only accepts from a user's own class: bearer tokens, and service account keys
as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from harness.engines.spark.java_runtime import hadoop_aws
from harness.errors import RequestError, UnsupportedError
from harness.storage.object_options import azure_account, with_profile
from harness.storage.paths import SCHEME, canonical_path, is_local
from harness.storage.stores import Storage

S3 = ("s3", "s3a", "s3n")
"""The URI schemes of S3."""
_AZURE = "add org.apache.hadoop:hadoop-azure, in the version of its Hadoop, in spark.jars.packages"
_GOOGLE = (
    "add org.apache.hadoop:hadoop-gcp, in the version of its Hadoop, in spark.jars.packages; before Hadoop 3.5, the "
    "shaded jar of com.google.cloud.bigdataoss:gcs-connector in spark.jars"
)
_OTHER_AZURE = "Hadoop calls Azure abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, so open the table with this location"
_ADVICE = {"abfs": _AZURE, "abfss": _AZURE, "az": _OTHER_AZURE, "azure": _OTHER_AZURE, "gs": _GOOGLE, "gcs": _GOOGLE}


def hadoop_location(path: str) -> str:
    """Return a remote path in Hadoop's spelling. The scheme of S3 is s3a there."""
    match = SCHEME.match(path)
    return f"s3a{path[match.end() :]}" if match is not None and match[0].lower() in S3 else path


def check_access(context: SparkContext, paths: Iterable[str]) -> None:
    """Raise RequestError if the JVM has no file system for a path's scheme. The message names the package to add."""

    def is_served(scheme: str) -> bool:
        file_systems = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]  # set while Spark runs
        try:
            file_systems.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
        except Py4JJavaError:
            return False
        return True

    check_schemes(paths, is_served)


def check_schemes(paths: Iterable[str], is_served: Callable[[str], bool]) -> None:
    """Check that a JVM has file systems for the paths' schemes. Raises the error of `check_access`."""
    remote = (SCHEME.match(hadoop_location(path)) for path in paths if not is_local(path))
    for scheme in {match[0].lower() for match in remote if match is not None}:
        if is_served(scheme):
            continue
        lacking = f"Cannot read {scheme}:// with Spark: it has no file system for it"
        advice = _ADVICE.get(scheme, "add its package in spark.jars.packages")
        if scheme == "s3a":
            lacking = "Cannot read s3:// with Spark: it has no s3a"
            advice = f"start it with harness.spark_session(packages='s3'), or with spark.jars.packages={hadoop_aws()}"
        raise RequestError(f"{lacking}; {advice}", cause="MissingPackage")


_S3A = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint": "endpoint",
}
_PROVIDER = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"
_CLIENT_SECRET = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_MANAGED_IDENTITY = "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"
_ENTRA = "https://login.microsoftonline.com/{}/oauth2/token"


def hadoop_options(storage: Storage, paths: Iterable[str]) -> dict[str, str]:
    """Return Hadoop's options for the stores of some paths, from the options with which the table was opened.

    Returns:
        The options. Empty if the table was opened without options.

    Raises:
        UnsupportedError: The options of paths in one bucket differ. Hadoop has one set for each bucket.
        RequestError: The table's options are invalid, name a missing profile, or differ between Google Cloud buckets.
            Hadoop has only one set for all buckets.
    """
    places: dict[tuple[str, str | None], str] = {}
    for path in paths:
        if not is_local(path):
            places.setdefault(("/".join(path.split("/", 3)[:3]), storage.owner(path)), path)
    options: dict[str, str] = {}
    by_store: dict[str, dict[str, str]] = {}
    for (base, _), path in places.items():
        scheme, store_options = _of_store(base, storage, path)
        if by_store.setdefault(canonical_path(base).store, store_options) != store_options:
            raise UnsupportedError(
                f"Cannot read {base} with Spark: its files need several credentials, but Hadoop has one set of options "
                "for each bucket; read the table with engine duckdb",
                cause="SeveralCredentials",
                file=path,
            )
        if any(options.get(name, value) != value for name, value in store_options.items()):
            raise RequestError(
                f"Cannot read {base} with Spark: its options differ from those of another bucket, but Hadoop has only "
                "one set of options; use the same for both",
                options=("storage_options",),
            )
        options |= {**store_options, f"fs.{scheme}.impl.disable.cache": "true"} if store_options else {}
    return options


def _of_store(base: str, storage: Storage, path: str) -> tuple[str, dict[str, str]]:
    """Return Hadoop's scheme for a store, and the options of a path there."""
    prefix, _, authority = base.partition("://")
    match prefix.lower():
        case "s3" | "s3a" | "s3n":
            return "s3a", _of_bucket(authority, with_profile(storage.store_options(path)))
        case "abfs" | "abfss" as scheme:
            return scheme, _of_account(authority, storage.store_options(path))
        case "gs" | "gcs" as scheme:
            return scheme, _of_google(storage.store_options(path))
        case scheme:
            return scheme, {}


def _of_bucket(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    values = {hadoop: options[name] for name, hadoop in _S3A.items() if name in options}
    endpoint = options.get("endpoint", "")
    if endpoint:
        values["path.style.access"] = "false" if options.get("path_style") == "false" else "true"
        values["connection.ssl.enabled"] = "false" if endpoint.startswith("http://") else "true"
        values.setdefault("endpoint.region", "us-east-1")
    if options.get("anonymous") == "true":
        values["aws.credentials.provider"] = _PROVIDER.format("Anonymous")
    elif "session_token" in options:
        values["aws.credentials.provider"] = _PROVIDER.format("Temporary")
    elif "access_key_id" in options:
        values["aws.credentials.provider"] = _PROVIDER.format("Simple")
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in values.items()}


def _of_account(authority: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for the account of `CONTAINER@HOST`.

    A key takes precedence over a SAS token, and a SAS token over a client secret. Otherwise a managed identity is used.
    """
    host, account = authority.partition("@")[2], azure_account(options, authority)
    if account.key is not None:
        hadoop = {"account.auth.type": "SharedKey", "account.key": account.key}
    elif account.sas_token is not None:
        hadoop = {"account.auth.type": "SAS", "sas.fixed.token": account.sas_token.removeprefix("?")}
    elif {"client_id", "client_secret", "tenant_id"} <= options.keys():
        hadoop = {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": _CLIENT_SECRET,
            "account.oauth2.client.id": options["client_id"],
            "account.oauth2.client.secret": options["client_secret"],
            "account.oauth2.client.endpoint": _ENTRA.format(options["tenant_id"]),
        }
    elif "client_id" in options and not {"client_secret", "token", "anonymous"} & options.keys():
        hadoop = {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": _MANAGED_IDENTITY,
            "account.oauth2.client.id": options["client_id"],
        }
        if "tenant_id" in options:
            hadoop["account.oauth2.msi.tenant"] = options["tenant_id"]
    else:
        hadoop = {}
    return {f"fs.azure.{name}.{host}": value for name, value in hadoop.items()}


def _of_google(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for all buckets, in the names of several connectors. Each connector ignores unknown names.

    Hadoop's own connector has no endpoint option and always needs credentials.
    """
    hadoop = {}
    if "service_account_path" in options:
        hadoop["auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        hadoop["auth.service.account.json.keyfile"] = options["service_account_path"]
    elif options.get("anonymous") == "true":
        hadoop["auth.type"] = "UNAUTHENTICATED"
        hadoop |= {"auth.service.account.enable": "false", "auth.null.enable": "true"}  # for connectors before 3.0
    if "endpoint" in options:
        hadoop["storage.root.url"] = f"{options['endpoint'].rstrip('/')}/"
    if "project" in options:
        hadoop["project.id"] = options["project"]
    return {f"fs.gs.{name}": value for name, value in hadoop.items()}
