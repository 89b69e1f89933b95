"""Object stores as Spark opens them: how Hadoop spells their files, and whether the JVM has a file system for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from harness.engines.spark.packages import hadoop_aws
from harness.errors import RequestError
from harness.storage.paths import SCHEME, is_local

S3 = ("s3", "s3a", "s3n")
"""The schemes of S3."""
_ADVICE = {
    **dict.fromkeys(
        ("abfs", "abfss"),
        "add org.apache.hadoop:hadoop-azure, in the version of its Hadoop, in spark.jars.packages",
    ),
    **dict.fromkeys(
        ("gs", "gcs"),
        "add org.apache.hadoop:hadoop-gcp, in the version of its Hadoop, in spark.jars.packages; before Hadoop "
        "3.5, the shaded jar of com.google.cloud.bigdataoss:gcs-connector in spark.jars",
    ),
    **dict.fromkeys(
        ("az", "azure"),
        "Hadoop calls Azure abfss://CONTAINER@ACCOUNT.dfs.core.windows.net, so open the table there",
    ),
}


def hadoop_location(path: str) -> str:
    """A remote path as Hadoop spells it: S3 is s3a there."""
    match = SCHEME.match(path)
    return f"s3a{path[match.end() :]}" if match is not None and match[0].lower() in S3 else path


def check_access(context: SparkContext, paths: Iterable[str]) -> None:
    """Returns if the JVM has a file system for the schemes of the paths.

    Raises:
        RequestError: it has none; the message says which package brings it.
    """

    def is_served(scheme: str) -> bool:
        file_systems = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
        try:
            file_systems.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
        except Py4JJavaError:
            return False
        return True

    check_schemes(paths, is_served)


def check_schemes(paths: Iterable[str], is_served: Callable[[str], bool]) -> None:
    """Returns if a JVM serves the schemes of the paths; raises as `check_access`."""
    remote = (SCHEME.match(hadoop_location(path)) for path in paths if not is_local(path))
    for scheme in {match[0].lower() for match in remote if match is not None}:
        if not is_served(scheme):
            raise RequestError(_lacking(scheme), cause="MissingPackage")


def _lacking(scheme: str) -> str:
    if scheme != "s3a":
        advice = _ADVICE.get(scheme, "add its package in spark.jars.packages")
        return f"Cannot read {scheme}:// with Spark: it has no file system for it; {advice}"
    return (
        f"Cannot read s3:// with Spark: it has no s3a; start it with harness.spark_session(packages='s3'), or with "
        f"spark.jars.packages={hadoop_aws()}"
    )
