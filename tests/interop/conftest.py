"""Spark sessions of the reference implementations, and the number of comparisons."""

from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from interop_session import QUICK, QUICK_DELTA, start

import harness
from harness.suite.readers import PINNED

COUNTED = pytest.StashKey[Counter[str]]()


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for tables of the reference writers."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def iceberg_spark(warehouse: Path) -> Iterator[Any]:
    """A Spark session with Apache Iceberg's runtime, and the catalog `ice` over the warehouse."""
    catalog = {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    session = _session("iceberg", {**catalog, **QUICK, "spark.sql.shuffle.partitions": "1"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def delta_spark() -> Iterator[Any]:
    """A Spark session with Delta Lake."""
    session = _session("delta", QUICK_DELTA)
    yield session
    session.stop()


def _session(name: str, settings: dict[str, str]) -> Any:
    pinned = PINNED[name]
    if version("pyspark") != pinned["pyspark"]:
        pytest.fail(f"{name} wants pyspark {pinned['pyspark']}, {version('pyspark')} is installed: run nox -s interop")
    try:
        return start(name, settings)
    except harness.EngineError as error:
        packages = ",".join(pinned["packages"])
        pytest.exit(f"Spark does not start with {packages}, which come from Maven Central: {error}", returncode=2)


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Counter[str]:
    """The number of comparisons in this run, which the tests increase."""
    return request.config.stash.setdefault(COUNTED, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    totals = config.stash.get(COUNTED, Counter())
    if totals:
        terminalreporter.section("compared with the reference implementations")
        for what, count in sorted(totals.items()):
            terminalreporter.line(f"{what}: {count}")
