"""The Delta table builder, judged by pyarrow, pyroaring and values worked out from the protocol by hand."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import struct
import uuid
import zlib
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap, BitMap64

from harness.errors import RequestError
from harness.metadata.model.schema import DateType, DecimalType, FloatType, IntegerType, StringType, TimestampType
from harness.testing import demo
from harness.testing import demo as delta_demo
from harness.testing.writing.delta.builder import DeltaTable, corrupt, edited_schema, truncate
from harness.testing.writing.delta.checkpoint import hint_checksum, hint_text
from harness.testing.writing.delta.document import COLUMN_ID, PHYSICAL_NAME
from harness.testing.writing.delta.files import NATIVE_MAGIC, PORTABLE_MAGIC, bitmap_bytes, upper_bound, z85
from harness.testing.writing.delta.types import field_json, parse_type, schema_json, schema_of
from harness.testing.writing.delta.values import encoded_path, folder_name, json_text, partition_text, statistics_text
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


def checkpoint_rows(path):
    """(kind, content) of each row of a Parquet checkpoint, checked to have one kind."""
    rows = []
    for row in pq.read_table(path).to_pylist():
        ((kind, content),) = [(k, v) for k, v in row.items() if v is not None]
        rows.append((kind, content))
    return rows


# -- types and values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", "integer"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("interval", "interval"),
        ("array<int not null>", {"type": "array", "elementType": "integer", "containsNull": False}),
        (
            "map<string, byte>",
            {"type": "map", "keyType": "string", "valueType": "byte", "valueContainsNull": True},
        ),
        (
            "struct<a: int not null>",
            {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": False, "metadata": {}}]},
        ),
        ("struct<>", {"type": "struct", "fields": []}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_type_text_becomes_json(text, expected):
    assert parse_type(text) == (expected, True)


def test_not_null_makes_a_field_required():
    assert field_json("a", "long not null") == {"name": "a", "type": "long", "nullable": False, "metadata": {}}


def test_char_and_varchar_are_strings_with_metadata():
    assert field_json("a", "array<varchar(5)> not null") == {
        "name": "a",
        "type": {"type": "array", "elementType": "string", "containsNull": True},
        "nullable": False,
        "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(5)>"},
    }


@pytest.mark.parametrize("text", ["array<int", "map<string>", "struct<a int>", "int, long"])
def test_broken_type_text_is_refused(text):
    with pytest.raises(RequestError, match="Cannot read"):
        parse_type(text)


def test_a_logical_schema_becomes_its_document_again(tmp_path):
    columns = {"a": "struct<x: array<short>>", "b": "map<string, decimal(4,1)>", "c": "timestamp", "d": "void"}
    table = DeltaTable.create(tmp_path / "t", columns, column_mapping="id")
    document = json.loads(contents(table, "metaData")[0]["schemaString"])
    assert schema_json(schema_of(document, mapped=True)) == document


def test_annotations_mean_nothing_without_column_mapping(tmp_path):
    columns = {"a": "long", "b": "struct<c: int>"}
    stale = {"a": {COLUMN_ID: 7, PHYSICAL_NAME: "x"}, "b.c": {PHYSICAL_NAME: "y"}}
    table = DeltaTable.create(tmp_path / "t", columns, field_metadata=stale)
    f = table.write_data([{"a": 1, "b": {"c": 2}}])
    assert pq.read_table(f.file).to_pylist() == [{"a": 1, "b": {"c": 2}}]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (IntegerType(8), -5, "-5"),
        (FloatType(64), float("nan"), "NaN"),
        (FloatType(64), float("-inf"), "-Infinity"),
        (FloatType(64), -0.0, "-0.0"),
        (DecimalType(9, 2), Decimal("1.50"), "1.50"),
        (DateType(), -1, "1969-12-31"),
        (TimestampType(utc=True), 1_000_001, "1970-01-01 00:00:01.000001"),
        (TimestampType(), -1, "1969-12-31 23:59:59.999999"),
        (StringType(), "", ""),
        (StringType(), None, None),
    ],
    ids=str,
)
def test_partition_values_are_written_as_text(type_, value, expected):
    assert partition_text(type_, value) == expected


def test_booleans_and_bytes_as_partition_values(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"a": "boolean", "b": "binary"}, partition_columns=["b", "a"])
    f = table.write_data([{"a": True, "b": b"\x01x"}], columns=[])
    assert f.add["partitionValues"] == {"b": "\x01x", "a": "true"}


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


def test_json_keeps_the_digits_of_decimals():
    text = json_text({"a": [Decimal("12345678901234567890.10"), 2**60, "ü\n"], "b": None})
    assert text == '{"a":[12345678901234567890.10,1152921504606846976,"ü\\n"],"b":null}'


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


def test_z85_of_the_protocol():
    assert z85(uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61").bytes) == "^-aqEH.-t@S}K{vb[*k^"
    assert z85(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"


def test_the_inline_sample_of_the_protocol_holds_the_same_roaring_bitmap():
    # The sample's header is of the native format with big-endian numbers, which no writer makes; its bitmap is ours.
    sample = unz85("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")
    native = bitmap_bytes([3, 4, 7, 11, 18, 29], "native")
    assert struct.unpack(">iii", sample[:12]) == struct.unpack("<iii", native[:12]) == (NATIVE_MAGIC, 1, 28)
    assert sample[12:] == native[12:]
    assert list(BitMap.deserialize(native[12:])) == [3, 4, 7, 11, 18, 29]


def test_portable_bitmaps_have_sparse_keys_and_native_ones_all():
    positions = [1, 2**33 + 5]
    portable, native = bitmap_bytes(positions, "portable"), bitmap_bytes(positions, "native")
    assert struct.unpack_from("<iqi", portable) == (PORTABLE_MAGIC, 2, 0)
    assert list(BitMap64.deserialize(portable[4:])) == positions
    magic, count, size = struct.unpack_from("<iii", native)
    assert (magic, count) == (NATIVE_MAGIC, 3)
    assert list(BitMap.deserialize(native[12 : 12 + size])) == [1]
    (empty,) = struct.unpack_from("<i", native, 12 + size)
    assert len(BitMap.deserialize(native[16 + size : 16 + size + empty])) == 0


def test_deletion_vectors_of_one_commit_share_a_file(tmp_path):
    table = small(tmp_path, features=["deletionVectors"])
    handles = [table.write_data([{"id": i} for i in range(10)]) for _ in range(2)]
    table.append(*handles)
    assert table.delete_rows({handles[0]: [3], handles[1]: [4, 5]}, prefix="ab") == 2
    vectors = [a["deletionVector"] for a in contents(table, "add")]
    first, second = vectors
    assert first["pathOrInlineDv"] == second["pathOrInlineDv"]
    name = uuid.UUID(bytes=unz85(first["pathOrInlineDv"].removeprefix("ab")))
    content = (table.directory / "ab" / f"deletion_vector_{name}.bin").read_bytes()
    assert content[0] == 1
    assert first["offset"] == 1
    assert second["offset"] == 1 + 8 + first["sizeInBytes"]
    for vector, positions in ((first, [3]), (second, [4, 5])):
        start, size = vector["offset"], vector["sizeInBytes"]
        payload = content[start + 4 : start + 4 + size]
        assert struct.unpack_from(">i", content, start) == (size,)
        assert struct.unpack_from(">I", content, start + 4 + size) == (zlib.crc32(payload),)
        assert list(BitMap64.deserialize(payload[4:])) == positions
        assert vector["cardinality"] == len(positions)
    assert len(content) == second["offset"] + 8 + second["sizeInBytes"]


def test_a_second_delete_replaces_the_vector_with_one_of_all_positions(tmp_path):
    table, f = filled(tmp_path, features=["deletionVectors"])
    table.delete(f, [1, 3])
    first = f.deletion_vector
    table.delete(f, [5], storage="i")
    (removed,), (added,) = contents(table, "remove"), contents(table, "add")
    assert (removed["path"], removed["deletionVector"]) == (added["path"], first)
    inline = added["deletionVector"]
    assert inline == {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000625c8Xg0rri41POJ5",
        "sizeInBytes": 38,
        "cardinality": 3,
    }
    assert list(BitMap64.deserialize(unz85(inline["pathOrInlineDv"])[4:38])) == [1, 3, 5]
    stats = json.loads(added["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (10, False)
    assert table.live_files == (f,)


def test_absolute_deletion_vectors_are_percent_encoded_uris(tmp_path):
    table, f = filled(tmp_path / "a b", features=["deletionVectors"])
    table.delete(f, [0], storage="p")
    path = f.deletion_vector["pathOrInlineDv"]
    assert path.startswith("file:///")
    assert "/a%20b/t/deletion_vector_" in path


def test_the_first_delete_adds_the_feature(tmp_path):
    table, f = filled(tmp_path)
    table.delete(f, [0])
    assert contents(table, "protocol") == [
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
        }
    ]
    table.delete(f, [1])
    assert contents(table, "protocol") == []


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


def test_remove_carries_what_the_add_said(tmp_path):
    table, f = filled(tmp_path)
    table.remove(f, data_change=False)
    assert contents(table, "remove") == [
        {
            "path": "part-00001.parquet",
            "deletionTimestamp": FIRST_TIMESTAMP_MS + 2000,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": f.file.stat().st_size,
        }
    ]
    assert table.live_files == ()


def test_overwrite_removes_every_live_file(tmp_path):
    table, f = filled(tmp_path)
    new = table.write_data([{"id": 1}])
    table.overwrite(new)
    assert [c["path"] for c in contents(table, "remove")] == [f.path]
    assert table.live_files == (new,)


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


def test_rows_are_numbered_where_they_are_tracked(tmp_path):
    table, f = filled(tmp_path, configuration={"delta.enableRowTracking": "true"})
    assert (f.add["baseRowId"], f.add["defaultRowCommitVersion"]) == (0, 1)
    moved = table.write_data([{"id": 3}, {"id": 99}], row_ids=[3, None], row_commit_versions=[1, None])
    table.commit(add=[moved], remove=[f])
    assert contents(table, "add")[0]["baseRowId"] == 10
    assert contents(table, "remove")[0]["baseRowId"] == 0
    assert contents(table, "domainMetadata") == [
        {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":11}', "removed": False}
    ]
    properties = table.document.configuration
    columns = [
        properties["delta.rowTracking.materializedRowIdColumnName"],
        properties["delta.rowTracking.materializedRowCommitVersionColumnName"],
    ]
    assert pq.read_table(moved.file, columns=columns).to_pylist() == [
        {columns[0]: 3, columns[1]: 1},
        {columns[0]: None, columns[1]: None},
    ]
    table.delete(moved, [0])
    assert contents(table, "add")[0]["baseRowId"] == 10
    assert contents(table, "domainMetadata") == []


def test_change_files_hold_the_kind_of_change(tmp_path):
    table, f = filled(tmp_path, configuration={"delta.enableChangeDataFeed": "true"})
    changes = table.write_changes([{"id": 1}, {"id": 2}], ["delete", "insert"])
    table.commit(remove=[f], cdc=[changes])
    assert contents(table, "cdc") == [
        {
            "path": "_change_data/cdc-00002.parquet",
            "partitionValues": {},
            "size": changes.file.stat().st_size,
            "dataChange": False,
        }
    ]
    assert pq.read_table(changes.file).column("_change_type").to_pylist() == ["delete", "insert"]
    assert contents(table, "protocol", 0) == [{"minReaderVersion": 1, "minWriterVersion": 4}]


# -- data files --------------------------------------------------------------------------------------------------------


def test_every_type_has_its_physical_form(tmp_path):
    columns = {
        "by": "byte", "sh": "short", "i": "int", "l": "long", "f": "float", "d": "double", "bo": "boolean",
        "s": "varchar(5)", "bi": "binary", "da": "date", "ts": "timestamp", "tn": "timestamp_ntz",
        "dc": "decimal(38,3)", "st": "struct<v: void, x: int>", "ar": "array<struct<y: short>>",
        "m": "map<string, timestamp>", "vo": "void", "va": "variant",
    }  # fmt: skip
    table = DeltaTable.create(tmp_path / "t", columns)
    moment = dt.datetime(2024, 1, 1, 12, 30, 0, 5, tzinfo=dt.UTC)
    row = {
        "by": 1, "sh": 2, "i": 3, "l": 4, "f": 0.5, "d": 0.25, "bo": True, "s": "abc", "bi": b"\xff",
        "da": dt.date(2024, 1, 1), "ts": moment, "tn": moment.replace(tzinfo=None), "dc": Decimal("-1.125"),
        "st": {"x": 5}, "ar": [{"y": 6}, None], "m": {"k": moment}, "va": {"metadata": b"\x01\0\0", "value": b"\0"},
    }  # fmt: skip
    f = table.write_data([row, {}])
    written = pq.read_table(f.file)
    first, second = written.to_pylist()
    assert first == {**row, "m": [("k", moment)]}
    assert second == dict.fromkeys(row)
    leaves = pq.ParquetFile(f.file).schema
    physical = {leaves.column(i).path: leaves.column(i).physical_type for i in range(len(leaves))}
    assert {physical[c] for c in ("by", "sh", "i", "da")} == {"INT32"}
    assert {physical[c] for c in ("l", "ts", "tn", "m.key_value.value")} == {"INT64"}
    assert "ar.list.element.y" in physical
    assert "vo" not in physical
    assert contents(table, "protocol", 0)[0]["readerFeatures"] == ["timestampNtz", "variantType"]
    stats = json.loads(f.add["stats"])
    assert stats["maxValues"]["ts"] == "2024-01-01T12:30:00.000Z"
    assert '"dc":-1.125' in f.add["stats"]
    assert set(stats["nullCount"]) == set(row)
    assert stats["nullCount"]["st"] == {"x": 1}
    assert not {"bo", "bi", "ar", "m", "va"} & set(stats["minValues"])


def test_statistics_can_be_chosen_or_left_out(tmp_path):
    table = small(tmp_path)
    rows = [{"id": 1, "s": "a"}]
    assert "stats" not in table.write_data(rows, statistics="none").add
    stats = json.loads(table.write_data(rows, statistics=["s"]).add["stats"])
    assert (stats["minValues"], stats["nullCount"]) == ({"s": "a"}, {"s": 0})


def test_nan_is_no_bound(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"d": "double"})
    f = table.write_data([{"d": float("nan")}, {"d": 2.0}, {"d": 1.0}])
    stats = json.loads(f.add["stats"])
    assert (stats["minValues"], stats["maxValues"], stats["nullCount"]) == ({"d": 1.0}, {"d": 2.0}, {"d": 0})


def test_partition_folders_are_escaped_twice_in_the_log(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "p": "string"}, partition_columns=["p"])
    f = table.write_data([{"id": 1, "p": "a b/c%d:e"}])
    assert f.file == table.directory / "p=a b%2Fc%25d%3Ae" / "part-00001.parquet"
    assert f.file.exists()
    assert f.path == "p=a%20b%252Fc%2525d%253Ae/part-00001.parquet"
    assert f.add["partitionValues"] == {"p": "a b/c%d:e"}
    assert pq.read_table(f.file).column_names == ["id"]


def test_null_and_empty_partition_values_share_a_folder():
    assert folder_name("p", None) == folder_name("p", "") == "p=__HIVE_DEFAULT_PARTITION__"


def test_partition_values_can_be_any_text(tmp_path):
    columns = {"id": "long", "p": "decimal(9,2)", "q": "int"}
    table = DeltaTable.create(tmp_path / "t", columns, partition_columns=["q", "p"])
    f = table.write_data([{"id": 1}], partition={"q": 5}, partition_text={"p": "1E+3"}, partition_columns="file")
    assert f.add["partitionValues"] == {"q": "5", "p": "1E+3"}
    assert pq.read_table(f.file).column_names == ["id", "p", "q"]


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


@pytest.mark.parametrize("addressing", ["/", "file:/", "file:///", "file://localhost/"])
def test_absolute_paths_in_all_spellings(tmp_path, addressing):
    table = small(tmp_path / "x y")
    f = table.write_data([], path="a%20b.parquet", addressing=addressing)
    assert f.file == tmp_path / "x y" / "t" / "a%20b.parquet"
    assert f.path == addressing + encoded_path(str(f.file)[1:])
    assert f.path.endswith("/x%20y/t/a%2520b.parquet")


def test_files_outside_the_table_are_recorded_by_uri(tmp_path):
    f = small(tmp_path).write_data([{"id": 1}], path=str(tmp_path / "else" / "f.parquet"))
    assert f.path == f"file://{encoded_path(str(tmp_path))}/else/f.parquet"
    assert f.file.exists()


def test_an_arrow_table_is_written_as_it_is(tmp_path):
    table = small(tmp_path)
    f = table.write_data(pa.table({"id": pa.array([1, 2], pa.int16()), "other": ["a", "b"]}), recorded="odd%zz")
    assert pq.read_table(f.file).to_pylist() == [{"id": 1, "other": "a"}, {"id": 2, "other": "b"}]
    assert pq.read_schema(f.file).field("id").type == pa.int16()
    assert json.loads(f.add["stats"])["maxValues"] == {"id": 2}
    assert f.path == "odd%zz"


# -- column mapping and schema changes ---------------------------------------------------------------------------------


def ids_in(arrow_schema):
    return [int((f.metadata or {}).get(b"PARQUET:field_id", -1)) for f in arrow_schema]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_gives_files_physical_names_and_ids(tmp_path, mode):
    table = DeltaTable.create(
        tmp_path / "t",
        {"id": "long", "p": "int", "st": "struct<x: array<struct<y: int>>>"},
        column_mapping=mode,
        partition_columns=["p"],
    )
    (metadata,) = contents(table, "metaData")
    assert metadata["configuration"] == {
        "delta.columnMapping.mode": mode,
        "delta.columnMapping.maxColumnId": "5",
    }
    assert contents(table, "protocol") == [{"minReaderVersion": 2, "minWriterVersion": 5}]
    first, place, third = json.loads(metadata["schemaString"])["fields"]
    physical = [f["metadata"]["delta.columnMapping.physicalName"] for f in (first, place, third)]
    assert [f["metadata"]["delta.columnMapping.id"] for f in (first, place, third)] == [1, 2, 3]
    assert len({*physical, "id", "p", "st"}) == 6
    f = table.write_data([{"id": 1, "p": 2, "st": {"x": [{"y": 7}]}}])
    assert f.add["partitionValues"] == {physical[1]: "2"}
    assert f.path.startswith(f"{physical[1]}=2/")
    stats = json.loads(f.add["stats"])
    assert list(stats["nullCount"]) == [physical[0], physical[2]]
    written = pq.read_schema(f.file)
    assert (written.names, ids_in(written)) == ([physical[0], physical[2]], [1, 3])
    inner = written.field(1).type
    assert ids_in(inner) == [4]
    element = inner.field(0).type.value_field
    assert ids_in([element]) == [-1]
    assert ids_in(element.type) == [5]


def test_files_may_have_other_names_or_no_ids(tmp_path):
    table = small(tmp_path, column_mapping="id")
    f = table.write_data([{"id": 1, "s": "a"}], names={"id": "s", "s": "id"})
    assert (pq.read_schema(f.file).names, ids_in(pq.read_schema(f.file))) == (["s", "id"], [1, 2])
    assert set(json.loads(f.add["stats"])["nullCount"]) == {c.physical_name for c in table.schema.fields}
    assert ids_in(pq.read_schema(table.write_data([{"id": 1}], field_ids=False).file)) == [-1, -1]


def test_a_column_dropped_and_added_again_has_a_new_physical_name(tmp_path):
    table = small(tmp_path, column_mapping="name", partition_columns=["s"])
    before = {f.name: (f.id, f.physical_name) for f in table.schema.fields}
    table.rename_column("s", "t")
    assert contents(table, "metaData")[0]["partitionColumns"] == ["t"]
    table.drop_column("id")
    table.add_column("id", "long")
    after = {f.name: (f.id, f.physical_name) for f in table.schema.fields}
    assert after["t"] == before["s"]
    assert after["id"][0] == 3
    assert after["id"][1] != before["id"][1]
    assert table.document.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_mapping_turned_on_later_keeps_the_names(tmp_path):
    table = small(tmp_path)
    table.set_column_mapping("name")
    assert [(f.id, f.physical_name) for f in table.schema.fields] == [(1, "id"), (2, "s")]
    assert contents(table, "protocol") == [{"minReaderVersion": 2, "minWriterVersion": 5}]


def test_nested_fields_are_added_and_moved(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"a.b": "int", "st": "array<struct<x: int>>"})
    table.add_column("y", "string", parent="st")
    table.rename_column("st.element.x", "z")
    table.drop_column("a.b")
    table.add_column("last", "int")
    table.move_column("last", 0)
    assert [(f.name, str(f.type)) for f in table.schema.fields] == [
        ("last", "int"),
        ("st", "list<struct<z: int, y: string>>"),
    ]


def test_an_unknown_column_is_refused(tmp_path):
    with pytest.raises(RequestError) as refused:
        small(tmp_path).drop_column("x.y")
    assert str(refused.value) == "No column 'x.y'; the columns are id, s [Request]"


def test_widening_is_noted_in_the_metadata(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"i": "int", "m": "map<short, array<byte>>"})
    old = table.schema
    table.widen_column("i", "long")
    table.widen_column("m.key", "int")
    table.widen_column("m.value.element", "short")
    first, second = json.loads(contents(table, "metaData")[0]["schemaString"])["fields"]
    assert (first["type"], first["metadata"]) == (
        "long",
        {"delta.typeChanges": [{"toType": "long", "fromType": "integer"}]},
    )
    assert second["type"]["keyType"] == "integer"
    assert second["type"]["valueType"]["elementType"] == "short"
    assert second["metadata"]["delta.typeChanges"] == [
        {"toType": "integer", "fromType": "short", "fieldPath": "key"},
        {"toType": "short", "fromType": "byte", "fieldPath": "value.element"},
    ]
    assert contents(table, "protocol", 1)[0]["readerFeatures"] == ["typeWidening"]
    narrow = table.write_data([{"i": 1, "m": {1: [2]}}], schema=old)
    assert pq.read_schema(narrow.file).field("i").type == pa.int32()


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


EXPECTED_KINDS = ["add", "add", "domainMetadata", "metaData", "protocol", "remove", "remove", "txn"]


def test_a_classic_checkpoint_holds_the_reconciled_actions(tmp_path):
    table = busy(tmp_path)
    written = table.checkpoint()
    (path,) = written.files
    assert path.name == "00000000000000000004.checkpoint.parquet"
    rows = checkpoint_rows(path)
    assert sorted(kind for kind, _ in rows) == EXPECTED_KINDS
    by_path = {c["path"]: c for kind, c in rows if kind == "add"}
    second, third = table.live_files
    assert set(by_path) == {second.path, third.path}
    assert by_path[second.path]["deletionVector"]["cardinality"] == 1
    assert by_path[third.path]["partitionValues"] == [(table.schema.fields[1].name, None)]
    assert by_path[second.path]["stats"] == second.add["stats"]
    removed = {(c["path"], c["deletionVector"] is None) for kind, c in rows if kind == "remove"}
    assert removed == {("p=2024-02-29/part-00001.parquet", True), (second.path, True)}
    hint = json.loads((table.log.directory / "_last_checkpoint").read_text())
    assert hint.pop("checksum") == hint_checksum(json.dumps(hint))
    assert hint == {"version": 4, "size": 8, "sizeInBytes": path.stat().st_size, "numOfAddFiles": 2}


def test_parsed_columns_hold_typed_values(tmp_path):
    table = busy(tmp_path, column_mapping="name")
    (path,) = table.checkpoint(stats_json=False, stats_parsed=True, partition_values_parsed=True).files
    adds = {c["path"]: c for kind, c in checkpoint_rows(path) if kind == "add"}
    second, third = table.live_files
    id_, place, number, nested = (f.physical_name for f in table.schema.fields)
    time, tags = (f.physical_name for f in table.schema.fields[3].type.fields)
    add = adds[second.path]
    assert "stats" not in add
    assert add["partitionValues_parsed"] == {place: dt.date(2024, 2, 29)}
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    bounds = {id_: 0, number: Decimal("1.10"), nested: {time: moment}}
    assert add["stats_parsed"] == {
        "numRecords": 5,
        "minValues": bounds,
        "maxValues": {**bounds, id_: 4},
        "nullCount": {id_: 0, number: 0, nested: {time: 0, tags: 5}},
        "tightBounds": False,
    }
    assert adds[third.path]["partitionValues_parsed"] == {place: None}


def test_parts_share_the_actions(tmp_path):
    table = busy(tmp_path)
    written = table.checkpoint("multi-part", parts=3)
    assert [p.name for p in written.files] == [
        f"00000000000000000004.checkpoint.000000000{i}.0000000003.parquet" for i in (1, 2, 3)
    ]
    assert sorted(k for p in written.files for k, _ in checkpoint_rows(p)) == EXPECTED_KINDS
    assert json.loads((table.log.directory / "_last_checkpoint").read_text())["parts"] == 3


@pytest.mark.parametrize("sidecars", [0, 1, 2])
@pytest.mark.parametrize("kind", ["v2-parquet", "v2-json"])
def test_v2_checkpoints_keep_file_actions_in_sidecars_or_inline(tmp_path, kind, sidecars):
    table = busy(tmp_path, features=["v2Checkpoint"])
    written = table.checkpoint(kind, sidecars=sidecars)
    (top,) = written.files
    stem, name, ending = top.name.rsplit(".", 2)
    assert (stem, ending) == ("00000000000000000004.checkpoint", kind.removeprefix("v2-"))
    assert uuid.UUID(name)
    if kind == "v2-json":
        rows = [next(iter(json.loads(line).items())) for line in top.read_text().splitlines()]
    else:
        rows = checkpoint_rows(top)
    assert [c["version"] for k, c in rows if k == "checkpointMetadata"] == [4]
    references = [c for k, c in rows if k == "sidecar"]
    assert [r["path"] for r in references] == [p.name for p in written.sidecars]
    assert [r["sizeInBytes"] for r in references] == [p.stat().st_size for p in written.sidecars]
    assert len(references) == sidecars
    outside = [pair for p in written.sidecars for pair in checkpoint_rows(p)]
    assert {k for k, _ in outside} <= {"add", "remove"}
    kinds = [k for k, _ in (*rows, *outside) if k not in ("checkpointMetadata", "sidecar")]
    assert sorted(kinds) == EXPECTED_KINDS
    assert bool({k for k, _ in rows} & {"add", "remove"}) == (sidecars == 0)


def test_a_v2_checkpoint_may_have_the_name_of_a_classic_one(tmp_path):
    table = busy(tmp_path, features=["v2Checkpoint"])
    (top,) = table.checkpoint("v2-parquet", classic_name=True, hint=False).files
    assert top.name == "00000000000000000004.checkpoint.parquet"
    assert "sidecar" in pq.read_schema(top).names
    assert not (table.log.directory / "_last_checkpoint").exists()


def test_a_v2_checkpoint_needs_its_feature(tmp_path):
    with pytest.raises(RequestError) as refused:
        small(tmp_path).checkpoint("v2-json")
    expected = "Cannot write a V2 checkpoint: create the table with features=['v2Checkpoint'] [Request]"
    assert str(refused.value) == expected


def test_an_older_checkpoint_has_the_state_of_its_version(tmp_path):
    table = busy(tmp_path)
    (path,) = table.checkpoint(version=1).files
    assert sorted(kind for kind, _ in checkpoint_rows(path)) == ["add", "add", "metaData", "protocol"]


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


def test_a_compaction_keeps_tombstones_and_drops_commit_infos(tmp_path):
    table = busy(tmp_path)
    path = table.compact(2, 4)
    assert path.name == "00000000000000000002.00000000000000000004.compacted.json"
    kinds = sorted(next(iter(json.loads(line))) for line in path.read_text().splitlines())
    assert kinds == ["add", "add", "domainMetadata", "remove", "remove", "txn"]


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


def test_any_protocol_can_be_set(tmp_path):
    protocol = {"minReaderVersion": 4, "minWriterVersion": 9}
    table = small(tmp_path, protocol=protocol)
    assert contents(table, "protocol") == [protocol]
    table.set_protocol(EMPTY_PROTOCOL)
    assert contents(table, "protocol") == [EMPTY_PROTOCOL]


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
