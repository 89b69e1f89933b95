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
    METADATA,
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
    find_stored,
    is_identity,
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


def test_columns_are_found_by_id_not_by_name():
    a, b = stored(1, "b"), stored(2, "a")
    assert run([want(2, "b"), want(1, "a")], [a, b]) == (Stored(b), Stored(a))


def test_dropped_and_added_again_under_the_same_name_is_another_column():
    assert one(want(5, "a"), stored(1, "a")) == Value(None)


def test_nested_fields_are_found_by_id_in_every_kind_of_nesting():
    x = stored(4, "old_name")
    element = stored_struct(3, "item", stored(9, "x"), x)
    field = want(2, "l", list_of(3, struct(want(4, "x"))))
    assert one(field, stored_list(2, "l", element)) == Stored(
        stored_list(2, "l", element), (Stored(element, (Stored(x),)),)
    )


def test_map_values_are_found_by_id():
    x = stored(5, "renamed")
    key, value = stored(3, "k", STRING), stored_struct(4, "v", x)
    file = stored(2, "m", STORED_MAP, key, value)
    field = want(2, "m", map_of((3, STRING), (4, struct(want(5, "x"), want(6, "added", initial_default=8)))))
    assert one(field, file) == Stored(file, (Stored(key), Stored(value, (Stored(x), Value(8)))))


def test_columns_without_id_are_invisible_where_others_have_one():
    assert run([want(1, "a"), want(2, "b")], [stored(1, "a"), stored(None, "b")]) == (
        Stored(stored(1, "a")),
        Value(None),
    )


def test_field_moved_between_structs_is_another_field():
    file = [stored_struct(1, "s", stored(3, "x")), stored_struct(2, "t")]
    assert run([want(2, "t", struct(want(3, "x")))], file) == (Stored(file[1], (Value(None),)),)


def test_element_without_id_is_still_the_element():
    file = stored_list(1, "l", stored(None, "element"))
    assert one(want(1, "l", list_of(2, INT)), file) == Stored(file, (Stored(file.children[0]),))


def test_element_with_another_id_is_refused():
    with pytest.raises(SchemaMismatchError, match="field id 7 in the file and 2 in the table"):
        one(want(1, "l", list_of(2, INT)), stored_list(1, "l", stored(7, "element")))


def test_two_columns_with_one_id_are_refused():
    with pytest.raises(SchemaMismatchError) as caught:
        one(want(1, "a"), stored(1, "x"), stored(1, "y"))
    assert caught.value.cause == "DuplicateFieldId"


# What the file lacks.


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (want(1, "a"), None),
        (want(1, "a", initial_default=7), 7),
        (want(1, "a", required=True, initial_default=7), 7),
        (want(1, "a", initial_default=0), 0),
        (want(1, "s", struct(want(2, "x", initial_default=1))), None),
        (want(1, "s", struct(want(2, "x", initial_default=1), want(3, "y")), initial_default={}), {2: 1, 3: None}),
        (
            want(
                1,
                "s",
                struct(want(2, "i", struct(want(3, "x", initial_default=4)), initial_default={})),
                initial_default={},
            ),
            {2: {3: 4}},
        ),
        (
            want(1, "s", struct(want(2, "i", struct(want(3, "x", initial_default=4)))), initial_default={}),
            {2: None},
        ),
        (
            want(1, "s", struct(want(2, "x", initial_default=1), want(3, "y", required=True)), initial_default={3: 5}),
            {2: 1, 3: 5},
        ),
    ],
    ids=[
        "null",
        "default",
        "required-with-default",
        "zero",
        "struct-without-default",
        "empty-struct",
        "nested-empty-struct",
        "nested-null-struct",
        "given-child",
    ],
)
def test_missing_field_has_its_initial_default(field, expected):
    assert one(field, stored(9, "other")) == Value(expected)


def test_missing_child_of_a_stored_struct_has_its_own_default():
    file = stored_struct(1, "s", stored(2, "x"))
    field = want(1, "s", struct(want(3, "y", initial_default=7), want(2, "x")), initial_default={})
    assert one(field, file) == Stored(file, (Value(7), Stored(stored(2, "x"))))


