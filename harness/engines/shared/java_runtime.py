"""The Java that Spark would be started with: where it is, and what it says of itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.errors import RequestError

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""
ADVICE = f"install Java {OLDEST_JAVA} or newer, or set JAVA_HOME to one"

_VERSION = re.compile(r'version "([^"]+)"')
_MAJOR = re.compile(r"(?:1\.)?(\d+)")


def find_java() -> str:
    """The `java` of JAVA_HOME, else the first on PATH.

    Raises:
        RequestError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    found = shutil.which(java)
    if found is None:
        where = f"there is no {java} (JAVA_HOME)" if home else "there is no java on PATH, and JAVA_HOME is not set"
        raise RequestError(f"Cannot start Spark: {where}; {ADVICE}", cause="NoJava")
    return found


def java_version(java: str) -> str:
    """The version that a `java` says it has, such as `17.0.15` or `1.8.0_402`.

    Raises:
        RequestError: it does not run, or says something else.
    """
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
    """Refuses to go on without a Java that Spark can be started with.

    Raises:
        RequestError: there is none, it does not run, or it is older than 17.
    """
    java = find_java()
    major = java_major(java_version(java))
    if major < OLDEST_JAVA:
        raise RequestError(f"Cannot start Spark: {java} is Java {major}; {ADVICE}", cause="OldJava")


def java_major(version: str) -> int:
    """17 for `17.0.15`, 8 for `1.8.0_402`; 0 for what is no version."""
    match = _MAJOR.match(version)
    return 0 if match is None else int(match[1])
