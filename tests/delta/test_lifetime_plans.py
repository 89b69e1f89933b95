"""Plans of lifetimes: the spans of files and of deletion vectors in a range of versions."""

from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.metadata.model.schema import METADATA
from harness.metadata.plan.lifetimes import BEFORE, ChangeRange, delete_number, deleting_commit
from harness.snapshot import PlannedRows
from harness.writing.delta.builder import DeltaTable

START = 1_704_067_200_000  # 2024-01-01 00:00:00 UTC


def create(folder: Path, schema: dict[str, str] | None = None, **more) -> DeltaTable:
    features = ["deletionVectors", *more.pop("features", ())]
    return DeltaTable.create(folder / "t", schema or {"id": "long"}, timestamp=START, features=features, **more)


def rows(*ids: int, **more) -> list[dict]:
    return [{"id": i, **more} for i in ids]


def lifetimes(table: DeltaTable, from_=None, to=None, *, inclusive=True, columns=None, where=None):
    request = ChangeRange(from_, to, inclusive, None)
    return harness.open_table(str(table.directory))._source.lifetimes(request, columns, where)


def spans(plan) -> list[tuple]:
    """Return (name, added, removed) of each file, followed by (deleted rows, added, removed) of each of its vectors."""
    deletes = plan.position_deletes
    sources = deletes.sources(plan.files.column("positions").to_pylist())
    dated = [
        [(d.source.record_count, d.span.added, d.span.removed) for d in source.deletes] if source else []
        for source in sources
    ]
    names = [Path(path).stem for path in plan.files.column("path").to_pylist()]
    return [
        (name, span.added, span.removed, *vectors)
        for name, span, vectors in zip(names, plan.lifetimes.files, dated, strict=True)
    ]


def commits(plan) -> list[tuple]:
    """Return (version, ordinal) of each commit, and "rewrites" for those that may have moved rows."""
    return [(c.id, c.ordinal, *(["rewrites"] if c.rewrites else [])) for c in plan.lifetimes.commits]


def append_and_remove(table):
    first, second = table.write_data(rows(1)), table.write_data(rows(2))
    table.append(first)
    table.append(second)
    table.remove(first)
    return [("part-00001", 1, 3), ("part-00002", 2, None)], [(0, None), (1, 0), (2, 1), (3, 2)]


def overwrite(table):
    table.append(table.write_data(rows(1)))
    table.overwrite(table.write_data(rows(2)))
    return [("part-00001", 1, 2), ("part-00002", 2, None)], [(0, None), (1, 0), (2, 1, "rewrites")]


def vectors(table):
    """A vector is replaced twice. The second is inline."""
    file = table.write_data(rows(1, 2, 3, 4, 5))
    table.append(file)
    table.delete(file, [0])
    table.delete(file, [1, 2], storage="i")
    table.delete(file, [3])
    table.remove(file)
    return [("part-00001", 1, 5, (1, 2, 3), (3, 3, 4), (4, 4, 5))], [(0, None), *((v, v - 1) for v in range(1, 6))]


def born_with_vector(table):
    file = table.write_data(rows(1, 2))
    table.append(table.write_data(rows(3)))
    file.set_deletion_vector(table.write_vectors({file: [1]})[file], frozenset([1]))
    table.append(file)
    return [("part-00002", 1, None), ("part-00001", 2, None, (1, 2, None))], [(0, None), (1, 0), (2, 1)]


def optimize(table):
    first, second = table.write_data(rows(1)), table.write_data(rows(2))
    table.append(first, second)
    table.commit(add=[table.write_data(rows(1, 2))], remove=[first, second], operation="OPTIMIZE", data_change=False)
    table.append(table.write_data(rows(3)))
    return [
        ("part-00001", 1, 2),
        ("part-00002", 1, 2),
        ("part-00003", 2, None),
        ("part-00004", 3, None),
    ], [(0, None), (1, 0), (2, None), (3, 1)]