def test_struct_without_any_wanted_child_is_still_stored():
    file = stored_struct(1, "s", stored(2, "x"))
    assert one(want(1, "s", struct(want(3, "y"))), file) == Stored(file, (Value(None),))


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


def test_identity_partition_value_fills_a_missing_column():
    assert one(want(1, "a", initial_default=3), stored(2, "b"), partition=[1]) == PartitionValue(1)


def test_stored_column_goes_before_the_partition_value():
    assert one(want(1, "a"), stored(1, "a"), partition=[1]) == Stored(stored(1, "a"))


def test_partition_value_goes_before_name_mapping():
    mapping = NameMapping((mapped(1, "a"), mapped(2, "b")))
    assert run(
        [want(1, "a"), want(2, "b")], [stored(None, "a"), stored(None, "b")], mapping=mapping, partition=[1]
    ) == (
        PartitionValue(1),
        Stored(stored(2, "b")),
    )


def test_partition_value_of_a_nested_field():
    file = stored_struct(1, "s", stored(2, "x"))
    field = want(1, "s", struct(want(2, "x"), want(3, "y")))
    assert one(field, file, partition=[3]) == Stored(file, (Stored(stored(2, "x")), PartitionValue(3)))


def test_partition_value_inside_a_missing_struct_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        one(want(1, "s", struct(want(3, "y"))), stored(9, "z"), partition=[3])
    assert caught.value.rule == "iceberg 5.2"


# Files without ids.


def test_name_mapping_gives_ids_by_any_of_its_names():
    mapping = NameMapping((mapped(1, "a", "alpha"), mapped(0, "zero"), mapped(None, "hidden")))
    file = [stored(None, "alpha"), stored(None, "zero"), stored(None, "hidden"), stored(None, "A")]
    assert run([want(1, "x"), want(0, "y"), want(4, "hidden"), want(5, "A")], file, mapping=mapping) == (
        Stored(stored(1, "alpha")),
        Stored(stored(0, "zero")),
        Value(None),
        Value(None),
    )


def test_name_mapping_reaches_into_lists_maps_and_structs():
    mapping = NameMapping(
        (
            mapped(1, "l", fields=[mapped(2, "element", fields=[mapped(3, "x.y")])]),
            mapped(4, "m", fields=[mapped(5, "key"), mapped(6, "value")]),
        )
    )
    file = [
        stored_list(None, "l", stored_struct(None, "array_element", stored(None, "x.y"))),
        stored(None, "m", STORED_MAP, stored(None, "k"), stored(None, "v")),
    ]
    fields = [want(1, "l", list_of(2, struct(want(3, "z")))), want(4, "m", map_of((5, INT), (6, INT)))]
    item = stored_struct(2, "array_element", stored(3, "x.y"))
    entry = stored(4, "m", STORED_MAP, stored(5, "k"), stored(6, "v"))
    assert run(fields, file, mapping=mapping) == (
        Stored(stored_list(1, "l", item), (Stored(item, (Stored(stored(3, "x.y")),)),)),
        Stored(entry, (Stored(stored(5, "k")), Stored(stored(6, "v")))),
    )


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


def test_name_mapping_is_ignored_where_the_file_has_ids():
    mapping = NameMapping((mapped(2, "a"),))
    assert one(want(2, "a"), stored(1, "a"), mapping=mapping) == Value(None)


def test_two_columns_mapped_to_one_id_are_refused():
    with pytest.raises(SchemaMismatchError, match="'a' and 'b' both have field id 1"):
        one(want(1, "a"), stored(None, "a"), stored(None, "b"), mapping=NameMapping((mapped(1, "a", "b"),)))


def test_parquet_without_ids_and_mapping_goes_by_position():
    file = [stored(None, "x"), stored(None, "y", STRING)]
    assert run([want(2, "x", STRING), want(1, "y"), want(3, "z")], file) == (
        Stored(stored(2, "y", STRING)),
        Stored(stored(1, "x")),
        Value(None),
    )


