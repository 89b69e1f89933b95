import json

import pytest

from harness.errors import InvalidTableError
from harness.metadata.delta.protocol import MappingMode
from harness.metadata.delta.types import parse_schema


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


@pytest.mark.parametrize("other", ["p", "P"])
def test_physical_names_must_differ_within_a_level(other):
    with pytest.raises(InvalidTableError, match="physical names"):
        parse(column("a", 1, "p"), column("b", 2, other))
