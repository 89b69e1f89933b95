"""Packages of Java that a session can be started with, by short names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from harness.errors import RequestError

_JARS = "hadoop-client-api-*.jar"


def hadoop_aws() -> str:
    """The Maven coordinates of Hadoop's s3a, in the version that pyspark's own Hadoop has."""
    found = importlib.util.find_spec("pyspark")
    jars = Path((found and found.origin) or "").parent / "jars"
    versions = [jar.stem.rpartition("-")[2] for jar in jars.glob(_JARS)]
    return f"org.apache.hadoop:hadoop-aws:{versions[0] if versions else '3.4.1'}"


def coordinates(packages: str) -> str:
    """`spark.jars.packages` for short names and Maven coordinates, with commas between them.

    Raises:
        RequestError: a name is neither.
    """
    found = []
    for package in (part.strip() for part in packages.split(",")):
        if package != "s3" and package.count(":") != 2:
            raise RequestError(
                f"Invalid packages={packages!r}: expected 's3', or group:artifact:version", options=("packages",)
            )
        found.append(hadoop_aws() if package == "s3" else package)
    return ",".join(found)
