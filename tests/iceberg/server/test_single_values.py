"""Single values in JSON. The expectations come from Iceberg's specification, "JSON single-value serialization"."""

import math
from decimal import Decimal
from typing import Any

import pytest

from harness.metadata.iceberg.server.values import parse_single_value, single_value
from harness.metadata.model import schema as dt

UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
UUID_BYTES = bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")
STRUCT = dt.StructType(
    (dt.Field(id=1, name="a", type=dt.IntegerType(32)), dt.Field(id=2, name="b", type=dt.StringType()))
)
LIST = dt.ListType(dt.Field(id=3, name="element", type=dt.DateType()))
MAP = dt.MapType(dt.Field(id=4, name="key", type=dt.StringType()), dt.Field(id=5, name="value", type=dt.BinaryType()))
# 2017-11-16T22:31:08 is 1510871468 seconds after 1970, and 2017-11-16 is 17486 days after it.
SECOND = 1_510_871_468
WRITTEN = [
    (dt.BooleanType(), True, True),
    (dt.IntegerType(32), 34, 34),
    (dt.IntegerType(64), 2**63 - 1, 9223372036854775807),
    (dt.FloatType(32), 1.5, 1.5),
    (dt.FloatType(64), math.inf, "Infinity"),
    (dt.FloatType(64), -math.inf, "-Infinity"),
    (dt.DecimalType(9, 2), Decimal("14.20"), "14.20"),
    (dt.DecimalType(9, 0), Decimal(2), "2"),
    (dt.DecimalType(38, 10), Decimal("-0.0000000001"), "-0.0000000001"),
    (dt.DateType(), 17486, "2017-11-16"),
    (dt.DateType(), -719_528, "0000-01-01"),
    (dt.DateType(), -719_529, "-0001-12-31"),
    (dt.DateType(), 2_932_897, "+10000-01-01"),
    (dt.TimeType(), 81_068_123_456, "22:31:08.123456"),
    (dt.TimestampType(), SECOND * 10**6 + 123456, "2017-11-16T22:31:08.123456"),
    (dt.TimestampType(), -1, "1969-12-31T23:59:59.999999"),
    (dt.TimestampType(utc=True), SECOND * 10**6, "2017-11-16T22:31:08.000000+00:00"),
    (dt.TimestampType("ns"), SECOND * 10**9 + 123456789, "2017-11-16T22:31:08.123456789"),
    (dt.TimestampType("ns", utc=True), SECOND * 10**9, "2017-11-16T22:31:08.000000000+00:00"),
    (dt.StringType(), "iceberg", "iceberg"),
    (dt.UuidType(), UUID_BYTES, UUID),
    (dt.FixedType(4), b"\x00\x01\x02\xff", "000102FF"),
    (dt.BinaryType(), b"xyz", "78797A"),
    (dt.StringType(), None, None),
]
NESTED = [
    (STRUCT, {1: 1, 2: "bar"}, {"1": 1, "2": "bar"}),
    (LIST, [0, None], ["1970-01-01", None]),
    (MAP, [("a", b"\x01"), ("b", None)], {"keys": ["a", "b"], "values": ["01", None]}),
]


@pytest.mark.parametrize(("type_", "value", "json"), [*WRITTEN, *NESTED])
def test_written_values(type_: dt.Type, value: Any, json: Any) -> None:
    written = single_value(value, type_)
    assert (type(written), written) == (type(json), json)


@pytest.mark.parametrize(("type_", "value", "json"), WRITTEN)
def test_written_values_are_read(type_: dt.Type, value: Any, json: Any) -> None:
    assert parse_single_value(json, type_) == value


def test_nan_is_written_and_read() -> None:
    assert single_value(math.nan, dt.FloatType(64)) == "NaN"
    assert math.isnan(parse_single_value("NaN", dt.FloatType(32)))
    assert math.isnan(parse_single_value(math.nan, dt.FloatType(64)))


@pytest.mark.parametrize("type_", [dt.VariantType(), dt.GeometryType(), dt.OpaqueType("new")])
def test_other_types_have_no_form(type_: dt.Type) -> None:
    with pytest.raises(ValueError, match="no JSON form"):
        single_value("x", type_)


@pytest.mark.parametrize(
    ("type_", "json", "value"),
    [
        (dt.FloatType(64), 1, 1.0),
        (dt.DecimalType(9, 2), "14.2", Decimal("14.20")),
        (dt.DecimalType(9, 2), "14.200", Decimal("14.20")),
        (dt.DecimalType(9, 2), "1.42E+1", Decimal("14.20")),
        (dt.DecimalType(9, 2), 14, Decimal("14.00")),
        (dt.DecimalType(9, 2), 14.2, Decimal("14.20")),
        (dt.DateType(), 17486, 17486),
        (dt.TimeType(), "22:31", 81_060_000_000),
        (dt.TimeType(), "22:31:08", 81_068_000_000),
        (dt.TimeType(), "22:31:08.123456000", 81_068_123_456),
        (dt.TimeType(), 81_068_000_000, 81_068_000_000),
        (dt.TimestampType(), "2017-11-16T22:31:08.1", SECOND * 10**6 + 100_000),
        (dt.TimestampType(), 5, 5),
        (dt.TimestampType(utc=True), "2017-11-16T22:31:08Z", SECOND * 10**6),
        (dt.TimestampType("ns", utc=True), "2017-11-16T22:31:08.1Z", SECOND * 10**9 + 100_000_000),
        (dt.UuidType(), UUID.upper(), UUID_BYTES),
        (dt.FixedType(2), "aBcD", b"\xab\xcd"),
        (dt.BinaryType(), "", b""),
    ],
)
def test_other_forms_of_servers_are_read(type_: dt.Type, json: Any, value: Any) -> None:
    parsed = parse_single_value(json, type_)
    assert parsed == value
    assert repr(parsed) == repr(value)  # 14.20 and 14.2 are equal decimals


@pytest.mark.parametrize(
    ("type_", "json"),
    [
        (dt.BooleanType(), 1),
        (dt.IntegerType(32), True),
        (dt.IntegerType(32), 2**31),
        (dt.IntegerType(64), 5.0),
        (dt.IntegerType(64), "5"),
        (dt.FloatType(64), "1.5"),
        (dt.FloatType(32), 1e39),
        (dt.FloatType(64), True),
        (dt.DecimalType(9, 2), "0.001"),
        (dt.DecimalType(9, 2), 0.001),
        (dt.DecimalType(3, 2), "14.2"),
        (dt.DecimalType(9, 2), "1E+99"),
        (dt.DecimalType(9, 2), "NaN"),
        (dt.DecimalType(9, 2), True),
        (dt.DateType(), 2**31),
        (dt.DateType(), True),
        (dt.DateType(), "2017-11-16T00:00:00"),
        (dt.TimeType(), "22:31:08.1234567"),
        (dt.TimestampType(), "2017-11-16T22:31:08.000000+00:00"),
        (dt.TimestampType(), "2017-11-16T22:31:08Z"),
        (dt.TimestampType(utc=True), "2017-11-16T22:31:08"),
        (dt.TimestampType(utc=True), "2017-11-16T22:31:08+01:00"),
        (dt.TimestampType("ns"), 5),
        (dt.StringType(), 5),
        (dt.UuidType(), UUID.replace("-", "")),
        (dt.FixedType(2), "ABCDEF"),
        (dt.BinaryType(), "ABC"),
        (dt.BinaryType(), "zz"),
        (STRUCT, {"1": 1}),
    ],
)
def test_values_of_other_types_are_refused(type_: dt.Type, json: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_single_value(json, type_)
