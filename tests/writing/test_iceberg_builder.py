"""The table builder, judged by other readers (fastavro, pyarrow) and by values worked out from the specification."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import struct
import uuid
import zlib
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from harness.errors import RequestError
from harness.metadata.model.schema import DateType, DecimalType, IntegerType, StringType, TimestampType, UuidType
from harness.testing import demo
from harness.testing.writing.iceberg.builder import FIRST_SNAPSHOT_ID, IcebergTable, corrupt, truncate
from harness.testing.writing.iceberg.document import murmur3, transform_value
from harness.testing.writing.iceberg.types import (
    bound_bytes,
    default_json,
    minimal_bytes,
    parse_type,
    schema_of,
    stored,
    type_json,
)


def metadata(table):
    return json.loads(table.metadata_path.read_text())


def avro(path):
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        return reader.metadata, list(reader)


def listed(table):
    """The current manifest list as fastavro reads it."""
    return avro(table.file_of(table.document.snapshot(table.snapshot_id)["manifest-list"]))[1]


def entries(table):
    """(content, status, sequence number, last part of the path) of every entry of the current snapshot, as on disk."""
    found = []
    for manifest in listed(table):
        for entry in avro(table.file_of(manifest["manifest_path"]))[1]:
            name = entry["data_file"]["file_path"].rsplit("/", 1)[1]
            found.append((entry["data_file"].get("content", 0), entry["status"], entry.get("sequence_number"), name))
    return found


def small(directory, version=2, **more):
    return IcebergTable.create(directory / "t", {"id": "long", "s": "string"}, format_version=version, **more)


# -- types and values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "int", "long", "decimal(9, 2)", "fixed[16]", "timestamptz_ns", "geometry(EPSG:4326)",
        "geography(OGC:CRS84, vincenty)", "list<int>", "map<string, list<decimal(3, 0)>>",
        "struct<a: int, b: struct<c: string>>", "interval",
    ],
)  # fmt: skip
def test_type_text_is_read_as_it_is_written(text):
    type_, required = parse_type(text)
    assert (type_json(type_, {}) if text == "fixed[16]" else str(type_), required) == (text, False)


def test_required_is_spelled_not_null_at_every_level():
    type_, required = parse_type("list<struct<a: int not null> not null> not null")
    assert (required, type_.element.required, type_.element.type.fields[0].required) == (True, True, True)


@pytest.mark.parametrize("text", ["list<int", "map<string>", "struct<a int>", "int, long"])
def test_broken_type_text_is_refused(text):
    with pytest.raises(RequestError, match="Cannot read"):
        parse_type(text)


def test_ids_count_a_level_before_its_children():
    schema = schema_of({"a": "struct<x: list<int>, y: int>", "b": "map<string, int>"})
    ids = {".".join(path): f.id for path, f in schema.walk()}
    assert ids == {"a": 1, "b": 2, "a.x": 3, "a.y": 4, "a.x.element": 5, "b.key": 6, "b.value": 7}


@pytest.mark.parametrize(
    ("type_text", "value", "expected"),
    [
        ("date", dt.date(1969, 12, 31), -1),
        ("date", 4_000_000, 4_000_000),
        ("time", dt.time(0, 0, 1, 5), 1_000_005),
        ("timestamp", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        ("timestamptz", dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        ("timestamp_ns", dt.datetime(1970, 1, 1, 0, 0, 0, 1), 1000),
        ("decimal(38, 2)", "1" * 36, Decimal("1" * 36 + ".00")),
        ("uuid", uuid.UUID(int=1), bytes(15) + b"\x01"),
        ("struct<a: int, b: int>", {"b": 2}, {0: 2}),
        ("map<string, int>", {"k": 1}, [("k", 1)]),
    ],
    ids=lambda v: str(v)[:30],
)
def test_natural_values_become_stored_values(type_text, value, expected):
    assert stored(parse_type(type_text)[0], value) == expected


@pytest.mark.parametrize(
    ("type_text", "value"),
    [("decimal(9, 2)", "1.005"), ("fixed[2]", b"abc"), ("struct<a: int>", {"b": 1}), ("uuid", "no")],
)
def test_a_value_that_does_not_fit_is_refused(type_text, value):
    with pytest.raises(RequestError, match="Cannot store"):
        stored(parse_type(type_text)[0], value)


@pytest.mark.parametrize(
    ("type_text", "value", "expected"),
    [
        ("boolean", True, "01"),
        ("int", -2, "feffffff"),
        ("date", 1, "01000000"),
        ("long", 1, "0100000000000000"),
        ("timestamptz", -1, "ffffffffffffffff"),
        ("float", 1.0, "0000803f"),
        ("double", -0.0, "0000000000000080"),
        ("decimal(9, 2)", Decimal("1.28"), "0080"),
        ("decimal(9, 2)", Decimal("-1.28"), "80"),
        ("string", "é", "c3a9"),
        ("uuid", bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
    ],
)
def test_bounds_have_the_single_value_form_of_rule_3_22(type_text, value, expected):
    assert bound_bytes(parse_type(type_text)[0], value).hex() == expected


@pytest.mark.parametrize(
    ("type_text", "value", "expected"),
    [
        ("decimal(9, 2)", Decimal("14.20"), "14.20"),
        ("date", 17_120, "2016-11-15"),
        ("date", 2_932_897, "+10000-01-01"),
        ("date", -719_529, "-0001-12-31"),
        ("date", -719_528, "0000-01-01"),
        ("time", 1, "00:00:00.000001"),
        ("timestamp", 1, "1970-01-01T00:00:00.000001"),
        ("timestamptz", 0, "1970-01-01T00:00:00.000000+00:00"),
        ("timestamp", 253_402_300_800_000_001, "+10000-01-01T00:00:00.000001"),
        ("timestamp_ns", -1, "1969-12-31T23:59:59.999999999"),
        ("binary", b"\x00\xff", "00ff"),
    ],
)
def test_defaults_have_the_json_form_of_rule_5_15(type_text, value, expected):
    assert default_json(parse_type(type_text)[0], value) == expected


# -- transforms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ((34).to_bytes(8, "little"), 2017239379),
        (b"iceberg", 1210000089),
        (minimal_bytes(1420), -500754589),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        (bytes([0, 1, 2, 3]), -188683207),
        ((17486).to_bytes(8, "little"), -653330422),
    ],
    ids=["int", "string", "decimal", "uuid", "binary", "date"],
)
def test_murmur3_gives_the_vectors_of_rule_3_11(data, expected):
    assert murmur3(data) == expected


LAST_MICRO_OF_1969 = -1


@pytest.mark.parametrize(
    ("transform", "type_", "value", "expected"),
    [
        ("identity", StringType(), "x", "x"),
        ("void", StringType(), "x", None),
        ("bucket[100]", IntegerType(32), 34, 2017239379 % 100),
        ("bucket[100]", DecimalType(9, 2), Decimal("14.20"), (-500754589 & 0x7FFFFFFF) % 100),
        ("bucket[100]", UuidType(), None, None),
        ("truncate[10]", IntegerType(32), -1, -10),
        ("truncate[10]", DecimalType(9, 2), Decimal("-0.05"), Decimal("-0.10")),
        ("truncate[9]", DecimalType(38, 10), Decimal("9" * 28 + "." + "9" * 10), Decimal("9" * 28 + "." + "9" * 10)),
        ("truncate[2]", StringType(), "\U0001f600ab", "\U0001f600a"),
        ("year", DateType(), -1, -1),
        ("month", DateType(), 59, 2),
        ("day", TimestampType(), LAST_MICRO_OF_1969, -1),
        ("hour", TimestampType(), LAST_MICRO_OF_1969, -1),
        ("month", TimestampType("ns"), 31 * 86_400 * 10**9, 1),
        ("year", DateType(), 2_932_897, 8030),
    ],
)
def test_transforms_follow_rules_3_11_to_3_13(transform, type_, value, expected):
    assert transform_value(transform, type_, value) == expected


def test_an_unknown_transform_needs_an_explicit_partition(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "zorder[3]")])
    with pytest.raises(RequestError, match="name the partition value in `partition`"):
        table.write_data([{"id": 1, "s": "a"}])
    assert table.write_data([{"id": 1}], partition={"s_zorder": "q"}).data_file["partition"] == {"s_zorder": "q"}


# -- data files --------------------------------------------------------------------------------------------------------

WIDE = {
    "b": "boolean", "i": "int", "l": "long", "f": "float", "d": "double", "dec": "decimal(38, 10)", "day": "date",
    "t": "time", "ts": "timestamp", "tz": "timestamptz", "s": "string", "u": "uuid", "x": "fixed[2]", "bin": "binary",
    "li": "list<int>", "m": "map<string, long>", "mi": "map<int, struct<q: int>>",
    "st": "struct<a: int not null, in: struct<c: string>>",
}  # fmt: skip
WIDE_ROW = {
    "b": True, "i": -1, "l": 2**62, "f": 0.5, "d": 1e300, "dec": Decimal("-1234567890123456789.0123456789"),
    "day": dt.date(1900, 1, 1), "t": dt.time(23, 59, 59, 999_999), "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "tz": dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "s": "a\0é", "u": uuid.UUID(int=7), "x": b"\x00\xff", "bin": b"",
    "li": [1, None], "m": {"k": None}, "mi": [(1, {"q": 2})], "st": {"a": 1, "in": {"c": None}},
}  # fmt: skip
NULL_ROW = dict.fromkeys(WIDE)


def test_parquet_holds_every_type_with_null_rows(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    handle = table.write_data([WIDE_ROW, NULL_ROW])
    first, second = pq.ParquetFile(handle.file).read().to_pylist()
    assert first == {**WIDE_ROW, "m": [("k", None)], "mi": [(1, {"q": 2})]}
    assert second == NULL_ROW


def test_parquet_carries_ids_at_every_level(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    text = str(pq.ParquetFile(table.write_data([WIDE_ROW]).file).schema)
    for name, id_ in {".".join(path): f.id for path, f in table.schema.walk()}.items():
        assert f"field_id={id_} {name.rsplit('.', 1)[-1]}" in text
    assert "fixed_len_byte_array(16) field_id=12 u (UUID)" in text


def test_parquet_without_ids_has_none(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    handle = table.write_data([WIDE_ROW], field_ids=False)
    text = str(pq.ParquetFile(handle.file).schema)
    assert {word for word in text.split() if word.startswith("field_id=")} == {"field_id=-1"}
    assert handle.data_file["column_sizes"] is None


def test_avro_holds_every_type_and_ids(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    header, (row, nulls) = avro(table.write_data([WIDE_ROW, NULL_ROW], format="avro").file)
    assert row["dec"] == WIDE_ROW["dec"]
    assert (row["day"], row["u"], row["m"], row["mi"]) == (
        WIDE_ROW["day"], uuid.UUID(int=7).bytes, {"k": None}, [{"key": 1, "value": {"q": 2}}],
    )  # fmt: skip
    assert nulls == NULL_ROW
    by_name = {f["name"]: f for f in json.loads(header["avro.schema"])["fields"]}
    assert [f["field-id"] for f in by_name.values()] == list(range(1, 19))
    assert by_name["li"]["type"][1]["element-id"] == table.schema.fields[14].type.element.id


def test_orc_carries_iceberg_attributes(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    schema = orc.ORCFile(table.write_data([WIDE_ROW, NULL_ROW], format="orc").file).schema
    assert schema.field("u").metadata == {
        b"iceberg.id": b"12", b"iceberg.required": b"false", b"iceberg.binary-type": b"UUID",
    }  # fmt: skip
    assert schema.field("t").metadata[b"iceberg.long-type"] == b"TIME"
    assert schema.field("li").type.value_field.metadata[b"iceberg.id"] == b"19"


def test_a_required_child_of_a_null_struct_is_not_seen(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"st": "struct<a: int not null, b: list<int> not null>"})
    handle = table.write_data([{"st": None}, {"st": {"a": 1, "b": []}}])
    assert pq.ParquetFile(handle.file).read().to_pylist() == [{"st": None}, {"st": {"a": 1, "b": []}}]


def test_null_in_a_required_column_is_refused(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long not null"})
    with pytest.raises(RequestError) as caught:
        table.write_data([{}])
    assert str(caught.value) == (
        "Cannot write null into the required field 'id'; make it optional or give a value [Request; field id]"
    )


def test_physical_names_subset_and_row_groups(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "st": "struct<a: int>", "s": "string"})
    rows = [{"id": i, "st": {"a": i}} for i in range(5)]
    handle = table.write_data(rows, columns=["st", "id"], names={"st.a": "A!", "id": "ID"}, row_group_size=2)
    file = pq.ParquetFile(handle.file)
    assert (file.schema_arrow.names, file.schema_arrow.field("st").type[0].name) == (["st", "ID"], "A!")
    assert (file.num_row_groups, len(handle.data_file["split_offsets"])) == (3, 3)


def test_another_schema_gives_other_physical_types(tmp_path):
    table = small(tmp_path)
    old = schema_of({"id": "int"})
    handle = table.write_data([{"id": 1}], schema=old)
    assert pq.ParquetFile(handle.file).schema_arrow.field("id").type == pa.int32()
    assert {"key": 1, "value": b"\x01\0\0\0"} in handle.data_file["lower_bounds"]


def test_an_arrow_table_is_written_as_it_is(tmp_path):
    table = small(tmp_path)
    handle = table.write_data(pa.table({"id": pa.array([1], pa.int32()), "more": ["x"]}))
    schema = pq.ParquetFile(handle.file).schema_arrow
    assert schema.field("id").metadata == {b"PARQUET:field_id": b"1"}
    assert (schema.field("id").type, schema.field("more").metadata) == (pa.int32(), None)


def test_statistics_count_nulls_and_nan_and_bound_the_rest(tmp_path):
    table = IcebergTable.create(
        tmp_path / "t", {"d": "double", "s": "string", "st": "struct<a: int>", "l": "list<int>"}
    )
    rows = [{"d": float("nan")}, {"d": 0.0, "s": "b", "st": {"a": 3}, "l": [1, None]}, {"d": -2.5, "s": "abcdef"}]
    facts = table.write_data(rows, bounds_length=2).data_file
    as_dict = {name: {e["key"]: e["value"] for e in facts[name]} for name in (
        "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
    )}  # fmt: skip
    assert as_dict == {
        "value_counts": {1: 3, 2: 3, 5: 3, 6: 2},
        "null_value_counts": {1: 0, 2: 1, 5: 2, 6: 1},
        "nan_value_counts": {1: 1},
        "lower_bounds": {1: struct.pack("<d", -2.5), 2: b"ab", 5: b"\x03\0\0\0"},
        "upper_bounds": {1: struct.pack("<d", 0.0), 2: b"b", 5: b"\x03\0\0\0"},
    }


def test_zero_bounds_are_widened_to_both_zeros(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"d": "double"})
    facts = table.write_data([{"d": 0.0}]).data_file
    assert facts["lower_bounds"][0]["value"] == struct.pack("<d", -0.0)
    assert table.write_data([{"d": -0.0}]).data_file["upper_bounds"][0]["value"] == struct.pack("<d", 0.0)


@pytest.mark.parametrize(("value", "expected"), [("ab\U0010ffff\U0010ffffz", b"ac"), ("\U0010ffff" * 5, None)])
def test_upper_bounds_are_cut_upward(tmp_path, value, expected):
    facts = small(tmp_path).write_data([{"s": value}], bounds_length=4).data_file
    found = {e["key"]: e["value"] for e in facts["upper_bounds"] or ()}
    assert found.get(2) == expected


def test_statistics_can_be_left_out(tmp_path):
    facts = small(tmp_path).write_data([{"id": 1}], statistics=()).data_file
    assert (facts["value_counts"], facts["lower_bounds"]) == (None, None)


# -- partitions --------------------------------------------------------------------------------------------------------


def test_partitions_are_computed_grouped_and_named(tmp_path):
    spec = [("s", "identity"), ("id", "bucket[4]", "b")]
    table = small(tmp_path, partition_spec=spec)
    one, two = table.write_partitioned([{"id": 34, "s": "a/b"}, {"id": 34, "s": None}, {"id": 34, "s": "a/b"}])
    assert (one.record_count, one.data_file["partition"]) == (2, {"s": "a/b", "b": 2017239379 % 4})
    assert one.path.endswith("/data/s=a%2Fb/b=3/00001.parquet")
    assert two.data_file["partition"] == {"s": None, "b": 3}


def test_rows_of_several_partitions_are_refused(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "identity")])
    with pytest.raises(RequestError, match="they fall in 2; name it with `partition`, or use write_partitioned"):
        table.write_data([{"s": "a"}, {"s": "b"}])


def test_partition_summaries_bound_the_tuples(tmp_path):
    table = IcebergTable.create(
        tmp_path / "t", {"f": "float", "s": "string"}, partition_spec=[("f", "identity"), ("s", "void")]
    )
    table.append(*table.write_partitioned([{"f": float("nan")}, {"f": 2.0}, {"f": -0.0}]))
    assert listed(table)[0]["partitions"] == [
        {
            "contains_null": False, "contains_nan": True,
            "lower_bound": struct.pack("<f", -0.0), "upper_bound": struct.pack("<f", 2.0),
        },
        {"contains_null": True, "contains_nan": None, "lower_bound": None, "upper_bound": None},
    ]  # fmt: skip


def test_partition_field_ids_are_kept_across_specs(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "identity")])
    table.set_partition_spec([("id", "bucket[2]"), ("s", "identity")])
    specs = metadata(table)["partition-specs"]
    assert [[(f["field-id"], f["name"]) for f in s["fields"]] for s in specs] == [
        [(1000, "s")],
        [(1001, "id_bucket"), (1000, "s")],
    ]
    assert metadata(table)["last-partition-id"] == 1001


# -- deletes -----------------------------------------------------------------------------------------------------------


def test_position_deletes_are_sorted_and_carry_the_reserved_ids(tmp_path):
    table = small(tmp_path)
    f, g = table.write_data([{"id": 1}] * 3), table.write_data([{"id": 2}] * 3)
    handle = table.write_position_deletes([(g, 1), (f, 2), (f, 0)], referenced=f)
    file = pq.ParquetFile(handle.file)
    assert [file.schema_arrow.field(n).metadata[b"PARQUET:field_id"] for n in ("file_path", "pos")] == [
        b"2147483546",
        b"2147483545",
    ]
    assert [tuple(r.values()) for r in file.read().to_pylist()] == [(f.path, 0), (f.path, 2), (g.path, 1)]
    assert (handle.content, handle.data_file["referenced_data_file"]) == (1, f.path)


def test_position_deletes_take_the_partition_of_their_data_files(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "identity")])
    f, g = table.write_partitioned([{"s": "a"}, {"s": "b"}])
    assert table.write_position_deletes([(f, 0)]).data_file["partition"] == {"s": "a"}
    with pytest.raises(RequestError, match="one delete file per partition"):
        table.write_position_deletes([(f, 0), (g, 0)])


def test_equality_deletes_hold_only_their_columns(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long not null", "st": "struct<a: int, b: int>", "s": "string"})
    handle = table.write_equality_deletes(["st.a", "id"], [{"id": None, "st": {"a": 1}}], extra_columns=["s"])
    assert handle.data_file["equality_ids"] == [4, 1]
    assert pq.ParquetFile(handle.file).read().to_pylist() == [{"id": None, "st": {"a": 1}, "s": None}]


def test_deletion_vectors_share_one_puffin_file(tmp_path):
    table = small(tmp_path, version=3)
    f, g = table.write_data([{"id": 1}] * 9), table.write_data([{"id": 2}] * 9)
    one, two = table.write_deletion_vectors({f: [0, 2], g: [2**33]})
    content = one.file.read_bytes()
    assert (one.path, one.record_count, two.data_file["referenced_data_file"]) == (two.path, 2, g.path)
    start, size = two.data_file["content_offset"], two.data_file["content_size_in_bytes"]
    blob = content[start : start + size]
    assert struct.unpack(">I", blob[:4])[0] == size - 8
    assert (blob[4:8].hex(), list(BitMap64.deserialize(blob[8:-4]))) == ("d1d33964", [2**33])
    assert struct.unpack(">I", blob[-4:])[0] == zlib.crc32(blob[4:-4])
    length = struct.unpack("<i", content[-12:-8])[0]
    footer = json.loads(content[-12 - length : -12])
    assert (content[:4], content[-4:], content[-8:-4]) == (b"PFA1", b"PFA1", bytes(4))
    assert footer["blobs"][1]["properties"] == {"referenced-data-file": g.path, "cardinality": "1"}
    assert footer["blobs"][1]["offset"] == start


# -- commits -----------------------------------------------------------------------------------------------------------


def test_added_files_inherit_and_carried_files_are_explicit(tmp_path):
    table = small(tmp_path)
    f, g = (table.write_data([{"id": i}]) for i in range(2))
    table.append(f, g)
    assert entries(table) == [(0, 1, None, "00001.parquet"), (0, 1, None, "00002.parquet")]
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}])], remove=[f])
    assert entries(table) == [
        (0, 2, 1, "00001.parquet"),
        (0, 0, 1, "00002.parquet"),
        (2, 1, None, "00003-deletes.parquet"),
    ]
    assert [(m["content"], m["sequence_number"], m["min_sequence_number"]) for m in listed(table)] == [
        (0, 2, 1),
        (1, 2, 2),
    ]
    table.append(table.write_data([{"id": 5}]))
    table.commit(manifests="merge", operation="replace")
    assert entries(table) == [
        (0, 0, 3, "00004.parquet"), (0, 0, 1, "00002.parquet"), (2, 0, 2, "00003-deletes.parquet"),
    ]  # fmt: skip


def test_a_compacted_file_can_take_an_older_data_sequence_number(tmp_path):
    table = small(tmp_path)
    table.append(old := table.write_data([{"id": 1}]))
    table.commit(add=[table.write_data([{"id": 1}])], remove=[old], operation="replace", sequence_number=1)
    assert entries(table)[0] == (0, 1, 1, "00002.parquet")
    assert table.snapshots[-1]["summary"]["operation"] == "replace"


def test_removing_a_file_that_is_not_live_is_refused(tmp_path):
    table = small(tmp_path)
    table.append(f := table.write_data([{"id": 1}]))
    table.commit(remove=[f])
    with pytest.raises(RequestError, match="not live in the parent snapshot"):
        table.commit(remove=[f])


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (1, {"status", "snapshot_id", "data_file"}),
        (2, {"status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"}),
        (3, {"status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"}),
    ],
)
def test_manifests_have_the_fields_of_their_version(tmp_path, version, names):
    table = small(tmp_path, version=version)
    table.append(table.write_data([{"id": 1}]))
    header, (entry,) = avro(table.file_of(listed(table)[0]["manifest_path"]))
    assert set(entry) == names
    assert ("content" in entry["data_file"], "first_row_id" in entry["data_file"]) == (version > 1, version > 2)
    assert ("first_row_id" in listed(table)[0]) == (version > 2)
    assert (header["format-version"], header["partition-spec-id"], header.get("content")) == (
        str(version), "0", None if version == 1 else "data",
    )  # fmt: skip


def test_row_ids_are_assigned_in_list_order(tmp_path):
    table = small(tmp_path, version=2)
    table.append(f := table.write_data([{"id": 1}] * 3))
    table.upgrade(3)
    table.append(g := table.write_data([{"id": 2}] * 2))
    assert [m["first_row_id"] for m in listed(table)] == [0, 2]
    assert (metadata(table)["next-row-id"], table.snapshots[-1]["first-row-id"], table.snapshots[-1]["added-rows"]) == (
        5,
        0,
        5,
    )
    table.commit(remove=[f], add=[table.write_data([{"id": 3}])], manifests="merge")
    kept = avro(table.file_of(listed(table)[1]["manifest_path"]))[1][0]["data_file"]
    assert (kept["file_path"], kept["first_row_id"]) == (g.path, 0)


def test_branches_tags_staging_and_rollback(tmp_path):
    table = small(tmp_path)
    first = table.append(table.write_data([{"id": 1}]))
    table.create_branch("dev")
    second = table.commit(add=[table.write_data([{"id": 2}])], branch="dev")
    staged = table.commit(add=[table.write_data([{"id": 3}])], branch=None)
    table.create_tag("keep", second)
    doc = metadata(table)
    assert {n: (r["type"], r["snapshot-id"]) for n, r in doc["refs"].items()} == {
        "main": ("branch", first), "dev": ("branch", second), "keep": ("tag", second),
    }  # fmt: skip
    assert [s["parent-snapshot-id"] for s in doc["snapshots"][1:]] == [first, first]
    assert doc["current-snapshot-id"] == first == FIRST_SNAPSHOT_ID
    table.set_ref("main", staged, "branch")
    assert [e["snapshot-id"] for e in metadata(table)["snapshot-log"]] == [first, staged]
    with pytest.raises(RequestError, match="dev, keep points to it"):
        table.expire(second)


def test_expiring_drops_the_history_up_to_it(tmp_path):
    table = small(tmp_path)
    ids = [table.append(table.write_data([{"id": i}])) for i in range(3)]
    table.expire(ids[1])
    doc = metadata(table)
    assert [s["snapshot-id"] for s in doc["snapshots"]] == [ids[0], ids[2]]
    assert [e["snapshot-id"] for e in doc["snapshot-log"]] == [ids[2]]


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_schema_changes_keep_ids(tmp_path):
    table = IcebergTable.create(
        tmp_path / "t", {"id": "int", "st": "struct<a: int>", "l": "list<struct<p: int>>"}, format_version=3
    )
    table.add_column("b", "string", initial_default="x", parent="st")
    table.rename_column("st.a", "z")
    table.widen_column("id", "long")
    table.drop_column("l.element.p")
    table.add_column("l2", "list<int>")
    table.move_column("l2", 0)
    doc = metadata(table)
    current = next(s for s in doc["schemas"] if s["schema-id"] == doc["current-schema-id"])
    assert [(f["id"], f["name"], f["type"]) for f in current["fields"][:2]] == [
        (8, "l2", {"type": "list", "element-id": 9, "element": "int", "element-required": False}),
        (1, "id", "long"),
    ]
    assert current["fields"][2]["type"]["fields"] == [
        {"id": 4, "name": "z", "required": False, "type": "int"},
        {"id": 7, "name": "b", "required": False, "type": "string", "initial-default": "x", "write-default": "x"},
    ]
    assert current["fields"][3]["type"]["element"]["fields"] == []
    assert (doc["last-column-id"], len(doc["schemas"])) == (9, 7)


def test_v1_metadata_has_its_old_keys_until_the_upgrade(tmp_path):
    table = small(tmp_path, version=1, partition_spec=[("s", "identity")])
    table.append(table.write_data([{"s": "a"}]))
    doc = metadata(table)
    assert (doc["schema"]["fields"][0]["name"], doc["partition-spec"][0]["field-id"]) == ("id", 1000)
    assert "sequence-number" not in doc["snapshots"][0]
    assert "last-sequence-number" not in doc
    table.upgrade(2)
    table.append(table.write_data([{"s": "b"}]))
    doc = metadata(table)
    assert ("schema" in doc, doc["last-sequence-number"]) == (False, 1)
    assert [m["sequence_number"] for m in listed(table)] == [1, 0]


def test_versions_are_hinted_logged_and_timed(tmp_path):
    table = small(tmp_path)
    table.set_properties(**{"a.b": "c"})
    doc = metadata(table)
    assert (tmp_path / "t/metadata/version-hint.text").read_text() == "2"
    assert doc["metadata-log"] == [
        {"timestamp-ms": 1_700_000_000_000, "metadata-file": f"{tmp_path}/t/metadata/v1.metadata.json"}
    ]
    assert (doc["last-updated-ms"], doc["properties"]) == (1_700_000_001_000, {"a.b": "c"})


def test_names_by_uuid_and_gzip(tmp_path):
    table = small(tmp_path, metadata_names="uuid", metadata_codec="gzip")
    assert table.metadata_path.name.startswith("00000-")
    assert table.metadata_path.name.endswith(".gz.metadata.json")
    assert json.loads(gzip.decompress(table.metadata_path.read_bytes()))["format-version"] == 2
    assert not (tmp_path / "t/metadata/version-hint.text").exists()


def test_a_recorded_location_stands_in_every_path(tmp_path):
    table = small(tmp_path, recorded_location="s3://bucket/t/")
    table.append(f := table.write_data([{"id": 1}]))
    table.append(table.write_position_deletes([(f, 0)]))
    doc = metadata(table)
    assert doc["location"] == "s3://bucket/t"
    assert doc["metadata-log"][0]["metadata-file"] == "s3://bucket/t/metadata/v1.metadata.json"
    assert f.path == "s3://bucket/t/data/00001.parquet"
    assert f.file == tmp_path / "t/data/00001.parquet"
    assert f.file.exists()
    assert all(m["manifest_path"].startswith("s3://bucket/t/metadata/") for m in listed(table))


def test_the_same_calls_write_the_same_bytes(tmp_path):
    def build(directory):
        table = IcebergTable.create(directory / "t", {"id": "long"}, recorded_location="/t", format_version=3)
        table.append(f := table.write_data([{"id": 1}]))
        table.append(*table.write_deletion_vectors({f: [0]}))
        return {p.relative_to(directory): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}

    assert build(tmp_path / "a") == build(tmp_path / "b")


# -- unusual and broken tables -----------------------------------------------------------------------------------------


def test_edits_reach_the_files(tmp_path):
    table = small(tmp_path)
    table.append(f := table.write_data([{"id": 1}]))
    table.edit_metadata(lambda doc: doc.pop("last-updated-ms"))
    assert "last-updated-ms" not in metadata(table)
    assert metadata(table)["snapshots"]

    def strange(document):
        document.codec = "null"
        document.header.pop("schema-id")
        document.records[0]["status"] = 7
        document.schema["fields"] = [x for x in document.schema["fields"] if x["name"] != "file_sequence_number"]

    table.edit_manifest(f, strange)
    header, (entry,) = avro(table.file_of(listed(table)[0]["manifest_path"]))
    assert (header["avro.codec"], "schema-id" in header, entry["status"]) == ("null", False, 7)
    assert "file_sequence_number" not in entry
    assert f.data_file["record_count"] == 1

    table.edit_manifest_list(lambda document: document.records[0].update(sequence_number=99))
    assert listed(table)[0]["sequence_number"] == 99


def test_a_handle_can_be_changed_before_its_commit(tmp_path):
    table = small(tmp_path)
    f = table.write_data([{"id": 1}])
    f.data_file["record_count"] = -1
    table.append(f)
    assert avro(table.file_of(listed(table)[0]["manifest_path"]))[1][0]["data_file"]["record_count"] == -1


def test_corrupt_and_truncate(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"\x00\x01\x02\x03")
    corrupt(file, 1)
    corrupt(file, -1, 0x01)
    assert file.read_bytes() == b"\x00\xfe\x02\x02"
    truncate(file, -1)
    assert file.read_bytes() == b"\x00\xfe\x02"
    truncate(file, 1)
    assert file.read_bytes() == b"\x00"


# -- the demo ----------------------------------------------------------------------------------------------------------


def test_the_demo_tables_hold_what_was_counted_by_hand(tmp_path):
    tables = demo.build_demo_tables(tmp_path)
    # 3000 - 300 (every 10th row of each region's file of 750) - 90, + 1000 later ones that no delete hits. The 90: "eu"
    # has the ids 4p at the places p = 0..749, customer 4p % 25, so each customer has 30 rows, and those of 7, 11 and 13
    # (stored as null) stand at p % 25 = 8, 9 and 22, never a multiple of 10, so none of them was dead already.
    assert len(tables.orders.expected) == 3610
    # 2000 - 102 of the first file - 100 of the second (32 squares and 70 places, 900 and 961 being both).
    assert len(tables.events.expected) == 1798
    assert sum((row["region"], row["customer"]) == ("eu", 7) for row in tables.orders.expected) == 10
    assert [row["kind"] for row in tables.events.expected if row["id"] == 1500] == ["view"]
    assert metadata_version(tables.orders.metadata_path) == metadata_version(tables.events.metadata_path) == 3


def metadata_version(path):
    return json.loads(path.read_text())["format-version"]
