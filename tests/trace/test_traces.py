"""Traces of tables that builders wrote, with the lives of rows worked out by hand."""

import json
from dataclasses import replace

import pytest

import harness
from harness.errors import MissingFileError, RequestError, SnapshotNotFoundError, UnknownColumnError
from harness.metadata.model.schema import METADATA
from harness.trace.model import DeleteKind, EventKind, FollowedBy
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

COLUMNS = {"id": "long", "customer": "long", "note": "string"}
ADDED, CARRIED, UPDATED, RESTORED = EventKind.ADDED, EventKind.CARRIED, EventKind.UPDATED, EventKind.RESTORED
DELETED, REMOVED, REPLACED = EventKind.DELETED, EventKind.REMOVED, EventKind.REPLACED
PRESENT, NEVER = EventKind.PRESENT, EventKind.NEVER


def rows_of(*ids, note="n"):
    return [{"id": id_, "customer": id_ % 10, "note": f"{note}{id_}"} for id_ in ids]


def lives(trace):
    """Return for each row its events as (kind, id of the commit or None, name of the file, position)."""
    return [[_event(trace, row, event) for event in row.events] for row in trace.rows]


def _event(trace, row, event):
    version, commit = row.versions[event.version], trace.commit(event.commit)
    return event.kind, None if commit is None else commit.id, version.file.rpartition("/")[2], version.position


def life(trace):
    (only,) = lives(trace)
    return only


def states(trace):
    return {row.texts["id"]: row.is_visible for row in trace.rows}


@pytest.fixture
def iceberg(tmp_path):
    def create(version=2, columns=COLUMNS, **options):
        return IcebergTable.create(tmp_path / "orders", columns, format_version=version, **options)

    return create


@pytest.fixture
def delta(tmp_path):
    def create(columns=COLUMNS, **options):
        return DeltaTable.create(tmp_path / "orders", columns, **options)

    return create


def opened(table):
    return harness.open_table(table.metadata_path if isinstance(table, IcebergTable) else table.directory)


def test_an_appended_row_is_visible_since_its_snapshot(iceberg):
    table = iceberg()
    table.append(table.write_data(rows_of(1, 2, 3), path="data/a.parquet"))
    second = table.append(table.write_data(rows_of(4, 5), path="data/b.parquet"))
    trace = opened(table).trace("id = 5")
    assert life(trace) == [(ADDED, second, "b.parquet", 1)]
    (row,) = trace.rows
    assert (row.is_visible, dict(row.texts)) == (True, {"id": "5", "customer": "5", "note": "n5"})
    assert row.sentence == f"Visible since snapshot {second}: appended in b.parquet at position 1."


def test_an_equality_delete_is_named_with_keys_and_sequence_numbers(iceberg):
    table = iceberg()
    first = table.append(table.write_data(rows_of(7, 8), path="data/data-1.parquet"))
    table.append(table.write_data(rows_of(9), path="data/data-2.parquet"))
    deletes = table.write_equality_deletes(["customer"], [{"customer": 7}], path="data/delete-3.parquet")
    third = table.commit(add=[deletes])
    trace = opened(table).trace("id = 7")
    assert life(trace) == [(ADDED, first, "data-1.parquet", 0), (DELETED, third, "data-1.parquet", 0)]
    (row,) = trace.rows
    (version,) = row.versions
    assert (version.delete.kind, version.delete.path, version.delete.sequence_number, version.sequence_number) == (
        *(DeleteKind.EQUALITY, deletes.path),
        *(3, 1),
    )
    assert version.delete.keys == (("customer", "7"),)
    assert row.sentence == (
        f"Hidden since snapshot {third}: equality delete delete-3.parquet matches customer = 7 and its sequence number "
        "3 is greater than the file's 1."
    )


def test_an_equality_delete_of_its_own_commit_does_not_apply(iceberg):
    table = iceberg()
    file, deletes = table.write_data(rows_of(1)), table.write_equality_deletes(["id"], [{"id": 1}])
    table.commit(add=[file, deletes])
    assert states(opened(table).trace("id = 1")) == {"1": True}


