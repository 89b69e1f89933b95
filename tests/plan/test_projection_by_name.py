from __future__ import annotations

import pytest

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.model.file_schema import (
    STORED_LIST,
    STORED_MAP,
    STORED_STRUCT,
    PhysicalField,
    readable,
    readable_in_delta,
    widens,
)
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    Int96Type,
    IntegerType,
    ListType,
    OpaqueType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UnknownType,
    UnsignedType,
    UuidType,
    VariantType,
)
from harness.metadata.plan.projection import (
    ColumnLookup,
    Stored,
    Value,
    resolve,
)

BYTE, SHORT, INT, LONG = (IntegerType(bits) for bits in (8, 16, 32, 64))
FLOAT, DOUBLE, STRING, BINARY, DATE = FloatType(32), FloatType(64), StringType(), BinaryType(), DateType()
NAME, ID = ColumnLookup.DELTA_NAME, ColumnLookup.DELTA_ID


def want(id_, name, type_=INT, physical=None, required=False):
    return Field(id=id_, name=name, type=type_, physical_name=physical, required=required)


def struct(*fields):
    return StructType(fields)


def list_of(id_, type_):
    return ListType(want(id_, "element", type_))


def stored(name, type_=INT, *children, id_=None):
    return PhysicalField(name=name, id=id_, type=type_, children=children)


def run(fields, file, *, lookup=NAME, partition=()):
    return resolve(
        tuple(fields),
        tuple(file),
        name_mapping=None,
        partition_ids=frozenset(partition),
        file_path="f.parquet",
        table="t",
        lookup=lookup,
    )


def one(field, *file, **options):
    (source,) = run([field], file, **options)
    return source


def fails(field, *file, **options):
    with pytest.raises(SchemaMismatchError) as error:
        one(field, *file, **options)
    return error.value


# By name (T10).


def test_two_columns_in_other_letter_case_are_ambiguous():
    error = fails(want(1, "ab"), stored("AB"), stored("aB"))
    assert str(error) == (
        "Cannot read column ab: the file's columns 'AB' and 'aB' may both be 'ab'; rewrite the file "
        "[AmbiguousColumn; table t, file f.parquet, field ab, rule delta T10]"
    )


def test_the_same_name_twice_is_ambiguous():
    assert fails(want(1, "a"), stored("a"), stored("a", LONG)).cause == "AmbiguousColumn"


# By id (T11).


def test_file_without_ids_is_refused():
    error = fails(want(1, "a", physical="a"), stored("a"), lookup=ID)
    assert str(error) == (
        "Cannot read column a: the table finds columns by field id, and the file's columns at its level have none; "
        "rewrite the file [MissingFieldIds; table t, file f.parquet, field a, rule delta T11]"
    )


def test_struct_without_ids_is_refused_rather_than_read_as_nulls():
    field = want(1, "s", struct(want(2, "x", physical="x")))
    assert fails(field, stored("s", STORED_STRUCT, stored("x"), id_=1), lookup=ID).cause == "MissingFieldIds"


def test_two_columns_with_one_id_are_refused():
    error = fails(want(1, "a"), stored("a", id_=1), stored("b", id_=1), lookup=ID)
    assert (error.cause, error.rule) == ("DuplicateFieldId", "delta T11")


# What is missing is null (T5, T7, T8).


def test_opaque_types_are_refused_when_read():
    with pytest.raises(UnsupportedError) as error:
        one(want(1, "i", OpaqueType("interval day to second")), stored("i", LONG))
    assert (error.value.cause, error.value.field, error.value.rule) == ("UnsupportedType", "i", "delta T28")


# Types (T16 to T18, T22, T25).

