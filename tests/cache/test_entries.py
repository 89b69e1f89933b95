"""The bytes of entries: what was put in comes out, and nothing else ever does."""

import random

import pyarrow as pa
import pytest

from harness.storage.decoded import Key
from harness.storage.decoded_folder import StrangeEntryError, decode, encode

KEY = Key("manifest", "/t/m.avro", 7, "inode 3")
TABLE = pa.table({"id": pa.array([1, None, 3], pa.int64()), "path": pa.array(["a", "b", ""], pa.string())})
DATA = encode(KEY, TABLE, {b"header": b"\x00\xff"})


def test_an_entry_gives_back_its_columns_and_what_stands_beside():
    entry = decode(DATA, KEY)
    assert entry.columns(TABLE.schema).equals(TABLE)
    assert entry.columns(pa.schema([TABLE.schema.field("path")])).to_pydict() == {"path": ["a", "b", ""]}
    assert (entry.about, entry.size) == ({b"header": b"\x00\xff"}, len(DATA))


@pytest.mark.parametrize(
    "other",
    [
        Key("manifest bounds 1", "/t/m.avro", 7, "inode 3"),
        Key("manifest", "/t/n.avro", 7, "inode 3"),
        Key("manifest", "/t/m.avro", 8, "inode 3"),
        Key("manifest", "/t/m.avro", 7, "inode 4"),
    ],
    ids=["kind", "path", "size", "token"],
)
def test_an_entry_of_another_key_is_none_even_under_its_name(other):
    assert other.name != KEY.name
    with pytest.raises(StrangeEntryError):
        decode(DATA, other)


def test_a_key_does_not_show_the_path_which_may_hold_a_secret():
    assert b"/t/m.avro" not in KEY.text


def test_an_entry_with_one_byte_changed_or_cut_off_is_none():
    chance = random.Random(7)
    for place in [*range(60), *(chance.randrange(len(DATA)) for _ in range(60))]:
        damaged = bytearray(DATA)
        damaged[place] ^= 1 << chance.randrange(8)
        with pytest.raises(StrangeEntryError):
            decode(bytes(damaged), KEY)
        with pytest.raises(StrangeEntryError):
            decode(DATA[:place], KEY)


@pytest.mark.parametrize(
    "schema", [pa.schema([("id", pa.int32())]), pa.schema([("other", pa.int64())])], ids=["type", "name"]
)
def test_other_columns_than_expected_are_an_error(schema):
    with pytest.raises(StrangeEntryError):
        decode(DATA, KEY).columns(schema)


def test_offsets_that_lead_out_of_an_entry_are_an_error_and_no_crash():
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1 << 30, 2)))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    entry = decode(encode(KEY, pa.table({"path": text}), {}), KEY)
    with pytest.raises(StrangeEntryError):
        entry.columns(pa.schema([("path", pa.string())]))