@pytest.mark.parametrize("kind", [DeleteKind.POSITIONS, DeleteKind.VECTOR])
def test_a_deleted_position_is_named_with_its_file(iceberg, kind):
    table = iceberg(3 if kind is DeleteKind.VECTOR else 2)
    file = table.write_data(rows_of(1, 2, 3), path="data/a.parquet")
    first = table.append(file)
    vector = kind is DeleteKind.VECTOR
    deletes = table.write_deletion_vectors({file: [1]}) if vector else [table.write_position_deletes([(file, 1)])]
    second = table.commit(add=deletes)
    trace = opened(table).trace("id IN (1, 2)")
    assert lives(trace) == [
        [(ADDED, first, "a.parquet", 0)],
        [(ADDED, first, "a.parquet", 1), (DELETED, second, "a.parquet", 1)],
    ]
    delete = trace.rows[1].versions[0].delete
    offset = deletes[0].data_file["content_offset"] if vector else None
    assert (delete.kind, delete.path, delete.offset) == (kind, deletes[0].path, offset)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_rewrite_carries_rows_and_an_overwrite_updates_them_by_key(iceberg, version):
    table = iceberg(version)
    old, moved = (
        table.write_data(rows_of(1, 2, 3)[part], path=f"data/{name}.parquet")
        for part, name in (
            (slice(3), "a"),
            (slice(1, 3), "b"),
        )
    )
    new = table.write_data(rows_of(2, note="changed"), path="data/c.parquet")
    first = table.append(old)
    second = table.commit(add=[moved], remove=[old], operation="replace")
    third = table.commit(add=[new], remove=[moved], operation="overwrite")
    trace = opened(table).trace("id = 2", keys=["id"])
    assert life(trace) == [
        *((ADDED, first, "a.parquet", 1), (CARRIED, second, "b.parquet", 0), (UPDATED, third, "c.parquet", 0)),
    ]
    gone = opened(table).trace("id = 3", keys=["id"])
    assert life(gone)[-1] == (REMOVED, third, "b.parquet", 1)
    lost = opened(table).trace("id = 1", keys=["id"])
    assert life(lost)[-1] == (REMOVED, second, "a.parquet", 0)
    assert (states(trace), states(gone), states(lost)) == ({"2": True}, {"3": False}, {"1": False})


def test_without_keys_an_update_is_another_row(iceberg):
    table = iceberg()
    old, new = table.write_data(rows_of(1)), table.write_data(rows_of(1, note="changed"))
    table.append(old)
    table.commit(add=[new], remove=[old])
    assert [[each[0] for each in row] for row in lives(opened(table).trace("id = 1"))] == [[ADDED, REMOVED], [ADDED]]


def test_identifier_fields_are_keys(iceberg):
    table = iceberg()
    table.set_schema(replace(table.schema, identifier_field_ids=(1,)))
    old, new = table.write_data(rows_of(1)), table.write_data(rows_of(1, note="changed"))
    table.append(old)
    table.commit(add=[new], remove=[old])
    (row,) = opened(table).trace("id = 1").rows
    assert (row.followed_by, [event.kind for event in row.events]) == (FollowedBy.KEYS, [ADDED, UPDATED])


def test_row_ids_connect_versions_that_do_not_match_the_condition(iceberg):
    table = iceberg(3)
    old = table.write_data(rows_of(1, 2), path="data/a.parquet")
    first = table.append(old)
    schema = replace(table.schema, fields=(*table.schema.fields, METADATA["_row_id"]))
    rows = [{**row, "_row_id": id_} for row, id_ in zip(rows_of(2, 1, note="changed"), (1, 0), strict=True)]
    second = table.commit(add=[table.write_data(rows, schema=schema, path="data/b.parquet")], remove=[old])
    # Row 1 has row id 1: it was at position 1 of the first file.
    whole = [(ADDED, first, "a.parquet", 1), (UPDATED, second, "b.parquet", 0)]
    for where in ("id = 2", "note = 'n2'", "note = 'changed2'"):
        trace = opened(table).trace(where)
        assert (life(trace), trace.rows[0].row_id, trace.rows[0].followed_by) == (whole, 1, FollowedBy.ROW_ID)


