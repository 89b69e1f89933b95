from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InvalidTableError
from harness.metadata.files.documents import Json
from harness.metadata.iceberg.types import parse_default, parse_schema, parse_type
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UnknownType,
    UuidType,
    VariantType,
)


def column(id_: int, type_: Any = "int", **more: Any) -> dict[str, Any]:
    return {"id": id_, "name": f"c{id_}", "required": False, "type": type_, **more}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", BooleanType()),
        ("int", IntegerType(32)),
        ("long", IntegerType(64)),
        ("float", FloatType(32)),
        ("double", FloatType(64)),
        ("date", DateType()),
        ("time", TimeType("us")),
        ("timestamp", TimestampType("us", utc=False)),
        ("timestamptz", TimestampType("us", utc=True)),
        ("timestamp_ns", TimestampType("ns", utc=False)),
        ("timestamptz_ns", TimestampType("ns", utc=True)),
        ("string", StringType()),
        ("uuid", UuidType()),
        ("binary", BinaryType()),
        ("unknown", UnknownType()),
        ("variant", VariantType()),
        ("STRING", StringType()),
        ("TimestampTZ", TimestampType(utc=True)),
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal(9, 2)", DecimalType(9, 2)),
        ("Decimal( 38 , 38 )", DecimalType(38, 38)),
        ("fixed[16]", FixedType(16)),
        ("fixed[ 16 ]", FixedType(16)),
        ("geometry", GeometryType("OGC:CRS84")),
        ("geometry(EPSG:4326)", GeometryType("EPSG:4326")),
        ("GEOMETRY( srid:0 )", GeometryType("srid:0")),
        ("geography", GeographyType("OGC:CRS84", "spherical")),
        ("geography(OGC:CRS84)", GeographyType("OGC:CRS84", "spherical")),
        ("geography(EPSG:4326, Karney)", GeographyType("EPSG:4326", "karney")),
        ("interval", OpaqueType("interval")),
        ("decimal(39, 0)", OpaqueType("decimal(39, 0)")),
        ("decimal(0, 0)", OpaqueType("decimal(0, 0)")),
        ("decimal(2, 3)", OpaqueType("decimal(2, 3)")),
        ("decimal(9, -2)", OpaqueType("decimal(9, -2)")),
        ("decimal(9)", OpaqueType("decimal(9)")),
        ("fixed[0]", OpaqueType("fixed[0]")),
        ("geography(EPSG:4326, flat)", OpaqueType("geography(EPSG:4326, flat)")),
        ("geometry()", OpaqueType("geometry()")),
        ({"type": "union", "of": []}, OpaqueType("{type: union}")),
    ],
    ids=str,
)
def test_parse_type_reads_names_in_any_case_with_inner_blanks_1_22(text: Any, expected: Any) -> None:
    assert parse_type(text) == expected


LIST_OF_1 = {"type": "list", "element-id": 1, "element": "int", "element-required": False}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param([column(1), column(1)], "field id 1 is of 'c1' and 'c1'", id="1.23 same level"),
        pytest.param([column(1), column(2, LIST_OF_1)], "field id 1 is of 'c1' and 'c2.element'", id="1.23 nested"),
        pytest.param([column(2147483448)], "reserved id 2147483448", id="1.23 reserved"),
        pytest.param([{**column(1), "id": None}], "Missing required field 'id'", id="no id"),
        pytest.param([{**column(1), "id": 1.0}], "got 1.0, expected a 32-bit integer", id="float id"),
        pytest.param([{**column(1), "id": True}], "got True, expected a 32-bit integer", id="bool id"),
        pytest.param([{**column(1), "id": 2**31}], "expected a 32-bit integer", id="wide id"),
        pytest.param([{**column(1), "required": None}], "Missing required field 'required'", id="no required"),
        pytest.param([{**column(1), "required": 1}], "expected true or false", id="required number"),
        pytest.param([{**column(1), "name": 5}], "expected a string", id="name"),
        pytest.param([{**column(1), "type": 5}], "expected an object", id="type"),
        pytest.param([{**column(1), "type": {"type": "list"}}], "Missing required field 'element-id'", id="list"),
        pytest.param({}, "expected a list", id="fields"),
    ],
)
def test_parse_schema_refuses_broken_fields(fields: Any, message: str) -> None:
    with pytest.raises(InvalidTableError, match=message):
        parse_schema({"type": "struct", "schema-id": 0, "fields": fields})


STRUCT = StructType((Field(id=3, name="a", type=IntegerType(32)), Field(id=4, name="b", type=StringType())))
LIST = ListType(Field(id=5, name="element", type=DateType()))
MAP = MapType(Field(id=6, name="key", type=StringType(), required=True), Field(id=7, name="value", type=TimeType()))


@pytest.mark.parametrize(
    ("type_", "json"),
    [
        (BooleanType(), 1),
        (IntegerType(32), 2**31),
        (IntegerType(32), True),
        (IntegerType(32), 1.0),
        (IntegerType(64), "1"),
        (FloatType(32), 1e39),
        (FloatType(64), 10**400),
        (FloatType(64), "0.1"),
        (DecimalType(9, 2), "14.2"),
        (DecimalType(9, 2), "14.200"),
        (DecimalType(3, 2), "14.20"),
        (DecimalType(9, 2), 14.2),
        (DecimalType(9, 2), "NaN"),
        (DecimalType(9, 2), "1_4.20"),
        (DateType(), "2001-02-29"),
        (DateType(), "2001-13-01"),
        (DateType(), "2001-1-1"),
        (DateType(), 0),
        (TimeType(), "24:00:00"),
        (TimeType(), "00:00:00.0000001"),
        (TimestampType(), "2017-11-16T22:31:08+00:00"),
        (TimestampType(), "2017-11-16 22:31:08"),
        (TimestampType(utc=True), "2017-11-16T22:31:08"),
        (TimestampType(utc=True), "2017-11-16T22:31:08+01:00"),
        (TimestampType("ns"), "2300-01-01T00:00:00"),
        (StringType(), 5),
        (UuidType(), "f79c3e09677c4bbda4793f349cb785e7"),
        (FixedType(4), "000102"),
        (FixedType(4), "00 01 02 "),
        (BinaryType(), "0"),
        (BinaryType(), "xx"),
        (STRUCT, {"a": 1}),
        (STRUCT, []),
        (LIST, {}),
        (MAP, {"keys": ["a"], "values": []}),
        (MAP, {"keys": ["a"]}),
        (UnknownType(), 1),
        (VariantType(), {}),
        (GeometryType(), "POINT (1 1)"),
        (GeographyType(), "POINT (1 1)"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_parse_default_refuses_what_does_not_fit_5_14_5_15(type_: Any, json: Any) -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse_default(Json(json), type_)
    assert caught.value.rule in ("iceberg 5.14", "iceberg 5.15")
