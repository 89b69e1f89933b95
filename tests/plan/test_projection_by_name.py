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
    ColumnLookup,
    PartitionValue,
    Stored,
    Value,
    find_named,
    is_identity,
    resolve,
)

BYTE, SHORT, INT, LONG = (IntegerType(bits) for bits in (8, 16, 32, 64))
FLOAT, DOUBLE, STRING, BINARY, DATE = FloatType(32), FloatType(64), StringType(), BinaryType(), DateType()
NAME, ID = ColumnLookup.DELTA_NAME, ColumnLookup.DELTA_ID
NULL = Value(None)


def want(id_, name, type_=INT, physical=None, required=False):
    return Field(id=id_, name=name, type=type_, physical_name=physical, required=required)


def struct(*fields):
    return StructType(fields)


def list_of(id_, type_):
    return ListType(want(id_, "element", type_))


def map_of(key, value):
    return MapType(want(key[0], "key", key[1]), want(value[0], "value", value[1]))


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


def test_columns_are_found_by_display_name_and_ids_in_the_file_mean_nothing():
    a, b = stored("a", id_=2), stored("b", id_=1)
    sources = run([want(1, "a"), want(2, "b")], [b, a])
    assert sources == (Stored(a), Stored(b))
    assert [s.place for s in sources] == [1, 0]


def test_two_columns_with_one_id_do_not_matter_by_name():
    a, b = stored("a", id_=1), stored("b", id_=1)
    assert run([want(1, "a"), want(2, "b")], [a, b]) == (Stored(a), Stored(b))


def test_exact_name_comes_before_other_letter_case():
    upper, lower = stored("A"), stored("a")
    assert one(want(1, "a"), upper, lower) == Stored(lower)
    assert one(want(1, "A"), upper, lower) == Stored(upper)


def test_other_letter_case_is_found():
    assert one(want(1, "FooBar"), stored("foobar")) == Stored(stored("foobar"))
    assert one(want(1, "Äpfel"), stored("äPFEL")) == Stored(stored("äPFEL"))


def test_two_columns_in_other_letter_case_are_ambiguous():
    error = fails(want(1, "ab"), stored("AB"), stored("aB"))
    assert str(error) == (
        "Cannot read column ab: the file's columns 'AB' and 'aB' may both be 'ab'; rewrite the file "
        "[AmbiguousColumn; table t, file f.parquet, field ab, rule delta T10]"
    )


def test_the_same_name_twice_is_ambiguous():
    assert fails(want(1, "a"), stored("a"), stored("a", LONG)).cause == "AmbiguousColumn"


def test_physical_name_is_the_name():
    renamed = stored("col-1")
    assert one(want(7, "a", physical="col-1"), stored("a"), renamed) == Stored(renamed)


def test_dropped_and_added_again_has_another_physical_name():
    assert one(want(9, "a", physical="col-9"), stored("a"), stored("col-1")) == NULL


def test_physical_names_hold_at_each_struct_level():
    field = want(
        1,
        "a",
        struct(
            want(2, "l", list_of(3, struct(want(4, "x", physical="px"))), physical="pl"),
            want(
                5,
                "m",
                map_of((6, struct(want(7, "k", physical="pk"))), (8, struct(want(9, "v", physical="pv")))),
                physical="pm",
            ),
        ),
        physical="pa",
    )
    px, pk, pv = stored("px"), stored("pk"), stored("pv")
    item = stored("array", STORED_STRUCT, stored("x"), px)
    pl = stored("pl", STORED_LIST, item)
    key, value = stored("key", STORED_STRUCT, stored("k"), pk), stored("value", STORED_STRUCT, pv, stored("v"))
    pm = stored("pm", STORED_MAP, key, value)
    pa = stored("pa", STORED_STRUCT, pm, pl, stored("l"))
    source = one(field, stored("a"), pa)
    assert source == Stored(
        pa,
        (
            Stored(pl, (Stored(item, (Stored(px),)),)),
            Stored(pm, (Stored(key, (Stored(pk),)), Stored(value, (Stored(pv),)))),
        ),
    )
    assert [part.place for part in source.parts] == [1, 0]
    assert source.parts[0].parts[0].parts[0].place == 1


def test_a_name_is_not_looked_for_at_another_level():
    assert one(want(1, "b"), stored("a", STORED_STRUCT, stored("b"))) == NULL


# By id (T11).


def test_columns_are_found_by_id_whatever_they_are_called():
    a, b = stored("a", id_=2), stored("b", id_=1)
    assert run([want(1, "a", physical="a"), want(2, "b", physical="b")], [a, b], lookup=ID) == (Stored(b), Stored(a))


def test_ids_hold_at_each_struct_level_and_parts_are_positional():
    x = stored("renamed", id_=4)
    item = stored("element", STORED_STRUCT, stored("x", id_=99), x, id_=1000)
    file = stored("l", STORED_LIST, item, id_=1)
    field = want(1, "l", list_of(3, struct(want(4, "x", physical="x"))))
    assert one(field, file, lookup=ID) == Stored(file, (Stored(item, (Stored(x),)),))


def test_id_that_the_file_lacks_is_null():
    assert one(want(5, "a", physical="a"), stored("a", id_=1), lookup=ID) == NULL


