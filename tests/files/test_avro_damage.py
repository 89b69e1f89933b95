"""Damage of Avro files that no checksum detects: values that the type does not allow are an error in every reader.

The bytes are written by hand from the Avro specification: numbers are zigzag (1 is 02, -1 is 01, -2 is 03).
"""

import bz2
import lzma
import zlib

import pyarrow as pa
import pytest
from bombs import avro, number

from harness.errors import CorruptFileError, HarnessError, LimitError
from harness.metadata.files.avro import read_avro
from harness.metadata.files.avro_container import RequestedField, open_container
from harness.suite.oracle import iceberg_manifests as planner
from harness.suite.oracle.avro import open_avro


def container(type_, count, block, codec="null"):
    """A file of records of one field; `block` is stored unchanged."""
    field = {"name": "a", "type": type_, "field-id": 1}
    return avro({"type": "record", "name": "r", "fields": [field]}, count, block, codec)


def data_file(data):
    return read_avro(data, file="f")[1].column("a").to_pylist()


def oracle(data):
    return [row[0] for row in open_avro(data).rows]


def manifest(data):
    return [row[0] for row in open_container(data, file="f").records((RequestedField(1),))]


def planned(data):
    return [record[1] for record in planner.read_avro(data, file="f")[2]]


READERS = [data_file, oracle, manifest, planned]
OPTIONAL, LAST = ["null", "long"], ["long", "null"]
ARRAY = {"type": "array", "items": "long"}
MAP = {"type": "map", "values": "long"}

DAMAGE = {
    "branch -1": (OPTIONAL, 1, b"\x01\x04"),
    "branch -2, which counted from the end is null": (OPTIONAL, 1, b"\x03"),
    "branch 2": (OPTIONAL, 1, b"\x04\x04"),
    "branch -1 of null last": (LAST, 1, b"\x01"),
    "rest of a block": (OPTIONAL, 2, b"\x02\x02\x00\x06"),
    "fewer records than counted": ("long", 3, b"\x02\x04"),
    "boolean 2": ("boolean", 1, b"\x02"),
    "negative length of a text": ("string", 1, b"\x01"),
    "negative length of bytes": ("bytes", 1, b"\x01"),
    "text longer than its block": ("string", 1, b"\x06ab"),
    "text that is no UTF-8": ("string", 1, b"\x02\xff"),
    "number of more than ten bytes": ("long", 1, b"\xff" * 10 + b"\x01"),
    "array longer than its block": (ARRAY, 1, b"\x06\x02\x04"),
    "double that is cut": ("double", 1, bytes(7)),
    "fixed that is cut": ({"type": "fixed", "name": "f", "size": 4}, 1, bytes(3)),
    "enum symbol -1": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, 1, b"\x01"),
    "enum symbol 2": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, 1, b"\x04"),
    "key that is no UTF-8": (MAP, 1, b"\x02\x02\xff\x02\x00"),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(("type_", "count", "block"), DAMAGE.values(), ids=DAMAGE)
def test_values_that_a_type_does_not_allow(read, type_, count, block):
    with pytest.raises(ValueError if read is oracle else CorruptFileError):
        read(container(type_, count, block))


BEYOND = {
    "int of 33 bits": ("int", number(2**32)),
    "date of 33 bits": ({"type": "int", "logicalType": "date"}, number(-(2**31) - 1)),
    "long of 65 bits": ("long", b"\xfe" + b"\xff" * 8 + b"\x03"),
    "block of items that is shorter than it says": (ARRAY, b"\x01\x04\x02\x00"),
    "block of items of negative length": (ARRAY, b"\x01\x01\x02\x00"),
}


@pytest.mark.parametrize("read", [data_file, oracle])
@pytest.mark.parametrize(("type_", "block"), BEYOND.values(), ids=BEYOND)
def test_values_that_only_data_readers_check(read, type_, block):
    """In manifests, ids may exceed 64 bits, and other numbers are checked when they are used."""
    with pytest.raises(ValueError if read is oracle else CorruptFileError):
        read(container(type_, 1, block))


@pytest.mark.parametrize("read", READERS)
def test_items_in_blocks_of_a_size(read):
    assert read(container(ARRAY, 2, b"\x01\x02\x02\x02\x04\x00" + b"\x00")) == [[1, 2], []]


@pytest.mark.parametrize("read", [data_file, oracle, planned])
def test_a_record_may_be_without_bytes(read):
    assert read(container("null", 3, b"")) == [None, None, None]


def test_a_count_of_values_without_bytes_is_bounded():
    with pytest.raises(LimitError, match="empty_values"):
        data_file(container("null", 2**62, b""))
    with pytest.raises(ValueError, match="records without a byte"):
        oracle(container("null", 2**62, b""))
    for read in (manifest, planned):
        with pytest.raises(HarnessError):
            read(container("null", 2**62, b""))


PLAIN = b"\x02\x04\x06"


def deflated(data):
    return zlib.compress(data)[2:-4]


BLOCKS = {
    "snappy": lambda data: pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "deflate": deflated,
    "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("codec", BLOCKS)
def test_a_block_ends_with_its_compressed_data(read, codec):
    block = BLOCKS[codec](PLAIN)
    assert read(container("long", 3, block, codec)) == [1, 2, 3]
    for damaged in (block + b"x", block[:-1], b""):
        with pytest.raises(ValueError if read is oracle else CorruptFileError):
            read(container("long", 3, damaged, codec))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("length", range(5))
def test_bytes_that_python_writers_leave_after_deflate(read, length):
    """They cut two bytes off the start of `zlib.compress` and one off the end, or nothing."""
    block = deflated(PLAIN) + zlib.adler32(PLAIN).to_bytes(4, "big")[:length]
    assert read(container("long", 3, block, "deflate")) == [1, 2, 3]


@pytest.mark.parametrize("read", READERS)
def test_the_checksum_of_snappy_counts(read):
    block = BLOCKS["snappy"](PLAIN)
    assert block[-5:-4] == b"\x06"
    with pytest.raises(ValueError if read is oracle else CorruptFileError, match="checksum is wrong"):
        read(container("long", 3, block[:-5] + b"\x08" + block[-4:], "snappy"))
