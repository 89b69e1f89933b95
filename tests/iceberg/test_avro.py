"""Avro containers by field id (iceberg 2.1, 2.8, 2.14-2.16), against files that fastavro wrote."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptFileError, LimitError, UnsupportedError
from harness.metadata.files.avro_container import open_container
from harness.metadata.files.avro_decoding import IntMap, Plain, Struct, Wanted
from harness.testing.writing.iceberg.avro import write_avro


def container(schema, rows, *, codec="null", sync_interval=16000, **options):
    stream = io.BytesIO()
    write_avro(stream, schema, rows, codec=codec, sync_interval=sync_interval, **options)
    return stream.getvalue()


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, type_, id_=None):
    return {"name": name, "type": type_} | ({} if id_ is None else {"field-id": id_})


def read(data, *wanted):
    return list(open_container(data, file="f.avro").records(wanted))


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
    ({"type": "int", "logicalType": "date"}, 10**6 * 2, 2 * 10**6),  # a year that datetime lacks
    ({"type": "long", "logicalType": "timestamp-micros"}, -1, -1),
    (record(field("x", "int", 1), field("y", ["null", "string"], 2), name="inner"), {"x": 1, "y": None}, [1, None]),
    (["null", "int", "string"], "text", "text"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), TYPES, ids=lambda v: str(v)[:40])
def test_every_type_is_decoded_or_skipped(type_, value, expected):
    schema = record(field("a", type_, 1), field("skipped", "skip_type_of_a", 2), field("end", "long", 3))
    named = isinstance(type_, dict) and "name" in type_
    # A named type is used a second time by its name.
    schema["fields"][1]["type"] = type_["name"] if named else type_
    writable = {**schema, "fields": [{**f, "type": _unlogical(f["type"])} for f in schema["fields"]]}
    data = container(writable, [{"a": value, "skipped": value, "end": 9}])
    assert read(data, Wanted(1), Wanted(3)) == [[expected, 9]]


def _unlogical(type_):
    """fastavro would refuse ints that its own dates cannot hold; only the declaration matters here."""
    return type_["type"] if isinstance(type_, dict) and "logicalType" in type_ else type_


def test_recursive_types_are_skipped_and_decoded():
    node = record(field("value", "int", 5), field("next", ["null", "node"], 6), name="node")
    row = {"a": {"value": 1, "next": {"value": 2}}, "b": 3}
    data = container(record(field("a", node, 1), field("b", "int", 2)), [row])
    assert read(data, Wanted(2)) == [[3]]
    assert read(data, Wanted(1), Wanted(2)) == [[[1, [2, None]], 3]]


def int_map(value_type, *, ids=True, nullable=False):
    item = record(
        field("key", "int", 10 if ids else None),
        field("value", ["null", value_type] if nullable else value_type, 11 if ids else None),
        name="item",
    )
    return ["null", {"type": "array", "logicalType": "map", "items": item}]


VALUES = {"long": st.integers(-(2**63), 2**63 - 1), "bytes": st.binary(max_size=200)}


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "names"])
@pytest.mark.parametrize("nullable", [False, True], ids=["plain", "nullable"])
@pytest.mark.parametrize("value_type", ["long", "bytes"])
@given(data=st.data())
def test_maps_of_ints(data, value_type, nullable, ids):
    found = data.draw(st.none() | st.dictionaries(st.integers(-5, 300), VALUES[value_type], max_size=8))
    keep = data.draw(st.none() | st.frozensets(st.integers(0, 300) | st.sampled_from(sorted(found or {0: 0}))))
    pairs = None if found is None else [{"key": k, "value": v} for k, v in found.items()]
    statistics = field("m", int_map(value_type, ids=ids, nullable=nullable), 1)
    schema = record(statistics, field("again", ["null", {"type": "array", "items": "item"}], 2), field("z", "int", 3))
    written = container(schema, [{"m": pairs, "again": pairs and [], "z": 7}])
    expected = None if found is None else {k: v for k, v in found.items() if keep is None or k in keep}
    assert read(written, Wanted(1, (), IntMap(10, 11, keep)), Wanted(3)) == [[expected, 7]]
    assert read(written, Wanted(3)) == [[7]]


SCHEMA = record(field("a", record(field("b", "string", 2), name="inner"), 1), field("n", ["null", "long"], 3))
ROWS = [{"a": {"b": "some text"}, "n": 5}] * 3


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_cut_file_is_corrupt(codec):
    data = container(SCHEMA, ROWS, codec=codec)
    header_end = len(container(SCHEMA, [], codec=codec))
    for end in range(len(data)):
        # Between header and first block nothing shows that more was to come.
        if end == header_end:
            continue
        with pytest.raises(CorruptFileError) as raised:
            read(data[:end], Wanted(1, (), Struct((Wanted(2),))))
        assert (raised.value.cause, raised.value.file) == ("CorruptManifest", "f.avro")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
@given(st.data())
def test_damage_is_an_error_of_ours_or_other_values(codec, data):
    written = bytearray(container(SCHEMA, ROWS, codec=codec))
    position = data.draw(st.integers(0, len(written) - 1))
    written[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError, UnsupportedError, LimitError):
        rows = read(bytes(written), Wanted(1, (), Struct((Wanted(2),))), Wanted(3, (), Plain()))
        assert len(rows) <= 3