def test_keys_connect_versions_that_do_not_match_the_condition(delta):
    table = delta()
    old, new = table.write_data(rows_of(1, 2)), table.write_data(rows_of(1, 2, note="changed"))
    table.append(old)
    table.commit(add=[new], remove=[old], operation="UPDATE")
    trace = opened(table).trace("note = 'n2'", keys=["id"])
    assert [[event[0] for event in row] for row in lives(trace)] == [[ADDED, UPDATED]]


@pytest.mark.parametrize(("count", "kinds"), [(400, [ADDED, UPDATED]), (600, [ADDED])])
def test_other_versions_of_many_rows_are_not_searched(iceberg, count, kinds):
    table = iceberg()
    old, new = (table.write_data(rows_of(*range(count), note=note)) for note in ("old", "new"))
    table.append(old)
    table.commit(add=[new], remove=[old])
    trace = opened(table).trace("note LIKE 'new%'", keys=["id", "customer"])
    assert {tuple(event[0] for event in row) for row in lives(trace)} == {tuple(kinds)}
    assert (len(trace.rows), len(trace.gaps)) == (count, int(count > 500))


def test_a_replaced_partition(iceberg):
    table = iceberg(columns={"id": "long", "day": "string"}, partition_spec=[("day", "identity")])
    mon = [table.write_data([{"id": id_, "day": "mon"}], path=f"data/m{id_}.parquet") for id_ in (1, 2)]
    tue = [table.write_data([{"id": id_, "day": "tue"}], path=f"data/t{id_}.parquet") for id_ in (3, 4)]
    first = table.append(*mon, *tue)
    # The condition skips the other files, and does not change the answer.
    second = table.commit(add=[table.write_data([{"id": 9, "day": "mon"}])], remove=[*mon, tue[0]])
    assert life(opened(table).trace("id = 1")) == [(ADDED, first, "m1.parquet", 0), (REPLACED, second, "m1.parquet", 0)]
    assert life(opened(table).trace("id = 3")) == [(ADDED, first, "t3.parquet", 0), (REMOVED, second, "t3.parquet", 0)]


def test_the_ends_of_the_range(iceberg):
    table = iceberg()
    file = table.write_data(rows_of(1, 2), path="data/a.parquet")
    first = table.append(file)
    second = table.append(table.write_data(rows_of(3)))
    third = table.commit(add=[table.write_position_deletes([(file, 0)])])
    opening = opened(table)
    assert life(opening.trace("id = 1", to=second)) == [(ADDED, first, "a.parquet", 0)]
    assert life(opening.trace("id = 1", from_=second)) == [
        *((PRESENT, None, "a.parquet", 0), (DELETED, third, "a.parquet", 0)),
    ]
    trace = opening.trace("id = 1", from_=first, to=first)
    assert ([commit.id for commit in trace.commits], states(trace)) == ([first], {"1": True})


def test_rows_of_a_branch(iceberg):
    table = iceberg()
    table.append(table.write_data(rows_of(1)))
    table.create_branch("audit")
    on_branch = table.commit(add=[table.write_data(rows_of(2), path="data/b.parquet")], branch="audit")
    table.append(table.write_data(rows_of(3)))
    opening = opened(table)
    assert life(opening.trace("id = 2", to="audit")) == [(ADDED, on_branch, "b.parquet", 0)]
    assert (opening.trace("id = 3", to="audit").rows, opening.trace("id = 2").rows) == ((), ())


def test_expired_snapshots_are_named(iceberg):
    table = iceberg()
    first = table.append(table.write_data(rows_of(1), path="data/a.parquet"))
    table.append(table.write_data(rows_of(2)))
    assert opened(table).trace("id = 1").gaps == ()
    table.expire(first)
    trace = opened(table).trace("id = 1")
    assert (life(trace), len(trace.gaps)) == ([(PRESENT, None, "a.parquet", 0)], 1)


