"""Packages of Java that a session can be started with, by short names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from harness.errors import RequestError

_JARS = "hadoop-client-api-*.jar"
_CONNECTORS = {"s3": "hadoop-aws", "azure": "hadoop-azure", "gcs": "hadoop-gcp"}
"""Of Hadoop, by the names of harness's own extras."""
_FIRST_WITH_GCP = (3, 5)


def _hadoop_version() -> str:
    """That of pyspark's own Hadoop."""
    found = importlib.util.find_spec("pyspark")
    jars = Path((found and found.origin) or "").parent / "jars"
    versions = [jar.stem.rpartition("-")[2] for jar in jars.glob(_JARS)]
    return versions[0] if versions else "3.4.1"


def hadoop_aws() -> str:
    """The Maven coordinates of Hadoop's s3a, in the version that pyspark's own Hadoop has."""
    return f"org.apache.hadoop:hadoop-aws:{_hadoop_version()}"


def _connector(name: str) -> str:
    version = _hadoop_version()
    if name == "gcs" and tuple(map(int, version.split(".")[:2])) < _FIRST_WITH_GCP:
        raise RequestError(
            f"Cannot add packages='gcs': Hadoop {version} has no connector for Google Cloud; put the shaded jar of "
            "com.google.cloud.bigdataoss:gcs-connector in spark.jars, or take Spark 4.3",
            options=("packages",),
        )
    return f"org.apache.hadoop:{_CONNECTORS[name]}:{version}"


def coordinates(packages: str) -> str:
    """`spark.jars.packages` for short names and Maven coordinates, with commas between them.

    Raises:
        RequestError: a name is neither, or pyspark's Hadoop has no such package.
    """
    found = []
    for package in (part.strip() for part in packages.split(",")):
        if package not in _CONNECTORS and package.count(":") != 2:
            names = ", ".join(map(repr, _CONNECTORS))
            raise RequestError(
                f"Invalid packages={packages!r}: expected {names}, or group:artifact:version", options=("packages",)
            )
        found.append(_connector(package) if package in _CONNECTORS else package)
    return ",".join(found)
