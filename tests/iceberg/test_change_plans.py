"""Plans of changes and lifetimes of Iceberg tables: the spans of data files and deletes over a range of snapshots.

Histories and spans are texts, see `histories`. `a 0..2 p 1..` means: data file `a` was live from commit 0 up to commit
2, and the delete `p` applied to it from commit 1. A missing number is the state before the range, or its end.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import (
    CorruptDeleteError,
    InvalidTableError,
    RequestError,
    SnapshotNotFoundError,
    UnknownColumnError,
)
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.model.schema import Field, StringType
from harness.metadata.plan.lifetimes import ChangeMode, Span
from harness.metadata.plan.scan_plan import ScanPlan
from tests.iceberg.histories import History, spans


@pytest.mark.parametrize(
    ("history", "start", "expected", "rewrites"),
    [
        pytest.param(["+a", "+b"], 0, ["b 0.."], [], id="append"),
        pytest.param(["+a", "+b"], None, ["a 0..", "b 1.."], [], id="from the first commit"),
        pytest.param(["+a", "+b", "-a"], 1, ["a ..0"], [], id="file removed"),
        pytest.param(["+a", "+b", "+c -a"], 1, ["a ..0", "c 0.."], [0], id="overwrite"),
        pytest.param(["+a", "+b -a", "+c -b"], None, ["a 0..1", "b 1..2", "c 2.."], [1, 2], id="overwritten twice"),
        pytest.param(["+a +b", "+p=a0,b1"], 0, ["a .. p 0..", "b .. p 0.."], [], id="position deletes of a partition"),
        pytest.param(["+a +b", "+p=a0"], 0, ["a .. p 0.."], [], id="position deletes of one file"),
        pytest.param(["+a", "+p=a0", "+q=a1"], 1, ["a .. p .. q 0.."], [], id="older position deletes count, too"),
        pytest.param(["+a", "+p=a0", "+b"], 1, ["b 0.."], [], id="older position deletes of other files do not"),
        pytest.param(["+a", "+e:1", "+b", "+f:1"], 2, ["a .. e .. f 0..", "b .. f 0.."], [], id="equality deletes"),
        pytest.param(["+a", "+b +e:1"], 0, ["a .. e 0..", "b 0.."], [], id="equality deletes spare their own commit"),
        pytest.param(["+a +b", "+p=a0 -b"], 0, ["a .. p 0..", "b ..0"], [], id="a delete and a removed file"),
        pytest.param(["+a", "+e:1 +c -a"], 0, ["a ..0", "c 0.."], [0], id="deletes that come as the file goes"),
        pytest.param(
            ["+a", "+p=a0", "+q=a0,a1 -p"], 0, ["a .. p 0..1 q 1.."], [], id="position deletes replace position deletes"
        ),
        pytest.param(
            ["+a", "+p=a0,a1", "+q=a0 -p"], 0, ["a ..1 p 0..1", "a 1.. q 1.."], [1], id="fewer position deletes"
        ),
        pytest.param(["+a", "+p=a0", "+q=a1 -p"], 0, ["a ..1 p 0..1", "a 1.. q 1.."], [1], id="other position deletes"),
        pytest.param(["+a", "+p=a0", "+q=a0", "-p"], 0, ["a .. p 0..2 q 1.."], [], id="repeated position deletes"),
        pytest.param(
            ["+a", "+e:1", "-e +p=a1 replace"], 0, ["a .. p 1.. e 0..1"], [], id="a replace replaces any delete"
        ),
        pytest.param(["+a", "+e:1", "-e"], 0, ["a ..1 e 0..1", "a 1.."], [1], id="equality deletes removed"),
        pytest.param(["+a", "+p=a0", "-p"], 0, ["a ..1 p 0..1", "a 1.."], [1], id="position deletes removed"),
        pytest.param(
            ["+a", "+p=a0", "+q=a1", "-p"], 0, ["a ..2 p 0..2 q 1..", "a 2.. q 1.."], [2], id="one of two removed"
        ),
        pytest.param(["+a", "+p=a0", "+b -p -a"], 1, ["a ..0 p ..0", "b 0.."], [0], id="removed with its file"),
        pytest.param(["+a", "-a", "+a"], None, ["a 0..1", "a 2.."], [], id="removed and added again"),
        pytest.param(["+a", "+b", "merge +c"], 1, ["c 0.."], [], id="merged manifests"),
        pytest.param(["+a", "+b", "merge -a"], 1, ["a ..0"], [], id="merged manifests with a removed file"),
        pytest.param(["+a", "+p=a0", "merge +q=a1"], 1, ["a .. p .. q 0.."], [], id="merged manifests of deletes"),
        pytest.param(["+a", "+b -a replace"], 0, [], [], id="replace"),
        pytest.param(["+a", "+b -a replace", "-b"], 0, ["b 0..1"], [], id="replace, then a change"),
        pytest.param(
            ["+a", "+b -a replace seq=1", "+e:1"], 0, ["b 0.. e 1.."], [], id="deletes of a file from a replace"
        ),
        pytest.param(
            ["+a", "+e:1", "+b -a replace seq=1"], 0, ["a ..1 e 0.."], [], id="a replace keeps the sequence number"
        ),
        pytest.param(["+a", "+p=a0", "+b"], 2, [], [], id="empty range"),
    ],
)
def test_spans_of_version_2(tmp_path, history, start, expected, rewrites):
    plan = History(tmp_path).commit(*history).plan(start)
    assert spans(plan) == expected
    assert [n for n, commit in enumerate(plan.lifetimes.commits) if commit.rewrites] == rewrites


@pytest.mark.parametrize(
    ("history", "start", "expected"),
    [
        pytest.param(["+a", "+v~a0", "+w~a0,a1 -v"], 0, ["a .. v 0..1 w 1.."], id="vectors replace vectors"),
        pytest.param(["+a", "+v~a0", "+w~a0,a1 -v"], 1, ["a .. v ..0 w 0.."], id="the replaced vector is before"),
        pytest.param(["+a", "+v~a0", "-v"], 0, ["a ..1 v 0..1", "a 1.."], id="a vector removed"),
        pytest.param(["+a", "+v~a0", "-v", "+w~a1"], 0, ["a ..1 v 0..1", "a 1.. w 2.."], id="a vector after a gap"),
        pytest.param(["+a", "+v~a0,a1", "+w~a0 -v"], 0, ["a ..1 v 0..1", "a 1.. w 1.."], id="a vector with fewer rows"),
        pytest.param(["+a", "+v~a0", "+w~a1 -v"], 0, ["a ..1 v 0..1", "a 1.. w 1.."], id="a vector with other rows"),
        pytest.param(["+a", "+v~a0", "+w~a0 -v"], 0, ["a .. v 0..1 w 1.."], id="a vector with the same rows"),
        pytest.param(["+a +v~a0", "+b -a -v"], 0, ["a ..0 v ..0", "b 0.."], id="a vector removed with its file"),
        pytest.param(["+a +b", "+v~a0 +w~b1", "+x~a0,a1 -v"], 1, ["a .. v ..0 x 0.."], id="other vectors stay"),
        pytest.param(["+a", "+v~a0", "-v +w~a0 replace"], 1, [], id="a replaced vector without new rows"),
        pytest.param(
            ["+a", "+v~a0", "+w~a0,a1 -v replace", "+b"], 1, ["b 1.."], id="a vector from a replace shows no change"
        ),
    ],
)
def test_spans_of_vectors(tmp_path, history, start, expected):
    assert spans(History(tmp_path, version=3).commit(*history).plan(start)) == expected


def test_a_vector_ends_the_position_delete_files_of_its_file(tmp_path):
    history = History(tmp_path).commit("+a +b", "+p=a0,b0")
    history.table.upgrade(3)
    history.commit("+v~a0,a1", "+w~a0,a1,a2 -v")
    assert spans(history.plan(0)) == ["a .. p 0..1 v 1..2 w 2..", "b .. p 0.."]
    assert spans(history.plan(2)) == ["a .. v ..0 w 0.."]


def test_a_vector_may_bring_back_rows_of_older_position_delete_files(tmp_path):
    history = History(tmp_path).commit("+a", "+p=a0")
    history.table.upgrade(3)
    history.commit("+v~a1")
    assert spans(history.plan(1)) == ["a ..0 p ..", "a 0.. v 0.."]


@pytest.mark.parametrize(
    ("history", "start", "expected"),
    [
        pytest.param(["+a/1 +b/2", "+e:1/1"], 0, ["a .. e 0.."], id="equality deletes of a partition"),
        pytest.param(["+a/1 +b/2", "+e:1"], 0, ["a .. e 0..", "b .. e 0.."], id="global equality deletes"),
        pytest.param(["+a/1 +b/1 +c/2", "+p=a0,b0"], 0, ["a .. p 0..", "b .. p 0.."], id="position deletes"),
    ],
)
def test_spans_in_partitions(tmp_path, history, start, expected):
    assert spans(History(tmp_path, partitioned=True).commit(*history).plan(start)) == expected


def test_a_delete_of_another_spec_is_a_suspect(tmp_path):
    history = History(tmp_path).commit("+a +b")
    (p,) = history.write("+p=a0,b0")
    history.table.set_partition_spec([("part", "identity")])
    p.spec_id, p.data_file["partition"] = history.table.spec_id, {"part": 0}
    history.commit("+p")
    history.commit("-a")
    plan = history.plan(0)
    assert spans(plan) == ["a ..1 p?"]
    with pytest.raises(CorruptDeleteError, match="DeletePartitionMismatch"):
        plan.load_dated([0])
    assert spans(history.plan(0, lenient_delete_partition=True)) == ["a ..1 p 0..", "b .. p 0.."]


@pytest.mark.parametrize(
    ("start", "end", "inclusive", "expected"),
    [
        (None, None, False, ["a 0..", "b 1..", "c 2..", "d 3.."]),
        (0, None, False, ["b 0..", "c 1..", "d 2.."]),
        (0, None, True, ["a 0..", "b 1..", "c 2..", "d 3.."]),
        (1, 2, False, ["c 0.."]),
        (1, 2, True, ["b 0..", "c 1.."]),
        (2, 2, False, []),
        (2, 2, True, ["c 0.."]),
        ("first", "ref=third", False, ["b 0..", "c 1.."]),
        ("2024-01-01 00:00:01", None, False, ["c 0..", "d 1.."]),
        (0, "2024-01-01 00:00:02.5", False, ["b 0..", "c 1.."]),
    ],
)
def test_ends_of_a_range(tmp_path, start, end, inclusive, expected):
    history = History(tmp_path)
    for second, name in enumerate("abcd"):
        history.ids.append(
            history.table.commit(add=history.write(f"+{name}"), timestamp_ms=1_704_067_200_000 + 1000 * second)
        )
    history.table.create_tag("first", history.ids[0])
    history.table.create_tag("third", history.ids[2])
    assert spans(history.plan(start, end, inclusive=inclusive)) == expected


def test_a_range_follows_the_ancestors_of_its_end(tmp_path):
    history = History(tmp_path).commit("+a", "+b")
    history.table.create_branch("side", history.ids[0])
    history.commit("+c on=side", "+d on=side", "+e")
    assert spans(history.plan(0, "side")) == ["c 0..", "d 1.."]
    assert spans(history.plan(0)) == ["b 0..", "e 1.."]
    history.table.set_ref("main", history.ids[0], "branch")  # a rollback
    history.commit("+f")
    assert spans(history.plan(0)) == ["f 0.."]
    for start, end, inclusive in [(2, None, False), (1, "side", False), (3, 2, False), (1, "side", True)]:
        with pytest.raises(RequestError, match="NotAnAncestor"):
            history.plan(start, end, inclusive=inclusive)


def test_snapshots_of_version_1_list_their_manifests(tmp_path):
    history = History(tmp_path, version=1).commit("+a", "+b", "+c -a")

    def inline(document):
        for snapshot in document["snapshots"]:
            paths = [m["manifest_path"] for m in history.table.manifest_list(snapshot["snapshot-id"]).records]
            snapshot |= {"manifests": paths}
        for snapshot in document["snapshots"]:
            del snapshot["manifest-list"]

    assert spans(history.plan(0)) == ["a ..1", "b 0..", "c 1.."]
    history.table.edit_metadata(inline)
    assert spans(history.plan(0)) == ["a ..1", "b 0..", "c 1.."]


def test_an_empty_table_has_no_changes(tmp_path):
    plan = History(tmp_path).plan()
    assert (spans(plan), plan.lifetimes.commits, plan.snapshot) == ([], (), None)


@pytest.mark.parametrize("start", [1, None])
def test_statuses_show_the_first_changes_after_an_expired_state(tmp_path, start):
    history = History(tmp_path).commit("+a +b +c", "+p=b0", "+d -a +q=c0,b1", "-d")
    for expired in history.ids[:2]:
        history.table.expire(expired)
    assert spans(history.plan(start)) == ["a ..0", "b .. p .. q 0..", "c .. q 0..", "d 0..1 q 0.."]


def test_an_expired_start_cannot_be_inclusive(tmp_path):
    history = History(tmp_path).commit("+a", "+b", "+c")
    history.table.expire(history.ids[0])
    assert spans(history.plan(0)) == ["b 0..", "c 1.."]
    assert spans(history.plan(1, inclusive=True)) == ["b 0..", "c 1.."]
    for start, inclusive in [(0, True), (99, False)]:
        with pytest.raises(SnapshotNotFoundError):
            history.plan(start, inclusive=inclusive)


def test_statuses_and_snapshot_ids_of_entries_do_not_matter(tmp_path):
    history = History(tmp_path).commit("+a", "+b", "merge +c")

    def lie(document):
        for entry in document.records:
            entry["status"], entry["snapshot_id"] = 1, history.ids[2]

    history.table.edit_manifest(history.files["a"], lie)
    assert spans(history.plan(1)) == ["c 0.."]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ChangeMode.APPENDS, ["b 0..", "d 2.."]),
        (ChangeMode.CHANGELOG, ["b 0..1", "c 1..", "d 2..3"]),
        (ChangeMode.NET, ["b 0..1", "c 1..", "d 2..3"]),
        (None, ["a ..", "b 0..1", "c 1..", "d 2..3", "e 3.."]),
    ],
)
def test_files_of_modes(tmp_path, mode, expected):
    plan = History(tmp_path).commit("+a", "+b", "+c -b", "+d", "+e -d replace").plan(0, mode=mode)
    assert spans(plan) == expected
    assert [commit.ordinal for commit in plan.lifetimes.commits] == [0, 1, 2, None]


def test_appends_read_no_deletes(tmp_path):
    history = History(tmp_path).commit("+a", "+e:1", "+b +p=a0", "+c", "+q=c0")
    history.files["e"].file.unlink()
    plan = history.plan(0, mode=ChangeMode.APPENDS)
    assert (spans(plan), plan.equality_deletes, plan.position_deletes.files) == (["c 2.."], (), ())


@pytest.mark.parametrize(
    ("history", "deletes"),
    [
        (["+a", "+p=a0,a1", "+q=a1,a2"], [[0, 1], [1, 2]]),
        (["+a", "+p=a0,a0,a1", "+q=a0,a1 -p"], [[0, 1], [0, 1]]),
        (["+a", "+p=a0 +q=a1", "+r=a0,a3 -p", "+s=a1,a4 -q"], [[0], [1], [0, 3], [1, 4]]),
    ],
)
def test_positions_of_dated_deletes(tmp_path, history, deletes):
    plan = History(tmp_path).commit(*history).plan(0)
    assert {n: sorted(map(list, found)) for n, found in plan.load_dated([0]).items()} == {0: sorted(deletes)}


@pytest.mark.parametrize(
    ("version", "history"),
    [
        pytest.param(2, ["+a", "+p=a0,a1", "+q=a1,a2,a3 -p"], id="position deletes"),
        pytest.param(2, ["+a", "+p=a0,a1", "-p replace"], id="position deletes dropped by a replace"),
        pytest.param(3, ["+a", "+v~a0,a1", "+w~a1,a2,a3 -v"], id="vectors"),
        pytest.param(3, ["+a", "+v~a0,a1", "-v replace"], id="vector dropped by a replace"),
    ],
)
def test_a_replacement_must_have_all_rows(tmp_path, version, history):
    history = History(tmp_path, version=version).commit(*history)
    with pytest.raises(CorruptDeleteError, match=rf"Snapshot {history.ids[2]} replaces .*UncoveredDelete"):
        history.plan(0).load_dated([0])
    assert history.plan(2, mode=None).load_dated([0]) is not None  # the replacement is not in this range


def test_each_delete_file_is_read_once(tmp_path):
    history = History(tmp_path).commit("+a +b", "+p=a0,b1", "+q=a1,b0", "-q")
    plan = history.plan(1)
    assert spans(plan) == ["a ..1 p .. q 0..1", "a 1.. p ..", "b ..1 p .. q 0..1", "b 1.. p .."]
    plan.load_dated([0])
    for name in "pq":
        history.files[name].file.unlink()
    assert plan.load_dated(range(4)).keys() == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("mode", "where", "expected", "skipped"),
    [
        (ChangeMode.CHANGELOG, "part = 1", ["a ..1", "c 0.."], 2),
        (ChangeMode.NET, "part = 1", ["a ..1", "c 0.."], 2),
        (None, "part = 1", ["a ..1", "c 0.."], 2),
        (ChangeMode.CHANGELOG, "id > 4", [], 4),
        (ChangeMode.UPDATES, "part = 1", ["a ..1", "b ..1", "c 0..", "d 0.."], 0),
        (ChangeMode.UPDATES, "id > 4", [], 4),
        (ChangeMode.CHANGELOG, "_change_type = 'insert'", ["a ..1", "b ..1", "c 0..", "d 0.."], 0),
        (ChangeMode.CHANGELOG, "_change_ordinal = 1 AND part = 2", ["b ..1", "d 0.."], 2),
    ],
)
def test_filters_skip_files(tmp_path, mode, where, expected, skipped):
    history = History(tmp_path, partitioned=True).commit("+a/1 +b/2", "+c/1 +d/2", "-a -b")
    plan = history.plan(0, mode=mode, where=where, keys=("id",) if mode is ChangeMode.UPDATES else None)
    assert (spans(plan), len(plan.skipped)) == (expected, skipped)


def test_a_filter_skips_no_file_of_a_rewrite_that_row_ids_compare(tmp_path):
    history = History(tmp_path, version=3, partitioned=True).commit("+a/1 +b/2", "+c/1 -a", "+d/2")
    assert spans(history.plan(0, where="part = 2")) == ["a ..0", "c 0..", "d 1.."]


def test_manifests_without_changes_are_skipped_by_their_summaries(tmp_path):
    history = History(tmp_path, partitioned=True).commit("+a/1", "+b/2", "+e:1")
    plan = history.plan(1, where="part = 2")
    assert (spans(plan), plan.counts.manifests_skipped) == (["b .. e 0.."], 1)


def test_key_bounds_limit_equality_deletes(tmp_path):
    history = History(tmp_path).commit("+a", "+e:9", "+f:1")
    assert spans(history.plan(0, 1)) == []
    assert spans(history.plan(0)) == ["a .. f 1.."]
    assert spans(history.plan(0, prune="off")) == ["a .. e 0.. f 1.."]


@pytest.mark.parametrize(
    ("version", "keys", "identifiers", "expected"),
    [
        (2, ("part", "ID"), (), (["part", "id"], False)),
        (2, None, (1,), (["id"], False)),
        (2, (), (1,), "NoKeys"),
        (2, None, (), "NoKeys"),
        (3, None, (), ([], True)),
        (3, ("id",), (2,), (["id"], True)),
        (2, ("nothing",), (), "UnknownColumnError"),
        (2, ("_pos",), (), "UnknownColumnError"),
        (2, ("s",), (), "InvalidKey"),
        (2, None, (4,), "InvalidKey"),
    ],
)
def test_keys_of_updates(tmp_path, version, keys, identifiers, expected):
    history = History(tmp_path, version=version)
    history.table.add_column("s", "struct<x: int>")
    history.table.set_schema(replace(history.table.schema, identifier_field_ids=identifiers))
    history.commit("+a", "+b")
    if isinstance(expected, str):
        with pytest.raises(RequestError) as caught:
            history.plan(0, mode=ChangeMode.UPDATES, keys=keys)
        assert expected in (caught.value.cause, type(caught.value).__name__)
    else:
        lifetimes = history.plan(0, mode=ChangeMode.UPDATES, keys=keys).lifetimes
        assert ([key.name for key in lifetimes.keys], lifetimes.row_ids) == expected


def test_row_ids_of_files_from_before_an_upgrade(tmp_path):
    history = History(tmp_path).commit("+a +b")
    history.table.upgrade(3)
    history.commit("+c -a", "-b")
    plan = history.plan(0)
    first_ids = {Path(row["path"]).stem: row["first_row_id"] for row in plan.files.to_pylist()}
    assert first_ids["a"] is None  # it was gone before files got row ids
    assert first_ids["c"] is not None
    assert plan.lifetimes.row_ids


def test_columns_of_changes(tmp_path):
    history = History(tmp_path).commit("+a", "+b")
    changes = ["_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert [f.name for f in history.plan().columns] == ["id", "part", *changes]
    assert [f.name for f in history.plan(mode=None).columns] == ["id", "part"]
    names = ("_commit_snapshot_id", "_pos", "PART", "_file", "_row_id", "_spec_id", "_partition")
    assert [f.name.lower() for f in history.plan(columns=names).columns] == [name.lower() for name in names]
    lifetimes = ("_added_commit", "_removed_commit", "_deleted_by", "_file_number")
    assert [f.name for f in history.plan(mode=None, columns=lifetimes).columns] == list(lifetimes)
    for mode, name in [(None, "_change_type"), (ChangeMode.NET, "_added_commit"), (ChangeMode.NET, "_deleted")]:
        with pytest.raises(UnknownColumnError):
            history.plan(mode=mode, columns=(name,))


def test_rows_have_the_schema_of_the_end(tmp_path):
    history = History(tmp_path).commit("+a")
    history.table.rename_column("part", "region")
    history.table.add_column("note", "string")
    history.commit("+b")
    assert [f.name for f in history.plan(0, columns=None).schema.fields] == ["id", "region", "note"]
    assert [f.name for f in history.plan(None, 0).schema.fields] == ["id", "part"]


def test_a_column_with_the_name_of_a_change_is_refused(tmp_path):
    history = History(tmp_path).commit("+a")
    history.table.add_column("_Change_Type", "string")
    with pytest.raises(InvalidTableError, match="ReservedColumn"):
        history.plan()


def test_a_file_that_is_live_twice_is_refused(tmp_path):
    history = History(tmp_path).commit("+a", "+b", "+a")
    with pytest.raises(InvalidTableError, match="DuplicateDataFile"):
        history.plan(1, mode=None)
    assert spans(history.plan(1, mode=None, allow_duplicate_files=True)) == ["a ..", "a 0..", "b .."]


def test_two_vectors_of_one_state_are_refused(tmp_path):
    history = History(tmp_path, version=3).commit("+a", "+v~a0", "+w~a1")
    with pytest.raises(CorruptDeleteError, match="MultipleDVs"):
        history.plan(0)


def test_manifests_are_read_once_and_only_if_a_change_needs_them(tmp_path, monkeypatch):
    history = History(tmp_path).commit("+a", "+b", "+c", "+d -c")
    names = []
    read = IcebergTable.read

    def counted(table, recorded, what):
        names.append((what, recorded))
        return read(table, recorded, what)

    monkeypatch.setattr(IcebergTable, "read", counted)
    assert spans(history.plan(1)) == ["c 0..1", "d 1.."]
    assert len(names) == len(set(names))
    # the manifests of c, of d, and of the removed c, but not those of a and b
    assert [what for what, _ in names].count("manifest") == 3
    assert [what for what, _ in names].count("manifest list") == 3


def test_plans_are_encoded(tmp_path):
    history = History(tmp_path).commit("+a +b", "+p=a0,b1 +e:1", "-p", "+c -a")
    for plan in (history.plan(0), history.plan(0, mode=None), history.plan(0, mode=ChangeMode.UPDATES, keys=("id",))):
        decoded = ScanPlan.from_ipc(plan.to_ipc())
        assert decoded == plan
        assert decoded.lifetimes == plan.lifetimes
        assert decoded != ScanPlan.from_ipc(history.plan(1).to_ipc())
        assert f"{plan.lifetimes}" in plan.explain()
        assert decoded.to_dict() == plan.to_dict()


def without_files(lifetimes):
    return replace(lifetimes, files=lifetimes.files[1:])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without_files, id="a span is missing"),
        pytest.param(lambda lifetimes: replace(lifetimes, equality_deletes=()), id="a span of a delete is missing"),
        pytest.param(lambda lifetimes: replace(lifetimes, commits=()), id="no commits"),
        pytest.param(lambda lifetimes: replace(lifetimes, commits=lifetimes.commits[:2]), id="too few commits"),
        pytest.param(
            lambda lifetimes: replace(lifetimes, files=(Span(1, 1), *lifetimes.files[1:])), id="an empty span"
        ),
        pytest.param(lambda lifetimes: replace(lifetimes, files=(Span(-2), *lifetimes.files[1:])), id="before BEFORE"),
        pytest.param(
            lambda lifetimes: replace(lifetimes, keys=(Field(id=9, name="x", type=StringType()),)), id="unknown keys"
        ),
        pytest.param(lambda _: None, id="no lifetimes"),
    ],
)
def test_a_plan_with_wrong_lifetimes_is_not_decoded(tmp_path, change):
    plan = History(tmp_path).commit("+a +b", "+p=a0,b1 +e:1", "-p", "+c -a").plan(0).plan
    with pytest.raises(RequestError, match="DamagedPlan"):
        ScanPlan.from_ipc(replace(plan, lifetimes=change(plan.lifetimes)).to_ipc())