def test_file_without_ids_is_refused():
    error = fails(want(1, "a", physical="a"), stored("a"), lookup=ID)
    assert str(error) == (
        "Cannot read column a: the table finds columns by field id, and the file's columns at its level have none; "
        "rewrite the file [MissingFieldIds; table t, file f.parquet, field a, rule delta T11]"
    )


def test_struct_without_ids_is_refused_rather_than_read_as_nulls():
    field = want(1, "s", struct(want(2, "x", physical="x")))
    assert fails(field, stored("s", STORED_STRUCT, stored("x"), id_=1), lookup=ID).cause == "MissingFieldIds"


def test_file_without_ids_is_fine_where_nothing_is_looked_up():
    fields = [want(1, "p"), want(2, "v", UnknownType())]
    assert run(fields, [stored("a")], lookup=ID, partition=[1]) == (PartitionValue(1), NULL)


def test_two_columns_with_one_id_are_refused():
    error = fails(want(1, "a"), stored("a", id_=1), stored("b", id_=1), lookup=ID)
    assert (error.cause, error.rule) == ("DuplicateFieldId", "delta T11")


# Partition values come first (V1).


@pytest.mark.parametrize("lookup", [NAME, ID])
def test_partition_value_wins_over_a_stored_column(lookup):
    assert one(want(1, "p"), stored("p", id_=1), lookup=lookup, partition=[1]) == PartitionValue(1)
    assert one(want(1, "p", required=True), stored("x", id_=9), lookup=lookup, partition=[1]) == PartitionValue(1)


def test_iceberg_still_prefers_the_file():
    p = stored("p", id_=1)
    assert one(want(1, "p"), p, lookup=ColumnLookup.ICEBERG, partition=[1]) == Stored(p)


# What is missing is null (T5, T7, T8).


@pytest.mark.parametrize("lookup", [NAME, ID])
def test_missing_columns_are_null_whatever_they_promise(lookup):
    assert one(want(2, "b", required=True), stored("a", id_=1), lookup=lookup) == NULL
    assert (
        one(want(2, "b", struct(want(3, "x", required=True)), required=True), stored("a", id_=1), lookup=lookup) == NULL
    )


def test_struct_without_any_wanted_child_keeps_its_own_nulls():
    old = stored("s", STORED_STRUCT, stored("dropped"))
    assert one(want(1, "s", struct(want(2, "new", required=True))), old) == Stored(old, (NULL,))


def test_element_with_new_fields_only_keeps_lengths():
    item = stored("element", STORED_STRUCT, stored("dropped"))
    file = stored("l", STORED_LIST, item)
    assert one(want(1, "l", list_of(2, struct(want(3, "new")))), file) == Stored(file, (Stored(item, (NULL,)),))


def test_key_with_a_new_field_is_read():
    key = stored("key", STORED_STRUCT, stored("a"))
    file = stored("m", STORED_MAP, key, stored("value"))
    field = want(1, "m", map_of((2, struct(want(3, "a"), want(4, "b"))), (5, INT)))
    assert one(field, file) == Stored(file, (Stored(key, (Stored(stored("a")), NULL)), Stored(stored("value"))))


def test_void_is_null_at_every_level():
    item = stored("element")
    file = stored("l", STORED_LIST, item)
    assert one(want(1, "v", UnknownType()), stored("v")) == NULL
    assert one(want(1, "l", list_of(2, UnknownType())), file) == Stored(file, (NULL,))


def test_stored_columns_that_nobody_wants_are_left():
    a = stored("a")
    assert run([want(1, "a")], [stored("_change_type", STRING), a, stored("dropped")]) == (Stored(a),)


def test_opaque_types_are_refused_when_read():
    with pytest.raises(UnsupportedError) as error:
        one(want(1, "i", OpaqueType("interval day to second")), stored("i", LONG))
    assert (error.value.cause, error.value.field, error.value.rule) == ("UnsupportedType", "i", "delta T28")


def test_variant_group_is_a_variant():
    group = stored("v", STORED_STRUCT, stored("value", BINARY), stored("metadata", BINARY))
    assert one(want(1, "v", VariantType()), group) == Stored(group)


def test_variant_is_a_group_without_ids_in_id_mode():
    group = stored("v", STORED_STRUCT, stored("value", BINARY), stored("metadata", BINARY), id_=1)
    assert one(want(1, "v", VariantType()), group, lookup=ID) == Stored(group)


def test_unchanged_columns_are_told_from_renamed_ones():
    same = stored("S", STORED_STRUCT, stored("x"))
    renamed = stored("s", STORED_STRUCT, stored("X"))
    field = want(1, "s", struct(want(2, "x")))
    assert is_identity(field, one(field, same))
    assert not is_identity(field, one(field, renamed))


def test_materialised_columns_are_found_by_exact_name():
    row_id = stored("_row-id-col-1", LONG)
    assert find_named("_row-id-col-1", (stored("a"), row_id)) == Stored(row_id, place=1)
    assert find_named("_ROW-ID-COL-1", (stored("a"), row_id)) is None


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


def test_widening_inside_nested_types():
    key, value = stored("key", BYTE), stored("value", FLOAT)
    file = stored("m", STORED_MAP, key, value)
    assert one(want(1, "m", map_of((2, INT), (3, DOUBLE))), file) == Stored(file, (Stored(key), Stored(value)))


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
