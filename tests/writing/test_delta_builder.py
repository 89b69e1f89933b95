"""The Delta table builder, compared with pyarrow, pyroaring, and values derived from the protocol by hand."""

import datetime as dt
import json

import pytest

from harness.errors import RequestError
from harness.writing.delta.builder import DeltaTable, edit_schema
from harness.writing.delta.files import upper_bound
from harness.writing.delta.types import schema_json, schema_of
from harness.writing.local_files import FIRST_TIMESTAMP_MS


def commit(table, version=None):
    """Return (kind, content) of each line of a commit on disk."""
    text = table.log.commit_path(table.version if version is None else version).read_text()
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]


def contents(table, kind, version=None):
    return [content for k, content in commit(table, version) if k == kind]


def small(directory, **more):
    return DeltaTable.create(directory / "t", {"id": "long", "s": "string"}, **more)


def filled(directory, **more):
    """Return a table at version 1 with one file of the ids 0 to 9."""
    table = small(directory, **more)
    f = table.write_data([{"id": i, "s": f"s{i}"} for i in range(10)])
    table.append(f)
    return table, f


def test_a_logical_schema_becomes_its_document_again(tmp_path):
    columns = {"a": "struct<x: array<short>>", "b": "map<string, decimal(4,1)>", "c": "timestamp", "d": "void"}
    table = DeltaTable.create(tmp_path / "t", columns, column_mapping="id")
    document = json.loads(contents(table, "metaData")[0]["schemaString"])
    assert schema_json(schema_of(document, mapped=True)) == document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("a" * 40, "a" * 32 + "\x7f"),
        ("a" * 32 + "ü", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\x7f", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff" + "bc", "a" * 32 + "\U0010ffff\x7f"),
    ],
    ids=["short", "ascii", "beyond ascii", "the filler itself", "greatest last", "greatest first"],
)
def test_cut_upper_bounds_stay_above(text, expected):
    assert upper_bound(text, 32) == expected
    assert expected >= text


def test_in_commit_timestamps_are_first_and_note_their_enablement(tmp_path):
    table = small(tmp_path)
    table.set_configuration({"delta.enableInCommitTimestamps": "true"})
    (kind, info), *_ = commit(table)
    assert (kind, next(iter(info.items()))) == ("commitInfo", ("inCommitTimestamp", FIRST_TIMESTAMP_MS + 1000))
    assert contents(table, "metaData")[0]["configuration"] == {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": str(FIRST_TIMESTAMP_MS + 1000),
    }
    assert contents(table, "protocol")[0]["writerFeatures"] == ["appendOnly", "inCommitTimestamp", "invariants"]
    table.commit(in_commit_timestamp=42)
    assert contents(table, "commitInfo")[0]["inCommitTimestamp"] == 42


def test_rows_of_several_partitions_need_write_partitioned(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "p": "int"}, partition_columns=["p"])
    rows = [{"id": i, "p": i % 2} for i in range(4)]
    with pytest.raises(RequestError) as refused:
        table.write_data(rows)
    assert str(refused.value) == (
        "Cannot determine the partition of the rows: they are in 2 partitions; set `partition`, "
        "or use write_partitioned [Request]"
    )
    assert [f.add["partitionValues"] for f in table.write_partitioned(rows)] == [{"p": "0"}, {"p": "1"}]


def test_an_unknown_partition_column_is_refused(tmp_path):
    with pytest.raises(RequestError, match="No partition column x; the table has none"):
        small(tmp_path).write_data([], partition={"x": 1})


def busy(directory, **more):
    """Return a table at version 4.

    Files 2 (with a vector) and 3 are live; 1, and 2 without its vector, are tombstones.
    """
    columns = {"id": "long", "p": "date", "n": "decimal(9,2)", "st": "struct<ts: timestamp, tags: array<string>>"}
    features = {"deletionVectors", *more.pop("features", ())}
    table = DeltaTable.create(directory / "t", columns, partition_columns=["p"], features=features, **more)
    day = dt.date(2024, 2, 29)
    rows = [{"id": i, "p": day, "n": "1.10", "st": {"ts": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}} for i in range(5)]
    first, second = table.write_data(rows), table.write_data(rows)
    table.append(first, second)
    table.delete(second, [1])
    transaction = {"txn": {"appId": "app", "version": 7}}
    table.commit([transaction], add=[table.write_data([{"id": 9}])], remove=[first], operation="MERGE")
    table.commit([{"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}])
    return table


def test_edited_commits_keep_their_times(tmp_path):
    table, _ = filled(tmp_path)
    table.edit_commit(1, lambda actions: actions[1]["add"].pop("size"))
    assert "size" not in contents(table, "add", 1)[0]
    assert table.log.commit_path(1).stat().st_mtime_ns == (FIRST_TIMESTAMP_MS + 1000) * 10**6
    table.edit_commit(0, lambda actions: edit_schema(actions[2]["metaData"], lambda doc: doc["fields"].pop()))
    assert len(json.loads(contents(table, "metaData", 0)[0]["schemaString"])["fields"]) == 1


def test_the_same_calls_write_the_same_bytes(tmp_path):
    def content(directory):
        table = busy(directory, features=["v2Checkpoint"], column_mapping="name")
        table.checkpoint("v2-json", sidecars=2, stats_parsed=True)
        table.write_checksum()
        files = (p for p in table.directory.rglob("*") if p.is_file())
        return {str(p.relative_to(directory)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}

    assert content(tmp_path / "a") == content(tmp_path / "b")
