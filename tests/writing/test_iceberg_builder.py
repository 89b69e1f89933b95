"""The Iceberg table builder, compared with fastavro, pyarrow, and values derived from the specification."""

import datetime as dt
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import RequestError
from harness.testing import demo
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.types import parse_type, stored_value, type_json


def small(directory, version=2, **more):
    return IcebergTable.create(directory / "t", {"id": "long", "s": "string"}, format_version=version, **more)


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "long",
        "decimal(9, 2)",
        "fixed[16]",
        "timestamptz_ns",
        "geometry(EPSG:4326)",
        "geography(OGC:CRS84, vincenty)",
        "list<int>",
        "map<string, list<decimal(3, 0)>>",
        "struct<a: int, b: struct<c: string>>",
        "interval",
    ],
)
def test_type_text_is_read_as_it_is_written(text):
    type_, required = parse_type(text)
    assert (type_json(type_, {}) if text == "fixed[16]" else str(type_), required) == (text, False)


@pytest.mark.parametrize("text", ["list<int", "map<string>", "struct<a int>", "int, long"])
def test_broken_type_text_is_refused(text):
    with pytest.raises(RequestError, match="Cannot read"):
        parse_type(text)


@pytest.mark.parametrize(
    ("type_text", "value"),
    [("decimal(9, 2)", "1.005"), ("fixed[2]", b"abc"), ("struct<a: int>", {"b": 1}), ("uuid", "no")],
)
def test_a_value_that_does_not_fit_is_refused(type_text, value):
    with pytest.raises(RequestError, match="Cannot store"):
        stored_value(parse_type(type_text)[0], value)


def test_an_unknown_transform_needs_an_explicit_partition(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "zorder[3]")])
    with pytest.raises(RequestError, match="set the partition value with `partition`"):
        table.write_data([{"id": 1, "s": "a"}])
    assert table.write_data([{"id": 1}], partition={"s_zorder": "q"}).data_file["partition"] == {"s_zorder": "q"}


WIDE = {
    "b": "boolean",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "dec": "decimal(38, 10)",
    "day": "date",
    "t": "time",
    "ts": "timestamp",
    "tz": "timestamptz",
    "s": "string",
    "u": "uuid",
    "x": "fixed[2]",
    "bin": "binary",
    "li": "list<int>",
    "m": "map<string, long>",
    "mi": "map<int, struct<q: int>>",
    "st": "struct<a: int not null, in: struct<c: string>>",
}
WIDE_ROW = {
    "b": True,
    "i": -1,
    "l": 2**62,
    "f": 0.5,
    "d": 1e300,
    "dec": Decimal("-1234567890123456789.0123456789"),
    "day": dt.date(1900, 1, 1),
    "t": dt.time(23, 59, 59, 999_999),
    "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "tz": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    "s": "a\0é",
    "u": uuid.UUID(int=7),
    "x": b"\x00\xff",
    "bin": b"",
    "li": [1, None],
    "m": {"k": None},
    "mi": [(1, {"q": 2})],
    "st": {"a": 1, "in": {"c": None}},
}


def test_parquet_carries_ids_at_every_level(tmp_path):
    table = IcebergTable.create(tmp_path / "t", WIDE)
    text = str(pq.ParquetFile(table.write_data([WIDE_ROW]).file).schema)
    for name, id_ in {".".join(path): f.id for path, f in table.schema.walk()}.items():
        assert f"field_id={id_} {name.rsplit('.', 1)[-1]}" in text
    assert "fixed_len_byte_array(16) field_id=12 u (UUID)" in text


def test_an_arrow_table_keeps_a_column_that_the_table_lacks(tmp_path):
    schema = pq.read_schema(small(tmp_path).write_data(pa.table({"id": [1], "more": ["x"]})).file)
    assert [schema.field(name).metadata for name in ("id", "more")] == [{b"PARQUET:field_id": b"1"}, None]


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


@pytest.mark.parametrize(("value", "expected"), [("ab\U0010ffff\U0010ffffz", b"ac"), ("\U0010ffff" * 5, None)])
def test_upper_bounds_are_cut_upward(tmp_path, value, expected):
    facts = small(tmp_path).write_data([{"s": value}], bounds_length=4).data_file
    found = {e["key"]: e["value"] for e in facts["upper_bounds"] or ()}
    assert found.get(2) == expected


def test_rows_of_several_partitions_are_refused(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "identity")])
    with pytest.raises(RequestError, match="they are in 2 partitions; set `partition`, or use write_partitioned"):
        table.write_data([{"s": "a"}, {"s": "b"}])


def test_position_deletes_take_the_partition_of_their_data_files(tmp_path):
    table = small(tmp_path, partition_spec=[("s", "identity")])
    f, g = table.write_partitioned([{"s": "a"}, {"s": "b"}])
    assert table.write_position_deletes([(f, 0)]).data_file["partition"] == {"s": "a"}
    with pytest.raises(RequestError, match="one delete file per partition"):
        table.write_position_deletes([(f, 0), (g, 0)])


def test_removing_a_file_that_is_not_live_is_refused(tmp_path):
    table = small(tmp_path)
    table.append(f := table.write_data([{"id": 1}]))
    table.commit(remove=[f])
    with pytest.raises(RequestError, match="not live in the parent snapshot"):
        table.commit(remove=[f])


def test_the_same_calls_write_the_same_bytes(tmp_path):
    def build(directory):
        table = IcebergTable.create(directory / "t", {"id": "long"}, recorded_location="/t", format_version=3)
        table.append(f := table.write_data([{"id": 1}]))
        table.append(*table.write_deletion_vectors({f: [0]}))
        return {p.relative_to(directory): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}

    assert build(tmp_path / "a") == build(tmp_path / "b")


def test_the_demo_tables_hold_what_was_counted_by_hand(tmp_path):
    tables = demo.build_demo_tables(tmp_path)
    # 3000 rows - 300 (every 10th row of each region's file of 750) - 90, + 1000 later rows that no delete applies to.
    # The 90: the file "eu" has the ids 4p at the positions p = 0..749 with customer 4p % 25, so each customer has 30
    # rows. The rows of customers 7, 11, and 13 (stored as null) are at p % 25 = 8, 9, and 22, never a multiple of 10,
    # so none of them was deleted before.
    assert len(tables.orders.expected) == 3610
    # 2000 rows - 102 of the first file - 100 of the second (32 squares and 70 positions; 900 and 961 are in both).
    assert len(tables.events.expected) == 1798
    assert sum((row["region"], row["customer"]) == ("eu", 7) for row in tables.orders.expected) == 10
    assert [row["kind"] for row in tables.events.expected if row["id"] == 1500] == ["view"]
    assert metadata_version(tables.orders.metadata_path) == metadata_version(tables.events.metadata_path) == 3


def metadata_version(path):
    return json.loads(path.read_text())["format-version"]