def test_a_data_file_that_no_longer_exists_is_named(delta):
    table = delta()
    old, kept = table.write_data(rows_of(1, 2)), table.write_data(rows_of(3))
    table.append(old, kept)
    table.commit(add=[table.write_data(rows_of(2))], remove=[old], operation="DELETE")
    assert len(opened(table).trace("id < 9").rows) == 3
    table.vacuum()
    trace = opened(table).trace("id < 9")
    assert states(trace) == {"2": True, "3": True}
    assert [old.add["path"] in gap for gap in trace.gaps] == [True]
    # The commit that wrote row 2 may have carried it from the file that no longer exists.
    assert {row.texts["id"]: "or earlier" in row.sentence for row in trace.rows} == {"2": True, "3": False}


def test_a_live_data_file_that_does_not_exist_is_named_too(iceberg):
    table = iceberg()
    gone = table.write_data(rows_of(1), path="data/gone.parquet")
    table.append(gone, table.write_data(rows_of(2)))
    table.file_of(gone.path).unlink()
    trace = opened(table).trace("id < 9")
    assert (states(trace), ["gone.parquet" in gap for gap in trace.gaps]) == ({"2": True}, [True])


@pytest.mark.parametrize("lost", [0, 1])
def test_a_vector_that_no_longer_exists_is_named(delta, lost):
    table = delta()
    file = table.write_data(rows_of(1, 2, 3))
    created = table.append(file)
    deleted = [table.delete(file, [position]) for position in (0, 1)]
    *_, vector = sorted(table.directory.glob("deletion_vector*"), key=lambda path: path.stat().st_mtime_ns)[: lost + 1]
    vector.unlink()
    trace = opened(table).trace("id < 3")
    assert any(vector.name in gap for gap in trace.gaps)
    if lost == 1:  # without the newest vector, the deleted rows are unknown
        assert trace.rows == ()
    else:  # the newest vector covers the first one, but not the time of its delete
        ends = [(event[0], event[1]) for life in lives(trace) for event in life[1:]]
        assert (ends, trace.commits[created].id) == ([(DELETED, deleted[1])] * 2, created)


def test_an_equality_delete_that_does_not_exist_is_an_error(iceberg):
    table = iceberg()
    deletes = table.write_equality_deletes(["id"], [{"id": 1}], path="data/gone.parquet")
    table.append(table.write_data(rows_of(1)))
    table.commit(add=[deletes])
    table.file_of(deletes.path).unlink()
    with pytest.raises(MissingFileError, match=r"gone\.parquet"):
        opened(table).trace("id = 1")


def test_the_life_of_a_row_of_delta(delta):
    table = delta()
    file = table.write_data(rows_of(1, 2, 3))
    created = table.append(file)
    deleted = table.delete(file, [1])
    name = file.add["path"]
    rewritten = table.commit(add=[table.write_data(rows_of(1, 3))], remove=[file], operation="OPTIMIZE")
    new = table.live_files[0].add["path"]
    trace = opened(table).trace("id IN (1, 2)")
    assert lives(trace) == [
        [(ADDED, created, name, 0), (CARRIED, rewritten, new, 0)],
        [(ADDED, created, name, 1), (DELETED, deleted, name, 1)],
    ]
    delete = trace.rows[1].versions[0].delete
    assert (delete.kind, delete.offset) == (DeleteKind.VECTOR, 1)  # after the version of the file, 1 byte
    assert [(commit.id, commit.operation) for commit in trace.commits if commit.operation] == [
        *((created, "WRITE"), (deleted, "DELETE"), (rewritten, "OPTIMIZE")),
    ]


def test_a_restored_row_of_delta_is_the_same_row(delta):
    table = delta()
    file = table.write_data(rows_of(1, 2))
    created = table.append(file)
    removed = table.remove(file)
    restored = table.append(file, operation="RESTORE")
    name = file.add["path"]
    assert life(opened(table).trace("id = 1")) == [
        *((ADDED, created, name, 0), (REMOVED, removed, name, 0), (RESTORED, restored, name, 0)),
    ]


