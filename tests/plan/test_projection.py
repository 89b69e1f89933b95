"""Resolution of a file's columns onto a table's fields. Expectations by hand from sections 5 and 6 of the rules."""

from __future__ import annotations

import pytest

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.model.file_schema import (
    STORED_LIST,
    STORED_MAP,
    STORED_STRUCT,
    MappedName,
    NameMapping,
    PhysicalField,
    readable,
)
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
    Int96Type,
    IntegerType,
    ListType,
    MapType,
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
    PartitionValue,
    Stored,
    Value,
    is_positional,
    resolve,
)

INT, LONG, STRING = IntegerType(32), IntegerType(64), StringType()


def want(id_, name, type_=INT, **more):
    return Field(id=id_, name=name, type=type_, **more)


def struct(*fields):
    return StructType(fields)


def list_of(id_, type_):
    return ListType(want(id_, "element", type_))


def map_of(key, value):
    return MapType(want(key[0], "key", key[1]), want(value[0], "value", value[1]))


def stored(id_, name, type_=INT, *children):
    return PhysicalField(name=name, id=id_, type=type_, children=children)


def stored_struct(id_, name, *children):
    return stored(id_, name, STORED_STRUCT, *children)


def stored_list(id_, name, element):
    return stored(id_, name, STORED_LIST, element)


def run(fields, file, *, mapping=None, partition=(), file_format="parquet"):
    return resolve(
        tuple(fields),
        tuple(file),
        name_mapping=mapping,
        partition_ids=frozenset(partition),
        file_format=file_format,
        file_path="f.parquet",
        table="t",
    )


def one(field, *file, **options):
    (source,) = run([field], file, **options)
    return source


def mapped(id_, *names, fields=()):
    return MappedName(names=names, field_id=id_, fields=tuple(fields))


# By id.


def test_field_moved_between_structs_is_another_field():
    file = [stored_struct(1, "s", stored(3, "x")), stored_struct(2, "t")]
    assert run([want(2, "t", struct(want(3, "x")))], file) == (Stored(file[1], (Value(None),)),)


def test_element_with_another_id_is_refused():
    with pytest.raises(SchemaMismatchError, match="field id 7 in the file and 2 in the table"):
        one(want(1, "l", list_of(2, INT)), stored_list(1, "l", stored(7, "element")))


def test_two_columns_with_one_id_are_refused():
    with pytest.raises(SchemaMismatchError) as caught:
        one(want(1, "a"), stored(1, "x"), stored(1, "y"))
    assert caught.value.cause == "DuplicateFieldId"


# What the file lacks.


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (want(1, "a", required=True), "a"),
        (want(1, "s", struct(want(2, "x", required=True)), initial_default={}), "s.x"),
        (want(9, "s", struct(want(2, "x", required=True))), "s.x"),
    ],
    ids=["top", "inside-default", "inside-stored"],
)
def test_missing_required_field_is_refused(field, name):
    with pytest.raises(SchemaMismatchError) as caught:
        one(field, stored_struct(9, "s", stored(8, "z")))
    assert (caught.value.cause, caught.value.field) == ("MissingRequiredField", name)


def test_missing_required_field_message():
    with pytest.raises(SchemaMismatchError) as caught:
        one(want(1, "a", required=True), stored(9, "b"))
    assert str(caught.value) == (
        "Cannot read required column a: the file lacks field id 1, which has no initial default; rewrite the file, or "
        "make the column optional [MissingRequiredField; table t, file f.parquet, field a, rule iceberg 5.2]"
    )


def test_map_key_may_not_lack_fields():
    key = stored_struct(2, "key", stored(3, "x"))
    file = stored(1, "m", STORED_MAP, key, stored(5, "value"))
    with pytest.raises(SchemaMismatchError, match="lacks a part of the map's key"):
        one(want(1, "m", map_of((2, struct(want(3, "x"), want(4, "y"))), (5, INT))), file)


# Partition values.


def test_partition_value_goes_before_name_mapping():
    mapping = NameMapping((mapped(1, "a"), mapped(2, "b")))
    assert run(
        [want(1, "a"), want(2, "b")], [stored(None, "a"), stored(None, "b")], mapping=mapping, partition=[1]
    ) == (
        PartitionValue(1),
        Stored(stored(2, "b")),
    )