def test_nested_column_by_position_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        one(want(1, "l", list_of(2, INT)), stored_list(None, "l", stored(None, "element")))
    assert str(caught.value) == (
        "Cannot read nested l by position: the file has no field ids and the table no name mapping; set the table "
        "property schema.name-mapping.default [MissingFieldIds; table t, file f.parquet, field l, rule iceberg 5.6]"
    )


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_avro_and_orc_without_ids_and_mapping_go_by_name(file_format):
    file = [stored_struct(None, "s", stored(None, "y"), stored(None, "x")), stored(None, "a")]
    inner = stored_struct(3, "s", stored(None, "y"), stored(4, "x"))
    assert run([want(1, "a"), want(2, "b"), want(3, "s", struct(want(4, "x")))], file, file_format=file_format) == (
        Stored(stored(1, "a")),
        Value(None),
        Stored(inner, (Stored(stored(4, "x")),)),
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


def test_unknown_is_null_whatever_the_file_holds():
    fields = [want(1, "u", UnknownType()), want(2, "l", list_of(3, UnknownType()))]
    file = [stored(1, "u", STRING), stored_list(2, "l", stored(3, "element"))]
    assert run(fields, file) == (Value(None), Stored(file[1], (Value(None),)))


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


@pytest.mark.parametrize(
    "names",
    [("metadata", "value"), ("value", "metadata"), ("metadata", "value", "typed_value"), ("metadata", "typed_value")],
    ids="-".join,
)
def test_variant_is_stored_with_its_group(names):
    file = stored_struct(1, "v", *(stored(None, name, BinaryType()) for name in names))
    assert one(want(1, "v", VariantType()), file) == Stored(file)


# Identity.


STRUCT_FILE = stored_struct(1, "s", stored(2, "x"), stored_list(3, "l", stored(4, "item", STRING)))


@pytest.mark.parametrize(
    ("field", "file", "expected"),
    [
        (want(1, "a"), stored(1, "other"), True),
        (want(1, "a", LONG), stored(1, "a"), False),
        (want(1, "a", UuidType()), stored(1, "a", FixedType(16)), False),
        (want(1, "t", TimestampType()), stored(1, "t", TimestampType("us", True)), False),
        (want(1, "s", struct(want(2, "x"), want(3, "l", list_of(4, STRING)))), STRUCT_FILE, True),
        (want(1, "s", struct(want(2, "y"), want(3, "l", list_of(4, STRING)))), STRUCT_FILE, False),
        (want(1, "s", struct(want(3, "l", list_of(4, STRING)), want(2, "x"))), STRUCT_FILE, False),
        (want(1, "s", struct(want(2, "x"))), STRUCT_FILE, False),
        (want(1, "s", struct(want(2, "x", LONG), want(3, "l", list_of(4, STRING)))), STRUCT_FILE, False),
        (want(1, "s", struct(want(9, "x"), want(3, "l", list_of(4, STRING)))), STRUCT_FILE, False),
        (
            want(1, "v", VariantType()),
            stored_struct(1, "v", stored(None, "metadata", BinaryType()), stored(None, "value", BinaryType())),
            False,
        ),
        (want(1, "g", GeometryType()), stored(1, "g", GeometryType()), False),
        (want(1, "a"), stored(2, "a"), False),
    ],
    ids=[
        "renamed-column",
        "promoted",
        "uuid-from-fixed",
        "instant-flag",
        "same-struct",
        "renamed-child",
        "reordered",
        "dropped-child",
        "promoted-child",
        "re-added-child",
        "variant",
        "geometry",
        "missing",
    ],
)
def test_identity(field, file, expected):
    assert is_identity(field, one(field, file)) is expected


def test_swapped_children_of_equal_names_are_no_identity():
    field = want(1, "s", struct(want(2, "x"), want(3, "y")))
    assert not is_identity(field, one(field, stored_struct(1, "s", stored(3, "x"), stored(2, "y"))))


def test_stored_metadata_columns_are_found_by_id():
    row_id = stored(METADATA["_row_id"].id, "_row_id", LONG)
    assert find_stored(METADATA["_row_id"].id, (stored(1, "a"), row_id)) == Stored(row_id, place=1)
    assert find_stored(METADATA["_last_updated_sequence_number"].id, (stored(1, "a"), row_id)) is None
