"""Object stores as Spark opens them: S3 through Hadoop's s3a, with the options that the table was opened with.

The options go with the read and not into the session. Hadoop keeps its file systems by bucket, whatever their options
are, so a read that has options gets one of its own. For other stores, and without options, Spark's configuration holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from harness.engines.spark.packages import hadoop_aws
from harness.errors import RequestError
from harness.storage.aws_profiles import with_profile
from harness.storage.paths import SCHEME, is_local
from harness.storage.stores import Storage

_S3 = ("s3", "s3a", "s3n")
_S3A = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint": "endpoint",
}
_ADVICE = {
    **dict.fromkeys(
        ("abfs", "abfss"),
        "add org.apache.hadoop:hadoop-azure, in the version of its Hadoop, in spark.jars.packages, and its options as "
        "spark.hadoop.fs.azure.*",
    ),
    **dict.fromkeys(
        ("gs", "gcs"),
        "add com.google.cloud.bigdataoss:gcs-connector in spark.jars.packages, and its options as spark.hadoop.fs.gs.*",
    ),
    **dict.fromkeys(
        ("az", "azure"),
        "Hadoop calls Azure abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, so open the table there",
    ),
}
_PROVIDER = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"


def hadoop_location(path: str) -> str:
    """A remote path as Hadoop spells it: S3 is s3a there."""
    match = SCHEME.match(path)
    return f"s3a{path[match.end() :]}" if match is not None and match[0].lower() in _S3 else path


def check_access(context: SparkContext, paths: Iterable[str]) -> None:
    """Returns if the JVM has a file system for the schemes of the paths.

    Raises:
        RequestError: it has none; the message says which package brings it.
    """
    remote = (SCHEME.match(hadoop_location(path)) for path in paths if not is_local(path))
    for scheme in {match[0].lower() for match in remote if match is not None}:
        file_systems = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
        try:
            file_systems.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
        except Py4JJavaError as error:
            raise RequestError(_lacking(scheme), cause="MissingPackage") from error


def _lacking(scheme: str) -> str:
    if scheme != "s3a":
        advice = _ADVICE.get(scheme, "add its package in spark.jars.packages")
        return f"Cannot read {scheme}:// with Spark: it has no file system for it; {advice}"
    return (
        f"Cannot read s3:// with Spark: it has no s3a; start it with harness.spark_session(packages='s3'), or with "
        f"spark.jars.packages={hadoop_aws()}"
    )


def hadoop_options(storage: Storage, paths: Iterable[str]) -> dict[str, str]:
    """Hadoop's options for the buckets of S3 that the paths are in, as the table was opened with; empty: none said.

    Raises:
        RequestError: the table's options are wrong, or name a profile that is not there.
    """
    options: dict[str, str] = {}
    for base in dict.fromkeys("/".join(path.split("/", 3)[:3]) for path in paths if not is_local(path)):
        if base.partition("://")[0].lower() in _S3:
            options |= _of_bucket(base.partition("://")[2], with_profile(storage.store_options(base)))
    return options and {**options, "fs.s3a.impl.disable.cache": "true"}


def _of_bucket(bucket: str, said: dict[str, str]) -> dict[str, str]:
    given = {hadoop: said[name] for name, hadoop in _S3A.items() if name in said}
    endpoint = said.get("endpoint", "")
    if endpoint:
        given["path.style.access"] = "false" if said.get("path_style") == "false" else "true"
        given["connection.ssl.enabled"] = "false" if endpoint.startswith("http://") else "true"
        given.setdefault("endpoint.region", "us-east-1")
    if said.get("anonymous") == "true":
        given["aws.credentials.provider"] = _PROVIDER.format("Anonymous")
    elif "session_token" in said:
        given["aws.credentials.provider"] = _PROVIDER.format("Temporary")
    elif "access_key_id" in said:
        given["aws.credentials.provider"] = _PROVIDER.format("Simple")
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in given.items()}
