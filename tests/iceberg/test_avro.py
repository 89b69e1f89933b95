"""Avro containers by field id (iceberg 2.1, 2.8, 2.14-2.16), against files that fastavro wrote."""

from __future__ import annotations

import contextlib
import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptFileError, EncryptedTableError, LimitError, UnsupportedError
from harness.metadata.files.avro_container import open_container
from harness.metadata.files.avro_decoding import IntMap, ListOf, Memo, Plain, Struct, Wanted


def container(schema, rows, *, codec="null", sync_interval=16000, **options):
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, codec=codec, sync_interval=sync_interval, **options)
    return stream.getvalue()


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, type_, id_=None):
    return {"name": name, "type": type_} | ({} if id_ is None else {"field-id": id_})


def read(data, *wanted):
    return list(open_container(data, file="f.avro").records(wanted))


def test_an_unknown_codec_is_named():
    data = container(record(field("a", "long", 1)), [{"a": 1}], codec="deflate").replace(b"deflate", b"deflato")
    with pytest.raises(UnsupportedError) as raised:
        read(data, Wanted(1))
    assert str(raised.value) == (
        "Cannot read Avro codec 'deflato': expected one of bzip2, deflate, null, snappy, xz, zstandard; "
        "rewrite the file [UnsupportedCodec; file f.avro, rule iceberg 2.14]"
    )


@pytest.mark.parametrize("number", [2**63, 9876543210123456789])
def test_ids_beyond_a_long_are_kept(number):
    data = container(record(field("a", "long", 1)), [{"a": 0}])
    block = _zigzag(number)
    assert read(data[:-18] + _zigzag(len(block)) + block + data[-16:], Wanted(1)) == [[number]]


def test_a_number_of_more_than_ten_bytes_is_damage():
    data = container(record(field("a", "long", 1)), [{"a": 0}])
    with pytest.raises(CorruptFileError, match="a number has more than ten bytes"):
        read(data[:-18] + _zigzag(11) + b"\xff" * 10 + b"\x01" + data[-16:], Wanted(1))


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


def test_logical_types_have_no_say():
    plain = container(record(field("a", "int", 1)), [{"a": 2**30}])
    header = open_container(plain, file="f").metadata["avro.schema"]
    logical = header.replace(b'"int"', b'{"type":"int","logicalType":"date"}')
    data = plain.replace(_zigzag(len(header)) + header, _zigzag(len(logical)) + logical)
    assert read(data, Wanted(1)) == [[2**30]]
    assert open_container(data, file="f").fields()[0].kind == "date"


def _zigzag(number):
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


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
    schema = record(statistics, field("again", ["null", _again()], 2), field("z", "int", 3))
    written = container(schema, [{"m": pairs, "again": pairs and [], "z": 7}])
    expected = None if found is None else {k: v for k, v in found.items() if keep is None or k in keep}
    assert read(written, Wanted(1, (), IntMap(10, 11, keep)), Wanted(3)) == [[expected, 7]]
    assert read(written, Wanted(3)) == [[7]]


def _again():
    return {"type": "array", "items": "item"}


@pytest.mark.parametrize("value_type", ["long", "bytes"])
def test_a_key_given_twice_or_with_null_is_unknown(value_type):
    one, two = (b"1", b"2") if value_type == "bytes" else (1, 2)
    pairs = [{"key": 1, "value": one}, {"key": 2, "value": two}, {"key": 1, "value": one}]
    wanted = Wanted(1, (), IntMap(10, 11))
    assert read(container(record(field("m", int_map(value_type), 1)), [{"m": pairs}]), wanted) == [[{2: two}]]
    nullable = record(field("m", int_map(value_type, nullable=True), 1))
    assert read(container(nullable, [{"m": [*pairs, {"key": 3, "value": None}]}]), wanted) == [[{2: two}]]


@pytest.mark.parametrize("type_", [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}], ids=str)
def test_a_statistic_of_another_form_is_unknown(type_):
    value = [1] if type_["type"] == "array" else {"a": 1}
    data = container(record(field("m", type_, 1), field("z", "int", 2)), [{"m": value, "z": 5}])
    assert read(data, Wanted(1, (), IntMap(10, 11)), Wanted(2)) == [[None, 5]]


