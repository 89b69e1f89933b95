"""Schemas in JSON: types, fields, column mapping annotations, and refused schemas."""

import json

import pytest

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.delta.protocol import MappingMode
from harness.metadata.delta.types import parse_schema, parse_type_name
from harness.metadata.model import schema as dt


def column(name, type_="integer", nullable=True, **metadata):
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(element, contains_null=True):
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(key, value, contains_null=True):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": contains_null}


def parse(*fields, **options):
    return parse_schema(json.dumps(struct(*fields)), **options)


def refused(*fields, **options):
    with pytest.raises(InvalidTableError) as error:
        parse(*fields, **options)
    assert error.value.cause == "SchemaError"
    return error.value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("null", dt.UnknownType()),
        ("decimal", dt.DecimalType(10, 0)),
        ("decimal( 5 , 5 )", dt.DecimalType(5, 5)),
        ("string collate UTF8_LCASE", dt.StringType()),
        ("interval year to month", dt.OpaqueType("interval year to month")),
        ("interval", dt.OpaqueType("interval")),
        ("geometry(4326)", dt.OpaqueType("geometry(4326)")),
        ("geography(OGC:CRS84, spherical)", dt.OpaqueType("geography(OGC:CRS84, spherical)")),
    ],
)
def test_primitive_types(name, expected):
    assert parse(column("c", name)).schema.fields[0].type == expected


@pytest.mark.parametrize(
    "name",
    [
        "int",
        "INTEGER",
        "bigint",
        "decimal(39,0)",
        "decimal(0,0)",
        "decimal(3,4)",
        "decimal(5,-2)",
        "decimal(5)",
        "",
        "x",
        "timestamp_ns",
        "intervals",
        "geometries",
    ],
)
def test_unknown_type_names_are_refused_when_loading(name):
    assert parse_type_name(name) is None
    with pytest.raises(UnsupportedError) as error:
        parse(column("ok"), column("a", array(struct(column("b.c", name)))))
    assert (error.value.cause, error.value.field) == ("UnsupportedType", "a.element.b.c")


def test_unknown_kind_of_nested_type_is_refused():
    with pytest.raises(UnsupportedError, match="'udt'"):
        parse(column("c", {"type": "udt", "sqlType": "string"}))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "  ",
        "{",
        "null",
        "[]",
        '"struct"',
        '{"type":"struct"}',
        '{"fields":[]}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[]}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"array","elementType":"long"}',
    ],
)
def test_invalid_schemas_are_refused(text):
    with pytest.raises(InvalidTableError) as error:
        parse_schema(text)
    assert error.value.cause == "SchemaError"


@pytest.mark.parametrize(
    "field",
    [
        {"name": 1, "type": "long"},
        {"name": "a"},
        {"name": "a", "type": None},
        {"name": "a", "type": 7},
        {"name": "a", "type": ["long"]},
        {"name": "a", "type": {"type": "array"}},
        {"name": "a", "type": {"type": "map", "keyType": "string"}},
        {"name": "a", "type": {"type": "array", "elementType": "long", "containsNull": "yes"}},
        {"name": "a", "type": "long", "nullable": "yes"},
        {"name": "a", "type": "long", "metadata": [1]},
        {"name": "a", "type": "long", "metadata": ""},
    ],
)
def test_broken_fields_are_refused(field):
    refused(field)


# Partition columns (V7, V8).


def test_unknown_partition_column_is_refused():
    error = refused(column("a"), partition_columns=["b"])
    assert (error.field, error.rule) == ("b", "delta V8")


def test_partition_column_named_twice_is_refused():
    assert refused(column("a"), column("b"), partition_columns=["a", "A"]).rule == "delta V8"


@pytest.mark.parametrize("type_", [array("long"), map_of("string", "long"), struct(column("x")), "variant"])
def test_partition_columns_are_primitive(type_):
    assert refused(column("a", type_), column("b"), partition_columns=["a"]).rule == "delta V7"


# Recorded type changes (T23).


def changed(before, after, **extra):
    return {"delta.typeChanges": [{"fromType": before, "toType": after, "tableVersion": 2, **extra}]}


NOT_WIDENINGS = [
    ("long", "integer"),
    ("long", "double"),
    ("integer", "float"),
    ("double", "float"),
    ("byte", "decimal(2,0)"),
    ("byte", "decimal(3,1)"),
    ("short", "decimal(4,0)"),
    ("integer", "decimal(9,0)"),
    ("integer", "decimal(10,1)"),
    ("long", "decimal(19,0)"),
    ("decimal(10,2)", "decimal(12,5)"),
    ("decimal(10,2)", "decimal(9,2)"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
    ("integer", "string"),
    ("integer", "hyperreal"),
]
WIDENING = frozenset({"typeWidening"})


@pytest.mark.parametrize(("before", "after"), NOT_WIDENINGS)
def test_other_recorded_changes_are_refused_naming_the_column(before, after):
    with pytest.raises(UnsupportedError) as error:
        parse(column("m", map_of("string", "long"), **changed(before, after, fieldPath="value")), features=WIDENING)
    assert (error.value.field, error.value.rule) == ("m.value", "delta T23")


@pytest.mark.parametrize("changes", [{}, [1], [{"fromType": "byte"}], "byte to long"])
def test_malformed_changes_are_refused(changes):
    refused(column("c", "long", **{"delta.typeChanges": changes}), features=WIDENING)


def mapped(name, id_=None, physical=None, type_="long", **metadata):
    if id_ is not None:
        metadata["delta.columnMapping.id"] = id_
    if physical is not None:
        metadata["delta.columnMapping.physicalName"] = physical
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param([mapped("a", None, "p")], "a", id="no-id"),
        pytest.param([mapped("a", 1)], "a", id="no-physical-name"),
        pytest.param([mapped("a", 1, "")], "a", id="empty-physical-name"),
        pytest.param([mapped("a", "1", "p")], "a", id="id-text"),
        pytest.param([mapped("a", True, "p")], "a", id="id-boolean"),
        pytest.param([mapped("a", 1.0, "p")], "a", id="id-float"),
        pytest.param([mapped("a", -1, "p")], "a", id="id-negative"),
        pytest.param([mapped("a", 2**31, "p")], "a", id="id-beyond-32-bits"),
        pytest.param([mapped("a", 1, "p"), mapped("b", 1, "q")], "b", id="id-twice"),
        pytest.param([mapped("a", 1, "p", struct(mapped("b", 1, "q")))], "a.b", id="id-twice-across-levels"),
        pytest.param([mapped("a", 1, "p", struct(mapped("b")))], "a.b", id="nested-without"),
    ],
)
@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
def test_broken_annotations_are_refused(fields, path, mode):
    with pytest.raises(InvalidTableError) as error:
        parse(*fields, mode=mode)
    assert (error.value.cause, error.value.field, error.value.rule) == ("SchemaError", path, "delta T13")


@pytest.mark.parametrize("other", ["p", "P"])
def test_physical_names_must_differ_within_a_level(other):
    with pytest.raises(InvalidTableError, match="physical names"):
        parse(mapped("a", 1, "p"), mapped("b", 2, other), mode=MappingMode.NAME)