def removed_and_added_again(table):
    file = table.write_data(rows(1))
    table.append(file)
    table.remove(file)
    table.commit(add=[file], operation="RESTORE")
    return [("part-00001", 1, 2), ("part-00001", 3, None)], [(0, None), (1, 0), (2, 1), (3, 2)]


def restored_without_vector(table):
    file = table.write_data(rows(1, 2))
    table.append(file)
    without = replace(file)
    table.delete(file, [0])
    table.commit(add=[without], remove=[file], operation="RESTORE")
    return [("part-00001", 1, 3, (1, 2, 3)), ("part-00001", 3, None)], [(0, None), (1, 0), (2, 1), (3, 2, "rewrites")]


def restored_to_a_smaller_vector(table):
    file = table.write_data(rows(1, 2, 3))
    table.append(file)
    table.delete(file, [0])
    small = replace(file)
    table.delete(file, [1])
    table.commit(add=[small], remove=[file], operation="RESTORE")
    return [
        ("part-00001", 1, 4, (1, 2, 3), (2, 3, 4)),
        ("part-00001", 4, None, (1, 4, None)),
    ], [(0, None), (1, 0), (2, 1), (3, 2), (4, 3, "rewrites")]


def restored_to_another_vector(table):
    """The vector of version 3 is larger than that of version 5, but does not hide row 2."""
    file = table.write_data(rows(1, 2, 3, 4))
    table.append(file)
    plain = replace(file)
    table.delete(file, [0, 1])
    large = replace(file)
    table.commit(add=[plain], remove=[file], operation="RESTORE")
    table.delete(plain, [2])
    table.commit(add=[large], remove=[plain], operation="RESTORE")
    return [
        ("part-00001", 1, 3, (2, 2, 3)),
        ("part-00001", 3, 5, (1, 4, 5)),
        ("part-00001", 5, None, (2, 5, None)),
    ], [(0, None), (1, 0), (2, 1), (3, 2, "rewrites"), (4, 3), (5, 4, "rewrites")]


def restored_to_a_covering_vector(table):
    file = table.write_data(rows(1, 2, 3))
    table.append(file)
    small = replace(file)
    table.delete(file, [0])
    table.delete(file, [1])
    large = replace(file)
    table.commit(add=[small], remove=[file], operation="RESTORE")
    table.delete(small, [0])
    table.commit(add=[large], remove=[small], operation="RESTORE")
    return [
        ("part-00001", 1, 4, (1, 2, 3), (2, 3, 4)),
        ("part-00001", 4, None, (1, 5, 6), (2, 6, None)),
    ], [(0, None), (1, 0), (2, 1), (3, 2), (4, 3, "rewrites"), (5, 4), (6, 5)]


def rewritten_vector(table):
    """The vector is copied to another file and hides the same rows, so the file's span goes on."""
    file = table.write_data(rows(1, 2))
    table.append(file)
    table.delete(file, [0])
    before = replace(file)
    file.set_deletion_vector(table.write_vectors({file: [0]})[file], frozenset([0]))
    table.commit(add=[file], remove=[before], operation="OPTIMIZE", data_change=False)
    return [("part-00001", 1, None, (1, 2, 3), (1, 3, None))], [(0, None), (1, 0), (2, 1), (3, None)]


def other_vector_of_the_same_size(table):
    file = table.write_data(rows(1, 2))
    table.append(file)
    table.delete(file, [0])
    before = replace(file)
    file.set_deletion_vector(table.write_vectors({file: [1]})[file], frozenset([1]))
    table.commit(add=[file], remove=[before])
    return [
        ("part-00001", 1, 3, (1, 2, 3)),
        ("part-00001", 3, None, (1, 3, None)),
    ], [(0, None), (1, 0), (2, 1), (3, 2, "rewrites")]