def test_partition_value_inside_a_missing_struct_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        one(want(1, "s", struct(want(3, "y"))), stored(9, "z"), partition=[3])
    assert caught.value.rule == "iceberg 5.2"


# Files without ids.


CORRECT = "correct the table property schema.name-mapping.default, by which the file's columns have their ids"


@pytest.mark.parametrize(
    ("field", "entry", "told"),
    [
        pytest.param(
            want(1, "l", list_of(3, INT)),
            mapped(1, "l", fields=[mapped(2, "element")]),
            f"l.element: it has field id 2 in the name mapping and 3 in the table's schema; {CORRECT} [",
            id="element",
        ),
        pytest.param(
            want(1, "l", list_of(2, STRING)),
            mapped(1, "l", fields=[mapped(2, "element")]),
            f"cannot be read as; rewrite the file, or {CORRECT} [",
            id="type",
        ),
        pytest.param(
            want(3, "l", list_of(2, INT), required=True),
            mapped(1, "l", fields=[mapped(2, "element")]),
            f"the file lacks field id 3, which has no initial default; {CORRECT}, or make the column optional [",
            id="required",
        ),
    ],
)
def test_what_a_name_mapping_gets_wrong_is_no_fault_of_the_file(field, entry, told):
    with pytest.raises(SchemaMismatchError) as caught:
        one(field, stored_list(None, "l", stored(None, "x", INT)), mapping=NameMapping((entry,)))
    assert told in str(caught.value)


def test_two_columns_mapped_to_one_id_are_refused():
    with pytest.raises(SchemaMismatchError, match="'a' and 'b' both have field id 1"):
        one(want(1, "a"), stored(None, "a"), stored(None, "b"), mapping=NameMapping((mapped(1, "a", "b"),)))


def test_nested_column_by_position_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        one(want(1, "l", list_of(2, INT)), stored_list(None, "l", stored(None, "element")))
    assert str(caught.value) == (
        "Cannot read nested l by position: the file has no field ids and the table no name mapping; set the table "
        "property schema.name-mapping.default [MissingFieldIds; table t, file f.parquet, field l, rule iceberg 5.6]"
    )


@pytest.mark.parametrize(
    ("file", "mapping", "file_format", "expected"),
    [
        ([stored(None, "a")], None, "parquet", True),
        ([stored(1, "a")], None, "parquet", False),
        ([stored_list(None, "a", stored(1, "b"))], None, "parquet", False),
        ([stored(None, "a")], NameMapping(()), "parquet", False),
        ([stored(None, "a")], None, "orc", False),
    ],
    ids=["positional", "ids", "nested-id", "mapping", "orc"],
)
def test_positional_files_are_told(file, mapping, file_format, expected):
    assert is_positional(tuple(file), name_mapping=mapping, file_format=file_format) is expected


# Types.


READABLE = [
    (BooleanType(), BooleanType()),
    (INT, INT),
    (IntegerType(8), INT),
    (UnsignedType(16), INT),
    (INT, LONG),
    (LONG, LONG),
    (UnsignedType(32), LONG),
    (FloatType(32), FloatType(32)),
    (FloatType(32), FloatType(64)),
    (DecimalType(9, 2), DecimalType(9, 2)),
    (DecimalType(9, 2), DecimalType(18, 2)),
    (DateType(), DateType()),
    (INT, DateType()),
    (TimeType("ms"), TimeType()),
    (TimeType("us"), TimeType()),
    (TimestampType("ms", True), TimestampType()),
    (TimestampType("us"), TimestampType("us", True)),
    (TimestampType("ns"), TimestampType()),
    (TimestampType("us"), TimestampType("ns")),
    (Int96Type(), TimestampType()),
    (Int96Type(), TimestampType("us", True)),
    (DateType(), TimestampType()),
    (DateType(), TimestampType("ns")),
    (STRING, STRING),
    (BinaryType(), STRING),
    (UuidType(), UuidType()),
    (FixedType(16), UuidType()),
    (STRING, UuidType()),
    (FixedType(3), FixedType(3)),
    (BinaryType(), BinaryType()),
    (BinaryType(), GeometryType("EPSG:1")),
    (GeometryType(), GeometryType("EPSG:1")),
    (BinaryType(), GeographyType()),
]
NOT_READABLE = [
    (INT, BooleanType()),
    (LONG, INT),
    (UnsignedType(32), INT),
    (UnsignedType(64), LONG),
    (INT, FloatType(64)),
    (INT, STRING),
    (FloatType(64), FloatType(32)),
    (FloatType(16), FloatType(32)),
    (DecimalType(18, 2), DecimalType(9, 2)),
    (DecimalType(9, 2), DecimalType(18, 3)),
    (LONG, DecimalType(18, 0)),
    (LONG, DateType()),
    (TimestampType(), DateType()),
    (TimeType("ns"), TimeType()),
    (LONG, TimeType()),
    (LONG, TimestampType()),
    (DateType(), TimestampType("us", True)),
    (Int96Type(), TimestampType("ns")),
    (STRING, INT),
    (STRING, BinaryType()),
    (FixedType(4), FixedType(5)),
    (FixedType(5), BinaryType()),
    (FixedType(15), UuidType()),
    (BinaryType(), UuidType()),
    (OpaqueType("interval"), STRING),
    (STORED_STRUCT, STRING),
    (STRING, VariantType()),
]


