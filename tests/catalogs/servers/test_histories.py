"""Histories that PyIceberg writes through the REST catalog, each read by name on DuckDB and Spark.

The expected rows are those that PyIceberg reads. `--histories 500 --seed 7` draws other histories. `--store s3` puts
the tables into S3, where Spark reads them with Hadoop's connector, which its session downloads.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import serving
from histories import write_history

import harness

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external
_PER_TEST = 10
_ENGINES = ("duckdb", "spark")


@dataclass(frozen=True)
class Served:
    """A PyIceberg catalog for writing, and its configuration."""

    catalog: Any
    properties: dict[str, str]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "first" in metafunc.fixturenames:
        count = metafunc.config.getoption("--histories")
        metafunc.parametrize("first", range(0, count, _PER_TEST))


@pytest.fixture(scope="module")
def served(request, tmp_path_factory) -> Iterator[Served]:
    """A REST catalog over the store that the option selects."""
    from pyiceberg.catalog.rest import RestCatalog

    with ExitStack() as servers:
        if request.config.getoption("--store") == "s3":
            folder, properties = tmp_path_factory.mktemp("rest"), serving.s3(request.getfixturevalue("aws"))
            own = serving.s3_catalog(properties)
            uri = servers.enter_context(serving.rest_catalog(folder, "s3://lake/histories", **own))
            spark = harness.spark_session(packages="s3")
            servers.callback(spark.stop)
        else:
            uri, properties = request.getfixturevalue("rest"), {}
        catalog = RestCatalog("writer", uri=uri, **properties)
        catalog.create_namespace(("histories",))
        yield Served(catalog, {"uri": uri, **properties})


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning")
def test_engines_and_pyiceberg_read_histories_equally(served, configure, first, request):
    configure("prod", served.properties)
    seed, count = request.config.getoption("--seed"), request.config.getoption("--histories")
    for number in range(first, min(first + _PER_TEST, count)):
        name = ("histories", f"h{number}")
        steps = write_history(served.catalog, name, Random(f"{seed}/{number}"))
        told = f"--seed {seed}, history {number}: {'; '.join(steps)}"
        table = harness.open_table(f"prod.histories.h{number}")
        _same(harness.compare(table, table, engines=_ENGINES), told)
        own = served.catalog.load_table(name)
        _same(harness.compare(table, own.scan().to_arrow()), told)
        points = table.snapshots()
        if points:
            point = Random(f"{seed}/{number}/then").choice(points)["id"]
            then = table.snapshot(point)
            _same(harness.compare(then, then, engines=_ENGINES), f"{told}, at {point}")
            _same(harness.compare(then, own.scan(snapshot_id=point).to_arrow()), f"{told}, at {point}")


def _same(comparison: harness.ComparisonResult, description: str) -> None:
    # Only rows are compared, not types: PyIceberg returns other types for text and lists.
    differing = comparison.only_left + comparison.only_right + comparison.changed
    assert (comparison.failed, differing) == (False, 0), f"{description}\n{comparison}"
