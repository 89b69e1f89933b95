"""Avro containers by field id (iceberg 2.1, 2.8, 2.14-2.16), compared with files that fastavro wrote."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptFileError, LimitError, UnsupportedError
from harness.metadata.files.avro_container import RequestedField, open_container
from harness.writing.iceberg.avro import write_avro


def container(schema, rows, *, codec="null", sync_interval=16000, **options):
    stream = io.BytesIO()
    write_avro(stream, schema, rows, codec=codec, sync_interval=sync_interval, **options)
    return stream.getvalue()


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, type_, id_=None):
    return {"name": name, "type": type_} | ({} if id_ is None else {"field-id": id_})


def read(data, *requested_fields):
    return list(open_container(data, file="f.avro").records(requested_fields))


TYPES = [
    ("boolean", True, True),
    ("int", -5, -5),
    ("float", 1.5, 1.5),
    ("double", -2.25, -2.25),
    ("bytes", b"\x00\xff", b"\x00\xff"),
    ("string", "😀", "😀"),
    ("null", None, None),
    ({"type": "fixed", "name": "f4", "size": 4}, b"abcd", b"abcd"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
    ({"type": "array", "items": "string"}, ["a", "b"], ["a", "b"]),
    ({"type": "map", "values": "long"}, {"a": 1}, [("a", 1)]),
    ({"type": "int", "logicalType": "date"}, 10**6 * 2, 2 * 10**6),  # a year that datetime does not support
    ({"type": "long", "logicalType": "timestamp-micros"}, -1, -1),
    (record(field("x", "int", 1), field("y", ["null", "string"], 2), name="inner"), {"x": 1, "y": None}, [1, None]),
    (["null", "int", "string"], "text", "text"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), TYPES, ids=lambda v: str(v)[:40])
def test_every_type_is_decoded_or_skipped(type_, value, expected):
    schema = record(field("a", type_, 1), field("skipped", "skip_type_of_a", 2), field("end", "long", 3))
    named = isinstance(type_, dict) and "name" in type_
    # A named type is referred to by its name the second time.
    schema["fields"][1]["type"] = type_["name"] if named else type_
    writable = {**schema, "fields": [{**f, "type": _unlogical(f["type"])} for f in schema["fields"]]}
    data = container(writable, [{"a": value, "skipped": value, "end": 9}])
    assert read(data, RequestedField(1), RequestedField(3)) == [[expected, 9]]


def _unlogical(type_):
    """The schema without logical types, because fastavro refuses ints that its own dates cannot hold."""
    return type_["type"] if isinstance(type_, dict) and "logicalType" in type_ else type_


def test_a_type_that_contains_itself_is_refused_before_its_values_nest():
    node = record(field("value", "int", 5), field("next", ["null", "node"], 6), name="node")
    row = {"a": {"value": 1, "next": {"value": 2}}, "b": 3}
    data = container(record(field("a", node, 1), field("b", "int", 2)), [row])
    with pytest.raises(UnsupportedError, match=r"the record node at a\.next contains itself") as raised:
        read(data, RequestedField(2))
    assert (raised.value.file, raised.value.rule) == ("f.avro", "iceberg 7.3")


def test_fields_are_found_by_id_and_by_name_only_without_one():
    inner = record(field("x", "int", 4), field("y", "int"), name="inner")
    items = {"type": "array", "items": inner}
    schema = record(field("a", "int", 1), field("b", "int"), field("c", ["null", items], 3))
    data = container(schema, [{"a": 1, "b": 2, "c": [{"x": 5, "y": 6}]}, {"a": 3, "b": 4, "c": None}])
    wanted = (
        RequestedField(9, ("a",)),
        RequestedField(2, ("b",)),
        RequestedField(3, fields=(RequestedField(8, ("y",)), RequestedField(4))),
    )
    assert read(data, *wanted) == [[None, 2, [[6, 5]]], [None, 4, None]]


SCHEMA = record(field("a", record(field("b", "string", 2), name="inner"), 1), field("n", ["null", "long"], 3))
ROWS = [{"a": {"b": "some text"}, "n": 5}] * 3


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_cut_file_is_corrupt(codec):
    data = container(SCHEMA, ROWS, codec=codec)
    header_end = len(container(SCHEMA, [], codec=codec))
    for end in range(len(data)):
        # Between the header and the first block, nothing shows that more bytes are missing.
        if end == header_end:
            continue
        with pytest.raises(CorruptFileError) as raised:
            read(data[:end], RequestedField(1, fields=(RequestedField(2),)))
        assert (raised.value.cause, raised.value.file) == ("CorruptManifest", "f.avro")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
@given(st.data())
def test_damage_is_a_harness_error_or_changes_values(codec, data):
    written = bytearray(container(SCHEMA, ROWS, codec=codec))
    position = data.draw(st.integers(0, len(written) - 1))
    written[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError, UnsupportedError, LimitError):
        rows = read(bytes(written), RequestedField(1, fields=(RequestedField(2),)), RequestedField(3))
        assert len(rows) <= 3