def lost_vector_file(table):
    """The vectors cannot be compared, so the file is listed twice."""
    file, *_ = restored_file = [table.write_data(rows(1, 2, 3))]
    table.append(file)
    table.delete(file, [0])
    small = replace(file)
    table.delete(file, [1])
    table.commit(add=[small], remove=restored_file, operation="RESTORE")
    for path in table.directory.glob("deletion_vector_*.bin"):
        path.unlink()
    return [
        ("part-00001", 1, 4, (1, 2, 3), (2, 3, 4)),
        ("part-00001", 4, None, (1, 4, None)),
    ], [(0, None), (1, 0), (2, 1), (3, 2), (4, 3, "rewrites")]


def added_again_while_live(table):
    """An add action of a live file only changes what the log records about the file."""
    file = table.write_data(rows(1))
    table.append(file)
    table.commit(add=[file], operation="COMPUTE STATS", data_change=False)
    return [("part-00001", 1, None)], [(0, None), (1, 0), (2, None)]


def unknown_removes(table):
    """A remove action of a file that is not live, or of a vector that the file does not have, has no effect (R1)."""
    file = table.write_data(rows(1, 2))
    table.append(file)
    bare = replace(file)
    table.delete(file, [0])
    table.remove(bare)
    table.commit(remove=[{"path": "gone.parquet", "dataChange": True}])
    return [("part-00001", 1, None, (1, 2, None))], [(v, v - 1 if v else None) for v in range(5)]


def compacted_log(table):
    """Compacted log files are not used, because they do not tell the commits apart."""
    expected = append_and_remove(table)
    table.compact(1, 3)
    return expected


HISTORIES = [
    append_and_remove,
    overwrite,
    vectors,
    born_with_vector,
    optimize,
    removed_and_added_again,
    restored_without_vector,
    restored_to_a_smaller_vector,
    restored_to_another_vector,
    restored_to_a_covering_vector,
    rewritten_vector,
    other_vector_of_the_same_size,
    lost_vector_file,
    added_again_while_live,
    unknown_removes,
    compacted_log,
]


@pytest.mark.parametrize("history", HISTORIES)
def test_spans(tmp_path, history):
    table = create(tmp_path)
    files, expected_commits = history(table)
    plan = lifetimes(table)
    assert sorted(spans(plan), key=str) == sorted(files, key=str)
    assert commits(plan) == expected_commits
    assert plan.snapshot == table.version
    assert [f.name for f in plan.columns] == ["id"]


def shifted(files: list[tuple], start: int) -> list[tuple]:
    """Return spans of the whole history as spans of a range that starts with version `start`, by hand-checked rules.

    Files that were removed before the range are absent, and the rest begin before the range at the earliest.
    """

    def number(version):
        return None if version is None else max(version - start, BEFORE)

    return [
        (name, number(added), number(removed), *((n, number(a), number(r)) for n, a, r in vectors if number(r) != -1))
        for name, added, removed, *vectors in files
        if number(removed) != BEFORE
    ]


@pytest.mark.parametrize("history", HISTORIES)
def test_spans_in_the_rest_of_a_history(tmp_path, history):
    table = create(tmp_path)
    files, expected_commits = history(table)
    for start in range(1, table.version + 1):
        for plan in (lifetimes(table, start), lifetimes(table, start - 1, inclusive=False)):
            assert sorted(spans(plan), key=str) == sorted(shifted(files, start), key=str)
            assert [c.id for c in plan.lifetimes.commits] == [version for version, *_ in expected_commits[start:]]


def test_an_end_before_the_latest_version(tmp_path):
    table = create(tmp_path)
    append_and_remove(table)
    plan = lifetimes(table, to=2)
    assert spans(plan) == [("part-00001", 1, None), ("part-00002", 2, None)]
    assert (commits(plan), plan.snapshot) == ([(0, None), (1, 0), (2, 1)], 2)


def test_an_empty_range(tmp_path):
    table = create(tmp_path)
    append_and_remove(table)
    plan = lifetimes(table, 2, 2, inclusive=False)
    assert spans(plan) == [("part-00001", BEFORE, None), ("part-00002", BEFORE, None)]
    assert (commits(plan), plan.snapshot) == ([], 2)


