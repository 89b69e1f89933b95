from __future__ import annotations

import json

import pytest

from harness.errors import InvalidTableError
from harness.metadata.delta.protocol import MappingMode
from harness.metadata.delta.types import materialized_columns, parse_schema
from harness.metadata.model.schema import walk
from harness.metadata.plan.projection import ColumnLookup, stored_name


def column(name, id_=None, physical=None, type_="long", **metadata):
    if id_ is not None:
        metadata["delta.columnMapping.id"] = id_
    if physical is not None:
        metadata["delta.columnMapping.physicalName"] = physical
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def parse(*fields, mode=MappingMode.NAME):
    return parse_schema(json.dumps(struct(*fields)), mode=mode)


NESTED = (
    column("a", 7, "p7", struct(column("b", 3, "p3"), column("c", 4, "p4"))),
    column("l", 9, "p9", {"type": "array", "elementType": struct(column("x", 1, "p1")), "containsNull": True}),
    column(
        "m",
        2,
        "p2",
        {"type": "map", "keyType": "string", "valueType": struct(column("y", 5, "p5")), "valueContainsNull": True},
    ),
)


@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
def test_annotations_give_ids_and_physical_names_at_every_struct_level(mode):
    fields = {".".join(path): (f.id, f.physical_name) for path, f in walk(parse(*NESTED, mode=mode).schema.fields)}
    assert fields == {
        "a": (7, "p7"),
        "a.b": (3, "p3"),
        "a.c": (4, "p4"),
        "l": (9, "p9"),
        "l.element": (10, None),
        "l.element.x": (1, "p1"),
        "m": (2, "p2"),
        "m.key": (11, None),
        "m.value": (12, None),
        "m.value.y": (5, "p5"),
    }


def test_stored_name_is_the_logical_one_without_mapping():
    assert [stored_name(f) for f in parse(*NESTED, mode=MappingMode.NONE).schema.fields] == ["a", "l", "m"]
    assert [stored_name(f) for f in parse(*NESTED).schema.fields] == ["p7", "p9", "p2"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param([column("a", None, "p")], "a", id="no-id"),
        pytest.param([column("a", 1)], "a", id="no-physical-name"),
        pytest.param([column("a", 1, "")], "a", id="empty-physical-name"),
        pytest.param([column("a", "1", "p")], "a", id="id-text"),
        pytest.param([column("a", True, "p")], "a", id="id-boolean"),
        pytest.param([column("a", 1.0, "p")], "a", id="id-float"),
        pytest.param([column("a", -1, "p")], "a", id="id-negative"),
        pytest.param([column("a", 2**31, "p")], "a", id="id-beyond-32-bits"),
        pytest.param([column("a", 1, "p"), column("b", 1, "q")], "b", id="id-twice"),
        pytest.param([column("a", 1, "p", struct(column("b", 1, "q")))], "a.b", id="id-twice-across-levels"),
        pytest.param([column("a", 1, "p", struct(column("b")))], "a.b", id="nested-without"),
    ],
)
@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
def test_broken_annotations_are_refused(fields, path, mode):
    with pytest.raises(InvalidTableError) as error:
        parse(*fields, mode=mode)
    assert (error.value.cause, error.value.field, error.value.rule) == ("SchemaError", path, "delta T13")


def test_duplicate_id_message():
    with pytest.raises(InvalidTableError) as error:
        parse(column("a", 1, "p"), column("b", 1, "q"))
    assert str(error.value) == (
        "Invalid schema: got delta.columnMapping.id 1, which column 'a' has too; expected unique ids "
        "[SchemaError; field b, rule delta T13]"
    )


@pytest.mark.parametrize("other", ["p", "P"])
def test_physical_names_must_differ_within_a_level(other):
    with pytest.raises(InvalidTableError, match="physical names"):
        parse(column("a", 1, "p"), column("b", 2, other))


def test_physical_names_may_repeat_across_levels():
    assert parse(column("a", 1, "p", struct(column("b", 2, "p")))).schema.names() == ("a",)


@pytest.mark.parametrize(
    ("mode", "lookup"),
    [
        (MappingMode.NONE, ColumnLookup.DELTA_NAME),
        (MappingMode.NAME, ColumnLookup.DELTA_NAME),
        (MappingMode.ID, ColumnLookup.DELTA_ID),
    ],
)
def test_lookup_of_a_mode(mode, lookup):
    assert parse(*NESTED, mode=mode).lookup is lookup


def test_materialized_columns_come_from_properties():
    found = materialized_columns({"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"})
    assert found == {"_row_id": "_row-id-col-1"}
