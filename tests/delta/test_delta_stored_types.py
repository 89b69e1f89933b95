"""From stored to table types on real Delta files: that the plan allows a conversion, and that values are exact."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import EngineError, SchemaMismatchError, UnsupportedError

WIDENING = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["typeWidening", "timestampNtz"],
    "writerFeatures": ["typeWidening", "timestampNtz"],
}
UTC = datetime.UTC


def struct(**types):
    return {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": False, "metadata": {}} for n, t in types.items()],
    }


def array(element):
    return {"type": "array", "elementType": element, "containsNull": False}


def map_of(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": False}


def read(root, stored, values, type_, **options):
    (root / "_delta_log").mkdir()
    pq.write_table(pa.table({"c": pa.array(values, stored)}), root / "a.parquet", **options)
    actions = [
        {"protocol": WIDENING},
        {
            "metaData": {
                "id": "m",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(struct(c=type_)),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {"add": {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}},
    ]
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)), "utf-8")
    return harness.open_table(str(root)).snapshot().to_arrow().column("c")


INSTANTS = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("stored", "values", "type_", "expected"),
    [
        pytest.param(pa.int32(), [1, -7, None], "long", pa.array([1, -7, None], pa.int64()), id="int-long"),
        pytest.param(pa.int32(), [1, -7, None], "double", pa.array([1.0, -7.0, None]), id="int-double"),
        pytest.param(pa.float32(), [3.4], "double", pa.array([3.4000000953674316]), id="float-double"),
        pytest.param(
            pa.int8(),
            [1, -7],
            "decimal(12,2)",
            pa.array([Decimal("1.00"), Decimal("-7.00")], pa.decimal128(12, 2)),
            id="byte-decimal",
        ),
        pytest.param(
            pa.int64(),
            [2**63 - 1, -(2**63)],
            "decimal(38,18)",
            pa.array([Decimal(2**63 - 1), Decimal(-(2**63))], pa.decimal128(38, 18)),
            id="long-decimal",
        ),
        pytest.param(
            pa.decimal128(10, 2),
            [Decimal("1.25"), Decimal("-99999999.99")],
            "decimal(13,5)",
            pa.array([Decimal("1.25000"), Decimal("-99999999.99000")], pa.decimal128(13, 5)),
            id="decimal-decimal",
        ),
        pytest.param(
            pa.decimal128(18, 2),
            [Decimal("1.25")],
            "decimal(5,2)",
            pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
            id="decimal-of-more-digits",
        ),
        pytest.param(
            pa.date32(),
            [-719162, 19723],
            "timestamp_ntz",
            pa.array([-719162 * 86_400_000_000, 19723 * 86_400_000_000], pa.timestamp("us")),
            id="date-timestamp_ntz",
        ),
        pytest.param(pa.int32(), [127, -128], "byte", pa.array([127, -128], pa.int8()), id="int32-byte"),
        pytest.param(pa.binary(), ["é".encode(), b"", None], "string", pa.array(["é", "", None]), id="bytes-string"),
        pytest.param(pa.string(), ["é", "", None], "binary", pa.array(["é".encode(), b"", None]), id="text-binary"),
        pytest.param(pa.binary(3), [b"\xff\\x"], "binary", pa.array([b"\xff\\x"]), id="fixed-binary"),
        pytest.param(
            pa.timestamp("ms", "UTC"), [5, -1], "timestamp", pa.array([5000, -1000], INSTANTS), id="ms-instant"
        ),
        pytest.param(
            pa.timestamp("ms"), [5, -1], "timestamp", pa.array([5000, -1000], INSTANTS), id="ms-local-instant"
        ),
        pytest.param(
            INSTANTS, [5, -1], "timestamp_ntz", pa.array([5, -1], pa.timestamp("us")), id="instant-timestamp_ntz"
        ),
        pytest.param(
            pa.struct([("x", pa.list_(pa.int32()))]),
            [{"x": [1, None]}, {"x": None}, None],
            struct(x=array("decimal(10,0)")),
            pa.array(
                [{"x": [Decimal(1), None]}, {"x": None}, None], pa.struct([("x", pa.list_(pa.decimal128(10, 0)))])
            ),
            id="nested",
        ),
        pytest.param(
            pa.map_(pa.int8(), pa.float32()),
            [[(1, 3.4)], None, []],
            map_of("integer", "double"),
            pa.array([[(1, 3.4000000953674316)], None, []], pa.map_(pa.int32(), pa.float64())),
            id="map",
        ),
        pytest.param(
            pa.struct([("dropped", pa.int32())]),
            [{"dropped": 1}, None],
            struct(new="integer"),
            pa.array([{"new": None}, None], pa.struct([("new", pa.int32())])),
            id="struct-without-a-common-child",
        ),
        pytest.param(
            pa.list_(pa.int32()),
            [[1, 2], None, []],
            array("void"),
            pa.array([[None, None], None, []], pa.list_(pa.int32())),
            id="list-of-void",
        ),
        pytest.param(pa.int32(), [1, None], "integer", pa.array([1, None], pa.int32()), id="null-in-not-null"),
    ],
)
def test_stored_values_come_out_as_the_table_types(tmp_path, stored, values, type_, expected):
    got = read(tmp_path, stored, values, type_).combine_chunks()
    assert got.to_pylist() == expected.to_pylist()
    assert got.type == expected.type


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_int96_is_read_as_the_table_says(tmp_path, type_):
    values = [datetime.datetime(2020, 1, 1, 12), datetime.datetime(1700, 1, 1)]
    got = read(tmp_path, pa.timestamp("us"), values, type_, use_deprecated_int96_timestamps=True)
    zone = UTC if type_ == "timestamp" else None
    assert got.to_pylist() == [value.replace(tzinfo=zone) for value in values]


@pytest.mark.parametrize(
    ("stored", "values", "type_", "error"),
    [
        pytest.param(pa.int64(), [1], "integer", SchemaMismatchError, id="long-int"),
        pytest.param(pa.date32(), [0], "timestamp", SchemaMismatchError, id="date-timestamp"),
        pytest.param(pa.timestamp("ns"), [5], "timestamp_ntz", SchemaMismatchError, id="nanos"),
        pytest.param(pa.binary(), [b"x"], "geometry(4326)", UnsupportedError, id="geometry"),
        pytest.param(pa.int32(), [128], "byte", EngineError, id="value-beyond-byte"),
        pytest.param(
            pa.decimal128(18, 2), [Decimal("1234567.25")], "decimal(5,2)", EngineError, id="value-beyond-decimal"
        ),
        pytest.param(pa.binary(), [b"\xff\xfe"], "string", EngineError, id="bytes-that-are-no-text"),
    ],
)
def test_what_would_lose_values_is_an_error(tmp_path, stored, values, type_, error):
    with pytest.raises(error):
        read(tmp_path, stored, values, type_)
