from typing import Any

import pytest

from harness.errors import InvalidTableError
from harness.metadata.files.documents import Json
from harness.metadata.iceberg.types import parse_default, parse_schema
from harness.metadata.model import schema as dt


def column(id_: int, type_: Any = "int", **more: Any) -> dict[str, Any]:
    return {"id": id_, "name": f"c{id_}", "required": False, "type": type_, **more}


LIST_OF_1 = {"type": "list", "element-id": 1, "element": "int", "element-required": False}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param([column(1), column(1)], "field id 1 belongs to 'c1' and 'c1'", id="1.23 same level"),
        pytest.param(
            [column(1), column(2, LIST_OF_1)], "field id 1 belongs to 'c1' and 'c2.element'", id="1.23 nested"
        ),
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


STRUCT = dt.StructType(
    (dt.Field(id=3, name="a", type=dt.IntegerType(32)), dt.Field(id=4, name="b", type=dt.StringType()))
)
LIST = dt.ListType(dt.Field(id=5, name="element", type=dt.DateType()))
MAP = dt.MapType(
    dt.Field(id=6, name="key", type=dt.StringType(), required=True), dt.Field(id=7, name="value", type=dt.TimeType())
)


NO_DEFAULTS = [
    (dt.BooleanType(), [1]),
    (dt.IntegerType(32), [2**31, True, 1.0]),
    (dt.IntegerType(64), ["1"]),
    (dt.FloatType(32), [1e39]),
    (dt.FloatType(64), [10**400, "0.1"]),
    (dt.DecimalType(9, 2), ["14.2", "14.200", 14.2, "NaN", "1_4.20"]),
    (dt.DecimalType(3, 2), ["14.20"]),
    (dt.DateType(), ["2001-02-29", "2001-13-01", "2001-1-1", 0]),
    (dt.TimeType(), ["24:00:00", "00:00:00.0000001"]),
    (dt.TimestampType(), ["2017-11-16T22:31:08+00:00", "2017-11-16 22:31:08"]),
    (dt.TimestampType(utc=True), ["2017-11-16T22:31:08", "2017-11-16T22:31:08+01:00"]),
    (dt.TimestampType("ns"), ["2300-01-01T00:00:00"]),
    (dt.StringType(), [5]),
    (dt.UuidType(), ["f79c3e09677c4bbda4793f349cb785e7"]),
    (dt.FixedType(4), ["000102", "00 01 02 "]),
    (dt.BinaryType(), ["0", "xx"]),
    (STRUCT, [{"a": 1}, []]),
    (LIST, [{}]),
    (MAP, [{"keys": ["a"], "values": []}, {"keys": ["a"]}]),
    (dt.UnknownType(), [1]),
    (dt.VariantType(), [{}]),
    (dt.GeometryType(), ["POINT (1 1)"]),
    (dt.GeographyType(), ["POINT (1 1)"]),
]


@pytest.mark.parametrize(
    ("type_", "json"),
    [(type_, json) for type_, found in NO_DEFAULTS for json in found],
    ids=lambda value: repr(value)[:50],
)
def test_parse_default_refuses_what_does_not_fit_5_14_5_15(type_: Any, json: Any) -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse_default(Json(json), type_)
    assert caught.value.rule in ("iceberg 5.14", "iceberg 5.15")
