"""Readers of other projects as sides of a comparison; expectations by hand."""

import dataclasses

import pytest

import harness
from harness.diff.result import Origin
from harness.engines.registry import find_engine
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.slow  # each reader is started once for all tests of a process

NAIVE = "naive_readers:Naive"


@pytest.fixture
def written(tmp_path):
    """Return a table with rows 1 to 4, whose third row a vector deletes: its builder, the data file and the vector."""
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"}, format_version=3)
    file = t.write_data([{"id": i, "s": "é" if i == 4 else str(i)} for i in (1, 2, 3, 4)])
    t.append(file)
    (vector,) = t.write_deletion_vectors({file: [2]})
    t.commit(add=[vector])
    return t, file, vector


def compared(t, **more):
    return harness.compare(str(t.store.directory), engines=("duckdb", NAIVE), keys=["id"], **more)


def test_a_row_that_only_a_reader_gives_is_traced_to_the_delete_that_it_forgot(written):
    t, file, vector = written
    found = compared(t)
    assert (found.left.rows, found.right.rows) == (3, 4)
    assert [(row.right, row.right_origins) for row in found.rows] == [
        (("3", "'3'"), (Origin(file=file.path, position=2, hidden_by=(vector.path,)),))
    ]
    assert found.right.engine == "naive 0.1"
    assert [each.rule for each in found.schema] == ["integer widths"]  # an int holds the same values as a long


def test_columns_and_filter_reach_the_reader_in_words_that_it_knows(written):
    t, _, _ = written
    assert compared(t, columns=["id"], where="s = 'é' and id > 1").equal
    assert compared(t, where='"id" <> 3 and s is not null').equal


def test_an_older_snapshot_is_named_and_the_current_one_is_not(written):
    t, _, _ = written
    first, last = (point["id"] for point in harness.open_table(str(t.store.directory)).snapshots())
    assert compared(t, at=last).right.error is None
    error = compared(t, at=first).right.error
    assert isinstance(error, harness.UnsupportedError)
    assert error.message == f"no snapshot_id {first} [Unsupported]"


def test_types_of_a_reader_may_be_forbidden(written):
    t, _, _ = written
    how = {"keys": ["id"], "where": "id <> 3", "engines": f"duckdb,{NAIVE}"}
    assert harness.compare(str(t.store.directory), **how).equal
    found = harness.compare(str(t.store.directory), types="exact", **how)
    assert ("int64", "int32") in [(each.left, each.right) for each in found.schema if each.counts]


def test_a_table_that_is_not_on_this_machine_is_no_table_for_a_reader(written):
    t, _, _ = written
    plan = harness.open_table(str(t.store.directory)).snapshot().plan()
    with pytest.raises(harness.RequestError, match=r"Cannot read s3://b/t with naive: .* harness pull"):
        find_engine(NAIVE).to_arrow(dataclasses.replace(plan, table="s3://b/t"))


def test_a_reader_is_not_asked_for_rows_that_it_would_take_from_another_state(tmp_path):
    """The reader would return the current rows in place of changes, or in place of a table without snapshots."""
    feed = DeltaTable.create(tmp_path / "d", {"id": "long"}, configuration={"delta.enableChangeDataFeed": "true"})
    feed.append(feed.write_data([{"id": 1}]))
    changes = harness.open_table(str(tmp_path / "d")).changes(1, 1, columns=["id"])
    with pytest.raises(harness.UnsupportedError, match="Cannot read changes with naive"):
        changes.to_arrow(engine=NAIVE)
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    empty = harness.open_table(str(t.store.directory)).snapshot()
    t.append(t.write_data([{"id": 1}]))
    assert empty.to_arrow().num_rows == 0
    with pytest.raises(harness.UnsupportedError, match="before its first snapshot"):
        empty.to_arrow(engine=NAIVE)


def test_a_table_that_is_held_to_its_roots_is_no_table_for_a_reader(written):
    t, _, _ = written
    for how in ({"untrusted": True}, {"outside": "refuse"}):
        snapshot = harness.open_table(str(t.store.directory), **how).snapshot()
        with pytest.raises(
            harness.RequestError, match="a reader of another project cannot be restricted to the table's own files"
        ):
            snapshot.to_arrow(engine=NAIVE)
