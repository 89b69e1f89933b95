"""The reference implementations' Spark sessions, and the count of what was compared with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from delta_session import QUICK

import harness
from harness.conformance import readers

PINNED = json.loads((Path(readers.__file__).parent / "reference.json").read_text(encoding="utf-8"))
COUNTED = pytest.StashKey[Counter[str]]()


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reference writers put their tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def iceberg_spark(warehouse: Path) -> Iterator[Any]:
    """Spark with Apache Iceberg's runtime, and the catalog `ice` over the warehouse."""
    catalog = {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    # Of many small statements, compiling is what costs.
    quick = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    session = _session("iceberg", {**catalog, **quick})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def delta_spark() -> Iterator[Any]:
    """Spark with Delta Lake."""
    session = _session("delta", QUICK)
    yield session
    session.stop()


def _session(name: str, settings: dict[str, str]) -> Any:
    pinned = PINNED[name]
    if version("pyspark") != pinned["pyspark"]:
        pytest.fail(
            f"{name} wants pyspark {pinned['pyspark']}, {version('pyspark')} is installed: run nox -s reference"
        )
    packages = ",".join(pinned["packages"])
    try:
        return harness.spark_session(config={"spark.jars.packages": packages, **pinned["settings"], **settings})
    except harness.EngineError as error:
        pytest.exit(f"Spark does not start with {packages}, which come from Maven Central: {error}", returncode=2)


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Counter[str]:
    """What has been compared in this run; tests add to it."""
    return request.config.stash.setdefault(COUNTED, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    totals = config.stash.get(COUNTED, Counter())
    if totals:
        terminalreporter.section("compared with the reference implementations")
        for what, count in sorted(totals.items()):
            terminalreporter.line(f"{what}: {count}")
