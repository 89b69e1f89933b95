"""The Delta table builder, judged by pyarrow, pyroaring and values worked out from the protocol by hand."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import struct
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from harness.errors import RequestError
from harness.metadata.model.schema import DateType, FloatType, TimestampType
from harness.testing import demo
from harness.testing import demo as delta_demo
from harness.testing.writing.delta.builder import DeltaTable, corrupt, edited_schema, truncate
from harness.testing.writing.delta.checkpoint import hint_checksum, hint_text
from harness.testing.writing.delta.files import NATIVE_MAGIC, bitmap_bytes, upper_bound
from harness.testing.writing.delta.types import parse_type, schema_json, schema_of
from harness.testing.writing.delta.values import json_text, statistics_text
from harness.testing.writing.places import FIRST_TIMESTAMP_MS

EMPTY_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def commit(table, version=None):
    """(kind, content) of each line of a commit, as on disk."""
    text = table.log.commit_path(table.version if version is None else version).read_text()
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]


def contents(table, kind, version=None):
    return [content for k, content in commit(table, version) if k == kind]


def small(directory, **more):
    return DeltaTable.create(directory / "t", {"id": "long", "s": "string"}, **more)


def filled(directory, **more):
    """A table with one file of the ids 0 to 9, at version 1."""
    table = small(directory, **more)
    f = table.write_data([{"id": i, "s": f"s{i}"} for i in range(10)])
    table.append(f)
    return table, f


def unz85(text):
    """Z85 decoded, from the definition of RFC 32/Z85."""
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    result = b""
    for i in range(0, len(text), 5):
        number = 0
        for c in text[i : i + 5]:
            number = number * 85 + alphabet.index(c)
        result += number.to_bytes(4, "big")
    return result


# -- types and values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["array<int", "map<string>", "struct<a int>", "int, long"])
def test_broken_type_text_is_refused(text):
    with pytest.raises(RequestError, match="Cannot read"):
        parse_type(text)


def test_a_logical_schema_becomes_its_document_again(tmp_path):
    columns = {"a": "struct<x: array<short>>", "b": "map<string, decimal(4,1)>", "c": "timestamp", "d": "void"}
    table = DeltaTable.create(tmp_path / "t", columns, column_mapping="id")
    document = json.loads(contents(table, "metaData")[0]["schemaString"])
    assert schema_json(schema_of(document, mapped=True)) == document


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (TimestampType(utc=True), 1_999_999, "1970-01-01T00:00:01.999Z"),
        (TimestampType(), -1, "1969-12-31T23:59:59.999"),
        (FloatType(64), float("inf"), None),
        (DateType(), 10**9, None),
    ],
    ids=str,
)
def test_bounds_are_cut_to_milliseconds_or_left_out(type_, value, expected):
    assert statistics_text(type_, value) == expected


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


# -- deletion vectors --------------------------------------------------------------------------------------------------


def test_the_inline_sample_of_the_protocol_holds_the_same_roaring_bitmap():
    # The sample's header is of the native format with big-endian numbers, which no writer makes; its bitmap is ours.
    sample = unz85("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")
    native = bitmap_bytes([3, 4, 7, 11, 18, 29], "native")
    assert struct.unpack(">iii", sample[:12]) == struct.unpack("<iii", native[:12]) == (NATIVE_MAGIC, 1, 28)
    assert sample[12:] == native[12:]
    assert list(BitMap.deserialize(native[12:])) == [3, 4, 7, 11, 18, 29]


# -- commits -----------------------------------------------------------------------------------------------------------


def test_the_first_commits_are_as_the_protocol_shows_them(tmp_path):
    table, f = filled(tmp_path)
    assert [kind for kind, _ in commit(table, 0)] == ["commitInfo", "protocol", "metaData"]
    assert contents(table, "protocol", 0) == [EMPTY_PROTOCOL]
    (metadata,) = contents(table, "metaData", 0)
    assert json.loads(metadata.pop("schemaString")) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "s", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
    assert uuid.UUID(metadata.pop("id"))
    assert metadata == {
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": {},
        "createdTime": FIRST_TIMESTAMP_MS,
    }
    (added,) = contents(table, "add", 1)
    assert json.loads(added.pop("stats")) == {
        "numRecords": 10,
        "minValues": {"id": 0, "s": "s0"},
        "maxValues": {"id": 9, "s": "s9"},
        "nullCount": {"id": 0, "s": 0},
        "tightBounds": True,
    }
    assert added == {
        "path": "part-00001.parquet",
        "partitionValues": {},
        "size": f.file.stat().st_size,
        "modificationTime": FIRST_TIMESTAMP_MS + 1000,
        "dataChange": True,
    }


def test_commit_times_are_those_of_the_files(tmp_path):
    table, f = filled(tmp_path)
    table.remove(f, timestamp=1_234_567)
    times = [table.log.commit_path(v).stat().st_mtime_ns // 1_000_000 for v in range(3)]
    assert times == [FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + 1000, 1_234_567]
    assert contents(table, "commitInfo")[0]["timestamp"] == 1_234_567


def test_raw_actions_and_lines_are_written_as_they_are(tmp_path):
    table = small(tmp_path)
    transaction = {"txn": {"appId": "a", "version": 3, "lastUpdated": 5}}
    table.commit([transaction], remove=[{"path": "x"}], raw=["{half"], info=None, version=5)
    text = table.log.commit_path(5).read_text()
    assert text == f'{json_text(transaction)}\n{{"remove":{{"path":"x"}}}}\n{{half\n'


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


# -- data files --------------------------------------------------------------------------------------------------------


def test_rows_of_several_partitions_need_write_partitioned(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "p": "int"}, partition_columns=["p"])
    rows = [{"id": i, "p": i % 2} for i in range(4)]
    with pytest.raises(RequestError) as refused:
        table.write_data(rows)
    assert str(refused.value) == (
        "Cannot tell the partition of the rows: they fall in 2; name it with `partition`, "
        "or use write_partitioned [Request]"
    )
    assert [f.add["partitionValues"] for f in table.write_partitioned(rows)] == [{"p": "0"}, {"p": "1"}]


def test_an_unknown_partition_column_is_refused(tmp_path):
    with pytest.raises(RequestError, match="No partition column x; the table has none"):
        small(tmp_path).write_data([], partition={"x": 1})


def test_an_arrow_table_is_written_as_it_is(tmp_path):
    table = small(tmp_path)
    f = table.write_data(pa.table({"id": pa.array([1, 2], pa.int16()), "other": ["a", "b"]}), recorded="odd%zz")
    assert pq.read_table(f.file).to_pylist() == [{"id": 1, "other": "a"}, {"id": 2, "other": "b"}]
    assert pq.read_schema(f.file).field("id").type == pa.int16()
    assert json.loads(f.add["stats"])["maxValues"] == {"id": 2}
    assert f.path == "odd%zz"


# -- column mapping and schema changes ---------------------------------------------------------------------------------


def test_an_unknown_column_is_refused(tmp_path):
    with pytest.raises(RequestError) as refused:
        small(tmp_path).drop_column("x.y")
    assert str(refused.value) == "No column 'x.y'; the columns are id, s [Request]"


# -- checkpoints, compactions, checksums -------------------------------------------------------------------------------


def busy(directory, **more):
    """Version 4: live are the files 2 (with a vector) and 3; 1 is a tombstone, and 2 without its vector."""
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


def test_a_v2_checkpoint_needs_its_feature(tmp_path):
    with pytest.raises(RequestError) as refused:
        small(tmp_path).checkpoint("v2-json")
    expected = "Cannot write a V2 checkpoint: create the table with features=['v2Checkpoint'] [Request]"
    assert str(refused.value) == expected


def test_the_hint_has_the_checksum_of_the_protocol():
    # Delta, "JSON checksum": the sample and its canonical form.
    sample = (
        '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", '
        '"k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
    )
    assert hint_checksum(sample) == "6a92d155a59bf2eecbd4b4ec7fd1f875"
    canonical = '"a"=1.50,"b"+0=true,"b"+1=null'
    assert hint_checksum('{"b": [true, null], "a": 1.50}') == hashlib.md5(canonical.encode()).hexdigest()
    assert json.loads(hint_text({"version": 1, "checksum": "old"}))["checksum"] == hint_checksum('{"version": 1}')


def test_a_checksum_file_sums_the_version_up(tmp_path):
    table = busy(tmp_path)
    path = table.write_checksum(numFiles=99)
    assert path.name == "00000000000000000004.crc"
    content = json.loads(path.read_text())
    assert (content["numFiles"], content["numDeletedRecordsOpt"], content["numDeletionVectorsOpt"]) == (99, 1, 1)
    assert content["tableSizeBytes"] == sum(f.file.stat().st_size for f in table.live_files)
    assert content["protocol"] == contents(table, "protocol", 0)[0]


# -- unusual and broken tables -----------------------------------------------------------------------------------------


def test_edited_commits_keep_their_times(tmp_path):
    table, _ = filled(tmp_path)
    table.edit_commit(1, lambda actions: actions[1]["add"].pop("size"))
    assert "size" not in contents(table, "add", 1)[0]
    assert table.log.commit_path(1).stat().st_mtime_ns == (FIRST_TIMESTAMP_MS + 1000) * 10**6
    table.edit_commit(0, lambda actions: edited_schema(actions[2]["metaData"], lambda doc: doc["fields"].pop()))
    assert len(json.loads(contents(table, "metaData", 0)[0]["schemaString"])["fields"]) == 1


def test_the_hint_can_be_edited(tmp_path):
    table, _ = filled(tmp_path)
    table.checkpoint()
    table.edit_last_checkpoint(lambda hint: hint.update(version=99))
    hint = json.loads((table.log.directory / "_last_checkpoint").read_text())
    assert hint["version"] == 99
    assert hint["checksum"] != hint_checksum(json.dumps(hint))
    table.write_last_checkpoint("no json")
    assert (table.log.directory / "_last_checkpoint").read_text() == "no json"


def test_moving_cleaning_and_expiring(tmp_path):
    table, f = filled(tmp_path)
    table.append(table.write_data([{"id": 1}]))
    table.remove(f)
    table.checkpoint()
    table.move(tmp_path / "moved")
    assert f.file == tmp_path / "moved" / "part-00001.parquet"
    assert f.file.exists()
    table.vacuum()
    assert [h.file.exists() for h in table.handles] == [False, True]
    table.expire_log(before=3)
    assert sorted(p.name for p in (tmp_path / "moved" / "_delta_log").iterdir()) == [
        "00000000000000000003.checkpoint.parquet",
        "00000000000000000003.json",
        "_last_checkpoint",
    ]


def test_files_can_be_damaged(tmp_path):
    _, f = filled(tmp_path)
    before = f.file.read_bytes()
    corrupt(f.file, -1)
    assert f.file.read_bytes() == before[:-1] + bytes([before[-1] ^ 0xFF])
    truncate(f.file, 4)
    assert f.file.read_bytes() == b"PAR1"


def test_the_same_calls_write_the_same_bytes(tmp_path):
    def content(directory):
        table = busy(directory, features=["v2Checkpoint"], column_mapping="name")
        table.checkpoint("v2-json", sidecars=2, stats_parsed=True)
        table.write_checksum()
        files = (p for p in table.directory.rglob("*") if p.is_file())
        return {str(p.relative_to(directory)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}

    assert content(tmp_path / "a") == content(tmp_path / "b")


# -- the demo ----------------------------------------------------------------------------------------------------------


def test_the_demo_table_holds_what_was_counted_by_hand(tmp_path):
    clicks = demo.build_demo_tables(tmp_path).clicks
    assert (clicks.name, clicks.location) == ("clicks", tmp_path / "clicks")
    assert clicks.metadata_path.is_dir()
    # 8 files of 300 rows; every 7th row of each is dead: 0, 7, ..., 294, which is 43 rows. Both files of "de" lose the
    # rows 100..149 too, 7 of which were dead already. The file of "fr" of the second day goes with its 257 live rows.
    # 2400 - 8 * 43 - 2 * 43 - 257 = 1713, and 400 later ones.
    assert len(clicks.expected) == 2113
    assert list(clicks.expected[0]) == ["id", "market", "day", "page", "at", "score"]
    # 100 later ones each, and: 600 - 86 - 86 for "de", 300 - 43 for "fr", 600 - 86 for the others.
    per_market = {m: sum(row["market"] == m for row in clicks.expected) for m in delta_demo.COUNTRIES}
    assert per_market == {"de": 528, "fr": 357, "São Tomé 50%/#1": 614, None: 614}