@pytest.mark.parametrize("kept_commits", [[2, 3, 4], [3, 4]])
def test_a_log_that_was_cleaned_up(tmp_path, kept_commits):
    """The range starts with the state of the checkpoint, which has a file with a vector and a removed file."""
    table = create(tmp_path)
    first, second = table.write_data(rows(1, 2)), table.write_data(rows(3))
    table.append(first, second)
    table.commit(remove=[second], add=[table.write_data(rows(4))])
    table.checkpoint()
    table.delete(first, [0])
    table.remove(first)
    table.expire_log(kept_commits[0])
    opened = harness.open_table(str(table.directory), allow_checkpoint_only=True)
    plan = opened._source.lifetimes(ChangeRange(None, None, True, None), None, None)
    assert sorted(spans(plan)) == [("part-00001", BEFORE, 1, (1, 0, 1)), ("part-00003", BEFORE, None)]
    assert commits(plan) == [(3, 0), (4, 1)]


def test_a_log_of_a_checkpoint_alone(tmp_path):
    table = create(tmp_path)
    table.append(table.write_data(rows(1)))
    table.checkpoint()
    table.expire_log(2)
    opened = harness.open_table(str(table.directory), allow_checkpoint_only=True)
    plan = opened._source.lifetimes(ChangeRange(None, None, True, None), None, None)
    assert (spans(plan), commits(plan), plan.snapshot) == ([("part-00001", BEFORE, None)], [], 1)


def moment(seconds: int) -> str:
    return f"timestamp={START + 1000 * seconds}"


@pytest.mark.parametrize(
    ("from_", "to", "inclusive", "versions"),
    [
        pytest.param(moment(10), moment(20), True, [1, 2], id="both-at-commits"),
        pytest.param(moment(11), None, True, [2, 3], id="starts-with-the-next-commit"),
        pytest.param(moment(11), None, False, [2, 3], id="exclusive-starts-after-the-last-commit"),
        pytest.param(moment(20), None, False, [3], id="exclusive-at-a-commit"),
        pytest.param(None, moment(29), True, [0, 1, 2], id="end-rounds-down"),
        pytest.param(None, "2100-01-01", True, [0, 1, 2, 3], id="end-after-the-latest"),
        pytest.param(1, 99, True, [1, 2, 3], id="end-version-after-the-latest"),
        pytest.param(moment(11), moment(12), True, [], id="between-commits"),
    ],
)
def test_ranges(tmp_path, from_, to, inclusive, versions):
    table = create(tmp_path)
    for version in (1, 2, 3):
        table.append(table.write_data(rows(version)), timestamp=START + 10_000 * version)
    plan = lifetimes(table, from_, to, inclusive=inclusive)
    assert [c.id for c in plan.lifetimes.commits] == versions


@pytest.mark.parametrize(
    ("from_", "to", "inclusive", "error", "message"),
    [
        (3, 2, True, harness.RequestError, "starts at version 3, after its end at version 2"),
        (3, 2, False, harness.RequestError, "starts at version 4, after its end at version 2"),
        (9, None, True, harness.RequestError, "after the latest version, 4"),
        (9, None, False, harness.RequestError, "after the latest version, 4"),
        (-1, None, True, harness.RequestError, "from_ is -1"),
        ("main", None, True, harness.RequestError, "no branches or tags"),
        ("2000-01-01", None, False, harness.SnapshotNotFoundError, "oldest readable version, 2"),
        (2, None, True, harness.SnapshotNotFoundError, "Cannot read the rows before version 2: the log holds 2 to 4"),
        (1, None, True, harness.InvalidTableError, "the log lacks the commits of 1"),
        (0, None, False, harness.InvalidTableError, "the log lacks the commits of 1"),
    ],
)
def test_bad_ranges(tmp_path, from_, to, inclusive, error, message):
    table = create(tmp_path)
    for version in range(4):
        table.append(table.write_data(rows(version)), timestamp=START + 10_000 * version)
    table.checkpoint(version=2)
    table.expire_log(2)
    with pytest.raises(error, match=message):
        lifetimes(table, from_, to, inclusive=inclusive)


