"""Damage that got past the checks of a decoder: whatever it breaks, what comes out is an error of harness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bombs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import CorruptFileError, HarnessError
from harness.metadata.files.avro import read_avro
from harness.metadata.files.avro_container import open_container
from harness.metadata.files.avro_decoding import IntMap, ListOf, Struct, Wanted
from harness.metadata.iceberg.manifests import parse_manifest_list
from harness.testing.oracle import iceberg_manifests as planner
from harness.testing.writing.delta.builder import DeltaTable

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
    Wanted(1),
    Wanted(9000),
    Wanted(9000, shape=Struct((Wanted(1),))),
    Wanted(9000, shape=ListOf((Wanted(1),))),
    Wanted(9000, shape=IntMap(1, 2)),
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_writers_schema_that_is_not_avro(schema: str) -> None:
    data = bombs.avro(SCHEMAS[schema], 1, b"\2")
    reads = [
        lambda: read_avro(data, file="f"),
        lambda: planner.read_avro(data, file="f"),
        lambda: parse_manifest_list(data, file="f"),
        *(lambda shape=shape: open_container(data, file="f").fields(shape) for shape in SHAPES),
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


def checkpointed(folder: Path) -> Path:
    table = DeltaTable.create(folder / "t", {"id": "long", "p": "string"}, partition_columns=["p"])
    table.append(table.write_data([{"id": 1}], partition={"p": "a"}))
    table.checkpoint(hint=False)
    log = folder / "t" / "_delta_log"
    (log / "00000000000000000000.json").unlink()  # else the log itself gives the version
    (path,) = log.glob("*.checkpoint.parquet")
    return path


def not_text(type_: pa.DataType, values: Any) -> Any:
    """The values with bytes that are no UTF-8 in each text."""
    if pa.types.is_string(type_):
        raw = pa.array([None if v is None else v.encode() + b"\xff" for v in values], pa.binary())
        return pa.Array.from_buffers(type_, len(raw), raw.buffers())
    return pa.array(values, type_)


@pytest.mark.parametrize("name", ["path", "stats", "deletionVector"])
def test_texts_of_a_checkpoint_that_are_no_utf8(tmp_path: Path, name: str) -> None:
    path = checkpointed(tmp_path)
    rows = pq.read_table(path)
    adds = rows.column("add").combine_chunks()
    index = adds.type.get_field_index(name)
    fields = [adds.field(i) for i in range(adds.type.num_fields)]
    fields[index] = not_text(adds.type.field(index).type, fields[index].to_pylist())
    broken = pa.StructArray.from_arrays(fields, fields=list(adds.type), mask=adds.is_null())
    pq.write_table(rows.set_column(rows.schema.get_field_index("add"), rows.schema.field("add"), broken), path)
    if name == "stats":  # rows do not depend on them
        with pytest.warns(harness.HarnessWarning, match="Cannot read statistics in the checkpoint"):
            assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow().num_rows > 0
        return
    error = refusal(lambda: harness.open_table(str(tmp_path / "t")).snapshot().to_arrow())
    assert str(path) in str(error) or name == "deletionVector"  # there is none


@pytest.mark.parametrize("kind", ["metaData", "protocol", "txn", "domainMetadata"])
def test_a_checkpoint_whose_columns_have_other_types(tmp_path: Path, kind: str) -> None:
    path = checkpointed(tmp_path)
    rows = pq.read_table(path)
    for column in (pa.array(["x"] * rows.num_rows), pa.array([{"configuration": ["x"]}] * rows.num_rows)):
        pq.write_table(rows.drop_columns([kind]).append_column(kind, column), path)
        with pytest.raises(HarnessError):
            harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


def test_a_vector_of_a_size_below_zero(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data([{"id": 1}, {"id": 2}])
    table.append(file)
    table.delete(file, [0], storage="i")
    commit = max((tmp_path / "t" / "_delta_log").glob("*.json"))
    for size in (-1, -100, 1 << 40):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in lines:
            if "add" in action:
                action["add"]["deletionVector"]["sizeInBytes"] = size
        commit.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(HarnessError):
            harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