def test_columns_limit_what_is_compared(iceberg):
    table = iceberg()
    old, new = table.write_data(rows_of(9, 1)), table.write_data(rows_of(1, note="changed"))
    table.append(old)
    table.commit(add=[new], remove=[old])
    trace = opened(table).trace("id = 1", columns=["customer", "_pos"])
    assert [[event[0] for event in row] for row in lives(trace)] == [[ADDED, CARRIED]]
    assert dict(trace.rows[0].texts) == {"customer": "1", "_pos": "0"}


@pytest.mark.parametrize("type_text", ["double", "list<long>", "map<string, long>", "struct<a: long>", "binary"])
def test_values_of_every_kind_are_followed(iceberg, type_text):
    value = {
        "double": float("nan"),
        "list<long>": [1, None],
        "map<string, long>": {"a": 1},
        "struct<a: long>": {"a": None},
        "binary": b"\x00\xff",
    }[type_text]
    table = iceberg(columns={"id": "long", "v": type_text})
    old, new = (table.write_data([{"id": 1, "v": value}]) for _ in range(2))
    table.append(old)
    table.commit(add=[new], remove=[old], operation="replace")
    assert [event[0] for event in life(opened(table).trace("id = 1"))] == [ADDED, CARRIED]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"where": "nope = 1"}, UnknownColumnError, "nope"),
        ({"where": "id ="}, RequestError, "parse"),
        ({"where": "id = 1", "keys": ["nope"]}, UnknownColumnError, "nope"),
        ({"where": "id = 1", "columns": ["nope"]}, UnknownColumnError, "nope"),
        ({"where": "id = 1", "columns": ["_file"]}, RequestError, "column"),
        ({"where": "id = 1", "from_": 5}, SnapshotNotFoundError, "5"),
        ({"where": "id = 1", "to": "nope"}, SnapshotNotFoundError, "nope"),
    ],
)
def test_bad_input_is_an_error_in_one_line(iceberg, arguments, error, message):
    table = iceberg()
    table.append(table.write_data(rows_of(1)))
    with pytest.raises(error, match=message) as caught:
        opened(table).trace(**arguments)
    assert "\n" not in caught.value.message


def test_a_start_that_is_not_an_ancestor_is_an_error(iceberg):
    table = iceberg()
    table.append(table.write_data(rows_of(1)))
    table.create_branch("audit")
    table.commit(add=[table.write_data(rows_of(2))], branch="audit")
    main = table.append(table.write_data(rows_of(3)))
    with pytest.raises(RequestError, match="ancestor"):
        opened(table).trace("id = 1", from_=main, to="audit")


@pytest.mark.parametrize("missing", [False, True])
def test_a_table_without_snapshots_has_no_rows(iceberg, missing):
    trace = opened(iceberg()).trace("id = 1", missing=missing)
    assert (trace.rows, trace.commits, json.loads(json.dumps(trace.to_dict()))["rows"]) == ((), (), [])
    with pytest.raises(UnknownColumnError):
        opened(iceberg()).trace("nope = 1")


def test_too_many_rows_are_refused(iceberg):
    table = iceberg()
    table.append(table.write_data([{"id": n, "customer": 0, "note": ""} for n in range(10_001)]))
    with pytest.raises(RequestError, match="10,000"):
        opened(table).trace("id >= 0")


def test_a_row_is_visible_again_if_its_delete_is_removed(iceberg):
    table = iceberg()
    file = table.write_data(rows_of(1, 2), path="data/a.parquet")
    first = table.append(file)
    deletes = table.write_position_deletes([(file, 0)])
    second = table.commit(add=[deletes])
    third = table.commit(remove=[deletes], operation="overwrite")
    trace = opened(table).trace("id = 1")
    assert life(trace) == [
        *((ADDED, first, "a.parquet", 0), (DELETED, second, "a.parquet", 0), (RESTORED, third, "a.parquet", 0)),
    ]
    assert states(trace) == {"1": True}


