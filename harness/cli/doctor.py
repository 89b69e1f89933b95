"""`harness doctor`: installed and missing packages, and the commands that install them."""

from __future__ import annotations

import importlib.metadata
import math
import platform
import re
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

import harness
from harness.cli import options, terminal
from harness.cli.document import DocumentOutput
from harness.engines.registry import find_engine, registered_engines
from harness.engines.spark.java_runtime import INSTALL_JAVA, usable_java
from harness.errors import HarnessError, RequestError
from harness.owners import REMEDY, other_owners

_DUCKDB, _SPARK, _UNTRUSTED = "DuckDB reads", "Spark reads", "Untrusted reads"
_BUILDERS, _SUITE = "Builders of tables", "Scenarios"
_EXTRAS = {_SPARK: "spark", _SUITE: "suite"}
"""The lakeharness extra that installs the packages for a kind of work."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A distribution that harness uses.

    Attributes:
        name: Its name.
        needed_for: The work that needs it.
        at_least: The lowest supported version.
        below: The lowest version that is not supported, or None.
    """

    name: str
    needed_for: str
    at_least: tuple[int, ...] = ()
    below: tuple[float, ...] | None = None


REQUIREMENTS = (
    Requirement("duckdb", _DUCKDB, (1, 5, 4), (3,)),
    Requirement("pyarrow", _DUCKDB, (25,)),
    Requirement("numpy", _DUCKDB, (2, 0, 2)),
    Requirement("fastavro", _BUILDERS, (1, 13)),
    Requirement("pyroaring", _DUCKDB, (1,)),
    Requirement("sqlglot", _DUCKDB, (30, 8), (31,)),
    Requirement("fsspec", _DUCKDB, (2024, 6)),
    Requirement("pytz", _DUCKDB, (2024, 1)),
    Requirement("pyyaml", _SUITE, (6, 0, 2)),
    *((Requirement("backports.zstd", _SUITE, (1,)),) if sys.version_info < (3, 14) else ()),
    Requirement("pyspark", _SPARK, (4,), (5,)),
    Requirement("pandas", _SPARK, (2, 2), (4,)),
)


def doctor(*, out: DocumentOutput) -> None:
    """Show installed versions and how to install missing packages.

    Examples:
        harness doctor
        harness doctor --format json

    Exit code: 2 only if reading with DuckDB cannot work.
    """
    with terminal.progress("looking around"):
        report = _examine()
    out.show("doctor", report)
    if not report["works"][_DUCKDB]:
        raise click.exceptions.Exit(2)


def _examine() -> dict[str, Any]:
    """Return the report: versions, `works` by kind of work, and `missing` with a command for each gap."""
    from harness.untrusted.bounds import Bounds
    from harness.untrusted.launching import run

    packages = [check(requirement, installed_version(requirement.name)) for requirement in REQUIREMENTS]
    for name, point in registered_engines().items():  # engines of other packages
        problem = None
        try:
            find_engine(name)
        except HarnessError as error:
            problem = error.message
        package, version = (point.value, None) if point.dist is None else (point.dist.name, point.dist.version)
        packages.append(
            _package_row(package, version, "", f"Engine {name}", problem, f"pip install --force-reinstall {package}")
        )
    kinds = (_DUCKDB, _SPARK, _UNTRUSTED, *(f"Engine {name}" for name in registered_engines()))
    missing = [
        _missing(f"{p['package']}: {p['problem']}", p["needed_for"], p["command"]) for p in packages if p["problem"]
    ]
    java: dict[str, str | None] = dict.fromkeys(("path", "version", "passed_over"))
    try:
        java = asdict(usable_java())
    except RequestError as error:
        missing.append(_missing(f"Java: {error.message}", _SPARK, INSTALL_JAVA))
    if not any(gap["needed_for"] == _DUCKDB for gap in missing) and (problem := try_duckdb()) is not None:
        missing.append(_missing(problem, _DUCKDB, "pip install lakeharness --force-reinstall"))
    missing += [_missing(f"{name} owns {owned}", "The name harness", REMEDY) for name, owned in other_owners().items()]
    try:
        run("harness.untrusted.worker:check_limits", None, bounds=Bounds())
    except HarnessError as error:  # the system cannot enforce the limits
        problem = error.with_option_names(options.option_for).message
        missing.append(_missing(problem, _UNTRUSTED, "run harness in a Linux container"))
    return {
        "harness": harness.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": [{key: p[key] for key in ("package", "version", "supported", "needed_for")} for p in packages],
        "java": java,
        "works": {kind: all(gap["needed_for"] != kind for gap in missing) for kind in kinds},
        "missing": missing,
    }


def _missing(name: str, needed_for: str, command: str) -> dict[str, str]:
    return {"what": name, "needed_for": needed_for, "command": command}


def _package_row(
    package: str, version: str | None, supported: str, needed_for: str, problem: str | None, command: str
) -> dict[str, object]:
    """Return a row of the report, with the problem and the command that solves it, if there is one."""
    row = {"package": package, "version": version, "supported": supported, "needed_for": needed_for}
    return {**row, "problem": problem, "command": command if problem else None}


def check(requirement: Requirement, version: str | None) -> dict[str, Any]:
    """Return a package's row of the report. `problem` and `command` are None if the version is supported."""
    supported = f">={'.'.join(map(str, requirement.at_least))}"
    if requirement.below is not None:
        supported += f",<{'.'.join(map(str, requirement.below))}"
    problem = None
    if version is None:
        problem = "not installed"
    elif not requirement.at_least <= version_numbers(version) < (requirement.below or (math.inf,)):
        problem = f"version {version} is not supported, need {supported}"
    extra = _EXTRAS.get(requirement.needed_for)
    package = f"{requirement.name}{supported}" if extra is None else f"lakeharness[{extra}]"
    command = f"pip install '{package}'"
    return _package_row(requirement.name, version, supported, requirement.needed_for, problem, command)


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (1, 5, 0) for `1.5.0.dev3`."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def try_duckdb() -> str | None:
    """Return why DuckDB cannot read a Parquet file written by pyarrow, or None if it can."""
    try:
        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        with tempfile.TemporaryDirectory(prefix="harness-doctor-") as directory:
            path = str(Path(directory) / "one.parquet")
            pq.write_table(pa.table({"x": [42]}), path)
            with duckdb.connect() as connection:
                rows = connection.execute("SELECT x FROM read_parquet(?)", [path]).fetchall()
    except Exception as error:  # a broken native library may raise any exception
        return f"DuckDB: cannot read a Parquet file: {type(error).__name__}: {error}"
    return None if rows == [(42,)] else f"DuckDB: read {rows} from a Parquet file, expected 42"