def test_partition_values_and_filters(tmp_path):
    table = create(tmp_path, {"id": "long", "part": "string"}, partition_columns=["part"])
    first, second = table.write_data(rows(1, 2, part="a")), table.write_data(rows(3, part="b"))
    table.append(first, second)
    table.delete(first, [1])
    table.commit(add=[table.write_data(rows(4, part="c"))], remove=[first, second])
    plan = lifetimes(table)
    assert sorted(spans(plan)) == [("part-00001", 1, 3, (1, 2, 3)), ("part-00002", 1, 3), ("part-00003", 3, None)]
    values = [plan.partitions[place].by_name() for place in plan.files.column("partition").to_pylist()]
    assert values == [{"part": "a"}, {"part": "b"}, {"part": "c"}]
    by_partition = lifetimes(table, where="part = 'a'")
    assert spans(by_partition) == [("part-00001", 1, 3, (1, 2, 3))]
    assert by_partition.filter.sql == "\"part\" = 'a'"
    assert by_partition.lifetimes.commits == plan.lifetimes.commits
    by_statistics = lifetimes(table, where="id >= 3")
    assert [name for name, *_ in spans(by_statistics)] == ["part-00002", "part-00003"]


def test_statistics_of_the_first_action_cover_rows_that_were_deleted_later(tmp_path):
    """A writer may tighten the bounds when it adds a file again with a vector."""
    table = create(tmp_path)
    file = table.write_data(rows(1, 9))
    table.append(file)
    before = replace(file)
    file.set_deletion_vector(table.write_vectors({file: [1]})[file], frozenset([1]))
    file.add["stats"] = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0}}'
    table.commit(add=[file], remove=[before])
    assert spans(lifetimes(table, where="id = 9")) == [("part-00001", 1, None, (1, 2, None))]
    assert spans(lifetimes(table, 2, where="id = 9")) == [("part-00001", BEFORE, None, (1, 0, None))]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_in_the_schema_of_the_end(tmp_path, mode):
    table = create(tmp_path, {"id": "long", "old": "string", "gone": "string"}, column_mapping=mode)
    file = table.write_data(rows(1, old="x", gone="y"))
    table.append(file)
    table.rename_column("old", "new")
    table.drop_column("gone")
    table.remove(file)
    plan = lifetimes(table)
    assert [f.name for f in plan.columns] == ["id", "new"]
    assert spans(plan) == [("part-00001", 1, 4)]
    assert commits(plan) == [(0, None), (1, 0), (2, None), (3, None), (4, 1)]
    assert [f.name for f in lifetimes(table, to=1).columns] == ["id", "old", "gone"]


def test_columns_of_lifetimes_can_be_read(tmp_path):
    table = create(tmp_path)
    table.append(table.write_data(rows(1)))
    names = ("_added_commit", "id", "_removed_commit", "_deleted_by", "_file", "_pos")
    assert tuple(f.name for f in lifetimes(table, columns=names).columns) == names
    with pytest.raises(harness.UnknownColumnError, match="missing"):
        lifetimes(table, columns=("missing",))


def test_row_ids(tmp_path):
    """A file that was removed before row tracking recorded ids has none. Others get theirs from a later action."""
    table = create(tmp_path)
    gone, kept = table.write_data(rows(1)), table.write_data(rows(2, 3))
    table.append(gone, kept)
    table.remove(gone)
    table.set_configuration({"delta.enableRowTracking": "true"})
    kept.add |= {"baseRowId": 10, "defaultRowCommitVersion": 4}
    table.commit(add=[kept], operation="ROW TRACKING BACKFILL", data_change=False)
    plan = lifetimes(table, columns=("_row_id", "_row_commit_version"))
    assert spans(plan) == [("part-00001", 1, 2), ("part-00002", 1, None)]
    assert plan.files.column("first_row_id").to_pylist() == [None, 10]
    assert plan.files.column("commit_version").to_pylist() == [None, 4]
    assert plan.lifetimes.row_ids
    with pytest.raises(harness.RequestError, match="row tracking is not enabled"):
        lifetimes(table, to=2, columns=("_row_id",))


