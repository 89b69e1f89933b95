"""SQL text of names, types and values, as text and as DuckDB understands it."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from harness.engines.duckdb.columns import cast
from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.filters import sqltext
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
    Type,
    UnknownType,
    UuidType,
    VariantType,
)

INT, LONG, TEXT = IntegerType(32), IntegerType(64), StringType()


def field(id_: int, name: str, type_: Type) -> Field:
    return Field(id=id_, name=name, type=type_)


@pytest.fixture(scope="module")
def connection():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    yield connection
    connection.close()


def value_of(connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
    return connection.execute(f"SELECT {expression}").fetchall()[0][0]


@pytest.mark.parametrize("name", ['a"b', '"', "a.b", " ", "🦆", "select", "a'b", "x\ny", "$1", "?"])
def test_names_survive(connection, name):
    assert connection.execute(f"SELECT 1 AS {sqltext.name(name)}").description[0][0] == name
    assert value_of(connection, sqltext.struct({name: "1"})) == {name: 1}


def test_the_empty_name_is_refused():
    with pytest.raises(UnsupportedError, match="UnsupportedName"):
        sqltext.name("")


@pytest.mark.parametrize("text", ["", "'", "''", "a\0b", "\0", "\\", "\\x00", "🦆", "\n", "--", "$$", "%s", "?"])
def test_texts_survive(connection, text):
    assert value_of(connection, sqltext.text(text)) == text


def test_paths_are_no_globs():
    assert list(map(sqltext.glob_free, ("a[b].parquet", "*?'"))) == ["a[[]b].parquet", "[*][?]'"]


LITERALS: list[tuple[Type, Any, str, str]] = [
    (BooleanType(), True, "{}", "true"),
    (INT, -(2**31), "{}", "-2147483648"),
    (LONG, -(2**63), "{}", "-9223372036854775808"),
    (FloatType(64), 0.1, "{}", "0.1"),
    (FloatType(64), math.nan, "isnan({})", "true"),
    (FloatType(64), -math.inf, "{}", "-inf"),
    (FloatType(64), -0.0, "signbit({})", "true"),
    (FloatType(64), 5e-324, "{} > 0", "true"),
    (FloatType(32), 0.10000000149011612, "CAST({} AS DOUBLE)", "0.10000000149011612"),
    (DecimalType(38, 10), Decimal("-0.0000000001"), "{}", "-0.0000000001"),
    (DecimalType(9, 2), Decimal("1E+3"), "{}", "1000.00"),
    (DateType(), -719163, "{}", "0001-12-31 (BC)"),
    (DateType(), 2932897, "{}", "10000-01-01"),
    (TimeType(), 86_399_999_999, "{}", "23:59:59.999999"),
    (TimestampType(), -1, "epoch_us({})", "-1"),
    (TimestampType(utc=True), -1, "epoch_us({})", "-1"),
    (TimestampType(utc=True), -62135596800000000, "epoch_us({})", "-62135596800000000"),
    (TimestampType("ns"), -1, "epoch_ns({})", "-1"),
    (TimestampType("ns", utc=True), 1, "epoch_ns({})", "1"),
    (TEXT, "it's\0", "hex({})", "697427730" + "0"),
    (UuidType(), uuid.UUID(int=2**127).bytes, "{}", "80000000-0000-0000-0000-000000000000"),
    (FixedType(2), b"\0\xff", "hex({})", "00FF"),
    (BinaryType(), b"", "octet_length({})", "0"),
    (GeometryType(), b"\1", "hex({})", "01"),
    (GeographyType(), b"\1", "hex({})", "01"),
    (ListType(field(2, "element", INT)), [1, None], "{}", "[1, NULL]"),
    (ListType(field(2, "element", INT)), [], "{}", "[]"),
    (MapType(field(2, "key", TEXT), field(3, "value", INT)), [("k", None)], "{}", "{k=NULL}"),
    (StructType((field(2, "a", INT), field(3, "b", TEXT))), {2: 1}, "{}", "{'a': 1, 'b': NULL}"),
]


@pytest.mark.parametrize(("type_", "value", "shown", "expected"), LITERALS, ids=[f"{t[0]} {t[1]!r}" for t in LITERALS])
def test_literals(connection, type_, value, shown, expected):
    expression = sqltext.literal(value, type_)
    assert value_of(connection, f"CAST({shown.format(expression)} AS VARCHAR)") == expected
    wanted = sqltext.type_name(type_)
    assert value_of(connection, f"typeof({expression})").replace('"', "") == wanted.replace('"', "")


TYPES: list[tuple[Type, str]] = [
    (IntegerType(8), "TINYINT"),
    (DecimalType(38, 3), "DECIMAL(38,3)"),
    (TimestampType(utc=True), "TIMESTAMP WITH TIME ZONE"),
    (TimestampType("ns", utc=True), "TIMESTAMP_NS"),
    (VariantType(), "VARCHAR"),
    (GeometryType(), "BLOB"),
    (UnknownType(), "INTEGER"),
    (StructType((field(1, "a b", INT), field(2, 'q"', TEXT))), 'STRUCT("a b" INTEGER, "q""" VARCHAR)'),
    (ListType(field(1, "element", ListType(field(2, "element", INT)))), "INTEGER[][]"),
    (MapType(field(1, "key", TEXT), field(2, "value", BooleanType())), "MAP(VARCHAR, BOOLEAN)"),
]