def test_a_row_that_its_own_commit_deletes_was_never_visible(iceberg):
    table = iceberg()
    file = table.write_data(rows_of(1, 2), path="data/a.parquet")
    first = table.commit(add=[file, table.write_position_deletes([(file, 0)])])
    trace = opened(table).trace("id = 1")
    assert (life(trace), states(trace)) == ([(NEVER, first, "a.parquet", 0)], {"1": False})


def test_equal_rows_that_a_rewrite_merges_are_candidates(iceberg):
    table = iceberg()
    old = [table.write_data(rows_of(1), path=f"data/{name}.parquet") for name in "ab"]
    first = table.append(*old)
    second = table.commit(add=[table.write_data(rows_of(1, 1), path="data/c.parquet")], remove=old, operation="replace")
    trace = opened(table).trace("id = 1")
    assert lives(trace) == [
        [(ADDED, first, "a.parquet", 0), (REMOVED, second, "a.parquet", 0)],
        [(ADDED, first, "b.parquet", 0), (REMOVED, second, "b.parquet", 0)],
        [(CARRIED, second, "c.parquet", 0)],
        [(CARRIED, second, "c.parquet", 1)],
    ]
    assert [row.events[-1].candidates for row in trace.rows] == [2, 2, 2, 2]
    assert [row.is_visible for row in trace.rows] == [False, False, True, True]


def test_a_row_is_deleted_by_the_first_of_its_deletes(iceberg):
    table = iceberg()
    file = table.write_data(rows_of(1, 2), path="data/a.parquet")
    table.append(file)
    second = table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}])])
    table.commit(add=[table.write_position_deletes([(file, 0)])])
    table.commit(add=[table.write_data(rows_of(2))], remove=[file])
    trace = opened(table).trace("id = 1")
    assert life(trace)[-1] == (DELETED, second, "a.parquet", 0)
    assert trace.rows[0].versions[0].delete.kind is DeleteKind.EQUALITY


def test_keys_of_an_equality_delete_that_the_table_no_longer_has(iceberg):
    table = iceberg()
    table.append(table.write_data(rows_of(1, 2)))
    table.commit(add=[table.write_equality_deletes(["customer"], [{"customer": 1}])])
    table.drop_column(("customer",))
    (row,) = opened(table).trace("id = 1").rows
    assert (row.is_visible, row.versions[0].delete.keys) == (False, (("customer", None),))


def test_null_and_text_keys_are_literals(iceberg):
    table = iceberg(columns={"id": "long", "note": "string"})
    table.append(table.write_data([{"id": None, "note": "it's"}]))
    table.commit(add=[table.write_equality_deletes(["id", "note"], [{"id": None, "note": "it's"}])])
    (row,) = opened(table).trace("note LIKE 'it%'").rows
    assert row.versions[0].delete.keys == (("id", "NULL"), ("note", "'it''s'"))


def test_a_nested_key(iceberg):
    table = iceberg(columns={"id": "long", "s": "struct<a: long, b: long>"})
    table.append(table.write_data([{"id": 1, "s": {"a": 7, "b": 8}}, {"id": 2, "s": {"a": 9, "b": 8}}]))
    a = table.schema.fields[1].type.fields[0].id
    table.commit(add=[table.write_equality_deletes([a], [{"s": {"a": 7}}])])
    rows = {row.texts["id"]: row for row in opened(table).trace("id > 0").rows}
    assert [rows[id_].is_visible for id_ in "12"] == [False, True]
    assert rows["1"].versions[0].delete.keys == (("s.a", "7"),)


def test_row_ids_of_delta(tmp_path):
    table = DeltaTable.create(tmp_path / "orders", COLUMNS, configuration={"delta.enableRowTracking": "true"})
    old = table.write_data(rows_of(1, 2))
    table.append(old)
    new = table.write_data(rows_of(2, 1, note="changed"), row_ids=[1, 0])
    table.commit(add=[new], remove=[old], operation="UPDATE")
    (row,) = opened(table).trace("note = 'n2'").rows
    assert [(event.kind, row.versions[event.version].position) for event in row.events] == [(ADDED, 1), (UPDATED, 0)]
    assert (row.row_id, row.followed_by) == (1, FollowedBy.ROW_ID)
