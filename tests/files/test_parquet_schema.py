"""Footers of Parquet files: where they end, and their schemas, as defined by the Parquet specification."""

import io

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import CorruptFileError
from harness.metadata.files.parquet import (
    ELEMENT_COLUMNS,
    ParquetElement,
    parse_elements,
    physical_schema,
    physical_schemas,
)
from harness.metadata.files.parquet_footer import parse_tail
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import STORED_LIST, STORED_STRUCT, PhysicalField

OPTIONAL, REQUIRED, REPEATED = "OPTIONAL", "REQUIRED", "REPEATED"


def leaf(name, type_="INT32", repetition=OPTIONAL, **more):
    return [ParquetElement(name, type_, repetition_type=repetition, **more)]


def group(name, *children, repetition=OPTIONAL, **more):
    flat = [element for child in children for element in child]
    return [ParquetElement(name, repetition_type=repetition, num_children=len(children), **more), *flat]


def fold(*columns):
    return physical_schema(tuple(group("schema", *columns, repetition=REQUIRED)))


def field(name, type_, *children, id_=None):
    return PhysicalField(name=name, id=id_, type=type_, children=children)


INT = dt.IntegerType(32)


def unit(name, *, utc=0, kind="Timestamp"):
    texts = {"MILLIS": "MilliSeconds()", "MICROS": "MicroSeconds()", "NANOS": "NanoSeconds()"}
    parts = ", ".join(f"{u}={text if u == name else '<null>'}" for u, text in texts.items())
    return f"{kind}Type(isAdjustedToUTC={utc}, unit=TimeUnit({parts}))"


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"type": "INT96"}, dt.Int96Type()),
        ({"type": "FIXED_LEN_BYTE_ARRAY", "type_length": 5}, dt.FixedType(5)),
        ({"type": "FIXED_LEN_BYTE_ARRAY", "type_length": 16, "logical_type": "UUIDType()"}, dt.UuidType()),
        ({"type": "FIXED_LEN_BYTE_ARRAY", "type_length": 2, "logical_type": "Float16Type()"}, dt.FloatType(16)),
        ({"type": "BYTE_ARRAY", "converted_type": "UTF8"}, dt.StringType()),
        ({"type": "BYTE_ARRAY", "converted_type": "ENUM"}, dt.StringType()),
        ({"type": "BYTE_ARRAY", "converted_type": "JSON", "logical_type": "JsonType()"}, dt.StringType()),
        ({"type": "BYTE_ARRAY", "converted_type": "BSON"}, dt.BinaryType()),
        ({"type": "BYTE_ARRAY", "logical_type": "GeometryType(crs=<null>)"}, dt.GeometryType()),
        ({"type": "INT32", "converted_type": "INT_32"}, INT),
        ({"type": "INT32", "converted_type": "UINT_8"}, dt.UnsignedType(8)),
        ({"type": "INT32", "logical_type": "IntType(bitWidth=\x08, isSigned=1)"}, dt.IntegerType(8)),
        ({"type": "INT32", "logical_type": "IntType(bitWidth=\x10, isSigned=0)"}, dt.UnsignedType(16)),
        ({"type": "INT32", "logical_type": "IntType(bitWidth= , isSigned=0)"}, dt.UnsignedType(32)),
        ({"type": "INT64", "logical_type": "IntType(bitWidth=@, isSigned=0)"}, dt.UnsignedType(64)),
        ({"type": "INT64", "logical_type": "IntType(bitWidth=64, isSigned=1)"}, dt.IntegerType(64)),
        ({"type": "INT32", "logical_type": "DecimalType(scale=2, precision=9)"}, dt.DecimalType(9, 2)),
        ({"type": "INT64", "converted_type": "DECIMAL", "precision": 18, "scale": 0}, dt.DecimalType(18, 0)),
        ({"type": "BYTE_ARRAY", "converted_type": "DECIMAL", "precision": 38, "scale": 38}, dt.DecimalType(38, 38)),
        ({"type": "BYTE_ARRAY", "converted_type": "DECIMAL", "precision": 39}, dt.OpaqueType("decimal(39, 0)")),
        ({"type": "INT32", "logical_type": unit("MILLIS", kind="Time")}, dt.TimeType("ms")),
        ({"type": "INT64", "logical_type": unit("NANOS", kind="Time")}, dt.TimeType("ns")),
        ({"type": "INT64", "converted_type": "TIME_MICROS"}, dt.TimeType("us")),
        ({"type": "INT64", "logical_type": unit("MILLIS")}, dt.TimestampType("ms")),
        ({"type": "INT64", "logical_type": unit("NANOS")}, dt.TimestampType("ns")),
        ({"type": "INT64", "converted_type": "TIMESTAMP_MILLIS"}, dt.TimestampType("ms", True)),
        (
            {"type": "INT64", "converted_type": "TIMESTAMP_MICROS", "logical_type": unit("MICROS")},
            dt.TimestampType("us"),
        ),
        ({"type": "INT32", "logical_type": "NullType()"}, dt.UnknownType()),
        ({"type": "FIXED_LEN_BYTE_ARRAY", "type_length": 12, "converted_type": "INTERVAL"}, dt.OpaqueType("interval")),
        ({"type": "BYTE_ARRAY", "logical_type": "NewType(x=1)"}, dt.OpaqueType("NewType(x=1)")),
        (
            {
                "type": "INT64",
                "converted_type": "DECIMAL",
                "precision": 10,
                "scale": 2,
                "logical_type": "DecimalType(scale=2, precision=10)",
            },
            dt.DecimalType(10, 2),
        ),
        (
            {
                "type": "INT64",
                "converted_type": "DECIMAL",
                "precision": 10,
                "logical_type": "DecimalType(scale=2, precision=10)",
            },
            dt.OpaqueType("decimal(10, 2) by its logical type, decimal(10, 0) by its converted type"),
        ),
        (
            {"type": "INT32", "converted_type": "DATE", "logical_type": unit("MILLIS", kind="Time")},
            dt.OpaqueType("time_ms by its logical type, date by its converted type"),
        ),
    ],
    ids=str,
)
def test_leaf_types(element, expected):
    (stored,) = fold([ParquetElement("c", repetition_type=OPTIONAL, field_id=7, **element)])
    assert (stored.name, stored.id, stored.type, stored.children) == ("c", 7, expected, ())
    is_binary = isinstance(expected, dt.DecimalType) and element["type"] == "BYTE_ARRAY"
    assert stored.is_binary is is_binary


