"""The change data feed: its rows, its schema, and refused requests (delta C1 to C12)."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.writing.delta.builder import DeltaTable

FEED = {"delta.enableChangeDataFeed": "true"}
SCHEMA = {"id": "long", "part": "string"}
START = 1_704_067_200_000  # 2024-01-01 00:00:00 UTC; each commit follows a millisecond later by default


def create(folder: Path, schema: dict[str, str] = SCHEMA, **more: Any) -> DeltaTable:
    configuration = {**FEED, **more.pop("configuration", {})}
    return DeltaTable.create(folder / "t", schema, configuration=configuration, timestamp=START, **more)


def numbered(*ids: int, part: str = "p") -> list[dict[str, Any]]:
    return [{"id": i, "part": part} for i in ids]


def moment(milliseconds: int) -> str:
    """Return the time that is `seconds` after `START`."""
    return f"timestamp={START + milliseconds}"


def changes(table: DeltaTable, *arguments: Any, **more: Any) -> list[tuple[Any, ...]]:
    """Return (version, change type, id, …) of each change, sorted. Times are tested separately."""
    read = harness.open_table(str(table.directory)).changes(*arguments, **more).to_arrow()
    rows = [{k: v for k, v in row.items() if k != "_commit_timestamp"} for row in read.to_pylist()]
    return sorted((row.pop("_commit_version"), row.pop("_change_type"), *row.values()) for row in rows)


def ids(table: DeltaTable, version: int) -> dict[str, list[int]]:
    """Return the ids that one version changed, by change type."""
    found: dict[str, list[int]] = {}
    for _, kind, key, *_ in changes(table, version, version):
        found.setdefault(kind, []).append(key)
    return found


def test_a_file_removed_twice_in_one_commit_is_refused(tmp_path):
    table = create(tmp_path)
    file = table.write_data(numbered(0, 1))
    table.append(file)
    table.delete(file, [0])
    remove = {"path": file.path, "partitionValues": {}, "dataChange": True}
    table.commit(remove=[file, remove])
    with pytest.raises(harness.InvalidTableError, match="removes a file twice, with two deletion vectors"):
        changes(table, 3)


def test_a_bare_remove_of_an_unknown_file_is_refused(tmp_path):
    """delta C8"""
    table = create(tmp_path)
    table.commit(remove=[{"path": "gone.parquet", "dataChange": True}])
    with pytest.raises(harness.InvalidTableError) as caught:
        changes(table, 1)
    assert str(caught.value) == (
        "Cannot read the changes of version 1: it removes a file without recording its partition values, and "
        f"the previous version does not contain the file [ChangeFeedError; table {table.directory}, snapshot 1, "
        "file gone.parquet, rule delta C8]"
    )


def history(folder: Path, **more: Any) -> DeltaTable:
    """Versions 1 to 3, 10 seconds apart. Each adds one row whose id is the version."""
    table = create(folder, **more)
    for version in (1, 2, 3):
        table.append(table.write_data(numbered(version)), timestamp=START + 10_000 * version)
    return table


@pytest.mark.parametrize("clock", ["files", "in-commit"])
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param((0,), [1, 2, 3], id="from-version"),
        pytest.param((2, 2), [2], id="one-version"),
        pytest.param((2, 99), [2, 3], id="end-is-clamped"),
        pytest.param(("2024-01-01 00:00:10",), [1, 2, 3], id="start-is-inclusive"),
        pytest.param(("2024-01-01 00:00:10.001",), [2, 3], id="start-rounds-up"),
        pytest.param(("2024-01-01 00:00:10.0001",), [2, 3], id="start-finer-than-a-millisecond"),
        pytest.param(("2000-01-01",), [1, 2, 3], id="start-before-the-table"),
        pytest.param((moment(0), moment(20_000)), [1, 2], id="end-is-inclusive"),
        pytest.param((moment(0), moment(19_999)), [1], id="end-rounds-down"),
        pytest.param((moment(0), "2100-01-01"), [1, 2, 3], id="end-time-is-clamped"),
        pytest.param((moment(11_000), moment(12_000)), [], id="between-commits"),
        pytest.param((2, moment(20_000)), [2], id="mixed"),
    ],
)
def test_ranges(tmp_path, clock, bounds, expected):
    """delta C1, C2"""
    ict = {"delta.enableInCommitTimestamps": "true"} if clock == "in-commit" else {}
    table = history(tmp_path, configuration=ict)
    assert [row[2] for row in changes(table, *bounds)] == expected


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((), "without from_: give a version or a time"),
        ((None, 1), "without from_"),
        (("audit",), "from_ is 'audit', and Delta tables have no branches or tags"),
        ((0, "ref=audit"), "to is 'audit', and Delta tables have no branches or tags"),
        ((-1,), "from_ is -1"),
        ((0, -1), "to is -1"),
        ((2, 1), "starts at version 2, after its end at version 1"),
        ((moment(2), moment(1)), "after its end at 2024-01-01T00:00:00.001Z"),
        ((4,), "after the latest version, 3"),
        (("2100-01-01",), "after the latest version, 3"),
    ],
)
def test_bad_ranges(tmp_path, bounds, message):
    """delta C1, C2"""
    table = history(tmp_path)
    with pytest.raises(harness.RequestError, match=message):
        changes(table, *bounds)
    with pytest.raises(harness.SnapshotNotFoundError, match="the oldest readable version, 0"):
        changes(table, 0, "2000-01-01")


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param((4,), id="version-after-latest"),
        pytest.param(("2100-01-01",), id="time-after-latest"),
        pytest.param(("2000-01-01", "2000-01-02"), id="times-before-the-table"),
    ],
)
def test_out_of_range_may_be_empty(tmp_path, bounds):
    """delta C2"""
    table = history(tmp_path)
    read = harness.open_table(str(table.directory)).changes(*bounds, allow_out_of_range=True).to_arrow()
    assert read.num_rows == 0
    assert read.column_names == ["id", "part", "_change_type", "_commit_version", "_commit_timestamp"]


@pytest.mark.parametrize("bounds", [(1, 1), (moment(11_000), moment(12_000))], ids=["version", "times"])
def test_an_empty_range_has_the_columns_of_its_end(tmp_path, bounds):
    """delta C11"""
    table = history(tmp_path)
    table.add_column("later", "long")
    read = harness.open_table(str(table.directory)).changes(*bounds, from_inclusive=False).to_arrow()
    assert (read.num_rows, read.column_names[:2]) == (0, ["id", "part"])
    assert "later" not in read.column_names


@pytest.mark.parametrize("clock", ["files", "in-commit"])
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param((0,), [1, 2, 3], id="version"),
        pytest.param((1, 2), [2], id="two-versions"),
        pytest.param((2, 2), [], id="one-version"),
        pytest.param((3,), [], id="latest-version"),
        pytest.param(("2024-01-01 00:00:10",), [2, 3], id="time-of-a-commit"),
        pytest.param(("2024-01-01 00:00:09.9999",), [1, 2, 3], id="time-finer-than-a-millisecond"),
        pytest.param(("2000-01-01",), [1, 2, 3], id="time-before-the-table"),
        pytest.param((moment(10_000), moment(20_000)), [2], id="two-times"),
        pytest.param((moment(10_000), moment(10_000)), [], id="one-time"),
        pytest.param((moment(30_000),), [], id="latest-time"),
    ],
)
def test_ranges_that_exclude_their_start(tmp_path, clock, bounds, expected):
    ict = {"delta.enableInCommitTimestamps": "true"} if clock == "in-commit" else {}
    table = history(tmp_path, configuration=ict)
    assert [row[2] for row in changes(table, *bounds, from_inclusive=False)] == expected


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((4,), "after the latest version, 3"), ((3, 1), "starts at version 4, after its end at version 1")],
)
def test_bad_ranges_that_exclude_their_start(tmp_path, bounds, message):
    table = history(tmp_path)
    with pytest.raises(harness.RequestError, match=message):
        changes(table, *bounds, from_inclusive=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "net"}, "Invalid option mode='net': a Delta table has a change data feed, which is only read as"),
        ({"mode": "rows"}, "Invalid option mode='rows': expected one of appends, changelog, net, updates"),
        ({"keys": ["id"]}, "Invalid option keys: the change data feed of a Delta table records which rows"),
    ],
)
def test_options_that_delta_does_not_have(tmp_path, options, message):
    table = history(tmp_path)
    with pytest.raises(harness.RequestError, match=message):
        changes(table, 0, **options)


def updated(folder: Path) -> DeltaTable:
    """Versions 1 and 2 insert rows into partitions a and b, 3 deletes id 1, and 4 records an update in a change file.

    The rows of the feed are inserts of 1 and 2 in version 1 and of 3 in version 2, a delete of 1 in version 3, and an
    update of 2 in version 4.
    """
    table = create(folder, {"id": "long", "n": "long", "part": "string"}, partition_columns=["part"])
    a = table.write_data([{"id": 1, "n": 10}, {"id": 2, "n": 20}], partition={"part": "a"})
    table.append(a)
    table.append(table.write_data([{"id": 3, "n": 30}], partition={"part": "b"}))
    table.delete(a, [0])
    change = table.write_changes(
        [{"id": 2, "n": 20}, {"id": 2, "n": 21}],
        ["update_preimage", "update_postimage"],
        partition={"part": "a"},
    )
    table.commit(cdc=[change])
    return table


INSERT_1, INSERT_2 = (1, "insert", 1, 10, "a"), (1, "insert", 2, 20, "a")
INSERT_3, DELETE_1 = (2, "insert", 3, 30, "b"), (3, "delete", 1, 10, "a")
UPDATE_2 = [(4, "update_postimage", 2, 21, "a"), (4, "update_preimage", 2, 20, "a")]


@pytest.mark.parametrize(
    ("where", "expected", "files"),
    [
        ("id = 1", [INSERT_1, DELETE_1], 4),
        ("part = 'b'", [INSERT_3], 1),
        ("_change_type = 'delete'", [DELETE_1], 2),
        ("_change_type LIKE 'update%'", UPDATE_2, 1),
        ("_change_type IS NULL", [], 1),
        ("_commit_version > 2 AND n >= 20", UPDATE_2, 2),
        ("_commit_version = 4 OR part = 'b'", [INSERT_3, *UPDATE_2], 2),
        ("_commit_timestamp < TIMESTAMPTZ '2024-01-01 00:00:00.002+00'", [INSERT_1, INSERT_2], 1),
        ("n % 20 = 1", UPDATE_2[:1], 4),
        ("_pos = 1 AND _change_type = 'insert'", [INSERT_2], 3),
        ("false", [], 0),
    ],
)
def test_a_filter_selects_changes(tmp_path, where, expected, files):
    table = updated(tmp_path)
    assert changes(table, 0, where=where) == expected
    plan = harness.open_table(str(table.directory)).changes(0, where=where).plan
    assert (plan.files.num_rows, len(plan.skipped)) == (files, 4 - files)
    plan = harness.open_table(str(table.directory), prune="off").changes(0, where=where).plan
    assert (plan.files.num_rows, len(plan.skipped)) == (4, 0)


def test_a_filter_and_its_result_may_use_different_columns(tmp_path):
    feed = harness.open_table(str(updated(tmp_path).directory)).changes(0, columns=["id"], where="_commit_version = 3")
    assert feed.to_arrow().to_pydict() == {"id": [1]}


def test_a_filter_may_not_use_columns_that_a_feed_does_not_have(tmp_path):
    with pytest.raises(harness.UnknownColumnError, match="_row_id"):
        harness.open_table(str(updated(tmp_path).directory)).changes(0, where="_row_id = 1")


def test_changes_describe_themselves(tmp_path):
    table = history(tmp_path)
    feed = harness.open_table(str(table.directory)).changes(1, 2, where="_commit_version = 2")
    assert repr(feed) == (
        f"Changes({str(table.directory)!r}, format='delta', from_=1, to=2, from_inclusive=True, mode='changelog', "
        "files=1, skipped=1)"
    )
    page = feed._repr_html_()
    assert "from: <code>1 (included)</code>" in page
    assert "_commit_timestamp" in page


def test_cleaned_up_versions_are_refused(tmp_path):
    """A range that may have lost commits returns no rows at all (delta C2)."""
    table = history(tmp_path)
    table.checkpoint(version=2)
    table.expire_log(2)
    assert [row[2] for row in changes(table, 2)] == [2, 3]
    assert [row[2] for row in changes(table, moment(20_000))] == [2, 3]
    with pytest.raises(harness.InvalidTableError, match="lacks the commits of 1"):
        changes(table, 1)
    with pytest.raises(harness.SnapshotNotFoundError, match="the oldest readable version, 2"):
        changes(table, moment(0))


def test_a_column_with_the_name_of_a_feed_column_is_refused(tmp_path):
    """delta C10"""
    table = create(tmp_path, {"id": "long", "_Commit_Version": "long"})
    with pytest.raises(harness.InvalidTableError, match="has a column '_Commit_Version'"):
        changes(table, 0)


@pytest.mark.parametrize(
    ("evolve", "reason"),
    [
        pytest.param(lambda t: t.rename_column("s.a", "b"), "column s.a was renamed to s.b", id="nested-renamed"),
        pytest.param(lambda t: t.drop_column("n"), "column n was dropped or renamed", id="dropped"),
        pytest.param(lambda t: t.widen_column("n", "long"), "column n changed from int to long", id="widened"),
    ],
)
def test_other_schema_changes_are_refused(tmp_path, evolve, reason):
    """delta C11"""
    schema = {"id": "long", "n": "int", "s": "struct<a: int>"}
    table = create(tmp_path, schema, column_mapping="name")
    table.append(table.write_data([{"id": 1, "n": 1, "s": {"a": 1}}]))
    evolve(table)
    with pytest.raises(harness.RequestError, match=f"changes of version 1 in the schema of version 2: {reason}"):
        changes(table, 1)
    assert len(changes(table, 1, 1)) == 1  # Both sides of the change can be read.
    assert changes(table, 2) == []


def test_changed_partitioning_is_refused(tmp_path):
    """delta C11"""
    table = create(tmp_path)
    table.append(table.write_data(numbered(1)))
    table.change("WRITE", lambda document: document.metadata.update(partitionColumns=["part"]))
    with pytest.raises(harness.RequestError, match=r"partition columns changed from \[\] to \['part'\]"):
        changes(table, 1)


@pytest.mark.parametrize("column", ["_row_id", "_deleted", "nothing"])
def test_columns_that_a_feed_does_not_have(tmp_path, column):
    """delta C12"""
    with pytest.raises(harness.UnknownColumnError, match=column):
        harness.open_table(str(history(tmp_path).directory)).changes(1, columns=[column])


def test_duckdb_and_arrow_streams(tmp_path):
    table = history(tmp_path)
    feed = harness.open_table(str(table.directory)).changes(0)
    with duckdb.connect() as connection:
        relation = feed.to_duckdb(connection, name="feed")
        assert relation.filter("id > 1").aggregate("count(*)").fetchall() == [(2,)]
        assert connection.sql("SELECT max(_commit_version) FROM feed").fetchall() == [(3,)]
    assert pa.table(feed).num_rows == 3
    assert feed.plan.files.num_rows == 3


def test_an_empty_range_in_sql_has_the_columns_of_its_end(tmp_path):
    table = create(tmp_path, column_mapping="name")
    table.append(table.write_data(numbered(1)))
    table.rename_column("part", "region")
    opened = harness.open_table(str(table.directory))
    read = harness.sql("SELECT part FROM changes('t', 1, 1, from_inclusive := false)", {"t": opened})
    assert (read.columns, read.fetchall()) == (["part"], [])
