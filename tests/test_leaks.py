"""Damage that a decoder's checks do not detect still raises a harness error."""

from typing import Any

import bombs
import pytest

from harness.errors import CorruptFileError, HarnessError
from harness.metadata.files.avro import read_avro
from harness.metadata.files.avro_container import RequestedField, open_container
from harness.metadata.iceberg.manifests import parse_manifest_list
from harness.suite.oracle import iceberg_manifests as planner

FIELD = {"name": "a", "type": "long", "field-id": 1}
SCHEMAS: dict[str, Any] = {
    "a number": 1,
    "nothing": None,
    "an empty list": [],
    "no fields": {"type": "record", "name": "r"},
    "fields that are a number": {"type": "record", "name": "r", "fields": 1},
    "a field that is a number": {"type": "record", "name": "r", "fields": [1]},
    "a field without a type": {"type": "record", "name": "r", "fields": [{"name": "a"}]},
    "a field without a name": {"type": "record", "name": "r", "fields": [{"type": "long"}]},
    "a name that is a list": {"type": "record", "name": ["r"], "fields": [FIELD]},
    "a namespace that is a number": {"type": "record", "name": "r", "namespace": 1, "fields": [FIELD]},
    "an id that is text": {"type": "record", "name": "r", "fields": [FIELD | {"field-id": "x"}]},
    "an id that is a list": {"type": "record", "name": "r", "fields": [FIELD | {"field-id": [1]}]},
    "a type that is a list of lists": {"type": "record", "name": "r", "fields": [FIELD | {"type": [[["null"]]]}]},
    "a type that is unknown": {"type": "record", "name": "r", "fields": [FIELD | {"type": "x"}]},
    "a type that is itself": {"type": "record", "name": "r", "fields": [FIELD | {"type": "r"}]},
    "symbols that are a number": bombs.record({"type": "enum", "name": "e", "symbols": 1}),
    "a size that is text": bombs.record({"type": "fixed", "name": "f", "size": "x"}),
    "a size of 2^40": bombs.record({"type": "fixed", "name": "f", "size": 1 << 40}),
    "a size below zero": bombs.record({"type": "fixed", "name": "f", "size": -1}),
    "items that are missing": bombs.record({"type": "array"}),
    "items that are a number": bombs.record({"type": "array", "items": 1}),
}


def refusal(read: Any) -> HarnessError | None:
    try:
        read()
    except HarnessError as error:
        return error
    return None


SHAPES = (
    RequestedField(1),
    RequestedField(9000),
    RequestedField(9000, fields=(RequestedField(1),)),
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_writers_schema_that_is_not_avro(schema: str) -> None:
    data = bombs.avro(SCHEMAS[schema], 1, b"\2")
    reads = [
        lambda: read_avro(data, file="f"),
        lambda: planner.read_avro(data, file="f"),
        lambda: parse_manifest_list(data, file="f"),
        *(lambda shape=shape: list(open_container(data, file="f").records((shape,))) for shape in SHAPES),
    ]
    for read in reads:
        error = refusal(read)
        assert error is None or error.file == "f"


MANIFEST = {500: "string", 502: "int", 517: "int", 507: {"type": "array", "items": ["null", bombs.record("boolean")]}}
PATH = bombs.number(1) + b"p"


@pytest.mark.parametrize(
    ("changed", "block"),
    [
        pytest.param({500: "long"}, b"\2\0\0\0", id="a path that is a number"),
        pytest.param({502: "string"}, PATH + PATH + b"\0\0", id="a spec id that is text"),
        pytest.param({507: "long"}, PATH + b"\0\0\0", id="summaries that are a number"),
        pytest.param({}, PATH + b"\0\0" + b"\2\0\0", id="a summary that is null"),
    ],
)
def test_a_manifest_list_whose_fields_have_other_types(changed: dict[int, Any], block: bytes) -> None:
    fields = [{"name": f"f{id_}", "type": kind, "field-id": id_} for id_, kind in (MANIFEST | changed).items()]
    data = bombs.avro({"type": "record", "name": "m", "fields": fields}, 1, block)
    with pytest.raises(CorruptFileError) as caught:
        parse_manifest_list(data, file="f")
    assert caught.value.file == "f"