def repartition(table: DeltaTable, **values) -> None:
    table.commit(
        [{"metaData": {**table.document.metadata_action(), "partitionColumns": ["id"]}}],
        remove=table.live_files,
        operation="CREATE OR REPLACE TABLE",
    )


def test_files_with_other_partition_columns_are_refused(tmp_path):
    table = create(tmp_path)
    table.append(table.write_data(rows(1)))
    repartition(table)
    with pytest.raises(harness.RequestError) as caught:
        lifetimes(table)
    assert str(caught.value) == (
        "Cannot show the rows of version 1 in the schema of version 2: the partition columns changed from [] to "
        "['id']; read the versions before and after that change separately [ChangeFeedError; table "
        f"{table.directory}, snapshot 1, file part-00001.parquet, rule delta C11]"
    )
    assert spans(lifetimes(table, 2, inclusive=False)) == []


def test_other_partition_columns_without_files(tmp_path):
    table = create(tmp_path)
    repartition(table)
    assert spans(lifetimes(table)) == []


def test_a_version_that_harness_cannot_read_is_refused(tmp_path):
    table = create(tmp_path)
    table.append(table.write_data(rows(1)))
    protocol = dict(table.document.protocol)
    table.set_protocol({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]})
    table.set_protocol(protocol)
    with pytest.raises(harness.UnsupportedError, match="'x'"):
        lifetimes(table)
    assert commits(lifetimes(table, to=1)) == [(0, None), (1, 0)]


def test_a_file_with_two_vectors_is_refused(tmp_path):
    """delta R3"""
    table = create(tmp_path)
    file = table.write_data(rows(1, 2))
    table.append(file)
    table.commit(add=[{**file.add, "deletionVector": table.write_vectors({file: [0]})[file], "dataChange": True}])
    table.remove(file)
    with pytest.raises(harness.InvalidTableError, match="live with two deletion vectors") as caught:
        lifetimes(table)
    assert caught.value.snapshot == 2


def test_plans_survive_encoding(tmp_path):
    table = create(tmp_path)
    restored_to_a_smaller_vector(table)
    plan = lifetimes(table)
    assert harness.ScanPlan.from_ipc(plan.to_ipc()) == plan.plan


def test_a_column_with_the_name_of_a_column_of_lifetimes_is_refused(tmp_path):
    table = create(tmp_path, {"_Added_Commit": "long"})
    with pytest.raises(harness.InvalidTableError, match="the table has a column '_Added_Commit'"):
        lifetimes(table)


