"""Every scenario of an Iceberg table with expected rows, read with the plans of a server."""

import operator

import pytest

import harness
from harness.engines.registry import find_engine
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.suite.scenarios.model import ExpectedError
from harness.suite.scenarios.verifying import verify
from harness.testing.lake_catalog import LakeCatalog

UNLIKE_OTHER_SERVERS = {
    # A manifest wrongly states that a file is new, and a server trusts this statement.
    "iceberg/changes/merged-manifests",
    "iceberg/manifests/spec-in-the-header-alone",  # the metadata that the server sends lacks a partition spec
}
SCENARIOS = [scenario for scenario in find("iceberg/*") if scenario.name not in UNLIKE_OTHER_SERVERS]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning"),  # scenarios have irregular tables on purpose
]


@pytest.fixture(scope="module")
def server():
    with LakeCatalog(page=2, hides_metadata=True) as server:
        yield server


@pytest.mark.parametrize("scenario", SCENARIOS, ids=operator.attrgetter("name"))
def test_rows(scenario, server, tmp_path):
    built = build(scenario, tmp_path)
    faults = {}
    for expectation in filter(is_planned_by_servers, built.expectations):
        prefixes = harness.open_table(built.address, **expectation.opening)._source.path_map
        if len(prefixes.prefixes) > prefixes.explicit_count:
            continue  # the table was moved, but a catalog does not know about moves
        server.add("sales.orders", built.address, **expectation.opening)
        options = {"catalog": server.catalog(), "allowed_roots": [str(tmp_path)], **expectation.opening}
        faults[expectation.number] = verify(expectation, lambda each, options=options: read(each, options))
    assert {number: fault for number, fault in faults.items() if fault is not None} == {}


def is_planned_by_servers(expectation):
    changes, columns = expectation.at.changes, expectation.columns or ()
    if changes is not None and changes.arguments().get("mode") != "appends":
        return False
    return not isinstance(expectation.expected, ExpectedError) and "_last_updated_sequence_number" not in columns


def read(expectation, options):
    table = harness.open_table("sales.orders", **options)
    if expectation.at.changes is None:
        plan = table.snapshot(expectation.at.moment)._planned(**expectation.plan_arguments())
    else:
        plan = table.changes(**expectation.at.changes.arguments(), **expectation.plan_arguments())._plan
    return find_engine("duckdb").to_arrow(plan)
