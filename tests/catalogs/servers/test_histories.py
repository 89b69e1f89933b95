"""Histories that PyIceberg writes through the REST catalog, each read by name on DuckDB and Spark without difference.

What they must hold is what PyIceberg itself reads. `--histories 500 --seed 7` draws others.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from histories import write_history

import harness

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-catalogs")
pytestmark = pytest.mark.catalog
_PER_TEST = 10


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "first" in metafunc.fixturenames:
        count = metafunc.config.getoption("--histories")
        metafunc.parametrize("first", range(0, count, _PER_TEST))


@pytest.fixture(scope="module")
def writer(rest) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    catalog = RestCatalog("writer", uri=rest)
    catalog.create_namespace(("histories",))
    return catalog


def test_histories_are_read_alike(writer, rest, configure, first, request):
    configure("prod", {"uri": rest})
    seed, count = request.config.getoption("--seed"), request.config.getoption("--histories")
    for number in range(first, min(first + _PER_TEST, count)):
        name = ("histories", f"h{number}")
        steps = write_history(writer, name, Random(f"{seed}/{number}"))
        told = f"--seed {seed}, history {number}: {'; '.join(steps)}"
        table = harness.open_table(f"prod.histories.h{number}")
        _same(harness.compare(table, table, engines=("duckdb", "spark"), signed_zeros="distinct"), told)
        own = writer.load_table(name)
        _same(harness.compare(table, own.scan().to_arrow()), told)
        points = table.snapshots()
        if points:
            point = Random(f"{seed}/{number}/then").choice(points)["id"]
            then = table.snapshot(point)
            _same(harness.compare((then, "duckdb"), (then, "spark")), f"{told}, at {point}")
            _same(harness.compare(then, own.scan(snapshot_id=point).to_arrow()), f"{told}, at {point}")


def _same(found: harness.ComparisonResult, told: str) -> None:
    # Rows, and no types: PyIceberg shows its own kinds of text and lists.
    differing = found.only_left + found.only_right + found.changed
    assert (found.failed, differing) == (False, 0), f"{told}\n{found}"
