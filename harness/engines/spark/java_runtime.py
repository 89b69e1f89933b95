"""The Java that Spark would be started with: where it is, and what it says of itself."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.errors import RequestError

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""
_JAVA_WITHOUT_SUBJECTS = 23
"""The first Java that refuses how Hadoop asks for the user, up to that of Spark 4.1 (HADOOP-19212)."""
ADVICE = f"install Java {OLDEST_JAVA} or newer, or set JAVA_HOME to one"

_VERSION = re.compile(r'version "([^"]+)"')
_MAJOR = re.compile(r"(?:1\.)?(\d+)")


def find_java() -> str:
    """The `java` of JAVA_HOME, else the first on PATH; a RequestError if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    found = shutil.which(java)
    if found is None:
        where = f"there is no {java} (JAVA_HOME)" if home else "there is no java on PATH, and JAVA_HOME is not set"
        raise RequestError(f"Cannot start Spark: {where}; {ADVICE}", cause="NoJava")
    return found


def java_version(java: str) -> str:
    """The version that a `java` says it has, such as `17.0.15` or `1.8.0_402`; a RequestError if it says none."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"Cannot start Spark: {java} does not run: {error}; {ADVICE}", cause="NoJava") from error
    said = ran.stderr + ran.stdout  # -version goes to stderr, after notes on JAVA_TOOL_OPTIONS
    version = _VERSION.search(said)
    if ran.returncode != 0 or version is None:
        first = next(iter(said.strip().splitlines()), f"exit code {ran.returncode}")
        raise RequestError(f"Cannot start Spark: {java} -version says {first!r}; {ADVICE}", cause="NoJava")
    return version[1]


def check_java() -> None:
    """Raises RequestError without a Java that runs, is 17 or newer, and is not too new for the installed PySpark."""
    java = find_java()
    major = java_major(java_version(java))
    if major < OLDEST_JAVA:
        raise RequestError(f"Cannot start Spark: {java} is Java {major}; {ADVICE}", cause="OldJava")
    if (problem := newer_than_pyspark(major, installed_pyspark())) is not None:
        raise RequestError(f"Cannot start Spark: {java} is {problem}", cause="NewJava")


def newer_than_pyspark(major: int, pyspark: str | None) -> str | None:
    """Why a PySpark fails on every read with a new Java, and what to do; None if it does not, or there is none."""
    if pyspark is None or major < _JAVA_WITHOUT_SUBJECTS or not pyspark.startswith(("4.0.", "4.1.")):
        return None
    older = f"set JAVA_HOME to Java {OLDEST_JAVA} to {_JAVA_WITHOUT_SUBJECTS - 1}"
    return f"Java {major}, on which pyspark {pyspark} does not run; install pyspark 4.2 or newer, or {older}"


def installed_pyspark() -> str | None:
    """The version of PySpark that is installed; None: none is."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def java_major(version: str) -> int:
    """17 for `17.0.15`, 8 for `1.8.0_402`; 0 for what is no version."""
    match = _MAJOR.match(version)
    return 0 if match is None else int(match[1])


# Packages of Java that a session can be started with, by short names.


_JARS = "hadoop-client-api-*.jar"
_CONNECTORS = {"s3": "hadoop-aws", "azure": "hadoop-azure", "gcs": "hadoop-gcp"}
"""Packages of Hadoop, by the names of harness's own extras."""
_FIRST_WITH_GCP = (3, 5)


def _hadoop_version() -> str:
    """The version of pyspark's own Hadoop."""
    found = importlib.util.find_spec("pyspark")
    jars = Path((found and found.origin) or "").parent / "jars"
    versions = [jar.stem.rpartition("-")[2] for jar in jars.glob(_JARS)]
    return versions[0] if versions else "3.4.1"


def hadoop_aws() -> str:
    """The Maven coordinates of Hadoop's s3a, in the version that pyspark's own Hadoop has."""
    return f"org.apache.hadoop:hadoop-aws:{_hadoop_version()}"


def coordinates(packages: str) -> str:
    """`spark.jars.packages` for short names and Maven coordinates, with commas between; a RequestError for else."""
    found = []
    for package in (part.strip() for part in packages.split(",")):
        if package not in _CONNECTORS and package.count(":") != 2:
            names = ", ".join(map(repr, _CONNECTORS))
            raise RequestError(
                f"Invalid packages={packages!r}: expected {names}, or group:artifact:version", options=("packages",)
            )
        version = _hadoop_version()
        if package == "gcs" and tuple(map(int, version.split(".")[:2])) < _FIRST_WITH_GCP:
            raise RequestError(
                f"Cannot add packages='gcs': Hadoop {version} has no connector for Google Cloud; put the shaded jar of "
                "com.google.cloud.bigdataoss:gcs-connector in spark.jars, or take Spark 4.3",
                options=("packages",),
            )
        is_short = package in _CONNECTORS
        found.append(f"org.apache.hadoop:{_CONNECTORS[package]}:{version}" if is_short else package)
    return ",".join(found)
