"""Plans of Iceberg's own REST server: the scenarios of fixtures/iceberg are read with plans that this server makes.

The scenarios contain the expected rows. The server is the reference implementation, so `tests/interop/differences.txt`
lists its known differences. `plans.txt` lists further differences. A test fails if a listed read returns the expected
rows.
"""

import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import serving

import harness
from harness.engines.registry import find_engine
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import plan_read
from harness.suite.scenarios.loading import find
from harness.suite.scenarios.model import BuiltScenario, ExpectedError, ResolvedExpectation, Scenario
from harness.suite.scenarios.verifying import verify

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = [
    pytest.mark.external,
    pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning"),  # scenarios have irregular tables on purpose
]
BY_FOLDER: dict[str, list[Scenario]] = {
    folder: list(each) for folder, each in groupby(find("iceberg/*"), lambda s: s.name.split("/")[1])
}
PLANS = {
    "complete": {},
    "paged": {"plan.page": "1"},
    "submitted": {"plan.page": "2", "plan.submitted": "true"},
}


def reasons(path: Path) -> dict[str, str]:
    """Return the reads in a list, with the reasons. A line that starts with a space continues the line before."""
    lines = re.sub(r"\n +", " ", path.read_text("utf-8")).splitlines()
    return dict(line.split(": ", 1) for line in lines if line.startswith("iceberg/"))


OWN = reasons(Path(__file__).with_name("plans.txt"))
KNOWN = reasons(Path(__file__).parents[2] / "interop/differences.txt")


@dataclass(frozen=True)
class Planner:
    """A server that plans, with its tables in the namespace `s`."""

    uri: str

    def register(self, built: BuiltScenario) -> str | None:
        """Return the name of the table of a scenario, or None if the server refuses its metadata."""
        name = built.scenario.name.replace("/", "-")
        request = {"name": name, "metadata-location": str(built.metadata_path)}
        return f"prod.s.{name}" if self.post("/namespaces/s/register", request) == 200 else None

    def post(self, path: str, body: Mapping[str, Any]) -> int:
        """Return the status of an answer."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.uri}/v1{path}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code


@contextlib.contextmanager
def planning(folder: Path, **options: str) -> Iterator[Planner]:
    with serving.rest_catalog(folder, f"file://{folder}/warehouse", **options) as uri:
        planner = Planner(uri)
        assert planner.post("/namespaces", {"namespace": ["s"]}) == 200
        yield planner


@pytest.fixture(scope="module", params=PLANS.values(), ids=list(PLANS))
def planner(request, tmp_path_factory) -> Iterator[Planner]:
    with planning(tmp_path_factory.mktemp("rest"), **request.param) as server:
        yield server


@pytest.mark.parametrize("scenarios", BY_FOLDER.values(), ids=list(BY_FOLDER))
def test_reads_of_plans_that_iceberg_makes(planner, configure, tmp_path, scenarios):
    configure("prod", {"uri": planner.uri})
    faults, agreeing = [], set()
    for scenario in scenarios:
        built = build(scenario, tmp_path / scenario.name)
        table = planner.register(built)
        for expectation in () if table is None else built.expectations:
            changes = expectation.at.changes
            if expectation.opening or (changes is not None and changes.mode != "appends"):
                continue
            fault = fault_of(table, expectation)
            names = {scenario.name, f"{scenario.name}#{expectation.number}"}
            if fault is not None and not names & (OWN.keys() | KNOWN.keys()):
                faults.append(f"{scenario.name}#{expectation.number}: {' '.join(fault.split())}")
            elif fault is None and names & OWN.keys():
                agreeing |= names & OWN.keys()
    assert not faults, "\n".join(faults)
    assert not agreeing


def fault_of(table: str, expectation: ResolvedExpectation) -> str | None:
    """Return the fault of a read, or None if the read is right.

    If an error is expected, any error is right, because the server may refuse the table before harness does.
    """

    def read(read: ResolvedExpectation) -> pa.Table:
        return find_engine("duckdb").to_arrow(plan_read(table, read, planning="server"))

    if not isinstance(expectation.expected, ExpectedError):
        return verify(expectation, read)
    try:
        return f"an error was expected, got {read(expectation).num_rows} rows"
    except harness.HarnessError:
        return None


@pytest.mark.parametrize(("page", "has_bug"), [("100", True), ("1", False)])
def test_the_release_that_gives_each_file_the_last_vector_of_a_puffin_file(configure, tmp_path, page, has_bug):
    # apache/iceberg#17497: 1.11.0 distinguishes the vectors in an answer only by their Puffin file.
    (scenario,) = find("iceberg/deletes/many-vectors-in-one-puffin")
    built = build(scenario, tmp_path / "built")
    with planning(tmp_path, iceberg="1.11.0", **{"plan.page": page}) as server:
        configure("prod", {"uri": server.uri})
        name = server.register(built)
        table = harness.open_table(name, planning="server")
        comparison = harness.compare_plans(name)
        assert comparison.equal is not has_bug
        if not has_bug:
            assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2, 10, 12, 20, 21]
            return
        # The last file gets the right vector.
        assert "3 files differ" in str(comparison)
        with pytest.raises(harness.CorruptDeleteError, match=r"00001\.parquet the deletion vector of .*00004\.parquet"):
            table.snapshot().to_arrow()
