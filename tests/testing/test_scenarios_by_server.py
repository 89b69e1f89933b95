"""Every scenario of an Iceberg table, planned by `LakeCatalog`: each read returns the expected rows.

The server hides the metadata files, so the rows come from its plans alone. Reads that must fail are left out, because
the server plans with harness, and so fails itself.
"""

import operator

import pytest

from harness.engines.registry import find_engine
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import plan_read
from harness.suite.scenarios.loading import find
from harness.suite.scenarios.model import ExpectedError
from harness.suite.scenarios.verifying import verify
from harness.testing import LakeCatalog

# A plan has the recorded paths of files. Only the metadata file shows that a table was moved.
MOVED = {
    "iceberg/deletes/moved-table-v2",
    "iceberg/deletes/moved-table-v3",
    "iceberg/manifests/inline-in-version-1",
    "iceberg/statements/partition-statistics-below-zero",
    "iceberg/statements/statistics-of-other-blobs",
}
# A plan names partition specs by id, and only the headers of manifests have this one.
WITHOUT_SPEC = {"iceberg/manifests/spec-in-the-header-alone"}
SCENARIOS = [scenario for scenario in find("iceberg/*") if scenario.name not in MOVED | WITHOUT_SPEC]


@pytest.fixture(scope="module")
def server():
    with LakeCatalog(page=2, hides_metadata=True) as server:
        yield server


@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")  # scenarios have irregular tables on purpose
@pytest.mark.parametrize("scenario", SCENARIOS, ids=operator.attrgetter("name"))
def test_plans_of_a_server_return_the_rows_of_scenarios(server, scenario, tmp_path):
    built = build(scenario, tmp_path)

    def read(expectation):
        server.add("a.t", built.address, **expectation.opening)
        plan = plan_read("a.t", expectation, catalog=server.catalog(), planning="server")
        return find_engine("duckdb").to_arrow(plan)

    faults = {e.number: verify(e, read) for e in built.expectations if is_answered(e)}
    assert {number: fault for number, fault in faults.items() if fault is not None} == {}


def is_answered(expectation):
    """Return whether a server can plan the read: rows of a snapshot, without sequence numbers, which plans lack."""
    reads_numbers = "_last_updated_sequence_number" in (expectation.columns or ())
    return expectation.at.changes is None and not isinstance(expectation.expected, ExpectedError) and not reads_numbers
