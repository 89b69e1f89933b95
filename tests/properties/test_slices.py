"""The law of slices, on drawn histories and filters: under the filter, a slice gives the rows of its source."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_metamorphic import address, assert_same, made

from harness import RequestError, UnsupportedError, open_table, pull
from harness.engines.registry import find_engine
from harness.oracle.planner import plan_unpruned
from harness.testing.properties.profiles import property_settings
from harness.testing.properties.strategies import histories, predicates, sql

pytestmark = [
    pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning"),
    pytest.mark.filterwarnings("ignore:Slice :harness.errors.HarnessWarning"),
]

KINDS = ("iceberg-1", "iceberg-2", "iceberg-3", "delta")
HISTORIES = st.sampled_from(KINDS).flatmap(lambda kind: histories(kind, max_size=5))


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)])
@property_settings(6)
@given(HISTORIES, st.data())
def test_a_slice_gives_the_rows_of_its_source(engine, drawn, data) -> None:
    where = data.draw(st.one_of(st.none(), predicates(drawn.model.columns).map(sql)), "where")
    last = data.draw(st.integers(1, 3), "last")
    with made(drawn) as history, tempfile.TemporaryDirectory(prefix="harness-slice-") as place:
        source, directory = open_table(address(history)), Path(place) / "slice"
        try:
            pulled = pull(source, directory, where=where, last=last)
        except RequestError:
            assume(last == 1)  # an older snapshot has no such column
            raise
        slice_ = open_table(directory)
        for point in pulled.snapshots:
            at = {} if point == pulled.snapshots[-1] else {"snapshot_id": point}
            expected = source.snapshot(**at).to_arrow(where=where)
            try:
                assert_same(expected, slice_.snapshot(**at).to_arrow(where=where, engine=engine))
            except UnsupportedError:
                assume(engine == "duckdb")  # Spark says that the filter has no certain meaning there
                raise
            chosen = {"version" if drawn.format == "delta" else "snapshot_id": point} if at else {}
            plan = plan_unpruned(str(directory), where=where, **chosen)
            assert_same(expected, find_engine("oracle").to_arrow(plan))