def list_of(*inside, name="c", id_=1, **more):
    return group(name, *inside, converted_type="LIST", field_id=id_, **more)


def element(name="element", id_=2, type_=INT):
    return field(name, type_, id_=id_)


@pytest.mark.parametrize(
    ("column", "expected_element"),
    [
        (list_of(group("list", leaf("element", field_id=2), repetition=REPEATED)), element()),
        (list_of(group("bag", leaf("array_element", field_id=2), repetition=REPEATED)), element("array_element")),
        (list_of(leaf("element", repetition=REPEATED, field_id=2)), element()),
        (
            list_of(group("array", leaf("x", field_id=3), repetition=REPEATED, field_id=2)),
            field("array", STORED_STRUCT, element("x", 3), id_=2),
        ),
        (
            list_of(group("c_tuple", leaf("x", field_id=3), repetition=REPEATED, field_id=2)),
            field("c_tuple", STORED_STRUCT, element("x", 3), id_=2),
        ),
        (
            list_of(group("element", leaf("x", field_id=3), leaf("y", field_id=4), repetition=REPEATED, field_id=2)),
            field("element", STORED_STRUCT, element("x", 3), element("y", 4), id_=2),
        ),
        (
            list_of(
                group(
                    "array", leaf("array", repetition=REPEATED), repetition=REPEATED, converted_type="LIST", field_id=2
                )
            ),
            field("array", STORED_LIST, field("array", INT), id_=2),
        ),
    ],
    ids=["three-level", "hive", "repeated-leaf", "array", "tuple", "two-fields", "nested-two-level"],
)
def test_lists(column, expected_element):
    assert fold(column) == (field("c", STORED_LIST, expected_element, id_=1),)


def test_repeated_field_without_list_is_a_list():
    assert fold(leaf("c", repetition=REPEATED, field_id=1)) == (field("c", STORED_LIST, field("c", INT), id_=1),)


