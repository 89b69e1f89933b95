"""The files of differing rows, and the deletes that hide them on the opposite side. Expectations by hand."""

import pyarrow as pa
import pytest
from comparing import difference_of

import harness
from harness.diff import origins
from harness.diff.origins import hiding_deletes, with_origins
from harness.diff.result import Origin
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "x": "double", "s": "string"}


def numbered(*ids):
    return [{"id": i, "x": float(i), "s": str(i)} for i in ids]


def opened(t):
    directory = t.store.directory if isinstance(t, IcebergTable) else t.directory
    return harness.open_table(str(directory))


def compared(left, right, *, columns=("id", "x", "s"), keys=(), rows=(None, None)):
    """Return the differing rows of two snapshots with their origins. `rows` replaces the rows that were read."""
    tables = [s.to_arrow() if given is None else given for s, given in zip((left, right), rows, strict=True)]
    difference = difference_of(*tables, columns, keys, max_rows=100)
    return with_origins(difference, tuple(tables), columns, (left.plan(), right.plan()), keys=keys)[0]


@pytest.fixture
def table(tmp_path):
    return IcebergTable.create(tmp_path / "t", SCHEMA, format_version=3)


def both(t):
    """Return the first and the last snapshot of a table."""
    source = opened(t)
    return source.snapshot(source.snapshots()[0]["id"]), source.snapshot()


def test_an_equality_delete_among_many(table):
    a, b = table.write_data(numbered(1, 2, 3)), table.write_data(numbered(3, 4))
    table.append(a, b)
    hits_none = {"id": 2, "s": "1"}  # within the bounds of the files, so that the plan does not skip them
    keys = [hits_none, {"id": 3}, {"s": "1"}, hits_none, {"s": "3"}, hits_none]
    deletes = [table.write_equality_deletes(list(key), [key]) for key in keys]
    table.commit(add=deletes)
    one, three = compared(*both(table))
    assert one.left_origins == (Origin(file=a.path, position=0, hidden_by=(deletes[2].path,)),)
    by = (deletes[1].path, deletes[4].path)
    assert three.count == 2
    assert three.left_origins == (
        Origin(file=a.path, position=2, hidden_by=by),
        Origin(file=b.path, position=0, hidden_by=by),
    )


def test_an_equality_delete_hits_older_files_only(table):
    a = table.write_data(numbered(1))
    table.append(a)
    d = table.write_equality_deletes(["id"], [{"id": 1}])
    b = table.write_data(numbered(1))
    table.commit(add=[d, b])
    plan = opened(table).snapshot().plan()
    assert hiding_deletes(plan, [(a.path, 0), (b.path, 0), ("elsewhere", 0)]) == {
        (a.path, 0): (d.path,),
        (b.path, 0): (),
    }


def test_both_kinds_of_deletes(table):
    a = table.write_data(numbered(1, 2))
    table.append(a)
    e = table.write_equality_deletes(["id"], [{"id": 2}])
    (v,) = table.write_deletion_vectors({a: [1]})
    table.commit(add=[e, v])
    (row,) = compared(*both(table))
    assert row.left_origins == (Origin(file=a.path, position=1, hidden_by=(v.path, e.path)),)


def test_a_wrong_value_has_an_origin_by_key_only(table):
    a = table.write_data(numbered(1, 2))
    table.append(a)
    now = opened(table).snapshot()
    wrong = pa.Table.from_pylist([{"id": 1, "x": 1.0, "s": "1"}, {"id": 2, "x": 2.5, "s": "2"}])
    left, right = compared(now, now, rows=(None, wrong))
    assert left.left_origins == (Origin(file=a.path, position=1),)
    assert right.right_origins == ()
    (changed,) = compared(now, now, rows=(None, wrong), keys=["id"])
    assert changed.left_origins == changed.right_origins == (Origin(file=a.path, position=1),)


def test_of_equal_rows_those_come_first_that_the_other_side_does_not_read(table):
    a, b, c = (table.write_data(numbered(1)) for _ in range(3))
    table.append(a, b, c)
    d = table.write_position_deletes([(b, 0)])
    table.commit(add=[d])
    (row,) = compared(*both(table))
    assert (row.count, row.left_origins) == (1, (Origin(file=b.path, position=0, hidden_by=(d.path,)),))


def test_an_equal_row_has_priority_over_a_row_with_the_same_key(table):
    """Both sides are one snapshot, and the engine on the right returns the old row of an update."""
    a, old, new = ([{"id": i, "x": x, "s": "s"}] for i, x in ((1, 1.0), (2, 2.0), (2, 2.5)))
    before = table.write_data(a + old)
    table.append(before)
    d = table.write_position_deletes([(before, 1)])
    after = table.write_data(new)
    table.commit(add=[d, after])
    now = opened(table).snapshot()
    (row,) = compared(now, now, keys=["id"], rows=(None, pa.Table.from_pylist(a + old)))
    assert row.left_origins == (Origin(file=after.path, position=0),)
    assert row.right_origins == (Origin(file=before.path, position=1, hidden_by=(d.path,)),)


def test_a_row_names_a_bounded_number_of_origins(table):
    a, b = table.write_data(numbered(*[1] * 25)), table.write_data(numbered(2))
    table.append(a)
    table.commit(add=[b], remove=[a])
    row = compared(*both(table))[0]
    assert (row.count, len(row.left_origins)) == (25, origins.MOST_ORIGINS)


def test_values_of_all_kinds_find_their_rows(tmp_path):
    schema = {
        "i": "int",
        "b": "boolean",
        "d": "decimal(20, 3)",
        "u": "uuid",
        "f": "fixed[2]",
        "t": "timestamptz",
        "n": "timestamp_ns",
        "m": "map<string, int>",
        "c": "struct<p: date, q: time>",
    }
    t = IcebergTable.create(tmp_path / "t", schema, format_version=3)
    value = {
        "b": True,
        "d": "1.500",
        "u": b"a" * 16,
        "f": b"xy",
        "t": 10**18,
        "n": 5,
        "m": [("k", 1), ("j", None)],
        "c": {"p": 3, "q": 4},
    }
    a = t.write_data([{"i": 1, **value}, {"i": 1}, {"i": 2, **value}])
    t.append(a)
    now = opened(t).snapshot()
    found = compared(now, now, columns=tuple(schema), rows=(None, now.to_arrow().slice(0, 0)))
    assert [row.left[0] for row in found] == ["1", "1", "2"]
    assert [row.left_origins[0].position for row in found] == [1, 0, 2]


def test_too_many_alike_rows_have_no_origins(table, monkeypatch):
    a = table.write_data(numbered(1, 1, 1, 2))
    table.append(a)
    now = opened(table).snapshot()
    monkeypatch.setattr(origins, "MOST_CANDIDATES", 2)
    one, two = compared(now, now, rows=(None, now.to_arrow().slice(0, 0)))
    assert one.left_origins == two.left_origins == ()