def test_struct_list_and_memo():
    inner = record(field("x", "int", 5), field("y", "int", 6), name="inner")
    schema = record(field("s", inner, 1), field("l", {"type": "array", "items": "inner"}, 2), field("p", "inner", 3))
    row = {"s": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4}], "p": {"x": 5, "y": 6}}
    calls = []

    def convert(values):
        calls.append(values)
        return {"tuple": tuple(values)}

    data = container(schema, [row, row])
    struct, listed = Struct((Wanted(6),)), ListOf((Wanted(6), Wanted(5)))
    rows = read(data, Wanted(1, (), struct), Wanted(2, (), listed), Wanted(3, (), Memo(convert)))
    assert rows == [[[2], [[4, 3]], {"tuple": (5, 6)}]] * 2
    assert rows[0][2] is rows[1][2]
    assert calls == [[5, 6]]


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


def test_a_key_of_the_header_that_is_no_text():  # Avro: keys of maps are strings
    data = container(SCHEMA, ROWS, metadata={"partition-spec-id": "0"})
    with pytest.raises(CorruptFileError, match="its header is cut or damaged"):
        read(data.replace(b"partition-spec-id", b"pa\xe8\xeaition-spec-id"), Wanted(3))


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
@given(st.data())
def test_damage_is_an_error_of_ours_or_other_values(codec, data):
    written = bytearray(container(SCHEMA, ROWS, codec=codec))
    position = data.draw(st.integers(0, len(written) - 1))
    written[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError, UnsupportedError, LimitError):
        rows = read(bytes(written), Wanted(1, (), Struct((Wanted(2),))), Wanted(3, (), Plain()))
        assert len(rows) <= 3


def test_damage_names_the_field():
    data = container(SCHEMA, ROWS).replace(b"some text", b"some tex\xff")
    with pytest.raises(CorruptFileError) as raised:
        read(data, Wanted(1, (), Struct((Wanted(2),))))
    assert str(raised.value) == (
        "Cannot decode Avro record: text is not UTF-8 [CorruptManifest; file f.avro, field a.b]"
    )


def test_a_union_branch_that_does_not_exist_names_the_field():
    data = container(record(field("n", ["null", "long"], 3)), [{"n": 1}])
    sync = data[-16:]
    bad = data[: -16 - 2] + b"\x06\x02" + sync
    for wanted in (Wanted(3), Wanted(4)):
        with pytest.raises(CorruptFileError, match="union branch 3 does not exist") as raised:
            read(bad, wanted)
        assert raised.value.field == "n"


def test_a_refusing_memo_names_the_field():
    def refuse(value):
        raise ValueError(f"no {value}")

    with pytest.raises(CorruptFileError, match="no 5") as raised:
        read(container(SCHEMA, ROWS), Wanted(3, (), Memo(refuse)))
    assert raised.value.field == "n"


@pytest.mark.parametrize("data", [b"", b"PAR1", b"Obj\x02", b"Obj\x01\x00" + b"s" * 16], ids=str)
def test_what_is_not_avro_is_corrupt(data):
    with pytest.raises(CorruptFileError) as raised:
        read(data, Wanted(1))
    assert raised.value.cause == "CorruptManifest"


def test_an_encrypted_stream_is_said_to_be_encrypted():
    with pytest.raises(EncryptedTableError) as raised:
        read(b"AGS1" + b"\x00" * 100, Wanted(1))
    assert raised.value.cause == "EncryptedTable"


def test_a_schema_that_is_no_record_is_corrupt():
    with pytest.raises(CorruptFileError, match="expected a record, got long") as raised:
        read(container("long", [1]), Wanted(1))
    assert raised.value.field == "avro.schema"


def test_the_first_of_two_fields_with_one_id_counts():
    data = container(record(field("a", "long", 1), field("b", "long", 1)), [{"a": 5, "b": 6}])
    assert read(data, Wanted(1)) == [[5]]


def test_bytes_after_the_last_record_of_a_block_are_damage():
    data = container(record(field("a", "long", 1)), [{"a": 0}])
    with pytest.raises(CorruptFileError) as raised:
        read(data[:-18] + _zigzag(2) + b"\x00\x00" + data[-16:], Wanted(1))
    assert str(raised.value) == (
        "Cannot decode Avro file: a block holds 1 bytes after its last record; restore it "
        "[CorruptManifest; file f.avro]"
    )
