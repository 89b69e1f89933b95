"""Scenarios on Spark in sessions other than harness's own: with a user's settings, and without a gateway to the JVM.

A session without a gateway reads files through harness's source on the server, or by plain paths. Here the test run's
own session represents this case; its JVM has the classes of the source. `test_spark_connect.py` uses a real one.
"""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from harness.engines.spark import engine
from harness.engines.spark.connect import PlainPaths
from harness.engines.spark.gateway import Gateway
from harness.engines.spark.planned_source import PlannedSource
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import Evidence, collect_evidence
from harness.suite.scenarios.loading import find
from harness.suite.scenarios.verifying import verify

READS = (
    "iceberg/types/",
    "iceberg/files/",
    "iceberg/deletes/deleted-column",
    "iceberg/deletes/position",
    "delta/paths/",
    "iceberg/metadata/metadata-columns",
    "delta/schema/metadata-columns",
)
FOLDERS: dict[Any, tuple[str, ...]] = {
    "foreign": ("iceberg/types/", "iceberg/schema/", "delta/type-widening/", "delta/schema/"),
    PlainPaths: READS,
    PlannedSource: READS,
}
CASES = [(kind, each) for kind, names in FOLDERS.items() for each in find() if each.name.startswith(names)]
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
}
"""Settings of a user: no ANSI errors, another time zone, the last of equal map keys wins, case-insensitive names."""

pytestmark = pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")


@pytest.fixture(scope="module")
def evidence(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return collect_evidence(build(request.param, tmp_path_factory.mktemp("scenario")))


@pytest.fixture(scope="module")
def foreign(spark: Any) -> Any:
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    return session


@pytest.mark.parametrize(
    ("kind", "evidence"),
    CASES,
    ids=[f"{getattr(kind, '__name__', kind)}-{each.name}" for kind, each in CASES],
    indirect=["evidence"],
)
def test_rows_are_those_of_every_session(kind, evidence, spark, foreign, monkeypatch):
    session = spark
    if kind == "foreign":
        session = foreign
    else:
        Gateway.for_session(spark)  # loads the classes that a client sends
        monkeypatch.setattr(engine, "reader_of", kind)

    def read(expectation: Any) -> Any:
        return engine.to_arrow(evidence.plan_of(expectation.number), session)

    assert [fault for each in evidence.built.expectations if (fault := verify(each, read)) is not None] == []
