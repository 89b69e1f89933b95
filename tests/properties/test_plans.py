"""A plan that is serialized and deserialized is the same plan, and reads the same rows, on drawn histories."""

import pickle

import pytest
from drawn.agreement import address_of, build_table, comparison_problem
from drawn.predicates import sql
from drawn.profiles import property_settings
from drawn.strategies import histories, predicates
from hypothesis import given
from hypothesis import strategies as st

from harness import ScanPlan, open_plan, open_table
from harness.diff.compare import compare
from harness.suite.oracle_engine import read_with_oracle

# A drawn history may drop all columns that an old file contains.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

DELETING = st.sampled_from(["iceberg-1", "iceberg-2", "iceberg-3", "delta"]).flatmap(
    lambda kind: histories(kind, max_size=6, deleting=True)
)


def assert_comes_back(drawn, data, engine: str) -> None:
    columns = [f.name for f in drawn.model.columns] + ["_file", "_pos", *["_partition"] * data.draw(st.booleans())]
    where = data.draw(st.none() | predicates(drawn.model.columns).map(sql))
    with build_table(drawn) as history:
        location = address_of(history)
        plan = open_table(location).snapshot().plan(columns, where)
        back = ScanPlan.from_ipc(plan.to_ipc())
        assert back == plan == open_table(location).snapshot().plan(columns, where)
        assert back == pickle.loads(pickle.dumps(plan))
        assert back.to_dict() == plan.to_dict()
        rows = open_plan(back).to_arrow(engine=engine)
        problem = comparison_problem(compare(read_with_oracle(location, columns=columns, where=where), rows))
        assert problem is None, problem


@pytest.mark.smoke
@property_settings(30, fresh=5)
@given(DELETING, st.data())
def test_a_deserialized_plan_is_equal_on_duckdb(drawn, data) -> None:
    assert_comes_back(drawn, data, "duckdb")


@pytest.mark.smoke
@pytest.mark.usefixtures("spark")
def test_a_deserialized_plan_is_equal_on_spark() -> None:
    @property_settings(8, fresh=5)
    @given(DELETING, st.data())
    def comes_back(drawn, data) -> None:
        assert_comes_back(drawn, data, "spark")

    comes_back()