@pytest.mark.parametrize(("type_", "expected"), TYPES, ids=[str(t[0]) for t in TYPES])
def test_types_and_their_nulls(connection, type_, expected):
    assert sqltext.type_name(type_) == expected
    assert value_of(connection, sqltext.literal(None, type_)) is None
    assert value_of(connection, f"typeof({sqltext.literal(None, type_)})").replace('"', "") == expected.replace('"', "")


def test_an_unknown_type_is_refused():
    with pytest.raises(UnsupportedError, match="float128"):
        sqltext.type_name(OpaqueType("float128"))


CASTS: list[tuple[str, str, Type, str, str]] = [
    ("'\\xC3\\xBC'::BLOB", "BLOB", TEXT, "{}", "ü"),
    ("'ü'", "VARCHAR", BinaryType(), "hex({})", "C3BC"),
    (
        "'\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'::BLOB",
        "BLOB",
        UuidType(),
        "{}",
        "80000000-0000-0000-0000-000000000001",
    ),
    ("'80000000-0000-0000-0000-000000000001'", "VARCHAR", UuidType(), "{}", "80000000-0000-0000-0000-000000000001"),
    ("1::INTEGER", "INTEGER", DateType(), "{}", "1970-01-02"),
    ("DATE '1969-12-31'", "DATE", TimestampType(), "epoch_us({})", "-86400000000"),
    ("DATE '1969-12-31'", "DATE", TimestampType("ns"), "epoch_ns({})", "-86400000000000"),
    ("TIMESTAMP '2020-07-01 00:00:00'", "TIMESTAMP", TimestampType(utc=True), "epoch_us({})", "1593561600000000"),
    (
        "make_timestamp(1593561600000000) AT TIME ZONE 'UTC'",
        "TIMESTAMP WITH TIME ZONE",
        TimestampType(),
        "epoch_us({})",
        "1593561600000000",
    ),
    ("make_timestamp_ns(-1001)", "TIMESTAMP_NS", TimestampType(), "epoch_us({})", "-2"),
    ("make_timestamp_ns(-1000)", "TIMESTAMP_NS", TimestampType(utc=True), "epoch_us({})", "-1"),
    ("make_timestamp_ns(999)", "TIMESTAMP_NS", TimestampType(), "epoch_us({})", "0"),
    ("make_timestamp(-1)", "TIMESTAMP", TimestampType("ns"), "epoch_ns({})", "-1000"),
    ("(-5)::BIGINT", "BIGINT", TimestampType(utc=True), "epoch_us({})", "-5"),
    ("(-5)::BIGINT", "BIGINT", TimestampType("ns"), "epoch_ns({})", "-5"),
    ("7::BIGINT", "BIGINT", TimeType(), "{}", "00:00:00.000007"),
    ("1.5::FLOAT", "FLOAT", FloatType(64), "{}", "1.5"),
]


@pytest.mark.parametrize(
    ("value", "shown", "target", "probe", "expected"), CASTS, ids=[f"{c[1]} to {c[2]}" for c in CASTS]
)
def test_casts(connection, value, shown, target, probe, expected):
    source = f"(SELECT {value} AS x)"
    expression = cast("x", shown, target)
    (row,) = connection.execute(
        f"SELECT CAST({probe.format(expression)} AS VARCHAR), typeof({expression}) FROM {source}"
    ).fetchall()
    assert row == (expected, sqltext.type_name(target))
    assert connection.execute(f"SELECT {expression} FROM {source} WHERE false").fetchall() == []
    null = connection.execute(f"SELECT {expression} FROM (SELECT CASE WHEN random() < 0 THEN x END AS x FROM {source})")
    assert null.fetchall() == [(None,)]


def test_a_cast_that_nothing_defines_is_refused():
    with pytest.raises(SchemaMismatchError, match="IncompatibleType"):
        cast("x", "INTEGER", StructType(()))
