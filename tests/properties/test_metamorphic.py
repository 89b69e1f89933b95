"""Changes to a read or a table that must not change the rows, on drawn histories."""

import dataclasses

import pytest
from drawn.agreement import address_of, build_table, comparison_problem, read_by
from drawn.models.model import arrow_rows
from drawn.predicates import sql
from drawn.profiles import property_settings
from drawn.reads import ReadShape, answer
from drawn.strategies import histories, predicates
from hypothesis import given
from hypothesis import strategies as st

from harness import open_table
from harness.diff.compare import compare
from harness.engines import union_arms
from harness.engines.duckdb import lowering, scans
from harness.engines.registry import find_engine
from harness.suite.oracle_engine import read_with_oracle
from harness.testing import LakeCatalog

# A drawn history may drop all columns that an old file contains.
pytestmark = pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")

KINDS = ("iceberg-2", "iceberg-3", "delta")
HISTORIES = st.sampled_from(KINDS).flatmap(lambda kind: histories(kind, max_size=4))
DELETING = st.sampled_from(KINDS).flatmap(lambda kind: histories(kind, max_size=5, deleting=True))
FEW = property_settings(6)


def assert_same(expected, got) -> None:
    problem = comparison_problem(compare(expected, got))
    assert problem is None, problem


def modelled(drawn, read=None):
    return arrow_rows(*answer(drawn.model, read or ReadShape()))


@FEW
@given(HISTORIES, st.data())
def test_pruning(drawn, data) -> None:
    where = sql(data.draw(predicates(drawn.model.columns)))
    with build_table(drawn) as history:
        expected = read_with_oracle(address_of(history), where=where)
        for prune in ("off", "files", "all") if drawn.format == "iceberg" else ("off", "files"):
            assert_same(expected, open_table(address_of(history), prune=prune).snapshot().to_arrow(where=where))


@property_settings(12)
@given(st.sampled_from(["iceberg-2", "iceberg-3"]).flatmap(lambda kind: histories(kind, max_size=5)), st.data())
def test_who_plans(drawn, data) -> None:
    where = data.draw(st.none() | predicates(drawn.model.columns).map(sql))
    page = data.draw(st.sampled_from([None, 1, 2]))
    with build_table(drawn) as history, LakeCatalog(page=page, hides_metadata=True) as server:
        server.add("lake.drawn", address_of(history))
        roots = [history.table.location]
        served = open_table("lake.drawn", catalog=server.catalog(), planning="server", allowed_roots=roots)
        expected = read_with_oracle(address_of(history), where=where)
        assert_same(expected, served.snapshot().to_arrow(where=where))
        for at in drawn.model.points():
            assert_same(modelled(drawn, ReadShape(at=at)), served.snapshot(history.resolve(at).moment).to_arrow())


def three_runs(arms, *_):
    """Join files by position in runs of every third file, instead of as many runs as there are threads."""
    return [[tuple(range(len(counts))[i::3]) for i in range(min(3, len(counts)))] for counts in arms]


@property_settings(12)
@given(DELETING, st.data())
def test_ways_to_leave_deleted_rows_out(drawn, data) -> None:
    """Every method is forced, because the costs of small tables would always select the same one.

    The oracle has only one.
    """
    columns = [f.name for f in drawn.model.columns] + ["_file", "_pos", *["_deleted"] * data.draw(st.booleans())]
    where = data.draw(st.none() | predicates(drawn.model.columns).map(sql))
    with build_table(drawn) as history, pytest.MonkeyPatch.context() as patch:
        expected = read_with_oracle(address_of(history), columns=columns, where=where)
        plan = open_table(address_of(history)).snapshot().plan(columns, where)
        assert_same(expected, find_engine("duckdb").to_arrow(plan))
        patch.setattr(union_arms, "joins_by_set", lambda plan: False)
        assert_same(expected, find_engine("duckdb").to_arrow(plan))
        patch.setattr(scans, "padding_rows", lambda keys, probes: 3)
        patch.setattr(lowering, "plan_runs", three_runs)
        assert_same(expected, find_engine("duckdb").to_arrow(plan))


@FEW
@given(st.sampled_from(["iceberg-2", "iceberg-3"]).flatmap(lambda kind: histories(kind, max_size=4)))
def test_order_of_files_in_the_metadata(drawn) -> None:
    with build_table(drawn) as history:
        if history.table.snapshot_id is not None:
            for path in history.table.manifests():
                history.table.edit_manifest(path, lambda document: document.records.reverse())
            history.table.edit_manifest_list(lambda document: document.records.reverse())
        assert_same(modelled(drawn), read_by(history, ReadShape(), "duckdb"))


@FEW
@given(histories("delta", max_size=4, only=("append", "delete-rows", "merge", "remove", "rewrite", "rename-column")))
def test_the_base_that_a_delta_version_is_read_from(drawn) -> None:
    mixed = []
    for number, operation in enumerate(drawn.operations, 1):
        mixed += [operation, {"checkpoint": "classic"}] if number % 2 else [operation, {"compact": [1, number]}]
    with build_table(dataclasses.replace(drawn, operations=tuple(mixed))) as history:
        for at in drawn.model.points():
            assert_same(modelled(drawn, ReadShape(at=at)), read_by(history, ReadShape(at=at), "duckdb"))


@FEW
@given(histories("delta", max_size=4), st.data())
def test_where_the_commits_of_a_managed_table_are(drawn, data) -> None:
    """Commits may be published, staged, or only in the catalog, next to checkpoints and compacted commits (frontier
    F4.4).
    """
    features = [*drawn.table.get("features", ()), "catalogManaged"]
    configuration = {**drawn.table.get("configuration", {}), "delta.enableInCommitTimestamps": "true"}
    table = {**drawn.table, "features": features, "configuration": configuration}
    with build_table(dataclasses.replace(drawn, table=table)) as history:
        log, newest = history.table.log, history.table.version
        ratified = []
        for version in range(data.draw(st.integers(1, newest + 1)), newest + 1):
            place = data.draw(st.sampled_from(["staged", "held", "published"]))
            if place == "staged" and log.commit_path(version).exists():
                ratified.append(log.stage(version))
            elif place == "held" and log.commit_path(version).exists():
                ratified.append((version, log.remove_commit_file(version)))
        known = {"max_version": newest, "ratified": ratified}
        assert_same(modelled(drawn), open_table(address_of(history), **known).snapshot().to_arrow())
        assert_same(modelled(drawn), read_with_oracle(address_of(history), **known))