@pytest.mark.parametrize(
    "column",
    [
        group("c", leaf("x"), leaf("y"), converted_type="LIST"),
        group("c", leaf("x"), converted_type="LIST"),
        group("c", group("kv", leaf("k"), repetition=REPEATED), converted_type="MAP"),
        group("c", leaf("k"), leaf("v"), converted_type="MAP"),
    ],
    ids=["list-of-two", "list-not-repeated", "map-without-value", "map-not-repeated"],
)
def test_malformed_groups_are_opaque(column):
    (stored,) = fold(column)
    assert isinstance(stored.type, dt.OpaqueType)


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [ParquetElement("schema", num_children=2), ParquetElement("a", "INT32")],
        [ParquetElement("schema", num_children=0), ParquetElement("a", "INT32")],
        [ParquetElement("g", num_children=1)] * 200 + [ParquetElement("a", "INT32")],
    ],
    ids=["empty", "too-few", "too-many", "too-deep"],
)
def test_trees_that_do_not_add_up_are_refused(elements):
    with pytest.raises(CorruptFileError):
        physical_schema(tuple(elements))


def test_the_broken_file_is_named():
    row = ("schema", None, None, None, 2, None, None, None, None, None)
    with pytest.raises(CorruptFileError) as caught:
        physical_schemas([("x.parquet", *row)])
    assert str(caught.value) == (
        "Invalid Parquet schema in the footer: a group lacks children; restore it [CorruptDataFile; file x.parquet]"
    )


# version 1, and one element with the name (field 4) "r"
_SCHEMA = bytes([0x15, 0x02, 0x19, 0x1C, 0x48, 0x01, 0x72, 0x00])


def framed(footer: bytes, *, magic: bytes = b"PAR1") -> bytes:
    return footer + len(footer).to_bytes(4, "little") + magic


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(framed(_SCHEMA + b"\x16\x02\x00", magic=b"PARE"), id="encrypted"),
        pytest.param(framed(_SCHEMA + b"\x16\x02\x00")[5:], id="longer than what was read"),
        pytest.param(b"PAR1", id="no footer"),
        pytest.param(framed(b""), id="empty footer"),
        pytest.param(framed(_SCHEMA), id="ends behind the schema"),
        pytest.param(framed(_SCHEMA + b"\x16"), id="ends in the count"),
        pytest.param(framed(_SCHEMA + b"\x16\x01\x00"), id="negative count"),
        pytest.param(framed(_SCHEMA + b"\x19\x0c\x00"), id="no count"),
        pytest.param(framed(_SCHEMA[2:] + b"\x16\x02\x00"), id="no version"),
        pytest.param(framed(b"\x15\x02\x19\xfc" + b"\xff" * 12), id="more elements than bytes"),
        pytest.param(framed(b"\x15\x02\x19\x1c" + b"\x1c" * 40), id="structs without end"),
        pytest.param(framed(b"\x15\x02\x19" + b"\x19" * 40_000), id="lists without end"),
    ],
)
def test_unusual_footers_are_left_to_a_reader(data: bytes) -> None:
    assert parse_tail(data) is None


TYPES = {
    **{f"i{bits}": pa.type_for_alias(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.type_for_alias(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"t{unit}": pa.timestamp(unit) for unit in ("ms", "us", "ns")},
    **{f"z{unit}": pa.timestamp(unit, "UTC") for unit in ("ms", "us", "ns")},
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "half": pa.float16(),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "timens": pa.time64("ns"),
    "date": pa.date32(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(7),
    "null": pa.null(),
    "uuid": pa.uuid(),
    "d9": pa.decimal128(9, 2),
    "d18": pa.decimal128(18, 0),
    "d38": pa.decimal128(38, 38),
    "json": pa.json_(pa.string()),
    "list": pa.list_(pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})),
    "map": pa.map_(pa.string(), pa.map_(pa.int32(), pa.date32())),
}


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_elements_are_those_that_duckdb_lists(tmp_path, version):
    schema = pa.schema(
        [pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for i, (n, t) in enumerate(TYPES.items())]
    )
    stream, path = io.BytesIO(), tmp_path / "a.parquet"
    pq.write_table(schema.empty_table(), stream, version=version, store_decimal_as_integer=version == "2.6")
    path.write_bytes(stream.getvalue())
    columns = ", ".join(ELEMENT_COLUMNS)
    rows = duckdb.connect().execute(f"SELECT {columns} FROM parquet_schema($1)", [str(path)]).fetchall()
    tail = parse_tail(stream.getvalue())
    assert tail is not None
    assert physical_schema(parse_elements(tail.schema)) == physical_schema(tuple(ParquetElement(*r) for r in rows))