WIDER = [
    (BYTE, SHORT),
    (BYTE, INT),
    (BYTE, LONG),
    (SHORT, INT),
    (SHORT, LONG),
    (INT, LONG),
    (FLOAT, DOUBLE),
    (BYTE, DOUBLE),
    (SHORT, DOUBLE),
    (INT, DOUBLE),
    (BYTE, DecimalType(3, 0)),  # just its range
    (BYTE, DecimalType(4, 1)),
    (BYTE, DecimalType(10, 0)),
    (SHORT, DecimalType(5, 0)),
    (SHORT, DecimalType(12, 2)),
    (INT, DecimalType(38, 28)),
    (LONG, DecimalType(20, 0)),
    (LONG, DecimalType(38, 18)),
    (DecimalType(10, 2), DecimalType(11, 2)),
    (DecimalType(10, 2), DecimalType(13, 5)),
    (DATE, TimestampType()),
]
SAME = [
    (t, t)
    for t in (
        BooleanType(),
        BYTE,
        SHORT,
        INT,
        LONG,
        FLOAT,
        DOUBLE,
        STRING,
        BINARY,
        DATE,
        DecimalType(5, 2),
        TimestampType(),
        TimestampType(utc=True),
    )
]
ENCODINGS = [
    (INT, BYTE),
    (INT, SHORT),
    (SHORT, BYTE),
    (UnsignedType(8), SHORT),
    (UnsignedType(32), LONG),
    (DecimalType(18, 2), DecimalType(5, 2)),
    (BINARY, STRING),
    (STRING, BINARY),
    (FixedType(3), BINARY),
    (Int96Type(), TimestampType()),
    (Int96Type(), TimestampType(utc=True)),
    (TimestampType("ms"), TimestampType(utc=True)),
    (TimestampType("ms", utc=True), TimestampType()),
    (TimestampType(utc=True), TimestampType()),
    (TimestampType(), TimestampType(utc=True)),
    (INT, UnknownType()),
]
REFUSED = [
    (LONG, INT),
    (LONG, SHORT),
    (LONG, DOUBLE),
    (INT, FLOAT),
    (DOUBLE, FLOAT),
    (FLOAT, INT),
    (DOUBLE, LONG),
    (FloatType(16), FLOAT),
    (UnsignedType(64), LONG),
    (UnsignedType(32), INT),
    (INT, DecimalType(9, 0)),
    (SHORT, DecimalType(5, 1)),
    (BYTE, DecimalType(2, 0)),
    (INT, DecimalType(11, 2)),
    (LONG, DecimalType(19, 0)),
    (DecimalType(10, 2), DecimalType(12, 5)),
    (DecimalType(10, 2), DecimalType(10, 1)),
    (DecimalType(10, 0), LONG),
    (DATE, TimestampType(utc=True)),
    (TimestampType(), DATE),
    (INT, DATE),
    (LONG, TimestampType()),
    (TimestampType("ns"), TimestampType()),
    (TimestampType("ns", utc=True), TimestampType(utc=True)),
    (STRING, INT),
    (INT, STRING),
    (UuidType(), STRING),
    (FixedType(16), STRING),
    (UuidType(), BINARY),
    (BooleanType(), INT),
    (INT, BooleanType()),
    (TimeType(), LONG),
    (BINARY, VariantType()),
    (STORED_STRUCT, STRING),
]


def ids(pairs):
    return [f"{a} as {b}" for a, b in pairs]


@pytest.mark.parametrize(("from_", "to"), WIDER, ids=ids(WIDER))
def test_widenings(from_, to):
    assert widens(from_, to)
    assert readable_in_delta(from_, to)
    assert not widens(to, from_)


@pytest.mark.parametrize(("from_", "to"), SAME + ENCODINGS, ids=ids(SAME + ENCODINGS))
def test_encodings_are_read_and_are_no_widenings(from_, to):
    assert readable_in_delta(from_, to)
    assert not widens(from_, to)
    assert isinstance(one(want(1, "a", to), stored("a", from_)), Stored if to != UnknownType() else Value)


@pytest.mark.parametrize(("from_", "to"), REFUSED, ids=ids(REFUSED))
def test_other_types_are_refused(from_, to):
    assert not readable_in_delta(from_, to)
    error = fails(want(1, "a", to), stored("a", from_))
    assert (error.cause, error.rule) == ("IncompatibleType", "delta T23")


@pytest.mark.parametrize(
    ("from_", "to"),
    [
        (INT, DOUBLE),
        (INT, DecimalType(10, 0)),
        (DecimalType(10, 2), DecimalType(13, 5)),
        (STRING, BINARY),
        (INT, SHORT),
    ],
)
def test_iceberg_does_not_get_looser(from_, to):
    assert not readable(from_, to)
    assert fails(want(1, "a", to), stored("a", from_, id_=1), lookup=ColumnLookup.ICEBERG).rule == "iceberg 5.12"


def test_incompatible_type_message_names_the_path():
    file = stored("s", STORED_STRUCT, stored("l", STORED_LIST, stored("element", LONG)))
    error = fails(want(1, "s", struct(want(2, "l", list_of(3, INT)))), file)
    assert str(error) == (
        "Cannot read column s.l.element: the file stores long and the table has int, which it cannot be read as; "
        "rewrite the file [IncompatibleType; table t, file f.parquet, field s.l.element, rule delta T23]"
    )


@pytest.mark.parametrize(
    ("type_", "file"),
    [
        (struct(want(2, "x")), stored("a")),
        (INT, stored("a", STORED_STRUCT, stored("x"))),
        (list_of(2, INT), stored("a", STORED_MAP, stored("key"), stored("value"))),
    ],
    ids=["struct-from-int", "int-from-struct", "list-from-map"],
)
def test_kinds_of_nesting_must_agree(type_, file):
    assert fails(want(1, "a", type_), file).cause == "IncompatibleType"