def restored_rows(table):
    """Version 2 deletes the row with id 1, version 3 the row with id 2, and version 4 restores both."""
    file = table.write_data(rows(1, 2, 3, part="a"))
    table.append(file)
    small = replace(file)
    table.delete(file, [0])
    table.delete(file, [1], storage="i")
    table.commit(add=[small], remove=[file], operation="RESTORE")
    table.commit(add=[table.write_data(rows(4, part="b")), table.write_data(rows(1, part="c"))], remove=[small])


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)])
@pytest.mark.parametrize(
    ("from_", "where", "expected"),
    [
        pytest.param(
            None,
            None,
            [
                *[(1, "a", 1, 4, 2), (2, "a", 1, 4, 3), (3, "a", 1, 4, None)],
                *[(1, "a", 4, 5, None), (2, "a", 4, 5, None), (3, "a", 4, 5, None)],
                *[(4, "b", 5, None, None), (1, "c", 5, None, None)],
            ],
            id="all",
        ),
        pytest.param(None, "id = 1 AND part < 'c'", [(1, "a", 1, 4, 2), (1, "a", 4, 5, None)], id="filter"),
        pytest.param(None, "_removed_commit IS NULL AND id > 1", [(4, "b", 5, None, None)], id="filter-of-lifetimes"),
        pytest.param(
            3,
            "part = 'a'",
            [
                *[(1, "a", BEFORE, 1, BEFORE), (2, "a", BEFORE, 1, 0), (3, "a", BEFORE, 1, None)],
                *[(1, "a", 1, 2, None), (2, "a", 1, 2, None), (3, "a", 1, 2, None)],
            ],
            id="part-of-the-history",
        ),
    ],
)
def test_rows(tmp_path, engine, from_, where, expected):
    """Rows are (id, part, added, removed, commit of the first delete)."""
    table = create(tmp_path, {"id": "long", "part": "string"}, partition_columns=["part"])
    restored_rows(table)
    plan = lifetimes(
        table, from_, columns=("id", "part", "_added_commit", "_removed_commit", "_deleted_by"), where=where
    )
    read = PlannedRows(plan).to_arrow(engine=engine).to_pylist()
    found = [tuple(row.values()) for row in read]
    dated = [(*rest, None if number is None else deleting_commit(number)) for *rest, number in found]
    assert sorted(dated, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("operation", ["DELETE", "RESTORE"])
def test_a_larger_vector_that_restores_rows(tmp_path, operation):
    """Only RESTORE may restore rows. In other commits, the vector of the row is lost, and reading the file fails."""
    table = create(tmp_path)
    file = table.write_data(rows(1, 2, 3))
    table.append(file)
    table.delete(file, [0])
    before = replace(file)
    file.set_deletion_vector(table.write_vectors({file: [1, 2]})[file], frozenset([1, 2]))
    table.commit(add=[file], remove=[before], operation=operation)
    read = PlannedRows(lifetimes(table, columns=("id", "_added_commit")))
    if operation == "RESTORE":
        found = sorted(tuple(row.values()) for row in read.to_arrow().to_pylist())
        assert found == [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 3)]
        return
    with pytest.raises(harness.CorruptDeleteError) as caught:
        read.to_arrow()
    assert str(caught.value).startswith(
        "Version 3 replaces a deletion vector of part-00001.parquet, but row 0 is not deleted any more. Read changes "
        "up to the version before it, and from it on [UncoveredDelete; "
    )


def test_deleted_rows_of_renamed_columns_keep_their_row_ids(tmp_path):
    table = create(
        tmp_path,
        {"id": "long", "old": "string"},
        column_mapping="name",
        configuration={"delta.enableRowTracking": "true"},
    )
    file = table.write_data([{"id": 1, "old": "x"}, {"id": 2, "old": "y"}])
    file.add |= {"baseRowId": 10, "defaultRowCommitVersion": 1}
    table.append(file)
    table.delete(file, [0])
    table.rename_column("old", "new")
    columns = ("_row_id", "id", "new", "_removed_commit", "_deleted_by", "_pos")
    read = PlannedRows(lifetimes(table, columns=columns)).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in read) == [
        (10, 1, "x", None, delete_number(2, 0), 0),
        (11, 2, "y", None, None, 1),
    ]


def test_row_ids_that_a_reader_adds_to_the_columns_are_read_from_the_files(tmp_path):
    table = create(tmp_path, configuration={"delta.enableRowTracking": "true"})
    first = table.write_data(rows(1, 2))
    first.add |= {"baseRowId": 10, "defaultRowCommitVersion": 1}
    table.append(first)
    second = table.write_data(rows(2, 3), row_ids=[11, None])
    second.add |= {"baseRowId": 20, "defaultRowCommitVersion": 2}
    table.commit(add=[second], remove=[first], operation="UPDATE")
    plan = lifetimes(table)
    plan = replace(plan, columns=(*plan.columns, METADATA["_row_id"]))
    read = PlannedRows(plan).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in read) == [(1, 10), (2, 11), (2, 11), (3, 21)]