@pytest.mark.parametrize(("file_type", "table_type"), READABLE, ids=str)
def test_readable_types(file_type, table_type):
    assert readable(file_type, table_type)
    source = stored(1, "a", file_type)
    assert one(want(1, "a", table_type), source) == Stored(source)


@pytest.mark.parametrize(("file_type", "table_type"), NOT_READABLE, ids=str)
def test_types_that_cannot_be_read(file_type, table_type):
    assert not readable(file_type, table_type)
    with pytest.raises(SchemaMismatchError) as caught:
        one(want(1, "a", table_type), stored(1, "a", file_type))
    assert caught.value.cause == "IncompatibleType"


def test_incompatible_type_message():
    file = stored_struct(1, "s", stored(2, "old", LONG))
    with pytest.raises(SchemaMismatchError) as caught:
        one(want(1, "s", struct(want(2, "x"))), file)
    assert str(caught.value) == (
        "Cannot read column s.x: the file stores long and the table has int, which it cannot be read as; rewrite the "
        "file [IncompatibleType; table t, file f.parquet, field s.x, rule iceberg 5.12]"
    )


@pytest.mark.parametrize(
    ("field", "file"),
    [
        (want(1, "a", struct(want(2, "x"))), stored(1, "a")),
        (want(1, "a"), stored_struct(1, "a", stored(2, "x"))),
        (want(1, "a", list_of(2, INT)), stored_struct(1, "a", stored(2, "element"))),
        (want(1, "a", map_of((2, INT), (3, INT))), stored_list(1, "a", stored(2, "element"))),
        (want(1, "a", VariantType()), stored_struct(1, "a", stored(None, "value", BinaryType()))),
    ],
    ids=["struct-int", "int-struct", "list-struct", "map-list", "variant-without-metadata"],
)
def test_kinds_of_nesting_do_not_mix(field, file):
    with pytest.raises(SchemaMismatchError):
        one(field, file)


def test_orc_wall_clock_is_no_instant():
    with pytest.raises(SchemaMismatchError):
        one(want(1, "t", TimestampType("us", True)), stored(1, "t", TimestampType("ns")), file_format="orc")
    same = stored(1, "t", TimestampType("ns", True))
    assert one(want(1, "t", TimestampType("us", True)), same, file_format="orc") == Stored(same)


def test_column_stored_as_unknown_is_null():
    assert one(want(1, "a", STRING, initial_default="x"), stored(1, "a", UnknownType())) == Value(None)


@pytest.mark.parametrize(
    "field",
    [
        want(1, "o", OpaqueType("money")),
        want(1, "o", struct(want(2, "x", OpaqueType("money")))),
        want(1, "o", list_of(2, OpaqueType("money"))),
    ],
    ids=["column", "in-struct", "in-list"],
)
def test_unknown_type_names_are_refused_where_they_are_read(field):
    file = stored_list(1, "o", stored(2, "element"))
    file = file if isinstance(field.type, ListType) else stored_struct(1, "o", stored(2, "x"))
    with pytest.raises(UnsupportedError) as caught:
        one(field, file)
    assert (caught.value.cause, caught.value.rule) == ("UnsupportedType", "iceberg 1.22")
