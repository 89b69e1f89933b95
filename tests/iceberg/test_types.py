from __future__ import annotations

from decimal import Decimal
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


def test_parse_type_reads_nested_types() -> None:
    element = {"type": "list", "element-id": 4, "element": "long", "element-required": True}
    json = {
        "type": "map",
        "key-id": 2,
        "key": "string",
        "value-id": 3,
        "value": {"type": "struct", "fields": [column(5, element)]},
        "value-required": False,
    }
    assert parse_type(json) == MapType(
        Field(id=2, name="key", type=StringType(), required=True),
        Field(
            id=3,
            name="value",
            type=StructType(
                (
                    Field(
                        id=5,
                        name="c5",
                        type=ListType(Field(id=4, name="element", type=IntegerType(64), required=True)),
                    ),
                )
            ),
        ),
    )


def test_parse_schema_keeps_ids_requiredness_doc_and_identifier() -> None:
    schema = parse_schema(
        {
            "type": "struct",
            "schema-id": 7,
            "identifier-field-ids": [1],
            "fields": [
                {"id": 1, "name": "", "required": True, "type": "int", "doc": "key", "write-default": 1},
                column(2, "string", **{"initial-default": "x"}),
            ],
        }
    )
    assert schema.id == 7
    assert schema.identifier_field_ids == (1,)
    assert schema.fields == (
        Field(id=1, name="", type=IntegerType(32), required=True, doc="key"),
        Field(id=2, name="c2", type=StringType(), initial_default="x"),
    )


def test_parse_schema_takes_null_for_absent_and_0_for_no_id_1_16_1_18() -> None:
    schema = parse_schema({"schema-id": None, "identifier-field-ids": None, "fields": [column(0, doc=None)]})
    assert (schema.id, schema.identifier_field_ids, schema.fields[0].id) == (0, (), 0)


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


def test_parse_schema_accepts_the_last_free_id_1_23() -> None:
    assert parse_schema({"fields": [column(2147483447)]}).fields[0].id == 2147483447


def test_duplicate_id_error_names_cause_and_rule() -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse_schema(Json({"fields": [column(1), column(1)]}, "v1.metadata.json", ("schemas", 0)))
    assert str(caught.value) == (
        "Invalid schema: field id 1 is of 'c1' and 'c1', expected unique ids "
        "[DuplicateFieldId; file v1.metadata.json, field /schemas/0, rule iceberg 1.23]"
    )


STRUCT = StructType((Field(id=3, name="a", type=IntegerType(32)), Field(id=4, name="b", type=StringType())))
LIST = ListType(Field(id=5, name="element", type=DateType()))
MAP = MapType(Field(id=6, name="key", type=StringType(), required=True), Field(id=7, name="value", type=TimeType()))


@pytest.mark.parametrize(
    ("type_", "json", "stored"),
    [
        (BooleanType(), True, True),
        (IntegerType(32), -(2**31), -(2**31)),
        (IntegerType(64), 9223372036854775807, 9223372036854775807),
        (FloatType(32), 0.1, 0.10000000149011612),
        (FloatType(64), 0.1, 0.1),
        (FloatType(64), 3, 3.0),
        (DecimalType(9, 2), "14.20", Decimal("14.20")),
        (DecimalType(9, 2), "-0.05", Decimal("-0.05")),
        (DecimalType(9, 0), "14", Decimal("14")),
        (DateType(), "1970-01-01", 0),
        (DateType(), "2017-11-16", 17486),
        (DateType(), "1969-12-31", -1),
        (DateType(), "2000-02-29", 11016),
        (DateType(), "0001-01-01", -719162),
        (DateType(), "0000-03-01", -719468),
        (DateType(), "+10000-01-01", 2932897),
        (TimeType(), "22:31:08.123456", 81068123456),
        (TimeType(), "22:31:08.1", 81068100000),
        (TimeType(), "22:31", 81060000000),
        (TimestampType(), "2017-11-16T22:31:08.123456", 1510871468123456),
        (TimestampType(), "1969-12-31T23:59:59.999999", -1),
        (TimestampType(utc=True), "2017-11-16T22:31:08.123456+00:00", 1510871468123456),
        (TimestampType("ns"), "2017-11-16T22:31:08.123456789", 1510871468123456789),
        (TimestampType("ns", utc=True), "2017-11-16T22:31:08.123456789+00:00", 1510871468123456789),
        (StringType(), "iceberg", "iceberg"),
        (UuidType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        (FixedType(4), "000102fF", b"\x00\x01\x02\xff"),
        (BinaryType(), "", b""),
        (BinaryType(), "00", b"\x00"),
        (STRUCT, {}, {}),
        (STRUCT, {"3": 1, "4": "bar"}, {3: 1, 4: "bar"}),
        (STRUCT, {"4": None}, {4: None}),
        (LIST, ["1970-01-02", None], [1, None]),
        (MAP, {"keys": ["a", "b"], "values": ["00:00:01", None]}, [("a", 1000000), ("b", None)]),
        (VariantType(), None, None),
        (UnknownType(), None, None),
        (OpaqueType("interval"), "1 day", None),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_parse_default_gives_stored_form_5_15(type_: Any, json: Any, stored: Any) -> None:
    value = parse_default(Json(json), type_)
    assert value == stored
    assert type(value) is type(stored)


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


def test_bad_default_error_says_what_fits() -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse_schema(Json({"fields": [column(1, "decimal(9, 2)", **{"initial-default": "14.2"})]}, "v1.metadata.json"))
    assert str(caught.value) == (
        "Invalid default: got '14.2', expected a decimal string with 2 digits after the point and at most 9 in all for "
        "type decimal(9, 2) [InvalidTable; file v1.metadata.json, field /fields/0/initial-default, rule iceberg 5.15]"
    )
